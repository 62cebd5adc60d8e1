#include "core/plugin/outcome.hpp"

#include <gtest/gtest.h>

#include "core/plugin/manifest.hpp"
#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

std::string Check(TypeKind kind, const std::string& outcome) {
  const Status checked = CheckOutcome(kind, Parsed(outcome));
  return checked.ok() ? "accepted" : checked.error().message;
}

TEST(Outcome, TakesTheThreeForms) {
  for (const char* outcome :
       {R"({"done": {}})", R"({"done": {"out": {"a": 1}, "result": {"ok": true}}})",
        R"({"error": {"class": "timeout", "message": "too slow"}})",
        R"({"effects": [{"id": "a", "kind": "now"}, {"id": "b", "kind": "random", "count": 2},
                        {"id": "c", "kind": "sleep", "seconds": 0},
                        {"id": "d", "kind": "llm_complete", "model": "m", "request": {}},
                        {"id": "e", "kind": "evaluate", "candidate": {}, "asked": "full"},
                        {"id": "f", "kind": "worker_call", "module": "m", "function": "f",
                         "session": null, "request": {}, "deadline_s": 1.5, "limits": {}}]})"}) {
    EXPECT_EQ(Check(TypeKind::kNode, outcome), "accepted") << outcome;
  }
  EXPECT_EQ(Check(TypeKind::kProvider, R"({"done": {"response": {}}})"), "accepted");
  EXPECT_EQ(Check(TypeKind::kEvaluator, R"({"done": {"verdict": {}}})"), "accepted");
}

TEST(Outcome, SaysWhatBreaksTheProtocol) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "outcome: expected exactly one of effects, done and error"},
      {R"({})", "outcome: expected exactly one of effects, done and error"},
      {R"({"done": {}, "effects": []})",
       "outcome: expected exactly one of effects, done and error"},
      {R"({"finished": {}})", "finished: expected exactly one of effects, done and error"},
      {R"({"effects": []})", "effects: expected at least one effect"},
      {R"({"effects": {}})", "effects: expected at least one effect"},
      {R"({"effects": [1]})", "effects[0]: expected an object"},
      {R"({"effects": [{"kind": "now"}]})", "effects[0].id: expected text"},
      {R"({"effects": [{"id": "a", "kind": "later"}]})",
       "effects[0].kind: this host knows no effect 'later'"},
      {R"({"effects": [{"id": "a", "kind": "now"}, {"id": "a", "kind": "now"}]})",
       "effects[1].id: 'a' is used twice"},
      {R"({"effects": [{"id": "a", "kind": "now", "when": 1}]})",
       "effects[0].when: the effect now has no such field"},
      {R"({"effects": [{"id": "a", "kind": "random", "count": 0}]})",
       "effects[0].count: expected 1 to 1000000"},
      {R"({"effects": [{"id": "a", "kind": "sleep", "seconds": -1}]})",
       "effects[0].seconds: expected seconds"},
      {R"({"effects": [{"id": "a", "kind": "llm_complete", "request": {}}]})",
       "effects[0].model: expected the alias of a model"},
      {R"({"effects": [{"id": "a", "kind": "evaluate", "candidate": {}, "asked": "half"}]})",
       "effects[0].asked: expected \"compile\" or \"full\""},
      {R"({"effects": [{"id": "a", "kind": "worker_call", "module": "m", "function": "f"}]})",
       "effects[0].request: expected an object"},
      {R"({"done": 1})", "done: expected an object"},
      {R"({"done": {"out": []}})", "done.out: expected an object"},
      {R"({"done": {"verdict": {}}})", "done.verdict: unknown key"},
      {R"({"error": "no"})", "error: expected {\"class\", \"message\"}"},
      {R"({"error": {"class": "sadness", "message": "x"}})",
       "error.class: 'sadness' is not one of the error classes"},
      {R"({"error": {"class": "internal"}})", "error.message: expected a sentence"},
  };
  for (const auto& [outcome, sentence] : cases) {
    EXPECT_EQ(Check(TypeKind::kNode, outcome), sentence) << outcome;
  }
}

TEST(Outcome, OnlyANodeMayAskAModelOrAnEvaluator) {
  const char* ask = R"({"effects": [{"id": "a", "kind": "llm_complete", "model": "m",
                                     "request": {}}]})";
  const char* judge = R"({"effects": [{"id": "a", "kind": "evaluate", "candidate": {},
                                       "asked": "full"}]})";
  EXPECT_EQ(Check(TypeKind::kProvider, ask),
            "effects[0].kind: the effect llm_complete is for nodes, this is a provider");
  EXPECT_EQ(Check(TypeKind::kEvaluator, judge),
            "effects[0].kind: the effect evaluate is for nodes, this is an evaluator");
}

TEST(Outcome, AProviderAndAnEvaluatorEndWithTheirResult) {
  EXPECT_EQ(Check(TypeKind::kProvider, R"({"done": {}})"), "done.response: expected an object");
  EXPECT_EQ(Check(TypeKind::kEvaluator, R"({"done": {"verdict": "good"}})"),
            "done.verdict: expected an object");
}

TEST(Interface, IsCheckedByKind) {
  const auto check = [](TypeKind kind, const char* interface) {
    const Status checked = CheckInterface(kind, Parsed(interface));
    return checked.ok() ? std::string("accepted") : checked.error().message;
  };
  EXPECT_EQ(check(TypeKind::kNode, "{}"), "accepted");
  EXPECT_EQ(check(TypeKind::kNode, "[]"), "interface: expected object, got array");
  EXPECT_EQ(check(TypeKind::kNode, R"({"port": {}})"), "interface.port: unknown key");
  EXPECT_EQ(check(TypeKind::kNode, R"({"ports": {"in": [{"name": "x"}]}})"),
            "interface.ports.in[0]: a port has a name and a type");
  EXPECT_EQ(check(TypeKind::kNode, R"({"ports": {"out": [{"name": "x", "type": "int"},
                                                         {"name": "x", "type": "int"}]}})"),
            "interface.ports.out[1]: the port 'x' comes twice");
  EXPECT_EQ(check(TypeKind::kNode, R"({"result": {"ok": 1}})"),
            "interface.result.ok: expected the name of a type");
  EXPECT_EQ(check(TypeKind::kNode, R"({"labels": ["a", "a"]})"),
            "interface.labels: 'a' comes twice");
  EXPECT_EQ(check(TypeKind::kNode, R"({"blocking": "yes"})"),
            "interface.blocking: expected true or false");
  EXPECT_EQ(check(TypeKind::kProvider, R"({"form": "telepathy"})"),
            "interface.form: this host knows the forms \"resumable\" and \"codec\"");
  EXPECT_EQ(check(TypeKind::kProvider, R"({"capabilities": "tools"})"),
            "interface.capabilities: expected an array of names");
  EXPECT_EQ(check(TypeKind::kEvaluator, "{}"),
            "interface.class: expected \"modelled\", \"process\" or \"tape\"");
}

}  // namespace
}  // namespace kernel_evolve
