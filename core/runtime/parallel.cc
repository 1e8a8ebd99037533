#include "core/runtime/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "core/runtime/sanitizers.h"

namespace tripont {
namespace {

std::atomic<bool> in_forked_child{false};

// Copies below this run at the speed of one core's cache; above, several cores are faster.
constexpr int64_t kParallelCopyBytes = 1 << 20;
constexpr int64_t kCopyPiece = 256 << 10;

thread_local bool threads_are_limited = false;

}  // namespace

void ParallelFor(int64_t count, int64_t grain,
                 void (*body)(void* context, int64_t begin, int64_t end), void* context) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  // (Kernels read memory in larger pieces if they are given more units at once.)
  if (count <= grain || NumThreads() == 1) {
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
  if (NumThreads() == 1) return task(data);
  GivesWork(data);
  tbb::task_arena(tbb::task_arena::attach()).enqueue([task, data] {
    TakesWork(data);
    task(data);
  });
}

int NumThreads() {
  if (InForkedChild()) return 1;
  // An arena does not count what SetNumThreads allows.
  const auto allowed =
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  const int most = tbb::this_task_arena::max_concurrency();
  return std::max(1, static_cast<int>(std::min(allowed, static_cast<size_t>(most))));
}

void SetNumThreads(int threads) {
  if (threads <= 0) return;
  // Kept for the life of the process: TBB drops the setting with the object.
  static auto* const control [[maybe_unused]] = new tbb::global_control(
      tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
}

void WithThreads(int64_t limit, void (*body)(void* context), void* context) {
  if (limit <= 0 || limit >= NumThreads()) return body(context);
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
