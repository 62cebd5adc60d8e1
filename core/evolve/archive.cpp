#include "core/evolve/archive.hpp"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "core/evolve/source.hpp"
#include "core/evolve/verdict.hpp"

namespace kernel_evolve {

const Archive::Entry& Archive::Add(const Json& candidate) {
  const std::string hash = SourceHash(candidate.Text("code"));
  const auto known = by_source_.find(hash);
  if (known != by_source_.end()) return entries_[known->second];
  std::string id = candidate.Text("id");
  for (size_t n = entries_.size() + 1; id.empty() || IdTaken(id); ++n) {
    id = "c" + std::to_string(n);
  }
  Json kept = candidate;
  kept["id"] = id;
  by_source_[hash] = entries_.size();
  entries_.push_back({std::move(id), hash, std::move(kept), {}});
  return entries_.back();
}

bool Archive::IdTaken(const std::string& id) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&id](const Entry& entry) { return entry.id == id; });
}

const Archive::Entry* Archive::Find(const std::string& source_hash) const {
  const auto found = by_source_.find(source_hash);
  return found == by_source_.end() ? nullptr : &entries_[found->second];
}

const Json* Archive::FindVerdict(const std::string& source_hash, const std::string& asked) const {
  const Entry* entry = Find(source_hash);
  if (entry == nullptr) return nullptr;
  const auto found = entry->verdicts.find(asked);
  return found == entry->verdicts.end() ? nullptr : &found->second;
}

void Archive::Record(const std::string& source_hash, const std::string& asked,
                     const Json& verdict) {
  const auto found = by_source_.find(source_hash);
  assert(found != by_source_.end());
  entries_[found->second].verdicts.try_emplace(asked, verdict);
}

Json Archive::Best() const {
  const Json* best = nullptr;
  const Json* best_verdict = nullptr;
  std::tuple<bool, double> rank{};
  for (const Entry& entry : entries_) {
    const auto full = entry.verdicts.find("full");
    if (full == entry.verdicts.end()) continue;
    const std::optional<double> speedup = CountedSpeedup(full->second);
    if (!speedup) continue;
    const std::tuple<bool, double> own{!full->second.Flag("weak"), *speedup};
    if (best != nullptr && own <= rank) continue;
    best = &entry.candidate;
    best_verdict = &full->second;
    rank = own;
  }
  if (best == nullptr) return {};
  Json out = *best;
  out["speedup"] = std::get<1>(rank);
  out["verdict"] = *best_verdict;
  return out;
}

Json Archive::ToJson() const {
  Json out = Json::Arr();
  for (const Entry& entry : entries_) {
    Json verdicts = Json::Obj();
    for (const auto& [asked, verdict] : entry.verdicts) verdicts[asked] = verdict;
    out.push_back(Json::Obj({{"id", entry.id},
                             {"source_hash", entry.source_hash},
                             {"candidate", entry.candidate},
                             {"verdicts", std::move(verdicts)}}));
  }
  return out;
}

}  // namespace kernel_evolve
