// Strict reading of a tree: declared keys, declared types, every mistake reported where it stands.
// Internal to graph/. A tree that is `broken` is skipped in silence: it has been reported.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/source.hpp"
#include "core/graph/state.hpp"
#include "core/graph/tree.hpp"

namespace kernel_evolve::graph {

// "'word'", cut when it is long.
std::string Quoted(std::string_view word);

// "did you mean 'x'?", or what is known when that is a handful, or "".
std::string Suggest(std::string_view word, const std::vector<std::string>& known);

template <typename Map>
std::vector<std::string> KeysOf(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& entry : map) keys.push_back(entry.first);
  return keys;
}

// Collects diagnostics for one document.
class Reporter {
 public:
  Reporter(std::string file, const SourceMap* source, std::vector<Diagnostic>* out)
      : file_(std::move(file)), source_(source), out_(out) {}

  void At(const SourceRange& range, std::string code, std::string message, std::string hint = "");
  void At(const Tree& tree, std::string code, std::string message, std::string hint = "") {
    if (!tree.broken) At(tree.range, std::move(code), std::move(message), std::move(hint));
  }
  const SourceMap& source() const { return *source_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  const SourceMap* source_;
  std::vector<Diagnostic>* out_;
};

// The members of a mapping by key.
class Fields {
 public:
  // Reports a tree that is no mapping, and keys outside `known`; `x-*` keys are left alone.
  // `what` is the thing in messages: "a node". A null counts as an empty mapping.
  static Fields Read(const Tree& tree, const std::string& what,
                     const std::vector<std::string>& known, Reporter* reporter);
  // The same without a closed set of keys.
  static Fields ReadOpen(const Tree& tree, const std::string& what, Reporter* reporter);

  bool ok() const { return tree_ != nullptr; }
  const Tree& tree() const { return *tree_; }
  const Tree* Find(std::string_view key) const;  // nothing when absent
  const Member* FindMember(std::string_view key) const;
  // Absent: reports it with `hint` at the mapping.
  const Tree* Require(std::string_view key, const SourceRange& range, Reporter* reporter) const;
  std::vector<const Member*> All() const;  // without x-*

 private:
  const Tree* tree_ = nullptr;
  std::string what_;
};

// The text of a scalar; anything else is reported.
std::optional<std::string> ReadText(const Tree& tree, const std::string& what, Reporter* reporter);

// A name that expressions can use: a letter or '_', then letters, digits and '_'. `dashes` allows
// '-' too, for names that no expression ever mentions.
std::optional<std::string> ReadName(const Tree& tree, const std::string& what, bool dashes,
                                    Reporter* reporter);

// A value of a declared type, from its literal form in the document.
std::optional<Json> ReadValue(const Tree& tree, ValueType type, const std::string& what,
                              Reporter* reporter);

// A value without a declared type: YAML 1.2's core schema (true, 12, 1.5, null, else text).
Json ReadUntyped(const Tree& tree);

// true/false, 12, -1.5e3 as YAML 1.2 writes them; nothing for other text.
std::optional<Json> ReadPlainScalar(const std::string& text);

}  // namespace kernel_evolve::graph
