#include "core/runtime/allocator.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "core/runtime/backend.h"
#include "core/runtime/sanitizers.h"
#include "core/runtime/spin.h"

namespace tripont {
namespace {

constexpr size_t kSlabSize = 1 << 20;
constexpr size_t kHugePage = Allocator::kHugePage;
// A huge page may be used in part if it wastes less than this.
constexpr size_t kSmallWaste = kHugePage / 8;
// Mappings of less than a huge page are cut from ranges of this size, so that they share huge pages.
constexpr size_t kRangeSize = 64 << 20;
// How much must be reserved for that: the huge page that was cut last is used in part.
constexpr int64_t kRangesFrom = 32 << 20;
// Where no block of the right class is free, one of the next classes is taken if it is not much
// larger: by up to one in so many.
constexpr size_t kMostTooLarge = 4;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

size_t RoundUp(size_t size, size_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// How far huge pages reach in a block of which `used` bytes are used.
size_t InHugePages(size_t used) { return (used + kSmallWaste - 1) / kHugePage * kHugePage; }

// Advice: a block works without, and pages that are there already stay.
void WantHugePages(void* data, size_t used) {
  if (const size_t huge = InHugePages(used); huge > 0) madvise(data, huge, MADV_HUGEPAGE);
}

// Fills the small pages behind the huge ones in one call, which takes a third of the time of their
// page faults, and no longer than a huge page of which half is used.
void PopulateTail(void* data, size_t used) {
#ifdef MADV_POPULATE_WRITE  // Linux 5.14
  if (const size_t huge = InHugePages(used); 0 < huge && huge < used)
    madvise(static_cast<char*>(data) + huge, used - huge, MADV_POPULATE_WRITE);
#endif
}

// New pages from the system, from a huge page on if there are enough for one; null if it has none.
void* MapPages(size_t size) {
  const bool huge = size >= kHugePage;
  const size_t mapped = huge ? size + kHugePage : size;
  void* const mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  if (!huge) return mapping;
  // Cut the mapping to start at a huge page.
  char* const begin = static_cast<char*>(mapping);
  char* const start =
      reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePage));
  if (start != begin) munmap(begin, start - begin);
  if (start + size != begin + mapped) munmap(start + size, begin + mapped - (start + size));
  return start;
}

// The number in a cgroup file, or none ("max", no such file).
int64_t ReadLimit(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value > 0 ? value : kUnlimited;
}

struct MachineMemory {
  int64_t total = kUnlimited;      // of the machine and of the control groups of this process
  int64_t available = kUnlimited;  // without making others swap
};

MachineMemory FindMemory() {
  MachineMemory memory;
  const auto limit_total = [&](int64_t total) { memory.total = std::min(memory.total, total); };
  const auto limit_group = [&](const std::string& folder) {
    limit_total(ReadLimit(folder + "/memory.max"));
    memory.available = std::min(memory.available, AvailableInGroup(folder));
  };
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) limit_total(pages * sysconf(_SC_PAGESIZE));
  std::ifstream machine("/proc/meminfo");
  for (std::string line; std::getline(machine, line);) {
    constexpr std::string_view kName = "MemAvailable:";
    if (line.starts_with(kName))
      memory.available = std::strtoll(line.c_str() + kName.size(), nullptr, 10) * 1024;
  }
  limit_total(ReadLimit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));  // version 1
  // Version 2: "0::/a/b"; limits hold for the whole path.
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    if (line.rfind("0::/", 0) != 0) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      limit_group("/sys/fs/cgroup" + path);
  }
  limit_group("/sys/fs/cgroup");
  memory.available = std::min(memory.available, memory.total);
  return memory;
}

// 85 % of what is available when the process's first client is made: who wants more gets an error,
// and does not meet the kernel's out-of-memory killer. At least a quarter of everything, because the
// moment may be a bad one and the budget lasts.
int64_t DefaultBudget() {
  const MachineMemory memory = FindMemory();
  return std::max(memory.available / 100 * 85, memory.total / 4);
}

}  // namespace

int64_t AvailableInGroup(const std::string& folder) {
  const int64_t limit = ReadLimit(folder + "/memory.max");
  if (limit == kUnlimited) return kUnlimited;
  const int64_t used = ReadLimit(folder + "/memory.current");
  if (used == kUnlimited) return limit;
  // Pages of files, however recently they were read, and the kernel's own caches.
  constexpr std::string_view kReclaimable[] = {"active_file", "inactive_file", "slab_reclaimable"};
  int64_t reclaimable = 0;
  std::ifstream statistics(folder + "/memory.stat");
  std::string name;
  for (int64_t value = 0; statistics >> name >> value;) {
    if (std::ranges::find(kReclaimable, name) != std::end(kReclaimable)) reclaimable += value;
  }
  return std::clamp<int64_t>(limit - used + reclaimable, 0, limit);
}

MemoryBudget::MemoryBudget(int64_t limit) : limit_(limit > 0 ? limit : DefaultBudget()) {}

bool MemoryBudget::TryReserve(size_t size) {
  if (size > static_cast<size_t>(limit_)) return false;
  const auto wanted = static_cast<int64_t>(size);
  if (reserved_.fetch_add(wanted, std::memory_order_relaxed) + wanted <= limit_) return true;
  reserved_.fetch_sub(wanted, std::memory_order_relaxed);
  return false;
}

void MemoryBudget::Release(size_t size) {
  reserved_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
}

void MemoryBudget::TrimAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Allocator* allocator : allocators_) allocator->Trim();
}

void Allocator::SpinLock::Wait() {
  // The holder is a few instructions from done, unless it was preempted: then give it our time.
  for (int i = 0; i < 64 && locked_.load(std::memory_order_relaxed); ++i) SpinPause();
  if (locked_.load(std::memory_order_relaxed)) sched_yield();
}

Allocator::Allocator(MemoryBudget* budget, int64_t cache_limit, MemorySource* source)
    : budget_(budget), cache_limit_(cache_limit), source_(source) {
  const std::lock_guard<std::mutex> lock(budget_->mutex_);
  budget_->allocators_.push_back(this);
}

Allocator::~Allocator() {
  {
    const std::lock_guard<std::mutex> lock(budget_->mutex_);
    std::erase(budget_->allocators_, this);
  }
  Trim();
  if (range_left_ > 0) munmap(range_, range_left_);
}

int Allocator::ClassOf(size_t size) {
  if (size <= 1024) return size == 0 ? 0 : static_cast<int>((size - 1) / 64);
  const size_t last = size - 1;
  if (kSmallLimit <= last && last < kHugePage)
    return kFirstPageClass + static_cast<int>((last - kSmallLimit) / kSmallPage);
  const int log2 = std::bit_width(last) - 1;  // at least 10
  const int eighth = static_cast<int>(last >> (log2 - 3) & 7);
  return last < kSmallLimit ? kLinearClasses + 8 * (log2 - 10) + eighth
                            : kLastClasses + 8 * (log2 - 21) + eighth;
}

size_t Allocator::ClassSize(int index) {
  if (index < kLinearClasses) return static_cast<size_t>(index + 1) * 64;
  if (kFirstPageClass <= index && index < kLastClasses)
    return kSmallLimit + static_cast<size_t>(index - kFirstPageClass + 1) * kSmallPage;
  const bool small = index < kFirstPageClass;
  const int number = index - (small ? kLinearClasses : kLastClasses);
  const int doubling = number / 8, eighth = number % 8;
  const size_t from = (small ? size_t{1024} : kHugePage) << doubling;
  return from + static_cast<size_t>(eighth + 1) * (from / 8);
}

void* Allocator::CutFromSlab(size_t size) {
  const std::lock_guard<SpinLock> lock(slab_lock_);
  if (slab_left_ < size) {
    // What is left of the old slab is less than one small block: not worth keeping track of.
    void* slab = Map(kSlabSize);
    if (slab == nullptr) return nullptr;
    slab_ = static_cast<char*>(slab);
    slab_left_ = kSlabSize;
    if (source_ == nullptr) ForbidAccess(slab, kSlabSize);
  }
  void* block = slab_;
  slab_ += size;
  slab_left_ -= size;
  return block;
}

void* Allocator::Map(size_t size) {
  size = RoundUp(size, kSmallPage);
  if (!budget_->TryReserve(size)) return nullptr;
  if (source_ != nullptr) {
    void* const memory = source_->Map(size);
    if (memory == nullptr) {
      budget_->Release(size);
    } else {
      reserved_.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
    }
    return memory;
  }
  const bool in_range =
      size < kHugePage && reserved_.load(std::memory_order_relaxed) >= kRangesFrom;
  void* const memory = in_range ? CutFromRange(size) : MapPages(size);
  if (memory == nullptr) {
    budget_->Release(size);
  } else {
    reserved_.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  }
  return memory;
}

void* Allocator::CutFromRange(size_t size) {
  const std::lock_guard<SpinLock> lock(range_lock_);
  if (range_left_ < size) {
    void* const range = MapPages(kRangeSize);
    if (range == nullptr) return MapPages(size);  // there may be room for the block alone
    madvise(range, kRangeSize, MADV_HUGEPAGE);
    if (range_left_ > 0) munmap(range_, range_left_);
    range_ = static_cast<char*>(range);
    range_left_ = kRangeSize;
  }
  void* const block = range_;
  range_ += size;
  range_left_ -= size;
  return block;
}

void Allocator::Unmap(void* data, size_t size) {
  size = RoundUp(size, kSmallPage);
  AllowAccess(data, size);  // whoever gets these addresses next
  source_ != nullptr ? source_->Unmap(data, size) : static_cast<void>(munmap(data, size));
  reserved_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
  budget_->Release(size);
}

Block Allocator::TryAllocate(size_t size) {
  int index = ClassOf(size);
  if (index >= kNumClasses) return {};
  size_t class_size = ClassSize(index);
  void* data = nullptr;
  const bool large = class_size > kSmallLimit;
  const int last_try = large ? ClassOf(class_size + class_size / kMostTooLarge) : index;
  for (int i = index; i <= std::min(last_try, kNumClasses - 1) && data == nullptr; ++i) {
    SizeClass& size_class = classes_[i];
    const std::lock_guard<SpinLock> lock(size_class.lock);
    if (i == index) ++size_class.num_allocs;
    if (size_class.free != nullptr) {
      data = size_class.free;
      size_class.free = size_class.free->next;
      class_size = ClassSize(i);
    }
  }
  const bool reused = data != nullptr;
  if (reused) {
    if (large) cached_.fetch_sub(static_cast<int64_t>(class_size), std::memory_order_relaxed);
  } else {
    class_size = ClassSize(index);
    const auto fresh = [&] { return large ? Map(class_size) : CutFromSlab(class_size); };
    data = fresh();
    if (data == nullptr) {
      budget_->TrimAll();
      data = fresh();
      if (data == nullptr) return {};
    }
  }
  if (source_ == nullptr) {
    if (large) WantHugePages(data, size);
    if (large && !reused) PopulateTail(data, size);
    const size_t used = RoundUp(size, kAlignment);  // programs may count on whole lines
    AllowAccess(data, used);
    ForbidAccess(static_cast<char*>(data) + used, class_size - std::min(class_size, used));
  }
  const auto taken = static_cast<int64_t>(class_size);
  const int64_t in_use = in_use_.fetch_add(taken, std::memory_order_relaxed) + taken;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (in_use > peak && !peak_.compare_exchange_weak(peak, in_use, std::memory_order_relaxed)) {
  }
  int64_t largest = largest_.load(std::memory_order_relaxed);
  while (taken > largest &&
         !largest_.compare_exchange_weak(largest, taken, std::memory_order_relaxed)) {
  }
  return {data, class_size};
}

StatusOr<Block> Allocator::Allocate(size_t size) {
  const Block block = TryAllocate(size);
  if (block.data == nullptr) return Exhausted(size);
  return block;
}

Status Allocator::Exhausted(size_t size) const {
  const AllocatorStats now = stats();
  return ResourceExhausted("out of memory: ", size, " bytes requested; ", now.bytes_in_use,
                           " bytes are in use and ", budget_->reserved(), " of at most ",
                           budget_->limit(),
                           " bytes reserved (TRIPONT_MEMORY_LIMIT sets the limit)");
}

void Allocator::Free(Block block) {
  if (block.data == nullptr) return;
  in_use_.fetch_sub(static_cast<int64_t>(block.size), std::memory_order_relaxed);
  if (block.size > kSmallLimit) {
    const auto size = static_cast<int64_t>(block.size);
    if (cached_.fetch_add(size, std::memory_order_relaxed) + size > cache_limit_) {
      cached_.fetch_sub(size, std::memory_order_relaxed);
      Unmap(block.data, block.size);
      return;
    }
  }
  SizeClass& size_class = classes_[ClassOf(block.size)];
  if (source_ == nullptr) {
    AllowAccess(block.data, sizeof(FreeBlock));
    ForbidAccess(static_cast<char*>(block.data) + sizeof(FreeBlock),
                 block.size - sizeof(FreeBlock));
  }
  const std::lock_guard<SpinLock> lock(size_class.lock);
  size_class.free = new (block.data) FreeBlock{size_class.free};
}

void Allocator::Trim(size_t keep) {
  for (int index = kNumClasses - 1; index >= 0 && ClassSize(index) > kSmallLimit; --index) {
    const size_t size = ClassSize(index);
    while (cached_.load(std::memory_order_relaxed) > static_cast<int64_t>(keep)) {
      FreeBlock* block = nullptr;
      {
        const std::lock_guard<SpinLock> lock(classes_[index].lock);
        block = classes_[index].free;
        if (block == nullptr) break;
        classes_[index].free = block->next;
      }
      cached_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
      Unmap(block, size);
    }
  }
}

void Allocator::ResetPeak() {
  peak_.store(in_use_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  largest_.store(0, std::memory_order_relaxed);
}

AllocatorStats Allocator::stats() const {
  AllocatorStats stats;
  stats.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  stats.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  for (SizeClass& size_class : const_cast<Allocator*>(this)->classes_) {
    const std::lock_guard<SpinLock> lock(size_class.lock);
    stats.num_allocs += size_class.num_allocs;
  }
  stats.largest_alloc_size = largest_.load(std::memory_order_relaxed);
  stats.bytes_limit = budget_->limit();
  stats.bytes_cached = cached_.load(std::memory_order_relaxed);
  stats.bytes_reserved = reserved_.load(std::memory_order_relaxed);
  return stats;
}

void Allocator::LockForFork() {
  slab_lock_.lock();
  range_lock_.lock();
  for (SizeClass& size_class : classes_) size_class.lock.lock();
}

void Allocator::UnlockAfterFork() {
  for (SizeClass& size_class : classes_) size_class.lock.unlock();
  range_lock_.unlock();
  slab_lock_.unlock();
}

}  // namespace tripont
