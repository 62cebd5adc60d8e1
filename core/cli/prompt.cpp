// kernel-evolve prompt: what a node would send to its model, without sending it.
#include <cstdio>
#include <utility>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/bindings.hpp"
#include "core/cli/command.hpp"
#include "core/cli/installation.hpp"
#include "core/engine/first_step.hpp"
#include "core/llm/message.hpp"
#include "core/llm/options.hpp"

namespace kernel_evolve::cli {
namespace {

constexpr size_t kMaxStateBytes = size_t{16} << 20U;

// Whether the node's type takes a model.
bool AsksModel(const graph::Node& node) {
  const Json& properties = (*node.params_schema)["properties"];
  if (!properties.is_object()) return false;
  for (const auto& [name, schema] : properties.object()) {
    if (schema.Text("x-ke") == "model") return true;
  }
  return false;
}

Status CheckNode(const graph::Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  std::vector<std::string> asking;
  for (const graph::Node& node : graph.nodes) {
    names.push_back(node.name);
    if (AsksModel(node)) asking.push_back(node.name);
  }
  const graph::Node* found = graph.Find(name);
  if (found != nullptr && AsksModel(*found)) return {};
  if (found != nullptr) {
    return BadInput("the node '" + name + "' (" + found->uses + ") asks no model; those that do: " +
                    (asking.empty() ? "none" : Join(asking, ", ")) + ".");
  }
  const auto nearest = Nearest(name, names);
  return BadInput("the graph '" + graph.name + "' has no node '" + name + "'" +
                  (nearest ? "; did you mean '" + *nearest + "'?" : ".") +
                  " Its nodes are: " + Join(names, ", ") + ".");
}

Result<Json> ReadState(const Arguments& arguments) {
  if (!arguments.Has("--state")) return Json::Obj();
  const std::string path = arguments.Get("--state");
  const Result<std::string> text = ReadFile(path, kMaxStateBytes);
  if (!text) return text.error();
  Result<Json> state = Json::Parse(*text);
  if (!state) return BadInput("--state " + path + ": " + state.error().message);
  if (!state->is_object()) {
    return BadInput("--state " + path + " is no object of channels, such as {\"lessons\": []}");
  }
  return state;
}

// The one model call that the first step asks for.
Result<Json> ModelCallIn(const std::string& node, const Json& outcome) {
  std::vector<std::string> kinds;
  if (outcome["effects"].is_array()) {
    for (const Json& effect : outcome["effects"].array()) {
      if (effect.Text("kind") == "llm_complete") return effect;
      kinds.push_back(effect.Text("kind"));
    }
  }
  if (outcome.contains("error")) {
    return Failed(ErrorClass::kValidation,
                  "the node '" + node + "' fails at once: " + outcome["error"].Text("message"));
  }
  return BadInput("the node '" + node + "' asks no model in its first step; it " +
                  (kinds.empty() ? "is done at once" : "asks for " + Join(kinds, ", ") + " first"));
}

// The profile's sampling beneath the request's own, as the host sends it.
Status AddSampling(const std::string& alias, const ModelBinding& binding, const TypeInfo& provider,
                   Json* request) {
  if (provider.interface.Text("form") != "codec") return {};
  Json params = binding.params;
  const Result<EndpointOptions> options = TakeEndpointOptions(alias, binding.folder, &params);
  if (!options) return options.error();
  (*request)["sampling"] = MergedSampling(*options, *request);
  return {};
}

void PrintHeading(const std::string& heading) { std::printf("==== %s ====\n", heading.c_str()); }

void PrintText(const std::string& text) {
  std::printf("%s%s\n", text.c_str(), !text.empty() && text.back() == '\n' ? "" : "\n");
}

void PrintTool(const Json& tool) {
  std::printf("%s: %s\n", tool.Text("name").c_str(), tool.Text("description").c_str());
  const Json& parameters = tool["parameters"];
  std::vector<std::string> required;
  for (const Json& name :
       parameters["required"].is_array() ? parameters["required"].array() : Json::Array{}) {
    if (name.is_string()) required.push_back(name.string());
  }
  if (!parameters["properties"].is_object()) return;
  for (const auto& [name, schema] : parameters["properties"].object()) {
    bool must = false;
    for (const std::string& each : required) must = must || each == name;
    std::printf("  %s (%s%s)", name.c_str(), schema.Text("type", "any").c_str(),
                must ? "" : ", optional");
    const std::string description = schema.Text("description");
    if (!description.empty()) {
      std::printf(": %s", Join(Split(description, '\n'), "\n    ").c_str());
    }
    std::printf("\n");
  }
}

void PrintRequest(const std::string& node, const std::string& alias, const std::string& model,
                  const Json& request) {
  std::printf("node %s asks the model %s (%s), about %lld tokens\n\n", node.c_str(), alias.c_str(),
              model.c_str(), static_cast<long long>(EstimateInputTokens(request)));
  for (const Json& message : request["messages"].array()) {
    PrintHeading(message.Text("role"));
    PrintText(message.Text("content"));
    if (!message["tool_calls"].is_array()) continue;
    for (const Json& call : message["tool_calls"].array()) {
      PrintText(call.Text("name") + " " + call["arguments"].Dump());
    }
  }
  if (request["tools"].size() > 0) {
    const Json& choice = request["tool_choice"];
    PrintHeading("tools (" + (choice.is_string() ? choice.string() : choice.Dump()) + ")");
    for (const Json& tool : request["tools"].array()) PrintTool(tool);
  }
  if (request["sampling"].size() > 0) {
    std::printf("\n");
    PrintHeading("sampling");
    std::printf("%s\n", request["sampling"].Dump().c_str());
  }
}

int Run(const Arguments& arguments) {
  Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return Fail(registry.error());
  const Result<GraphFile> file = FindGraph(arguments.Get("GRAPH"));
  if (!file) return Fail(file.error());
  const Result<graph::Graph> graph = OpenGraph(*file, *registry);
  if (!graph) return Fail(graph.error());
  const std::string node = arguments.Get("NODE");
  if (Status known = CheckNode(*graph, node); !known.ok()) return Fail(known.error());
  const Result<Bindings> bindings = Bind(arguments, &*graph, *registry);
  if (!bindings) return Fail(bindings.error());

  Moment moment;
  const Result<Json> task = ReadTask(arguments.Get("--task"));
  if (!task) return Fail(task.error());
  moment.task = *task;
  const Result<Json> state = ReadState(arguments);
  if (!state) return Fail(state.error());
  moment.channels = *state;
  if (arguments.Has("--hint")) {
    Json hints = Json::Arr();
    for (const std::string& hint : arguments.All("--hint")) hints.push_back(hint);
    moment.inputs["hints"] = std::move(hints);
  }

  RegistryFactory factory(*registry);
  SystemClock clock;
  const Result<Json> outcome = FirstStep(*graph, node, moment, factory, clock);
  if (!outcome) {
    Error error = outcome.error();
    if (!arguments.Has("--state")) error.message += "; --state FILE.json gives channels a value";
    return Fail(error);
  }
  const Result<Json> effect = ModelCallIn(node, *outcome);
  if (!effect) return Fail(effect.error());
  Json request = (*effect)["request"];
  if (Status sound = CheckRequest(request); !sound.ok()) return Fail(sound.error());
  // A structured copy of the messages, for providers that are no service.
  if (request.is_object()) request.object().erase("context");
  const std::string alias = effect->Text("model");
  const ModelBinding& binding = bindings->models.at(alias);
  const TypeInfo* provider = registry->Find(TypeKind::kProvider, binding.provider);
  if (Status added = AddSampling(alias, binding, *provider, &request); !added.ok()) {
    return Fail(added.error());
  }
  if (arguments.Has("--json")) {
    std::printf("%s\n", request.Dump(2).c_str());
    return kExitOk;
  }
  const std::string model = binding.params.Text("model");
  PrintRequest(node, alias, binding.provider + (model.empty() ? "" : ":" + model), request);
  return kExitOk;
}

const Registration kThis(
    {"prompt", "Shows what a node of a graph would send to its model, without sending it",
     WithPluginOptions(WithModelOptions(
         {{"GRAPH", "", "Graph file, or name of an installed one", true},
          {"NODE", "", "A node of it that asks a model", true},
          {"--task", "FILE", "Python file with Model, get_inputs, get_init_inputs", true},
          {"--state", "FILE", "JSON object with the values of channels; default: none has one"},
          {"--hint", "TEXT", "Free text for the author; may be repeated", false, true},
          {"--json", "", "Print the request as JSON"}})),
     Run});

}  // namespace
}  // namespace kernel_evolve::cli
