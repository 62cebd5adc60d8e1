// The standard filesystem: Boost's own would be one more library to link.
#define BOOST_DLL_USE_STD_FS
#include "core/plugin/host.hpp"

#include <boost/dll/shared_library.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "core/plugin/handshake.hpp"
#include "core/plugin/library_image.hpp"

namespace kernel_evolve {
namespace {

using boost::dll::shared_library;
namespace load_mode = boost::dll::load_mode;

// Libraries stay: code of a plugin may be on any stack, and its static data behind any handle.
void KeepForEver(std::unique_ptr<shared_library> library) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<shared_library>>;
  const std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(library));
}

}  // namespace

Error Refused(const std::filesystem::path& path, const std::string& what) {
  return MissingEnvironment(path.string() + " " + what);
}

Result<const ke_plugin*> LoadPlugin(const std::filesystem::path& library,
                                    const std::string& expected_hash) {
  const LibraryImage image = LibraryImage::Read(library);
  if (!image.refusal.empty()) return Refused(library, image.refusal);
  if (image.hash != expected_hash) return Refused(library, kStaleManifest);
  ke_plugin_query_fn query = nullptr;
  try {
    // The overload that throws: the other one loses the loader's text.
    auto loaded =
        std::make_unique<shared_library>(library, load_mode::rtld_now | load_mode::rtld_local);
    if (loaded->has("ke_plugin_query")) {
      query = &loaded->get<const ke_plugin*(uint32_t, uint32_t)>("ke_plugin_query");
    }
    KeepForEver(std::move(loaded));
  } catch (const std::exception& e) {
    return Refused(library, NotLoadable(library.string(), e.what()));
  } catch (...) {
    return Refused(library, NotLoadable(library.string(), "a static constructor threw"));
  }
  if (query == nullptr) return Refused(library, kNoQuery);
  const ke_plugin* plugin = query(KE_ABI_MAJOR, KE_ABI_MINOR);
  const std::string refusal = HandshakeRefusal(plugin);
  if (!refusal.empty()) return Refused(library, refusal);
  return plugin;
}

}  // namespace kernel_evolve
