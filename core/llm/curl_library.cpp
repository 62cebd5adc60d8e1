#include "core/llm/curl_library.hpp"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

namespace kernel_evolve {
namespace {

// Either TLS back end will do; the first is what Debian's libcurl4 holds.
constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

template <typename Function>
bool Find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

bool Fill(void* library, CurlLibrary* out) {
  return Find(library, "curl_global_init", &out->global_init) &&
         Find(library, "curl_version_info", &out->version_info) &&
         Find(library, "curl_free", &out->free) &&
         Find(library, "curl_slist_append", &out->slist_append) &&
         Find(library, "curl_slist_free_all", &out->slist_free_all) &&
         Find(library, "curl_url", &out->url) &&
         Find(library, "curl_url_cleanup", &out->url_cleanup) &&
         Find(library, "curl_url_get", &out->url_get) &&
         Find(library, "curl_url_set", &out->url_set) &&
         Find(library, "curl_easy_init", &out->easy_init) &&
         Find(library, "curl_easy_cleanup", &out->easy_cleanup) &&
         Find(library, "curl_easy_reset", &out->easy_reset) &&
         Find(library, "curl_easy_setopt", &out->easy_setopt) &&
         Find(library, "curl_easy_getinfo", &out->easy_getinfo) &&
         Find(library, "curl_easy_strerror", &out->easy_strerror) &&
         Find(library, "curl_multi_init", &out->multi_init) &&
         Find(library, "curl_multi_cleanup", &out->multi_cleanup) &&
         Find(library, "curl_multi_setopt", &out->multi_setopt) &&
         Find(library, "curl_multi_add_handle", &out->multi_add_handle) &&
         Find(library, "curl_multi_remove_handle", &out->multi_remove_handle) &&
         Find(library, "curl_multi_assign", &out->multi_assign) &&
         Find(library, "curl_multi_socket_action", &out->multi_socket_action) &&
         Find(library, "curl_multi_info_read", &out->multi_info_read);
}

// A connection is a file, and the customary soft limit of 1024 is too low for a thousand of them.
void RaiseFileLimit() {
  constexpr rlim_t kWanted = 8192;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = std::min(kWanted, limit.rlim_max);
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // else: fewer connections at once, each a clear error
}

Result<CurlLibrary> Open() {
  std::string causes;
  for (const char* name : kNames) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* cause = dlerror();
      causes += (causes.empty() ? "" : "; ") + std::string(cause != nullptr ? cause : name);
      continue;
    }
    CurlLibrary curl;
    if (!Fill(library, &curl)) {
      causes += (causes.empty() ? "" : "; ") + std::string(name) + " is too old";
      dlclose(library);
      continue;
    }
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
      return MissingEnvironment(std::string(name) + " cannot be initialized; reinstall libcurl4");
    }
    RaiseFileLimit();
    return curl;
  }
  return MissingEnvironment("models over HTTP need libcurl (" + causes +
                            "); install the package libcurl4 (libcurl4t64 on Ubuntu 24.04)");
}

}  // namespace

const Result<CurlLibrary>& CurlLibrary::Get() {
  static const auto* const opened = new Result<CurlLibrary>(Open());  // outlives every thread
  return *opened;
}

}  // namespace kernel_evolve
