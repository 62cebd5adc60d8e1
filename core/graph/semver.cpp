#include "core/graph/semver.hpp"

#include <array>
#include <charconv>
#include <compare>
#include <vector>

#include "core/base/text.hpp"

namespace kernel_evolve::graph {
namespace {

struct Version {
  std::array<int, 3> parts{};
  size_t given = 0;  // how many of them were written
  auto operator<=>(const Version& other) const { return parts <=> other.parts; }
  bool operator==(const Version& other) const { return parts == other.parts; }
};

std::optional<Version> Parse(std::string_view text) {
  Version version;
  for (const std::string& part : Split(text, '.')) {
    if (version.given == 3 || part.empty() || part.size() > 6) return std::nullopt;
    int* number = &version.parts[version.given++];
    const auto read = std::from_chars(part.data(), part.data() + part.size(), *number);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size() || *number < 0) {
      return std::nullopt;
    }
  }
  return version;
}

struct Comparator {
  Version low;   // inclusive unless `above`
  Version high;  // exclusive unless `up_to`
  bool has_low = false, has_high = false, above = false, up_to = false;

  bool Holds(const Version& version) const {
    if (has_low && (version < low || (above && version == low))) return false;
    return !has_high || version < high || (up_to && version == high);
  }
};

// The first version past everything that shares the first `keep` numbers.
Version After(Version version, size_t keep) {
  for (size_t i = keep; i < 3; ++i) version.parts[i] = 0;
  ++version.parts[keep - 1];
  return version;
}

std::optional<Comparator> ParseComparator(std::string_view text) {
  std::string_view op;
  for (const std::string_view known : {">=", "<=", ">", "<", "=", "^", "~"}) {
    if (op.empty() && text.starts_with(known)) op = known;
  }
  const std::optional<Version> version = Parse(text.substr(op.size()));
  if (!version) return std::nullopt;
  Comparator made;
  made.low = made.high = *version;
  made.has_low = op != "<" && op != "<=";
  made.has_high = op != ">" && op != ">=";
  made.above = op == ">";
  made.up_to = op == "<=";
  if (op.empty() || op == "=") {
    made.high = After(*version, version->given);
  } else if (op == "^") {
    // What may break is the first number that is not 0.
    size_t keep = 1;
    while (keep < version->given && version->parts[keep - 1] == 0) ++keep;
    made.high = After(*version, keep);
  } else if (op == "~") {
    made.high = After(*version, version->given > 1 ? 2 : 1);
  }
  return made;
}

std::optional<std::vector<Comparator>> ParseRange(std::string_view range) {
  std::vector<Comparator> all;
  for (const std::string& part : Split(range, ' ')) {
    if (part.empty()) continue;
    const std::optional<Comparator> one = ParseComparator(part);
    if (!one) return std::nullopt;
    all.push_back(*one);
  }
  if (all.empty()) return std::nullopt;
  return all;
}

}  // namespace

bool IsVersionRange(std::string_view range) { return ParseRange(range).has_value(); }

bool VersionInRange(std::string_view version, std::string_view range) {
  const std::optional<Version> own = Parse(version.substr(0, version.find_first_of("-+")));
  const std::optional<std::vector<Comparator>> all = ParseRange(range);
  if (!own || !all) return false;
  for (const Comparator& one : *all) {
    if (!one.Holds(*own)) return false;
  }
  return true;
}

}  // namespace kernel_evolve::graph
