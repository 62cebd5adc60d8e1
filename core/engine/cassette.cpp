#include "core/engine/cassette.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/journal.hpp"

namespace kernel_evolve {

std::string RequestHash(const Json& request) {
  const std::string text = Json::Obj({{"messages", request["messages"]},
                                      {"tools", request["tools"]},
                                      {"tool_choice", request["tool_choice"]}})
                               .Dump();
  uint64_t hash = 14695981039346656037U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

Result<Json> CassetteOf(const std::filesystem::path& journal) {
  const Result<JournalContents> contents = Journal::Read(journal);
  if (!contents) return contents.error();
  std::vector<std::tuple<std::string, int64_t, Json>> calls;  // alias, number, exchange
  for (const Recorded& recorded : contents->outside) {
    if (recorded.kind != "llm_complete") continue;
    const std::string alias = recorded.effect.Text("model");
    const Json& request = recorded.effect["request"];
    Json exchange = Json::Obj({{"model", alias},
                               {"purpose", request["context"].Text("purpose")},
                               {"request_hash", RequestHash(request)}});
    if (recorded.outcome.contains("ok")) {
      exchange["response"] = recorded.outcome["ok"];
    } else {
      exchange["error"] = recorded.outcome["error"];
    }
    calls.emplace_back(alias, recorded.outcome["call"].Integer("number"), std::move(exchange));
  }
  std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  Json exchanges = Json::Arr();
  for (auto& [alias, number, exchange] : calls) exchanges.push_back(std::move(exchange));
  const Json& meta = contents->meta;
  return Json::Obj({{"cassette", 1},
                    {"graph", meta["graph"].Text("name")},
                    {"seed", meta["seed"]},
                    {"exchanges", std::move(exchanges)}});
}

}  // namespace kernel_evolve
