#include "core/runtime/artifact_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/checksum.h"
#include "core/runtime/client.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/installation.h"
#include "core/runtime/logging.h"

namespace tripont {
namespace {

constexpr std::string_view kSuffix = ".tripont";
constexpr std::string_view kTemporary = ".tmp";
// Temporary files older than this were left behind by a process that died.
constexpr int64_t kStaleSeconds = 3600;

struct Counters {
  std::atomic<int64_t> hits{0};
  std::atomic<int64_t> misses{0};
  std::atomic<int64_t> writes{0};
  std::atomic<int64_t> corrupted{0};
  std::atomic<int64_t> evicted{0};
};
Counters counters_of_process;

struct Entry {
  std::string path;
  int64_t size;
  timespec used;
};

std::string DefaultFolder() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return StrCat(cache, "/tripont");
  }
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return StrCat(home, "/.cache/tripont");
  }
  return "";
}

bool MakeFolder(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(),
          0777);  // parents that exist or cannot be made show in the last step
  }
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return true;
  return false;
}

bool ReadWhole(const std::string& path, std::string* content) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat info{};
  bool ok = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (ok) {
    content->resize(static_cast<size_t>(info.st_size));
    size_t done = 0;
    while (done < content->size()) {
      const ssize_t count = read(fd, content->data() + done, content->size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    content->resize(done);  // what is missing shows in the artifact's own size
    // The time of last use, for eviction; not worth an error.
    const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    [[maybe_unused]] const int touched = futimens(fd, times);
  }
  close(fd);
  return ok;
}

bool WriteWhole(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    content.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// All entries; removes temporary files that nobody writes to any more.
std::vector<Entry> ListEntries(const std::string& folder) {
  std::vector<Entry> entries;
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) return entries;
  const int64_t now = time(nullptr);
  while (const dirent* const item = readdir(directory)) {
    const std::string path = StrCat(folder, "/", item->d_name);
    struct stat info{};
    const bool temporary = EndsWith(item->d_name, kTemporary);
    if (!temporary && !EndsWith(item->d_name, kSuffix)) continue;
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (!temporary) {
      entries.push_back({path, info.st_size, info.st_mtim});
    } else if (now - info.st_mtim.tv_sec > kStaleSeconds) {
      unlink(path.c_str());
    }
  }
  closedir(directory);
  return entries;
}

}  // namespace

ArtifactCache::ArtifactCache(const Options& options)
    : enabled_(options.cache),
      folder_(options.cache_dir.empty() ? DefaultFolder() : options.cache_dir),
      size_limit_(options.cache_size),
      compiler_fingerprint_(options.compiler_fingerprint) {
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  if (folder_.empty()) enabled_ = false;
  if (enabled_ && compiler_fingerprint_.empty()) {
    compiler_fingerprint_ = DefaultCompilerFingerprint();
  }
}

ArtifactCacheCounters ArtifactCache::counters() {
  const Counters& c = counters_of_process;
  return {c.hits, c.misses, c.writes, c.corrupted, c.evicted};
}

std::string ArtifactCache::Key(std::string_view program, std::string_view format,
                               std::string_view compile_options,
                               const std::map<std::string, std::string>& compiler_options) const {
  Sha256 sha;
  sha.UpdateField(
      StrCat(Version(), " ", kArtifactFormatVersion, " host ", CpuName(), " ", CpuFingerprint()));
  sha.UpdateField(compiler_fingerprint_);
  sha.UpdateField(format);
  sha.UpdateField(program);
  sha.UpdateField(compile_options);
  for (const auto& [key, value] : compiler_options) {
    sha.UpdateField(key);
    sha.UpdateField(value);
  }
  return sha.FinishHex();
}

std::optional<std::string> ArtifactCache::Lookup(const std::string& key) {
  if (!enabled_) return std::nullopt;
  const std::string path = StrCat(folder_, "/", key, kSuffix);
  std::string content;
  if (!ReadWhole(path, &content)) {
    ++counters_of_process.misses;
    return std::nullopt;
  }
  if (const Status status = CheckArtifactHeader(content); !status.ok()) {
    TRIPONT_LOG(kWarning, "cache entry ", path, " is damaged (", status.message(),
                "): compiling again");
    ++counters_of_process.corrupted;
    ++counters_of_process.misses;
    unlink(path.c_str());
    return std::nullopt;
  }
  ++counters_of_process.hits;
  return content;
}

void ArtifactCache::Store(const std::string& key, std::string_view artifact) {
  if (!enabled_ || static_cast<int64_t>(artifact.size()) > size_limit_) return;
  if (!MakeFolder(folder_)) {
    return WarnOnce(StrCat("cannot make the cache folder ", folder_, ": ", std::strerror(errno)));
  }
  static std::atomic<int64_t> serial{0};
  const std::string temporary = StrCat(folder_, "/", key, ".", getpid(), "-", serial++, kTemporary);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    return WarnOnce(
        StrCat("cannot write to the cache folder ", folder_, ": ", std::strerror(errno)));
  bool ok = WriteWhole(fd, artifact);
  int error = errno;
  if (close(fd) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (ok && rename(temporary.c_str(), StrCat(folder_, "/", key, kSuffix).c_str()) != 0) {
    ok = false;
    error = errno;
  }
  if (!ok) {
    unlink(temporary.c_str());
    return WarnOnce(
        StrCat("cannot write to the cache folder ", folder_, ": ", std::strerror(error)));
  }
  ++counters_of_process.writes;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (size_ >= 0) size_ += static_cast<int64_t>(artifact.size());
  if (size_ < 0 || size_ > size_limit_) Evict();
}

void ArtifactCache::Evict() {
  std::vector<Entry> entries = ListEntries(folder_);
  size_ = 0;
  for (const Entry& entry : entries) size_ += entry.size;
  if (size_ <= size_limit_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // Down to nine tenths, so that not every write has to look through the folder.
  for (const Entry& entry : entries) {
    if (size_ <= size_limit_ / 10 * 9) break;
    if (unlink(entry.path.c_str()) == 0) ++counters_of_process.evicted;
    size_ -= entry.size;
  }
}

int64_t ArtifactCache::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t removed = 0;
  for (const Entry& entry : ListEntries(folder_))
    removed += unlink(entry.path.c_str()) == 0 ? 1 : 0;
  size_ = -1;
  return removed;
}

void ArtifactCache::WarnOnce(const std::string& text) {
  if (!warned_.exchange(true))
    TRIPONT_LOG(kWarning, text, "; going on without storing compiled programs");
}

}  // namespace tripont
