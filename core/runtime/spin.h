// What a loop does between two looks at something that another thread changes.
#ifndef TRIPONT_CORE_RUNTIME_SPIN_H_
#define TRIPONT_CORE_RUNTIME_SPIN_H_

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

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_SPIN_H_
