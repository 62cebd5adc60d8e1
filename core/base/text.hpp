// Small text helpers shared by every layer. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kernel_evolve {

// The text of line `line` (from 1) without its line end; empty when there is no such line.
std::string LineOf(const std::string& text, int line);

// Number of code points in valid UTF-8 (a stray byte counts as one).
size_t CountCodePoints(std::string_view utf8);

// True when `bytes` is well-formed UTF-8 without NUL.
bool IsUtf8Text(std::string_view bytes);

// The candidate nearest to `word` by edit distance, or nothing when none is near enough to suggest.
std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view Trim(std::string_view text);

// "30m", "1h30m", "250ms", "45s" to seconds. Nothing when malformed or negative.
std::optional<double> ParseDuration(std::string_view text);

// "400k", "1M", "60" to a count. Nothing when malformed, negative or too large.
std::optional<int64_t> ParseCount(std::string_view text);

// Seconds as people read them: "0.8 s", "3m 05s".
std::string FormatSeconds(double seconds);

// 64 hexadecimal digits of SHA-256. A stable content hash, used for identity.
std::string Sha256Hex(std::string_view bytes);

}  // namespace kernel_evolve
