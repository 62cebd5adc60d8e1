/* The child's view of the file system: the machine's root read-only, private places on top. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* Newer than the headers of the oldest system this is built on. */
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define KE_OPEN_TREE_CLONE 1
#define KE_AT_RECURSIVE 0x8000
#define KE_MOVE_FROM_EMPTY_PATH 0x4
#define KE_MOVE_TO_SYMLINKS 0x10
#define KE_ATTR_RDONLY 0x1
#define KE_ATTR_NOSUID 0x2

struct ke_mount_attr {
  uint64_t attr_set, attr_clr, propagation, userns_fd;
};

enum { kMaxBinds = 256, kMaxDevices = 64 };

static int clone_tree(const char* path) {
  int flags = KE_OPEN_TREE_CLONE | O_CLOEXEC | KE_AT_RECURSIVE;
  return (int)syscall(SYS_open_tree, AT_FDCWD, path, flags);
}

static int attach(int tree, const char* path) {
  return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path,
                      KE_MOVE_FROM_EMPTY_PATH | KE_MOVE_TO_SYMLINKS);
}

static int set_attributes(int dir, const char* path, unsigned flags, uint64_t set) {
  struct ke_mount_attr attr = {.attr_set = set};
  return (int)syscall(SYS_mount_setattr, dir, path, flags, &attr, sizeof attr);
}

static int mount_tmpfs(const char* path, uint64_t bytes, const char* mode, unsigned long flags) {
  char options[96];
  snprintf(options, sizeof options, "size=%llu,nr_inodes=65536,mode=%s", (unsigned long long)bytes,
           mode);
  return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | flags, options);
}

/* Makes the folders above `path`, and `path` itself as a folder or an empty file. What exists
 * stays: the error of a step shows when the mount is attached. */
static void make_target(const char* path, int is_folder) {
  char part[4096];
  size_t length = strlen(path);
  if (length >= sizeof part) return;
  memcpy(part, path, length + 1);
  for (size_t i = 1; i < length; ++i) {
    if (part[i] != '/') continue;
    part[i] = '\0';
    mkdir(part, 0755);
    part[i] = '/';
  }
  if (is_folder) {
    mkdir(part, 0755);
  } else {
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
  }
}

static int is_folder(const char* path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int exists(const char* path) {
  struct stat info;
  return stat(path, &info) == 0;
}

/* /dev becomes a small folder of the nodes that a computation needs: as root, a disk's node would
 * otherwise be the child's own file. */
static int build_dev(const struct ke_jail_spec* spec, const char** stage) {
  int trees[kMaxDevices];
  int folders[kMaxDevices]; /* as /dev/nvidia-caps is */
  size_t count = 0;
  while (spec->devices[count] != NULL && count < kMaxDevices) {
    folders[count] = is_folder(spec->devices[count]);
    trees[count] = clone_tree(spec->devices[count]); /* one that is missing stays missing */
    ++count;
  }
  *stage = "replacing /dev";
  if (mount_tmpfs("/dev", 1 << 20, "755", MS_NOEXEC) != 0) return -errno;
  for (size_t i = 0; i < count; ++i) {
    if (trees[i] < 0) continue;
    make_target(spec->devices[i], folders[i]);
    if (attach(trees[i], spec->devices[i]) != 0) return -errno;
    close(trees[i]);
  }
  if (symlink("/proc/self/fd", "/dev/fd") != 0 || symlink("/proc/self/fd/0", "/dev/stdin") != 0 ||
      symlink("/proc/self/fd/1", "/dev/stdout") != 0 ||
      symlink("/proc/self/fd/2", "/dev/stderr") != 0 || mkdir("/dev/shm", 01777) != 0) {
    return -errno;
  }
  if (set_attributes(AT_FDCWD, "/dev", 0, KE_ATTR_RDONLY) != 0) return -errno;
  *stage = "mounting a private /dev/shm";
  return mount_tmpfs("/dev/shm", spec->tmp_bytes, "1777", 0) == 0 ? 0 : -errno;
}

/* Clones what must stay visible before anything covers or locks it. */
static int clone_binds(const struct ke_jail_spec* spec, int* trees, char* folders,
                       const char** stage) {
  *stage = "opening a folder of the call";
  if (spec->bind_count > kMaxBinds) return -E2BIG;
  for (uint32_t i = 0; i < spec->bind_count; ++i) {
    folders[i] = (char)is_folder(spec->binds[i].path);
    trees[i] = clone_tree(spec->binds[i].path);
    if (trees[i] < 0 && !spec->binds[i].optional) return -errno;
  }
  return 0;
}

static int hide(const struct ke_jail_spec* spec, const char** stage) {
  *stage = "hiding a private folder";
  for (const char* const* path = spec->hidden; *path != NULL; ++path) {
    if (!exists(*path)) continue;
    if (!is_folder(*path)) {
      if (mount("/dev/null", *path, NULL, MS_BIND, NULL) != 0) return -errno;
      continue;
    }
    int shared = strcmp(*path, "/tmp") == 0 || strcmp(*path, "/var/tmp") == 0;
    uint64_t bytes = shared ? spec->tmp_bytes : 1 << 20;
    if (mount_tmpfs(*path, bytes, shared ? "1777" : "755", 0) != 0) return -errno;
  }
  return 0;
}

static int attach_binds(const struct ke_jail_spec* spec, const int* trees, const char* folders,
                        const char** stage) {
  *stage = "showing a folder of the call";
  for (uint32_t i = 0; i < spec->bind_count; ++i) {
    if (trees[i] < 0) continue;
    make_target(spec->binds[i].path, folders[i]);
    if (!spec->binds[i].writable && set_attributes(trees[i], "", AT_EMPTY_PATH | KE_AT_RECURSIVE,
                                                   KE_ATTR_RDONLY | KE_ATTR_NOSUID) != 0) {
      return -errno;
    }
    if (spec->binds[i].writable &&
        set_attributes(trees[i], "", AT_EMPTY_PATH | KE_AT_RECURSIVE, KE_ATTR_NOSUID) != 0) {
      return -errno;
    }
    if (attach(trees[i], spec->binds[i].path) != 0) return -errno;
    close(trees[i]);
  }
  for (const char* const* path = spec->hidden; *path != NULL; ++path) {
    if (strcmp(*path, "/tmp") == 0 || strcmp(*path, "/var/tmp") == 0 || !is_folder(*path)) continue;
    if (set_attributes(AT_FDCWD, *path, 0, KE_ATTR_RDONLY) != 0) return -errno;
  }
  return 0;
}

/* NVIDIA's driver gives its threads names, which are files of /proc. What of /proc governs the
 * machine stays read-only. */
static int open_proc(const char** stage) {
  static const char* const kLevers[] = {
      "/proc/sys", "/proc/sysrq-trigger", "/proc/irq",  "/proc/bus",
      "/proc/fs",  "/proc/acpi",          "/proc/scsi", "/proc/driver"};
  *stage = "opening /proc for the GPU's driver";
  for (size_t i = 0; i < sizeof kLevers / sizeof *kLevers; ++i) {
    if (!exists(kLevers[i])) continue;
    if (mount(kLevers[i], kLevers[i], NULL, MS_BIND | MS_REC, NULL) != 0) return -errno;
    if (set_attributes(AT_FDCWD, kLevers[i], KE_AT_RECURSIVE, KE_ATTR_RDONLY | KE_ATTR_NOSUID) !=
        0) {
      return -errno;
    }
  }
  unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  return mount(NULL, "/proc", NULL, flags, NULL) == 0 ? 0 : -errno;
}

int ke_build_mounts(const struct ke_jail_spec* spec, unsigned* flags, const char** stage) {
  int trees[kMaxBinds];
  char folders[kMaxBinds];

  *stage = "making the mounts private";
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -errno;
  int failure = clone_binds(spec, trees, folders, stage);
  if (failure != 0) return failure;

  /* Read-only, because root owns /proc/sys even without capabilities. A container that masks parts
   * of /proc forbids a new one; then the old one stays, made read-only with the rest. */
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0) {
    *flags |= KE_JAIL_PROC;
  }
  *stage = "making the root read-only";
  if (set_attributes(AT_FDCWD, "/", KE_AT_RECURSIVE, KE_ATTR_RDONLY | KE_ATTR_NOSUID) != 0) {
    return -errno;
  }
  if (spec->gpu && (*flags & KE_JAIL_PROC) != 0) failure = open_proc(stage);
  if (failure == 0) failure = build_dev(spec, stage);
  if (failure == 0) failure = hide(spec, stage);
  if (failure == 0) failure = attach_binds(spec, trees, folders, stage);
  if (failure != 0) return failure;
  *flags |= KE_JAIL_MOUNTS;
  *stage = "entering the call's folder";
  return chdir(spec->work_dir) == 0 ? 0 : -errno;
}
