// Why an exchange failed, in one sentence for the user. Nothing here prints a header's value, or
// the user, password, path or query of an address.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "core/llm/curl_library.hpp"
#include "core/llm/http.hpp"

namespace kernel_evolve {

// What is known of an exchange that libcurl gave up.
struct HttpFailure {
  CURLcode code = CURLE_OK;
  std::string detail;  // libcurl's error buffer; shown only where it speaks of certificates
  std::string host;    // "name:port" of the endpoint
  std::string proxy;   // "name:port" of the options' proxy; empty: none
  bool proxied_by_environment = false;  // a variable names a proxy for this scheme
  bool https = false;
  bool connected = false;
  bool head_came = false;
  size_t body_bytes = 0;
  long proxy_status = 0;  // of CONNECT; 0: none
  long os_error = 0;      // errno of the last connect; 0: none
};

Error ExplainHttpFailure(const HttpFailure& failure, const HttpOptions& options);

// Whether the same request would fail in the same way again, as for a certificate that is not
// trusted: someone has to change something first.
bool IsLasting(const HttpFailure& failure);

// The same for what the transport itself ends.
Error HttpIdleTimeout(const std::string& host, double seconds);
Error HttpTooLarge(const std::string& host, size_t max_bytes);
Error HttpHeadTooLarge(const std::string& host);
Error HttpCancelled(const std::string& host);

}  // namespace kernel_evolve
