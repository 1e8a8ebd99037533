// Multiply and add in one instruction: rounding once is as right as rounding twice, and faster.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"  // all functions of vectors are inlined
#endif

#include "core/runtime/library/few_vectors.h"

#include <algorithm>

#include "core/runtime/cpu_info.h"

namespace tripont::lapack {
namespace {

#define TRIPONT_INLINE [[gnu::always_inline]] static inline

// Rows of a triangle whose own unknowns are solved one after the other.
constexpr int64_t kRowsAtOnce = 16;

// In vectors of kBytes, of kCount pairs.
template <typename T, int kBytes, int kCount>
struct FewVectors {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  // Rows that are read at the same time: as many sums as the registers allow.
  static constexpr int kRows = (kBytes == 64 ? 16 : 8) / (kCount == 1 ? 2 : 4);
  typedef T V __attribute__((vector_size(kBytes), may_alias));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));

  TRIPONT_INLINE V Load(const T* from) { return *reinterpret_cast<const Unaligned*>(from); }

  // The sum of kPart bytes' numbers: of halves, until one is left.
  template <int kPart>
  TRIPONT_INLINE T Sum(const T* parts) {
    if constexpr (kPart == sizeof(T)) {
      return *parts;
    } else {
      typedef T Half __attribute__((vector_size(kPart / 2), may_alias));
      const auto* halves = reinterpret_cast<const Half*>(parts);
      const Half sum = halves[0] + halves[1];
      return Sum<kPart / 2>(reinterpret_cast<const T*>(&sum));
    }
  }

  template <int kLines>
  TRIPONT_INLINE void SubtractLines(int64_t k, const T* a, int64_t step, const T* x, T* y,
                                    int64_t apart) {
    V sums[kLines][kCount] = {};
    int64_t p = 0;
    for (; p + kLanes <= k; p += kLanes) {
      V right[kCount];
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) right[c] = Load(x + c * apart + p);
#pragma GCC unroll 8
      for (int r = 0; r < kLines; ++r) {
        const V left = Load(a + r * step + p);
#pragma GCC unroll 4
        for (int c = 0; c < kCount; ++c) sums[r][c] += left * right[c];
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kLines; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) {
        T sum = Sum<kBytes>(reinterpret_cast<const T*>(&sums[r][c]));
        for (int64_t q = p; q < k; ++q) sum += a[r * step + q] * x[c * apart + q];
        y[c * apart + r] -= sum;
      }
    }
  }

  TRIPONT_INLINE void Subtract(int64_t m, int64_t k, const T* a, int64_t step, const T* x, T* y,
                               int64_t apart) {
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows) SubtractLines<kRows>(k, a + i * step, step, x, y + i, apart);
    for (; i < m; ++i) SubtractLines<1>(k, a + i * step, step, x, y + i, apart);
  }

  TRIPONT_INLINE void Solve(int64_t order, const T* a, int64_t step, bool forward, bool unit, T* x,
                            int64_t apart) {
    for (int64_t done = 0; done < order; done += kRowsAtOnce) {
      const int64_t size = std::min(kRowsAtOnce, order - done);
      const int64_t first = forward ? done : order - done - size;
      const int64_t known = forward ? 0 : first + size;
      Subtract(size, done, a + first * step + known, step, x + known, x + first, apart);
      for (int64_t s = 0; s < size; ++s) {
        const int64_t i = forward ? first + s : first + size - 1 - s;
        const T* row = a + i * step;
        const T diagonal = unit ? T(1) : row[i];
#pragma GCC unroll 4
        for (int c = 0; c < kCount; ++c) {
          T* y = x + c * apart;
          T value = y[i];
          for (int64_t q = 1; q <= s; ++q) {
            const int64_t p = forward ? first + q - 1 : first + size - q;
            value -= row[p] * y[p];
          }
          y[i] = value / diagonal;
        }
      }
    }
  }
};

#if defined(__x86_64__)
#define TRIPONT_LEVEL(kBytes, arch)                                                               \
  template <typename T, int kCount>                                                               \
  [[gnu::target(arch)]] void Subtract##kBytes(int64_t m, int64_t k, const T* a, int64_t step,     \
                                              const T* x, T* y, int64_t apart) {                  \
    FewVectors<T, kBytes, kCount>::Subtract(m, k, a, step, x, y, apart);                          \
  }                                                                                               \
  template <typename T, int kCount>                                                               \
  [[gnu::target(arch)]] void Solve##kBytes(int64_t order, const T* a, int64_t step, bool forward, \
                                           bool unit, T* x, int64_t apart) {                      \
    FewVectors<T, kBytes, kCount>::Solve(order, a, step, forward, unit, x, apart);                \
  }
TRIPONT_LEVEL(64, "arch=x86-64-v4,prefer-vector-width=512")
TRIPONT_LEVEL(32, "arch=x86-64-v3")
#undef TRIPONT_LEVEL
#endif

}  // namespace

#if defined(__x86_64__)
bool HasFewVectors() { return VectorBytes() >= 32; }

template <typename T>
void SubtractFew(int64_t m, int64_t k, int count, const T* a, int64_t step, const T* x, T* y,
                 int64_t apart) {
  constexpr decltype(&Subtract64<T, 1>) kWays[2][kFewVectors] = {
      {Subtract32<T, 1>, Subtract32<T, 2>, Subtract32<T, 3>, Subtract32<T, 4>},
      {Subtract64<T, 1>, Subtract64<T, 2>, Subtract64<T, 3>, Subtract64<T, 4>}};
  kWays[VectorBytes() == 64][count - 1](m, k, a, step, x, y, apart);
}

template <typename T>
void SolveFew(int64_t order, int count, const T* a, int64_t step, bool forward, bool unit, T* x,
              int64_t apart) {
  constexpr decltype(&Solve64<T, 1>) kWays[2][kFewVectors] = {
      {Solve32<T, 1>, Solve32<T, 2>, Solve32<T, 3>, Solve32<T, 4>},
      {Solve64<T, 1>, Solve64<T, 2>, Solve64<T, 3>, Solve64<T, 4>}};
  kWays[VectorBytes() == 64][count - 1](order, a, step, forward, unit, x, apart);
}
#else
bool HasFewVectors() { return false; }

template <typename T>
void SubtractFew(int64_t, int64_t, int, const T*, int64_t, const T*, T*, int64_t) {}

template <typename T>
void SolveFew(int64_t, int, const T*, int64_t, bool, bool, T*, int64_t) {}
#endif

#define TRIPONT_INSTANTIATE(T)                                                                   \
  template void SubtractFew<T>(int64_t, int64_t, int, const T*, int64_t, const T*, T*, int64_t); \
  template void SolveFew<T>(int64_t, int, const T*, int64_t, bool, bool, T*, int64_t);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
