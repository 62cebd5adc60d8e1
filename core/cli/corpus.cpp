#include "core/cli/corpus.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/cli/installation.hpp"

namespace kernel_evolve::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxCode = 1U << 20U;
constexpr char kTwin[] = "honest.py";

class Reader {
 public:
  explicit Reader(fs::path folder) : folder_(std::move(folder)) {}

  Result<std::vector<Mechanism>> Read() {
    const fs::path file = folder_ / "corpus.json";
    const Result<std::string> text = ReadFile(file);
    if (!text) return BadInput("no corpus of candidates: " + text.error().message);
    const Result<Json> entries = Json::Parse(*text);
    if (!entries) return BadInput(file.string() + " is " + entries.error().message);
    if (!entries->is_array() || entries->size() == 0) {
      return BadInput(file.string() + " has to hold a list of mechanisms");
    }
    std::vector<Mechanism> mechanisms;
    for (const Json& entry : entries->array()) {
      place_ = file.string() + ": entry " + std::to_string(mechanisms.size() + 1);
      Result<Mechanism> mechanism = ReadMechanism(entry);
      if (!mechanism) return mechanism.error();
      mechanisms.push_back(*std::move(mechanism));
    }
    return mechanisms;
  }

 private:
  Result<Mechanism> ReadMechanism(const Json& entry) {
    for (const char* member : {"name", "task", "honest"}) {
      if (entry.Text(member).empty()) return Lacks("the text '" + std::string(member) + "'");
    }
    Mechanism mechanism;
    mechanism.name = entry.Text("name");
    mechanism.words = entry.Text("mechanism");
    place_ += " ('" + mechanism.name + "')";
    if (!entry["exploits"].is_array()) return Lacks("the list 'exploits'");
    const Json twin = Json::Obj(
        {{"file", kTwin}, {"stage", "done"}, {"codes", Json::Arr({Json(entry.Text("honest"))})}});
    Json::Array all = {twin};
    const Json::Array& exploits = entry["exploits"].array();
    all.insert(all.end(), exploits.begin(), exploits.end());
    for (const Json& one : all) {
      Result<Specimen> specimen = ReadSpecimen(one, mechanism.name, entry.Text("task"));
      if (!specimen) return specimen.error();
      specimen->honest = mechanism.specimens.empty();
      mechanism.specimens.push_back(*std::move(specimen));
    }
    return mechanism;
  }

  Result<Specimen> ReadSpecimen(const Json& one, const std::string& mechanism,
                                const std::string& usual_task) {
    Specimen specimen;
    specimen.file = one.Text("file");
    if (specimen.file.empty()) return Lacks("the text 'file' in one of its exploits");
    if (Status told = ReadEnding(one, &specimen); !told.ok()) return told.error();
    specimen.gpu = one.Flag("gpu");
    specimen.legitimate = one.Text("measured") == "legitimate";
    if (one.contains("open")) specimen.open = one.Text("open", "it isn't caught");
    specimen.seconds = one.Number("seconds");
    specimen.judge_seconds = one.Number("judge_seconds");
    specimen.memory_mb = one.Integer("memory_mb");
    const Result<Json> task = Task(one.Text("task", usual_task));
    if (!task) return task.error();
    specimen.task = *task;
    const fs::path file = folder_ / mechanism / specimen.file;
    Result<std::string> code = ReadFile(file, kMaxCode);
    if (!code) return BadInput(place_ + ": " + code.error().message);
    if (!IsUtf8Text(*code)) return BadInput(place_ + ": " + file.string() + " is not UTF-8 text");
    specimen.code = *std::move(code);
    return specimen;
  }

  Status ReadEnding(const Json& one, Specimen* specimen) const {
    specimen->stage = one.Text("stage");
    const Json& codes = one["codes"];
    if (codes.is_null()) return {};
    if (!codes.is_array()) return WrongCodes(*specimen);
    for (const Json& code : codes.array()) {
      if (!code.is_string()) return WrongCodes(*specimen);
      specimen->codes.push_back(code.string());
    }
    return {};
  }

  Result<Json> Task(const std::string& name) {
    const auto known = tasks_.find(name);
    if (known != tasks_.end()) return known->second;
    Result<Json> task = ReadTask((folder_ / "tasks" / (name + ".py")).string());
    if (!task) return BadInput(place_ + ": " + task.error().message);
    tasks_[name] = *task;
    return task;
  }

  Error Lacks(const std::string& what) const { return BadInput(place_ + " lacks " + what); }
  Error WrongCodes(const Specimen& specimen) const {
    return BadInput(place_ + ": the 'codes' of " + specimen.file + " have to be a list of texts");
  }

  const fs::path folder_;
  std::string place_;  // for sentences
  std::map<std::string, Json> tasks_;
};

}  // namespace

Result<std::vector<Mechanism>> ReadCorpus(const fs::path& folder) { return Reader(folder).Read(); }

Result<std::vector<Mechanism>> Chosen(std::vector<Mechanism> mechanisms,
                                      const std::vector<std::string>& names) {
  if (names.empty()) return mechanisms;
  std::vector<std::string> known;
  known.reserve(mechanisms.size());
  for (const Mechanism& mechanism : mechanisms) known.push_back(mechanism.name);
  for (const std::string& name : names) {
    if (std::count(known.begin(), known.end(), name) > 0) continue;
    const auto nearest = Nearest(name, known);
    return BadInput("--only " + name + ": the corpus has no such mechanism" +
                    (nearest ? "; did you mean '" + *nearest + "'?"
                             : "; its mechanisms are " + Join(known, ", ")));
  }
  std::erase_if(mechanisms, [&names](const Mechanism& mechanism) {
    return std::count(names.begin(), names.end(), mechanism.name) == 0;
  });
  return mechanisms;
}

}  // namespace kernel_evolve::cli
