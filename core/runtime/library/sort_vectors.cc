#include "core/runtime/library/sort_vectors.h"

#if defined(__x86_64__) && defined(__GNUC__)

// GCC 12 takes the undefined vectors of its own header for mistakes (GCC's bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "core/runtime/cpu_info.h"
#include "core/runtime/parallel.h"

// The functions below are compiled for these instructions, whatever the rest of the library is.
#define TRIPONT_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,popcnt")))
#define TRIPONT_AVX512_INLINE TRIPONT_AVX512 __attribute__((always_inline)) static inline

namespace tripont {
namespace {

// Registers of a sorting network: rows of numbers, of which each lane is a column.
constexpr int kMostRows = 16;
// Numbers that a part has at least which is worth a thread's partition.
constexpr int64_t kParallelPart = 1 << 15;
// Numbers of a part from which on its pivot is the median of more samples.
constexpr int64_t kLongPart = 2048;

template <typename T>
struct Lanes;

template <>
struct Lanes<uint32_t> {
  using Mask = __mmask16;
  static constexpr int kCount = 16;
  TRIPONT_AVX512_INLINE __m512i Set(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  TRIPONT_AVX512_INLINE __m512i LoadPart(__m512i other, Mask mask, const uint32_t* from) {
    return _mm512_mask_loadu_epi32(other, mask, from);
  }
  TRIPONT_AVX512_INLINE void StorePart(uint32_t* to, Mask mask, __m512i x) {
    _mm512_mask_storeu_epi32(to, mask, x);
  }
  TRIPONT_AVX512_INLINE Mask Below(__m512i a, __m512i b) { return _mm512_cmplt_epu32_mask(a, b); }
  TRIPONT_AVX512_INLINE __m512i Compress(Mask mask, __m512i x) {
    return _mm512_maskz_compress_epi32(mask, x);
  }
  TRIPONT_AVX512_INLINE __m512i Min(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
  TRIPONT_AVX512_INLINE __m512i Max(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
  // The smaller numbers, in the lanes of `greater` the greater ones.
  TRIPONT_AVX512_INLINE __m512i MinOrMax(Mask greater, __m512i a, __m512i b) {
    return _mm512_mask_max_epu32(Min(a, b), greater, a, b);
  }
  TRIPONT_AVX512_INLINE __m512i Permute(__m512i index, __m512i x) {
    return _mm512_permutexvar_epi32(index, x);
  }
  TRIPONT_AVX512_INLINE __m512i PermuteTwo(__m512i a, __m512i index, __m512i b) {
    return _mm512_permutex2var_epi32(a, index, b);
  }
};

template <>
struct Lanes<uint64_t> {
  using Mask = __mmask8;
  static constexpr int kCount = 8;
  TRIPONT_AVX512_INLINE __m512i Set(uint64_t x) {
    return _mm512_set1_epi64(static_cast<long long>(x));
  }
  TRIPONT_AVX512_INLINE __m512i LoadPart(__m512i other, Mask mask, const uint64_t* from) {
    return _mm512_mask_loadu_epi64(other, mask, from);
  }
  TRIPONT_AVX512_INLINE void StorePart(uint64_t* to, Mask mask, __m512i x) {
    _mm512_mask_storeu_epi64(to, mask, x);
  }
  TRIPONT_AVX512_INLINE Mask Below(__m512i a, __m512i b) { return _mm512_cmplt_epu64_mask(a, b); }
  TRIPONT_AVX512_INLINE __m512i Compress(Mask mask, __m512i x) {
    return _mm512_maskz_compress_epi64(mask, x);
  }
  TRIPONT_AVX512_INLINE __m512i Min(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
  TRIPONT_AVX512_INLINE __m512i Max(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
  TRIPONT_AVX512_INLINE __m512i MinOrMax(Mask greater, __m512i a, __m512i b) {
    return _mm512_mask_max_epu64(Min(a, b), greater, a, b);
  }
  TRIPONT_AVX512_INLINE __m512i Permute(__m512i index, __m512i x) {
    return _mm512_permutexvar_epi64(index, x);
  }
  TRIPONT_AVX512_INLINE __m512i PermuteTwo(__m512i a, __m512i index, __m512i b) {
    return _mm512_permutex2var_epi64(a, index, b);
  }
};

// The first `count` lanes.
template <typename T>
constexpr typename Lanes<T>::Mask First(int64_t count) {
  return static_cast<typename Lanes<T>::Mask>((uint32_t{1} << count) - 1);
}

// The lanes whose number has `bit`.
template <typename T>
constexpr typename Lanes<T>::Mask WithBit(int bit) {
  uint32_t mask = 0;
  for (int lane = 0; lane < Lanes<T>::kCount; ++lane) {
    if ((lane & bit) != 0) mask |= uint32_t{1} << lane;
  }
  return static_cast<typename Lanes<T>::Mask>(mask);
}

// Lane numbers for Permute and PermuteTwo.
template <typename T>
using Index = std::array<T, static_cast<size_t>(Lanes<T>::kCount)>;

// Each lane gets that whose number differs by `bits`.
template <typename T, int kBits>
constexpr Index<T> ExchangedLanes() {
  Index<T> index{};
  for (size_t lane = 0; lane < index.size(); ++lane) index[lane] = static_cast<T>(lane ^ kBits);
  return index;
}

// The lanes of two vectors in turns, from lane `kFirst` on.
template <typename T, int kFirst>
constexpr Index<T> LanesInTurns() {
  Index<T> index{};
  for (size_t lane = 0; lane < index.size(); ++lane) {
    index[lane] = static_cast<T>(kFirst + lane / 2 + lane % 2 * index.size());
  }
  return index;
}

template <typename T, int kBits>
TRIPONT_AVX512_INLINE __m512i Exchange(__m512i x) {
  static constexpr Index<T> index = ExchangedLanes<T, kBits>();
  return Lanes<T>::Permute(_mm512_loadu_si512(index.data()), x);
}

template <typename T>
TRIPONT_AVX512_INLINE void CompareRows(__m512i& a, __m512i& b) {
  const __m512i smaller = Lanes<T>::Min(a, b);
  b = Lanes<T>::Max(a, b);
  a = smaller;
}

// Compares each row with that `kDistance` behind it, and so on for smaller distances.
template <typename T, int kRows, int kDistance>
TRIPONT_AVX512_INLINE void CompareDistances(__m512i* x) {
  if constexpr (kDistance > 0) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      if ((row & kDistance) == 0) CompareRows<T>(x[row], x[row + kDistance]);
    }
    CompareDistances<T, kRows, kDistance / 2>(x);
  }
}

// Sorts each column: merges sorted runs of kRun / 2 rows into runs of kRun, and so on.
template <typename T, int kRows, int kRun>
TRIPONT_AVX512_INLINE void SortColumns(__m512i* x) {
  if constexpr (kRun <= kRows) {
#pragma GCC unroll 16
    for (int first = 0; first < kRows; first += kRun) {
#pragma GCC unroll 16
      for (int row = 0; row < kRun / 2; ++row) {
        CompareRows<T>(x[first + row], x[first + kRun - 1 - row]);
      }
    }
    CompareDistances<T, kRows, kRun / 4>(x);
    SortColumns<T, kRows, 2 * kRun>(x);
  }
}

// Compares each column with that `kDistance` beside it, and so on for smaller distances.
template <typename T, int kRows, int kDistance>
TRIPONT_AVX512_INLINE void CompareColumns(__m512i* x) {
  if constexpr (kDistance > 0) {
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const __m512i other = Exchange<T, kDistance>(x[row]);
      x[row] = Lanes<T>::MinOrMax(WithBit<T>(kDistance), x[row], other);
    }
    CompareColumns<T, kRows, kDistance / 2>(x);
  }
}

// Merges sorted runs of kWidth / 2 columns, each read from top to bottom, into runs of kWidth, and so
// on. A run is merged with the next one read backwards.
template <typename T, int kRows, int kWidth>
TRIPONT_AVX512_INLINE void MergeColumns(__m512i* x) {
  if constexpr (kWidth <= Lanes<T>::kCount) {
    constexpr auto kGreater = WithBit<T>(kWidth / 2);
#pragma GCC unroll 16
    for (int row = 0; row < (kRows + 1) / 2; ++row) {
      const int last = kRows - 1 - row;
      const __m512i a = Exchange<T, kWidth - 1>(x[last]);
      const __m512i b = Exchange<T, kWidth - 1>(x[row]);
      x[row] = Lanes<T>::MinOrMax(kGreater, x[row], a);
      if (last != row) x[last] = Lanes<T>::MinOrMax(kGreater, x[last], b);
    }
    CompareColumns<T, kRows, kWidth / 4>(x);
    CompareDistances<T, kRows, kRows / 2>(x);
    MergeColumns<T, kRows, 2 * kWidth>(x);
  }
}

// Puts columns that follow each other into rows that do: takes rows of the first and of the second half
// in turns, element by element, until a column's elements are neighbours.
template <typename T, int kRows, int kRounds>
TRIPONT_AVX512_INLINE void Transpose(__m512i* x) {
  if constexpr (kRounds > 1) {
    static constexpr Index<T> low = LanesInTurns<T, 0>();
    static constexpr Index<T> high = LanesInTurns<T, Lanes<T>::kCount / 2>();
    __m512i turns[kRows];
#pragma GCC unroll 16
    for (int row = 0; row < kRows / 2; ++row) {
      const __m512i a = x[row];
      const __m512i b = x[row + kRows / 2];
      turns[2 * row] = Lanes<T>::PermuteTwo(a, _mm512_loadu_si512(low.data()), b);
      turns[2 * row + 1] = Lanes<T>::PermuteTwo(a, _mm512_loadu_si512(high.data()), b);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) x[row] = turns[row];
    Transpose<T, kRows, kRounds / 2>(x);
  }
}

// to[0, n) := from[0, n) in order, n <= kRows vectors.
template <typename T, int kRows>
TRIPONT_AVX512 void SortInRegisters(const T* from, T* to, int64_t n) {
  constexpr int64_t kCount = Lanes<T>::kCount;
  const __m512i behind = Lanes<T>::Set(std::numeric_limits<T>::max());
  __m512i x[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    const int64_t left = std::clamp<int64_t>(n - row * kCount, 0, kCount);
    x[row] = Lanes<T>::LoadPart(behind, First<T>(left), from + row * kCount);
  }
  SortColumns<T, kRows, 2>(x);
  MergeColumns<T, kRows, 2>(x);
  Transpose<T, kRows, kRows>(x);
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    const int64_t left = std::clamp<int64_t>(n - row * kCount, 0, kCount);
    Lanes<T>::StorePart(to + row * kCount, First<T>(left), x[row]);
  }
}

// The same for any n up to kMostRows vectors.
template <typename T>
void SortFew(const T* from, T* to, int64_t n) {
  constexpr int64_t kCount = Lanes<T>::kCount;
  if (n <= kCount) return SortInRegisters<T, 1>(from, to, n);
  if (n <= 2 * kCount) return SortInRegisters<T, 2>(from, to, n);
  if (n <= 4 * kCount) return SortInRegisters<T, 4>(from, to, n);
  if (n <= 8 * kCount) return SortInRegisters<T, 8>(from, to, n);
  return SortInRegisters<T, kMostRows>(from, to, n);
}

// Where a partition writes next: behind the numbers in front, and before those at the end.
template <typename T>
struct Places {
  T* front;
  T* end;
};

// Writes the numbers of x in the lanes `below` in front, those in the lanes `others` at the end.
template <typename T>
TRIPONT_AVX512_INLINE void Distribute(__m512i x, typename Lanes<T>::Mask below,
                                      typename Lanes<T>::Mask others, Places<T>& places) {
  const int number_below = std::popcount(static_cast<uint32_t>(below));
  const int number_others = std::popcount(static_cast<uint32_t>(others));
  Lanes<T>::StorePart(places.front, First<T>(number_below), Lanes<T>::Compress(below, x));
  places.front += number_below;
  places.end -= number_others;
  Lanes<T>::StorePart(places.end, First<T>(number_others), Lanes<T>::Compress(others, x));
}

// to := the numbers of from[0, n) that are below `pivot`, in front, and the others, at the end. Returns
// how many are below. `kOrEqual`: those that are the pivot are in front, too.
template <typename T, bool kOrEqual>
TRIPONT_AVX512 int64_t Partition(const T* from, int64_t n, T pivot, T* to) {
  using Lane = Lanes<T>;
  using Mask = typename Lane::Mask;
  const __m512i pivots = Lane::Set(pivot);
  Places<T> places{to, to + n};
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + Lane::kCount <= n; i += Lane::kCount) {
    const __m512i x = _mm512_loadu_si512(from + i);
    const Mask below =
        kOrEqual ? static_cast<Mask>(~Lane::Below(pivots, x)) : Lane::Below(x, pivots);
    Distribute<T>(x, below, static_cast<Mask>(~below), places);
  }
  const Mask rest = First<T>(n - i);
  const __m512i x = Lane::LoadPart(pivots, rest, from + i);
  const Mask below = kOrEqual ? static_cast<Mask>(~Lane::Below(pivots, x)) : Lane::Below(x, pivots);
  Distribute<T>(x, below & rest, static_cast<Mask>(~below & rest), places);
  return places.front - to;
}

// The median of samples of x[0, n).
template <typename T>
T ChoosePivot(const T* x, int64_t n) {
  const int64_t count = n < kLongPart ? Lanes<T>::kCount : 4 * Lanes<T>::kCount;
  std::array<T, 4 * static_cast<size_t>(Lanes<T>::kCount)> samples;
  const int64_t step = n / count;
  for (int64_t i = 0; i < count; ++i) samples[static_cast<size_t>(i)] = x[i * step + step / 2];
  SortFew(samples.data(), samples.data(), count);
  return samples[static_cast<size_t>(count / 2)];
}

// Numbers to be sorted: they are in `from`, and come into `from` or `other`.
template <typename T>
struct Part {
  T* from;
  T* other;
  int64_t n;
  bool stays;  // the sorted numbers belong into `from`
  int depth;   // partitions that may still be made

  T* result() const { return stays ? from : other; }
};

// Divides a part of more than kMostRows vectors. The second part is empty where the first one, in its
// place, is sorted already.
template <typename T>
std::array<Part<T>, 2> Divide(const Part<T>& part) {
  const T pivot = ChoosePivot(part.from, part.n);
  int64_t below = Partition<T, false>(part.from, part.n, pivot, part.other);
  const auto rest = [&](int64_t begin, int64_t n) {
    return Part<T>{part.other + begin, part.from + begin, n, !part.stays, part.depth - 1};
  };
  if (below > 0) return {rest(0, below), rest(below, part.n - below)};
  // The pivot is the smallest number.
  below = Partition<T, true>(part.from, part.n, pivot, part.other);
  std::fill_n(part.result(), below, pivot);
  return {rest(below, part.n - below), rest(part.n, 0)};
}

template <typename T>
void Sort(Part<T> part) {
  while (part.n > kMostRows * Lanes<T>::kCount) {
    if (part.depth == 0) {  // pivots that divide nothing, one after the other
      std::sort(part.from, part.from + part.n);
      if (!part.stays) std::copy_n(part.from, part.n, part.other);
      return;
    }
    const auto [first, second] = Divide(part);
    Sort(first.n < second.n ? first : second);
    part = first.n < second.n ? second : first;
  }
  if (part.n > 0) SortFew(part.from, part.result(), part.n);
}

template <typename T>
void SortParts(const Part<T>& whole) {
  // Divided part by part, all parts of a round at once, until each thread has some.
  std::vector<Part<T>> parts = {whole};
  const auto enough = static_cast<size_t>(4 * NumThreads());
  for (bool divides = true; divides && parts.size() < enough;) {
    std::vector<std::array<Part<T>, 2>> divided(parts.size());
    const auto is_long = [](const Part<T>& p) { return p.n >= kParallelPart && p.depth > 0; };
    divides = std::any_of(parts.begin(), parts.end(), is_long);
    ParallelFor(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        divided[i] = {parts[i], Part<T>{}};
        if (is_long(parts[i])) divided[i] = Divide(parts[i]);
      }
    });
    parts.clear();
    for (const auto& two : divided) {
      for (const Part<T>& part : two) {
        if (part.n > 0) parts.push_back(part);
      }
    }
  }
  ParallelFor(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Sort(parts[static_cast<size_t>(i)]);
  });
}

template <typename T>
void SortWhole(T* data, T* scratch, int64_t n, bool parallel) {
  const int depth = 2 * static_cast<int>(std::bit_width(static_cast<uint64_t>(n)));
  const Part<T> whole{data, scratch, n, true, depth};
  parallel ? SortParts(whole) : Sort(whole);
}

}  // namespace

bool HasSortVectors() { return VectorBytes() == 64; }

void SortInVectors(uint32_t* data, uint32_t* scratch, int64_t n, bool parallel) {
  SortWhole(data, scratch, n, parallel);
}

void SortInVectors(uint64_t* data, uint64_t* scratch, int64_t n, bool parallel) {
  SortWhole(data, scratch, n, parallel);
}

}  // namespace tripont

#else

namespace tripont {

bool HasSortVectors() { return false; }
void SortInVectors(uint32_t*, uint32_t*, int64_t, bool) {}
void SortInVectors(uint64_t*, uint64_t*, int64_t, bool) {}

}  // namespace tripont

#endif
