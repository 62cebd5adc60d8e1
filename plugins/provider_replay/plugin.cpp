// The provider `replay`: answers from a cassette, a file of recorded exchanges. See README.md.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <kernel_evolve/plugin.hpp>
#include <sstream>
#include <string>

namespace {

using namespace kernel_evolve::sdk;

struct Cassette {
  std::string path;
  json exchanges;  // checked: each has a response, and at most the known expectations
};

[[noreturn]] void Refuse(const std::string& what) {
  throw PluginError("validation", "cassette: " + what);
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) Refuse("cannot read " + path);
  return text.str();
}

void CheckExchange(const json& exchange, const std::string& name) {
  if (!exchange.is_object()) Refuse(name + " is no object");
  const bool answered = exchange.contains("response") && exchange.at("response").is_object();
  const bool failed = exchange.contains("error") && exchange.at("error").is_object() &&
                      exchange.at("error").contains("class") &&
                      exchange.at("error").contains("message");
  if (answered == failed) {
    Refuse(name + " needs either a 'response' object or an 'error' with class and message");
  }
  for (const auto& [key, value] : exchange.items()) {
    if (key == "response" || key == "error") continue;
    if (key != "model" && key != "purpose" && key != "request_hash") {
      Refuse(name + " has the unknown key '" + key + "'");
    }
    if (!value.is_string()) Refuse(name + ": '" + key + "' is not text");
  }
}

// `given` is a path, or what the host made of it: {"path", "text"}. Of the exchanges, those that
// name no model or `model`; every one when `model` is empty.
Cassette Load(const json& given, const std::string& model) {
  Cassette cassette;
  cassette.path = given.is_object() ? given.at("path") : given;
  const std::string text = given.is_object() ? given.at("text") : json(ReadText(cassette.path));
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) Refuse(cassette.path + " is not valid JSON");
  if (!document.is_object() || !document.contains("exchanges") ||
      !document.at("exchanges").is_array()) {
    Refuse(cassette.path + " has no array 'exchanges'");
  }
  const json& all = document.at("exchanges");
  cassette.exchanges = json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    CheckExchange(all[i], "exchange " + std::to_string(i + 1) + " of " + cassette.path);
    const std::string of = all[i].value("model", "");
    if (model.empty() || of.empty() || of == model) cassette.exchanges.push_back(all[i]);
  }
  return cassette;
}

// FNV-1a over what the model is shown, as canonical text: keys sorted, no blanks.
std::string RequestHash(const json& request) {
  const json shown = {{"messages", request.value("messages", json())},
                      {"tools", request.value("tools", json())},
                      {"tool_choice", request.value("tool_choice", json())}};
  uint64_t hash = 14695981039346656037U;
  for (const char c : Host::Print(shown)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

class Replay : public Resumable {
 public:
  Replay(const Config& given, const Host& to)
      : Resumable(given, to), cassette_(Load(params().at("cassette"), params().at("model"))) {}

  Outcome Step(const json& event) override {
    const json& request = event.at("request");
    const size_t call = event.value("call", size_t{0});
    const size_t held = cassette_.exchanges.size();
    if (call >= held) {
      throw PluginError("unavailable", "the cassette " + cassette_.path + " holds " +
                                           std::to_string(held) +
                                           " exchanges and the run asks for call " +
                                           std::to_string(call + 1) + "; record a longer one");
    }
    const json& exchange = cassette_.exchanges[call];
    const json context = request.value("context", json::object());
    Expect(exchange, call, "purpose", context.value("purpose", std::string()));
    Expect(exchange, call, "request_hash", RequestHash(request));
    if (const auto error = exchange.find("error"); error != exchange.end()) {
      return Outcome::Error(error->at("class"), error->at("message"));
    }
    return ProviderDone(exchange.at("response"));
  }

 private:
  // An answer to another question than was asked is worse than none.
  void Expect(const json& exchange, size_t call, const char* key, const std::string& asked) const {
    const auto expected = exchange.find(key);
    if (expected == exchange.end() || *expected == asked) return;
    throw PluginError("unavailable",
                      "call " + std::to_string(call + 1) + " asks with " + key + " '" + asked +
                          "' where the cassette " + cassette_.path + " recorded '" +
                          expected->get<std::string>() +
                          "'; the strategy or the task differs from the recorded run: record it "
                          "again");
  }

  Cassette cassette_;
};

constexpr char kParams[] = R"({
  "type": "object",
  "properties": {
    "cassette": {"type": "string", "x-ke": "file",
                 "description": "File with the recorded exchanges."},
    "model": {"type": "string", "default": "",
              "description": "Whose exchanges: a model alias of the recorded run; empty: all."}
  },
  "required": ["cassette"],
  "additionalProperties": false
})";

constexpr char kInterface[] =
    R"({"form": "resumable", "capabilities": ["tools", "parallel_tools", "seed"]})";

}  // namespace

KERNEL_EVOLVE_PLUGIN("provider_replay", "1.0.0",
                     Provider<Replay>("replay", "Answers from a file of recorded exchanges",
                                      kParams, kInterface))
