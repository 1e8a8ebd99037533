// The processor's modes of floating-point numbers while a program of ours runs.
//
// A thread has modes of its own, and new threads take those of the thread that starts them. Those of XLA's thread pools,
// on which torch_xla and TensorFlow call a device, take denormal numbers for 0, and a library that was linked for fast
// arithmetic leaves its process so. Programs are compiled for the modes of IEEE 754: with others `x > 0` is false of a
// denormal number, and functions whose steps rest on them are wrong.
#ifndef TRIPONT_CORE_RUNTIME_FLOATING_POINT_H_
#define TRIPONT_CORE_RUNTIME_FLOATING_POINT_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tripont {

// While it lives, the thread rounds to nearest, keeps denormal numbers and ignores exceptions. The thread's own modes
// come back with its end. Where they are these, it reads a register and writes none.
class StandardFloatingPoint {
 public:
  StandardFloatingPoint() : before_(Read()) {
    if ((before_ & kModes) != kStandard) [[unlikely]]
      Write((before_ & ~kModes) | kStandard);
  }
  ~StandardFloatingPoint() {
    if ((before_ & kModes) != kStandard) [[unlikely]]
      Write(before_);
  }
  StandardFloatingPoint(const StandardFloatingPoint&) = delete;
  StandardFloatingPoint& operator=(const StandardFloatingPoint&) = delete;

 private:
#if defined(__x86_64__)
  // MXCSR: operands and results that are denormal as 0, the rounding, exceptions that trap; not those that were seen.
  static constexpr uint64_t kModes = 0xffc0;
  static constexpr uint64_t kStandard = 0x1f80;
  static uint64_t Read() { return _mm_getcsr(); }
  static void Write(uint64_t modes) { _mm_setcsr(static_cast<uint32_t>(modes)); }
#elif defined(__aarch64__)
  // FPCR: alternative half precision, default NaN, denormal numbers as 0, the rounding, exceptions that trap.
  static constexpr uint64_t kModes = 0x07c89f00;
  static constexpr uint64_t kStandard = 0;
  static uint64_t Read() {
    uint64_t modes;
    asm volatile("mrs %0, fpcr" : "=r"(modes));
    return modes;
  }
  static void Write(uint64_t modes) { asm volatile("msr fpcr, %0" : : "r"(modes)); }
#else
#error "the modes of floating-point numbers of this processor are not known"
#endif

  const uint64_t before_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_FLOATING_POINT_H_
