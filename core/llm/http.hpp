// HTTP for model endpoints: many requests in flight on one thread, over libcurl's multi interface.
// The library is opened at the first Send(): a program that calls no endpoint does not pay for it.
//
// TLS is always verified. Redirects are never followed: a request carries keys, and they belong to
// the host that the user named. Proxies come from the options or, as curl's users expect, from
// http_proxy, https_proxy, all_proxy and no_proxy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace kernel_evolve {

// Limits are above 0; times are in seconds, kept to the millisecond.
struct HttpOptions {
  double connect_timeout_s = 10;
  double timeout_s = 600;       // of the whole exchange
  double idle_timeout_s = 120;  // between two arrivals of bytes; also until the first
  size_t max_response_bytes = size_t{64} << 20U;  // of the body, after decompression
  std::string proxy;                              // empty: from the environment; "none": no proxy
  std::string ca_bundle;                          // PEM file; empty: the system's
  std::string client_certificate;                 // PEM file; empty: none
  std::string client_key;                         // PEM file; empty: in the certificate's file
  // "auto" and, with TLS, "2": HTTP/2 where the server agrees to it, else 1.1. "2" without TLS: 2
  // from the first byte. "1.1": that.
  std::string http_version = "auto";
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "POST";
  std::string url;
  HttpHeaders headers;
  std::string body;
  HttpOptions options;
};

struct HttpHead {
  int status = 0;
  HttpHeaders headers;  // names in lower case, in order of arrival
};

struct HttpEnd {
  // Nothing when the body came whole, whatever its status. Else timeout, communication (DNS,
  // refused, reset, cut short, TLS), validation (address, certificate file), invalid_output (too
  // large), cancelled, unavailable (no libcurl), auth (the proxy demands a password). The sentence
  // names the host, never a header's value, nor the address's user, password or query.
  std::optional<Error> error;
  bool lasting = false;     // the same request would fail in the same way again
  bool connected = false;   // whether a connection to the endpoint (or its proxy) was made
  double first_byte_s = 0;  // from Send() to the first byte of the response; 0: none came
  double total_s = 0;
};

// What becomes of a request. Called on the transport's thread, which must not wait, and without
// exceptions: OnHead, then OnBytes any number of times, then OnEnd exactly once; or OnEnd alone.
// Heads below 200 and trailers are passed over.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual void OnHead(const HttpHead& head) = 0;
  virtual void OnBytes(std::string_view bytes) = 0;
  virtual void OnEnd(const HttpEnd& end) = 0;
};

// Thread-safe. The destructor cancels what is in flight, calls each OnEnd, and joins the thread; it
// must not run on the transport's thread. Connections are kept open and used again.
class HttpTransport {
 public:
  HttpTransport();
  ~HttpTransport();
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;

  // Begins a request and returns at once. The handler is kept until its OnEnd has returned. The
  // number is for Cancel() and never used twice.
  int64_t Send(HttpRequest request, std::shared_ptr<HttpHandler> handler);
  // Closes the request's connection (with HTTP/2, its stream) within milliseconds; its OnEnd says
  // cancelled. From within a callback: nothing but OnEnd follows. A number whose OnEnd has been
  // called is ignored.
  void Cancel(int64_t request);

  // Runs `closure` on the transport's thread, soon or `seconds` from now. What is pending when the
  // transport is destroyed is dropped without being run.
  void Post(std::function<void()> closure);
  void After(double seconds, std::function<void()> closure);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace kernel_evolve
