/* Finding and ending a tree of processes through /proc. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

enum { kMaxProcesses = 65536 };

/* Reads parent, state and number of threads; 0 when the process has gone. */
static int read_process(const char* name, pid_t* parent, char* state, long* threads) {
  char path[64];
  char text[1024];
  snprintf(path, sizeof path, "/proc/%.20s/stat", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char* after = strrchr(text, ')'); /* a process may put blanks and brackets in its name */
  if (after == NULL) return 0;
  return sscanf(after + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
                state, parent, threads) == 3;
}

/* Fills `list` with the processes that /proc shows; adds up their threads. */
static size_t list_processes(struct ke_process* list, size_t capacity, size_t* tasks) {
  DIR* proc = opendir("/proc");
  if (proc == NULL) return 0;
  size_t count = 0;
  const struct dirent* entry = NULL;
  while (count < capacity && (entry = readdir(proc)) != NULL) {
    char state = 0;
    long threads = 0;
    pid_t parent = 0;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (!read_process(entry->d_name, &parent, &state, &threads)) continue;
    *tasks += (size_t)threads;
    list[count].pid = (pid_t)strtol(entry->d_name, NULL, 10);
    list[count].dead = state == 'Z' || state == 'X';
    list[count++].parent = parent;
  }
  closedir(proc);
  return count;
}

size_t ke_count_tasks(void) {
  static struct ke_process list[kMaxProcesses];
  size_t tasks = 0;
  list_processes(list, kMaxProcesses, &tasks);
  return tasks;
}

static int is_spared(pid_t pid, const pid_t* spared, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (spared[i] == pid) return 1;
  }
  return 0;
}

size_t ke_descendants(const pid_t* spared, uint32_t spared_count, struct ke_process* out,
                      size_t capacity) {
  static struct ke_process list[kMaxProcesses];
  size_t tasks = 0;
  size_t count = list_processes(list, kMaxProcesses, &tasks);
  size_t found = 0;
  size_t next = 0;
  /* Breadth first: one's own children, then those of each one found. */
  for (pid_t parent = getpid();; parent = out[next++].pid) {
    for (size_t i = 0; i < count && found < capacity; ++i) {
      if (list[i].parent != parent || is_spared(list[i].pid, spared, spared_count)) continue;
      out[found++] = list[i];
    }
    if (next >= found) return found;
  }
}

int ke_jail_sweep(const pid_t* spared, uint32_t count, int rounds) {
  static struct ke_process found[kMaxProcesses];
  int left = 0;
  for (int round = 0; round < rounds; ++round) {
    size_t total = ke_descendants(spared, count, found, kMaxProcesses);
    left = 0;
    for (size_t i = 0; i < total; ++i) {
      if (found[i].dead) {
        waitpid(found[i].pid, NULL,
                WNOHANG); /* fails for another's child, whose parent dies next */
      } else {
        kill(found[i].pid, SIGKILL);
        ++left;
      }
    }
    if (left == 0) break;
    usleep(1000); /* the killed need a moment to go */
  }
  return left;
}
