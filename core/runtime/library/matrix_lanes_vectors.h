// Vectors whose lanes are numbers of different matrices (matrix_lanes.h), and what the algorithms on them share: reading and
// writing matrices, and products. Included by the files of the algorithms alone, and before all else: the pragmas hold for what
// follows them.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_MATRIX_LANES_VECTORS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_MATRIX_LANES_VECTORS_H_

// Multiply and add in one instruction: rounding once is as right as rounding twice, and faster.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"  // all functions of vectors are inlined
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/runtime/cpu_info.h"
#include "core/runtime/library/matrix_lanes.h"
#include "core/runtime/library/vector_transpose.h"

namespace tripont::matrix_lanes {

#define TRIPONT_INLINE [[gnu::always_inline]] static inline

// Rows and columns of a product that stay in registers.
constexpr int kBlock = 4;

// The vectors, of kBytes.
template <typename T, int kBytes>
struct Lanes {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef T V __attribute__((vector_size(kBytes), may_alias));
  typedef Bits I __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));

  static constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
  static constexpr Bits kInfinity = Bits(2 * std::numeric_limits<T>::max_exponent - 1)
                                    << kMantissa;  // its bits
  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon();

  // The stride of lines of `length` numbers in the workspace. Lines whose stride is a large power of
  // two would share few sets of the nearest cache.
  TRIPONT_INLINE int64_t Stride(int64_t length) {
    return length % kLanes == 0 && length * kBytes >= 1024 ? length + 1 : length;
  }

  // A matrix in the workspace.
  struct View {
    V* data;
    int64_t row;
    int64_t column;
    // Of [rows,columns], as Load has put it there.
    TRIPONT_INLINE View Of(V* data, const Layout& layout, int64_t rows, int64_t columns) {
      const int64_t stride = Stride(layout.column_major ? rows : columns);
      View view{data, layout.column_major ? 1 : stride, layout.column_major ? stride : 1};
      if (layout.rows_reversed) {
        view.data += (rows - 1) * view.row;
        view.row = -view.row;
      }
      if (layout.columns_reversed) {
        view.data += (columns - 1) * view.column;
        view.column = -view.column;
      }
      return view;
    }
    [[gnu::always_inline]] V& operator()(int64_t i, int64_t j) const {
      return data[i * row + j * column];
    }
    [[gnu::always_inline]] View At(int64_t i, int64_t j) const {
      return {data + i * row + j * column, row, column};
    }
    [[gnu::always_inline]] View Transposed() const { return {data, column, row}; }
  };

  // ------------------------------------------------------------------------------- elements
  TRIPONT_INLINE V All(T value) { return V{} + value; }
  TRIPONT_INLINE I AllBits(Bits value) { return I{} + value; }
  TRIPONT_INLINE V Abs(const V& x) { return (V)((I)x & std::numeric_limits<Bits>::max()); }
  TRIPONT_INLINE V Sqrt(const V& x) {
#if defined(__x86_64__) && !defined(__clang__)
    // GCC takes std::sqrt for a function that sets errno, one number at a time. Clang refuses wide
    // registers in a function whose target has none, whatever it is inlined into.
    V root;
    if constexpr (kBytes > 16 && sizeof(T) == 4) asm("vsqrtps %1, %0" : "=v"(root) : "v"(x));
    if constexpr (kBytes > 16 && sizeof(T) == 8) asm("vsqrtpd %1, %0" : "=v"(root) : "v"(x));
    if constexpr (kBytes == 16 && sizeof(T) == 4) asm("sqrtps %1, %0" : "=x"(root) : "x"(x));
    if constexpr (kBytes == 16 && sizeof(T) == 8) asm("sqrtpd %1, %0" : "=x"(root) : "x"(x));
    return root;
#else
    V root = x;
    for (int l = 0; l < kLanes; ++l) root[l] = std::sqrt(x[l]);
    return root;
#endif
  }
  // x, or 0 in the lanes of a mask.
  TRIPONT_INLINE V ZeroIf(const I& mask, const V& x) { return (V)((I)x & ~mask); }
  TRIPONT_INLINE V Max(const V& a, const V& b) { return a > b ? a : b; }
  // The bits that any lane has. GCC reduces wide vectors lane by lane; pieces of 16 bytes it takes out in one instruction.
  TRIPONT_INLINE Bits Union(const I& bits) {
    typedef int64_t Piece __attribute__((vector_size(16), may_alias));
    const Piece* const pieces = reinterpret_cast<const Piece*>(&bits);
    Piece all = pieces[0];
#pragma GCC unroll 4
    for (int p = 1; p < kBytes / 16; ++p) all |= pieces[p];
    const int64_t both = all[0] | all[1];
    return static_cast<Bits>(sizeof(Bits) == 8 ? both : both | both >> 32);
  }
  TRIPONT_INLINE bool Any(const I& mask) { return Union(mask) != 0; }
  // The lanes of a mask, which are 0 or -1.
  TRIPONT_INLINE LaneSet SetOf(const I& mask, int count) {
    I lane = I{};
#pragma GCC unroll 16
    for (int l = 0; l < kLanes; ++l) lane[l] = Bits{1} << l;
    return static_cast<LaneSet>(Union(mask & lane)) & ((LaneSet{1} << count) - 1);
  }
  // Divides many numbers by one: by a multiplication with its inverse, and where that may overflow by a division. Which
  // of the two it is in a lane does not depend on the other lanes.
  struct Divisor {
    V value;
    V inverse;
    I small;
    bool any_small;
    TRIPONT_INLINE Divisor Of(const V& value) {
      const I small = Abs(value) < std::numeric_limits<T>::min();
      return {value, T{1} / value, small, Any(small)};
    }
    [[gnu::always_inline]] V Divide(const V& x) const {
      const V product = x * inverse;
      if (!any_small) return product;
      return small ? x / value : product;
    }
  };
  // Not true of NaNs.
  TRIPONT_INLINE I IsFinite(const V& x) { return Abs(x) < std::numeric_limits<T>::infinity(); }
  // The largest power of two in a number, and its inverse; of numbers so small or large that one
  // of them would not be normal, the nearest for which both are.
  TRIPONT_INLINE void PowerOfTwo(const V& x, V& power, V& inverse) {
    const I exponent = (I)x & kInfinity;
    constexpr Bits kLeast = Bits(1) << kMantissa;
    constexpr Bits kSum = kInfinity - kLeast;  // of the exponents of a power and its inverse
    const I low = AllBits(kLeast);
    const I high = AllBits(kSum - kLeast);
    I bits = exponent < low ? low : exponent;
    bits = bits > high ? high : bits;
    power = (V)bits;
    inverse = (V)(kSum - bits);
  }

  // --------------------------------------------------------------------- reading and writing
  // `elements` numbers of each matrix, which are `size` apart. Lanes beyond `count` repeat the last
  // matrix.
  TRIPONT_INLINE void LoadLine(const T* from, int64_t elements, int64_t size, int count, V* to) {
    int64_t e = 0;
    for (; e + kLanes <= elements; e += kLanes) {
      V rows[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        rows[l] = *reinterpret_cast<const Unaligned*>(from + std::min(l, count - 1) * size + e);
      }
      VectorTranspose<T, kBytes>::Run(rows);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) to[e + l] = rows[l];
    }
    T* numbers = reinterpret_cast<T*>(to + e);
    for (int l = 0; l < kLanes; ++l) {
      const T* matrix = from + std::min(l, count - 1) * size + e;
      for (int64_t i = 0; i < elements - e; ++i) numbers[i * kLanes + l] = matrix[i];
    }
  }
  TRIPONT_INLINE void StoreLine(const V* from, int64_t elements, int64_t size, int count, T* to) {
    int64_t e = 0;
    for (; e + kLanes <= elements; e += kLanes) {
      V rows[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) rows[l] = from[e + l];
      VectorTranspose<T, kBytes>::Run(rows);
      if (count == kLanes) {
#pragma GCC unroll 16
        for (int l = 0; l < kLanes; ++l) {
          *reinterpret_cast<Unaligned*>(to + l * size + e) = rows[l];
        }
      } else {
        for (int l = 0; l < count; ++l) {
          *reinterpret_cast<Unaligned*>(to + l * size + e) = rows[l];
        }
      }
    }
    const T* numbers = reinterpret_cast<const T*>(from + e);
    for (int l = 0; l < count; ++l) {
      T* matrix = to + l * size + e;
      for (int64_t i = 0; i < elements - e; ++i) matrix[i] = numbers[i * kLanes + l];
    }
  }

  // Matrices [rows,columns] to the workspace, and back. Lines without gaps go as one.
  TRIPONT_INLINE void Load(const T* from, const Layout& layout, int64_t rows, int64_t columns,
                           int count, V* to) {
    const int64_t size = rows * columns;
    const int64_t length = layout.column_major ? rows : columns;
    const int64_t stride = Stride(length);
    const int64_t step = stride == length ? size : length;
    for (int64_t e = 0; e < size; e += step, to += stride) {
      LoadLine(from + e, step, size, count, to);
    }
  }
  TRIPONT_INLINE void Store(const V* from, const Layout& layout, int64_t rows, int64_t columns,
                            int count, T* to) {
    const int64_t size = rows * columns;
    const int64_t length = layout.column_major ? rows : columns;
    const int64_t stride = Stride(length);
    const int64_t step = stride == length ? size : length;
    for (int64_t e = 0; e < size; e += step, from += stride) {
      StoreLine(from, step, size, count, to + e);
    }
  }

  // ------------------------------------------------------------------------------- products
  // c -= a b, [kRows,depth] by [depth,kColumns]. kLower: elements above c's diagonal stay.
  template <int kRows, int kColumns, bool kLower>
  TRIPONT_INLINE void SubtractBlock(const View& c, const View& a, const View& b, int64_t depth) {
    V sums[kRows][kColumns];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        if (!kLower || j <= i) sums[i][j] = c(i, j);
      }
    }
    for (int64_t p = 0; p < depth; ++p) {
      V left[kRows];
      V right[kColumns];
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) left[i] = a(i, p);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) right[j] = b(p, j);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kColumns; ++j) {
          if (!kLower || j <= i) sums[i][j] -= left[i] * right[j];
        }
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        if (!kLower || j <= i) c(i, j) = sums[i][j];
      }
    }
  }

  // c [m,n] -= a [m,depth] b [depth,n].
  TRIPONT_INLINE void Subtract(const View& c, int64_t m, int64_t n, const View& a, const View& b,
                               int64_t depth) {
    int64_t i = 0;
    for (; i + kBlock <= m; i += kBlock) {
      int64_t j = 0;
      for (; j + kBlock <= n; j += kBlock) {
        SubtractBlock<kBlock, kBlock, false>(c.At(i, j), a.At(i, 0), b.At(0, j), depth);
      }
      for (; j < n; ++j) {
        SubtractBlock<kBlock, 1, false>(c.At(i, j), a.At(i, 0), b.At(0, j), depth);
      }
    }
    for (; i < m; ++i) {
      int64_t j = 0;
      for (; j + kBlock <= n; j += kBlock) {
        SubtractBlock<1, kBlock, false>(c.At(i, j), a.At(i, 0), b.At(0, j), depth);
      }
      for (; j < n; ++j) SubtractBlock<1, 1, false>(c.At(i, j), a.At(i, 0), b.At(0, j), depth);
    }
  }
};

#if defined(__x86_64__)
template <template <typename, int> class Algorithms, typename T, typename Tile>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void Run64(Tile& tile) {
  Algorithms<T, 64>::Run(tile);
}
template <template <typename, int> class Algorithms, typename T, typename Tile>
[[gnu::target("arch=x86-64-v3")]] void Run32(Tile& tile) {
  Algorithms<T, 32>::Run(tile);
}
#endif

// Runs one of the Algorithms, a struct like Lanes with a function Run(tile), in the widest vectors of this CPU.
template <template <typename, int> class Algorithms, typename T, typename Tile>
void RunLanes(Tile& tile) {
#if defined(__x86_64__)
  if (VectorBytes() == 64) return Run64<Algorithms, T>(tile);
  if (VectorBytes() == 32) return Run32<Algorithms, T>(tile);
#endif
  Algorithms<T, 16>::Run(tile);
}

}  // namespace tripont::matrix_lanes

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_MATRIX_LANES_VECTORS_H_
