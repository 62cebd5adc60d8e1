#include "shorten.hpp"

#include <algorithm>
#include <vector>

namespace kernel_nodes {
namespace {

constexpr size_t kMark = 48;  // bytes kept for a mark; a mark is never longer

// The largest place at or before `at` where a character begins.
size_t Boundary(const std::string& text, size_t at) {
  at = std::min(at, text.size());
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) {
    --at;
  }
  return at;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<std::string> Items(const std::string& list) {
  std::vector<std::string> items;
  for (const std::string& line : Lines(list)) {
    if (items.empty() || line.rfind("- ", 0) == 0) {
      items.push_back(line);
    } else {
      items.back() += "\n" + line;
    }
  }
  return items;
}

std::string Joined(const std::vector<std::string>& parts, size_t begin, size_t end) {
  std::string out;
  for (size_t i = begin; i < end; ++i) out += (i == begin ? "" : "\n") + parts[i];
  return out;
}

}  // namespace

std::string ShortenEnd(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t keep = Boundary(text, bytes > kMark ? bytes - kMark : 0);
  // Whole lines, where that does not lose much.
  const size_t line = text.rfind('\n', keep);
  if (line != std::string::npos && line >= keep / 2) keep = line;
  return text.substr(0, keep) + "\n[... " + std::to_string(text.size() - keep) + " bytes left out]";
}

std::string ShortenMiddle(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  const std::vector<std::string> lines = Lines(text);
  const size_t room = bytes > kMark ? bytes - kMark : 0;
  size_t head = 0;
  size_t tail = 0;
  size_t used = 0;
  // One line from the front, one from the back, as long as they fit.
  for (bool front = true; head + tail < lines.size(); front = !front) {
    const std::string& next = front ? lines[head] : lines[lines.size() - 1 - tail];
    if (used + next.size() + 1 > room) break;
    used += next.size() + 1;
    ++(front ? head : tail);
  }
  if (head == 0) return ShortenEnd(text, bytes);
  std::string out = Joined(lines, 0, head) + "\n# [... " +
                    std::to_string(lines.size() - head - tail) + " lines left out here ...]";
  if (tail > 0) out += "\n" + Joined(lines, lines.size() - tail, lines.size());
  return out;
}

std::string ShortenList(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  const std::vector<std::string> items = Items(text);
  const size_t room = bytes > kMark ? bytes - kMark : 0;
  size_t first = items.size();
  size_t used = 0;
  while (first > 0 && used + items[first - 1].size() + 1 <= room) {
    used += items[--first].size() + 1;
  }
  // The newest is the one that matters: some of it is better than none.
  if (first == items.size()) {
    std::string newest = ShortenEnd(items.back(), room);
    if (items.size() == 1) return newest;
    return "- [... " + std::to_string(items.size() - 1) + " older ones left out]\n" + newest;
  }
  return "- [... " + std::to_string(first) + " older ones left out]\n" +
         Joined(items, first, items.size());
}

std::string LeftOut(const std::string& text) {
  const auto lines = std::count(text.begin(), text.end(), '\n') + (text.empty() ? 0 : 1);
  return "# " + std::to_string(lines) + (lines == 1 ? " line" : " lines") +
         ", left out to save room";
}

}  // namespace kernel_nodes
