#include "core/plugin/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plugin/plugin_fixture.hpp"

namespace kernel_evolve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

std::vector<std::string> TypesOf(const Registry& registry) {
  std::vector<std::string> out;
  for (const TypeInfo& type : registry.types()) {
    out.push_back(std::string(TypeKindName(type.kind)) + " " + type.name);
  }
  return out;
}

std::string NoteOn(const Registry& registry, const fs::path& path) {
  for (const ScanNote& note : registry.notes()) {
    if (note.path == path) return note.outcome;
  }
  return "no note";
}

// Puts a fixture's library and manifest into `dir`, in a folder of its own or flat.
void Install(const TempDir& dir, const std::string& id, const std::string& at) {
  for (const char* suffix : {".so", ".keplugin.json"}) {
    dir.CopyIn(Good(id) / (id + suffix), at + id + suffix);
  }
}

TEST(Scan, ReadsWhatAPluginOffersFromItsManifest) {
  const TempDir dir;
  Install(dir, "class_nodes", "class_nodes/");
  const Registry registry = ScanOnly(dir.path());
  EXPECT_THAT(registry.errors(), IsEmpty());
  EXPECT_THAT(TypesOf(registry), ElementsAre("node test/pass_on", "node test/thrower",
                                             "node test/tour", "provider echo", "evaluator yes"));
  const TypeInfo* tour = registry.Find(TypeKind::kNode, "test/tour");
  ASSERT_NE(tour, nullptr);
  EXPECT_EQ(tour->summary, "Sees everything");
  EXPECT_EQ(tour->plugin_id, "class_nodes");
  EXPECT_EQ(tour->plugin_version, "1.0.0");
  EXPECT_EQ(tour->library, dir.path() / "class_nodes/class_nodes.so");
  EXPECT_EQ(tour->library_hash.rfind("build-id:", 0), 0U);
  EXPECT_EQ(tour->interface["ports"]["in"].array()[0].Text("name"), "x");
  EXPECT_EQ(tour->params_schema["properties"]["greeting"].Text("default"), "hello");
  EXPECT_EQ(registry.Find(TypeKind::kProvider, "test/tour"), nullptr);
}

TEST(Scan, TakesFoldersFlatFilesAndASingleFile) {
  const TempDir dir;
  Install(dir, "c_node", "c_node/");
  Install(dir, "twin_a", "");
  EXPECT_THAT(TypesOf(ScanOnly(dir.path())), ElementsAre("node test/c", "node twin_a"));
  EXPECT_THAT(TypesOf(ScanOnly(dir.path() / "twin_a.so")), ElementsAre("node twin_a"));
  EXPECT_THAT(TypesOf(ScanOnly(dir.path() / "c_node")), ElementsAre("node test/c"));
}

TEST(Scan, AsksALibraryWithoutAManifestInAChildProcess) {
  const TempDir dir;
  dir.CopyIn(Good("c_node") / "c_node.so", "c_node/c_node.so");
  Registry registry = ScanOnly(dir.path());
  ASSERT_THAT(TypesOf(registry), ElementsAre("node test/c"));
  EXPECT_THAT(NoteOn(registry, dir.path() / "c_node/c_node.so"),
              HasSubstr("asked in a child process"));
  EXPECT_TRUE(registry.Create(registry.types()[0], Json::Obj(), nullptr).ok());
}

TEST(Scan, ALaterCopyOfAPluginIsShadowed) {
  const TempDir first;
  const TempDir second;
  Install(first, "c_node", "");
  Install(second, "c_node", "c_node/");
  const Registry registry =
      Registry::Scan({{first.path(), "one"}, {second.path(), "two"}, {first.path(), "again"}});
  EXPECT_THAT(registry.errors(), IsEmpty());
  ASSERT_THAT(TypesOf(registry), ElementsAre("node test/c"));
  EXPECT_EQ(registry.types()[0].library, first.path() / "c_node.so");
  EXPECT_EQ(NoteOn(registry, second.path() / "c_node/c_node.keplugin.json"),
            "shadowed by " + (first.path() / "c_node.so").string() + ", which was found first");
  EXPECT_EQ(registry.notes().back().outcome, "seen already");
}

TEST(Scan, TwoPluginsWithOneTypeNameAreAnError) {
  const TempDir dir;
  const fs::path a = dir.CopyIn(Bad("twice_a"), "twice_a.so");
  const fs::path b = dir.CopyIn(Bad("twice_b"), "twice_b.so");
  const Registry registry = ScanOnly(dir.path());
  ASSERT_EQ(registry.errors().size(), 1U);
  EXPECT_EQ(registry.errors()[0].message, "the node 'test/twice' is offered by " + a.string() +
                                              " and again by " + b.string() +
                                              "; remove one of the two plugins");
  EXPECT_EQ(registry.errors()[0].exit_code, kExitBadInput);
}

TEST(Scan, EveryPathTriedIsNotedWithTheReason) {
  const TempDir dir;
  Install(dir, "c_node", "c_node/");
  dir.Write("stray/readme.txt", "x");
  dir.Write("notes.txt", "x");
  const Registry registry =
      Registry::Scan({{dir.path(), "the test"}, {dir.path() / "none", "your data folder"}});
  EXPECT_THAT(registry.errors(), IsEmpty());
  EXPECT_EQ(NoteOn(registry, dir.path()), "searched, from the test");
  EXPECT_EQ(NoteOn(registry, dir.path() / "c_node/c_node.keplugin.json"),
            "plugin c_node 0.1.0, 1 type");
  EXPECT_EQ(NoteOn(registry, dir.path() / "stray"),
            "holds no plugin: neither stray.keplugin.json nor stray.so");
  EXPECT_EQ(NoteOn(registry, dir.path() / "none"), "does not exist, from your data folder");
}

TEST(Scan, AFolderThatTheUserNamedMustExist) {
  const Registry registry = Registry::Scan({{"/no/such/folder", "--plugin-path", true}});
  ASSERT_EQ(registry.errors().size(), 1U);
  EXPECT_EQ(
      registry.errors()[0].message,
      "the plugin folder /no/such/folder (from --plugin-path) does not exist; check the path");
}

TEST(Scan, ARelativeFolderIsNotSearched) {
  const Registry registry = Registry::Scan({{".", "KERNEL_EVOLVE_PLUGIN_PATH", true}});
  ASSERT_EQ(registry.errors().size(), 1U);
  EXPECT_EQ(registry.errors()[0].message,
            "the plugin folder '.' (from KERNEL_EVOLVE_PLUGIN_PATH) is relative; write it in full");
}

TEST(Scan, OneBadPluginDoesNotHideTheOthers) {
  const TempDir dir;
  Install(dir, "c_node", "c_node/");
  dir.Write("aaa/aaa.so", "not a library");
  const Registry registry = ScanOnly(dir.path());
  EXPECT_EQ(registry.errors().size(), 1U);
  EXPECT_THAT(TypesOf(registry), ElementsAre("node test/c"));
}

TEST(Manifest, IsReadStrictly) {
  const TempDir dir;
  Install(dir, "c_node", "");
  const fs::path file = dir.path() / "c_node.keplugin.json";
  const Json good = Parsed(Slurp(file));
  const auto refusal = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
    const Registry registry = ScanOnly(file);
    if (registry.errors().size() != 1) return std::string("not exactly one error");
    const std::string message = registry.errors()[0].message;
    const std::string before = file.string() + " cannot be used: ";
    return message.rfind(before, 0) == 0 ? message.substr(before.size()) : message;
  };
  const auto with = [&good](const std::string& key, Json value) {
    Json changed = good;
    changed[key] = std::move(value);
    return changed.Dump();
  };
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON"));
  EXPECT_EQ(refusal("[]"), "it is not a JSON object");
  EXPECT_EQ(refusal(with("format", 2)), "its format is not 1; update KernelEvolve");
  EXPECT_EQ(
      refusal(with("abi", Parsed(R"({"major": 2, "minor_required": 0})"))),
      "it needs plugin ABI 2.0, this host offers 1.1; update KernelEvolve or build the plugin "
      "with this host's SDK");
  EXPECT_EQ(refusal(with("colour", "red")), "the manifest has the unknown key 'colour'");
  EXPECT_EQ(refusal(with("hash", 7)), "the manifest: 'hash' is not text");
  EXPECT_EQ(refusal(with("library", "../c_node.so")),
            "'library' must be the name of a file beside it");
  EXPECT_EQ(refusal(with("types", Json::Arr())), "it offers no type");
  EXPECT_EQ(refusal(with("types", Json::Arr({Json::Obj()}))), "a type has no 'interface'");
  EXPECT_EQ(refusal(with("library", "other.so")),
            file.string() +
                " describes other.so, which is not beside it; build the plugin again or "
                "copy both files");
}

TEST(Manifest, ThatTellsAnotherStoryThanItsLibraryIsRefusedAtTheFirstUse) {
  const TempDir dir;
  Install(dir, "c_node", "");
  const std::string stale =
      (dir.path() / "c_node.so").string() +
      " is not the library that its manifest describes; build the plugin again, or copy both files "
      "together";
  const auto create = [&dir] {
    Registry registry = ScanOnly(dir.path());
    const auto made = registry.Create(registry.types().at(0), Json::Obj(), nullptr);
    return made.ok() ? std::string("made") : made.error().message;
  };
  EXPECT_EQ(create(), "made");

  Json manifest = Parsed(Slurp(dir.path() / "c_node.keplugin.json"));
  manifest["version"] = "9.9.9";
  dir.Write("c_node.keplugin.json", manifest.Dump());
  EXPECT_EQ(create(), stale);

  // Another library under the same name: refused before any of its code runs.
  dir.CopyIn(Good("c_node") / "c_node.keplugin.json", "c_node.keplugin.json");
  dir.CopyIn(Bad("static_throw"), "c_node.so");
  EXPECT_EQ(create(), stale);
}

TEST(SearchPaths, GoFromTheMostExplicitToTheInstallation) {
  const auto paths = DefaultSearchPaths(
      {"/a", "b"}, {"/c::/d", "/home/me/.local/share", "/opt/ke/bin/kernel-evolve"});
  std::vector<std::string> got;
  for (const SearchPath& path : paths) got.push_back(path.dir.string() + " from " + path.why);
  EXPECT_THAT(got,
              ElementsAre("/a from --plugin-path",
                          (fs::current_path() / "b").string() + " from --plugin-path",
                          "/c from KERNEL_EVOLVE_PLUGIN_PATH", "/d from KERNEL_EVOLVE_PLUGIN_PATH",
                          "/home/me/.local/share/kernel-evolve/plugins from your data folder",
                          "/opt/ke/lib/kernel_evolve/plugins from the installation"));
}

TEST(SearchPaths, AreFewWithoutHomeAndProgram) {
  EXPECT_THAT(DefaultSearchPaths({}, {"", "", ""}), IsEmpty());
  EXPECT_TRUE(SearchEnvironment::FromProcess().executable.is_absolute());
}

}  // namespace
}  // namespace kernel_evolve
