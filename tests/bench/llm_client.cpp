// One client of tests/bench/llm_bench.py: makes N streamed tool-calling completions at once against
// a local endpoint, through the program's own transport and codec, or through a bare libcurl-multi
// loop that only splits events and parses their JSON. Prints one line of figures as JSON.
//
// usage: llm_client ours|bare BASE_URL CALLS PLUGIN_DIR
#include <curl/curl.h>
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/llm/client.hpp"
#include "core/llm/message.hpp"
#include "core/plugin/registry.hpp"

namespace {

using kernel_evolve::Json;

double Seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long PeakKib() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

Json Request() {
  return *Json::Parse(R"({"messages": [{"role": "user", "content": "Write the kernel."}],
      "tools": [{"name": "submit_kernel", "description": "Hands over a kernel.",
                 "parameters": {"type": "object", "properties": {"code": {"type": "string"}},
                                "required": ["code"]}}], "tool_choice": "required"})");
}

Json Messages() {
  const Json request = Request();
  return request["messages"];
}

// --- ours ---

int Ours(const std::string& url, int calls, const std::string& plugins) {
  using namespace kernel_evolve;
  Registry registry = Registry::Scan({{plugins, "the benchmark"}});
  const TypeInfo* type = registry.Find(TypeKind::kProvider, "openai");
  if (type == nullptr) {
    std::fprintf(stderr, "no provider 'openai' in %s\n", plugins.c_str());
    return 1;
  }
  const Json config = Json::Obj(
      {{"params", Json::Obj({{"base_url", url}, {"model", "bench"}, {"api_key", "none"}})},
       {"context", Json::Obj()}});
  std::mutex mutex;
  std::condition_variable changed;
  int done = 0;
  int right = 0;
  ModelClient client;
  for (int i = 0; i < calls; ++i) {
    auto codec = registry.CreateCodec(*type, config, nullptr);
    if (!codec) {
      std::fprintf(stderr, "%s\n", codec.error().message.c_str());
      return 1;
    }
    ModelCall call;
    call.codec = std::move(*codec);
    call.request = Request();
    call.options.limits.concurrency = calls;
    call.options.http.proxy = "none";
    client.Call(std::move(call), [&](ModelReply reply) {
      const bool good = reply.response && CheckResponse(Request(), *reply.response).ok();
      if (!reply.response) std::fprintf(stderr, "%s\n", reply.response.error().message.c_str());
      const std::lock_guard<std::mutex> lock(mutex);
      right += good ? 1 : 0;
      if (++done == calls) changed.notify_one();
    });
  }
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return done == calls; });
  return right == calls ? 0 : 1;
}

// --- bare ---

struct Bare {
  std::string received;
  int events = 0;
};

size_t OnBareBytes(char* data, size_t size, size_t count, void* user) {
  auto* bare = static_cast<Bare*>(user);
  bare->received.append(data, size * count);
  for (size_t end = bare->received.find("\n\n"); end != std::string::npos;
       end = bare->received.find("\n\n")) {
    const std::string event = bare->received.substr(6, end - 6);
    bare->received.erase(0, end + 2);
    if (event != "[DONE]" && Json::Parse(event).ok()) ++bare->events;
  }
  return size * count;
}

int RunBare(const std::string& url, int calls) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* multi = curl_multi_init();
  const std::string body =
      R"({"model":"bench","stream":true,"messages":)" + Messages().Dump() + "}";
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  std::vector<std::unique_ptr<Bare>> states;
  std::vector<CURL*> handles;
  const std::string address = url + "/chat/completions";
  for (int i = 0; i < calls; ++i) {
    CURL* easy = curl_easy_init();
    states.push_back(std::make_unique<Bare>());
    curl_easy_setopt(easy, CURLOPT_URL, address.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnBareBytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, states.back().get());
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_multi_add_handle(multi, easy);
    handles.push_back(easy);
  }
  int running = calls;
  while (running > 0) {
    curl_multi_perform(multi, &running);
    curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  int right = 0;
  for (const auto& state : states) right += state->events > 2 ? 1 : 0;
  return right == calls ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: llm_client ours|bare BASE_URL CALLS PLUGIN_DIR\n");
    return 2;
  }
  const int calls = std::atoi(argv[3]);
  const double began = Seconds();
  const double cpu = CpuSeconds();
  const int failed =
      std::strcmp(argv[1], "ours") == 0 ? Ours(argv[2], calls, argv[4]) : RunBare(argv[2], calls);
  std::printf(
      "{\"client\": \"%s\", \"ok\": %s, \"wall_s\": %.3f, \"cpu_ms_per_call\": %.3f, "
      "\"peak_mib\": %.1f}\n",
      argv[1], failed == 0 ? "true" : "false", Seconds() - began,
      (CpuSeconds() - cpu) * 1e3 / calls, static_cast<double>(PeakKib()) / 1024);
  std::fflush(stdout);
  std::_Exit(failed);  // the bare client leaves its handles
}
