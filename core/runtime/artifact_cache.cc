#include "core/runtime/artifact_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/checksum.h"
#include "core/runtime/client.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/installation.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/logging.h"

namespace tripont {
namespace {

constexpr std::string_view kSuffix = ".tripont";
constexpr std::string_view kTemporary = ".tmp";
// The bytes of all entries together, as decimal text; locked while a process counts.
constexpr char kCounter[] = "bytes";
constexpr int kCounterAttempts = 50;  // of a millisecond each, while others count
// Empty: a process that compiles the program of a key locks one byte of it (as open file
// descriptions do, so that threads exclude one another too, and a process that dies lets go).
constexpr char kTurns[] = "compiling";
constexpr std::chrono::seconds kLongestTurn{60};
// Where compile workers keep the machine code of functions, and how much of it.
constexpr std::string_view kCodeFolder = "/code";
constexpr int64_t kShareOfCode = 16;     // of the size limit, one part in so many
constexpr useconds_t kTurnPause = 2000;  // us

// An entry is kCacheMagic, the SHA-256 of its key and the artifact (raw), and the artifact. The digest
// ties an entry to its key, so that no entry answers for another one, and finds every accident. It
// is not a secret: who may write the folder could make entries anyway, and that only this user may
// do so is what PrivateFolder looks after.
constexpr std::string_view kCacheMagic = "TPCACHE1";
constexpr size_t kDigestSize = 32;
constexpr size_t kEntryHeader = kCacheMagic.size() + kDigestSize;

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

std::string DefaultFolder() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return StrCat(cache, "/tripont");
  }
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return StrCat(home, "/.cache/tripont");
  }
  return "";
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// All entries; removes temporary files that nobody writes to any more.
std::vector<PrivateFolder::File> ListEntries(const PrivateFolder& folder) {
  std::vector<PrivateFolder::File> entries;
  const int64_t now = time(nullptr);
  for (PrivateFolder::File& file : folder.List()) {
    if (EndsWith(file.name, kSuffix)) {
      entries.push_back(std::move(file));
    } else if (EndsWith(file.name, kTemporary) && now - file.modified.tv_sec > kStaleSeconds) {
      folder.Remove(file.name);
    }
  }
  return entries;
}

std::string Header(const std::string& key, std::string_view artifact) {
  Sha256 sha;
  sha.UpdateField(key);
  sha.UpdateField(artifact);
  const std::array<uint8_t, kDigestSize> digest = sha.Finish();
  std::string header(kCacheMagic);
  header.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return header;
}

// Whether a file of kCodeFolder is one of code_store.py's: it begins with 16 hexadecimal digits.
bool IsPack(std::string_view name) {
  constexpr size_t kDigits = 16;
  return name.size() > kDigits && name[kDigits] == '-' &&
         name.find_first_not_of("0123456789abcdef") == kDigits &&
         (name.ends_with(".code") || name.ends_with(".code.tmp"));
}

// One byte of kTurns for this open file; false if somebody else has it locked, or it cannot be.
bool SetTurn(const FileDescriptor& file, int64_t place, short type) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = place;
  range.l_len = 1;
  return fcntl(file.get(), F_OFD_SETLK, &range) == 0;
}

}  // namespace

CompileTurn::~CompileTurn() {
  // A process that was forked meanwhile has the descriptor too.
  if (file_.valid()) SetTurn(file_, place_, F_UNLCK);
}

ArtifactCache::ArtifactCache(const Options& options)
    : enabled_(options.cache),
      folder_(options.cache_dir.empty() ? DefaultFolder() : options.cache_dir),
      size_limit_(options.cache_size),
      sharing_(options.cache_shared        ? PrivateFolder::Sharing::kTrusted
               : options.cache_dir.empty() ? PrivateFolder::Sharing::kTighten
                                           : PrivateFolder::Sharing::kNone),
      compiler_fingerprint_(options.compiler_fingerprint) {
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  if (folder_.empty()) enabled_ = false;
  if (enabled_ && compiler_fingerprint_.empty()) {
    compiler_fingerprint_ = DefaultCompilerFingerprint();
  }
}

CodeFolder ArtifactCache::code_folder() const {
  if (!enabled_) return {};
  // A worker's working folder is not this process's.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(folder_, error);
  if (error) return {};
  return {StrCat(folder.string(), kCodeFolder), size_limit_ / kShareOfCode,
          sharing_ == PrivateFolder::Sharing::kTrusted};
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
  const StatusOr<PrivateFolder> folder = PrivateFolder::Open(folder_, sharing_);
  if (!folder.ok()) {
    if (folder.status().code() != StatusCode::kNotFound) WarnOnce(folder.status().message());
    ++counters_of_process.misses;
    return std::nullopt;
  }
  StatusOr<std::string> artifact = ReadEntry(*folder, key);
  if (artifact.ok()) {
    ++counters_of_process.hits;
    return std::move(*artifact);
  }
  ++counters_of_process.misses;
  if (artifact.status().code() != StatusCode::kNotFound) Remove(key, artifact.status().message());
  return std::nullopt;
}

StatusOr<CompileTurn> ArtifactCache::TakeTurn(const std::string& key,
                                              std::chrono::seconds longest) const {
  if (!enabled_) return CompileTurn();
  const StatusOr<PrivateFolder> folder = PrivateFolder::Make(folder_, sharing_);
  if (!folder.ok()) return CompileTurn();
  StatusOr<FileDescriptor> file = folder->OpenFile(kTurns, true);
  if (!file.ok()) return CompileTurn();
  int64_t place = 0;
  std::from_chars(key.data(), key.data() + std::min<size_t>(key.size(), 15), place, 16);
  CompileTurn turn;
  const auto end = std::chrono::steady_clock::now() +
                   (longest > longest.zero() ? std::min(longest, kLongestTurn) : kLongestTurn);
  while (!SetTurn(*file, place, F_WRLCK)) {
    if ((errno != EAGAIN && errno != EACCES && errno != EINTR) ||
        std::chrono::steady_clock::now() > end) {
      return turn;
    }
    turn.was_waited_for = true;
    // Behind each pause: most of the signals that come while the thread waits for the CPU, not for
    // the time, do not interrupt it.
    usleep(kTurnPause);
    if (InterruptedBySignal()) {
      return Cancelled(
          "a signal interrupted the wait for another process or thread that compiles the program");
    }
  }
  CompileTurn taken(std::move(*file), place);
  taken.was_waited_for = turn.was_waited_for;
  return taken;
}

StatusOr<std::string> ArtifactCache::ReadEntry(const PrivateFolder& folder,
                                               const std::string& key) const {
  TRIPONT_ASSIGN_OR_RETURN(const FileDescriptor file, folder.OpenFile(StrCat(key, kSuffix)));
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return DataLoss("it cannot be read");
  const int64_t size = info.st_size - static_cast<int64_t>(kEntryHeader);
  if (size < 0 || info.st_size > size_limit_) {
    return DataLoss("it is damaged (", info.st_size, " bytes)");
  }
  std::string header(kEntryHeader, '\0');
  std::string artifact(static_cast<size_t>(size), '\0');
  if (ReadUpTo(file.get(), header.data(), header.size()) != header.size() ||
      ReadUpTo(file.get(), artifact.data(), artifact.size()) != artifact.size() ||
      header != Header(key, artifact)) {
    return DataLoss("it is damaged (its digest does not match)");
  }
  // The time of last use, for eviction; not worth an error.
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  [[maybe_unused]] const int touched = futimens(file.get(), times);
  return artifact;
}

void ArtifactCache::Remove(const std::string& key, std::string_view reason) {
  if (!enabled_) return;
  TRIPONT_LOG(kWarning, "the cache entry ", folder_, "/", key, kSuffix, " is not used: ", reason,
              "; compiling again");
  ++counters_of_process.corrupted;
  const StatusOr<PrivateFolder> folder = PrivateFolder::Open(folder_, sharing_);
  if (folder.ok()) folder->Remove(StrCat(key, kSuffix));
}

void ArtifactCache::Store(const std::string& key, std::string_view artifact) {
  const auto size = static_cast<int64_t>(kEntryHeader + artifact.size());
  if (!enabled_ || size > size_limit_) return;
  const StatusOr<PrivateFolder> folder = PrivateFolder::Make(folder_, sharing_);
  if (!folder.ok()) return WarnOnce(folder.status().message());
  static std::atomic<int64_t> serial{0};
  const std::string header = Header(key, artifact);
  const std::string_view parts[] = {header, artifact};
  const Status written = folder->Write(
      StrCat(key, kSuffix), StrCat(key, ".", getpid(), "-", serial++, kTemporary), parts);
  if (!written.ok()) {
    return WarnOnce(StrCat("cannot write to the cache folder ", folder_, ": ", written.message()));
  }
  ++counters_of_process.writes;
  KeepToLimit(*folder, size);
}

void ArtifactCache::KeepToLimit(const PrivateFolder& folder, int64_t added) const {
  const StatusOr<FileDescriptor> counter = folder.OpenFile(kCounter, true);
  bool locked = false;
  for (int attempt = 0; counter.ok() && !locked && attempt < kCounterAttempts; ++attempt) {
    locked = flock(counter->get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK && errno != EINTR) break;  // not on this file system
    if (!locked) usleep(1000);
  }
  if (!locked) {  // nobody counts for us: look
    Evict(folder);
    return;
  }
  char text[24] = {};
  int64_t total = 0;
  const size_t count = ReadUpTo(counter->get(), text, sizeof(text) - 1);
  const bool known = count > 0 && std::from_chars(text, text + count, total).ec == std::errc() &&
                     total >= 0 && total <= size_limit_;
  total = known && total + added <= size_limit_ ? total + added : Evict(folder);
  const int length = std::snprintf(text, sizeof(text), "%020lld", static_cast<long long>(total));
  // A number that could not be written is found out by the next one who reads it.
  if (pwrite(counter->get(), text, static_cast<size_t>(length), 0) != length) {
    folder.Remove(kCounter);
  }
}

int64_t ArtifactCache::Evict(const PrivateFolder& folder) const {
  std::vector<PrivateFolder::File> entries = ListEntries(folder);
  int64_t total = 0;
  for (const PrivateFolder::File& entry : entries) total += entry.size;
  if (total <= size_limit_) return total;
  std::sort(entries.begin(), entries.end(),
            [](const PrivateFolder::File& a, const PrivateFolder::File& b) {
              return std::pair(a.modified.tv_sec, a.modified.tv_nsec) <
                     std::pair(b.modified.tv_sec, b.modified.tv_nsec);
            });
  // Down to nine tenths, so that not every write has to look through the folder.
  for (const PrivateFolder::File& entry : entries) {
    if (total <= size_limit_ / 10 * 9) break;
    if (folder.Remove(entry.name)) ++counters_of_process.evicted;
    total -= entry.size;
  }
  return total;
}

int64_t ArtifactCache::Clear() {
  const StatusOr<PrivateFolder> folder = PrivateFolder::Open(folder_, sharing_);
  if (!folder.ok()) return 0;
  int64_t removed = 0;
  for (const PrivateFolder::File& entry : ListEntries(*folder)) {
    removed += folder->Remove(entry.name) ? 1 : 0;
  }
  folder->Remove(kCounter);
  folder->Remove(kTurns);
  const StatusOr<PrivateFolder> code = PrivateFolder::Open(StrCat(folder_, kCodeFolder), sharing_);
  if (code.ok()) {
    for (const PrivateFolder::File& file : code->List()) {
      if (IsPack(file.name)) code->Remove(file.name);
    }
  }
  return removed;
}

void ArtifactCache::WarnOnce(const std::string& text) {
  if (!warned_.exchange(true))
    TRIPONT_LOG(kWarning, text, "; going on without the cache of compiled programs");
}

}  // namespace tripont
