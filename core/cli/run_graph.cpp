#include "core/cli/run_graph.hpp"

#include <cstdio>
#include <ctime>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/bindings.hpp"
#include "core/cli/installation.hpp"
#include "core/engine/cassette.hpp"
#include "core/engine/journal.hpp"
#include "core/engine/once.hpp"
#include "core/report/answer.hpp"
#include "core/report/progress.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

// "runs/diag_matmul-20260102-150405", with "-2" and so on when that is taken.
fs::path FreshFolder(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  const fs::path wanted = fs::path("runs") / (name + "-" + stamp);
  fs::path folder = wanted;
  for (int i = 2; fs::exists(folder); ++i) folder = wanted.string() + "-" + std::to_string(i);
  return folder;
}

Result<fs::path> RunFolder(const Arguments& arguments, const RunRequest& request,
                           const graph::Graph& graph) {
  const std::string name = request.task ? request.task->Text("name") : graph.name;
  const fs::path folder =
      arguments.Has("--out") ? fs::path(arguments.Get("--out")) : FreshFolder(name);
  if (fs::exists(folder) && !fs::is_directory(folder)) {
    return BadInput("--out " + folder.string() + " is a file; give a folder for the run");
  }
  if (fs::exists(folder / "journal.db")) {
    return BadInput("--out " + folder.string() +
                    " holds a run already; give another folder, or remove that one");
  }
  std::error_code failed;
  return fs::absolute(folder, failed).lexically_normal();
}

// `--input name=value`: a value that is JSON of another type than text is taken as such.
Status AddInputs(const Arguments& arguments, const graph::Graph& graph, Json* inputs) {
  for (const std::string& entry : arguments.All("--input")) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return BadInput("--input " + entry + ": write name=value");
    }
    const std::string name = entry.substr(0, equals);
    const std::string text = entry.substr(equals + 1);
    const auto declared = graph.inputs.find(name);
    const bool is_text =
        declared != graph.inputs.end() && declared->second.type == graph::ValueType::kString;
    const Result<Json> parsed = Json::Parse(text);
    (*inputs)[name] = parsed.ok() && !is_text ? *parsed : Json(text);
  }
  return {};
}

void PrintAnswer(const Answer& answer, const RunOutcome& outcome, const fs::path& folder) {
  std::string reason = answer.reason;
  if (!reason.empty() && reason.back() != '.') reason += ".";
  std::printf("\n%s: %s\n", answer.success ? "Success" : "No success", reason.c_str());
  if (fs::exists(folder / "verdict.json")) {
    std::printf("  best candidate  %s\n  verdict         %s\n", (folder / "best.py").c_str(),
                (folder / "verdict.json").c_str());
  }
  std::printf("  journal         %s\n", (folder / "journal.db").c_str());
  const Json& usage = outcome.usage;
  std::printf("  used            %s, %lld model calls, %lld evaluations\n",
              FormatSeconds(usage.Number("wall")).c_str(),
              static_cast<long long>(usage.Number("llm_calls")),
              static_cast<long long>(usage.Number("evaluations")));
  if (!usage["models"].is_object()) return;
  for (const auto& [alias, use] : usage["models"].object()) {
    std::printf("  %-15s %s\n", alias.c_str(), UsageLine(use).c_str());
  }
}

// "openai:my-model"
std::string NameOf(const ModelBinding& model) {
  const std::string name = model.params.Text("model");
  return name.empty() || model.provider == "replay" ? model.provider : model.provider + ":" + name;
}

// A file that cannot be written must not be noticed after the run.
Status CheckRecord(const Arguments& arguments) {
  if (!arguments.Has("--record")) return {};
  std::error_code failed;
  const fs::path file = fs::absolute(arguments.Get("--record"), failed);
  if (!fs::is_directory(file.parent_path(), failed) || fs::is_directory(file, failed)) {
    return BadInput("--record " + file.string() +
                    " cannot be written; give a file in a folder "
                    "that is there");
  }
  return {};
}

// What the run's model calls were, for --replay. Also of a run that failed: that is when one looks.
Status Record(const Arguments& arguments, const fs::path& folder) {
  if (!arguments.Has("--record")) return {};
  const fs::path journal = folder / kJournalName;
  if (!fs::exists(journal)) return {};
  const Result<Json> cassette = CassetteOf(journal);
  if (!cassette) return cassette.error();
  return WriteFileAtomically(arguments.Get("--record"), cassette->Dump(1) + "\n");
}

// The graph's inputs as they will be bound, the task included: a typo must not cost a trial.
Status CheckInputs(const graph::Graph& graph, const RunRequest& request) {
  Json given = request.inputs;
  bool takes_task = false;
  for (const auto& [name, input] : graph.inputs) {
    if (input.type != graph::ValueType::kTask) continue;
    takes_task = true;
    if (request.task && !given.contains(name)) given[name] = *request.task;
  }
  if (request.task && !takes_task) {
    return BadInput("the graph '" + graph.name + "' takes no task");
  }
  const Result<Json> bound = graph::BindInputs(graph, given);
  return bound.ok() ? Status() : Status(bound.error());
}

// Has the evaluator try the task itself, where it can, before any model is asked: a task that is
// random or broken must not cost anything. What it learns stays in the worker's session.
Status TryTask(const RunSpec& spec, Registry& registry, WorkerPool& workers,
               RunObserver& progress) {
  const TypeInfo* type = registry.Find(TypeKind::kEvaluator, spec.evaluator.evaluator);
  if (!spec.task || !type->interface.Flag("tries_tasks")) return {};
  std::error_code failed;
  const fs::path parent = spec.run_dir.parent_path();
  const bool had_folder = fs::exists(spec.run_dir, failed);
  const bool had_parent = fs::exists(parent, failed);
  Result<Json> verdict =
      EvaluateOnce(spec.evaluator, *spec.task, Json::Obj(), "task", spec.seed, registry, workers,
                   progress, spec.run_dir / "scratch", Interrupted());
  if (verdict.ok()) {
    std::fprintf(stderr, "        %s\n", verdict->Text("reason").c_str());
    return {};
  }
  // Nothing began: leave nothing behind.
  if (!had_folder) fs::remove_all(spec.run_dir, failed);
  if (!had_parent) fs::remove(parent, failed);
  Error error = verdict.error();
  if (error.error_class == ErrorClass::kValidation) error.exit_code = kExitBadInput;
  if (error.error_class == ErrorClass::kTimeout) {
    error.message = "the task did not come to an end: " + error.message;
    error.exit_code = kExitBadInput;
  }
  return error;
}

// The whole report on one stream, for programs.
int Finish(const Arguments& arguments, const RunOutcome& outcome, const fs::path& folder,
           Json about) {
  const Answer answer = AnswerOf(outcome);
  if (!fs::is_directory(folder)) {
    // Refused before anything began: no folder, no journal.
    std::fprintf(stderr, "kernel-evolve: %s\n", answer.reason.c_str());
    return answer.exit_code;
  }
  about["folder"] = folder.string();
  const Status recorded = Record(arguments, folder);
  const Status wrote = WriteRunFolder(folder, outcome, answer, about);
  for (const Status& status : {wrote, recorded}) {
    if (!status.ok()) std::fprintf(stderr, "kernel-evolve: %s\n", status.error().message.c_str());
  }
  if (arguments.Has("--json")) {
    std::printf("%s\n", ReportOf(outcome, answer, about).Dump(2).c_str());
  } else {
    PrintAnswer(answer, outcome, folder);
  }
  if (!answer.success) std::fprintf(stderr, "kernel-evolve: %s\n", answer.reason.c_str());
  if (outcome.status == "parked") {
    std::fprintf(stderr,
                 "kernel-evolve: the run is parked; make room and start it again with another "
                 "--out, what was judged so far is in %s\n",
                 folder.c_str());
  }
  return wrote.ok() && recorded.ok() ? answer.exit_code : kExitEnvironment;
}

}  // namespace

std::vector<Option> WithRunOptions(std::vector<Option> options) {
  const std::vector<Option> shared = {
      {"--out", "DIR", "The run folder; default: runs/<task>-<time>"},
      {"--budget", "LIMITS", "For example wall=10m,evaluations=40"},
      {"--seed", "N", "Seed of every random choice; default: drawn"},
      {"--input", "NAME=VALUE", "Sets an input of the graph", false, true},
      {"--record", "FILE", "Writes the run's model calls to a file for --replay"},
      {"--python", "FILE", "Python with PyTorch and Triton for the worker"},
      {"--json", "", "Print the report as JSON on standard output"}};
  options.insert(options.end(), shared.begin(), shared.end());
  return WithPluginOptions(WithModelOptions(std::move(options)));
}

int RunGraph(const Arguments& arguments, RunRequest request) {
  Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return Fail(registry.error());
  const Result<GraphFile> file = FindGraph(request.graph);
  if (!file) return Fail(file.error());
  const Result<graph::Graph> graph = OpenGraph(*file, *registry);
  if (!graph) return Fail(graph.error());
  const Result<graph::Budget> budget = ParseBudget(arguments.Get("--budget"));
  if (!budget) return Fail(budget.error());
  const Result<Bindings> bindings = Bind(arguments, &*graph, *registry);
  if (!bindings) return Fail(bindings.error());
  const Result<uint64_t> seed = SeedFrom(arguments, bindings->seed);
  if (!seed) return Fail(seed.error());
  const Status added = AddInputs(arguments, *graph, &request.inputs);
  if (!added.ok()) return Fail(added.error());
  const Status fits = CheckInputs(*graph, request);
  if (!fits.ok()) return Fail(fits.error());
  const Result<fs::path> folder = RunFolder(arguments, request, *graph);
  if (!folder) return Fail(folder.error());
  if (const Status fits_in = CheckRecord(arguments); !fits_in.ok()) return Fail(fits_in.error());
  const Result<std::vector<WorkerOptions>> options = WorkersFor(arguments, bindings->launch);
  if (!options) return Fail(options.error());

  RunSpec spec;
  spec.graph = &*graph;
  spec.inputs = request.inputs;
  spec.task = request.task;
  spec.run_dir = *folder;
  spec.seed = *seed;
  spec.budget_override = *budget;
  spec.models = bindings->models;
  spec.evaluator = bindings->evaluator;

  if (Status sound = CheckRun(spec, *registry); !sound.ok()) return Fail(sound.error());
  std::vector<std::string> authors;
  for (const auto& [alias, model] : spec.models) authors.push_back(alias + "=" + NameOf(model));
  std::fprintf(stderr, "graph %s, models %s, evaluator %s, seed %llu\nrun folder %s\n",
               graph->name.c_str(), Join(authors, " ").c_str(), spec.evaluator.evaluator.c_str(),
               static_cast<unsigned long long>(spec.seed), folder->c_str());
  WatchInterrupts();
  ProgressPrinter progress(stderr);
  WorkerPool workers(*options);
  const Status tried = TryTask(spec, *registry, workers, progress);
  if (!tried.ok()) return Fail(tried.error());
  const RunOutcome outcome = Execute(spec, *registry, workers, progress, Interrupted());
  return Finish(arguments, outcome, *folder,
                Json::Obj({{"graph", graph->name},
                           {"graph_hash", graph->hash},
                           {"seed", static_cast<int64_t>(spec.seed)},
                           {"evaluator", spec.evaluator.evaluator},
                           {"version", KERNEL_EVOLVE_VERSION},
                           {"task", request.task ? (*request.task)["path"] : Json()}}));
}

}  // namespace kernel_evolve::cli
