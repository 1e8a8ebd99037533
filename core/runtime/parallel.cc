#include "core/runtime/parallel.h"

#include <sched.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/floating_point.h"
#include "core/runtime/logging.h"
#include "core/runtime/room.h"
#include "core/runtime/sanitizers.h"

namespace tripont {
namespace {

std::atomic<bool> in_forked_child{false};

// Copies below this run at the speed of one core's cache; above, several cores are faster.
constexpr int64_t kParallelCopyBytes = 1 << 20;
constexpr int64_t kCopyPiece = 256 << 10;

thread_local bool threads_are_limited = false;

// oneTBB stops for ever where there is no memory for what it makes at its first loop in the process, and throws, or ends
// the process, where a thread cannot be started. So it is started while a client is made, with as many threads as can be
// had; and a thread that has not used it yet looks whether there is room for what it makes for each.
constexpr size_t kStackOfWorker = size_t{4} << 20;
constexpr size_t kRoomOfPool = size_t{16} << 20;
constexpr size_t kRoomOfThread = size_t{2} << 20;
constexpr int kThreadsOfOthers = 4;
// Loops use at most so many threads, whatever oneTBB allows.
std::atomic<int> most_threads{std::numeric_limits<int>::max()};
thread_local bool has_used_pool = false;

bool CanUsePool() {
  if (has_used_pool) [[likely]] {
    return true;
  }
  has_used_pool = HasRoom(kRoomOfThread);
  return has_used_pool;
}

// How many of `wanted` threads there is room for, the caller included. Where there are not enough, some are left for
// streams, compilations and their wires.
int ThreadsWithRoom(int wanted) {
  int threads = 1 + StartableThreads(wanted - 1, kStackOfWorker);
  if (threads < wanted) threads = std::max(1, threads - kThreadsOfOthers);
  const size_t room = kRoomOfPool + static_cast<size_t>(threads) * kStackOfWorker;
  return threads > 1 && HasRoom(room) ? threads : 1;
}

// A loop that all threads of the pool are to see, so that oneTBB starts them; a busy machine may let them come later.
void MeetInPool(int threads) {
  constexpr std::chrono::milliseconds kLongest{5};
  const auto end = std::chrono::steady_clock::now() + kLongest;
  std::atomic<int> arrived{0};
  tbb::parallel_for(
      tbb::blocked_range<int>(0, threads),
      [&](const tbb::blocked_range<int>&) {
        ++arrived;
        while (arrived < threads && std::chrono::steady_clock::now() < end) sched_yield();
      },
      tbb::simple_partitioner());
}

void StartPool() {
  const int wanted = NumThreads();
  if (wanted == 1) return;
  int threads = ThreadsWithRoom(wanted);
  const Status status = Guarded("the threads of parallel loops", [&] {
    if (threads > 1 && threads < wanted) {
      // As long as the process, for libraries that use oneTBB too.
      [[maybe_unused]] static auto* const fewer = new tbb::global_control(
          tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    }
    if (threads > 1) MeetInPool(threads);
  });
  if (!status.ok()) threads = 1;
  if (threads == wanted) return;
  most_threads.store(threads, std::memory_order_relaxed);
  TRIPONT_LOG(kWarning, "programs run on ", threads, " of ", wanted,
              " threads: the process may not have more threads or memory (ulimit -u, ulimit -v, "
              "ulimit -d)");
}

}  // namespace

void ParallelFor(int64_t count, int64_t grain,
                 void (*body)(void* context, int64_t begin, int64_t end), void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  // (Kernels read memory in larger pieces if they are given more units at once.)
  if (count <= grain || NumThreads() == 1 || !CanUsePool()) {
    body(context, 0, count);
    return;
  }
  // auto_partitioner starts with a few pieces a thread and splits further only where a thread runs
  // dry: few tasks when the machine is ours, balance when another process takes a core.
  char begun = 0;
  char done = 0;
  GivesWork(&begun);
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, count, static_cast<size_t>(grain)),
      [body, context, &begun, &done](const tbb::blocked_range<int64_t>& range) {
        TakesWork(&begun);
        const StandardFloatingPoint modes;
        body(context, range.begin(), range.end());
        GivesWork(&done);
      },
      tbb::auto_partitioner());
  TakesWork(&done);
}

void ParallelCopy(void* destination, const void* source, size_t size) {
  if (size == 0 || destination == source) return;
  const auto bytes = static_cast<int64_t>(size);
  ParallelFor(
      bytes, bytes < kParallelCopyBytes ? bytes : kCopyPiece, [=](int64_t begin, int64_t end) {
        std::memcpy(static_cast<char*>(destination) + begin,
                    static_cast<const char*>(source) + begin, static_cast<size_t>(end - begin));
      });
}

void EnqueueTask(void (*task)(void* data), void* data) {
  if (NumThreads() == 1 || !CanUsePool()) return task(data);
  GivesWork(data);
  tbb::task_arena(tbb::task_arena::attach()).enqueue([task, data] {
    TakesWork(data);
    const StandardFloatingPoint modes;
    task(data);
  });
}

int NumThreads() {
  if (InForkedChild()) return 1;
  // An arena does not count what SetNumThreads allows.
  const auto allowed =
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  const int most = std::min(tbb::this_task_arena::max_concurrency(),
                            most_threads.load(std::memory_order_relaxed));
  return std::max(1, static_cast<int>(std::min(allowed, static_cast<size_t>(most))));
}

void SetNumThreads(int threads) {
  if (threads > 0) {
    // Kept for the life of the process: TBB drops the setting with the object.
    static auto* const control [[maybe_unused]] = new tbb::global_control(
        tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  }
  StartPool();
}

void WithThreads(int64_t limit, void (*body)(void* context), void* context) {
  if (limit <= 0 || limit >= NumThreads() || !CanUsePool()) return body(context);
  // An arena belongs to a thread, not to a program: with one arena for all callers those of a
  // program that meets other devices would wait for its places, and for one another, for ever.
  thread_local std::map<int64_t, tbb::task_arena> arenas;
  tbb::task_arena& arena = arenas.try_emplace(limit, static_cast<int>(limit)).first->second;
  struct Mark {
    const bool before = std::exchange(threads_are_limited, true);
    ~Mark() { threads_are_limited = before; }
  } const mark;
  arena.execute([=] { body(context); });
}

bool ThreadsAreLimited() { return threads_are_limited; }

bool InForkedChild() { return in_forked_child.load(std::memory_order_relaxed); }
void MarkForkedChild() { in_forked_child.store(true, std::memory_order_relaxed); }

}  // namespace tripont
