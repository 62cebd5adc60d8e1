/* File rules for a child without a mount namespace: Landlock needs no privilege (Linux 5.13). It
 * also keeps the child from reading the memory and environment of processes outside its rules. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* Written out: the headers of the oldest system this is built on know less than its kernel may. */
enum {
  kCreateRuleset = 444,
  kAddRule = 445,
  kRestrictSelf = 446,
  kAskVersion = 1,
  kPathBeneath = 1,
};
#define KE_EXECUTE (1ull << 0)
#define KE_WRITE_FILE (1ull << 1)
#define KE_READ_FILE (1ull << 2)
#define KE_READ_DIR (1ull << 3)
#define KE_ALL_V1 ((1ull << 13) - 1)
#define KE_REFER (1ull << 13)    /* version 2 */
#define KE_TRUNCATE (1ull << 14) /* version 3 */
#define KE_NETWORK_TCP 3ull      /* version 4: bind and connect */
#define KE_SCOPED 3ull           /* version 6: abstract sockets and signals stay inside */

struct ke_ruleset {
  uint64_t files, network, scoped;
};

struct ke_path_rule {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

static int allow(int ruleset, const char* path, uint64_t allowed) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || errno == EACCES ? 0 : -errno;
  struct stat info;
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) {
    allowed &= KE_EXECUTE | KE_WRITE_FILE | KE_READ_FILE | KE_TRUNCATE;
  }
  struct ke_path_rule rule = {allowed, fd};
  long failure = syscall(kAddRule, ruleset, kPathBeneath, &rule, 0);
  int code = failure == 0 ? 0 : -errno;
  close(fd);
  return code;
}

int ke_restrict_files(const struct ke_jail_spec* spec) {
  long version = syscall(kCreateRuleset, NULL, (size_t)0, kAskVersion);
  if (version < 1) return -errno;
  struct ke_ruleset wanted = {.files = KE_ALL_V1};
  size_t size = sizeof wanted.files;
  if (version >= 2) wanted.files |= KE_REFER;
  if (version >= 3) wanted.files |= KE_TRUNCATE;
  if (version >= 4) {
    wanted.network = KE_NETWORK_TCP;
    size = offsetof(struct ke_ruleset, scoped);
  }
  if (version >= 6) {
    wanted.scoped = KE_SCOPED;
    size = sizeof wanted;
  }
  int ruleset = (int)syscall(kCreateRuleset, &wanted, size, 0);
  if (ruleset < 0) return -errno;

  const uint64_t read = KE_EXECUTE | KE_READ_FILE | KE_READ_DIR;
  int failure = 0;
  for (uint32_t i = 0; failure == 0 && i < spec->visible_count; ++i) {
    failure = allow(ruleset, spec->visible[i], read);
  }
  for (const char* const* node = spec->devices; failure == 0 && *node != NULL; ++node) {
    failure = allow(ruleset, *node, KE_READ_FILE | KE_WRITE_FILE);
  }
  for (uint32_t i = 0; failure == 0 && i < spec->bind_count; ++i) {
    const struct ke_jail_bind* bind = &spec->binds[i];
    failure = allow(ruleset, bind->path, bind->writable ? wanted.files : read);
  }
  /* The driver names its threads; which process that will be is not known here. */
  if (failure == 0 && spec->gpu)
    failure = allow(ruleset, "/proc", (read | KE_WRITE_FILE | KE_TRUNCATE) & wanted.files);
  if (failure == 0 && syscall(kRestrictSelf, ruleset, 0) != 0) failure = -errno;
  close(ruleset);
  return failure;
}
