// Golden cases: each file under cases/ is a document and exactly what the loader says about it.
//
//   # what the case shows
//   --- graph            (or: profile; with `escaped`, \t \r \0 \xHH \\ stand for bytes)
//   ...
//   --- says
//   ok                   (or the diagnostics as a terminal shows them)
//
// KERNEL_EVOLVE_UPDATE_CASES=1 rewrites what the files expect; read the difference before you keep
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/text.hpp"
#include "core/graph/loader.hpp"
#include "core/graph/profile.hpp"
#include "tests/graph/catalog.hpp"

namespace kernel_evolve::graph {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(KERNEL_EVOLVE_SOURCE_DIR) / "tests/graph/cases";

struct Case {
  std::string head;  // everything up to and including the document
  std::string document;
  std::string says;
  bool profile = false;
};

std::string Unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char kind = text[++i];
    if (kind == 'x') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += kind == 't' ? '\t' : kind == 'r' ? '\r' : kind == '0' ? '\0' : kind;
    }
  }
  return out;
}

Case ReadCase(const fs::path& file) {
  const std::string text = ReadFile(file).value();
  Case made;
  const size_t begin = text.find("--- ");
  const size_t body = text.find('\n', begin) + 1;
  const size_t says = text.find("--- says\n", body);
  EXPECT_NE(says, std::string::npos) << file;
  const std::string kind = text.substr(begin, body - begin);
  made.profile = kind.find("profile") != std::string::npos;
  made.head = text.substr(0, says);
  made.document = text.substr(body, says - body);
  if (kind.find("escaped") != std::string::npos) made.document = Unescape(made.document);
  if (kind.find("unended") != std::string::npos) made.document.pop_back();
  made.says = text.substr(says + 9);
  return made;
}

std::string Say(const std::vector<Diagnostic>& diagnostics, const std::string& source) {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics) out += FormatDiagnostic(diagnostic, source);
  return out.empty() ? "ok\n" : out;
}

std::string Say(const Case& c) {
  if (c.profile) {
    const LoadedProfile loaded = LoadProfileText(c.document, "profile.yaml");
    EXPECT_EQ(loaded.profile.has_value(), loaded.diagnostics.empty());
    return Say(loaded.diagnostics, loaded.source);
  }
  const PluginVersions plugins = {{"kernel_nodes", "1.4.0"}, {"provider_offline", "1.0.0"}};
  const LoadedGraph loaded =
      LoadGraphText(c.document, "graph.yaml", kCases / "files", TestCatalog(), &plugins);
  EXPECT_EQ(loaded.graph.has_value(), loaded.diagnostics.empty());
  return Say(loaded.diagnostics, loaded.source);
}

class Cases : public testing::TestWithParam<std::string> {};

TEST_P(Cases, SayWhatTheyPromise) {
  const fs::path file = kCases / (GetParam() + ".case");
  const Case c = ReadCase(file);
  const std::string said = Say(c);
  if (std::getenv("KERNEL_EVOLVE_UPDATE_CASES") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(file, c.head + "--- says\n" + said).ok());
    return;
  }
  EXPECT_EQ(said, c.says);
}

std::vector<std::string> AllCases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    if (entry.path().extension() == ".case") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Graph, Cases, testing::ValuesIn(AllCases()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace kernel_evolve::graph
