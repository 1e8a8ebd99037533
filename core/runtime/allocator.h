// A caching allocator of blocks for arrays.
//
// Blocks start at a multiple of 64 bytes and can be read and written up to the next multiple of 64
// after the requested size. Requests are rounded up to a size class; freed blocks go to the class's
// free list and come back from there, last freed first (touching a fresh 16 MB costs milliseconds
// of page faults, a reused one nothing). Small blocks are cut from slabs that stay with the
// allocator; large ones are mappings of their own, and go back to the system when the cache is over
// its cap or memory runs short. What is used of them lies in huge pages where the kernel has them, and
// the end, which would use a part of one, in small ones: a block takes the memory that was asked for.
// Once much is reserved, blocks that are smaller than a huge page lie in huge pages together, one
// behind the other: a processor reads huge pages much faster from memory.
//
// Threading: every function may be called from any thread. Blocks may be freed by another thread
// than the one that allocated them. After fork() the child can go on using it.
#ifndef TRIPONT_CORE_RUNTIME_ALLOCATOR_H_
#define TRIPONT_CORE_RUNTIME_ALLOCATOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// What an allocator gave out; give the same pair back to Free. An empty block (data null) owns
// nothing.
struct Block {
  void* data = nullptr;
  size_t size = 0;  // usable bytes: at least what was asked for
};

struct AllocatorStats {
  int64_t bytes_in_use = 0;  // usable bytes of the blocks given out
  int64_t peak_bytes_in_use = 0;
  int64_t num_allocs = 0;          // since the start
  int64_t largest_alloc_size = 0;  // bytes
  int64_t bytes_limit = 0;         // of the budget that this allocator shares
  int64_t bytes_cached = 0;        // free blocks kept for reuse
  int64_t bytes_reserved = 0;      // mapped from the system: in use, cached and slabs
};

class Allocator;
class MemorySource;

// Bytes that processes of a control group (version 2; `folder` under /sys/fs/cgroup) may still use,
// as MemAvailable says it of the machine: caches that the kernel gives up before it refuses memory
// count as free. The largest int64_t if the group has no limit.
TRIPONT_EXPORT int64_t AvailableInGroup(const std::string& folder);

// How much memory all allocators of the process may map together. Thread-safe.
class TRIPONT_EXPORT MemoryBudget {
 public:
  // `limit` bytes; 0 means what the machine, or this process's cgroup if that is less, has.
  explicit MemoryBudget(int64_t limit = 0);
  // True, and `size` bytes are taken, if that stays within the limit.
  bool TryReserve(size_t size);
  void Release(size_t size);
  int64_t limit() const { return limit_; }
  int64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  // Gives the free blocks of all allocators of this budget back to the system.
  void TrimAll();

  void LockForFork() { mutex_.lock(); }
  void UnlockAfterFork() { mutex_.unlock(); }

 private:
  friend class Allocator;
  int64_t limit_;
  std::atomic<int64_t> reserved_{0};
  std::mutex mutex_;
  std::vector<Allocator*> allocators_;  // guarded by mutex_
};

class TRIPONT_EXPORT Allocator {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kSmallLimit = 32 << 10;  // larger blocks are mappings of their own
  static constexpr size_t kSmallPage = 4 << 10;
  static constexpr size_t kHugePage = 2 << 20;

  // `budget` outlives the allocator. `cache_limit`: bytes of free large blocks to keep. `source`:
  // where memory comes from (outlives the allocator; see backend.h); null: the system.
  Allocator(MemoryBudget* budget, int64_t cache_limit, MemorySource* source = nullptr);
  ~Allocator();  // blocks still in use are leaked, not unmapped
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A block of at least `size` bytes, content undefined. A size of 0 gives a valid block too.
  // RESOURCE_EXHAUSTED when the budget or the system has no room even after the cache was given up.
  StatusOr<Block> Allocate(size_t size);
  // As Allocate, without a message: data is null when there is no room. (What hot paths call.)
  Block TryAllocate(size_t size);
  // Takes back a block of this allocator; an empty block is allowed.
  void Free(Block block);
  // Gives free large blocks back to the system until at most `keep` bytes are cached.
  void Trim(size_t keep = 0);
  AllocatorStats stats() const;
  // From now on the peak and the largest block are counted as if nothing had been freed before.
  void ResetPeak();

  // The error of a request of `size` bytes that this allocator had no room for.
  Status Exhausted(size_t size) const;

  // Called around fork(): Lock before, Unlock after it in parent and child.
  void LockForFork();
  void UnlockAfterFork();

 private:
  // A lock for sections of a few instructions: spins, then yields.
  class SpinLock {
   public:
    void lock() {
      while (locked_.exchange(true, std::memory_order_acquire)) Wait();
    }
    void unlock() { locked_.store(false, std::memory_order_release); }

   private:
    void Wait();
    std::atomic<bool> locked_{false};
  };
  struct FreeBlock {
    FreeBlock* next;
  };
  // Guarded by its lock, all of it.
  struct alignas(64) SizeClass {
    SpinLock lock;
    FreeBlock* free = nullptr;  // linked through the blocks themselves
    int64_t num_allocs = 0;
  };
  // Sixteen classes of 64 bytes each up to 1024, then eight a doubling; but from kSmallLimit to
  // kHugePage one for each number of small pages: such blocks share huge pages, where what nobody
  // asked for would take memory too.
  static constexpr int kLinearClasses = 16;
  static constexpr int kFirstPageClass = kLinearClasses + 8 * 5;  // behind kSmallLimit
  static constexpr int kLastClasses = kFirstPageClass + (kHugePage - kSmallLimit) / kSmallPage;
  static constexpr int kNumClasses = kLastClasses + 8 * 27;

  static int ClassOf(size_t size);
  static size_t ClassSize(int index);
  void* CutFromSlab(size_t size);
  void* CutFromRange(size_t size);
  void* Map(size_t size);
  void Unmap(void* data, size_t size);

  MemoryBudget* const budget_;
  const int64_t cache_limit_;
  MemorySource* const source_;
  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> largest_{0};
  std::atomic<int64_t> cached_{0};
  std::atomic<int64_t> reserved_{0};
  SpinLock slab_lock_;
  char* slab_ = nullptr;
  size_t slab_left_ = 0;
  // What is left of a range of huge pages: addresses that are not reserved yet.
  SpinLock range_lock_;
  char* range_ = nullptr;
  size_t range_left_ = 0;
  std::array<SizeClass, kNumClasses> classes_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ALLOCATOR_H_
