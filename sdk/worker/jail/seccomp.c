/* The child's system call filter. A call that is refused returns EPERM, so that a library which
 * only probes goes on; clone3 returns ENOSYS, because its flags lie in memory where a filter cannot
 * look, and libc then uses clone. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#define KE_X32_BIT 0x40000000u
#define KE_NEW_NAMESPACES                                                                       \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
   CLONE_NEWNET | 0x80u /* CLONE_NEWTIME */)

/* Refused whatever their arguments. Numbers instead of names where a name is younger than the
 * headers of the oldest system this is built on. */
static const int kRefused[] = {
    /* other processes */
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, 438 /* pidfd_getfd */,
    440 /* process_madvise */, 448 /* process_mrelease */, SYS_migrate_pages, SYS_move_pages,
    /* the view of the file system */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, 428 /* open_tree */, 429 /* move_mount */,
    430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */, 433 /* fspick */,
    442 /* mount_setattr */, 467 /* open_tree_attr */, SYS_open_by_handle_at, SYS_name_to_handle_at,
    SYS_fanotify_init, SYS_quotactl, 443 /* quotactl_fd */, SYS_swapon, SYS_swapoff,
    /* namespaces */
    SYS_unshare, SYS_setns, SYS_sethostname, SYS_setdomainname,
    /* the kernel's larger surfaces */
    SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_add_key, SYS_request_key,
    425 /* io_uring_setup */, 426 /* io_uring_enter */, 427 /* io_uring_register */,
    SYS_userfaultfd, SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module,
    SYS_delete_module, SYS_reboot, SYS_acct, SYS_syslog, SYS_iopl, SYS_ioperm, SYS_modify_ldt,
    SYS_lookup_dcookie, SYS_vhangup, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime,
    SYS_adjtimex};

/* What an ipc, a pid and a network namespace would have kept inside. */
static const int kRefusedOutsideNamespaces[] = {SYS_socket,
                                                SYS_connect,
                                                SYS_rt_sigqueueinfo,
                                                SYS_rt_tgsigqueueinfo,
                                                424 /* pidfd_send_signal */,
                                                SYS_tkill,
                                                SYS_shmget,
                                                SYS_semget,
                                                SYS_msgget,
                                                SYS_mq_open};

enum { kCapacity = 256, kData = 1, kRefuse = 2 };

struct program {
  struct sock_filter code[kCapacity];
  unsigned short length;
};

static void add(struct program* program, unsigned short code, uint8_t jt, uint8_t jf, uint32_t k) {
  if (program->length >= kCapacity) return;
  program->code[program->length++] = (struct sock_filter){code, jt, jf, k};
}

static void load(struct program* program, size_t offset) {
  add(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void give(struct program* program, uint32_t verdict) {
  add(program, BPF_RET | BPF_K, 0, 0, verdict);
}

static uint32_t error(int number) { return SECCOMP_RET_ERRNO | (uint32_t)number; }

/* if (nr == number) return `verdict`; the number is in the accumulator. */
static void refuse(struct program* program, int number) {
  add(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)number);
  give(program, error(EPERM));
}

static size_t low_word(int argument) {
  return offsetof(struct seccomp_data, args) + sizeof(uint64_t) * (size_t)argument;
}

/* if (nr == number) return arg == a || arg == b ? allow : EPERM */
static void allow_only(struct program* program, int number, int argument, uint32_t a, uint32_t b) {
  add(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, (uint32_t)number);
  load(program, low_word(argument));
  add(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, a);
  add(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, b);
  give(program, SECCOMP_RET_ALLOW);
  give(program, error(EPERM));
}

int ke_filter_system_calls(int namespaces, int gpu) {
  struct program program = {.length = 0};

  load(&program, offsetof(struct seccomp_data, arch));
  add(&program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
  give(&program, error(EPERM)); /* 32-bit calls have other numbers */
  load(&program, offsetof(struct seccomp_data, nr));
  add(&program, BPF_JMP | BPF_JGE | BPF_K, 0, 1, KE_X32_BIT);
  give(&program, error(EPERM));

  for (size_t i = 0; i < sizeof kRefused / sizeof *kRefused; ++i) refuse(&program, kRefused[i]);
  if (!namespaces) {
    for (size_t i = 0; i < sizeof kRefusedOutsideNamespaces / sizeof(int); ++i) {
      int number = kRefusedOutsideNamespaces[i];
      if (gpu && (number == SYS_socket || number == SYS_connect)) continue; /* see below */
      refuse(&program, number);
    }
    uint32_t self = (uint32_t)getpid();
    allow_only(&program, SYS_kill, 0, self, 0); /* 0: its own process group */
    allow_only(&program, SYS_tgkill, 0, self, self);
    allow_only(&program, SYS_prlimit64, 0, self, 0);
  }
  add(&program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_clone3);
  give(&program, error(ENOSYS));
  allow_only(&program, SYS_socket, 0, AF_UNIX, AF_UNIX);
  allow_only(&program, SYS_socketpair, 0, AF_UNIX, AF_UNIX);
  /* Typing into the terminal that the host runs in. */
  add(&program, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_ioctl);
  load(&program, low_word(1));
  add(&program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, TIOCSTI);
  give(&program, error(EPERM));
  give(&program, SECCOMP_RET_ALLOW);
  add(&program, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_clone);
  load(&program, low_word(0));
  add(&program, BPF_JMP | BPF_JSET | BPF_K, 0, 1, KE_NEW_NAMESPACES);
  give(&program, error(EPERM));
  give(&program, SECCOMP_RET_ALLOW);

  if (program.length >= kCapacity) return -E2BIG;
  struct sock_fprog filter = {program.length, program.code};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) return -errno;
  return 0;
}
