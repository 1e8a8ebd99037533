// How a thread waits for another one without sleeping.
#ifndef TRIPONT_CORE_RUNTIME_SPIN_H_
#define TRIPONT_CORE_RUNTIME_SPIN_H_

#include <sched.h>

#include <chrono>

#include "core/runtime/export.h"

namespace tripont {

// Tells the CPU that the thread waits: its other hardware threads get the time.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` does nothing on most CPUs; a barrier waits for about as long as x86-64's `pause`.
  __asm__ volatile("isb" ::: "memory");
#endif
}

// For how long a thread goes on looking, after its pauses, before it sleeps. Zero, until this
// process becomes one of several that wait for one another (hosts::Job): there, every sleep is paid
// for by all of them, and to wake a core that has nothing else to do can take 100 us. Meanwhile it
// yields its core to whoever can use it. Thread-safe.
TRIPONT_EXPORT std::chrono::microseconds PatientSpin();
TRIPONT_EXPORT void SetPatientSpin(std::chrono::microseconds time);

// Looks until `is_done()`, which is cheap, or until it is time to sleep: `pauses` times, and then
// for PatientSpin. Whether it is done.
template <typename IsDone>
bool SpinUntil(IsDone&& is_done, int pauses) {
  for (int i = 0; i < pauses; ++i) {
    if (is_done()) return true;
    SpinPause();
  }
  const std::chrono::microseconds patience = PatientSpin();
  if (patience.count() == 0) [[likely]]
    return is_done();
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    if (is_done()) return true;
    sched_yield();
  } while (std::chrono::steady_clock::now() < end);
  return is_done();
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_SPIN_H_
