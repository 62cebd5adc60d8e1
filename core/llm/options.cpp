#include "core/llm/options.hpp"

#include <utility>

#include "core/base/text.hpp"

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

// Reads the members of one of the profile's mappings. The first mistake is kept; reads after it
// yield nothing.
class Section {
 public:
  Section(std::string place, const Json& value, std::vector<std::string> known)
      : place_(std::move(place)), value_(value), known_(std::move(known)) {
    CheckKeys();
  }

  // Seconds above 0: a duration such as 30s, or a number.
  void Seconds(const char* key, double* out) {
    const Json& member = Member(key);
    if (member.is_null()) return;
    std::optional<double> seconds;
    if (member.is_number()) seconds = member.number();
    if (member.is_string()) seconds = ParseDuration(member.string());
    if (!seconds || !(*seconds > 0)) return Wrong(Dot(key), "expected a duration such as 30s");
    *out = *seconds;
  }

  void Number(const char* key, double least, double most, double* out) {
    const Json& member = Member(key);
    if (member.is_null()) return;
    if (!member.is_number() || member.number() < least || member.number() > most) {
      return Wrong(Dot(key),
                   "expected a number from " + Json(least).Dump() + " to " + Json(most).Dump());
    }
    *out = member.number();
  }

  void Count(const char* key, int64_t least, int64_t most, int64_t* out) {
    const Json& member = Member(key);
    if (member.is_null()) return;
    std::optional<int64_t> count;
    if (member.is_integer()) count = member.integer();
    if (member.is_string()) count = ParseCount(member.string());
    if (!count || *count < least || *count > most) {
      return Wrong(Dot(key), "expected a whole number from " + std::to_string(least) + " to " +
                                 std::to_string(most));
    }
    *out = *count;
  }

  void Text(const char* key, std::string* out) {
    const Json& member = Member(key);
    if (member.is_null()) return;
    if (!member.is_string() || member.string().empty()) return Wrong(Dot(key), "expected text");
    *out = member.string();
  }

  // A file that must be there.
  void File(const char* key, const fs::path& folder, std::string* out) {
    std::string name;
    Text(key, &name);
    if (name.empty()) return;
    const fs::path file = folder / name;  // an absolute name stands for itself
    std::error_code unknown;
    if (!fs::is_regular_file(file, unknown)) {
      return Wrong(Dot(key), "there is no file " + file.string());
    }
    *out = file.string();
  }

  const Json& Member(const char* key) const { return value_[key]; }
  void Wrong(const std::string& where, const std::string& what) {
    if (error_) return;
    const bool top = place_.ends_with(": ") && where.starts_with(".");
    error_ = BadInput(place_ + (top ? where.substr(1) : where) + ": " + what);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  void CheckKeys() {
    if (value_.is_null()) return;
    if (!value_.is_object()) {
      return Wrong("", "expected a mapping with the keys " + Join(known_, ", "));
    }
    for (const auto& [key, member] : value_.object()) {
      bool is_known = false;
      for (const std::string& name : known_) is_known = is_known || name == key;
      if (is_known) continue;
      const auto nearest = Nearest(key, known_);
      return Wrong("." + key,
                   "there is no such key" + (nearest ? "; did you mean '" + *nearest + "'?"
                                                     : "; the keys are " + Join(known_, ", ")));
    }
  }

  static std::string Dot(const char* key) { return std::string(".") + key; }

  std::string place_;
  const Json& value_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

std::optional<Error> ReadLimits(const std::string& place, const Json& given, EndpointOptions* out) {
  Section section(place, given,
                  {"concurrency", "requests_per_minute", "connect_timeout", "timeout",
                   "idle_timeout", "max_response"});
  int64_t concurrency = out->limits.concurrency;
  auto bytes = static_cast<int64_t>(out->http.max_response_bytes);
  section.Count("concurrency", 1, 100000, &concurrency);
  section.Number("requests_per_minute", 0, 1e9, &out->limits.requests_per_minute);
  section.Seconds("connect_timeout", &out->http.connect_timeout_s);
  section.Seconds("timeout", &out->http.timeout_s);
  section.Seconds("idle_timeout", &out->http.idle_timeout_s);
  section.Count("max_response", 1, int64_t{1} << 32U, &bytes);
  out->limits.concurrency = static_cast<int>(concurrency);
  out->http.max_response_bytes = static_cast<size_t>(bytes);
  return section.error();
}

std::optional<Error> ReadRetry(const std::string& place, const Json& given, RetryPolicy* out) {
  Section section(place, given, {"attempts", "backoff", "max_wait"});
  int64_t attempts = out->attempts;
  section.Count("attempts", 1, 100, &attempts);
  section.Seconds("backoff", &out->backoff_s);
  section.Seconds("max_wait", &out->max_wait_s);
  out->attempts = static_cast<int>(attempts);
  return section.error();
}

std::optional<Error> ReadTls(const std::string& place, const Json& given, const fs::path& folder,
                             HttpOptions* out) {
  Section section(place, given, {"ca_bundle", "client_certificate", "client_key"});
  section.File("ca_bundle", folder, &out->ca_bundle);
  section.File("client_certificate", folder, &out->client_certificate);
  section.File("client_key", folder, &out->client_key);
  return section.error();
}

std::optional<Error> ReadSampling(const std::string& place, const Json& given, Json* out) {
  Section section(place, given,
                  {"temperature", "top_p", "top_k", "max_tokens", "frequency_penalty",
                   "presence_penalty", "stop", "reasoning_effort", "extra"});
  double number = 0;
  int64_t count = 0;
  std::string text;
  section.Number("temperature", 0, 10, &number);
  section.Number("top_p", 0, 1, &number);
  section.Count("top_k", 0, 1000000, &count);
  section.Count("max_tokens", 1, 100000000, &count);
  section.Number("frequency_penalty", -10, 10, &number);
  section.Number("presence_penalty", -10, 10, &number);
  section.Text("reasoning_effort", &text);
  const Json& stop = section.Member("stop");
  if (!stop.is_null() && !stop.is_array()) section.Wrong(".stop", "expected a list of texts");
  const Json& extra = section.Member("extra");
  if (!extra.is_null() && !extra.is_object()) section.Wrong(".extra", "expected a mapping");
  if (section.error()) return section.error();
  if (given.is_object()) *out = given;
  if (given["max_tokens"].is_string()) (*out)["max_tokens"] = count;
  return std::nullopt;
}

std::optional<Error> ReadCapabilities(const std::string& place, const Json& given,
                                      EndpointOptions* out) {
  if (given.is_null()) return std::nullopt;
  std::vector<std::string> names;
  bool sound = given.is_array();
  if (sound) {
    for (const Json& name : given.array()) {
      sound = sound && name.is_string();
      if (name.is_string()) names.push_back(name.string());
    }
  }
  if (!sound) return BadInput(place + ": expected a list such as [tools, streaming]");
  out->capabilities = std::move(names);
  return std::nullopt;
}

}  // namespace

Result<EndpointOptions> TakeEndpointOptions(const std::string& alias, const fs::path& folder,
                                            Json* params) {
  EndpointOptions out;
  if (!params->is_object()) return out;
  const auto take = [params](const char* key) {
    const auto found = params->object().find(key);
    if (found == params->object().end()) return Json();
    Json value = std::move(found->second);
    params->object().erase(found);
    return value;
  };
  const std::string model = "the model '" + alias + "': ";
  const Json proxy = take("proxy");
  const Json version = take("http_version");
  const Json network = Json::Obj({{"proxy", proxy}, {"http_version", version}});
  const Json limits = take("limits");
  const Json retry = take("retry");
  const Json tls = take("tls");
  const Json sampling = take("sampling");
  const Json capabilities = take("capabilities");

  Section top(model, network, {"proxy", "http_version"});
  top.Text("proxy", &out.http.proxy);
  if (version.is_number()) {
    // YAML reads a bare 1.1 as a number.
    out.http.http_version = version == Json(2) ? "2" : "1.1";
  } else {
    top.Text("http_version", &out.http.http_version);
  }
  const std::string& chosen = out.http.http_version;
  if (chosen != "auto" && chosen != "1.1" && chosen != "2") {
    top.Wrong(".http_version", "expected auto, 1.1 or 2");
  }
  if (top.error()) return *top.error();
  for (const std::optional<Error>& error :
       {ReadLimits(model + "limits", limits, &out), ReadRetry(model + "retry", retry, &out.retry),
        ReadTls(model + "tls", tls, folder, &out.http),
        ReadSampling(model + "sampling", sampling, &out.sampling),
        ReadCapabilities(model + "capabilities", capabilities, &out)}) {
    if (error) return *error;
  }
  return out;
}

Json MergedSampling(const EndpointOptions& options, const Json& request) {
  Json merged = options.sampling;
  if (!request["sampling"].is_object()) return merged;
  for (const auto& [name, value] : request["sampling"].object()) merged[name] = value;
  return merged;
}

}  // namespace kernel_evolve
