// The provider `mailbox`: requests and answers as files, for a person, or for a model behind an air
// gap. See README.md.
#include <kernel_evolve/plugin.hpp>
#include <optional>
#include <string>

#include "answer.hpp"
#include "box.hpp"
#include "letter.hpp"

namespace provider_mailbox {
namespace {

using namespace kernel_evolve::sdk;
namespace fs = std::filesystem;

class Mailbox : public Resumable {
 public:
  Mailbox(const Config& given, const Host& to)
      : Resumable(given, to), box_(fs::absolute(params().at("folder").get<std::string>())) {}

  Outcome Step(const json& event) override {
    if (IsStart(event)) {
      request_ = event.at("request");
      request_.erase("context");  // a copy of what the messages say
      Post();
    } else {
      Results(event).Value("poll");  // throws when the run ends
      // Another instance that asked the same took the answer: this one needs one of its own.
      if (!box_.IsOpen()) Post();
    }
    if (std::optional<json> response = Answered()) {
      box_.Settle();
      return ProviderDone(*std::move(response));
    }
    return Wait();
  }

 private:
  void Post() {
    box_.Put(request_.dump(2, ' ', false, json::error_handler_t::replace) + "\n",
             [this](const std::string& number) {
               return Letter(number, params().at("model"), request_);
             });
    host().Progress("waiting for an answer to " + box_.File(".request.md").string());
  }

  // The answer, once there is one that can be used. Text that does not parse, and Python, may be
  // half written: they are taken when they have not changed since the look before.
  std::optional<json> Answered() {
    const std::optional<Found> found = box_.Look();
    if (!found) {
      seen_.clear();
      return std::nullopt;
    }
    const bool is_json = found->extension == ".json";
    const bool settled = found->text == seen_ || (is_json && json::accept(found->text));
    seen_ = found->text;
    if (!settled) return std::nullopt;
    Answer answer = is_json ? FromJson(found->text, request_) : FromPython(found->text, request_);
    if (answer.problem.empty()) return std::move(answer.response);
    box_.Refuse(*found, answer.problem);
    seen_.clear();
    host().Progress("the answer can't be used, see " + box_.File(".problem.txt").string());
    return std::nullopt;
  }

  Outcome Wait() {
    const double poll = params().at("poll_s");
    const double timeout = params().at("timeout_s");
    if (timeout > 0 && waited_s_ >= timeout) {
      return Outcome::Error("timeout", "no answer to " + box_.File(".request.md").string() +
                                           " came in " + std::to_string(static_cast<int>(timeout)) +
                                           " s; raise timeout_s, or answer and resume");
    }
    waited_s_ += poll;
    return Outcome::Effects({SleepEffect("poll", poll)});
  }

  Box box_;
  json request_;
  std::string seen_;  // the answer's text at the last look
  double waited_s_ = 0;
};

constexpr char kParams[] = R"({
  "type": "object",
  "properties": {
    "folder": {"type": "string", "default": "mailbox",
               "description": "Folder for requests and answers, below the working folder."},
    "model": {"type": "string", "default": "",
              "description": "Who answers; stands in the request's title."},
    "poll_s": {"type": "number", "minimum": 0.01, "default": 1,
               "description": "Seconds between two looks for an answer."},
    "timeout_s": {"type": "number", "minimum": 0, "default": 0,
                  "description": "Seconds to wait for an answer; 0: as long as it takes."}
  },
  "additionalProperties": false
})";

constexpr char kInterface[] =
    R"({"form": "resumable", "capabilities": ["tools", "parallel_tools"], "blocking": true})";

}  // namespace
}  // namespace provider_mailbox

KERNEL_EVOLVE_PLUGIN("provider_mailbox", "1.0.0",
                     Provider<provider_mailbox::Mailbox>(
                         "mailbox", "Requests and answers as files: a person, or an air gap",
                         provider_mailbox::kParams, provider_mailbox::kInterface))
