// The tests that run against the real zygote run twice: with the strongest isolation that this
// machine gives, and without namespaces. Each level's worker is started once.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tests/worker/harness.hpp"

namespace kernel_evolve::testing {

class LevelTest : public ::testing::TestWithParam<const char*> {
 protected:
  Worker* worker() { return SharedWorker(GetParam()); }
  static Worker* SharedWorker(const std::string& level);
  Result<WorkerReply> Run(WorkerCall call) { return CallAndWait(worker(), std::move(call)); }
  Result<WorkerReply> Run(const std::string& function, Json request = Json::Obj(),
                          double deadline_s = 30) {
    return Run(CallOf(function, std::move(request), deadline_s));
  }
  // Whether the worker under test has namespaces; makes sure that it has come up.
  bool HasNamespaces();
};

inline std::string LevelName(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace kernel_evolve::testing

#define KE_TEST_AT_ALL_LEVELS(suite) \
  INSTANTIATE_TEST_SUITE_P(Levels, suite, ::testing::Values("auto", "subreaper"), LevelName)
