#include "core/evolve/source.hpp"

#include <gtest/gtest.h>

namespace kernel_evolve {
namespace {

TEST(NormalisedSource, IgnoresCommentLinesBlankLinesAndTrailingSpace) {
  EXPECT_EQ(NormalisedSource("# head\nx = 1  \n\n   # note\ny = 2\r\n"), "x = 1\ny = 2\n");
  EXPECT_EQ(SourceHash("x = 1"), SourceHash("\n\nx = 1\t\n# end"));
}

TEST(NormalisedSource, KeepsIndentationAndCommentsBehindCode) {
  EXPECT_NE(SourceHash("if a:\n  b()\n"), SourceHash("if a:\nb()\n"));
  EXPECT_EQ(NormalisedSource("x = 1  # why\n"), "x = 1  # why\n");
}

TEST(NormalisedSource, NeverChangesWhatIsInsideAString) {
  const char* const sources[] = {
      "s = \"\"\"\n# not a comment\n\n  spaces  \n\"\"\"\n",
      "s = '''a\n\n#b'''\n",
      "s = r'''\\\n# still inside\n'''\n",
      "s = 'one \\\n# inside the string'\n",
      "s = \"it's\"\nt = '''\n# inside\n'''\n",
  };
  for (const char* source : sources) EXPECT_EQ(NormalisedSource(source), source);
}

TEST(NormalisedSource, QuotesInACommentOpenNoString) {
  EXPECT_EQ(NormalisedSource("x = 1  # it's\n# note\ny = 2\n"), "x = 1  # it's\ny = 2\n");
}

TEST(NormalisedSource, KeepsWhatABackslashJoins) {
  const std::string joined = "x = 1 + \\\n# this line belongs to it\n2\n";
  EXPECT_EQ(NormalisedSource(joined), joined);
  EXPECT_NE(SourceHash("x = 1 \\ \n"), SourceHash("x = 1 \\\n"));  // the first is an error
}

TEST(NormalisedSource, LeavesWhatItCannotFollowAsItIs) {
  const std::string unended = "s = 'never ends\n# note\n";
  EXPECT_EQ(NormalisedSource(unended), unended);
  const std::string open = "s = '''\n# note\n";
  EXPECT_EQ(NormalisedSource(open), open);
}

TEST(NormalisedSource, DoingItTwiceChangesNothing) {
  const std::string source =
      "# a\nimport torch\n\n\nclass M:\n    '''doc\n\n    # in doc\n    '''\n";
  EXPECT_EQ(NormalisedSource(NormalisedSource(source)), NormalisedSource(source));
}

}  // namespace
}  // namespace kernel_evolve
