/* User mapping, resource limits and privileges. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

static int write_text(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  ssize_t written = write(fd, text, strlen(text));
  int failure = written < 0 ? -errno : 0;
  close(fd);
  return failure;
}

int ke_map_user(unsigned uid, unsigned gid, const char** stage) {
  char line[64];
  *stage = "mapping the user";
  int failure = write_text("/proc/self/setgroups", "deny");
  if (failure != 0 && failure != -ENOENT) return failure;
  snprintf(line, sizeof line, "%u %u 1", uid, uid);
  failure = write_text("/proc/self/uid_map", line);
  if (failure != 0) return failure;
  snprintf(line, sizeof line, "%u %u 1", gid, gid);
  return write_text("/proc/self/gid_map", line);
}

static int limit(int resource, rlim_t value) {
  struct rlimit current;
  if (getrlimit(resource, &current) != 0) return -errno;
  if (current.rlim_max != RLIM_INFINITY && current.rlim_max < value) value = current.rlim_max;
  struct rlimit wanted = {value, value};
  return setrlimit(resource, &wanted) == 0 ? 0 : -errno;
}

/* Pages mapped by this process: all of them, and the private writable ones. */
static int mapped_pages(unsigned long* total, unsigned long* data) {
  char text[256];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return -EIO;
  text[length] = '\0';
  return sscanf(text, "%lu %*u %*u %*u %*u %lu", total, data) == 2 ? 0 : -EIO;
}

int ke_set_limits(const struct ke_jail_spec* spec, const char** stage) {
  *stage = "limiting memory";
  if (spec->memory_bytes != 0) {
    unsigned long total = 0;
    unsigned long data = 0;
    int failure = mapped_pages(&total, &data);
    if (failure != 0) return failure;
    rlim_t page = (rlim_t)sysconf(_SC_PAGESIZE);
    /* DATA is the limit proper. AS bounds shared mappings, which DATA leaves out; the extra GiB is
     * for address space that threads and the allocator reserve and never touch. */
    failure = limit(RLIMIT_DATA, data * page + spec->memory_bytes);
    if (failure == 0) {
      failure = limit(RLIMIT_AS, total * page + spec->memory_bytes + ((rlim_t)1 << 30));
    }
    if (failure != 0) return failure;
  }
  *stage = "setting limits";
  int failure = limit(RLIMIT_CORE, 0);
  if (failure == 0) failure = limit(RLIMIT_FSIZE, spec->file_bytes);
  if (failure == 0) failure = limit(RLIMIT_NOFILE, spec->max_open_files);
  /* Counts every process of the user, so it is only a distant bound; the reaper counts the tree. */
  if (failure == 0) failure = limit(RLIMIT_NPROC, 8192);
  /* When memory runs out, the kernel shall end this process and not the zygote. */
  write_text("/proc/self/oom_score_adj", "1000");
  return failure;
}

int ke_drop_privileges(const char** stage) {
  *stage = "dropping privileges";
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    prctl(PR_CAPBSET_DROP, cap, 0, 0,
          0); /* fails without CAP_SETPCAP: then there is none to drop */
  }
  /* Root shall not regain capabilities by an exec or a change of user. Needs CAP_SETPCAP too. */
  prctl(PR_SET_SECUREBITS,
        SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
            SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED,
        0, 0, 0);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  return syscall(SYS_capset, &header, none) == 0 ? 0 : -errno;
}
