// A value that is computed when somebody first asks for it, and kept as long as the process.
#ifndef TRIPONT_CORE_RUNTIME_COMPUTED_ONCE_H_
#define TRIPONT_CORE_RUNTIME_COMPUTED_ONCE_H_

#include <atomic>
#include <memory>

namespace tripont {

// For what takes long enough that a process may fork meanwhile. No thread waits for another: of
// several that ask at the same time each computes the value, and all get the first one. (In the
// child of a fork a thread that computed it is gone, and whoever waited for it, as the
// initialisation of a static variable does, would wait for ever.)
//
// Thread-safe. Variables with static storage duration are initialised when the library is loaded.
template <typename T>
class ComputedOnce {
 public:
  constexpr ComputedOnce() = default;
  ComputedOnce(const ComputedOnce&) = delete;
  ComputedOnce& operator=(const ComputedOnce&) = delete;

  // `compute` gives the same value whoever calls it. What it throws comes through.
  template <typename Compute>
  const T& Get(const Compute& compute) {
    if (const T* const known = value_.load(std::memory_order_acquire)) return *known;
    auto mine = std::make_unique<const T>(compute());
    const T* known = nullptr;
    if (value_.compare_exchange_strong(known, mine.get(), std::memory_order_acq_rel))
      return *mine.release();
    return *known;
  }

 private:
  std::atomic<const T*> value_ = nullptr;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_COMPUTED_ONCE_H_
