#include "box.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <kernel_evolve/plugin.hpp>
#include <sstream>
#include <system_error>
#include <vector>

namespace provider_mailbox {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxAnswerBytes = uintmax_t{8} << 20U;
constexpr char kRequest[] = ".request.json";

[[noreturn]] void Unusable(const fs::path& path, const std::string& what) {
  throw kernel_evolve::sdk::PluginError(
      "unavailable", "the mailbox can't " + what + " " + path.string() +
                         "; give a folder that can be written to as folder in the profile");
}

std::string ReadWhole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// "0012" of "0012.request.json", else "".
std::string NumberOf(const fs::path& file) {
  const std::string name = file.filename().string();
  const size_t digits = name.find_first_not_of("0123456789");
  return digits == std::string::npos || digits == 0 || name[digits] != '.' ? ""
                                                                           : name.substr(0, digits);
}

// The numbers of the folder's requests, in order.
std::vector<std::string> NumbersIn(const fs::path& folder) {
  std::vector<std::string> numbers;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string number = NumberOf(it->path());
    if (!number.empty() && it->path().filename() == number + kRequest) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

int64_t Largest(const fs::path& folder) {
  int64_t largest = 0;
  for (const std::string& number : NumbersIn(folder)) {
    if (number.size() <= 9) largest = std::max<int64_t>(largest, std::stoll(number));
  }
  return largest;
}

std::string Padded(int64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "%04lld", static_cast<long long>(number));
  return text;
}

}  // namespace

fs::path Box::File(const std::string& suffix) const { return folder_ / (number_ + suffix); }

bool Box::Reserve(const std::string& request) {
  std::error_code failed;
  fs::create_directories(folder_ / "done", failed);
  if (failed) Unusable(folder_, "make the folder");
  for (const std::string& number : NumbersIn(folder_)) {
    if (ReadWhole(folder_ / (number + kRequest)) != request) continue;
    number_ = number;
    return true;
  }
  return false;
}

void Box::Create(const std::string& request) {
  int64_t number = std::max(Largest(folder_), Largest(folder_ / "done"));
  for (int tries = 0; tries < 1000; ++tries) {
    number_ = Padded(++number);
    // "x": fails when another process was faster with this number.
    std::FILE* file = std::fopen(File(kRequest).c_str(), "wbx");
    if (file == nullptr) {
      if (fs::exists(File(kRequest))) continue;
      break;
    }
    const bool written = std::fwrite(request.data(), 1, request.size(), file) == request.size();
    if (std::fclose(file) == 0 && written) return;
    break;
  }
  Unusable(File(kRequest), "write");
}

void Box::WriteWhole(const fs::path& file, const std::string& text) const {
  const fs::path temporary = file.string() + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out) fs::rename(temporary, file, failed);
  if (!out || failed) Unusable(file, "write");
}

std::optional<Found> Box::Look() const {
  for (const char* extension : {".json", ".py"}) {
    const fs::path file = File(std::string(".answer") + extension);
    std::error_code failed;
    const uintmax_t size = fs::file_size(file, failed);
    if (failed || size == 0 || size > kMaxAnswerBytes) continue;
    Found found{extension, ReadWhole(file)};
    if (!found.text.empty()) return found;
  }
  return std::nullopt;
}

void Box::Refuse(const Found& found, const std::string& problem) {
  const std::string name = number_ + ".answer" + found.extension;
  std::error_code failed;
  fs::path bad;
  do {
    bad = File(".answer.bad-" + std::to_string(++refused_) + found.extension);
  } while (fs::exists(bad, failed));
  fs::rename(folder_ / name, bad, failed);
  if (failed) Unusable(folder_ / name, "rename");
  WriteWhole(File(".problem.txt"), name + ": " + problem + ". It is now called " +
                                       bad.filename().string() + "; write another " + name + ".\n");
}

bool Box::IsOpen() const {
  std::error_code failed;
  return fs::exists(File(kRequest), failed);
}

void Box::Settle() {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (NumberOf(it->path()) == number_) files.push_back(it->path());
  }
  for (const fs::path& file : files) fs::rename(file, folder_ / "done" / file.filename(), failed);
  if (failed) Unusable(folder_ / "done", "move files to");
}

}  // namespace provider_mailbox
