// Core: what exists once in a process. Client: one framework's view of it.
//
// However many frameworks load the library, they share one Core: its devices, memories, compile
// workers and caches. A Client holds the options of one framework's client and the devices that it
// sees (the first num_devices of the core).
#ifndef TRIPONT_CORE_RUNTIME_CLIENT_H_
#define TRIPONT_CORE_RUNTIME_CLIENT_H_

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/allocator.h"
#include "core/runtime/artifact_cache.h"
#include "core/runtime/backend.h"
#include "core/runtime/compile_worker_pool.h"
#include "core/runtime/device.h"
#include "core/runtime/executable.h"
#include "core/runtime/export.h"
#include "core/runtime/options.h"
#include "core/runtime/ref_counted.h"
#include "core/runtime/status.h"

namespace tripont {

// The version of tripont that this library was built as, for example "0.1.0".
TRIPONT_EXPORT std::string_view Version();

// Made with the first client and never destroyed (threads may still use it while the process
// exits). Thread-safe.
class TRIPONT_EXPORT Core {
 public:
  // The core, made now with `options` if there is none yet, with at least options.num_devices
  // devices (and at least one for each device of a backend). FAILED_PRECONDITION if options.device
  // asks for another kind than the process uses.
  static StatusOr<Core*> Get(const Options& options);
  // The core, or null if there is none yet. For the outside (bindings, pjrt) alone, where a caller
  // asks about the process and names no client; the runtime's own functions are given what they
  // need.
  static Core* GetIfCreated();

  // Device `id`, which exists if a client with that many devices was made; else null.
  Device* device(int id) const;
  int num_devices() const;
  // What the devices are devices of.
  Backend& backend() const { return backend_; }
  MemoryBudget& budget() { return budget_; }
  CompileWorkerPool& workers() { return workers_; }

 private:
  friend class Client;
  Core(const Options& options, Backend& backend);
  Status AddDevices(int64_t count);
  static void PrepareFork();
  static void ParentAfterFork();
  static void ChildAfterFork();

  const Options options_;
  Backend& backend_;
  MemoryBudget budget_;
  CompileWorkerPool workers_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> devices_;  // only grows; guarded by mutex_
};

// What a compile gives.
struct CompileResult {
  std::string artifact;     // bytes for Executable::Load
  bool from_cache = false;  // found on disk, no compiler ran
  std::string key;          // the entry's, if the program may be in the cache
};

// Thread-safe. Reference counted; devices, buffers and executables do not need it and outlive it.
class TRIPONT_EXPORT Client : public RefCounted<Client> {
 public:
  // INVALID_ARGUMENT for options out of range, UNIMPLEMENTED for a device kind that this version
  // lacks. Starts a compile worker in the background if options.prestart_worker.
  static StatusOr<Ref<Client>> Create(const Options& options);

  const Options& options() const { return options_; }
  Core& core() const { return *core_; }
  std::span<Device* const> devices() const { return devices_; }
  ArtifactCache& cache() { return cache_; }

  // The artifact of a program: from the on-disk cache, else from a compile worker (and then into
  // the cache). format: "mlir" or "hlo". compile_options: a serialized CompileOptionsProto. extra:
  // more (key, value) options for the compiler; they go over options().compiler_options. Blocks its
  // caller; needs no lock of the caller's, in particular not Python's. The bytes are checked
  // (magic, version, checksum) but not loaded.
  StatusOr<CompileResult> Compile(std::string_view program, std::string_view format,
                                  std::string_view compile_options,
                                  const std::map<std::string, std::string>& extra = {});
  // What CompileAndLoad is to make of an artifact.
  enum class LoadAs {
    kProgram,      // Executable::Load, for this client's devices
    kDescription,  // Executable::LoadDescription
  };
  // The same, and the artifact loaded. An entry of the cache that cannot be loaded is removed, and
  // the program compiled again.
  StatusOr<Ref<Executable>> CompileAndLoad(std::string_view program, std::string_view format,
                                           std::string_view compile_options,
                                           const std::map<std::string, std::string>& extra,
                                           LoadAs as, bool* from_cache = nullptr);
  // If `extra` or options() ask for dumps, what a program that was compiled before tells by itself
  // is written to their folder, by a compile worker (docs/dumps.md). Blocks its caller as Compile
  // does. A failure is a warning: the program runs as well without the dump.
  void DumpLoaded(std::string_view artifact, const std::map<std::string, std::string>& extra);

 private:
  friend class RefCounted<Client>;
  Client(Core* core, Options options, std::vector<Device*> devices);
  ~Client() = default;

  Core* const core_;
  const Options options_;
  const std::vector<Device*> devices_;
  // Programs are cut for so many threads. They are counted once, when the client is made: the child
  // of a fork, which has one, and a caller that may use few find the same programs in the cache.
  const int threads_;
  ArtifactCache cache_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CLIENT_H_
