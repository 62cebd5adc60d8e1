// The journal of one run: an SQLite file in the run folder that holds every result that came from
// outside, each committed before it takes effect, and, for people and reports, a trace of what the
// run did. Its format is described in JOURNAL.md.
//
// A Journal is used by one thread at a time. Other programs may read the file meanwhile. A write
// that fails leaves the file as it was after the last commit; every error is class unavailable,
// exit 3, and says so in one sentence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/result.hpp"
#include "core/engine/reducer.hpp"

namespace kernel_evolve {

inline constexpr int64_t kJournalFormat = 1;
inline constexpr char kJournalName[] = "journal.db";

// A result of an effect, or a signal that ended the run.
struct Recorded {
  std::string kind;  // of the effect; or "deadline", "interrupted" for a signal
  EffectKey key;     // of an effect; empty for a signal
  Json effect;       // as the node asked
  Json outcome;      // {"ok"} or {"error"}
  Charge used;
  double elapsed_s = 0;      // since the run began
  int64_t after_events = 0;  // of a signal: how many events had been reduced before it

  bool is_signal() const { return key.node.empty(); }
};

struct JournalContents {
  Json meta;                      // what Create was given
  std::vector<Recorded> outside;  // in the order of commits
  std::vector<Json> trace;        // {"event", ...}, each with "at": seconds since the run began
  std::vector<Json> candidates;   // [{"id", "source_hash", "candidate", "verdicts"}]
  Json outcome;                   // what Finish was given; null while the run goes on, or died
};

struct JournalOptions {
  int64_t max_pages = 0;  // a limit on the file's size in pages of 4 KiB; 0: none
};

class Journal {
 public:
  // Makes the file. A folder that already has one is refused (validation, exit 2).
  static Result<std::unique_ptr<Journal>> Create(const std::filesystem::path& file,
                                                 const Json& meta, JournalOptions options = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Commits one result from outside. One that was paid for survives a power cut, any other a
  // killed process. Must return before the result takes effect.
  Status Record(const Recorded& recorded, bool paid);

  // Lines of the trace and the archive are derived: they wait in memory for the next commit.
  void Trace(double elapsed_s, Json event);
  void Keep(const Archive::Entry& entry, const std::string& asked);
  // Commits what waits. Called before control enters a node, so that the last line of a trace says
  // where a run died.
  Status Commit();

  // Commits the outcome of the run.
  Status Finish(const Json& outcome);

  // Reads a journal; also one whose run goes on or was killed.
  static Result<JournalContents> Read(const std::filesystem::path& file);
  // Only the results from outside, in the order in which they were committed.
  static Result<std::vector<Recorded>> Replay(const std::filesystem::path& file);

 private:
  class Database;
  explicit Journal(std::unique_ptr<Database> database);
  Status Write(const Recorded* recorded, const Json* outcome, bool paid);

  struct Waiting {
    double elapsed_s = 0;
    Json event;  // a line of the trace, or null for a verdict
    std::string source_hash;
    std::string asked;
    Json candidate;
    Json verdict;
  };
  std::unique_ptr<Database> database_;
  std::vector<Waiting> waiting_;
};

}  // namespace kernel_evolve
