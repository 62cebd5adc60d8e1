#include "core/base/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

namespace kernel_evolve {

std::string LineOf(const std::string& text, int line) {
  size_t begin = 0;
  for (int current = 1; current < line; ++current) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  size_t end = std::min(text.find('\n', begin), text.size());
  if (end > begin && text[end - 1] == '\r') --end;
  return text.substr(begin, end - begin);
}

size_t CountCodePoints(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

bool IsUtf8Text(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    size_t extra = 0;
    uint32_t code = lead;
    if (lead == 0) return false;
    if (lead < 0x80U) {
      ++i;
      continue;
    }
    if (lead >= 0xC2U && lead <= 0xDFU) {
      extra = 1;
      code = lead & 0x1FU;
    } else if (lead >= 0xE0U && lead <= 0xEFU) {
      extra = 2;
      code = lead & 0x0FU;
    } else if (lead >= 0xF0U && lead <= 0xF4U) {
      extra = 3;
      code = lead & 0x07U;
    } else {
      return false;
    }
    if (i + extra >= bytes.size()) return false;
    for (size_t k = 1; k <= extra; ++k) {
      const auto next = static_cast<unsigned char>(bytes[i + k]);
      if ((next & 0xC0U) != 0x80U) return false;
      code = (code << 6U) | (next & 0x3FU);
    }
    const bool overlong = (extra == 2 && code < 0x800U) || (extra == 3 && code < 0x10000U);
    if (overlong || code > 0x10FFFFU || (code >= 0xD800U && code <= 0xDFFFU)) return false;
    i += extra + 1;
  }
  return true;
}

namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> Nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  const size_t limit = std::max<size_t>(1, std::min<size_t>(3, word.size() / 3 + 1));
  std::optional<std::string> best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string_view Trim(std::string_view text) {
  const char* blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

namespace {

// Reads a plain decimal number ("12", "1.5") from the front of `text` and drops it.
std::optional<double> TakeNumber(std::string_view* text) {
  size_t i = 0;
  double value = 0;
  while (i < text->size() && (*text)[i] >= '0' && (*text)[i] <= '9') {
    value = value * 10 + ((*text)[i++] - '0');
  }
  if (i == 0) return std::nullopt;
  if (i < text->size() && (*text)[i] == '.') {
    double place = 0.1;
    const size_t point = i++;
    for (; i < text->size() && (*text)[i] >= '0' && (*text)[i] <= '9'; ++i, place /= 10) {
      value += place * ((*text)[i] - '0');
    }
    if (i == point + 1) return std::nullopt;
  }
  text->remove_prefix(i);
  return value;
}

}  // namespace

std::optional<double> ParseDuration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  if (text.empty()) return std::nullopt;
  double total = 0;
  double previous = std::numeric_limits<double>::infinity();
  while (!text.empty()) {
    const std::optional<double> number = TakeNumber(&text);
    if (!number) return std::nullopt;
    const Unit* found = nullptr;
    for (const Unit& unit : kUnits) {
      if (text.substr(0, unit.name.size()) == unit.name) {
        found = &unit;
        break;
      }
    }
    if (found == nullptr || found->seconds >= previous) return std::nullopt;
    previous = found->seconds;
    text.remove_prefix(found->name.size());
    total += *number * found->seconds;
  }
  return total;
}

std::optional<int64_t> ParseCount(std::string_view text) {
  const std::optional<double> number = TakeNumber(&text);
  if (!number) return std::nullopt;
  double scale = 1;
  if (text == "k") {
    scale = 1e3;
  } else if (text == "M") {
    scale = 1e6;
  } else if (text == "G") {
    scale = 1e9;
  } else if (!text.empty()) {
    return std::nullopt;
  }
  const double value = *number * scale;
  if (value > 9e15 || value != std::floor(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string FormatSeconds(double seconds) {
  char buffer[64];
  if (seconds < 60) {
    std::snprintf(buffer, sizeof buffer, "%.1f s", seconds);
  } else {
    const auto whole = static_cast<int64_t>(seconds);
    std::snprintf(buffer, sizeof buffer, "%lldm %02llds", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  }
  return buffer;
}

}  // namespace kernel_evolve
