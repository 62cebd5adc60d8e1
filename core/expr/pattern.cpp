#include "core/expr/pattern.hpp"

#include <bitset>
#include <string>
#include <utility>
#include <vector>

namespace kernel_evolve::expr {
namespace {

constexpr size_t kMaxPattern = 256;
constexpr size_t kMaxText = size_t{1} << 16U;

using Bytes = std::bitset<256>;

// A state of the automaton: consumes a byte of `set` and goes to `next`, or (kSplit) goes to `next`
// and `other` without consuming, or asserts a place in the text.
struct State {
  enum Kind { kSet, kSplit, kBegin, kEnd, kMatch } kind = kMatch;
  Bytes set;
  int next = -1;
  int other = -1;
};

Bytes Class(char name) {
  Bytes set;
  const char kind = static_cast<char>(name | 0x20);
  for (int c = 0; c < 256; ++c) {
    const bool digit = c >= '0' && c <= '9';
    const bool word = digit || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
    set[static_cast<size_t>(c)] = kind == 'd' ? digit : kind == 'w' ? word : blank;
  }
  return name == kind ? set : ~set;
}

// Thompson's construction. A fragment is entered at `begin` and left through the dangling `ends`.
class Builder {
 public:
  explicit Builder(std::string_view pattern) : pattern_(pattern) {}

  // True when the pattern is well-formed; else `problem` says why not.
  bool Build() {
    Fragment all = Alternation(0);
    if (problem.empty() && at_ < pattern_.size()) problem = "a ')' without its '('";
    if (!problem.empty()) return false;
    Patch(all, Add(State::kMatch));
    start = all.begin;
    return true;
  }

  std::vector<State> states;
  int start = 0;
  std::string problem;

 private:
  struct Fragment {
    int begin = -1;
    std::vector<std::pair<int, bool>> ends;  // state, and whether it is `other` that dangles
  };

  int Add(State::Kind kind) {
    State state;
    state.kind = kind;
    states.push_back(state);
    return static_cast<int>(states.size()) - 1;
  }
  void Patch(const Fragment& fragment, int target) {
    for (const auto& [state, other] : fragment.ends) {
      State& from = states[static_cast<size_t>(state)];
      (other ? from.other : from.next) = target;
    }
  }
  Fragment Single(State::Kind kind, const Bytes& set = {}) {
    const int state = Add(kind);
    states[static_cast<size_t>(state)].set = set;
    return {state, {{state, false}}};
  }
  // A split that prefers nothing: it goes to `begin` and leaves the other way open.
  int Split(int begin) {
    const int split = Add(State::kSplit);
    states[static_cast<size_t>(split)].next = begin;
    return split;
  }

  Fragment Alternation(int depth) {
    Fragment left = Sequence(depth);
    while (problem.empty() && at_ < pattern_.size() && pattern_[at_] == '|') {
      ++at_;
      Fragment right = Sequence(depth);
      const int split = Split(left.begin);
      states[static_cast<size_t>(split)].other = right.begin;
      left.begin = split;
      left.ends.insert(left.ends.end(), right.ends.begin(), right.ends.end());
    }
    return left;
  }

  Fragment Sequence(int depth) {
    // Starts from an empty step, so that an empty alternative is a fragment too.
    const int empty = Add(State::kSplit);
    Fragment all{empty, {{empty, false}}};
    while (problem.empty() && at_ < pattern_.size() && pattern_[at_] != '|' &&
           pattern_[at_] != ')') {
      Fragment next = Repeated(depth);
      if (!problem.empty()) break;
      Patch(all, next.begin);
      all.ends = std::move(next.ends);
    }
    return all;
  }

  Fragment Repeated(int depth) {
    Fragment item = Item(depth);
    while (problem.empty() && at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c != '*' && c != '+' && c != '?') break;
      ++at_;
      const int split = Split(item.begin);
      if (c != '?') Patch(item, split);
      if (c == '?') {
        item.ends.emplace_back(split, true);
      } else {
        item.ends = {{split, true}};
      }
      if (c != '+') item.begin = split;
    }
    return item;
  }

  Fragment Item(int depth) {
    const char c = pattern_[at_++];
    switch (c) {
      case '(': {
        if (depth >= 32) problem = "too many brackets";
        if (pattern_.substr(at_, 2) == "?:") at_ += 2;
        Fragment inside = problem.empty() ? Alternation(depth + 1) : Fragment{};
        if (problem.empty() && (at_ >= pattern_.size() || pattern_[at_] != ')')) {
          problem = "a '(' without its ')'";
        }
        ++at_;
        return inside;
      }
      case '[':
        return Bracket();
      case '.':
        return Single(State::kSet, ~Bytes().set('\n'));
      case '^':
        return Single(State::kBegin);
      case '$':
        return Single(State::kEnd);
      case '*':
      case '+':
      case '?':
        problem = std::string("nothing before '") + c + "' to repeat";
        return {};
      case '{':
        problem = "counts in braces are not supported";
        return {};
      case '\\':
        return Single(State::kSet, Escape());
      default:
        return Single(State::kSet, Bytes().set(static_cast<unsigned char>(c)));
    }
  }

  Bytes Escape() {
    if (at_ >= pattern_.size()) {
      problem = "a backslash at the end";
      return {};
    }
    const char c = pattern_[at_++];
    if (std::string_view("dwsDWS").find(c) != std::string_view::npos) return Class(c);
    if (c == 'n') return Bytes().set('\n');
    if (c == 't') return Bytes().set('\t');
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) problem = std::string("the escape '\\") + c + "' is not supported";
    return Bytes().set(static_cast<unsigned char>(c));
  }

  Fragment Bracket() {
    Bytes set;
    const bool negated = at_ < pattern_.size() && pattern_[at_] == '^';
    if (negated) ++at_;
    bool first = true;
    while (problem.empty()) {
      if (at_ >= pattern_.size()) {
        problem = "a '[' without its ']'";
        break;
      }
      if (pattern_[at_] == ']' && !first) break;
      first = false;
      const auto low = static_cast<unsigned char>(pattern_[at_++]);
      if (low == '\\') {
        set |= Escape();
        continue;
      }
      auto high = low;
      if (at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']') {
        high = static_cast<unsigned char>(pattern_[at_ + 1]);
        at_ += 2;
      }
      if (low > high) problem = "a range that runs backwards";
      for (unsigned c = low; c <= high; ++c) set.set(c);
    }
    ++at_;
    return Single(State::kSet, negated ? ~set : set);
  }

  std::string_view pattern_;
  size_t at_ = 0;
};

// Runs every state at once: each byte of the text costs at most one visit of each state.
class Runner {
 public:
  explicit Runner(const std::vector<State>& states) : states_(states), seen_(states.size(), 0) {}

  bool Find(int start, std::string_view text) {
    std::vector<int> current;
    for (size_t at = 0; at <= text.size(); ++at) {
      ++round_;
      std::vector<int> alive;
      for (const int state : current) Enter(state, at, text.size(), &alive);
      Enter(start, at, text.size(), &alive);
      if (matched_) return true;
      if (at == text.size()) break;
      const auto byte = static_cast<unsigned char>(text[at]);
      current.clear();
      for (const int state : alive) {
        const State& from = states_[static_cast<size_t>(state)];
        if (from.set[byte]) current.push_back(from.next);
      }
    }
    return false;
  }

 private:
  // Follows every step that consumes nothing.
  void Enter(int first, size_t at, size_t end, std::vector<int>* alive) {
    open_.assign(1, first);
    while (!open_.empty()) {
      const int index = open_.back();
      open_.pop_back();
      if (index < 0 || seen_[static_cast<size_t>(index)] == round_) continue;
      seen_[static_cast<size_t>(index)] = round_;
      const State& state = states_[static_cast<size_t>(index)];
      if (state.kind == State::kMatch) matched_ = true;
      if (state.kind == State::kSet) alive->push_back(index);
      if (state.kind == State::kSplit) {
        open_.push_back(state.next);
        open_.push_back(state.other);
      }
      if (state.kind == State::kBegin && at == 0) open_.push_back(state.next);
      if (state.kind == State::kEnd && at == end) open_.push_back(state.next);
    }
  }

  const std::vector<State>& states_;
  std::vector<size_t> seen_;
  std::vector<int> open_;
  size_t round_ = 0;
  bool matched_ = false;
};

}  // namespace

Result<bool> MatchPattern(std::string_view pattern, std::string_view text) {
  if (pattern.size() > kMaxPattern || text.size() > kMaxText) {
    return Failed(ErrorClass::kValidation,
                  "matches(): the pattern is over 256 characters or the text over 64 KiB");
  }
  Builder builder(pattern);
  if (!builder.Build()) {
    return Failed(ErrorClass::kValidation, "matches(): the pattern has " + builder.problem);
  }
  return Runner(builder.states).Find(builder.start, text);
}

}  // namespace kernel_evolve::expr
