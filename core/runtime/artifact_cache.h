// The on-disk cache of artifacts: one file an entry, named by the SHA-256 of everything that the
// artifact depends on.
//
// Safe under several processes (entries appear by rename, a reader sees a whole file or none).
// Never fails a compile: a folder that is full, read-only or missing is said once in the log, and
// the program goes on without it. An entry that is damaged is logged, removed and compiled again.
// When all entries together exceed the size limit the ones used longest ago are removed.
#ifndef TRIPONT_CORE_RUNTIME_ARTIFACT_CACHE_H_
#define TRIPONT_CORE_RUNTIME_ARTIFACT_CACHE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/runtime/export.h"
#include "core/runtime/options.h"

namespace tripont {

struct ArtifactCacheCounters {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t writes = 0;
  int64_t corrupted = 0;  // entries found damaged
  int64_t evicted = 0;
};

// Thread-safe.
class TRIPONT_EXPORT ArtifactCache {
 public:
  // A cache in options.cache_dir, or one that never holds anything if options.cache is false.
  explicit ArtifactCache(const Options& options);

  bool enabled() const { return enabled_; }
  // "" if there is none (no home folder).
  const std::string& folder() const { return folder_; }

  // The name of the entry: depends on all arguments, the version of tripont, of the artifact format
  // and of the compiler's sources, the target, and this CPU's model and features.
  std::string Key(std::string_view program, std::string_view format,
                  std::string_view compile_options,
                  const std::map<std::string, std::string>& compiler_options) const;
  // The artifact stored under `key`, if it is there and whole.
  std::optional<std::string> Lookup(const std::string& key);
  void Store(const std::string& key, std::string_view artifact);
  // Removes all entries; returns how many.
  int64_t Clear();
  // Sums of all caches of the process.
  static ArtifactCacheCounters counters();

 private:
  void Evict();
  void WarnOnce(const std::string& text);

  bool enabled_;
  std::string folder_;
  int64_t size_limit_;
  std::string compiler_fingerprint_;
  std::mutex mutex_;
  int64_t size_ = -1;  // bytes of all entries as far as we know; -1: not looked yet
  std::atomic<bool> warned_{false};
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ARTIFACT_CACHE_H_
