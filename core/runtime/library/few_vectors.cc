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

// Unknowns that are solved one after the other: a group, in vectors of kBytes.
template <typename T, int kBytes>
constexpr int64_t kGroup = std::max<int64_t>(8, kBytes / static_cast<int64_t>(sizeof(T)));

// In vectors of kBytes, of kCount pairs.
template <typename T, int kBytes, int kCount>
struct FewVectors {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  // Rows that are read at the same time: as many sums as the registers allow.
  static constexpr int kRows = (kBytes == 64 ? 16 : 8) / (kCount == 1 ? 2 : 4);
  static constexpr int kColumns = kGroup<T, kBytes>;
  // Numbers that a cache line holds.
  static constexpr int kAsked = 64 / static_cast<int>(sizeof(T));
  static_assert(kVectorBlock % kColumns == 0 && kColumns % kRows == 0);
  typedef T V __attribute__((vector_size(kBytes), may_alias));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));

  TRIPONT_INLINE V Load(const T* from) { return *reinterpret_cast<const Unaligned*>(from); }
  TRIPONT_INLINE void Store(T* to, const V& value) { *reinterpret_cast<Unaligned*>(to) = value; }

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
  TRIPONT_INLINE void AddProducts(const T* a, int64_t step, const T* x, int64_t apart,
                                  V (&sums)[kLines][kCount]) {
    V right[kCount];
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) right[c] = Load(x + c * apart);
#pragma GCC unroll 8
    for (int r = 0; r < kLines; ++r) {
      const V left = Load(a + r * step);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) sums[r][c] += left * right[c];
    }
  }

  // y [kLines] -= a [kLines,k] x [k] of rows. Asks for the next kLines, which need not exist.
  template <int kLines>
  TRIPONT_INLINE void SubtractRows(int64_t k, const T* a, int64_t step, const T* x, T* y,
                                   int64_t apart) {
    V sums[kLines][kCount] = {};
    int64_t p = 0;
    for (; p + kAsked <= k; p += kAsked) {
#pragma GCC unroll 8
      for (int r = 0; r < kLines; ++r) __builtin_prefetch(a + (kLines + r) * step + p);
#pragma GCC unroll 4
      for (int q = 0; q < kAsked; q += kLanes) {
        AddProducts<kLines>(a + p + q, step, x + p + q, apart, sums);
      }
    }
    for (; p + kLanes <= k; p += kLanes) AddProducts<kLines>(a + p, step, x + p, apart, sums);
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

  // The same of rows that are longer than a sum, from the unknowns on that are solved first.
  template <int kLines>
  TRIPONT_INLINE void SubtractLongRows(int64_t k, const T* a, int64_t step, bool forward,
                                       const T* x, T* y, int64_t apart) {
    for (int64_t done = 0; done < k; done += kVectorBlock) {
      const int64_t size = std::min(kVectorBlock, k - done);
      const int64_t first = forward ? done : k - done - size;
      SubtractRows<kLines>(size, a + first, step, x + first, y, apart);
    }
  }

  TRIPONT_INLINE void SubtractSums(const T* a, int64_t step, const V (&x)[kColumns][kCount], T* y,
                                   int64_t apart) {
    V sums[kCount];
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
      const V left = Load(a + j * step);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) {
        sums[c] = j == 0 ? left * x[j][c] : sums[c] + left * x[j][c];
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) Store(y + c * apart, Load(y + c * apart) - sums[c]);
  }

  // y [m] -= a [m,kColumns] x [kColumns] of columns: each element loses one sum.
  TRIPONT_INLINE void SubtractColumns(int64_t m, const T* a, int64_t step, const T* x, T* y,
                                      int64_t apart) {
    V right[kColumns][kCount] = {};
#pragma GCC unroll 16
    for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) right[j][c] = x[c * apart + j] - V{};
    }
    int64_t i = 0;
    for (; i + kLanes <= m; i += kLanes) SubtractSums(a + i, step, right, y + i, apart);
    SubtractSome(m - i, kColumns, a + i, step, x, y + i, apart);
  }

  // The same of any number of columns, slowly.
  TRIPONT_INLINE void SubtractSome(int64_t m, int64_t columns, const T* a, int64_t step, const T* x,
                                   T* y, int64_t apart) {
    for (int c = 0; c < kCount; ++c) {
      for (int64_t i = 0; i < m; ++i) {
        T sum = a[i] * x[c * apart];
        for (int64_t j = 1; j < columns; ++j) sum += a[j * step + i] * x[c * apart + j];
        y[c * apart + i] -= sum;
      }
    }
  }

  TRIPONT_INLINE void Subtract(int64_t m, int64_t k, const T* a, int64_t step, TriangleWay way,
                               const T* x, T* y, int64_t apart) {
    if (!way.columns) {
      int64_t i = 0;
      for (; i + kRows <= m; i += kRows) {
        SubtractLongRows<kRows>(k, a + i * step, step, way.forward, x, y + i, apart);
      }
      for (; i < m; ++i) SubtractLongRows<1>(k, a + i * step, step, way.forward, x, y + i, apart);
      return;
    }
    for (int64_t done = 0; done < k; done += kColumns) {
      const int64_t size = std::min<int64_t>(kColumns, k - done);
      const int64_t first = way.forward ? done : k - done - size;
      const T* columns = a + first * step;
      if (size == kColumns) {
        SubtractColumns(m, columns, step, x + first, y, apart);
      } else {
        SubtractSome(m, size, columns, step, x + first, y, apart);
      }
    }
  }
};

// The numbers of all vectors in one place: four, some of which may stand for no vector.
template <typename T, int kCount>
struct Places {
  typedef T Number __attribute__((vector_size(kFewVectors * sizeof(T))));

  TRIPONT_INLINE Number Load(const T* from, int64_t apart) {
    Number value = {};
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) value[c] = from[c * apart];
    return value;
  }
  TRIPONT_INLINE void Store(const Number& value, T* to, int64_t apart) {
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) to[c * apart] = value[c];
  }
};
template <typename T>
struct Places<T, 1> {
  typedef T Number;

  TRIPONT_INLINE Number Load(const T* from, int64_t /*apart*/) { return *from; }
  TRIPONT_INLINE void Store(Number value, T* to, int64_t /*apart*/) { *to = value; }
};

// x of a triangle of kSize rows, whose elements of a row and of a column are `along` and `down` apart. Unrolled, so that
// what is known is in registers: each unknown waits for the one before.
template <typename T, int kSize, int kCount, bool kForward, bool kUnit>
TRIPONT_INLINE void SolveWhole(const T* a, int64_t along, int64_t down, T* x, int64_t apart) {
  using Place = Places<T, kCount>;
  typename Place::Number known[kSize];
#pragma GCC unroll 16
  for (int s = 0; s < kSize; ++s) {
    const int i = kForward ? s : kSize - 1 - s;
    typename Place::Number value = Place::Load(x + i, apart);
#pragma GCC unroll 16
    for (int q = 0; q < s; ++q) {
      const int p = kForward ? q : kSize - 1 - q;
      value -= known[q] * a[i * down + p * along];
    }
    known[s] = kUnit ? value : value / a[i * down + i * along];
  }
#pragma GCC unroll 16
  for (int s = 0; s < kSize; ++s) {
    Place::Store(known[s], x + (kForward ? s : kSize - 1 - s), apart);
  }
}

template <typename T>
TRIPONT_INLINE void SolveSome(int64_t size, const T* a, int64_t along, int64_t down, bool forward,
                              bool unit, T* x) {
  for (int64_t s = 0; s < size; ++s) {
    const int64_t i = forward ? s : size - 1 - s;
    T value = x[i];
    for (int64_t q = 0; q < s; ++q) {
      const int64_t p = forward ? q : size - 1 - q;
      value -= x[p] * a[i * down + p * along];
    }
    x[i] = unit ? value : value / a[i * down + i * along];
  }
}

// x [size] of a triangle [size,size] of at most a group.
template <typename T, int kBytes, int kCount>
TRIPONT_INLINE void SolveGroup(int64_t size, const T* a, int64_t step, TriangleWay way, T* x,
                               int64_t apart) {
  constexpr int kSize = kGroup<T, kBytes>;
  const int64_t along = way.columns ? step : 1;
  const int64_t down = way.columns ? 1 : step;
  if (size != kSize) {
    for (int c = 0; c < kCount; ++c) {
      SolveSome(size, a, along, down, way.forward, way.unit, x + c * apart);
    }
  } else if (way.forward) {
    way.unit ? SolveWhole<T, kSize, kCount, true, true>(a, along, down, x, apart)
             : SolveWhole<T, kSize, kCount, true, false>(a, along, down, x, apart);
  } else {
    way.unit ? SolveWhole<T, kSize, kCount, false, true>(a, along, down, x, apart)
             : SolveWhole<T, kSize, kCount, false, false>(a, along, down, x, apart);
  }
}

#if defined(__x86_64__)
#define TRIPONT_LEVEL(kBytes, arch)                                                               \
  template <typename T, int kCount>                                                               \
  [[gnu::target(arch)]] void Subtract##kBytes(int64_t m, int64_t k, const T* a, int64_t step,     \
                                              TriangleWay way, const T* x, T* y, int64_t apart) { \
    FewVectors<T, kBytes, kCount>::Subtract(m, k, a, step, way, x, y, apart);                     \
  }                                                                                               \
  template <typename T, int kCount>                                                               \
  [[gnu::target(arch)]] void Group##kBytes(int64_t size, const T* a, int64_t step,                \
                                           TriangleWay way, T* x, int64_t apart) {                \
    SolveGroup<T, kBytes, kCount>(size, a, step, way, x, apart);                                  \
  }
TRIPONT_LEVEL(64, "arch=x86-64-v4,prefer-vector-width=512")
TRIPONT_LEVEL(32, "arch=x86-64-v3")
#undef TRIPONT_LEVEL
#endif

}  // namespace

#if defined(__x86_64__)
bool HasFewVectors() { return VectorBytes() >= 32; }

template <typename T>
void SubtractFew(int64_t m, int64_t k, int count, const T* a, int64_t step, TriangleWay way,
                 const T* x, T* y, int64_t apart) {
  constexpr decltype(&Subtract64<T, 1>) kWays[2][kFewVectors] = {
      {Subtract32<T, 1>, Subtract32<T, 2>, Subtract32<T, 3>, Subtract32<T, 4>},
      {Subtract64<T, 1>, Subtract64<T, 2>, Subtract64<T, 3>, Subtract64<T, 4>}};
  kWays[VectorBytes() == 64][count - 1](m, k, a, step, way, x, y, apart);
}

// Rows lose the products of what is known before their group is solved, columns give theirs afterwards.
template <typename T>
void SolveFew(int64_t order, int count, const T* a, int64_t step, TriangleWay way, T* x,
              int64_t apart) {
  constexpr decltype(&Group64<T, 1>) kWays[2][kFewVectors] = {
      {Group32<T, 1>, Group32<T, 2>, Group32<T, 3>, Group32<T, 4>},
      {Group64<T, 1>, Group64<T, 2>, Group64<T, 3>, Group64<T, 4>}};
  const bool wide = VectorBytes() == 64;
  const int64_t group = wide ? kGroup<T, 64> : kGroup<T, 32>;
  for (int64_t done = 0; done < order; done += group) {
    const int64_t size = std::min(group, order - done);
    const int64_t first = way.forward ? done : order - done - size;
    const T* diagonal = a + first * (step + 1);
    if (!way.columns && done > 0) {
      const int64_t known = way.forward ? 0 : first + size;
      SubtractFew(size, done, count, a + first * step + known, step, way, x + known, x + first,
                  apart);
    }
    kWays[wide][count - 1](size, diagonal, step, way, x + first, apart);
    const int64_t left = order - done - size;
    if (way.columns && left > 0) {
      const int64_t unknown = way.forward ? first + size : 0;
      SubtractFew(left, size, count, a + first * step + unknown, step, way, x + first, x + unknown,
                  apart);
    }
  }
}
#else
bool HasFewVectors() { return false; }

template <typename T>
void SubtractFew(int64_t, int64_t, int, const T*, int64_t, TriangleWay, const T*, T*, int64_t) {}

template <typename T>
void SolveFew(int64_t, int, const T*, int64_t, TriangleWay, T*, int64_t) {}
#endif

#define TRIPONT_INSTANTIATE(T)                                                                  \
  template void SubtractFew<T>(int64_t, int64_t, int, const T*, int64_t, TriangleWay, const T*, \
                               T*, int64_t);                                                    \
  template void SolveFew<T>(int64_t, int, const T*, int64_t, TriangleWay, T*, int64_t);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
