#include "tests/providers/codec_fixture.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

namespace kernel_evolve {
namespace fs = std::filesystem;
namespace {

// A test's own files are in order, or the test cannot go on.
[[noreturn]] void Stop(const fs::path& where, const std::string& why) {
  std::cerr << where.string() << ": " << why << "\n";
  std::abort();
}

std::string Slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) Stop(file, "cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

Json Parsed(const fs::path& where, const std::string& text) {
  Result<Json> json = Json::Parse(text);
  if (!json) Stop(where, json.error().message);
  return *std::move(json);
}

WireCase ReadCase(const fs::path& dir) {
  WireCase out;
  out.provider = dir.parent_path().filename();
  out.name = dir.filename();
  out.expect = Parsed(dir / "expect.json", Slurp(dir / "expect.json"));
  if (!std::as_const(out.expect)["outcome"].is_object()) Stop(dir, "expect.json has no outcome");
  const std::string raw = Slurp(dir / "response.http");
  size_t at = 0;
  for (bool first = true;; first = false) {
    const size_t end = raw.find('\n', at);
    if (end == std::string::npos) Stop(dir, "response.http has no blank line after its headers");
    std::string line = raw.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) break;
    if (first) {
      std::istringstream(line.substr(line.find(' ') + 1)) >> out.status;
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string::npos) Stop(dir, "not a header: " + line);
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const size_t value = line.find_first_not_of(' ', colon + 1);
    out.headers[name] = value == std::string::npos ? std::string() : line.substr(value);
  }
  out.body = raw.substr(at);
  return out;
}

// Joins the events that Feed appended, so that their cut does not matter.
Json JoinEvents(const std::string& lines) {
  std::string text;
  std::string reasoning;
  Json calls = Json::Arr();
  int64_t ends = 0;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const Result<Json> event = Json::Parse(line);
    if (!event) return Json::Obj({{"broken", line}});
    const std::string type = event->Text("type");
    if (type == "text") text += event->Text("text");
    if (type == "reasoning") reasoning += event->Text("text");
    if (type == "end") ++ends;
    if (type != "tool_call" && type != "arguments") continue;
    const auto index = static_cast<size_t>(event->Integer("index"));
    while (calls.size() <= index) calls.push_back(Json::Obj({{"name", ""}, {"arguments", ""}}));
    Json& call = calls.array()[index];
    if (type == "tool_call") call["name"] = event->Text("name");
    if (type == "arguments") call["arguments"] = call.Text("arguments") + event->Text("text");
  }
  return Json::Obj({{"text", text}, {"reasoning", reasoning}, {"calls", calls}, {"ends", ends}});
}

std::vector<SearchPath> Folders() {
  std::vector<SearchPath> out;
  for (const char* id : {"provider_openai", "provider_pangu", "provider_anthropic"}) {
    out.push_back(
        {fs::path(KERNEL_EVOLVE_BUILD_DIR) / "lib/kernel_evolve/plugins" / id, "the test", true});
  }
  return out;
}

}  // namespace

Codecs::Codecs() : registry_(Registry::Scan(Folders())) {}

Result<std::unique_ptr<Codec>> Codecs::Make(const std::string& provider, const Json& params) {
  const TypeInfo* type = registry_.Find(TypeKind::kProvider, provider);
  if (type == nullptr) return Failed(ErrorClass::kInternal, "no provider '" + provider + "'");
  Json given = Json::Obj({{"model", "m"}, {"base_url", "https://api.test/v1"}});
  if (params.is_object()) {
    for (const auto& [key, value] : params.object()) given[key] = value;
  }
  return registry_.CreateCodec(*type, Json::Obj({{"params", given}, {"context", Json::Obj()}}),
                               nullptr);
}

std::vector<WireCase> WireCases() {
  std::vector<fs::path> dirs;
  const fs::path root = fs::path(KERNEL_EVOLVE_SOURCE_DIR) / "tests/providers/wire";
  for (const auto& provider : fs::directory_iterator(root)) {
    if (!provider.is_directory()) continue;
    for (const auto& dir : fs::directory_iterator(provider)) dirs.push_back(dir.path());
  }
  std::sort(dirs.begin(), dirs.end());
  std::vector<WireCase> out;
  out.reserve(dirs.size());
  for (const fs::path& dir : dirs) out.push_back(ReadCase(dir));
  return out;
}

Json PlainRequest() {
  return Parsed("the plain request", R"({
    "messages": [{"role": "user", "content": "How is the weather?"}],
    "tools": [
      {"name": "get_weather", "description": "Tells the weather.",
       "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
      {"name": "submit_kernel", "description": "Hands in a kernel.",
       "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}}],
    "stream": true})");
}

Answered Feed(Codec& codec, const WireCase& wire, const std::vector<size_t>& cuts, bool complete) {
  const auto broken = [](const Error& error) {
    return Answered{Json::Obj({{"broken", error.message}}), Json()};
  };
  const Json& given = wire.expect["request"];
  if (auto encoded = codec.Encode(given.is_object() ? given : PlainRequest()); !encoded) {
    return broken(encoded.error());
  }
  const Json head = Json::Obj({{"status", wire.status}, {"headers", wire.headers}});
  if (Status begun = codec.Begin(head); !begun.ok()) return broken(begun.error());
  std::string events;
  const std::string_view body = wire.body;
  size_t piece = 0;
  for (size_t at = 0; at < body.size(); ++piece) {
    const size_t length = cuts.empty() ? body.size() : cuts[std::min(piece, cuts.size() - 1)];
    if (Status fed = codec.Feed(body.substr(at, length), &events); !fed.ok()) {
      return broken(fed.error());
    }
    at += length;
  }
  Result<Json> outcome = codec.Finish(complete);
  if (!outcome) return broken(outcome.error());
  return {*std::move(outcome), JoinEvents(events)};
}

Result<Json> EncodedJson(Codec& codec, const Json& request) {
  Result<EncodedRequest> encoded = codec.Encode(request);
  if (!encoded) return encoded.error();
  Result<Json> body = Json::Parse(encoded->body);
  if (!body) return body.error();
  Json headers = Json::Obj();
  for (const auto& [name, value] : encoded->headers) headers[name] = value;
  return Json::Obj({{"method", encoded->method},
                    {"url", encoded->url},
                    {"headers", headers},
                    {"body", *std::move(body)}});
}

std::string Missing(const Json& expected, const Json& actual, const std::string& at) {
  if (expected.is_object() && actual.is_object()) {
    for (const auto& [key, value] : expected.object()) {
      if (!actual.contains(key)) return at + "." + key + " is missing";
      std::string problem = Missing(value, actual[key], at + "." + key);
      if (!problem.empty()) return problem;
    }
    return {};
  }
  if (expected.is_array() && actual.is_array() && expected.size() == actual.size()) {
    for (size_t i = 0; i < expected.size(); ++i) {
      std::string problem =
          Missing(expected.array()[i], actual.array()[i], at + "[" + std::to_string(i) + "]");
      if (!problem.empty()) return problem;
    }
    return {};
  }
  if (expected == actual) return {};
  return at + " is " + actual.Dump() + " where " + expected.Dump() + " is expected";
}

}  // namespace kernel_evolve
