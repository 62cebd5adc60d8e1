#include "core/llm/http_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

namespace kernel_evolve {
namespace {

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g s", seconds);
  return text;
}

std::string Bytes(size_t bytes) {
  char text[32];
  if (bytes < size_t{1} << 20U) return std::to_string(bytes) + " bytes";
  std::snprintf(text, sizeof text, "%.4g MiB", static_cast<double>(bytes) / (1U << 20U));
  return text;
}

bool HasAny(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

Error Communication(std::string message) {
  return Failed(ErrorClass::kCommunication, std::move(message));
}

Error Validation(std::string message) {
  return Failed(ErrorClass::kValidation, std::move(message));
}

// What a proxy may have to do with it, for failures on the way to the first byte.
std::string ByProxy(const HttpFailure& failure) {
  if (!failure.proxy.empty()) return " through the proxy " + failure.proxy;
  if (failure.proxied_by_environment) {
    return failure.https ? " (the environment names a proxy: https_proxy or all_proxy)"
                         : " (the environment names a proxy: http_proxy or all_proxy)";
  }
  return "";
}

Error Timeout(const HttpFailure& failure, const HttpOptions& options) {
  // Both clocks run while connecting; the shorter one is what ended it.
  const bool connecting = !failure.connected && options.connect_timeout_s < options.timeout_s;
  if (connecting) {
    return Failed(ErrorClass::kTimeout,
                  "no connection to " + failure.host + ByProxy(failure) + " within " +
                      Seconds(options.connect_timeout_s) +
                      "; check the address and the network, or raise limits.connect_timeout in "
                      "the profile");
  }
  return Failed(ErrorClass::kTimeout, failure.host + " did not end its answer within " +
                                          Seconds(options.timeout_s) +
                                          "; raise limits.timeout in the profile");
}

Error Connect(const HttpFailure& failure) {
  const std::string where = failure.host + ByProxy(failure);
  const int os_error = static_cast<int>(failure.os_error);
  if (os_error == EMFILE || os_error == ENFILE) {
    return Communication("cannot connect to " + where +
                         ": too many files are open; raise ulimit -n, or lower "
                         "limits.concurrency in the profile");
  }
  const std::string cause = os_error == 0              ? "no connection"
                            : os_error == ECONNREFUSED ? "connection refused"
                                                       : std::generic_category().message(os_error);
  return Communication("cannot connect to " + where + ": " + cause +
                       "; check that the server runs and that base_url in the profile is right");
}

Error Proxy(const HttpFailure& failure) {
  const std::string proxy =
      failure.proxy.empty() ? "the environment's proxy" : "the proxy " + failure.proxy;
  if (failure.proxy_status == 407) {
    return Failed(ErrorClass::kAuth,
                  proxy + " demands a user and a password (407) on the way to " + failure.host +
                      "; put them into proxy in the profile, as http://${env:NAME}@host:port");
  }
  const std::string status =
      failure.proxy_status == 0 ? "" : " (" + std::to_string(failure.proxy_status) + ")";
  return Communication(proxy + " did not open the way to " + failure.host + status +
                       "; check proxy in the profile, or set it to none");
}

// Both the handshake's own failures and the alerts that TLS 1.3 sends after it.
bool DemandsCertificate(const std::string& detail) {
  return HasAny(detail, {"certificate required", "Certificate is required", "bad certificate",
                         "Certificate is bad", "handshake failure"});
}

Error ClientCertificate(const HttpFailure& failure, const HttpOptions& options) {
  if (options.client_certificate.empty()) {
    return Communication(failure.host +
                         " may demand a client certificate, and none is set; give PEM files as "
                         "tls.client_certificate and tls.client_key in the profile");
  }
  return Communication(failure.host + " refused the client certificate " +
                       options.client_certificate +
                       "; check tls.client_certificate and tls.client_key in the profile");
}

Error Verification(const HttpFailure& failure, const HttpOptions& options) {
  const std::string who = "the certificate of " + failure.host + ByProxy(failure);
  const std::string detail = failure.detail.empty() ? "" : " (" + failure.detail + ")";
  if (HasAny(failure.detail, {"subject name", "does not match", "hostname"})) {
    return Communication(who + " is for another host name" + detail +
                         "; use the name it was made for in base_url in the profile");
  }
  if (HasAny(failure.detail, {"expired", "not yet valid"})) {
    return Communication(who + " is out of date" + detail +
                         "; check this computer's clock, or have the certificate renewed");
  }
  const std::string trusted =
      options.ca_bundle.empty() ? "the system's authorities" : "those in " + options.ca_bundle;
  return Communication(who + " is not signed by an authority among " + trusted + detail +
                       "; give the authority's PEM file as tls.ca_bundle in the profile");
}

Error UnusableCertificate(const HttpOptions& options) {
  return Validation("the client certificate " + options.client_certificate +
                    " cannot be used: it must be PEM, with a key that is not encrypted and belongs "
                    "to it; correct tls.client_certificate and tls.client_key in the profile");
}

bool IsBadClientFile(const std::string& detail) {
  return HasAny(detail, {"error reading X.509"});  // GnuTLS
}

bool SpeaksNoTls(const std::string& detail) {
  return HasAny(detail, {"wrong version number", "packet header", "unexpected TLS packet",
                         "An unexpected TLS packet"});
}

Error Handshake(const HttpFailure& failure, const HttpOptions& options) {
  if (IsBadClientFile(failure.detail)) return UnusableCertificate(options);
  if (DemandsCertificate(failure.detail)) return ClientCertificate(failure, options);
  if (SpeaksNoTls(failure.detail)) {
    return Communication(failure.host +
                         " does not speak TLS; if it is meant to, check its port, else write "
                         "http:// in base_url in the profile");
  }
  const std::string detail = failure.detail.empty() ? "" : " (" + failure.detail + ")";
  return Communication("the TLS handshake with " + failure.host + ByProxy(failure) + " failed" +
                       detail + "; check base_url and tls in the profile");
}

std::string SoFar(const HttpFailure& failure) {
  if (!failure.head_came) return " before its answer began";
  return " after " + Bytes(failure.body_bytes) + " of its answer";
}

Error BrokenOff(const HttpFailure& failure, const HttpOptions& options) {
  std::string advice = "try again, and if it stays so look at the server's own log";
  if (failure.https && !failure.head_came) {
    if (DemandsCertificate(failure.detail)) return ClientCertificate(failure, options);
    // With TLS 1.3 a server refuses the client after the handshake, and often hangs up before its
    // reason has been read.
    advice = options.client_certificate.empty()
                 ? "if it demands a client certificate, give tls.client_certificate in the "
                   "profile, else try again"
                 : "it may have refused the client certificate " + options.client_certificate +
                       "; check tls.client_certificate in the profile";
  }
  return Communication(failure.host + " closed the connection" + SoFar(failure) + "; " + advice);
}

}  // namespace

Error ExplainHttpFailure(const HttpFailure& failure, const HttpOptions& options) {
  if (failure.proxy_status >= 300) return Proxy(failure);
  switch (failure.code) {
    case CURLE_OPERATION_TIMEDOUT:
      return Timeout(failure, options);
    case CURLE_COULDNT_RESOLVE_HOST:
      return Communication("there is no host " + failure.host + ByProxy(failure) +
                           "; check base_url in the profile and this computer's network");
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Communication("there is no proxy host" +
                           (failure.proxy.empty() ? ByProxy(failure) : " " + failure.proxy) +
                           "; correct proxy in the profile, or set it to none");
    case CURLE_COULDNT_CONNECT:
      return Connect(failure);
    case CURLE_PROXY:
      return Proxy(failure);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return Verification(failure, options);
    case CURLE_SSL_CONNECT_ERROR:
      return Handshake(failure, options);
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
      return Validation("no certificates can be read from " +
                        (options.ca_bundle.empty() ? "the system's bundle" : options.ca_bundle) +
                        "; give a PEM file as tls.ca_bundle in the profile");
    case CURLE_SSL_CERTPROBLEM:
      return UnusableCertificate(options);
    case CURLE_FILESIZE_EXCEEDED:
      return HttpTooLarge(failure.host, options.max_response_bytes);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return Communication(failure.host +
                           " did not answer in HTTP; check the address and the port of base_url "
                           "in the profile");
    case CURLE_BAD_CONTENT_ENCODING:
      return Communication("the answer of " + failure.host + " cannot be decompressed" +
                           "; look at the server or its proxy");
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return BrokenOff(failure, options);
    case CURLE_OUT_OF_MEMORY:
      return Failed(ErrorClass::kUnavailable, "no memory is left for a request to " + failure.host);
    default:
      return Communication("the request to " + failure.host + ByProxy(failure) +
                           " failed: libcurl's error " + std::to_string(failure.code) +
                           "; try again, and if it stays so check base_url in the profile");
  }
}

bool IsLasting(const HttpFailure& failure) {
  const long refusal = failure.proxy_status;
  if (refusal >= 300) return refusal < 500 && refusal != 408 && refusal != 429;
  switch (failure.code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_FILESIZE_EXCEEDED:
      return true;
    case CURLE_SSL_CONNECT_ERROR:
      return IsBadClientFile(failure.detail) || DemandsCertificate(failure.detail) ||
             SpeaksNoTls(failure.detail);
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      return failure.https && !failure.head_came && DemandsCertificate(failure.detail);
    default:
      return false;
  }
}

Error HttpIdleTimeout(const std::string& host, double seconds) {
  return Failed(ErrorClass::kTimeout, host + " sent nothing for " + Seconds(seconds) +
                                          "; raise limits.idle_timeout in the profile");
}

Error HttpTooLarge(const std::string& host, size_t max_bytes) {
  return Failed(ErrorClass::kInvalidOutput, "the answer of " + host + " is larger than " +
                                                Bytes(max_bytes) +
                                                "; raise limits.max_response in the profile");
}

Error HttpHeadTooLarge(const std::string& host) {
  return Failed(
      ErrorClass::kInvalidOutput,
      "the answer of " + host + " begins with too many headers; check base_url in the profile");
}

Error HttpCancelled(const std::string& host) {
  return Failed(ErrorClass::kCancelled, "the request to " + host + " was cancelled");
}

}  // namespace kernel_evolve
