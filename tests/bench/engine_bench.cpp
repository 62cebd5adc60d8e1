// What the engine itself costs: a loop of steps whose nodes do nothing, or ask for one effect each.
// The counter `per_step` is the time of one step.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "core/engine/clock.hpp"
#include "core/engine/journal.hpp"
#include "core/engine/prepare.hpp"
#include "core/engine/scheduler.hpp"
#include "core/graph/loader.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 1000;

// Answers at once; what it asks for first is set by the benchmark.
class Quick : public Instance {
 public:
  Quick(TypeKind kind, const Json& effect) : kind_(kind), effect_(effect) {}

  Result<Json> Step(const Json& event) override {
    if (kind_ == TypeKind::kProvider) {
      return Json::Obj({{"done", Json::Obj({{"response", Json::Obj({{"text", "hi"}})}})}});
    }
    if (event.Text("type") == "start" && !effect_.is_null()) {
      return Json::Obj({{"effects", Json::Arr({effect_})}});
    }
    return Json::Obj({{"done", Json::Obj({{"out", Json::Obj({{"count", 1}})}})}});
  }

 private:
  TypeKind kind_;
  const Json& effect_;
};

class Fixture : public InstanceFactory, public WorkerPort, public ModelPort, public RunObserver {
 public:
  explicit Fixture(Json effect) : effect_(std::move(effect)) {
    node_.kind = TypeKind::kNode;
    node_.name = "t/work";
    node_.interface =
        *Json::Parse(R"({"ports": {"in": [], "out": [{"name": "count", "type": "integer"}]}})");
    node_.params_schema = *Json::Parse(R"({"type": "object", "properties": {}})");
    provider_.kind = TypeKind::kProvider;
    provider_.name = "quick";
  }
  const TypeInfo* Find(TypeKind kind, const std::string&) override {
    return kind == TypeKind::kNode ? &node_ : kind == TypeKind::kProvider ? &provider_ : nullptr;
  }
  Result<std::unique_ptr<Instance>> Create(const TypeInfo& type, const Json&,
                                           std::shared_ptr<HostServices>) override {
    return std::unique_ptr<Instance>(new Quick(type.kind, effect_));
  }
  Result<std::unique_ptr<Codec>> CreateCodec(const TypeInfo&, const Json&,
                                             std::shared_ptr<HostServices>) override {
    return Failed(ErrorClass::kInternal, "there is no codec here");
  }
  int64_t Call(kernel_evolve::ModelCall, ModelClient::Done done, ModelClient::Progress) override {
    done({Failed(ErrorClass::kInternal, "there is no endpoint here"), Json::Obj()});
    return 1;
  }
  int64_t Call(WorkerCall, Worker::Done done, Worker::Progress) override {
    done(Failed(ErrorClass::kInternal, "there is no worker here"));
    return 1;
  }
  void Cancel(int64_t) override {}

  graph::Graph Loop() const {
    graph::NodeTypeCatalog catalog;
    graph::NodeTypeInfo& info = catalog["t/work"];
    info.name = "t/work";
    info.params_schema = node_.params_schema;
    info.out = {{"count", graph::ValueType::kInteger, true}};
    const std::string n = std::to_string(kSteps);
    graph::LoadedGraph loaded = graph::LoadGraphText(
        "kernel_evolve: 1\nname: bench\nmodels:\n  author: {needs: []}\n"
        "state:\n  count: {type: integer, merge: sum}\nstart: work\nnodes:\n"
        "  work: {uses: t/work, next: [{when: visits.work < " +
            n + ", to: work, max_visits: " + n + "}, {else: end}]}\n",
        "bench.yaml", fs::temp_directory_path(), catalog);
    if (!loaded.graph) {
      for (const Diagnostic& each : loaded.diagnostics) {
        std::fprintf(stderr, "%s\n", each.message.c_str());
      }
      std::abort();
    }
    return std::move(*loaded.graph);
  }

 private:
  Json effect_;
  TypeInfo node_;
  TypeInfo provider_;
};

void RunSteps(benchmark::State& bench, const Json& effect, bool journalled) {
  Fixture fixture(effect);
  const graph::Graph graph = fixture.Loop();
  std::string name = (fs::temp_directory_path() / "engine_bench.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  SystemClock clock;
  std::atomic<bool> interrupted{false};
  RunSpec spec;
  spec.graph = &graph;
  spec.run_dir = name;
  spec.models["author"].provider = "quick";
  int run = 0;
  for (auto _ : bench) {
    bench.PauseTiming();
    const auto prepared = internal::Prepare(spec, fixture, clock);
    std::unique_ptr<Journal> journal;
    if (journalled) {
      const fs::path file = fs::path(name) / (std::to_string(++run) + ".db");
      journal = std::move(*Journal::Create(file, Json::Obj()));
    }
    internal::Scheduler scheduler(prepared->plan, prepared->bindings,
                                  Outside{fixture, fixture, fixture, clock}, fixture, journal.get(),
                                  1, interrupted);
    bench.ResumeTiming();
    const State state = scheduler.Run();
    bench.PauseTiming();
    if (state.status != RunStatus::kDone) bench.SkipWithError(state.reason.c_str());
    journal.reset();
    bench.ResumeTiming();
  }
  bench.counters["per_step"] = benchmark::Counter(
      kSteps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  std::error_code ignored;
  fs::remove_all(name, ignored);
}

Json ModelCall() {
  return *Json::Parse(R"({"id": "a", "kind": "llm_complete", "model": "author",
      "request": {"messages": [{"role": "user", "content": "hello"}]}})");
}

void BM_EmptySteps(benchmark::State& bench) { RunSteps(bench, {}, false); }
void BM_EmptyStepsJournalled(benchmark::State& bench) { RunSteps(bench, {}, true); }
void BM_ClockReading(benchmark::State& bench) {
  RunSteps(bench, *Json::Parse(R"({"id": "t", "kind": "now"})"), false);
}
void BM_ClockReadingJournalled(benchmark::State& bench) {
  RunSteps(bench, *Json::Parse(R"({"id": "t", "kind": "now"})"), true);
}
void BM_ModelCall(benchmark::State& bench) { RunSteps(bench, ModelCall(), false); }
void BM_ModelCallJournalled(benchmark::State& bench) { RunSteps(bench, ModelCall(), true); }

BENCHMARK(BM_EmptySteps)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_EmptyStepsJournalled)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_ClockReading)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_ClockReadingJournalled)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_ModelCall)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_ModelCallJournalled)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace kernel_evolve
