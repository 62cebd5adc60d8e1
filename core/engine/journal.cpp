#include "core/engine/journal.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace kernel_evolve {
namespace {

namespace fs = std::filesystem;

constexpr char kSchema[] = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE outside(
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, node TEXT NOT NULL, visit INTEGER NOT NULL,
  attempt INTEGER NOT NULL, sequence INTEGER NOT NULL, request_hash TEXT NOT NULL,
  effect TEXT NOT NULL, outcome TEXT NOT NULL, used TEXT NOT NULL, elapsed_s REAL NOT NULL,
  after_events INTEGER NOT NULL);
CREATE UNIQUE INDEX outside_key ON outside(node, visit, attempt, sequence) WHERE node <> '';
CREATE TABLE trace(id INTEGER PRIMARY KEY, elapsed_s REAL NOT NULL, event TEXT NOT NULL);
CREATE TABLE candidates(
  source_hash TEXT PRIMARY KEY, id TEXT NOT NULL, candidate TEXT NOT NULL);
CREATE TABLE verdicts(
  source_hash TEXT NOT NULL, asked TEXT NOT NULL, verdict TEXT NOT NULL,
  PRIMARY KEY(source_hash, asked));
)sql";

// Binds, steps and reads one prepared statement. Owns it.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    code_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(const std::string& text) {
    // Valid until the statement is stepped, which is before the caller's text goes.
    if (code_ == SQLITE_OK) {
      code_ = sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                                  SQLITE_UTF8);
    }
    return *this;
  }
  Statement& Bind(int64_t value) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement& Bind(double value) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
  }
  // SQLITE_ROW, SQLITE_DONE or what went wrong on the way.
  int Step() { return code_ == SQLITE_OK ? sqlite3_step(statement_) : code_; }
  // Steps a statement without rows, and makes it ready for the next use.
  int Run() {
    const int code = Step();
    sqlite3_reset(statement_);
    bound_ = 0;
    code_ = SQLITE_OK;
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
  }
  std::string Text(int column) const {
    const auto* text = sqlite3_column_text(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return text == nullptr ? "" : std::string(reinterpret_cast<const char*>(text), size);
  }
  int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double Number(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  int bound_ = 0;
};

Json Parsed(const std::string& text) {
  Result<Json> value = Json::Parse(text);
  return value ? std::move(*value) : Json();
}

}  // namespace

class Journal::Database {
 public:
  explicit Database(fs::path file) : file_(std::move(file)) {}
  ~Database() {
    statements_.clear();  // a connection with open statements does not close
    sqlite3_close(db_);
  }

  Status Open(int flags) {
    int code = sqlite3_open_v2(file_.c_str(), &db_, flags, nullptr);
    if (code == SQLITE_OK) code = sqlite3_busy_timeout(db_, 5000);
    if (code == SQLITE_OK) return {};
    return Problem(code, "opened");
  }

  int Execute(const char* sql) { return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); }

  // Prepared once; the text must be a literal, whose address is its name.
  Statement& Prepared(const char* sql) {
    auto& slot = statements_[sql];
    if (!slot) slot = std::make_unique<Statement>(db_, sql);
    return *slot;
  }

  // Runs `work` in one transaction: all of it is committed or none.
  template <typename Work>
  Status Transaction(bool survives_power_cut, Work work) {
    int code = SetSynchronous(survives_power_cut);
    if (code == SQLITE_OK) code = Prepared("BEGIN IMMEDIATE").Run();
    if (code == SQLITE_OK) code = work();
    if (code == SQLITE_OK) code = Prepared("COMMIT").Run();
    if (code == SQLITE_OK) return {};
    const Error problem = Problem(code, "written");
    if (sqlite3_get_autocommit(db_) == 0) Execute("ROLLBACK");
    return problem;
  }

  Error Problem(int code, const std::string& verb) const {
    const int primary = code & 0xff;
    std::string why = db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
    if (primary == SQLITE_FULL) why = "the disk is full";
    if (primary == SQLITE_IOERR) why = "the disk failed or is full (" + why + ")";
    return MissingEnvironment("the journal " + file_.string() + " could not be " + verb + ": " +
                              why + "; what was committed before is kept");
  }

  sqlite3* get() const { return db_; }

 private:
  int SetSynchronous(bool full) {
    if (synchronous_ == static_cast<int>(full)) return SQLITE_OK;
    const int code = Execute(full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    if (code == SQLITE_OK) synchronous_ = static_cast<int>(full);
    return code;
  }

  fs::path file_;
  sqlite3* db_ = nullptr;
  int synchronous_ = -1;  // unknown
  std::map<const char*, std::unique_ptr<Statement>> statements_;
};

Journal::Journal(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::Create(const fs::path& file, const Json& meta,
                                                 JournalOptions options) {
  // O_EXCL: of two runs that are given the same folder, one is refused.
  const int made = ::open(file.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
  if (made < 0 && errno == EEXIST) {
    return BadInput("the run folder " + file.parent_path().string() + " already holds a run (" +
                    file.filename().string() + "); choose another folder");
  }
  if (made < 0) {
    return MissingEnvironment("cannot make the journal " + file.string() + ": " +
                              std::strerror(errno));
  }
  ::close(made);
  auto database = std::make_unique<Database>(file);
  Status ready = database->Open(SQLITE_OPEN_READWRITE);
  if (ready.ok()) {
    int code = database->Execute("PRAGMA journal_mode=WAL");
    if (code == SQLITE_OK && options.max_pages > 0) {
      const std::string limit = "PRAGMA max_page_count=" + std::to_string(options.max_pages);
      code = database->Execute(limit.c_str());
    }
    if (code != SQLITE_OK) ready = database->Problem(code, "prepared");
  }
  if (ready.ok()) {
    ready = database->Transaction(true, [&] {
      int code = database->Execute(kSchema);
      Statement& insert = database->Prepared("INSERT INTO meta VALUES(?, ?)");
      const auto put = [&](const std::string& key, const Json& value) {
        if (code == SQLITE_OK) code = insert.Bind(key).Bind(value.Dump()).Run();
      };
      put("format", kJournalFormat);
      if (meta.is_object()) {
        for (const auto& [key, value] : meta.object()) put(key, value);
      }
      return code;
    });
  }
  if (!ready.ok()) {
    database.reset();
    ::unlink(file.c_str());
    return ready.error();
  }
  return std::unique_ptr<Journal>(new Journal(std::move(database)));
}

void Journal::Trace(double elapsed_s, Json event) {
  waiting_.push_back({elapsed_s, std::move(event), {}, {}, {}, {}});
}

void Journal::Keep(const Archive::Entry& entry, const std::string& asked) {
  waiting_.push_back({0, {}, entry.source_hash, asked, entry.candidate, entry.verdicts.at(asked)});
}

Status Journal::Record(const Recorded& recorded, bool paid) {
  return Write(&recorded, nullptr, paid);
}

Status Journal::Commit() { return waiting_.empty() ? Status() : Write(nullptr, nullptr, false); }

Status Journal::Finish(const Json& outcome) { return Write(nullptr, &outcome, true); }

Status Journal::Write(const Recorded* recorded, const Json* outcome, bool paid) {
  Status written = database_->Transaction(paid, [&] {
    int code = SQLITE_OK;
    for (const Waiting& line : waiting_) {
      if (code != SQLITE_OK) return code;
      if (!line.event.is_null()) {
        code = database_->Prepared("INSERT INTO trace(elapsed_s, event) VALUES(?, ?)")
                   .Bind(line.elapsed_s)
                   .Bind(line.event.Dump())
                   .Run();
        continue;
      }
      code = database_->Prepared("INSERT OR IGNORE INTO candidates VALUES(?, ?, ?)")
                 .Bind(line.source_hash)
                 .Bind(line.candidate.Text("id"))
                 .Bind(line.candidate.Dump())
                 .Run();
      if (code != SQLITE_OK) return code;
      code = database_->Prepared("INSERT INTO verdicts VALUES(?, ?, ?)")
                 .Bind(line.source_hash)
                 .Bind(line.asked)
                 .Bind(line.verdict.Dump())
                 .Run();
    }
    if (code == SQLITE_OK && recorded != nullptr) {
      code = database_
                 ->Prepared(
                     "INSERT INTO outside(kind, node, visit, attempt, sequence, request_hash, "
                     "effect, outcome, used, elapsed_s, after_events) "
                     "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                 .Bind(recorded->kind)
                 .Bind(recorded->key.node)
                 .Bind(recorded->key.visit)
                 .Bind(recorded->key.attempt)
                 .Bind(recorded->key.sequence)
                 .Bind(recorded->key.request_hash)
                 .Bind(recorded->effect.Dump())
                 .Bind(recorded->outcome.Dump())
                 .Bind(recorded->used.ToJson().Dump())
                 .Bind(recorded->elapsed_s)
                 .Bind(recorded->after_events)
                 .Run();
    }
    if (code == SQLITE_OK && outcome != nullptr) {
      code = database_->Prepared("INSERT OR REPLACE INTO meta VALUES('outcome', ?)")
                 .Bind(outcome->Dump())
                 .Run();
    }
    return code;
  });
  if (written.ok()) waiting_.clear();
  return written;
}

Result<std::vector<Recorded>> Journal::Replay(const fs::path& file) {
  Result<JournalContents> contents = Read(file);
  if (!contents) return contents.error();
  return std::move(contents->outside);
}

Result<JournalContents> Journal::Read(const fs::path& file) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) return BadInput("there is no journal " + file.string());
  Database database(file);
  if (Status opened = database.Open(SQLITE_OPEN_READONLY); !opened.ok()) return opened.error();
  JournalContents contents;
  const auto rows = [&database](const char* sql, auto take) {
    Statement statement(database.get(), sql);
    int code = SQLITE_OK;
    while ((code = statement.Step()) == SQLITE_ROW) take(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
  };
  contents.meta = Json::Obj();
  int code = rows("SELECT key, value FROM meta",
                  [&](const Statement& row) { contents.meta[row.Text(0)] = Parsed(row.Text(1)); });
  if (code == SQLITE_OK && contents.meta.Integer("format") != kJournalFormat) {
    return BadInput("the journal " + file.string() + " has format " +
                    contents.meta["format"].Dump() + ", this program reads " +
                    std::to_string(kJournalFormat));
  }
  contents.outcome = contents.meta["outcome"];
  contents.meta.object().erase("outcome");
  if (code == SQLITE_OK) {
    code = rows(
        "SELECT kind, node, visit, attempt, sequence, request_hash, effect, outcome, used, "
        "elapsed_s, after_events FROM outside ORDER BY id",
        [&](const Statement& row) {
          Recorded each;
          each.kind = row.Text(0);
          each.key = {row.Text(1), row.Integer(2), row.Integer(3), row.Integer(4), row.Text(5)};
          each.effect = Parsed(row.Text(6));
          each.outcome = Parsed(row.Text(7));
          each.used = Charge::FromJson(Parsed(row.Text(8)));
          each.elapsed_s = row.Number(9);
          each.after_events = row.Integer(10);
          contents.outside.push_back(std::move(each));
        });
  }
  if (code == SQLITE_OK) {
    code = rows("SELECT elapsed_s, event FROM trace ORDER BY id", [&](const Statement& row) {
      Json event = Parsed(row.Text(1));
      event["at"] = row.Number(0);
      contents.trace.push_back(std::move(event));
    });
  }
  std::map<std::string, Json> verdicts;
  if (code == SQLITE_OK) {
    code = rows("SELECT source_hash, asked, verdict FROM verdicts", [&](const Statement& row) {
      verdicts[row.Text(0)][row.Text(1)] = Parsed(row.Text(2));
    });
  }
  if (code == SQLITE_OK) {
    code = rows("SELECT source_hash, id, candidate FROM candidates ORDER BY rowid",
                [&](const Statement& row) {
                  contents.candidates.push_back(Json::Obj({{"id", row.Text(1)},
                                                           {"source_hash", row.Text(0)},
                                                           {"candidate", Parsed(row.Text(2))},
                                                           {"verdicts", verdicts[row.Text(0)]}}));
                });
  }
  if (code != SQLITE_OK) return database.Problem(code, "read");
  return contents;
}

}  // namespace kernel_evolve
