#include "core/plugin/library_image.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace kernel_evolve {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

// A read-only file; every read says whether it got all it asked for.
class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat info = {};
    if (fd_ >= 0 && ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) {
      size_ = static_cast<uint64_t>(info.st_size);
      regular_ = true;
    }
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool regular() const { return regular_; }
  uint64_t size() const { return size_; }
  bool Holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }
  bool Read(uint64_t offset, void* out, uint64_t bytes) const {
    auto* to = static_cast<char*>(out);
    while (bytes > 0) {
      const ssize_t got = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
      if (got <= 0) return false;
      to += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
    return true;
  }
  template <typename T>
  bool ReadTable(uint64_t offset, uint64_t count, std::vector<T>* out) const {
    if (count > size_ / sizeof(T) || !Holds(offset, count * sizeof(T))) return false;
    out->resize(count);
    return Read(offset, out->data(), count * sizeof(T));
  }

 private:
  int fd_;
  uint64_t size_ = 0;
  bool regular_ = false;
};

std::string Hex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    out.push_back(kDigits[bytes[i] >> 4U]);
    out.push_back(kDigits[bytes[i] & 15U]);
  }
  return out;
}

// The build id of one note segment; empty when it has none.
std::string BuildId(const File& file, const Elf64_Phdr& notes) {
  std::vector<unsigned char> bytes;
  if (!file.ReadTable(notes.p_offset, notes.p_filesz, &bytes)) return {};
  size_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, &bytes[at], sizeof note);
    const uint64_t align = notes.p_align == 8 ? 8 : 4;
    const uint64_t padded = (note.n_namesz + align - 1) / align * align;
    const uint64_t body = at + sizeof note + padded;
    const uint64_t end = body + (note.n_descsz + align - 1) / align * align;
    if (body + note.n_descsz > bytes.size()) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(&bytes[at + sizeof note], "GNU", 4) == 0) {
      return Hex(&bytes[body], note.n_descsz);
    }
    if (end >= bytes.size()) return {};
    at = end;
  }
  return {};
}

std::string ContentHash(const File& file) {
  uint64_t hash = 14695981039346656037U;
  std::vector<unsigned char> block(65536);
  for (uint64_t at = 0; at < file.size(); at += block.size()) {
    const uint64_t bytes = std::min<uint64_t>(block.size(), file.size() - at);
    if (!file.Read(at, block.data(), bytes)) break;
    for (uint64_t i = 0; i < bytes; ++i) hash = (hash ^ block[i]) * 1099511628211U;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void ReadSymbols(const File& file, const std::vector<Elf64_Shdr>& sections, LibraryImage* image) {
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    std::vector<Elf64_Sym> symbols;
    std::vector<char> names;
    const Elf64_Shdr& strings = sections[section.sh_link];
    if (!file.ReadTable(section.sh_offset, section.sh_size / sizeof(Elf64_Sym), &symbols) ||
        !file.ReadTable(strings.sh_offset, strings.sh_size, &names)) {
      continue;
    }
    names.push_back('\0');
    for (const Elf64_Sym& symbol : symbols) {
      const unsigned binding = ELF64_ST_BIND(symbol.st_info);
      const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || binding == STB_LOCAL ||
          visibility == STV_HIDDEN || symbol.st_name >= names.size()) {
        continue;
      }
      (binding == STB_GNU_UNIQUE ? image->unique : image->exports)
          .emplace_back(&names[symbol.st_name]);
    }
  }
}

}  // namespace

LibraryImage LibraryImage::Read(const std::filesystem::path& path) {
  LibraryImage image;
  const auto refuse = [&image](const char* why) {
    image.refusal = why;
    return image;
  };
  const File file(path.string());
  if (!file.regular())
    return refuse("is not a file that can be read; check its path and permissions");
  Elf64_Ehdr header;
  if (!file.Holds(0, SELFMAG) || !file.Read(0, header.e_ident, SELFMAG) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return refuse("is not a shared library; build it with kernel_evolve_add_plugin or remove it");
  }
  if (!file.Holds(0, sizeof header) || !file.Read(0, &header, sizeof header)) {
    return refuse("is cut short; copy or build it again");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return refuse("is built for another kind of machine; build it on this one");
  }
  if (header.e_type != ET_DYN)
    return refuse("is not a shared library; build it with kernel_evolve_add_plugin or remove it");
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
  if (!file.ReadTable(header.e_phoff, header.e_phnum, &segments) ||
      !file.ReadTable(header.e_shoff, header.e_shnum, &sections)) {
    return refuse("is cut short; copy or build it again");
  }
  std::string build_id;
  for (const Elf64_Phdr& segment : segments) {
    if (!file.Holds(segment.p_offset, segment.p_filesz))
      return refuse("is cut short; copy or build it again");
    if (segment.p_type == PT_NOTE && build_id.empty()) build_id = BuildId(file, segment);
  }
  image.hash = build_id.empty() ? "fnv1a:" + ContentHash(file) : "build-id:" + build_id;
  ReadSymbols(file, sections, &image);
  return image;
}

}  // namespace kernel_evolve
