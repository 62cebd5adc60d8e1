// What a child cannot do, and what is left of it afterwards: nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/worker/process.hpp"
#include "tests/worker/levels.hpp"

namespace kernel_evolve::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class WallTest : public LevelTest {};
KE_TEST_AT_ALL_LEVELS(WallTest);

TEST_P(WallTest, NothingSurvivesACallThatEnds) {
  const std::string mark = UniqueMark();
  Pending pending(worker(), CallOf("leave_processes", Json::Obj({{"mark", mark}})));
  ASSERT_TRUE(pending.WaitForProgress());
  EXPECT_EQ(Describe(pending.Get()), "ok: {}");
  EXPECT_TRUE(ProcessesMarked(mark).empty());
}

TEST_P(WallTest, NothingSurvivesADeadlineOrACancel) {
  const std::string mark = UniqueMark();
  const Json request = Json::Obj({{"mark", mark}, {"stay", true}});
  Pending pending(worker(), CallOf("leave_processes", request, 600));
  ASSERT_TRUE(pending.WaitForProgress());
  // Three that were left; the child itself has no mark.
  EXPECT_TRUE(Eventually([&] { return ProcessesMarked(mark).size() >= 3; }));
  worker()->Cancel(pending.id());
  EXPECT_THAT(Describe(pending.Get()), StartsWith("cancelled"));
  EXPECT_TRUE(ProcessesMarked(mark).empty());
  EXPECT_THAT(Describe(Run("leave_processes", request, 0.5)), StartsWith("timeout"));
  EXPECT_TRUE(ProcessesMarked(mark).empty());
}

TEST_P(WallTest, NothingSurvivesTheWorker) {
  const std::string mark = UniqueMark();
  int zygote = 0;
  {
    Worker own(RealOptions(GetParam()));
    Pending pending(&own,
                    CallOf("leave_processes", Json::Obj({{"mark", mark}, {"stay", true}}), 600));
    ASSERT_TRUE(pending.WaitForProgress());
    zygote = static_cast<int>(own.ready_info().Integer("pid"));
  }
  EXPECT_FALSE(ProcessLives(zygote));
  EXPECT_TRUE(ProcessesMarked(mark).empty());
}

TEST_P(WallTest, NothingSurvivesAKilledHost) {
  const std::string mark = UniqueMark();
  auto host = Process::Start({{WORKER_HOST, GetParam(), mark},
                              {"PATH=/usr/bin:/bin", "HOME=" + std::string(getenv("HOME")),
                               "KERNEL_EVOLVE_PYTHON=" + PythonWithTorch().string()}});
  ASSERT_TRUE(host.ok()) << host.error().message;
  std::string line;
  ASSERT_TRUE(Eventually([&] {
    char buffer[64];
    const ssize_t length = read(host->out(), buffer, sizeof buffer);
    if (length > 0) line.append(buffer, static_cast<size_t>(length));
    return line.find('\n') != std::string::npos || length == 0;
  }));
  const int zygote = std::atoi(line.c_str());
  ASSERT_TRUE(ProcessLives(zygote));
  // The grandchild marks itself after the line was written.
  ASSERT_TRUE(Eventually([&] { return ProcessesMarked(mark).size() >= 3U; }));
  kill(host->pid(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !ProcessLives(zygote) && ProcessesMarked(mark).empty(); }));
}

TEST_P(WallTest, AForkBombIsEnded) {
  const std::string mark = UniqueMark();
  WorkerCall call = CallOf("fork_bomb", Json::Obj({{"mark", mark}}), 20);
  call.limits = Json::Obj({{"processes", 40}});
  EXPECT_EQ(Describe(Run(call)), "internal: the child had more than 40 processes and threads");
  EXPECT_TRUE(ProcessesMarked(mark).empty());
  EXPECT_TRUE(Run("echo").ok());
}

TEST_P(WallTest, MemoryIsLimited) {
  WorkerCall python = CallOf("allocate");
  python.limits = Json::Obj({{"memory_mb", 256}});
  EXPECT_THAT(Describe(Run(python)), StartsWith("internal: MemoryError"));
  WorkerCall tensor = CallOf("allocate_tensor", Json::Obj({{"mib", 512}}));
  tensor.limits = Json::Obj({{"memory_mb", 256}});
  EXPECT_THAT(Describe(Run(tensor)), HasSubstr("allocate"));
  tensor.request["mib"] = 64;
  EXPECT_TRUE(Run(tensor).ok());
}

TEST_P(WallTest, ThePeakIsMeasured) {
  const auto little = Run("touch_memory", Json::Obj({{"mib", 1}}));
  const auto much = Run("touch_memory", Json::Obj({{"mib", 300}}));
  ASSERT_TRUE(little.ok() && much.ok()) << Describe(little) << Describe(much);
  EXPECT_GT(much->peak_kb - little->peak_kb, 250 * 1024);
  EXPECT_LT(much->peak_kb - little->peak_kb, 400 * 1024);
}

TEST_P(WallTest, OnlyTheScratchFolderCanBeWritten) {
  const TemporaryFolder scratch;
  const TemporaryFolder other;
  const fs::path home = getenv("HOME");
  const std::string inside = scratch.path() / "inside";
  const std::vector<std::string> outside = {other.path() / "file",
                                            home / "ke-was-here",
                                            "/usr/ke-was-here",
                                            "/etc/ke-was-here",
                                            std::string(KERNEL_EVOLVE_SOURCE_DIR) + "/ke-was-here",
                                            PythonWithTorch().parent_path() / "ke-was-here",
                                            "/proc/sys/kernel/core_pattern",
                                            "/sys/kernel/ke-was-here",
                                            "/dev/shm/ke-was-here"};
  Json paths = Json::Arr({inside});
  for (const std::string& path : outside) paths.push_back(path);
  WorkerCall call = CallOf("write_files", Json::Obj({{"paths", paths}}));
  call.scratch = scratch.path();
  const auto reply = Run(call);
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_EQ(reply->value["paths"].Text(inside), "written");
  EXPECT_TRUE(fs::exists(scratch.path() / "mine"));
  for (const std::string& path : outside) {
    // What a private place takes is not seen outside.
    EXPECT_FALSE(path.ends_with("ke-was-here") && fs::exists(path)) << path;
    const auto below = [&path](const char* place) { return path.starts_with(place); };
    if (below("/dev/shm") || below("/tmp/") || below("/var/tmp/")) continue;
    EXPECT_NE(reply->value["paths"].Text(path), "written") << path;
  }
  EXPECT_FALSE(fs::exists(other.path() / "file"));
}

TEST_P(WallTest, PrivateFilesCannotBeRead) {
  const TemporaryFolder folder;
  const fs::path home = getenv("HOME");
  const fs::path secret = home / (".ke-secret-" + UniqueMark());
  std::ofstream(secret) << "secret";
  std::ofstream(folder.path() / "mine") << "mine";
  std::ofstream(folder.path() / "shown") << "shown";
  const Json paths = Json::Arr({secret.string(), (folder.path() / "mine").string(),
                                (folder.path() / "shown").string(), "/etc/shadow", "/etc/passwd"});
  WorkerCall call = CallOf("read_files", Json::Obj({{"paths", paths}}));
  call.readable = {folder.path() / "shown"};
  const auto reply = Run(call);
  fs::remove(secret);
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  const Json& read = reply->value["paths"];
  EXPECT_THAT(read.Text(secret.string()), AnyOf("FileNotFoundError", "PermissionError"));
  EXPECT_THAT(read.Text((folder.path() / "mine").string()),
              AnyOf("FileNotFoundError", "PermissionError"));
  EXPECT_THAT(read.Text("/etc/shadow"), AnyOf("", "PermissionError"));
  EXPECT_EQ(read.Text((folder.path() / "shown").string()), "shown");
  EXPECT_THAT(read.Text("/etc/passwd"), HasSubstr("root"));
}

TEST_P(WallTest, ThereIsNoNetwork) {
  // A server on this machine: what a child could reach if anything.
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(server, 8), 0);
  socklen_t length = sizeof address;
  getsockname(server, reinterpret_cast<sockaddr*>(&address), &length);
  const TemporaryFolder folder;
  const std::string path = folder.path() / "socket";
  const int local = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un named{};
  named.sun_family = AF_UNIX;
  std::strncpy(named.sun_path, path.c_str(), sizeof named.sun_path - 1);
  ASSERT_EQ(bind(local, reinterpret_cast<sockaddr*>(&named), sizeof named), 0);
  ASSERT_EQ(listen(local, 8), 0);

  const auto reply =
      Run("use_network", Json::Obj({{"port", int{ntohs(address.sin_port)}}, {"unix", path}}));
  close(server);
  close(local);
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  for (const char* way : {"tcp", "tcp6", "netlink", "unix"}) {
    EXPECT_NE(reply->value.Text(way), "done") << way;
  }
  EXPECT_EQ(reply->value.Text("pair"), "done");
}

TEST_P(WallTest, DangerousSystemCallsAreRefused) {
  const auto reply = Run("forbidden_calls");
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_GE(reply->value.size(), 15U);
  for (const auto& [name, code] : reply->value.object()) {
    EXPECT_EQ(code.integer(), EPERM) << name;
  }
}

TEST_P(WallTest, AChildHasNoPrivilegesAndAnEmptyEnvironment) {
  setenv("KE_SECRET_TOKEN", "sk-456", 1);
  const TemporaryFolder scratch;
  WorkerCall call = CallOf("look_around");
  call.scratch = scratch.path();
  const auto reply = Run(call);
  unsetenv("KE_SECRET_TOKEN");
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  EXPECT_EQ(reply->value.Text("capabilities"), "0000000000000000");
  EXPECT_EQ(reply->value.Text("no_new_privileges"), "1");
  EXPECT_EQ(reply->value.Text("folder"), scratch.path().string());
  EXPECT_EQ(reply->value.Text("scratch"), scratch.path().string());
  EXPECT_EQ(reply->value.Integer("core"), 0);
  EXPECT_GT(reply->value.Number("time_left"), 0);
  EXPECT_LE(reply->value.Number("time_left"), 30);
  // The standard streams, the answer's pipe, and the folder that was being listed.
  EXPECT_EQ(reply->value["descriptors"].size(), 5U) << reply->value["descriptors"].Dump();
  const Json& environment = reply->value["environment"];
  EXPECT_THAT(environment.Dump(), ::testing::Not(HasSubstr("sk-456")));
  EXPECT_NE(environment.Text("HOME"), getenv("HOME"));
  EXPECT_THAT(environment.Text("TRITON_CACHE_DIR"), StartsWith(environment.Text("TMPDIR") + "/"));
}

TEST_P(WallTest, OtherProcessesCannotBeTouched) {
  ASSERT_TRUE(Run("echo").ok());
  const int zygote = static_cast<int>(worker()->ready_info().Integer("pid"));
  Json pids = Json::Arr({zygote, int{getpid()}, 1});
  const auto reply = Run("attack_processes", Json::Obj({{"pids", pids}}));
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  for (const Json& pid : pids.array()) {
    const Json& outcome = reply->value[std::to_string(pid.integer())];
    // In a namespace 1 is its own first process, which shrugs the signal off.
    if (pid.integer() != 1) {
      EXPECT_NE(outcome.Text("kill"), "done") << pid.Dump();
    }
    for (const char* way : {"memory", "environment", "descriptors"}) {
      EXPECT_NE(outcome.Text(way), "done") << pid.Dump() << " " << way;
    }
  }
  if (!HasNamespaces()) {
    EXPECT_NE(reply->value.Text("all"), "done");
  }
  EXPECT_TRUE(ProcessLives(zygote));
  EXPECT_EQ(worker()->ready_info().Integer("pid"), zygote);
}

TEST_P(WallTest, TheAnswerSaysHowFarTheChildWasWalledOff) {
  const auto reply = Run("echo");
  ASSERT_TRUE(reply.ok()) << Describe(reply);
  const Json& isolation = reply->isolation;
  const bool namespaces = HasNamespaces();
  if (std::string(GetParam()) == "subreaper") {
    EXPECT_FALSE(namespaces);
  }
  EXPECT_EQ(isolation.Text("level"), namespaces ? "namespaces" : "subreaper");
  EXPECT_EQ(isolation.Text("pid"), namespaces ? "namespace" : "subreaper");
  EXPECT_EQ(isolation.Text("network"), namespaces ? "none" : "refused");
  EXPECT_TRUE(isolation.Flag("seccomp"));
  EXPECT_THAT(isolation.Text("filesystem"), AnyOf("private", "landlock"));
}

}  // namespace
}  // namespace kernel_evolve::testing
