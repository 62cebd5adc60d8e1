/* The jail: starts one child of the zygote behind walls. C11, Linux x86-64, no library but libc.
 *
 * Two processes per child:
 *
 *   zygote --clone--> reaper --fork--> child
 *
 * The reaper is the first process of a new pid namespace (or, without namespaces, a "child
 * subreaper"): every process the child leaves behind becomes its own, so it can end the whole tree,
 * also those who called setsid or forked twice. It runs no Python, holds no pipe of the child, and
 * ends when the zygote does.
 *
 * Not thread-safe: the caller has one thread (a fork copies only the one that calls it).
 */
#ifndef KE_JAIL_H
#define KE_JAIL_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KE_JAIL_EXPORT __attribute__((visibility("default")))
#define KE_JAIL_VERSION 2

/* What the child got, in `flags` of the ready message. */
enum ke_jail_flag {
  KE_JAIL_PID_NAMESPACE = 1,
  KE_JAIL_USER_NAMESPACE = 2,
  KE_JAIL_MOUNTS = 4,  /* read-only root, private /tmp, hidden places empty */
  KE_JAIL_NETWORK = 8, /* a network namespace whose loopback is down */
  KE_JAIL_PROC = 16,   /* /proc shows the namespace's processes only */
  KE_JAIL_SECCOMP = 32,
  KE_JAIL_LANDLOCK = 64, /* the file system rules, where there is no mount namespace */
};

enum ke_jail_message_kind {
  KE_JAIL_READY = 1,  /* the child is about to run; `flags` */
  KE_JAIL_FAILED = 2, /* the walls could not be built; `stage` and `code` (an errno) */
  KE_JAIL_EXITED = 3, /* the tree is gone; `code` is the child's wait status */
};

/* Why the reaper ended the tree, in `flags` of the exited message. */
enum ke_jail_reason {
  KE_JAIL_BY_ITSELF = 0, /* the child ended */
  KE_JAIL_ASKED = 1,     /* the control pipe closed */
  KE_JAIL_PROCESSES = 2, /* more processes than allowed */
};

/* Fixed size, so that one write to a pipe is whole. Written to spec.status_fd. */
struct ke_jail_message {
  uint32_t kind;
  int32_t code;
  uint32_t flags;
  uint32_t reserved;
  int64_t peak_kb; /* of the child and its descendants that were waited for: the largest, KiB */
  char stage[40];  /* what was being done when it failed */
};

struct ke_jail_bind {
  const char* path; /* absolute; a folder or a file */
  int32_t writable;
  int32_t optional; /* left out without an error when it does not exist */
};

/* Everything is read before the call returns; the caller keeps what it owns. Descriptors that are
 * not named here are closed in both processes. */
struct ke_jail_spec {
  uint32_t version;       /* KE_JAIL_VERSION */
  uint32_t namespaces;    /* 1: namespaces or failure; 0: without */
  uint64_t memory_bytes;  /* beyond what the zygote has mapped already; 0: no limit */
  uint64_t tmp_bytes;     /* size of each private tmpfs */
  uint64_t file_bytes;    /* largest file */
  uint32_t max_processes; /* processes and threads of the tree that are alive at once */
  uint32_t max_open_files;
  int32_t status_fd;  /* write end, for the messages above */
  int32_t control_fd; /* read end: its end of file orders the reaper to end the tree */
  int32_t output_fd;  /* becomes the child's stdout and stderr; its stdin is /dev/null */
  uint32_t keep_count;
  uint32_t gpu; /* 1: what NVIDIA's driver needs: AF_UNIX sockets, names of its own threads */
  const int32_t* keep_fds;          /* more descriptors of the child */
  const char* const* hidden;        /* folders shown empty, files shown as /dev/null; NULL ends */
  const char* const* devices;       /* nodes of /dev that stay; NULL ends */
  const struct ke_jail_bind* binds; /* parents before children */
  uint32_t bind_count;
  uint32_t visible_count;
  const char* const* visible; /* without namespaces: what Landlock leaves readable */
  const char* work_dir;       /* the child's current folder */
  void (*before_fork)(void);  /* the interpreter's own fork hooks, each may be NULL */
  void (*after_fork_parent)(void);
  void (*after_fork_child)(void);
};

/* Starts a reaper and its child. Returns the reaper's pid in the caller, 0 in the child, and a
 * negative errno when nothing was started. The caller waits for the reaper's pid.
 * What fails after the start is told by a KE_JAIL_FAILED message. */
KE_JAIL_EXPORT pid_t ke_jail_spawn(const struct ke_jail_spec* spec);

/* sizeof(struct ke_jail_spec) and sizeof(struct ke_jail_message), to detect a mismatched caller. */
KE_JAIL_EXPORT uint32_t ke_jail_spec_size(void);
KE_JAIL_EXPORT uint32_t ke_jail_message_size(void);

/* Kills and reaps the descendants of the calling process, but those listed and theirs, for a caller
 * that is a child subreaper. Returns how many were found in the last of at most `rounds` passes
 * over /proc: 0 when all have gone. */
KE_JAIL_EXPORT int ke_jail_sweep(const pid_t* spared, uint32_t count, int rounds);

#ifdef __cplusplus
}
#endif

#endif /* KE_JAIL_H */
