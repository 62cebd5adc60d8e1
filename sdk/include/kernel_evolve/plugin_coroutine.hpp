// The C++20 face: write a node, provider or evaluator as one coroutine from start to done. It runs
// on the same step protocol as plugin.hpp: each co_await of an effect ends a step, and the results
// of the next event resume it.
//
//   #include <kernel_evolve/plugin_coroutine.hpp>
//   using namespace kernel_evolve::sdk;
//
//   class Twice : public Coroutine {
//    public:
//     using Coroutine::Coroutine;
//     Task<> Run(Context& ctx) override {
//       const json first = co_await ctx.Complete("author", Ask(ctx.start()));
//       const std::vector<Reply> both = co_await ctx.All(ctx.Evaluate(A(first), "full"),
//       ctx.Now()); co_return NodeDone({{"verdict", both[0].value()}});
//     }
//   };
//
// A failed effect throws PluginError of its class at the co_await; Try() and All() hand back a
// Reply instead. Part of the work may live in a Task<T> of its own: `T value = co_await
// Helper(ctx);`. A coroutine resumes on whatever thread steps the instance: hold no lock and no
// thread-local across a co_await. Parameters of a helper should be values: a reference may be gone
// when it resumes.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel_evolve/plugin.hpp"

namespace kernel_evolve::sdk {

// What became of one effect.
class Reply {
 public:
  explicit Reply(json result) : result_(std::move(result)) {}
  bool ok() const { return result_.contains("ok"); }
  // What the effect yielded. Throws its error as a PluginError of the same class.
  const json& value() const {
    if (!ok()) throw PluginError(error().at("class"), error().at("message"));
    return result_.at("ok");
  }
  // The {"class", "message"} of an effect that is not ok().
  const json& error() const { return result_.at("error"); }
  // Of a worker call: how far its process was walled off, {"level", ...}; null where unknown.
  json isolation() const { return result_.value("isolation", json()); }

 private:
  json result_;
};

class Context;

// An effect that was described but not yet asked for: co_await it, or pass it to All() or Try().
struct Effect {
  Context* context;
  json body;
};

// A coroutine that yields a T; runs when it is awaited. Owns its frame.
template <typename T = Outcome>
class [[nodiscard]] Task {
 public:
  struct promise_type {  // the names here are the language's
    std::optional<T> value;
    std::exception_ptr failure;
    std::coroutine_handle<> caller = std::noop_coroutine();

    struct Final {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().caller;
      }
      void await_resume() const noexcept {}
    };
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    Final final_suspend() const noexcept { return {}; }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() { failure = std::current_exception(); }
  };

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (frame_) frame_.destroy();
  }

  // co_await: runs the task to its end, then goes on here.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    frame_.promise().caller = caller;
    return frame_;
  }
  T await_resume() { return Take(); }

  // For Coroutine below.
  std::coroutine_handle<> frame() const { return frame_; }
  bool done() const { return frame_.done(); }
  T Take() {
    if (frame_.promise().failure) std::rethrow_exception(frame_.promise().failure);
    return std::move(*frame_.promise().value);
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

// What a coroutine sees of its run: the start event, and the effects that it may ask for. Lives as
// long as the instance.
class Context {
 public:
  // The start event: "in", "with", "task", ... of a node, "request" of a provider or an evaluator.
  const json& start() const { return start_; }

  Effect Complete(const std::string& model, json request) {
    return {this, CompleteEffect(NextId(), model, std::move(request))};
  }
  Effect Evaluate(json candidate, const std::string& asked) {
    return {this, EvaluateEffect(NextId(), std::move(candidate), asked)};
  }
  Effect Worker(const WorkerCall& call) { return {this, WorkerEffect(NextId(), call)}; }
  Effect Now() { return {this, NowEffect(NextId())}; }
  Effect Random(int count) { return {this, RandomEffect(NextId(), count)}; }
  Effect Sleep(double seconds) { return {this, SleepEffect(NextId(), seconds)}; }

  // Suspends the awaiting coroutine until the effects have been answered.
  class Wait {
   public:
    Wait(Context* context, std::vector<json> effects)
        : context_(context), effects_(std::move(effects)) {}
    bool await_ready() const noexcept { return effects_.empty(); }
    void await_suspend(std::coroutine_handle<> waiting) {
      context_->asked_ = effects_;
      context_->waiting_ = waiting;
    }

   protected:
    Reply Take(const json& effect) const { return Reply(context_->results_.at(effect.at("id"))); }
    Context* context_;
    std::vector<json> effects_;
  };
  struct WaitValue : Wait {
    using Wait::Wait;
    json await_resume() const { return Take(effects_.front()).value(); }
  };
  struct WaitReply : Wait {
    using Wait::Wait;
    Reply await_resume() const { return Take(effects_.front()); }
  };
  struct WaitAll : Wait {
    using Wait::Wait;
    std::vector<Reply> await_resume() const {
      std::vector<Reply> replies;
      replies.reserve(effects_.size());
      for (const json& effect : effects_) replies.push_back(Take(effect));
      return replies;
    }
  };

  // One effect whose failure is a value, not an exception.
  WaitReply Try(Effect effect) { return {this, {std::move(effect.body)}}; }

  // Several at once, answered together, in the order given. None at all does not wait.
  WaitAll All(std::vector<Effect> effects) {
    std::vector<json> bodies;
    bodies.reserve(effects.size());
    for (Effect& effect : effects) bodies.push_back(std::move(effect.body));
    return {this, std::move(bodies)};
  }
  template <typename... Rest>
  WaitAll All(Effect first, Rest... rest) {
    std::vector<json> bodies;
    bodies.push_back(std::move(first.body));
    (bodies.push_back(std::move(rest.body)), ...);
    return {this, std::move(bodies)};
  }

 private:
  friend class Coroutine;
  std::string NextId() { return "e" + std::to_string(++effects_made_); }

  json start_;
  json results_;
  int effects_made_ = 0;
  std::vector<json> asked_;
  std::coroutine_handle<> waiting_;
};

inline Context::WaitValue operator co_await(Effect effect) {
  return {effect.context, {std::move(effect.body)}};
}

// Derive, inherit the constructor, and implement Run(). Its co_return is the final word.
class Coroutine : public Resumable {
 public:
  using Resumable::Resumable;

  virtual Task<> Run(Context& ctx) = 0;

  Outcome Step(const json& event) final {
    if (IsStart(event)) {
      context_.start_ = event;
      run_.emplace(Run(context_));
      context_.waiting_ = run_->frame();
    } else {
      context_.results_ = event.at("results");
    }
    context_.asked_.clear();
    std::exchange(context_.waiting_, std::noop_coroutine()).resume();
    if (run_->done()) return run_->Take();
    if (context_.asked_.empty()) {
      throw PluginError("internal", "the coroutine waits for something that is no effect");
    }
    return Outcome::Effects(context_.asked_);
  }

 private:
  Context context_;
  std::optional<Task<>> run_;
};

}  // namespace kernel_evolve::sdk
