/* Shared by the jail's own files. Functions return 0 or a negative errno and set *stage to what
 * they were doing. They run between fork and the child's first Python instruction: no allocation
 * that could meet a lock, no output. */
#ifndef KE_JAIL_INTERNAL_H
#define KE_JAIL_INTERNAL_H

#include <stddef.h>

#include "jail.h"

/* mounts.c: called by the first process of a fresh mount namespace. */
int ke_build_mounts(const struct ke_jail_spec* spec, unsigned* flags, const char** stage);

/* confine.c: limits, privileges and system calls of the child. */
int ke_map_user(unsigned uid, unsigned gid, const char** stage);
int ke_set_limits(const struct ke_jail_spec* spec, const char** stage);
int ke_drop_privileges(const char** stage);

/* seccomp.c: `namespaces` 0 adds what namespaces would have done: no sockets, no signals to others.
 */
int ke_filter_system_calls(int namespaces, int gpu);

/* landlock.c */
int ke_restrict_files(const struct ke_jail_spec* spec);

struct ke_process {
  pid_t pid, parent;
  int dead; /* ended and not yet waited for */
};

/* tree.c: the descendants of the caller, at most `capacity`, without the spared ones and theirs;
 * returns how many there are. */
size_t ke_descendants(const pid_t* spared, uint32_t spared_count, struct ke_process* out,
                      size_t capacity);
/* Processes and threads that /proc shows, for a /proc of one's own namespace. */
size_t ke_count_tasks(void);

#endif /* KE_JAIL_INTERNAL_H */
