// Real models by configuration alone: whole runs against a scripted model on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.hpp"
#include "core/base/json.hpp"
#include "tests/cli/process.hpp"
#include "tests/cli/small_task.hpp"
#include "tests/loopback/loopback.hpp"

namespace kernel_evolve::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKey[] = "sk-loopback";

class Models : public ::testing::Test {
 protected:
  std::string Profile(const std::string& provider, const std::string& more = "") {
    return folder_.Write(
        provider + ".yaml",
        "kernel_evolve_profile: 1\n"
        "models:\n"
        "  author:\n"
        "    provider: " +
            provider + "\n    model: scripted\n    base_url: " + server_.Url("/chat/" + provider) +
            "\n    api_key: \"${env:LOOPBACK_KEY}\"\n" + more + "evaluator: {use: simulator}\n");
  }
  Finished Evolve(const std::vector<std::string>& more, const std::string& out,
                  const std::string& key = kKey) {
    std::vector<std::string> arguments = {"evolve",  folder_.Write("task.py", kTask),
                                          "--input", "generations=1",
                                          "--out",   (folder_.path() / out).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return KernelEvolve(arguments, {{"LOOPBACK_KEY", key}}, folder_.path());
  }
  Json File(const std::string& out, const char* name) const {
    const Result<std::string> text = ReadFile(folder_.path() / out / name);
    EXPECT_TRUE(text.ok()) << text.error().message;
    return text.ok() ? *Json::Parse(*text) : Json();
  }
  // Whether any file below the folder holds the text.
  bool OnDisk(const std::string& text) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file()) continue;
      const Result<std::string> content = ReadFile(entry.path());
      if (content.ok() && content->find(text) != std::string::npos) return true;
    }
    return false;
  }

  TempFolder folder_;
  Loopback server_;
};

TEST_F(Models, ThreeBackendsAreSwappedByTheProfileAlone) {
  Json verdict;
  for (const std::string provider : {"openai", "pangu", "anthropic"}) {
    const Finished finished =
        Evolve({"--profile", Profile(provider), "--seed", "7"}, "run-" + provider);
    ASSERT_EQ(finished.exit_code, 0) << provider << finished.out << finished.err;
    const Json report = File("run-" + provider, "report.json");
    EXPECT_EQ(report["usage"]["models"]["author"].Integer("calls"), 3) << provider;
    EXPECT_EQ(report["usage"].Integer("tokens"), 360) << provider;
    Json now = File("run-" + provider, "verdict.json");
    now.object().erase("seconds");
    if (!verdict.is_null()) {
      EXPECT_EQ(now["metrics"], verdict["metrics"]) << provider;
      EXPECT_EQ(now["reason"], verdict["reason"]) << provider;
    }
    verdict = now;
  }
  EXPECT_FALSE(OnDisk(kKey)) << "a key was written somewhere";
}

TEST_F(Models, ARecordedRunIsRepeatedWithoutANetwork) {
  const std::string cassette = (folder_.path() / "cassette.json").string();
  const Finished recorded =
      Evolve({"--profile", Profile("openai"), "--seed", "7", "--record", cassette}, "recorded");
  ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
  EXPECT_FALSE(OnDisk(kKey));
  const Finished replayed = Evolve({"--replay", cassette}, "replayed", "");
  ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_THAT(replayed.err, HasSubstr("author=replay"));
  EXPECT_THAT(replayed.err, HasSubstr("seed 7"));
  EXPECT_EQ(File("replayed", "verdict.json")["metrics"],
            File("recorded", "verdict.json")["metrics"]);
  EXPECT_EQ(File("replayed", "report.json")["candidates"].size(),
            File("recorded", "report.json")["candidates"].size());
}

TEST_F(Models, AWrongKeyIsOneSentenceThatDoesNotRepeatIt) {
  for (const std::string provider : {"openai", "pangu", "anthropic"}) {
    const Finished finished =
        Evolve({"--profile", Profile(provider)}, "wrong-" + provider, "sk-wrong-and-secret");
    EXPECT_EQ(finished.exit_code, 3) << provider << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("answered 401")) << provider;
    EXPECT_THAT(finished.err + finished.out, Not(HasSubstr("sk-wrong-and-secret"))) << provider;
  }
  EXPECT_FALSE(OnDisk("sk-wrong-and-secret")) << "the error body echoed it";
}

TEST_F(Models, AMissingKeyIsNoticedBeforeTheTaskIsTried) {
  const Finished finished = Evolve({"--profile", Profile("openai")}, "run", "");
  EXPECT_EQ(finished.exit_code, 3);
  EXPECT_THAT(finished.err, HasSubstr("needs the environment variable LOOPBACK_KEY"));
  EXPECT_THAT(finished.err, Not(HasSubstr("trying the task")));
}

TEST_F(Models, ADeadEndpointIsOneSentence) {
  const std::string profile = folder_.Write(
      "dead.yaml",
      "kernel_evolve_profile: 1\nmodels:\n  author: {provider: openai, model: m, api_key: none, "
      "base_url: \"http://127.0.0.1:1/v1\", retry: {attempts: 2, backoff: 1ms}}\n");
  const Finished finished = Evolve({"--profile", profile}, "run");
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(finished.err, HasSubstr("(2 attempts)"));
}

TEST_F(Models, OneAliasIsOverriddenOnTheCommandLine) {
  const Finished other =
      Evolve({"--profile", Profile("openai"), "--model", "author=openai:another"}, "run");
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("author=openai:another"));
  const Finished offline =
      Evolve({"--profile", Profile("openai"), "--model", "author=offline"}, "offline", "");
  EXPECT_EQ(offline.exit_code, 0) << offline.err;
  const Finished unknown = Evolve({"--model", "auther=offline"}, "unknown");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'author'?"));
}

TEST_F(Models, AMistakeInAnEntryIsNamedAsItStandsInTheProfile) {
  const std::pair<const char*, const char*> cases[] = {
      {"    form: deployments\n", "the model 'author': deployment: the form 'deployments' needs"},
      {"    formm: deployments\n",
       "the model 'author': formm: unknown parameter; did you mean 'form'?"},
      {"    limits: {concurency: 1}\n",
       "the model 'author': limits.concurency: there is no such key"},
  };
  for (const auto& [entry, sentence] : cases) {
    EXPECT_THAT(Evolve({"--profile", Profile("pangu", entry)}, "run").err, HasSubstr(sentence));
  }
  const Finished doctor = KernelEvolve({"doctor", "--profile", Profile("pangu", cases[0].first)},
                                       {{"LOOPBACK_KEY", kKey}}, folder_.path());
  EXPECT_THAT(doctor.out, HasSubstr(cases[0].second)) << doctor.err;
}

TEST_F(Models, DoctorCallsEachModelOnce) {
  for (const std::string provider : {"openai", "pangu", "anthropic"}) {
    const Finished finished = KernelEvolve({"doctor", "--profile", Profile(provider)},
                                           {{"LOOPBACK_KEY", kKey}}, folder_.path());
    EXPECT_THAT(finished.out, HasSubstr("tools work")) << provider << finished.out << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("streaming works")) << provider;
    EXPECT_THAT(finished.out, HasSubstr("100 tokens in, 20 out")) << provider;
  }
  const Finished wrong = KernelEvolve({"doctor", "--profile", Profile("openai")},
                                      {{"LOOPBACK_KEY", "sk-wrong-and-secret"}}, folder_.path());
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.out, HasSubstr("check the key"));
  EXPECT_THAT(wrong.out, Not(HasSubstr("sk-wrong-and-secret")));
}

}  // namespace
}  // namespace kernel_evolve::testing
