// What the sanitizers are told (`make test-asan`, `make test-tsan`). In other builds these
// functions do nothing.
//
// The thread sanitizer does not see into oneTBB: that a thread which takes a piece of work comes
// after the thread that handed the work over has to be said. The address sanitizer knows malloc;
// blocks of the caching allocator are made known to it here, so that the use of a free block, and
// of what lies behind the end of a block, is found. Generated kernels are not instrumented.
#ifndef TRIPONT_CORE_RUNTIME_SANITIZERS_H_
#define TRIPONT_CORE_RUNTIME_SANITIZERS_H_

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#define TRIPONT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TRIPONT_THREAD_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TRIPONT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRIPONT_ADDRESS_SANITIZER 1
#endif
#endif

// The sanitizers' own names (sanitizer/tsan_interface.h, sanitizer/asan_interface.h).
#ifdef TRIPONT_THREAD_SANITIZER
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif
#ifdef TRIPONT_ADDRESS_SANITIZER
extern "C" void __asan_poison_memory_region(void const volatile* address, size_t size);
extern "C" void __asan_unpoison_memory_region(void const volatile* address, size_t size);
#endif

namespace tripont {

#if defined(TRIPONT_ADDRESS_SANITIZER) || defined(TRIPONT_THREAD_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// All that this thread did before GivesWork(token) is seen by a thread that later calls
// TakesWork(token). `token`: any address that both know.
inline void GivesWork([[maybe_unused]] void* token) {
#ifdef TRIPONT_THREAD_SANITIZER
  __tsan_release(token);
#endif
}
inline void TakesWork([[maybe_unused]] void* token) {
#ifdef TRIPONT_THREAD_SANITIZER
  __tsan_acquire(token);
#endif
}

// From now on every access to these bytes is an error; or none is.
inline void ForbidAccess([[maybe_unused]] const void* data, [[maybe_unused]] size_t size) {
#ifdef TRIPONT_ADDRESS_SANITIZER
  __asan_poison_memory_region(data, size);
#endif
}
inline void AllowAccess([[maybe_unused]] const void* data, [[maybe_unused]] size_t size) {
#ifdef TRIPONT_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(data, size);
#endif
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_SANITIZERS_H_
