#include "edits.hpp"

#include <gtest/gtest.h>

namespace kernel_nodes {
namespace {

using nlohmann::json;

json Edit(const char* search, const char* replace) {
  return {{"search", search}, {"replace", replace}};
}

TEST(Edits, ApplyInOrderEachToWhatTheOneBeforeLeft) {
  const Edited edited = ApplyEdits("a b", json::array({Edit("a", "x y"), Edit("y b", "z")}));
  EXPECT_EQ(edited.complaint, "");
  EXPECT_EQ(edited.text, "x z");
}

TEST(Edits, RefuseWhatIsNotUnique) {
  const Edited twice = ApplyEdits("a a", json::array({Edit("a", "b")}));
  EXPECT_NE(twice.complaint.find("occurs 2 times"), std::string::npos) << twice.complaint;
  EXPECT_EQ(twice.text, "");
  // Overlapping occurrences are two as well.
  EXPECT_NE(ApplyEdits("aaa", json::array({Edit("aa", "b")})).complaint, "");
}

TEST(Edits, RefuseWhatIsNotThereAndChangeNothing) {
  const Edited edited = ApplyEdits("a b", json::array({Edit("a", "x"), Edit("q", "z")}));
  EXPECT_NE(edited.complaint.find("edit 2 of 2"), std::string::npos) << edited.complaint;
  EXPECT_EQ(edited.text, "");
}

TEST(Edits, RefuseMalformedOnes) {
  for (const json& bad : {json(), json::array(), json::array({1}), json::array({{{"search", "a"}}}),
                          json::array({Edit("", "b")}), json::array({Edit("a", "a")}),
                          json::array({{{"search", 1}, {"replace", "b"}}})}) {
    EXPECT_NE(ApplyEdits("a", bad).complaint, "") << bad.dump();
  }
}

}  // namespace
}  // namespace kernel_nodes
