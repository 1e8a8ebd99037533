// Parallel loops on oneTBB, in dynamic chunks.
//
// The calling thread takes part. In the child of a fork, where TBB's threads do not exist, loops
// run on the caller alone, as they do on a thread that finds no memory for its first one.
#ifndef TRIPONT_CORE_RUNTIME_PARALLEL_H_
#define TRIPONT_CORE_RUNTIME_PARALLEL_H_

#include <cstddef>
#include <cstdint>

#include "core/runtime/export.h"

namespace tripont {

// Calls body(context, begin, end) over disjoint pieces of [0, count), of about `grain` units or
// more each, on several threads. Inline if count <= grain.
TRIPONT_EXPORT void ParallelFor(int64_t count, int64_t grain,
                                void (*body)(void* context, int64_t begin, int64_t end),
                                void* context);
// The same for a callable `body(begin, end)`.
template <typename Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
  ParallelFor(
      count, grain,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// memcpy, by several threads if it is large.
TRIPONT_EXPORT void ParallelCopy(void* destination, const void* source, size_t size);

// Calls task(data) later on another thread of the pool; before returning if the pool has no other.
TRIPONT_EXPORT void EnqueueTask(void (*task)(void* data), void* data);

// Threads that parallel loops use, the caller included: at least 1.
TRIPONT_EXPORT int NumThreads();
// Sets it, process-wide; 0: one a CPU that this process may use. Starts the threads: where fewer of
// them can be had, it is so many, with a warning. Called once by the core.
TRIPONT_EXPORT void SetNumThreads(int threads);

// Calls body(context), in which parallel loops use at most `limit` threads, the caller included; 0,
// or as many as NumThreads(): as many as outside of it. Libraries that run on oneTBB keep to it too.
// Calls on several threads at the same time have `limit` threads each. What `body` throws comes
// through.
TRIPONT_EXPORT void WithThreads(int64_t limit, void (*body)(void* context), void* context);
template <typename Body>
void WithThreads(int64_t limit, const Body& body) {
  WithThreads(
      limit, [](void* context) { (*static_cast<const Body*>(context))(); },
      const_cast<void*>(static_cast<const void*>(&body)));
}
// Whether this thread is within WithThreads with a limit below NumThreads() outside of it.
TRIPONT_EXPORT bool ThreadsAreLimited();

// Whether this process is the child of a fork of one that used the runtime.
TRIPONT_EXPORT bool InForkedChild();
TRIPONT_EXPORT void MarkForkedChild();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_PARALLEL_H_
