// Transposing a square of numbers in vectors. Everything is inlined into functions that choose the
// instructions.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_VECTOR_TRANSPOSE_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_VECTOR_TRANSPOSE_H_

#include <cstddef>
#include <utility>

namespace tripont {

// In vectors of kBytes.
template <typename T, int kBytes>
struct VectorTranspose {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  typedef T V __attribute__((vector_size(kBytes), may_alias));

  // rows [kLanes] := the transposed rows.
  [[gnu::always_inline]] static inline void Run(V* rows) { Step<1>(rows); }

 private:
  // Lane i of the result is lane i of a, or lane i - kStep of b where i has the bit kStep; and the
  // same of the other halves.
  template <int kStep, bool kSecond, size_t... kIndex>
  [[gnu::always_inline]] static inline V Exchange(const V& a, const V& b,
                                                  std::index_sequence<kIndex...>) {
    constexpr auto index = [](int lane) {
      const bool set = (lane & kStep) != 0;
      if (!kSecond) return set ? kLanes + (lane ^ kStep) : lane;
      return set ? kLanes + lane : (lane ^ kStep);
    };
    return __builtin_shufflevector(a, b, index(static_cast<int>(kIndex))...);
  }

  template <int kStep>
  [[gnu::always_inline]] static inline void Step(V* rows) {
    if constexpr (kStep < kLanes) {
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) {
        if ((r & kStep) != 0) continue;
        const V a = rows[r];
        const V b = rows[r | kStep];
        rows[r] = Exchange<kStep, false>(a, b, std::make_index_sequence<kLanes>{});
        rows[r | kStep] = Exchange<kStep, true>(a, b, std::make_index_sequence<kLanes>{});
      }
      Step<2 * kStep>(rows);
    }
  }
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_VECTOR_TRANSPOSE_H_
