#include "core/plugin/schema.hpp"

#include <gtest/gtest.h>

#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

constexpr char kSchema[] = R"({
  "type": "object",
  "properties": {
    "prompt": {"type": "string", "x-ke": "file"},
    "model": {"type": "string", "x-ke": "model"},
    "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
    "count": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
    "rate": {"type": "number"},
    "on": {"type": "boolean"},
    "hints": {"type": "array", "items": {"type": "string"}, "default": []},
    "either": {"type": ["string", "null"]},
    "inner": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}},
              "additionalProperties": false}
  },
  "required": ["model"],
  "additionalProperties": false
})";

std::string Refusal(const std::string& params) {
  const Result<Json> done = ApplyParamsSchema(Parsed(kSchema), Parsed(params));
  return done.ok() ? "accepted" : done.error().message;
}

TEST(ParamsSchema, FillsInDefaultsAtEveryLevel) {
  const Result<Json> done =
      ApplyParamsSchema(Parsed(kSchema), Parsed(R"({"model": "author", "inner": {}})"));
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(*done, Parsed(R"({"model": "author", "mode": "fast", "count": 2, "hints": [],
                              "inner": {"depth": 3}})"));
}

TEST(ParamsSchema, NothingCountsAsNoParameters) {
  const Result<Json> done = ApplyParamsSchema(Parsed(R"({"type": "object"})"), Json());
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(*done, Json::Obj());
}

TEST(ParamsSchema, AcceptsAFileAsGivenOrAsTheHostLoadedIt) {
  EXPECT_EQ(Refusal(R"({"model": "a", "prompt": "p.mustache"})"), "accepted");
  EXPECT_EQ(Refusal(R"({"model": "a", "prompt": {"path": "/p", "text": "x"}})"), "accepted");
  EXPECT_EQ(Refusal(R"({"model": "a", "prompt": {"path": "/p"}})"),
            "with.prompt: expected string, got object");
}

TEST(ParamsSchema, SaysWhereAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "with.model: this parameter is required"},
      {R"([])", "with: expected object, got array"},
      {R"({"model": 3})", "with.model: expected string, got integer"},
      {R"({"model": "a", "mode": "sloow"})",
       "with.mode: expected one of \"fast\", \"slow\", got \"sloow\""},
      {R"({"model": "a", "count": 0})", "with.count: must be at least 1, got 0"},
      {R"({"model": "a", "count": 9})", "with.count: must be at most 8, got 9"},
      {R"({"model": "a", "count": 2.5})", "with.count: expected integer, got number"},
      {R"({"model": "a", "rate": "1"})", "with.rate: expected number, got string"},
      {R"({"model": "a", "rate": true})", "with.rate: expected number, got boolean"},
      {R"({"model": "a", "on": 1})", "with.on: expected boolean, got integer"},
      {R"({"model": "a", "hints": ["x", 1]})", "with.hints[1]: expected string, got integer"},
      {R"({"model": "a", "either": 1})", "with.either: expected string or null, got integer"},
      {R"({"model": "a", "inner": {"dept": 1}})",
       "with.inner.dept: unknown parameter; did you mean 'depth'?"},
      {R"({"model": "a", "promt": "x"})", "with.promt: unknown parameter; did you mean 'prompt'?"},
      {R"({"model": "a", "zzzzzzzz": "x"})",
       "with.zzzzzzzz: unknown parameter; known are count, either, hints, inner, mode, model, on, "
       "prompt, rate"},
  };
  for (const auto& [params, sentence] : cases) EXPECT_EQ(Refusal(params), sentence) << params;
}

TEST(ParamsSchema, AnErrorIsBadInput) {
  const Result<Json> done = ApplyParamsSchema(Parsed(kSchema), Json::Obj(), "models.author.with");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().error_class, ErrorClass::kValidation);
  EXPECT_EQ(done.error().exit_code, kExitBadInput);
  EXPECT_EQ(done.error().message, "models.author.with.model: this parameter is required");
}

TEST(ParamsSchema, WithoutAPlaceTheParameterBeginsTheSentence) {
  const Json schema = Parsed(kSchema);
  EXPECT_EQ(ApplyParamsSchema(schema, Json::Obj(), "").error().message,
            "model: this parameter is required");
  EXPECT_EQ(ApplyParamsSchema(schema, Parsed(R"({"inner": {"dept": 1}})"), "").error().message,
            "inner.dept: unknown parameter; did you mean 'depth'?");
}

TEST(ParamsSchema, AnIntegerIsANumber) {
  EXPECT_EQ(Refusal(R"({"model": "a", "rate": 1, "either": null, "on": false})"), "accepted");
}

TEST(ParamsSchema, KeepsToTheSubset) {
  EXPECT_TRUE(CheckParamsSchema(Parsed(kSchema)).ok());
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "params_schema.type: expected \"object\""},
      {R"({"type": "string"})", "params_schema.type: expected \"object\""},
      {R"({"type": "object", "patternProperties": {}})",
       "params_schema.patternProperties: this keyword is not supported"},
      {R"({"type": "object", "properties": {"a": {"pattern": "x"}}})",
       "params_schema.properties.a.pattern: this keyword is not supported"},
      {R"({"type": "object", "properties": {"a": {"type": "text"}}})",
       "params_schema.properties.a.type: expected one of string, integer, number, boolean, array, "
       "object, null"},
      {R"({"type": "object", "properties": {"a": {"enum": []}}})",
       "params_schema.properties.a.enum: expected an array of values"},
      {R"({"type": "object", "properties": {"a": {"minimum": "1"}}})",
       "params_schema.properties.a.minimum: expected a number"},
      {R"({"type": "object", "properties": {"a": {"type": "integer", "default": "1"}}})",
       "params_schema.properties.a.default: expected integer, got string"},
      {R"({"type": "object", "properties": {"a": {"x-ke": "secret"}}})",
       "params_schema.properties.a.x-ke: expected \"model\" or \"file\""},
      {R"({"type": "object", "properties": {}, "required": ["a"]})",
       "params_schema.required: expected an array of names from 'properties'"},
      {R"({"type": "object", "properties": {"a": {"items": {"title": "x"}}}})",
       "params_schema.properties.a.items.title: this keyword is not supported"},
  };
  for (const auto& [schema, sentence] : cases) {
    const Status checked = CheckParamsSchema(Parsed(schema));
    EXPECT_EQ(checked.ok() ? "accepted" : checked.error().message, sentence) << schema;
  }
}

}  // namespace
}  // namespace kernel_evolve
