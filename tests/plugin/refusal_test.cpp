// A plugin file that this host does not take: one sentence that names the file, what it needs, what
// the host offers and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plugin/child_query.hpp"
#include "core/plugin/library_image.hpp"
#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

// What Scan() says of one file, without the file's path at its beginning.
std::string RefusalOf(const fs::path& file) {
  const Registry registry = ScanOnly(file);
  if (registry.errors().size() != 1) return "not exactly one error";
  if (!registry.types().empty()) return "it offers types all the same";
  const std::string message = registry.errors()[0].message;
  if (message.rfind(file.string() + " ", 0) != 0) return "does not begin with the file: " + message;
  return message.substr(file.string().size() + 1);
}

TEST(Refusal, OfEachBadPlugin) {
  const std::pair<const char*, const char*> cases[] = {
      {"symbol",
       "is not a KernelEvolve plugin: it exports no ke_plugin_query; build it with "
       "kernel_evolve_add_plugin or remove it"},
      {"magic",
       "is not a KernelEvolve plugin: its descriptor does not begin with KE_ABI_MAGIC; build it "
       "with kernel_evolve_add_plugin"},
      {"major",
       "needs plugin ABI 2.x, this host offers 1.1; update KernelEvolve or build the plugin with "
       "this host's SDK"},
      {"old_major",
       "needs plugin ABI 0.x, this host offers 1.1; build the plugin with this host's SDK"},
      {"minor",
       "needs plugin ABI 1.8 or newer, this host offers 1.1; update KernelEvolve or build the "
       "plugin with this host's SDK"},
      {"descriptor",
       "gives a descriptor of 24 bytes where ABI 1.1 has 64; build it with this host's SDK"},
      {"id", "gives no proper id and version; an id has lower-case letters, digits, '_' and '-'"},
      {"no_types", "offers no type; list at least one node, provider or evaluator"},
      {"vtable",
       "gives a vtable for the type 'test/twice' of 16 bytes where ABI 1.1 has 32; build it with "
       "this host's SDK"},
      {"step", "leaves create, step or destroy of the type 'test/twice' empty; fill in its vtable"},
      {"kind",
       "gives the type 'test/twice' the kind 9, which this host does not know; update "
       "KernelEvolve"},
      {"schema",
       "cannot be used: the type 'test/twice': params_schema.properties.a.pattern: this keyword is "
       "not supported"},
      {"interface",
       "cannot be used: the type 'test/twice': interface.ports.in[0]: a port has a name and a "
       "type"},
      {"null", "gives no descriptor; ke_plugin_query must return one whatever the host's version"},
      {"crash",
       "crashed while it was queried (signal 11, Segmentation fault); look at its static "
       "constructors and its ke_plugin_query"},
      {"exit", "ended the process that queried it; look at its static constructors"},
      {"static_throw",
       "crashed while it was queried (signal 6, Aborted); look at its static constructors and its "
       "ke_plugin_query"},
      {"unresolved",
       "cannot be loaded: undefined symbol: acme_missing_function; install what it needs or build "
       "it again"},
      {"codec_missing", "says that the type 'bad' is a codec, but gives none; fill in its ke_type"},
      {"codec_unsaid",
       "gives the type 'bad' a codec, but its interface does not say \"form\": \"codec\""},
      {"codec_short",
       "gives a codec for the type 'bad' of 16 bytes where ABI 1.1 has 40; build it with this "
       "host's SDK"},
      {"codec_empty",
       "leaves encode, begin, feed or finish of the type 'bad' empty; fill in its codec"},
      {"codec_node", "gives the type 'bad' a codec; only providers have one"},
      {"codec_type",
       "gives a type table of 56 bytes where ABI 1.1 has 64; build it with this host's SDK"},
  };
  for (const auto& [name, sentence] : cases) EXPECT_EQ(RefusalOf(Bad(name)), sentence) << name;
  EXPECT_THAT(RefusalOf(Bad("schema_text")), HasSubstr("cannot be used: not valid JSON: at line"));
}

TEST(Refusal, OfOneThatNeverAnswers) {
  const ChildAnswer answer = QueryInChild({Bad("hang"), "h", true, std::chrono::milliseconds(50)});
  EXPECT_EQ(answer.refusal, "did not answer ke_plugin_query within 50 ms; it must return at once");
  EXPECT_EQ(answer.manifest, "");
}

TEST(Refusal, OfWhatIsNoLibraryAtAll) {
  const TempDir dir;
  EXPECT_EQ(RefusalOf(dir.Write("text.so", "hello\n")),
            "is not a shared library; build it with kernel_evolve_add_plugin or remove it");
  EXPECT_EQ(RefusalOf(dir.Write("empty.so", "")),
            "is not a shared library; build it with kernel_evolve_add_plugin or remove it");
  EXPECT_EQ(
      RefusalOf(dir.CopyIn(KE_MANIFEST, "program.so")),
      "cannot be loaded: cannot dynamically load position-independent executable; install what "
      "it needs or build it again");
}

// The loader maps such a file and the process dies on the first missing page.
TEST(Refusal, OfALibraryThatIsCutShortAnywhere) {
  const TempDir dir;
  const std::string whole = Slurp(Good("c_node") / "c_node.so");
  for (const size_t kept :
       {size_t{10}, size_t{64}, size_t{500}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_EQ(RefusalOf(dir.Write("cut.so", whole.substr(0, kept))),
              "is cut short; copy or build it again")
        << kept;
  }
}

TEST(Refusal, OfALibraryForAnotherMachine) {
  const TempDir dir;
  std::string bytes = Slurp(Good("c_node") / "c_node.so");
  bytes[18] = 0x16;  // e_machine: S/390
  EXPECT_EQ(RefusalOf(dir.Write("other.so", bytes)),
            "is built for another kind of machine; build it on this one");
}

TEST(Refusal, IsAnErrorOfTheEnvironment) {
  const Registry registry = ScanOnly(Bad("magic"));
  ASSERT_EQ(registry.errors().size(), 1U);
  EXPECT_EQ(registry.errors()[0].error_class, ErrorClass::kUnavailable);
  EXPECT_EQ(registry.errors()[0].exit_code, kExitEnvironment);
}

TEST(LibraryImage, APluginExportsItsQueryAndNothingElse) {
  for (const char* id : {"class_nodes", "coroutine_nodes", "twin_a", "c_node"}) {
    const LibraryImage image = LibraryImage::Read(Good(id) / (std::string(id) + ".so"));
    EXPECT_EQ(image.refusal, "");
    EXPECT_THAT(image.exports, ElementsAre("ke_plugin_query")) << id;
    EXPECT_THAT(image.unique, IsEmpty()) << id;
    EXPECT_EQ(image.hash.rfind("build-id:", 0), 0U) << id;
  }
}

TEST(LibraryImage, SeesWhatAnUnguardedLibraryExports) {
  const LibraryImage image = LibraryImage::Read(Bad("symbol"));
  EXPECT_THAT(image.exports, testing::Contains("not_the_query"));
}

TEST(LibraryImage, AnotherContentHasAnotherHash) {
  EXPECT_NE(LibraryImage::Read(Good("twin_a") / "twin_a.so").hash,
            LibraryImage::Read(Good("twin_b") / "twin_b.so").hash);
}

// The build asks the same questions as the host.
TEST(ManifestTool, RefusesWhatNoHostWouldTake) {
  const TempDir dir;
  const auto run = [&dir](const fs::path& library, const std::string& id) {
    const fs::path out = dir.path() / "out.json";
    const fs::path said = dir.path() / "said";
    const std::string command = std::string(KE_MANIFEST) + " " + library.string() + " " +
                                out.string() + " " + id + " 2>" + said.string();
    const int status = std::system(command.c_str());
    return std::to_string(status != 0) + " " + std::to_string(fs::exists(out)) + " " + Slurp(said);
  };
  EXPECT_THAT(run(Bad("vtable"), "bad"), HasSubstr("1 0 ke_manifest: " + Bad("vtable").string() +
                                                   " gives a vtable for the type"));
  EXPECT_THAT(run(Bad("verbatim"), "verbatim"), HasSubstr("which may collide"));
  EXPECT_THAT(run(Good("c_node") / "c_node.so", "see_node"),
              HasSubstr("calls itself 'c_node' but is built as 'see_node'"));
  EXPECT_EQ(run(Good("c_node") / "c_node.so", "c_node"), "0 1 ");
  EXPECT_EQ(Slurp(dir.path() / "out.json"), Slurp(Good("c_node") / "c_node.keplugin.json"));
}

}  // namespace
}  // namespace kernel_evolve
