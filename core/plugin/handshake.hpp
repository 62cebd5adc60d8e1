// The handshake with a plugin's descriptor, and the manifest text that is made of it.
// Pure functions over the C tables.
#pragma once

#include <string>
#include <string_view>

#include "kernel_evolve/abi.h"

namespace kernel_evolve {

// Empty when this host can work with the plugin; else what follows "<file> " in a sentence that
// says what is wrong, what the host offers and what to do.
std::string HandshakeRefusal(const ke_plugin* plugin);

// Entry `index` of a descriptor that passed, by the plugin's own idea of how large an entry is: it
// may have been built with a newer header than this host.
const ke_type& TypeAt(const ke_plugin& plugin, size_t index);

// The manifest of a plugin that passed, as JSON text. Schema and interface go in as the plugin
// wrote them, so the text is valid JSON only if they are.
std::string ManifestText(const ke_plugin& plugin, std::string_view library, std::string_view hash);

// What follows "<file> " for a library without the one export.
inline constexpr char kNoQuery[] =
    "is not a KernelEvolve plugin: it exports no ke_plugin_query; build it with "
    "kernel_evolve_add_plugin or remove it";

// The same for one that the loader refused; `cause` is the loader's text.
std::string NotLoadable(const std::string& path, std::string_view cause);

}  // namespace kernel_evolve
