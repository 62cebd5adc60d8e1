#include "core/llm/http_transfer.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "core/base/text.hpp"
#include "core/llm/http_error.hpp"

namespace kernel_evolve {
namespace {

// Some servers send a lot of policy; none sends this much.
constexpr size_t kMaxHeadBytes = size_t{512} << 10U;
constexpr const char* kUserAgent = "kernel-evolve";

using Clock = HttpTransfer::Clock;

double SecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

long Milliseconds(double seconds) {
  constexpr double kMost = 2'000'000'000;  // below what a 32-bit count of milliseconds holds
  return static_cast<long>(std::clamp(seconds * 1000, 1.0, kMost));
}

Error Invalid(std::string message) { return Failed(ErrorClass::kValidation, std::move(message)); }

bool IsToken(std::string_view text) {
  constexpr std::string_view kAlso = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kAlso.find(c) != std::string_view::npos;
  });
}

bool IsHeaderValue(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool IsSet(std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  });
}

// libcurl leaves its sockets open in programs that are started meanwhile: there a connection would
// outlive its end here.
curl_socket_t OpenSocket(void* /*self*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// libcurl's own reading of an address, so that what is checked is what is connected to.
class Address {
 public:
  Address(const CurlLibrary& curl, const std::string& text, unsigned flags)
      : curl_(curl), url_(curl.url()) {
    ok_ = url_ != nullptr && text.find('\0') == std::string::npos &&
          curl.url_set(url_, CURLUPART_URL, text.c_str(), flags) == CURLUE_OK;
  }
  ~Address() { curl_.url_cleanup(url_); }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;

  bool ok() const { return ok_ && !Part(CURLUPART_HOST).empty(); }
  std::string Part(CURLUPart part, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_.url_get(url_, part, &text, flags) != CURLUE_OK) return "";
    std::string out(text);
    curl_.free(text);
    return out;
  }

 private:
  const CurlLibrary& curl_;
  CURLU* url_;
  bool ok_ = false;
};

}  // namespace

HttpTransfer::HttpTransfer(int64_t id, HttpRequest request, std::shared_ptr<HttpHandler> handler)
    : id_(id),
      request_(std::move(request)),
      handler_(std::move(handler)),
      sent_at_(Clock::now()),
      started_at_(sent_at_) {}

HttpTransfer::~HttpTransfer() {
  if (headers_ != nullptr) curl_->slist_free_all(headers_);
}

template <typename Value>
void HttpTransfer::Set(CURLoption option, Value value) {
  const CURLcode code = curl_->easy_setopt(easy_, option, value);
  if (refused_ == CURLE_OK) refused_ = code;
}

Status HttpTransfer::Prepare(const CurlLibrary& curl, CURL* easy) {
  curl_ = &curl;
  easy_ = easy;
  started_at_ = Clock::now();
  if (Status address = ReadAddress(); !address) return address;
  if (Status proxy = ReadProxy(); !proxy) return proxy;
  if (Status files = CheckFiles(); !files) return files;
  if (Status headers = AddHeaders(); !headers) return headers;
  if (Status version = SetVersion(); !version) return version;

  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_ERRORBUFFER, static_cast<char*>(detail_));
  Set(CURLOPT_PRIVATE, static_cast<void*>(this));
  Set(CURLOPT_URL, request_.url.c_str());
  Set(CURLOPT_FOLLOWLOCATION, 0L);
  Set(CURLOPT_ACCEPT_ENCODING, "");  // whatever this libcurl can undo
  Set(CURLOPT_USERAGENT, kUserAgent);
  Set(CURLOPT_TCP_KEEPALIVE, 1L);
  Set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(request_.options.connect_timeout_s));
  Set(CURLOPT_TIMEOUT_MS, Milliseconds(request_.options.timeout_s));
  Set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(request_.options.max_response_bytes));
  Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  Set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  Set(CURLOPT_HEADERFUNCTION, &HttpTransfer::HeaderCallback);
  Set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(CURLOPT_WRITEFUNCTION, &HttpTransfer::BodyCallback);
  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  SetMethod();
  SetTls();
  if (refused_ != CURLE_OK) {
    return Failed(ErrorClass::kUnavailable,
                  std::string("libcurl ") + curl.version_info(CURLVERSION_NOW)->version +
                      " lacks what a request to " + host_ + " needs (" +
                      curl.easy_strerror(refused_) + "); install a newer libcurl4");
  }
  // Younger options. Without the first, giving up on a name that is being looked up waits for the
  // system's resolver; the second only repeats what ReadAddress() has checked.
  (void)curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  (void)curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  return {};
}

Status HttpTransfer::ReadAddress() {
  const Address address(*curl_, request_.url, CURLU_NON_SUPPORT_SCHEME);
  const std::string scheme = address.ok() ? address.Part(CURLUPART_SCHEME) : "";
  if (scheme != "http" && scheme != "https") {
    return Invalid(
        "the endpoint's address is not of the form https://host:port/path; correct base_url in "
        "the profile");
  }
  host_ = address.Part(CURLUPART_HOST) + ":" + address.Part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  https_ = scheme == "https";
  if (!IsToken(request_.method)) {
    return Invalid("the request to " + host_ + " has a method that HTTP does not allow");
  }
  return {};
}

Status HttpTransfer::ReadProxy() {
  const std::string& proxy = request_.options.proxy;
  if (proxy.empty()) return {};  // the environment's, which libcurl reads
  if (proxy == "none") {
    Set(CURLOPT_PROXY, "");
    return {};
  }
  const Address address(*curl_, proxy, CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME);
  const std::string scheme = address.ok() ? address.Part(CURLUPART_SCHEME) : "";
  constexpr std::string_view kSchemes[] = {"http",    "https",  "socks4",
                                           "socks4a", "socks5", "socks5h"};
  if (std::find(std::begin(kSchemes), std::end(kSchemes), scheme) == std::end(kSchemes)) {
    return Invalid("proxy in the profile for " + host_ +
                   " is not an address such as http://host:3128; correct it, or set it to none");
  }
  const std::string port = address.Part(CURLUPART_PORT);
  const std::string usual = scheme == "https" ? "443" : "1080";  // libcurl's, for proxies
  proxy_ = address.Part(CURLUPART_HOST) + ":" + (port.empty() ? usual : port);
  Set(CURLOPT_PROXY, proxy.c_str());
  return {};
}

Status HttpTransfer::CheckFiles() const {
  const HttpOptions& options = request_.options;
  const std::pair<const char*, const std::string*> files[] = {
      {"tls.ca_bundle", &options.ca_bundle},
      {"tls.client_certificate", &options.client_certificate},
      {"tls.client_key", &options.client_key}};
  for (const auto& [key, file] : files) {
    if (file->empty() || ::access(file->c_str(), R_OK) == 0) continue;
    return Invalid("the file " + *file + " cannot be read for requests to " + host_ + "; correct " +
                   key + " in the profile");
  }
  return {};
}

Status HttpTransfer::AddHeaders() {
  const auto append = [this](const std::string& line) {
    curl_slist* const longer = curl_->slist_append(headers_, line.c_str());
    if (longer != nullptr) headers_ = longer;
    return longer != nullptr;
  };
  bool typed = false;
  bool added = append("Expect:");  // no waiting for 100 Continue
  for (const auto& [name, value] : request_.headers) {
    if (!IsToken(name)) {
      return Invalid("a header's name in the request to " + host_ +
                     " is not a word of letters, digits and hyphens; correct default_headers in "
                     "the profile");
    }
    if (!IsHeaderValue(value)) {
      return Invalid("the header " + name + " of the request to " + host_ +
                     " has a line break or a control character in its value; look for a stray "
                     "line end in the variable or file that it comes from");
    }
    const std::string lower = Lower(name);
    if (lower == "content-length" || lower == "transfer-encoding") {
      return Invalid("the header " + name + " of the request to " + host_ +
                     " is the transport's to set; remove it from default_headers in the profile");
    }
    typed = typed || lower == "content-type";
    const std::string_view trimmed = Trim(value);
    // libcurl's way to say: a header without a value, rather than: remove this header.
    added = added && append(trimmed.empty() ? name + ";" : name + ": " + std::string(trimmed));
  }
  if (!typed) added = added && append("Content-Type:");  // no form's type
  if (!added) {
    return Failed(ErrorClass::kUnavailable, "no memory is left for a request to " + host_);
  }
  Set(CURLOPT_HTTPHEADER, headers_);
  return {};
}

Status HttpTransfer::SetVersion() {
  const std::string& version = request_.options.http_version;
  const bool has_2 = (curl_->version_info(CURLVERSION_NOW)->features & CURL_VERSION_HTTP2) != 0;
  if (version == "1.1") {
    Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    return {};
  }
  if (version == "2") {
    if (!has_2) {
      return Failed(ErrorClass::kUnavailable,
                    "this computer's libcurl has no HTTP/2 for " + host_ +
                        "; set http_version: 1.1 in the profile or install another libcurl4");
    }
    // Without TLS there is nothing to negotiate with, and the old Upgrade cannot carry a POST.
    Set(CURLOPT_HTTP_VERSION,
        static_cast<long>(https_ ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
  } else if (version == "auto") {
    Set(CURLOPT_HTTP_VERSION,
        static_cast<long>(has_2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  } else {
    return Invalid("http_version in the profile for " + host_ +
                   " must be auto, 1.1 or 2; it is written as a text");
  }
  // A burst waits for the first handshake, to share one connection if that speaks HTTP/2.
  if (has_2 && (https_ || version == "2")) Set(CURLOPT_PIPEWAIT, 1L);
  return {};
}

void HttpTransfer::SetMethod() {
  const std::string& method = request_.method;
  if (method == "HEAD") return Set(CURLOPT_NOBODY, 1L);
  if (method == "GET" && request_.body.empty()) return Set(CURLOPT_HTTPGET, 1L);
  if (method == "POST" || !request_.body.empty()) {
    Set(CURLOPT_POST, 1L);
    // Not copied: the request lives as long as the transfer.
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    Set(CURLOPT_POSTFIELDS, request_.body.c_str());
  }
  if (method != "POST") Set(CURLOPT_CUSTOMREQUEST, method.c_str());
}

bool HttpTransfer::HasSystemBundle() const {
  const char* bundle = nullptr;
  return curl_->easy_getinfo(easy_, CURLINFO_CAINFO, &bundle) == CURLE_OK && bundle != nullptr &&
         ::access(bundle, R_OK) == 0;
}

void HttpTransfer::SetTls() {
  const HttpOptions& options = request_.options;
  for (const CURLoption peer : {CURLOPT_SSL_VERIFYPEER, CURLOPT_PROXY_SSL_VERIFYPEER})
    Set(peer, 1L);
  for (const CURLoption host : {CURLOPT_SSL_VERIFYHOST, CURLOPT_PROXY_SSL_VERIFYHOST})
    Set(host, 2L);
  if (!options.ca_bundle.empty()) {
    Set(CURLOPT_CAINFO, options.ca_bundle.c_str());
    Set(CURLOPT_PROXY_CAINFO, options.ca_bundle.c_str());
  }
  // A given bundle stands for the system's authorities, not beside them. And the system's folder
  // repeats its bundle, yet with a folder libcurl parses all of them again for every connection:
  // 28 ms each.
  if (!options.ca_bundle.empty() || HasSystemBundle()) {
    Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    Set(CURLOPT_PROXY_CAPATH, static_cast<const char*>(nullptr));
  }
  if (options.client_certificate.empty()) return;
  const std::string& key =
      options.client_key.empty() ? options.client_certificate : options.client_key;
  Set(CURLOPT_SSLCERT, options.client_certificate.c_str());
  Set(CURLOPT_SSLKEY, key.c_str());
  // Without a passphrase OpenSSL asks the terminal for one; GnuTLS takes even an empty one as a
  // sign that the key is encrypted.
  const char* const tls = curl_->version_info(CURLVERSION_NOW)->ssl_version;
  const bool gnutls = tls != nullptr && std::string_view(tls).starts_with("GnuTLS");
  if (!gnutls) Set(CURLOPT_KEYPASSWD, "");
}

size_t HttpTransfer::HeaderCallback(char* data, size_t size, size_t count, void* self) {
  const size_t bytes = size * count;
  auto* const transfer = static_cast<HttpTransfer*>(self);
  return transfer->TakeHeaderLine(std::string_view(data, bytes)) ? bytes : 0;
}

bool HttpTransfer::TakeHeaderLine(std::string_view line) {
  if (abandoned_) return false;
  arrived_at_ = Clock::now();
  if (first_byte_at_ == Clock::time_point()) first_byte_at_ = arrived_at_;
  if (head_done_) return true;  // trailers
  head_bytes_ += line.size();
  if (head_bytes_ > kMaxHeadBytes) {
    exceeded_ = Limit::kHead;
    return false;
  }
  const bool folded = line.starts_with(' ') || line.starts_with('\t');
  const std::string_view text = Trim(line);
  if (line.starts_with("HTTP/")) {
    head_ = HttpHead();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return true;
    std::from_chars(text.data() + space + 1, text.data() + text.size(), head_.status);
  } else if (text.empty()) {
    if (head_.status < 200) return true;  // 100 Continue, 103 Early Hints: another head follows
    head_done_ = true;
    handler_->OnHead(head_);
    return !abandoned_;
  } else if (folded) {
    if (!head_.headers.empty()) head_.headers.back().second += " " + std::string(text);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    head_.headers.emplace_back(Lower(Trim(text.substr(0, colon))),
                               std::string(Trim(text.substr(colon + 1))));
  }
  return true;
}

size_t HttpTransfer::BodyCallback(char* data, size_t size, size_t count, void* self) {
  const size_t bytes = size * count;
  auto* const transfer = static_cast<HttpTransfer*>(self);
  if (transfer->abandoned_) return 0;
  transfer->arrived_at_ = Clock::now();
  transfer->body_bytes_ += bytes;
  if (transfer->body_bytes_ > transfer->request_.options.max_response_bytes) {
    transfer->exceeded_ = Limit::kBody;
    return 0;
  }
  if (bytes > 0) transfer->handler_->OnBytes(std::string_view(data, bytes));
  return transfer->abandoned_ ? 0 : bytes;
}

double HttpTransfer::Elapsed() const { return SecondsBetween(sent_at_, Clock::now()); }

double HttpTransfer::ConnectedAfter() const {
  curl_off_t microseconds = 0;
  if (easy_ == nullptr ||
      curl_->easy_getinfo(easy_, CURLINFO_PRETRANSFER_TIME_T, &microseconds) != CURLE_OK) {
    return 0;
  }
  return static_cast<double>(microseconds) / 1e6;
}

Clock::time_point HttpTransfer::IdleDeadline() const {
  const auto idle = std::chrono::milliseconds(Milliseconds(request_.options.idle_timeout_s));
  if (arrived_at_ != Clock::time_point()) return arrived_at_ + idle;
  // Until it is connected, the limit for that holds; then the waiting begins.
  const double connected = ConnectedAfter();
  const Clock::time_point from =
      connected > 0 ? started_at_ + std::chrono::microseconds(static_cast<int64_t>(connected * 1e6))
                    : Clock::now();
  return from + idle;
}

HttpEnd HttpTransfer::Times() const {
  HttpEnd end;
  const bool came = first_byte_at_ != Clock::time_point();
  curl_off_t connect_us = 0;
  if (easy_ != nullptr) {
    (void)curl_->easy_getinfo(easy_, CURLINFO_CONNECT_TIME_T, &connect_us);
  }
  end.connected = came || connect_us > 0 || ConnectedAfter() > 0;
  if (came) end.first_byte_s = SecondsBetween(sent_at_, first_byte_at_);
  end.total_s = Elapsed();
  return end;
}

HttpEnd HttpTransfer::EndedBy(CURLcode code) const {
  if (abandoned_) return EndedCancelled();
  HttpEnd end = Times();
  if (exceeded_ == Limit::kBody) {
    end.error = HttpTooLarge(host_, request_.options.max_response_bytes);
  } else if (exceeded_ == Limit::kHead) {
    end.error = HttpHeadTooLarge(host_);
  } else if (code != CURLE_OK) {
    HttpFailure failure;
    failure.code = code;
    failure.detail = static_cast<const char*>(detail_);
    failure.host = host_;
    failure.proxy = proxy_;
    failure.proxied_by_environment =
        request_.options.proxy.empty() &&
        (https_ ? IsSet({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
                : IsSet({"http_proxy", "all_proxy", "ALL_PROXY"}));
    failure.https = https_;
    failure.connected = ConnectedAfter() > 0;
    failure.head_came = head_done_;
    failure.body_bytes = body_bytes_;
    (void)curl_->easy_getinfo(easy_, CURLINFO_HTTP_CONNECTCODE, &failure.proxy_status);
    (void)curl_->easy_getinfo(easy_, CURLINFO_OS_ERRNO, &failure.os_error);
    end.error = ExplainHttpFailure(failure, request_.options);
    end.lasting = IsLasting(failure);
  } else if (!head_done_) {
    end.error = Failed(ErrorClass::kCommunication, host_ + " did not answer in HTTP");
  }
  return end;
}

HttpEnd HttpTransfer::EndedIdle() const {
  HttpEnd end = Times();
  end.error = HttpIdleTimeout(host_, request_.options.idle_timeout_s);
  return end;
}

HttpEnd HttpTransfer::EndedCancelled() const {
  HttpEnd end = Times();
  end.error = HttpCancelled(host_);
  return end;
}

HttpEnd HttpTransfer::EndedUnsent(Error error) const {
  HttpEnd end;
  end.error = std::move(error);
  end.lasting = true;  // what is missing or wrong is on this computer
  end.total_s = Elapsed();
  return end;
}

}  // namespace kernel_evolve
