// Every setting of the runtime, with the TRIPONT_ environment variable that sets it.
//
// This is the only place where the runtime reads environment variables of its own. A client option
// of the same name (what jax.config, the command line or a PJRT create option passes) goes over the
// environment. Settings marked "process" belong to the process-wide core: the first client to be
// created decides, later clients that differ are told so in the log.
#ifndef TRIPONT_CORE_RUNTIME_OPTIONS_H_
#define TRIPONT_CORE_RUNTIME_OPTIONS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

struct OptionInfo {
  std::string_view name;         // client option, for example "num_devices"
  std::string_view environment;  // "TRIPONT_NUM_DEVICES"
  std::string_view help;         // one line: meaning, unit, default
};

struct TRIPONT_EXPORT Options {
  std::string device;    // TRIPONT_DEVICE: a backend of backend_registry.h, and after a colon which
                         // of its devices; "" (default): a GPU if a backend has one, else host
  std::string backends;  // TRIPONT_BACKENDS (process): shared libraries, separated by colons, that
                         // bring further backends
  std::string cpu;  // TRIPONT_CPU (process): CPU to behave as, "x86-64-v3"; "", "host": this one
  int64_t num_devices = 1;  // TRIPONT_NUM_DEVICES: devices of this client, 1 to 256
  int64_t num_threads =
      0;               // TRIPONT_NUM_THREADS (process): threads of parallel kernels; 0: one per CPU
  std::string python;  // TRIPONT_PYTHON: interpreter of the compile worker; default: the one that
                       // runs this process, else of the library's environment; "": python3 on PATH
  std::string python_path;  // TRIPONT_PYTHON_PATH: folders, separated by colons, that the compile
                            // worker's modules are looked for in before the interpreter's own; the
                            // Python frontends give their process's sys.path
  int64_t max_workers =
      2;  // TRIPONT_MAX_WORKERS (process): compile workers at the same time, 1 to 16
  int64_t worker_idle_timeout = 600;  // TRIPONT_WORKER_IDLE_TIMEOUT (process): seconds after which
                                      // a worker that nobody asks ends; 0: never
  int64_t compile_timeout = 0;  // TRIPONT_COMPILE_TIMEOUT: seconds that a compile may take; 0: any
  int64_t worker_start_timeout = 600;  // TRIPONT_WORKER_START_TIMEOUT: seconds until a compile
                                       // worker must be ready; 0: any
  bool prestart_worker =
      true;           // TRIPONT_PRESTART_WORKER: start a compile worker when a client is created
  bool cache = true;  // TRIPONT_CACHE: 0 turns the on-disk cache of artifacts off
  std::string
      cache_dir;  // TRIPONT_CACHE_DIR: folder; "": $XDG_CACHE_HOME/tripont or ~/.cache/tripont
  int64_t cache_size = 2LL << 30;  // TRIPONT_CACHE_SIZE: bytes of all entries; the oldest go first
  bool cache_shared = false;  // TRIPONT_CACHE_SHARED: take entries that others may have written
  std::string compiler_fingerprint;  // TRIPONT_COMPILER_FINGERPRINT: mixed into the cache key
                                     // (state of the sources); "": found from the files
  std::string dump_to;  // TRIPONT_DUMP_TO: folder for the compiler's stages; passed to the worker
  int64_t log_level =
      1;  // TRIPONT_LOG_LEVEL (process): 0 errors, 1 warnings, 2 information, 3 debug
  int64_t memory_limit = 0;  // TRIPONT_MEMORY_LIMIT (process): bytes; 0: 85 % of what is available
  int64_t allocator_cache =
      -1;  // TRIPONT_ALLOCATOR_CACHE (process): free bytes kept for reuse; -1: 1/4 of the limit
  int64_t inline_ns =
      50000;  // TRIPONT_INLINE_NS (process): programs estimated cheaper run on the caller's thread
  int64_t collective_timeout = 360;  // TRIPONT_COLLECTIVE_TIMEOUT: seconds a device waits in a
                                     // collective for the others of its program; 0: for ever
  std::string hosts_interface;  // TRIPONT_HOSTS_INTERFACE: network interface that the processes of
                                // a job on several machines listen on; "": none
  // Client options the runtime does not know: handed to the compiler with every program (and part
  // of the cache key).
  std::map<std::string, std::string> compiler_options;

  // Defaults, with the environment over them. INVALID_ARGUMENT for a value that cannot be read,
  // naming the variable.
  static StatusOr<Options> FromEnvironment();
  // Sets one option by its client option name; unknown names go to compiler_options.
  // INVALID_ARGUMENT for a bad value.
  Status Set(std::string_view name, std::string_view value);
  // All settings, for documentation and `tripont doctor`.
  static std::span<const OptionInfo> List();
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_OPTIONS_H_
