#include "tests/engine/support.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/text.hpp"
#include "core/plugin/outcome.hpp"
#include "core/plugin/schema.hpp"

namespace kernel_evolve::test {
namespace {

graph::ValueType TypeNamed(const std::string& name) {
  const auto type = graph::ParseValueType(name);
  EXPECT_TRUE(type) << "the script has the unknown type " << name;
  return type.value_or(graph::ValueType::kObject);
}

std::vector<graph::Port> PortsOf(const Json& ports) {
  std::vector<graph::Port> out;
  if (!ports.is_array()) return out;
  for (const Json& port : ports.array()) {
    out.push_back({port.Text("name"), TypeNamed(port.Text("type")), port.Flag("required", true)});
  }
  return out;
}

const Json& Nth(const Json& list, int64_t n) {
  static const Json nothing = Json::Arr();
  if (!list.is_array() || list.size() == 0) return nothing;
  return list.array()[static_cast<size_t>(
      std::clamp<int64_t>(n - 1, 0, static_cast<int64_t>(list.size()) - 1))];
}

std::string Place(const Json& event) {
  std::string text = event.Text("node") + "#" + std::to_string(event.Integer("visit"));
  if (event.contains("sequence")) text += "." + std::to_string(event.Integer("sequence"));
  return text;
}

std::string LineFor(const Json& event) {
  const std::string name = event.Text("event");
  if (name == "run_started") return "run_started " + event.Text("graph");
  if (name == "run_finished") {
    return "run_finished " + event.Text("status") + ": " + event.Text("reason");
  }
  if (name == "budget") return "budget left " + event["left"].Dump();
  std::string line = name + " " + Place(event);
  if (name == "node_finished")
    return line + " " + event["result"].Dump() + " -> " + event.Text("to");
  if (name == "node_failed") return line + " " + event.Text("class") + ": " + event.Text("message");
  if (name == "progress") return line + " " + event["data"].Dump();
  if (name == "effect_started" || name == "effect_finished" || name == "effect_reused") {
    line += " " + event.Text("kind");
    for (const char* member : {"model", "asked", "candidate", "function"}) {
      if (event.contains(member)) line += " " + event.Text(member);
    }
  }
  if (name == "effect_finished" && !event.Flag("ok")) {
    line += " " + event["error"].Text("class") + ": " + event["error"].Text("message");
  }
  return line;
}

}  // namespace

// Only says which provider it belongs to: the scripted port answers.
class NamedCodec : public Codec {
 public:
  explicit NamedCodec(std::string name) : name_(std::move(name)) {}
  Result<EncodedRequest> Encode(const Json& /*request*/) override {
    return EncodedRequest{"POST", name_, {}, ""};
  }
  Status Begin(const Json& /*head*/) override { return {}; }
  Status Feed(std::string_view /*bytes*/, std::string* /*events*/) override { return {}; }
  Result<Json> Finish(bool /*complete*/) override { return Json(); }

 private:
  const std::string name_;
};

// An instance that answers as its script says.
class Scripted : public Instance {
 public:
  Scripted(World& world, const TypeInfo& type, std::shared_ptr<HostServices> services)
      : world_(world), type_(type), services_(std::move(services)) {
    const std::lock_guard<std::mutex> lock(world_.mutex_);
    ++world_.created;
    ++world_.alive;
  }
  ~Scripted() override {
    const std::lock_guard<std::mutex> lock(world_.mutex_);
    --world_.alive;
  }

  Result<Json> Step(const Json& event) override {
    if (event.Text("type") == "start") Begin(event);
    Log(event);
    if (next_ >= steps_.size()) {
      return Failed(ErrorClass::kInternal, "the script of " + type_.name + " has no such step");
    }
    Json outcome = steps_.array()[next_++];
    Perform(std::as_const(outcome)["do"]);
    outcome.object().erase("do");
    if (Status fits = CheckOutcome(type_.kind, outcome); !fits.ok()) return fits.error();
    return outcome;
  }

 private:
  void Begin(const Json& event) {
    const char* kind = type_.kind == TypeKind::kNode       ? "nodes"
                       : type_.kind == TypeKind::kProvider ? "providers"
                                                           : "evaluators";
    const Json& script = std::as_const(world_.script_)[kind][type_.name];
    if (type_.kind == TypeKind::kNode) steps_ = Nth(script["visits"], event.Integer("visit"));
    if (type_.kind == TypeKind::kProvider) steps_ = Nth(script["calls"], event.Integer("call") + 1);
    if (type_.kind == TypeKind::kEvaluator) {
      steps_ = script["codes"][event["request"]["candidate"].Text("code")];
    }
    name_ = type_.kind == TypeKind::kNode ? Place(event) : type_.name;
  }

  void Log(const Json& event) {
    std::string line = "step " + name_;
    if (event.Text("type") == "results") {
      line += " results " + event["results"].Dump();
    } else if (type_.kind == TypeKind::kNode) {
      line += " in=" + event["in"].Dump() + " with=" + event["with"].Dump();
    } else if (type_.kind == TypeKind::kProvider) {
      line += " call " + std::to_string(event.Integer("call") + 1);
    } else {
      line += " " + event["request"].Text("asked") + " " + event["request"]["candidate"].Text("id");
      const Json& compiled = event["request"]["compiled"];
      if (compiled.is_object()) line += " compiled=" + compiled.Dump();
    }
    world_.trace.Add(line);
  }

  void Perform(const Json& work) {
    if (work.contains("advance")) world_.clock.Advance(work.Number("advance"));
    if (work.contains("progress")) services_->Progress(work["progress"]);
    if (work.contains("usage")) services_->ReportUsage(work["usage"]);
    if (work.Flag("interrupt")) world_.interrupted = true;
    if (work.Flag("wait_until_cancelled")) {
      while (!services_->Cancelled()) std::this_thread::yield();
    }
  }

  World& world_;
  const TypeInfo& type_;
  std::shared_ptr<HostServices> services_;
  Json steps_ = Json::Arr();
  size_t next_ = 0;
  std::string name_;
};

void Trace::Add(std::string line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lines_.push_back(std::move(line));
}

std::vector<std::string> Trace::lines() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lines_;
}

std::string Trace::text() const {
  std::string out;
  for (const std::string& line : lines()) out += line + "\n";
  return out;
}

int Trace::Count(const std::string& part) const {
  const std::vector<std::string> all = lines();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&part](const std::string& line) {
    return line.find(part) != std::string::npos;
  }));
}

bool Trace::Has(const std::string& part) const { return Count(part) > 0; }

void FakeClock::Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                     double until, bool quiet, const std::function<bool()>& ready) {
  if (ready()) return;
  if (quiet && std::isfinite(until)) {
    now_.store(std::max(now_.load(), until));
    return;
  }
  // Something of ours is at work, or there is nothing to wait for but another thread.
  condition.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(5),
                       ready);
}

World::World(const std::string& script) : script_(J(script)) {
  const std::pair<const char*, TypeKind> kinds[] = {{"nodes", TypeKind::kNode},
                                                    {"providers", TypeKind::kProvider},
                                                    {"evaluators", TypeKind::kEvaluator}};
  for (const auto& [key, kind] : kinds) {
    const Json& types = std::as_const(script_)[key];
    if (!types.is_object()) continue;
    for (const auto& [name, each] : types.object()) Declare(kind, name, each);
  }
}

World::~World() {
  for (std::thread& thread : threads_) thread.join();
}

void World::Declare(TypeKind kind, const std::string& name, const Json& script) {
  TypeInfo& type = types_[{kind, name}];
  type.kind = kind;
  type.name = name;
  type.plugin_id = "scripted";
  type.plugin_version = "1.0.0";
  type.library = "/plugins/scripted/scripted.so";
  type.library_hash = "00";
  type.params_schema = script["params"].is_object() ? script["params"]
                                                    : J(R"({"type": "object", "properties": {}})");
  type.interface = Json::Obj({{"blocking", script.Flag("blocking")}});
  if (kind == TypeKind::kNode) {
    type.interface["ports"] = Json::Obj({{"in", script["in"]}, {"out", script["out"]}});
    type.interface["result"] = script["result"];
    type.interface["labels"] = script["labels"];
  }
  if (kind == TypeKind::kProvider) {
    type.interface["capabilities"] = script["capabilities"];
    if (script.contains("replies")) type.interface["form"] = "codec";
  }
  if (kind == TypeKind::kEvaluator) type.interface["class"] = "modelled";
}

const TypeInfo* World::Find(TypeKind kind, const std::string& name) {
  const auto found = types_.find({kind, name});
  return found == types_.end() ? nullptr : &found->second;
}

Result<std::unique_ptr<Instance>> World::Create(const TypeInfo& type, const Json& config,
                                                std::shared_ptr<HostServices> services) {
  Result<Json> params = ApplyParamsSchema(type.params_schema, config["params"]);
  if (!params) return params.error();
  const char* kind = type.kind == TypeKind::kNode ? "nodes" : "providers";
  const std::string refusal = std::as_const(script_)[kind][type.name].Text("refuse");
  if (!refusal.empty()) return BadInput(refusal);
  return std::unique_ptr<Instance>(new Scripted(*this, type, std::move(services)));
}

int64_t World::Call(WorkerCall call, Worker::Done done, Worker::Progress progress) {
  const std::string function = call.module + "." + call.function;
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t id = ++last_call_;
  worker_calls[function] = std::move(call);
  const Json& answer = std::as_const(script_)["worker"][function];
  if (answer == Json("hang")) {
    hanging_[id] = std::move(done);
    return id;
  }
  Result<WorkerReply> reply = Failed(ErrorClass::kInternal, "no script for " + function);
  if (answer.contains("ok")) {
    WorkerReply value;
    value.value = answer["ok"];
    reply = std::move(value);
  } else if (answer.contains("error")) {
    reply = ErrorOf(answer);
  }
  auto work = [done = std::move(done), progress = std::move(progress), reply] {
    if (progress) progress(Json::Obj({{"text", "working"}}));
    done(reply);
  };
  if (answer_on_threads) {
    threads_.emplace_back(std::move(work));
  } else {
    work();
  }
  return id;
}

Result<std::unique_ptr<Codec>> World::CreateCodec(const TypeInfo& type, const Json& config,
                                                  std::shared_ptr<HostServices> /*services*/) {
  Result<Json> params = ApplyParamsSchema(type.params_schema, config["params"]);
  if (!params) return params.error();
  return std::unique_ptr<Codec>(std::make_unique<NamedCodec>(type.name));
}

int64_t World::Call(ModelCall call, ModelClient::Done done, ModelClient::Progress progress) {
  const std::string provider = call.codec->Encode(call.request)->url;
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t id = ++last_call_;
  const Json& replies = std::as_const(script_)["providers"][provider]["replies"];
  const Json reply = Nth(replies, static_cast<int64_t>(model_calls.size()) + 1);
  model_calls.push_back(std::move(call));
  if (progress) progress(Json::Obj({{"text", "receiving"}}));
  if (reply == Json("hang")) {
    hanging_[id] = [done = std::move(done)](const Result<WorkerReply>& cancelled) {
      done({cancelled.error(), Json::Obj()});
    };
    return id;
  }
  Result<Json> response = reply.contains("ok") ? Result<Json>(reply["ok"]) : ErrorOf(reply);
  threads_.emplace_back([done = std::move(done), response, took = reply["call"]] {
    done({response, took});
  });
  return id;
}

void World::Cancel(int64_t id) {
  Worker::Done done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = hanging_.find(id);
    if (found == hanging_.end()) return;
    done = std::move(found->second);
    hanging_.erase(found);
  }
  done(Failed(ErrorClass::kCancelled, "the call was cancelled"));
}

void World::OnEvent(const Json& event) { trace.Add(LineFor(event)); }

graph::NodeTypeCatalog World::Catalog() const {
  graph::NodeTypeCatalog catalog;
  for (const auto& [key, type] : types_) {
    if (type.kind != TypeKind::kNode) continue;
    graph::NodeTypeInfo info;
    info.name = type.name;
    info.params_schema = type.params_schema;
    info.in = PortsOf(type.interface["ports"]["in"]);
    info.out = PortsOf(type.interface["ports"]["out"]);
    if (type.interface["result"].is_object()) {
      for (const auto& [name, value] : type.interface["result"].object()) {
        info.result[name] = TypeNamed(value.string());
      }
    }
    if (type.interface["labels"].is_array()) {
      for (const Json& label : type.interface["labels"].array()) {
        info.labels.push_back(label.string());
      }
    }
    catalog[info.name] = std::move(info);
  }
  return catalog;
}

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "engine_test.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make a folder like " << name;
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

graph::Graph Load(const std::string& yaml, const World& world) {
  const std::filesystem::path root = std::filesystem::temp_directory_path();
  graph::LoadedGraph loaded = graph::LoadGraphText(yaml, "test.yaml", root, world.Catalog());
  for (const Diagnostic& each : loaded.diagnostics) {
    ADD_FAILURE() << FormatDiagnostic(each, loaded.source);
  }
  return loaded.graph ? std::move(*loaded.graph) : graph::Graph();
}

RunSpec SpecFor(const graph::Graph& graph, World& world, const std::filesystem::path& run_dir) {
  RunSpec spec;
  spec.graph = &graph;
  spec.run_dir = run_dir;
  spec.seed = 7;
  if (world.Find(TypeKind::kProvider, "fake") != nullptr) {
    for (const auto& [alias, model] : graph.models) spec.models[alias].provider = "fake";
  }
  if (world.Find(TypeKind::kEvaluator, "fake") != nullptr) spec.evaluator.evaluator = "fake";
  return spec;
}

RunOutcome RunIn(const RunSpec& spec, World& world) {
  return Execute(spec, world.outside(), world, world.interrupted);
}

Json J(const std::string& text) {
  Result<Json> value = Json::Parse(text);
  EXPECT_TRUE(value.ok()) << value.error().message << " in " << text;
  return value.ok() ? std::move(*value) : Json();
}

}  // namespace kernel_evolve::test
