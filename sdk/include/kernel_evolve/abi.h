/* The binary boundary between KernelEvolve and a plugin: C11, append-only, version 1.1.
 *
 * A plugin is one shared library that exports exactly one symbol, ke_plugin_query. Everything else
 * is reached through the tables that it returns. Only plain C crosses: no C++ type, no exception,
 * no memory that one side allocates and the other frees. Values cross as UTF-8 JSON in spans;
 * results are written through a sink that the host passes in. C++ authors want plugin.hpp beside
 * this file.
 *
 * Rules of growth: a field is only ever appended, and each table starts with its own size, so that
 * either side can tell what the other has. Reading a field past `struct_size` is an error. A new
 * major version is a new header.
 */
#ifndef KERNEL_EVOLVE_ABI_H_
#define KERNEL_EVOLVE_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KE_ABI_MAGIC 0x31564B45u /* "EKV1" in memory order */
#define KE_ABI_MAJOR 1u
#define KE_ABI_MINOR 1u /* 1.1: codecs */

/* UTF-8 bytes, not terminated. The caller owns them; they are valid during the call only. */
typedef struct ke_span {
  const char* data;
  size_t size;
} ke_span;

/* Where a callee writes its result: call `write` any number of times, the pieces are joined.
 * Owned by the caller, valid during the call only. */
typedef struct ke_sink {
  void* context;
  void (*write)(void* context, const char* data, size_t size);
} ke_sink;

typedef enum ke_status {
  KE_OK = 0,
  KE_ERROR = 1 /* the sink holds {"class": "...", "message": "..."} */
} ke_status;

typedef enum ke_log_level {
  KE_LOG_DEBUG = 0,
  KE_LOG_INFO = 1,
  KE_LOG_WARNING = 2,
  KE_LOG_ERROR = 3
} ke_log_level;

/* What the host offers an instance. One table per instance, owned by the host; it outlives the
 * instance. Every function may be called from any thread, returns at once and never calls back. */
typedef struct ke_host {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  void* context; /* pass it back as the first argument */
  void (*log)(void* context, ke_log_level level, ke_span message);
  /* A short line for whoever watches the run: {"text": "..."} and anything else. */
  void (*progress)(void* context, ke_span json);
  /* 1 once the work was cancelled; the plugin should then return soon, with class "cancelled". */
  int (*cancelled)(void* context);
  /* Milliseconds until the deadline of the current step; -1 for none. */
  int64_t (*time_left_ms)(void* context);
  /* {"input_tokens": n, "output_tokens": n, "cost": x}, added to what was reported before. */
  void (*report_usage)(void* context, ke_span json);
  /* Writes the secret called `name`; KE_ERROR when it was not declared for this instance. */
  ke_status (*secret)(void* context, ke_span name, const ke_sink* out);
} ke_host;

typedef enum ke_kind { KE_KIND_NODE = 1, KE_KIND_PROVIDER = 2, KE_KIND_EVALUATOR = 3 } ke_kind;

/* A resumable instance: the host creates it, steps it until it is done, and destroys it. The host
 * never makes two calls on one instance at a time; calls may come from different threads. */
typedef struct ke_type_vtable {
  size_t struct_size;
  /* `config` is {"params": {...}, "context": {...}}; params satisfy the type's schema. On success
   * *instance is owned by the host until `destroy`. On KE_ERROR *instance is not read. */
  ke_status (*create)(const ke_host* host, ke_span config, void** instance, const ke_sink* error);
  /* Takes one event and writes one outcome; see sdk/ABI.md for both. Must not block, unless the
   * type declares "blocking": true. KE_ERROR ends the instance. */
  ke_status (*step)(void* instance, ke_span event, const ke_sink* outcome);
  /* Called exactly once for each created instance. Must not fail. */
  void (*destroy)(void* instance);
} ke_type_vtable;

/* A codec: a provider that speaks to a service over HTTP. It only translates; the host opens the
 * connection, checks certificates, waits, retries, limits and records. Instances are made and
 * destroyed by the type's ke_type_vtable, one for each model call; `step` is never called. The host
 * calls encode once, then for each attempt begin, feed (any number of times) and finish. Since 1.1.
 * sdk/ABI.md describes the JSON. */
typedef struct ke_codec_vtable {
  size_t struct_size;
  /* Turns a canonical request into an HTTP request: {"method", "url", "headers"} into `head`, the
   * body's bytes into `body`. KE_ERROR: the error is in `head`, and nothing is sent. */
  ke_status (*encode)(void* instance, ke_span request, const ke_sink* head, const ke_sink* body);
  /* An attempt's response begins: {"status", "headers"}. Forgets what an earlier attempt left. */
  ke_status (*begin)(void* instance, ke_span head, const ke_sink* error);
  /* Bytes of the body as they arrive, cut anywhere, also within a character. Writes what they
   * complete as canonical events, one JSON object a line, maybe none. */
  ke_status (*feed)(void* instance, ke_span bytes, const ke_sink* events);
  /* The body has ended: {"complete": bool}. Writes {"response"} or {"error"}. */
  ke_status (*finish)(void* instance, ke_span end, const ke_sink* outcome);
} ke_codec_vtable;

/* One type that a plugin offers. All text is static UTF-8, NUL-terminated, owned by the plugin. */
typedef struct ke_type {
  size_t struct_size;
  uint32_t kind;             /* a ke_kind */
  const char* name;          /* "kernel/generate", "offline", "simulator" */
  const char* summary;       /* one line for `plugins list` */
  const char* params_schema; /* JSON Schema (object) of what `with:` may hold */
  const char* interface;     /* JSON: ports and labels of a node, capabilities of a provider, ... */
  const ke_type_vtable* vtable;
  /* Since 1.1. Of a provider whose interface says "form": "codec"; NULL for every other type. */
  const ke_codec_vtable* codec;
} ke_type;

/* What a plugin is. Static, owned by the plugin. */
typedef struct ke_plugin {
  uint32_t magic; /* KE_ABI_MAGIC */
  uint32_t abi_major;
  uint32_t abi_minor_required; /* the least host minor that it can work with */
  size_t struct_size;
  const char* id;         /* "kernel_nodes": lower case, digits, '_' or '-' */
  const char* version;    /* semantic version of the plugin */
  const char* build_info; /* compiler and flags, for reports only */
  size_t type_count;
  const ke_type* types;
} ke_plugin;

#if defined(__GNUC__)
#define KE_EXPORT __attribute__((visibility("default")))
#else
#define KE_EXPORT
#endif

/* The one exported symbol. Pure: no side effect, the same answer every time, no failure. A plugin
 * that cannot serve the host still answers with its descriptor, so that the host can say why. */
KE_EXPORT const ke_plugin* ke_plugin_query(uint32_t host_major, uint32_t host_minor);

typedef const ke_plugin* (*ke_plugin_query_fn)(uint32_t host_major, uint32_t host_minor);

#ifdef __cplusplus
}
#endif

#endif /* KERNEL_EVOLVE_ABI_H_ */
