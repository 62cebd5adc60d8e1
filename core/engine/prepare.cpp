#include "core/engine/prepare.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "core/base/text.hpp"
#include "core/graph/profile.hpp"
#include "core/plugin/schema.hpp"

namespace kernel_evolve::internal {
namespace {

constexpr uint64_t kSeedLimit = uint64_t{1} << 53U;

Error Within(const std::string& where, const Error& error) {
  return {error.error_class, where + ": " + error.message, error.exit_code};
}

Json ContextOf(const std::filesystem::path& scratch, uint64_t seed) {
  return Json::Obj({{"scratch_dir", scratch.string()}, {"seed", static_cast<int64_t>(seed)}});
}

// The task is also the value of the graph's input of type task, when it has exactly one.
Result<Json> BindTask(const RunSpec& spec) {
  Json inputs = spec.inputs.is_null() ? Json::Obj() : spec.inputs;
  std::vector<std::string> tasks;
  for (const auto& [name, input] : spec.graph->inputs) {
    if (input.type == graph::ValueType::kTask) tasks.push_back(name);
  }
  if (spec.task && tasks.size() == 1 && !inputs.contains(tasks[0])) inputs[tasks[0]] = *spec.task;
  return graph::BindInputs(*spec.graph, inputs);
}

Result<ResultRules> RulesOf(const TypeInfo& type) {
  ResultRules rules;
  const Json& fields = type.interface["result"];
  if (fields.is_object()) {
    for (const auto& [name, kind] : fields.object()) {
      const auto parsed = graph::ParseValueType(kind.is_string() ? kind.string() : "");
      if (!parsed) {
        return MissingEnvironment("the plugin " + type.plugin_id + " declares the result '" + name +
                                  "' of " + type.name + " with the unknown type " + kind.Dump());
      }
      rules.fields[name] = *parsed;
    }
  }
  const Json& labels = type.interface["labels"];
  if (labels.is_array()) {
    for (const Json& label : labels.array()) {
      if (label.is_string()) rules.labels.push_back(label.string());
    }
  }
  return rules;
}

Result<std::optional<Price>> PriceOf(const std::string& alias, const Json& given) {
  if (given.is_null()) return std::optional<Price>();
  Price price;
  const Json& unit = given["unit"];
  if (unit.is_string()) price.unit = static_cast<double>(ParseCount(unit.string()).value_or(0));
  if (unit.is_number()) price.unit = unit.number();
  price.input = given.Number("input");
  price.output = given.Number("output");
  if (!given.is_object() || price.unit <= 0 || price.input < 0 || price.output < 0) {
    return BadInput("the price of the model '" + alias +
                    "' is wrong; write {input: 0.4, output: 1.2, unit: 1M}");
  }
  return std::optional<Price>(price);
}

std::set<std::string> SecretsOf(const Json& params) {
  const std::vector<std::string> names = graph::EnvironmentNames(params);
  return {names.begin(), names.end()};
}

// Files that a profile names are looked up beside it.
void ResolveFiles(const Json& schema, const std::filesystem::path& folder, Json* params) {
  const Json& properties = schema["properties"];
  if (folder.empty() || !params->is_object() || !properties.is_object()) return;
  for (auto& [key, value] : params->object()) {
    const bool is_file = properties[key].Text("x-ke") == "file";
    if (is_file && value.is_string()) value = (folder / value.string()).string();
  }
}

bool IsCodec(const TypeInfo& type) { return type.interface.Text("form") == "codec"; }

Status Try(const TypeInfo& type, const Json& config, const std::set<std::string>& secrets,
           const std::string& where, InstanceFactory& factory, Clock& clock) {
  auto handles = std::make_shared<RunHandles>();
  handles->clock = &clock;
  handles->mailbox = std::make_shared<Mailbox>();
  const auto host = std::make_shared<InstanceHost>(handles, Json::Obj(), secrets);
  if (IsCodec(type)) {
    auto made = factory.CreateCodec(type, config, host);
    return made ? Status() : Status(Within(where, made.error()));
  }
  auto made = factory.Create(type, config, host);
  return made ? Status() : Status(Within(where, made.error()));
}

Status CheckNeeds(const graph::ModelDecl& model, const BoundModel& bound) {
  for (const std::string& need : model.needs) {
    const auto& has = bound.capabilities;
    if (std::count(has.begin(), has.end(), need) > 0) continue;
    const bool in_profile = bound.service.endpoint && bound.service.endpoint->capabilities;
    return BadInput("the model '" + model.name + "' needs '" + need + "', which " +
                    (in_profile ? "its entry in the profile (capabilities) leaves out"
                                : "the provider '" + bound.service.type->name + "' cannot do") +
                    "; bind it to another one");
  }
  return {};
}

// A secret that is missing would only be noticed at the first call, after the task was tried.
Status CheckSecrets(const std::string& alias, const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): never set
    if (value != nullptr && *value != '\0') continue;
    Error error =
        Failed(ErrorClass::kAuth, "the model '" + alias + "' needs the environment variable " +
                                      name + ", which is not set; set it and run again");
    error.exit_code = kExitEnvironment;
    return error;
  }
  return {};
}

Status BindModels(const RunSpec& spec, InstanceFactory& factory, Clock& clock, Prepared* out) {
  for (const auto& [alias, declared] : spec.graph->models) {
    const auto binding = spec.models.find(alias);
    if (binding == spec.models.end()) {
      return BadInput("the graph's model '" + alias +
                      "' is bound to nothing; name a provider for it in the profile");
    }
    Result<BoundModel> bound =
        BindModel(alias, binding->second, out->bindings.context, factory, clock);
    if (!bound) return bound.error();
    Status needs = CheckNeeds(declared, *bound);
    if (!needs.ok()) return needs;
    out->plan.models[alias] = bound->terms;
    out->bindings.models[alias] = std::move(bound->service);
  }
  return {};
}

Status BindNodes(const RunSpec& spec, InstanceFactory& factory, Clock& clock, Prepared* out) {
  for (const graph::Node& node : spec.graph->nodes) {
    const TypeInfo* type = factory.Find(TypeKind::kNode, node.uses);
    if (type == nullptr) {
      return BadInput("the node '" + node.name + "' uses '" + node.uses +
                      "', which no plugin offers");
    }
    Result<ResultRules> rules = RulesOf(*type);
    if (!rules) return rules.error();
    out->plan.results[node.uses] = std::move(*rules);
    out->bindings.nodes[node.uses] = type;
    if (!node.with.constant()) continue;
    const std::string where =
        "node '" + node.name + "' (line " + std::to_string(node.pos.line) + ")";
    Result<Json> params = graph::EvaluateWith(node, Json::Obj());
    if (!params) return Within(where, params.error());
    Status tried = Try(*type, ConfigFor(*type, std::move(*params), out->bindings.context), {},
                       where, factory, clock);
    if (!tried.ok()) return tried;
  }
  return {};
}

}  // namespace

Result<BoundModel> BindModel(const std::string& alias, const ModelBinding& binding,
                             const Json& context, InstanceFactory& factory, Clock& clock) {
  BoundModel out;
  const TypeInfo* type = factory.Find(TypeKind::kProvider, binding.provider);
  if (type == nullptr) {
    return BadInput("the model '" + alias + "' is bound to the provider '" + binding.provider +
                    "', which no plugin offers");
  }
  Json params = binding.params.is_null() ? Json::Obj() : binding.params;
  if (!type->params_schema["properties"].contains("price")) {
    Result<std::optional<Price>> price = PriceOf(alias, std::as_const(params)["price"]);
    if (!price) return price.error();
    out.terms.price = *price;
    if (params.is_object()) params.object().erase("price");
  }
  ResolveFiles(type->params_schema, binding.folder, &params);
  out.service.type = type;
  const Json& declared = type->interface["capabilities"];
  if (declared.is_array()) {
    for (const Json& name : declared.array()) out.capabilities.push_back(name.string());
  }
  out.service.secrets = SecretsOf(params);
  if (IsCodec(*type)) {
    Result<EndpointOptions> endpoint = TakeEndpointOptions(alias, binding.folder, &params);
    if (!endpoint) return endpoint.error();
    if (endpoint->capabilities) out.capabilities = *endpoint->capabilities;
    const Json& longest = std::as_const(endpoint->sampling)["max_tokens"];
    if (longest.is_integer()) out.terms.max_tokens = longest.integer();
    out.service.endpoint = std::make_shared<const EndpointOptions>(std::move(*endpoint));
  }
  // A default may name a secret, too. What does not fit is told by Try.
  const Result<Json> complete = ApplyParamsSchema(type->params_schema, params);
  if (complete) out.service.secrets.merge(SecretsOf(*complete));
  out.service.config = ConfigFor(*type, std::move(params), context);
  Status tried = Try(*type, out.service.config, out.service.secrets, "the model '" + alias + "'",
                     factory, clock);
  if (!tried.ok()) return tried.error();
  if (Status set = CheckSecrets(alias, out.service.secrets); !set.ok()) return set.error();
  return out;
}

Result<BoundService> BindEvaluator(const EvaluatorBinding& binding, const Json& context,
                                   InstanceFactory& factory) {
  const TypeInfo* type = factory.Find(TypeKind::kEvaluator, binding.evaluator);
  if (type == nullptr) {
    return BadInput("no plugin offers an evaluator called '" + binding.evaluator + "'");
  }
  BoundService service;
  service.type = type;
  service.secrets = SecretsOf(binding.params);
  service.config =
      ConfigFor(*type, binding.params.is_null() ? Json::Obj() : binding.params, context);
  return service;
}

Result<Prepared> Prepare(const RunSpec& spec, InstanceFactory& factory, Clock& clock) {
  if (spec.seed >= kSeedLimit) {
    return BadInput("the seed " + std::to_string(spec.seed) +
                    " is too large; it must be below 2^53");
  }
  Prepared out;
  Result<Json> inputs = BindTask(spec);
  if (!inputs) return inputs.error();
  out.plan.graph = spec.graph;
  out.plan.run_id = spec.run_dir.filename().string();
  out.plan.seed = spec.seed;
  out.plan.inputs = std::move(*inputs);
  if (spec.task) out.plan.task = *spec.task;
  out.plan.limits = Override(spec.graph->budget, spec.budget_override);
  out.bindings.scratch = spec.run_dir / "scratch";
  out.bindings.context = ContextOf(out.bindings.scratch, spec.seed);
  if (Status bound = BindModels(spec, factory, clock, &out); !bound.ok()) return bound.error();
  if (!spec.evaluator.evaluator.empty()) {
    Result<BoundService> evaluator = BindEvaluator(spec.evaluator, out.bindings.context, factory);
    if (!evaluator) return evaluator.error();
    Status tried = Try(*evaluator->type, evaluator->config, evaluator->secrets,
                       "the evaluator '" + spec.evaluator.evaluator + "'", factory, clock);
    if (!tried.ok()) return tried.error();
    out.bindings.evaluator = std::move(*evaluator);
  }
  if (Status bound = BindNodes(spec, factory, clock, &out); !bound.ok()) return bound.error();
  return out;
}

Json DescribeRun(const RunSpec& spec, const Prepared& prepared, Clock& clock) {
  std::map<std::string, const TypeInfo*> libraries;
  const auto note = [&libraries](const TypeInfo* type) {
    if (type != nullptr) libraries[type->plugin_id] = type;
  };
  Json models = Json::Obj();
  for (const auto& [name, type] : prepared.bindings.nodes) note(type);
  for (const auto& [alias, service] : prepared.bindings.models) {
    note(service.type);
    models[alias] = service.type->name;
  }
  note(prepared.bindings.evaluator.type);
  Json plugins = Json::Arr();
  for (const auto& [id, type] : libraries) {
    plugins.push_back(
        Json::Obj({{"id", id}, {"version", type->plugin_version}, {"hash", type->library_hash}}));
  }
  const Plan& plan = prepared.plan;
  return Json::Obj({{"run", plan.run_id},
                    {"started_at", clock.Unix()},
                    {"graph", Json::Obj({{"name", plan.graph->name},
                                         {"path", plan.graph->path},
                                         {"hash", plan.graph->hash},
                                         {"source", plan.graph->source}})},
                    {"task", plan.task},
                    {"task_hash", plan.task.is_null() ? "" : Sha256Hex(plan.task.Text("source"))},
                    {"plugins", std::move(plugins)},
                    {"models", std::move(models)},
                    {"evaluator", spec.evaluator.evaluator},
                    {"seed", static_cast<int64_t>(plan.seed)},
                    {"inputs", plan.inputs},
                    {"limits", Ledger(plan.limits).Limits()}});
}

}  // namespace kernel_evolve::internal
