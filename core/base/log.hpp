// Diagnostics for developers and operators, on stderr. Reports for the user go through report/.
// Thread-safe. Off below `warning` unless KERNEL_EVOLVE_LOG=debug|info|warning|error says
// otherwise.
#pragma once

#include <string_view>

namespace kernel_evolve {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void Log(LogLevel level, std::string_view message);

}  // namespace kernel_evolve
