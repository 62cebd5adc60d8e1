// The expression language, told as a table: this text, on these values, gives that.
#include "core/expr/expr.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/json.hpp"

namespace kernel_evolve::expr {
namespace {

// inputs: declared, always there. state: `best` and `lessons` may be absent. m, l, x: anything.
TypeEnv Names() {
  const Type candidate =
      RecordType("member", {{"code", {StringType(), false}}, {"speedup", {DoubleType(), true}}});
  TypeEnv env;
  env["inputs"] = RecordType("input", {{"target_speedup", {DoubleType(), false}},
                                       {"generations", {IntType(), false}},
                                       {"name", {StringType(), false}}});
  env["state"] = RecordType("channel", {{"best", {candidate, true}},
                                        {"lessons", {ListOf(DynType()), true}},
                                        {"draft", {candidate, false}}});
  env["visits"] = RecordType("node", {{"generate", {IntType(), false}}});
  env["m"] = MapOf(DynType());
  env["l"] = ListOf(DynType());
  env["x"] = DynType();
  return env;
}

Json Values() {
  return Json::Parse(R"({
    "inputs": {"target_speedup": 2, "generations": 8, "name": "softmax"},
    "state": {"draft": {"code": "é", "speedup": null}},
    "visits": {"generate": 3},
    "m": {"a": 1, "b": {"c": 2.5}, "s": "é", "n": null, "f": 1.0},
    "l": [1, 2.0, "a"],
    "x": 1
  })")
      .value();
}

// The value as JSON, "error: ..." at run time, or "KE1205@3+2 ..." for what is wrong at load.
std::string Outcome(const std::string& text, Want want = Want::kAnything) {
  const Compiled compiled = Program::Compile(text, Names(), want);
  std::string problems;
  for (const Problem& p : compiled.problems) {
    problems += (problems.empty() ? "" : " | ") + p.code + "@" + std::to_string(p.begin) + "+" +
                std::to_string(p.length) + " " + p.message +
                (p.hint.empty() ? "" : " (" + p.hint + ")");
  }
  EXPECT_EQ(compiled.program.has_value(), compiled.problems.empty()) << text;
  if (!problems.empty()) return problems;
  const Result<Json> value = compiled.program->Evaluate(Values());
  if (!value.ok()) {
    EXPECT_EQ(value.error().error_class, ErrorClass::kValidation) << text;
    return "error: " + value.error().message;
  }
  return value->Dump();
}

struct Row {
  std::string text;
  std::string gives;
};

void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) EXPECT_EQ(Outcome(row.text), row.gives) << row.text;
}

TEST(Values, LiteralsAreWrittenAsInCel) {
  ExpectRows({{"1", "1"},
              {"-9223372036854775808", "-9223372036854775808"},
              {"0x10", "16"},
              {"1.5e3", "1500.0"},
              {".5", "0.5"},
              {"true", "true"},
              {"null", "null"},
              {"'it\\'s'", "\"it's\""},
              {"\"\\u00e9\\x41\\n\"", "\"éA\\n\""},
              {"r'\\d'", "\"\\\\d\""},
              {"'''a'b'''", "\"a'b\""},
              {"[1, 'a', [true]]", "[1,\"a\",[true]]"},
              {"{'a': 1, 'b': [2]}", "{\"a\":1,\"b\":[2]}"},
              {"1 // a comment", "1"}});
}

TEST(Arithmetic, TruncatesTowardsZeroAndKeepsIntegersApartFromDoubles) {
  ExpectRows({{"-7 / 2", "-3"},
              {"-7 % 2", "-1"},
              {"7 - 2 * 3 + 1", "2"},
              {"(7 - 2) * 3", "15"},
              {"--1", "1"},
              {"1.5 * 2.0", "3.0"},
              {"'a' + 'b'", "\"ab\""},
              {"[1] + [2]", "[1,2]"},
              {"double(inputs.generations) * 0.5", "4.0"}});
}

TEST(Arithmetic, MixedIsALoadErrorThatSuggestsDouble) {
  ExpectRows({
      {"1 + 1.0", "KE1206@2+1 '+' between int and double (convert the int with double(...))"},
      {"inputs.target_speedup * inputs.generations",
       "KE1206@22+1 '*' between double and int (convert the int with double(inputs.generations))"},
      {"true ? 1 : 2.0",
       "KE1206@5+1 the two sides of ':' are of types int and double (make both double with "
       "double())"},
      {"state.?draft.?speedup.orValue(0)",
       "KE1206@30+1 the value is a double, the fallback an int (write it with a point, such as "
       "0.0)"},
      {"x + 1.0",
       "error: '+' does not work between integer and number (convert with double()) in 'x + 1.0'"},
  });
}

TEST(Arithmetic, NeverLeavesTheNumbers) {
  ExpectRows({
      {"1 / 0", "error: division by zero in '1 / 0'"},
      {"1 % 0", "error: division by zero in '1 % 0'"},
      {"1.0 / 0.0", "error: division by zero in '1.0 / 0.0'"},
      {"9223372036854775807 + 1", "error: a number out of range in '9223372036854775807 + 1'"},
      {"-(-9223372036854775808)", "error: a number out of range in '-(-9223372036854775808)'"},
      {"-9223372036854775808 / -1", "error: a number out of range in '-9223372036854775808 / -1'"},
      {"-9223372036854775808 % -1", "error: a number out of range in '-9223372036854775808 % -1'"},
      {"1e308 * 10.0", "error: a number out of range in '1e308 * 10.0'"},
      {"int(1e30)", "error: int(): the number is out of range (64 bits) in 'int(1e30)'"},
      {"9223372036854775808", "KE1201@0+19 the integer is out of range (64 bits)"},
      {"1e400", "KE1201@0+5 the number 1e400 is out of range"},
  });
}

TEST(Comparison, IntegersAndDoublesCompareFreely) {
  ExpectRows({{"1 == 1.0", "true"},
              {"1 < 1.5", "true"},
              {"inputs.generations >= inputs.target_speedup", "true"},
              {"9007199254740993 > 9007199254740992.0", "true"},
              {"9223372036854775807 < 1e19", "true"},
              {"-1.5 < -1", "true"},
              {"x == m.f", "true"},
              {"'a' < 'b'", "true"},
              {"false < true", "true"},
              {"[1] == [1.0]", "true"},
              {"m == {'a': 1}", "false"},
              {"null == x", "false"},
              {"m.n == null", "true"},
              {"1 in l", "true"},
              {"2 in l", "true"},
              {"'a' in m", "true"},
              {"'q' in m", "false"}});
}

TEST(Comparison, OfTypesThatNeverMeetIsALoadError) {
  ExpectRows({
      {"'a' == 1", "KE1205@4+2 '==' does not work between string and int"},
      {"true < 1", "KE1205@5+1 '<' does not work between bool and int"},
      {"1 in 'a'", "KE1205@2+2 'in' does not work between int and string"},
      {"state.?best == 1",
       "KE1205@12+2 '==' does not work between optional and int (add .orValue(...) to the "
       "optional)"},
      {"x < 'a'", "error: '<' does not work between integer and string in 'x < 'a''"},
  });
}

TEST(Logic, ASideThatDecidesOutweighsTheOthersError) {
  ExpectRows({{"1 / 0 == 1 || true", "true"},
              {"true || 1 / 0 == 1", "true"},
              {"1 / 0 == 1 && false", "false"},
              {"x && false", "false"},
              {"1 / 0 == 1 && true", "error: division by zero in '1 / 0'"},
              {"false || x", "error: a bool is needed, not a value of type integer in 'x'"},
              {"!true", "false"},
              {"true ? 1 : 2", "1"},
              {"false ? 1 : true ? 2 : 3", "2"},
              {"1 && true", "KE1205@0+1 '&&' needs a bool, this is of type int"}});
}

TEST(Absence, IsNeitherNullNorEmpty) {
  ExpectRows({
      {"m.z", "error: there is no 'z' in 'm.z'"},
      {"l[7]", "error: there is no item 7 (there are 3) in 'l[7]'"},
      {"l[-1]", "error: there is no item -1 (there are 3) in 'l[-1]'"},
      {"m['z']", "error: there is no key 'z' in 'm['z']'"},
      {"has(m.n)", "true"},
      {"has(m.z)", "false"},
      {"m.?z.orValue(3)", "3"},
      {"m.?b.c.orValue(3)", "2.5"},
      {"m.?b.z.hasValue()", "false"},
      {"m.?z.c.hasValue()", "false"},
      {"m[?'a'].value()", "1"},
      {"l[?7].orValue('q')", "\"q\""},
      {"m.?z.or(m.?a).orValue(9)", "1"},
      {"optional.of(1) == optional.of(1)", "true"},
      {"optional.none().hasValue()", "false"},
      {"m.?z.value()", "error: the optional has no value in 'm.?z.value()'"},
      {"m.?z.orValue(1 / 0)", "error: division by zero in '1 / 0'"},
      {"m.?a.orValue(1 / 0)", "1"},
      {"m.a.?b.hasValue()", "error: a value of type integer has no member 'b' in 'm.a.?b'"},
  });
}

TEST(Absence, UnhandledIsALoadErrorWhereItCanHappen) {
  ExpectRows({
      {"state.best.code",
       "KE1207@6+4 'state.best' may be absent here (write state.?best.orValue(...), or test "
       "has(state.best) first)"},
      {"has(state.best) && state.best.code == 'x'", "false"},
      {"!has(state.best) || state.best.code == 'x'", "true"},
      {"has(state.best) ? state.best.code : ''", "\"\""},
      {"state.?best.hasValue() && state.best.code == 'x'", "false"},
      {"has(state.best) && has(state.best.speedup) && state.best.speedup > 2.0", "false"},
      {"has(state.best) || state.best.code == 'x'",
       "KE1207@25+4 'state.best' may be absent here (write state.?best.orValue(...), or test "
       "has(state.best) first)"},
      {"(has(state.best) && true) || state.best.code == 'x'",
       "KE1207@35+4 'state.best' may be absent here (write state.?best.orValue(...), or test "
       "has(state.best) first)"},
      {"state.?best.?speedup.orValue(0.0) >= inputs.target_speedup", "false"},
      {"state.?best.speedup.orValue(0.0)", "0.0"},
  });
}

TEST(Absence, NullInATypedMemberCountsAsMissing) {
  ExpectRows({{"state.draft.?speedup.orValue(1.0)", "1.0"},
              {"has(state.draft.speedup)", "false"},
              {"m.?n.orValue(1)", "null"}});
}

TEST(Names, UnknownOnesAreErrorsWithASuggestion) {
  ExpectRows({
      {"stat.best", "KE1202@0+4 there is no name 'stat' here (did you mean 'state'?)"},
      {"state.?bset.hasValue()", "KE1203@7+4 no channel is called 'bset' (did you mean 'best'?)"},
      {"visits.evaluate < 3", "KE1203@7+8 no node is called 'evaluate' (known: generate)"},
      {"sise(l)", "KE1204@0+4 there is no function 'sise' (did you mean 'size'?)"},
      {"'a'.startswith('a')",
       "KE1204@4+10 there is no function 'startswith' (did you mean 'startsWith'?)"},
      {"inputs.name.length", "KE1203@12+6 a value of type string has no member 'length'"},
      {"inputs.nmae == 'é' && visits.genrate > 1",
       "KE1203@7+4 no input is called 'nmae' (did you mean 'name'?) | KE1203@29+7 no node is "
       "called 'genrate' (did you mean 'generate'?)"},
  });
}

TEST(Functions, ConvertMeasureAndSearch) {
  ExpectRows({
      {"size('é')", "1"},
      {"size(l)", "3"},
      {"m.size()", "5"},
      {"int('12')", "12"},
      {"int(-1.9)", "-1"},
      {"double('1.5')", "1.5"},
      {"string(1.0)", "\"1\""},
      {"string(0.1)", "\"0.1\""},
      {"string(1e21)", "\"1e+21\""},
      {"string(true)", "\"true\""},
      {"bool('false')", "false"},
      {"'abc'.startsWith('ab')", "true"},
      {"'abc'.endsWith('ab')", "false"},
      {"'abc'.contains('b')", "true"},
      {"int('1.5')", "error: int(): '1.5' is not an integer in 'int('1.5')'"},
      {"double('nan')", "error: double(): 'nan' is not a number in 'double('nan')'"},
      {"bool('yes')", "error: bool(): 'yes' is neither 'true' nor 'false' in 'bool('yes')'"},
      {"size(1)", "KE1210@5+1 size() does not take a value of type int"},
      {"size(l, l)", "KE1210@0+10 size() takes 1 argument(s), not 2"},
      {"x.orValue(1)",
       "KE1210@0+1 orValue() does not take a value of type dyn (an optional comes from .?member "
       "or [?index])"},
  });
}

TEST(Functions, MatchesIsARegularExpressionInLinearTime) {
  ExpectRows({{"'abc'.matches('b')", "true"},
              {"'abc'.matches('^b')", "false"},
              {"'abc'.matches('^a.c$')", "true"},
              {"'tt.dot'.matches('^tt\\\\.(dot|load)$')", "true"},
              {"'ttxdot'.matches('^tt\\\\.(dot|load)$')", "false"},
              {"'k42'.matches(r'^\\w\\d+$')", "true"},
              {"'aab'.matches('^(a|b)*$')", "true"},
              {"''.matches('^$')", "true"},
              {"'a-b'.matches('^[a-c-]+$')", "true"},
              {"'x'.matches('[^x]')", "false"},
              {"'x'.matches('a||x')", "true"},
              {"'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('^(a*)*b$')", "false"},
              {"'a'.matches('(')",
               "error: matches(): the pattern has a '(' without its ')' in ''a'.matches('(')'"},
              {"'a'.matches('*a')",
               "error: matches(): the pattern has nothing before '*' to repeat in "
               "''a'.matches('*a')'"}});
}

TEST(Macros, GoOverListsAndKeys) {
  ExpectRows({
      {"[1, 2].exists(i, i > 1)", "true"},
      {"[1, 2].all(i, i > 1)", "false"},
      {"['a', 2].exists(i, i == 2)", "true"},
      {"l.exists(i, i > 1)", "true"},
      {"l.all(i, i > 0)", "error: '>' does not work between string and integer in 'i > 0'"},
      {"[1, 2, 3].filter(i, i > 1)", "[2,3]"},
      {"[1, 2].map(i, i * 2)", "[2,4]"},
      {"[1, 2].map(i, i > 1, i * 2)", "[4]"},
      {"[1, 2].exists_one(i, i > 1)", "true"},
      {"m.exists(k, k == 'a')", "true"},
      {"[[1], [2]].map(i, i.map(j, j + 1))", "[[2],[3]]"},
      {"[true].exists(i, i)", "true"},
      {"l.exists(x, x == 1)",
       "KE1202@2+6 the variable 'x' hides another name (give it a name of its own)"},
      {"inputs.generations.all(i, true)",
       "KE1210@0+18 all() needs a list or a map, not a value of type int"},
  });
}

TEST(Syntax, ErrorsStandAloneAndPointAtTheSpot) {
  ExpectRows({
      {"", "KE1201@0+1 an expression is missing"},
      {"1 +", "KE1201@3+1 the expression ends too early (expected a value)"},
      {"a = 1", "KE1201@2+1 '=' is not an operator (compare with '==')"},
      {"x and true", "KE1201@2+3 'and' is not an operator (write '&&')"},
      {"not x", "KE1201@0+3 'not' is not an operator (write '!')"},
      {"x & true", "KE1201@2+1 '&' is not an operator (write '&&')"},
      {"${x}", "KE1201@0+1 '$' has no meaning inside an expression (write the name without ${ })"},
      {"'é' + 'open", "KE1201@6+1 the string that starts here is never closed (close it with ')"},
      {"(1", "KE1201@2+1 the expression ends too early (expected ')')"},
      {"1u", "KE1201@0+2 '1u' is not a number (there are no unsigned integers; drop the 'u')"},
      {"has(x)", "KE1201@4+1 has() needs a member access such as a.b"},
      {"if", "KE1201@0+2 'if' is a reserved word"},
      {"'é' # 1", "KE1201@4+1 '#' has no meaning in an expression"},
      {"'\\q'", "KE1201@1+2 an unknown escape in a string (write '\\\\' for one backslash)"},
      {"1 2", "KE1201@2+1 '2' is not expected here"},
  });
}

TEST(Conditions, AreBoolWithoutTruthiness) {
  EXPECT_EQ(Outcome("true", Want::kCondition), "true");
  EXPECT_EQ(Outcome("1", Want::kCondition),
            "KE1209@0+1 a condition must be a bool, this is of type int (compare it with "
            "something)");
  EXPECT_EQ(Outcome("state.?best", Want::kCondition),
            "KE1209@0+11 a condition must be a bool, this is of type optional (add .hasValue() or "
            ".orValue(...))");
  EXPECT_EQ(Outcome("x", Want::kCondition),
            "error: the condition 'x' gave a value of type integer, not a bool");
}

TEST(Bounds, HoldWhateverTheText) {
  EXPECT_EQ(Outcome(std::string(9000, ' ') + "1"),
            "KE1208@0+1 the expression is longer than 8 KiB");
  EXPECT_EQ(Outcome(std::string(200, '(') + "1" + std::string(200, ')')),
            "KE1208@32+1 the expression is nested too deeply");
  std::string sum = "1";
  for (int i = 0; i < 1000; ++i) sum += "+1";
  EXPECT_EQ(Outcome(sum), "KE1208@0+2001 the expression has too many terms");
  std::string digits = "[0";
  for (int i = 0; i < 99; ++i) digits += ",0";
  digits += "]";
  EXPECT_EQ(Outcome(digits + ".all(a, " + digits + ".all(b, " + digits + ".all(c, a == b)))")
                .substr(0, 43),
            "error: the expression takes too many steps ");
}

TEST(Program, TellsWhichLabelItTests) {
  TypeEnv env;
  env["result"] = RecordType("member", {{"label", {StringType(), false}}});
  const auto label = [&env](const std::string& text) {
    return Program::Compile(text, env).program->EqualsLiteral("result.label").value_or("-");
  };
  EXPECT_EQ(label("result.label == 'retry'"), "retry");
  EXPECT_EQ(label("'retry' == result.label"), "retry");
  EXPECT_EQ(label("result.label != 'retry'"), "-");
  EXPECT_EQ(label("result.label == 'retry' && true"), "-");
}

}  // namespace
}  // namespace kernel_evolve::expr
