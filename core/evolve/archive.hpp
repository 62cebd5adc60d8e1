// The archive of one run: every candidate that was handed in for a verdict, by its source, with the
// verdicts it got. A value type; not synchronised.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace kernel_evolve {

class Archive {
 public:
  struct Entry {
    std::string id;           // the candidate's own id, or "c<n>" by order of appearance
    std::string source_hash;  // of the normalised source
    Json candidate;           // as handed in first, with its id
    std::map<std::string, Json> verdicts;  // "compile" | "full" -> verdict
  };

  // The entry for this candidate's source, made when the source is new. The same source under
  // another id is the same entry. Invalidated by the next Add.
  const Entry& Add(const Json& candidate);

  // The verdict that this source got for this request, or nullptr.
  const Json* FindVerdict(const std::string& source_hash, const std::string& asked) const;

  // Keeps a verdict; the source must have been added. A second one for the same request is ignored.
  void Record(const std::string& source_hash, const std::string& asked, const Json& verdict);

  // The candidate with the highest counted speedup, its `speedup` and `verdict` filled in; the
  // earlier one on a tie, one that is not `weak` before any that is; null when none counts.
  Json Best() const;

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* Find(const std::string& source_hash) const;
  // All of it in order: [{"id", "source_hash", "candidate", "verdicts"}].
  Json ToJson() const;

 private:
  bool IdTaken(const std::string& id) const;

  std::vector<Entry> entries_;
  std::map<std::string, size_t> by_source_;
};

}  // namespace kernel_evolve
