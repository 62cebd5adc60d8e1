/* Spawning, and the reaper. */
#define _GNU_SOURCE
#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum {
  kMaxKept = 16,
  kWatchMs = 200,      /* how often the reaper counts processes */
  kSweepRounds = 3000, /* of about 1 ms each */
};

static void tell(const struct ke_jail_spec* spec, struct ke_jail_message message) {
  ssize_t ignored = write(spec->status_fd, &message, sizeof message);
  (void)ignored; /* nobody listens any more: the control pipe says so too */
}

static _Noreturn void fail(const struct ke_jail_spec* spec, int failure, const char* stage) {
  struct ke_jail_message message = {.kind = KE_JAIL_FAILED, .code = -failure};
  strncpy(message.stage, stage, sizeof message.stage - 1);
  tell(spec, message);
  _exit(1);
}

static void close_range_of(unsigned first, unsigned last) {
  if (first > last) return;
  if (syscall(436 /* close_range */, first, last, 0) == 0) return;
  long open_max = sysconf(_SC_OPEN_MAX);
  unsigned end = open_max > 0 && open_max < 65536 ? (unsigned)open_max : 65536;
  for (unsigned fd = first; fd <= last && fd < end; ++fd) close((int)fd);
}

/* Closes every descriptor but `keep`, which gets sorted. */
static void close_others(int* keep, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    for (size_t k = i; k > 0 && keep[k - 1] > keep[k]; --k) {
      int swap = keep[k];
      keep[k] = keep[k - 1];
      keep[k - 1] = swap;
    }
  }
  unsigned next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (keep[i] > 0) close_range_of(next, (unsigned)keep[i] - 1);
    next = (unsigned)keep[i] + 1;
  }
  close_range_of(next, ~0u);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reaps what has ended. 1 when the child is among it. */
static int reap_ended(pid_t child, struct ke_jail_message* message) {
  int found = 0;
  for (;;) {
    int status = 0;
    struct rusage usage;
    pid_t pid = wait4(-1, &status, WNOHANG, &usage);
    if (pid <= 0) return found;
    if (usage.ru_maxrss > message->peak_kb) message->peak_kb = usage.ru_maxrss;
    if (pid != child) continue;
    message->code = status;
    found = 1;
  }
}

static int too_many(const struct ke_jail_spec* spec, unsigned flags) {
  static struct ke_process found[8192];
  if (spec->max_processes == 0) return 0;
  if (!spec->namespaces) return ke_descendants(NULL, 0, found, 8192) > spec->max_processes;
  /* Without a /proc of its own the reaper cannot see the namespace; the deadline remains. */
  return (flags & KE_JAIL_PROC) != 0 && ke_count_tasks() > (size_t)spec->max_processes + 1;
}

static void end_tree(const struct ke_jail_spec* spec) {
  if (!spec->namespaces) {
    ke_jail_sweep(NULL, 0, kSweepRounds);
    return;
  }
  kill(-1, SIGKILL); /* everything in the namespace but its first process, which is this one */
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
  }
}

/* The reaper's life. Its memory is a copy of the zygote's, of which it uses nothing. */
static _Noreturn void reap(const struct ke_jail_spec* spec, pid_t child, unsigned flags) {
  const char* stage = "";
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  sigaddset(&wanted, SIGTERM);
  int signals = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  int keep[] = {STDERR_FILENO, spec->status_fd, spec->control_fd, signals};
  close_others(keep, sizeof keep / sizeof *keep);
  ke_drop_privileges(&stage);
  /* Dropping privileges forgets it. The namespace's first process can be killed from outside only;
   * without namespaces the order must be catchable, for the tree is to be ended first. */
  prctl(PR_SET_PDEATHSIG, spec->namespaces ? SIGKILL : SIGTERM);

  struct ke_jail_message message = {.kind = KE_JAIL_EXITED, .code = SIGKILL};
  int64_t next_watch = now_ms() + kWatchMs;
  for (;;) {
    struct pollfd polled[] = {{signals, POLLIN, 0}, {spec->control_fd, POLLIN, 0}};
    int64_t wait_ms = next_watch - now_ms();
    poll(polled, 2, wait_ms > 0 ? (int)wait_ms : 0);
    struct signalfd_siginfo info;
    int terminated = 0;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
      terminated |= info.ssi_signo == SIGTERM;
    }
    if (reap_ended(child, &message)) break;
    if (polled[1].revents != 0 || terminated) {
      message.flags = KE_JAIL_ASKED;
      break;
    }
    if (now_ms() < next_watch) continue;
    next_watch = now_ms() + kWatchMs;
    if (too_many(spec, flags)) {
      message.flags = KE_JAIL_PROCESSES;
      break;
    }
  }
  end_tree(spec);
  tell(spec, message);
  _exit(0);
}

/* The child's last steps before it returns to the interpreter. */
static void become_child(const struct ke_jail_spec* spec, unsigned flags) {
  const char* stage = "arranging descriptors";
  setsid();
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(spec->output_fd, STDOUT_FILENO) < 0 ||
      dup2(spec->output_fd, STDERR_FILENO) < 0) {
    fail(spec, -errno, stage);
  }
  int keep[kMaxKept + 4] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, spec->status_fd};
  for (uint32_t i = 0; i < spec->keep_count; ++i) keep[4 + i] = spec->keep_fds[i];
  close_others(keep, 4 + spec->keep_count);
  if (spec->after_fork_child != NULL) spec->after_fork_child();

  prctl(PR_SET_DUMPABLE, 1); /* its /proc/self is its own again */
  int failure = ke_set_limits(spec, &stage);
  if (failure == 0) failure = ke_drop_privileges(&stage);
  if (failure != 0) fail(spec, failure, stage);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_DUMPABLE, 1); /* which dropping privileges took back */
  if (!spec->namespaces) {
    if (chdir(spec->work_dir) != 0) fail(spec, -errno, "entering the call's folder");
    if (ke_restrict_files(spec) == 0) flags |= KE_JAIL_LANDLOCK;
  }
  if (ke_filter_system_calls(spec->namespaces != 0, spec->gpu != 0) == 0) flags |= KE_JAIL_SECCOMP;
  struct ke_jail_message message = {.kind = KE_JAIL_READY, .flags = flags};
  tell(spec, message);
  close(spec->status_fd);
}

/* In the new process: builds the walls, forks, and returns only in the child. */
static void start(const struct ke_jail_spec* spec, unsigned flags, unsigned uid, unsigned gid) {
  const char* stage = "";
  int failure = 0;
  prctl(PR_SET_PDEATHSIG, spec->namespaces ? SIGKILL : SIGTERM);
  prctl(PR_SET_DUMPABLE, 1); /* else the kernel gives /proc/self/uid_map to root */
  setsid();
  if (spec->namespaces) {
    if ((flags & KE_JAIL_USER_NAMESPACE) != 0) failure = ke_map_user(uid, gid, &stage);
    if (failure == 0) failure = ke_build_mounts(spec, &flags, &stage);
    if (failure == 0 && sethostname("jail", 4) != 0) failure = -errno;
  } else if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    failure = -errno;
  }
  prctl(PR_SET_DUMPABLE, 0); /* the child shall not look into this process */
  if (failure != 0) fail(spec, failure, stage);

  pid_t child = fork();
  if (child < 0) fail(spec, -errno, "forking");
  if (child > 0) reap(spec, child, flags);
  become_child(spec, flags);
}

static pid_t clone_process(unsigned long flags) {
  return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

/* clone rather than fork and unshare: the new process is the first of its namespace at once, which
 * saves a third process. libc's own fork handlers run in the second step. */
static pid_t clone_reaper(int namespaces, unsigned* flags) {
  if (!namespaces) return clone_process(0);
  const unsigned long wanted =
      CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  *flags = KE_JAIL_PID_NAMESPACE | KE_JAIL_NETWORK;
  pid_t pid = clone_process(wanted); /* what root may do, also where user namespaces are off */
  if (pid >= 0 || errno != EPERM) return pid;
  *flags |= KE_JAIL_USER_NAMESPACE;
  return clone_process(wanted | CLONE_NEWUSER);
}

pid_t ke_jail_spawn(const struct ke_jail_spec* spec) {
  if (spec->version != KE_JAIL_VERSION || spec->keep_count > kMaxKept) return -EINVAL;
  unsigned uid = geteuid();
  unsigned gid = getegid();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before); /* no handler of the interpreter may run in the reaper */
  if (spec->before_fork != NULL) spec->before_fork();
  unsigned flags = 0;
  pid_t pid = clone_reaper(spec->namespaces != 0, &flags);
  int failure = pid < 0 ? -errno : 0;
  if (pid == 0) {
    start(spec, flags, uid, gid);
  } else if (spec->after_fork_parent != NULL) {
    spec->after_fork_parent();
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  return failure != 0 ? failure : pid;
}

uint32_t ke_jail_spec_size(void) { return sizeof(struct ke_jail_spec); }

uint32_t ke_jail_message_size(void) { return sizeof(struct ke_jail_message); }
