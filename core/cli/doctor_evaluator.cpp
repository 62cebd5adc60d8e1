#include "core/cli/doctor_evaluator.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/text.hpp"
#include "core/cli/bindings.hpp"
#include "core/cli/installation.hpp"
#include "core/cli/run_graph.hpp"
#include "core/cli/scratch.hpp"
#include "core/cli/self_test.hpp"
#include "core/engine/once.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

// At once: each candidate is a process, and so is the judge of each task.
constexpr size_t kMostAtOnce = 8;
constexpr int64_t kMemoryEach = int64_t{2} << 30U;
// What a candidate gets that takes all memory, unless the profile says: several run at once.
constexpr int64_t kMemoryMb = 8192;

// Whether an error has nothing to do with the candidate: the parameters, or what is not installed.
bool MeetsAll(const Error& error) {
  return error.error_class == ErrorClass::kValidation || error.exit_code != kExitFailed;
}

using Evaluate = std::function<Result<Json>(const Specimen&)>;

// Runs all specimens, several at once, and prints a line for each mechanism that is through.
class SelfTest {
 public:
  SelfTest(const std::vector<Mechanism>& mechanisms, Standard standard, std::FILE* out)
      : standard_(standard), out_(out) {
    for (const Mechanism& mechanism : mechanisms) {
      results_.push_back({&mechanism, {}});
      name_width_ = std::max(name_width_, mechanism.name.size());
      for (const Specimen& specimen : mechanism.specimens) {
        Finding& finding = results_.back().findings.emplace_back();
        finding.file = specimen.file;
        finding.role = RoleOf(specimen, standard);
        finding.good = finding.role == Role::kLeftOut;
      }
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      left_.push_back(0);
      for (size_t j = 0; j < results_[i].findings.size(); ++j) {
        if (results_[i].findings[j].role == Role::kLeftOut) continue;
        jobs_.emplace_back(i, j);
        ++left_.back();
      }
    }
  }

  // Until all is through, Ctrl-C, or an error that all the others would meet, too.
  void Run(const Evaluate& evaluate, size_t at_once) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < at_once; ++i) threads.emplace_back([&] { Work(evaluate); });
    for (std::thread& thread : threads) thread.join();
  }

  size_t jobs() const { return jobs_.size(); }
  size_t through() const { return through_; }
  const std::optional<Error>& broken() const { return broken_; }
  const std::vector<MechanismResult>& results() const { return results_; }

 private:
  void Work(const Evaluate& evaluate) {
    while (!Interrupted() && !stop_) {
      const size_t next = next_++;
      if (next >= jobs_.size()) return;
      const auto [i, j] = jobs_[next];
      const Specimen& specimen = results_[i].mechanism->specimens[j];
      const Result<Json> verdict = evaluate(specimen);
      if (Interrupted()) return;
      const std::lock_guard lock(mutex_);
      if (verdict) any_verdict_ = true;
      if (!verdict && !any_verdict_ && MeetsAll(verdict.error())) {
        if (!broken_) broken_ = verdict.error();
        stop_ = true;
        return;
      }
      results_[i].findings[j] = Judge(specimen, standard_, verdict);
      if (--left_[i] == 0) Print(results_[i]);
    }
  }

  void Print(const MechanismResult& result) {
    const auto all = static_cast<int>(results_.size());
    const std::string count = std::to_string(++through_) + "/" + std::to_string(all);
    std::fprintf(out_, "%-8s %7s  %-*s  %s\n", result.good() ? "ok" : "FAILED", count.c_str(),
                 static_cast<int>(name_width_), result.mechanism->name.c_str(),
                 EndingsLine(result).c_str());
    for (const Finding& finding : result.findings) {
      if (finding.sentence.empty()) continue;
      std::fprintf(out_, "         %s/%s: %s\n", result.mechanism->name.c_str(),
                   finding.file.c_str(), finding.sentence.c_str());
    }
    std::fflush(out_);
  }

  const Standard standard_;
  std::FILE* const out_;
  size_t name_width_ = 0;
  std::vector<std::pair<size_t, size_t>> jobs_;  // (mechanism, specimen)
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};

  std::mutex mutex_;  // guards what follows while threads run
  std::vector<MechanismResult> results_;
  std::vector<int> left_;  // by mechanism
  size_t through_ = 0;     // mechanisms
  bool any_verdict_ = false;
  std::optional<Error> broken_;
};

// Bytes that may be used without pushing others out; 0: unknown.
int64_t FreeMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  for (std::string unit; file >> name >> kib && std::getline(file, unit);) {
    if (name == "MemAvailable:") return kib << 10U;
  }
  return 0;
}

size_t AtOnce(size_t jobs) {
  size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostAtOnce);
  if (const int64_t free = FreeMemory(); free > 0) {
    most = std::min(most, static_cast<size_t>(std::max<int64_t>(1, free / kMemoryEach)));
  }
  return std::min(most, std::max<size_t>(1, jobs));
}

// Sets a parameter that the type has to `bound`, unless it is lower already.
void Lower(const TypeInfo& type, const std::string& name, const Json& bound, Json* params) {
  const Json& property = type.params_schema["properties"][name];
  if (!property.is_object() || bound.number() <= 0) return;
  const Json& given = std::as_const(*params)[name];
  const Json& now = given.is_null() ? property["default"] : given;
  if (!now.is_number() || now.number() > bound.number()) (*params)[name] = bound;
}

// The evaluator with the bounds that the corpus has for a specimen. The parameters are those of the
// SDK's RecordThenJudge; another evaluator lacks them, and keeps its own bounds.
EvaluatorBinding Bounded(EvaluatorBinding binding, const TypeInfo& type, const Specimen& specimen) {
  Json& params = binding.params;
  if (params.is_null()) params = Json::Obj();
  if (!params.contains("memory_mb")) Lower(type, "memory_mb", kMemoryMb, &params);
  Lower(type, "memory_mb", specimen.memory_mb, &params);
  Lower(type, "record_deadline_s", specimen.seconds, &params);
  // A measuring judge may wait for the device, which counts, too.
  if (type.interface.Text("class") == "modelled") {
    Lower(type, "judge_deadline_s", specimen.judge_seconds, &params);
  }
  return binding;
}

// The evaluator under test and all that it runs in. `Ask` may be called from several threads.
class Bench {
 public:
  Bench(const Bindings& bindings, Registry& registry, std::vector<WorkerOptions> workers,
        uint64_t seed)
      : evaluator_(bindings.evaluator),
        type_(*registry.Find(TypeKind::kEvaluator, evaluator_.evaluator)),
        registry_(registry),
        seed_(seed),
        workers_(std::move(workers)) {}

  const std::string& name() const { return evaluator_.evaluator; }
  const TypeInfo& type() const { return type_; }
  uint64_t seed() const { return seed_; }
  bool usable() const { return !scratch_.path().empty(); }

  Result<Json> Evaluate(const Specimen& specimen) {
    return Ask("full", specimen,
               Json::Obj({{"id", fs::path(specimen.file).stem().string()},
                          {"code", specimen.code},
                          {"origin", "user"}}));
  }

  // What is wrong with the parameters, or missing here, is told by the trial of a task, too: once,
  // and not for each candidate.
  Status Try(const Json& task) {
    if (!type_.interface.Flag("tries_tasks")) return {};
    Specimen unbound;
    unbound.task = task;
    const Result<Json> verdict = Ask("task", unbound, Json::Obj());
    return verdict ? Status() : verdict.error();
  }

 private:
  Result<Json> Ask(const char* asked, const Specimen& specimen, const Json& candidate) {
    RunObserver nobody;
    // One folder and one seed for all, so that a judge's process serves all of a task.
    return EvaluateOnce(Bounded(evaluator_, type_, specimen), specimen.task, candidate, asked,
                        seed_, registry_, workers_, nobody, scratch_.path(), Interrupted());
  }

  const EvaluatorBinding evaluator_;
  const TypeInfo& type_;
  Registry& registry_;
  const uint64_t seed_;
  const Scratch scratch_;
  WorkerPool workers_;
};

Result<std::vector<Mechanism>> Corpus(const Arguments& arguments) {
  const fs::path folder =
      arguments.Has("--corpus") ? fs::path(arguments.Get("--corpus")) : ThisInstallation().corpus();
  Result<std::vector<Mechanism>> all = ReadCorpus(folder);
  if (!all) return all;
  std::vector<std::string> names;
  for (const std::string& list : arguments.All("--only")) {
    for (const std::string& name : Split(list, ',')) names.emplace_back(Trim(name));
  }
  return Chosen(*std::move(all), names);
}

void PrintHead(std::FILE* out, const Bench& bench, const SelfTest& test, size_t at_once) {
  const size_t mechanisms = test.results().size();
  std::fprintf(out,
               "Testing the evaluator '%s': %zu mechanism%s, %zu candidates, %zu at once, %s\n",
               bench.name().c_str(), mechanisms, mechanisms == 1 ? "" : "s", test.jobs(), at_once,
               ("seed " + std::to_string(bench.seed())).c_str());
  std::fflush(out);
}

int Report(const Arguments& arguments, const Bench& bench, const SelfTest& test, double seconds) {
  const Tally tally = Count(test.results());
  if (arguments.Has("--json")) {
    Json json = TallyJson(test.results());
    json["evaluator"] = bench.name();
    json["seed"] = static_cast<int64_t>(bench.seed());
    json["seconds"] = seconds;
    std::printf("%s\n", json.Dump(2).c_str());
  } else {
    std::printf("\n%s (%s, %s)\n", TallyLine(tally).c_str(), bench.name().c_str(),
                FormatSeconds(seconds).c_str());
  }
  return tally.good ? kExitOk : kExitFailed;
}

}  // namespace

std::vector<Option> WithEvaluatorOptions(std::vector<Option> options) {
  const std::vector<Option> more = {
      {"--evaluator", "",
       "Tests the profile's evaluator, or the default one, with candidates that cheat"},
      {"--only", "NAME", "With --evaluator: this mechanism alone; several as a,b", false, true},
      {"--corpus", "DIR", "With --evaluator: other candidates than the installed ones"},
      {"--seed", "N", "With --evaluator: seed of the data to judge on; default: drawn"},
      {"--json", "", "With --evaluator: print what came out as JSON"}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

int TestEvaluator(const Arguments& arguments) {
  const Result<std::vector<Mechanism>> mechanisms = Corpus(arguments);
  if (!mechanisms) return Fail(mechanisms.error());
  Result<Registry> registry = OpenRegistry(arguments);
  if (!registry) return Fail(registry.error());
  const Result<Bindings> bindings = Bind(arguments, nullptr, *registry);
  if (!bindings) return Fail(bindings.error());
  const Result<uint64_t> seed = SeedFrom(arguments);
  if (!seed) return Fail(seed.error());
  const Result<std::vector<WorkerOptions>> options = WorkersFor(arguments, bindings->launch);
  if (!options) return Fail(options.error());
  Bench bench(*bindings, *registry, *options, *seed);
  if (!bench.usable()) {
    return Fail(MissingEnvironment("no temporary folder can be made; set TMPDIR to one"));
  }
  const Standard standard{bench.type().interface.Text("class") != "modelled",
                          bench.name() == kDefaultEvaluator};
  std::FILE* const out = arguments.Has("--json") ? stderr : stdout;
  SelfTest test(*mechanisms, standard, out);
  const size_t at_once = AtOnce(test.jobs());
  WatchInterrupts();
  PrintHead(out, bench, test, at_once);
  const auto start = std::chrono::steady_clock::now();
  std::optional<Error> broken;
  if (Status tried = bench.Try(mechanisms->front().specimens.front().task); !tried.ok()) {
    broken = tried.error();
  } else {
    test.Run([&bench](const Specimen& specimen) { return bench.Evaluate(specimen); }, at_once);
    broken = test.broken();
  }
  if (Interrupted()) {
    std::fprintf(stderr, "kernel-evolve: interrupted after %zu of %zu mechanisms\n", test.through(),
                 test.results().size());
    return kExitInterrupted;
  }
  if (broken) {
    if (broken->error_class == ErrorClass::kValidation) broken->exit_code = kExitBadInput;
    return Fail(*broken);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return Report(arguments, bench, test, took.count());
}

}  // namespace kernel_evolve::cli
