// The on-disk cache of artifacts: one file an entry, named by the SHA-256 of everything that the
// artifact depends on.
//
// Entries are machine code that the process will run. The folder and the files must be this user's
// alone (core/runtime/private_folder.h; Options::cache_shared turns that off), and each entry holds
// a digest of its key and content. A folder that is not trusted is said once in the log and not
// used; an entry that is not trusted, is damaged or cannot be loaded is logged, removed and
// compiled again.
//
// Safe under several processes (entries appear by rename, a reader sees a whole file or none), which
// take turns to compile one program: the processes of a job ask for the same ones at the same time.
// Never fails a compile: a folder that is full, read-only or missing is said once in the log, and
// the program goes on without it. When all entries of the folder together exceed the size limit,
// whoever wrote them, the ones used longest ago are removed. Beside them lies the folder `code`, in
// which compile workers keep the machine code of functions (core/compiler/targets/code_store.py),
// a sixteenth of that size at most.
#ifndef TRIPONT_CORE_RUNTIME_ARTIFACT_CACHE_H_
#define TRIPONT_CORE_RUNTIME_ARTIFACT_CACHE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/compile_worker.h"
#include "core/runtime/export.h"
#include "core/runtime/options.h"
#include "core/runtime/private_folder.h"
#include "core/runtime/status.h"

namespace tripont {

struct ArtifactCacheCounters {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t writes = 0;
  int64_t corrupted = 0;  // entries that were removed: damaged, not trusted, not to be loaded
  int64_t evicted = 0;
};

// The right to compile the program of a key, until it is destroyed or its process ends.
class TRIPONT_EXPORT CompileTurn {
 public:
  CompileTurn() = default;  // of no use to anybody, and waited for by nobody
  CompileTurn(FileDescriptor file, int64_t place) : file_(std::move(file)), place_(place) {}
  CompileTurn(CompileTurn&&) = default;
  CompileTurn& operator=(CompileTurn&&) = default;
  ~CompileTurn();
  // Whether somebody else had it first, who may have stored the entry.
  bool was_waited_for = false;

 private:
  FileDescriptor file_;
  int64_t place_ = 0;  // the byte of the file that is locked
};

// Thread-safe.
class TRIPONT_EXPORT ArtifactCache {
 public:
  // A cache in options.cache_dir, or one that never holds anything if options.cache is false.
  explicit ArtifactCache(const Options& options);

  bool enabled() const { return enabled_; }
  // "" if there is none (no home folder).
  const std::string& folder() const { return folder_; }

  // Where the compile workers keep the machine code of functions: a folder in this one.
  CodeFolder code_folder() const;

  // The name of the entry: depends on all arguments, the version of tripont, of the artifact format
  // and of the compiler's sources, the target, and this CPU's model and features.
  std::string Key(std::string_view program, std::string_view format,
                  std::string_view compile_options,
                  const std::map<std::string, std::string>& compiler_options) const;
  // The artifact stored under `key`, if it is there and whole.
  std::optional<std::string> Lookup(const std::string& key);
  // Waits while another thread or process has the turn, up to a minute, or to `longest` if that is
  // less and not 0: a program is compiled twice rather than never. CANCELLED if a signal's handler
  // raises meanwhile (interrupt.h).
  StatusOr<CompileTurn> TakeTurn(const std::string& key, std::chrono::seconds longest) const;
  void Store(const std::string& key, std::string_view artifact);
  // Removes the entry, which turned out to be of no use, and says so in the log.
  void Remove(const std::string& key, std::string_view reason);
  // Removes all entries, and the machine code of functions; returns how many entries.
  int64_t Clear();
  // Sums of all caches of the process.
  static ArtifactCacheCounters counters();

 private:
  // NOT_FOUND, PERMISSION_DENIED if the file is not trusted, DATA_LOSS if it is damaged.
  StatusOr<std::string> ReadEntry(const PrivateFolder& folder, const std::string& key) const;
  // Counts an entry of `added` bytes, and evicts others if the folder holds too much now.
  void KeepToLimit(const PrivateFolder& folder, int64_t added) const;
  // Removes entries until the limit is kept; returns the bytes of all.
  int64_t Evict(const PrivateFolder& folder) const;
  void WarnOnce(const std::string& text);

  bool enabled_;
  std::string folder_;
  int64_t size_limit_;
  PrivateFolder::Sharing sharing_;
  std::string compiler_fingerprint_;
  std::atomic<bool> warned_{false};
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ARTIFACT_CACHE_H_
