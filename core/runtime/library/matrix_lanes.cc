// Multiply and add in one instruction: rounding once is as right as rounding twice, and faster.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"  // all functions of vectors are inlined
#endif

#include "core/runtime/library/matrix_lanes.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/runtime/cpu_info.h"
#include "core/runtime/library/vector_transpose.h"

namespace tripont::matrix_lanes {
namespace {

#define TRIPONT_INLINE [[gnu::always_inline]] static inline

// Columns that an LU factorisation does before it updates the rest by a product.
constexpr int64_t kPanel = 8;
// Rows and columns of a product that stay in registers.
constexpr int kBlock = 4;
// Jacobi's iterations converge in some six sweeps for these orders.
constexpr int kMostSweeps = 40;
// Matrices up to this order go into lanes where there are only two of them.
constexpr int64_t kMostScarce = 8;
constexpr int64_t kMostWorkspace = 1 << 20;  // bytes of a tile

// The algorithms in vectors of kBytes.
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
  TRIPONT_INLINE bool Any(const I& mask) {
    Bits any = 0;
    for (int l = 0; l < kLanes; ++l) any |= mask[l];
    return any != 0;
  }
  TRIPONT_INLINE LaneSet SetOf(const I& mask, int count) {
    LaneSet set = 0;
    for (int l = 0; l < kLanes; ++l) set |= static_cast<LaneSet>(mask[l] != 0) << l;
    return set & ((LaneSet{1} << count) - 1);
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

  // ------------------------------------------------------------------------------- Cholesky
  TRIPONT_INLINE void Run(CholeskyTile<T>& tile) {
    const int64_t n = tile.n;
    V* const data = static_cast<V*>(tile.workspace);
    Load(tile.from, tile.layout, n, n, tile.count, data);
    const View a = View::Of(data, tile.layout, n, n);
    if (tile.symmetrize) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < i; ++j) a(i, j) = (a(i, j) + a(j, i)) * T{0.5};
        a(i, i) = (a(i, i) + a(i, i)) * T{0.5};  // which may be infinite
      }
    }
    I bad = I{};
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t width = std::min<int64_t>(kBlock, n - first);
      const int64_t next = first + width;
      if (first > 0) {
        const View above = a.At(first, 0).Transposed();
        if (width == kBlock) {
          SubtractBlock<kBlock, kBlock, true>(a.At(first, first), a.At(first, 0), above, first);
        } else {
          for (int64_t i = first; i < n; ++i) {
            Subtract(a.At(i, first), 1, i - first + 1, a.At(i, 0), above, first);
          }
        }
        Subtract(a.At(next, first), n - next, width, a.At(next, 0), above, first);
      }
      for (int64_t j = first; j < next; ++j) {
        const V pivot = a(j, j);
        bad |= ~((pivot > T{0}) & IsFinite(pivot));
        const V root = Sqrt(pivot);
        const V inverse = T{1} / root;
        a(j, j) = root;
        for (int64_t i = j + 1; i < n; ++i) {
          const V factor = a(i, j) * inverse;
          a(i, j) = factor;
          for (int64_t k = j + 1; k < std::min(next, i + 1); ++k) a(i, k) -= factor * a(k, j);
        }
      }
    }
    if (tile.zeros) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) a(i, j) = V{};
      }
    }
    Store(data, tile.layout, n, n, tile.count, tile.to);
    tile.failed = SetOf(bad, tile.count);
  }

  // ---------------------------------------------------------------------- triangular systems
  TRIPONT_INLINE void Run(SolveTile<T>& tile) {
    const int64_t n = tile.n;
    const int64_t sides = tile.sides;
    V* const a_data = static_cast<V*>(tile.workspace);
    V* const b_data = a_data + MatrixVectors(n, n);
    Load(tile.a, tile.a_layout, n, n, tile.count, a_data);
    Load(tile.b, tile.b_layout, n, sides, tile.count, b_data);
    const View a = View::Of(a_data, tile.a_layout, n, n);
    const View b = View::Of(b_data, tile.b_layout, n, sides);
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t width = std::min<int64_t>(kBlock, n - first);
      if (first > 0) Subtract(b.At(first, 0), width, sides, a.At(first, 0), b, first);
      for (int64_t i = first; i < first + width; ++i) {
        for (int64_t p = first; p < i; ++p) {
          const V factor = a(i, p);
          for (int64_t j = 0; j < sides; ++j) b(i, j) -= factor * b(p, j);
        }
        if (tile.unit_diagonal) continue;
        const V pivot = a(i, i);
        if (sides == 1) {
          b(i, 0) /= pivot;
          continue;
        }
        const Divisor divisor = Divisor::Of(pivot);
        for (int64_t j = 0; j < sides; ++j) b(i, j) = divisor.Divide(b(i, j));
      }
    }
    Store(b_data, tile.b_layout, n, sides, tile.count, tile.x);
  }

  // ------------------------------------------------------------------------------------- LU
  // Columns [first, next) below the rows above `first`, and the exchanges of their rows in all of
  // the n columns.
  TRIPONT_INLINE void FactorPanel(const View& a, int64_t m, int64_t n, int64_t first, int64_t next,
                                  I* pivots, I& info) {
    for (int64_t j = first; j < next; ++j) {
      V largest = Abs(a(j, j));
      I index = AllBits(static_cast<Bits>(j));
      for (int64_t i = j + 1; i < m; ++i) {
        const V size = Abs(a(i, j));
        const I larger = size > largest;
        largest = larger ? size : largest;
        index = larger ? AllBits(static_cast<Bits>(i)) : index;
      }
      pivots[j] = index + 1;
      uint64_t chosen = 0;
      for (int l = 0; l < kLanes; ++l) chosen |= uint64_t{1} << index[l];
      for (int64_t i = j + 1; i < m; ++i) {
        if ((chosen >> i & 1) == 0) continue;
        const I mask = index == static_cast<Bits>(i);
        for (int64_t k = 0; k < n; ++k) {
          const V here = a(j, k);
          const V there = a(i, k);
          a(j, k) = mask ? there : here;
          a(i, k) = mask ? here : there;
        }
      }
      const V pivot = a(j, j);
      const I zero = pivot == T{0};
      info = (info == 0) & zero ? AllBits(static_cast<Bits>(j + 1)) : info;
      // Below a pivot of zero there are zeros.
      const Divisor divisor = Divisor::Of(zero ? All(T{1}) : pivot);
      for (int64_t i = j + 1; i < m; ++i) {
        const V factor = divisor.Divide(a(i, j));
        a(i, j) = factor;
        for (int64_t k = j + 1; k < next; ++k) a(i, k) -= factor * a(j, k);
      }
    }
  }

  TRIPONT_INLINE void Run(LuTile<T>& tile) {
    const int64_t m = tile.m;
    const int64_t n = tile.n;
    const int64_t count = std::min(m, n);
    V* const data = static_cast<V*>(tile.workspace);
    Load(tile.from, tile.layout, m, n, tile.count, data);
    const View a = View::Of(data, tile.layout, m, n);
    I* const pivots = reinterpret_cast<I*>(data + MatrixVectors(m, n));
    I info = I{};
    for (int64_t first = 0; first < count; first += kPanel) {
      const int64_t next = std::min(first + kPanel, count);
      FactorPanel(a, m, n, first, next, pivots, info);
      for (int64_t k = next; k < n; ++k) {
        for (int64_t j = first; j < next; ++j) {
          const V factor = a(j, k);
          for (int64_t i = j + 1; i < next; ++i) a(i, k) -= a(i, j) * factor;
        }
      }
      if (next < m && next < n) {
        Subtract(a.At(next, next), m - next, n - next, a.At(next, first), a.At(first, next),
                 next - first);
      }
    }
    Store(data, tile.layout, m, n, tile.count, tile.to);
    for (int l = 0; l < tile.count; ++l) {
      for (int64_t j = 0; j < count; ++j) {
        tile.pivots[l * count + j] = static_cast<int32_t>(pivots[j][l]);
      }
      tile.info[l] = static_cast<int32_t>(info[l]);
    }
  }

  // ------------------------------------------------------------------------------------- QR
  // a [m,n] := (1 - tau v v^T) a, v [m] with 1 for its first element.
  TRIPONT_INLINE void Reflect(const View& a, int64_t m, int64_t n, const View& v, const V& tau) {
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock) ReflectColumns<kBlock>(a.At(0, k), m, v, tau);
    for (; k < n; ++k) ReflectColumns<1>(a.At(0, k), m, v, tau);
  }
  template <int kColumns>
  TRIPONT_INLINE void ReflectColumns(const View& a, int64_t m, const View& v, const V& tau) {
    V sums[kColumns];
#pragma GCC unroll 4
    for (int k = 0; k < kColumns; ++k) sums[k] = a(0, k);
    for (int64_t i = 1; i < m; ++i) {
      const V factor = v(i, 0);
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) sums[k] += factor * a(i, k);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kColumns; ++k) {
      sums[k] *= tau;
      a(0, k) -= sums[k];
    }
    for (int64_t i = 1; i < m; ++i) {
      const V factor = v(i, 0);
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) a(i, k) -= sums[k] * factor;
    }
  }

  TRIPONT_INLINE void Run(QrTile<T>& tile) {
    const int64_t m = tile.m;
    const int64_t n = tile.n;
    const int64_t count = std::min(m, n);
    V* const data = static_cast<V*>(tile.workspace);
    V* const taus = data + MatrixVectors(m, n);
    Load(tile.from, tile.layout, m, n, tile.count, data);
    const View a = View::Of(data, tile.layout, m, n);
    for (int64_t j = 0; j < count; ++j) {
      // As xLARFG, in units of a power of two near the column's largest number.
      V largest = Abs(a(j, j));
      for (int64_t i = j + 1; i < m; ++i) largest = Max(Abs(a(i, j)), largest);
      V power;
      V inverse;
      PowerOfTwo(largest, power, inverse);
      const V alpha = a(j, j) * inverse;
      V squares = V{};
      for (int64_t i = j + 1; i < m; ++i) {
        const V x = a(i, j) * inverse;
        squares += x * x;
      }
      const I none = squares == T{0};
      const V norm = Sqrt(alpha * alpha + squares);
      const V beta = alpha >= T{0} ? -norm : norm;
      const V tau = ZeroIf(none, (beta - alpha) / beta);
      const V factor = T{1} / (none ? All(T{1}) : alpha - beta);
      taus[j] = tau;
      a(j, j) = none ? a(j, j) : beta * power;
      for (int64_t i = j + 1; i < m; ++i) {
        a(i, j) = ZeroIf(none, (a(i, j) * inverse) * factor);
      }
      Reflect(a.At(j, j + 1), m - j, n - j - 1, a.At(j, j), tau);
    }
    Store(data, tile.layout, m, n, tile.count, tile.to);
    StoreLine(taus, count, count, tile.count, tile.tau);
  }

  TRIPONT_INLINE void Run(ReflectorsTile<T>& tile) {
    const int64_t m = tile.m;
    const int64_t n = tile.n;
    const int64_t k = tile.k;
    V* const data = static_cast<V*>(tile.workspace);
    V* const taus = data + MatrixVectors(m, n);
    Load(tile.from, tile.layout, m, n, tile.count, data);
    LoadLine(tile.tau, k, k, tile.count, taus);
    const View a = View::Of(data, tile.layout, m, n);
    for (int64_t j = k; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) a(i, j) = V{};
      a(j, j) = All(T{1});
    }
    for (int64_t j = k - 1; j >= 0; --j) {
      const V tau = taus[j];
      Reflect(a.At(j, j + 1), m - j, n - j - 1, a.At(j, j), tau);
      for (int64_t i = j + 1; i < m; ++i) a(i, j) *= -tau;
      a(j, j) = T{1} - tau;
      for (int64_t i = 0; i < j; ++i) a(i, j) = V{};
    }
    Store(data, tile.layout, m, n, tile.count, tile.to);
  }

  // ----------------------------------------------------------------- eigenvalues, Jacobi's way
  // The rotation [[c, s], [-s, c]] that makes [[p, x], [x, q]] diagonal, the smaller of the two
  // angles; none where `mask` is not set. t = s / c.
  struct Rotation {
    V c;
    V s;
    V t;
  };
  TRIPONT_INLINE Rotation RotationOf(const V& p, const V& q, const V& x, const I& mask) {
    const V theta = (q - p) / (mask ? x + x : All(T{1}));
    const V size = T{1} / (Abs(theta) + Sqrt(theta * theta + T{1}));
    V t = theta < T{0} ? -size : size;
    t = ZeroIf(~mask, t);
    const V c = T{1} / Sqrt(t * t + T{1});
    return {c, t * c, t};
  }
  // (x, y) := (c x - s y, s x + c y)
  TRIPONT_INLINE void Rotate(V& x, V& y, const Rotation& r) {
    const V a = x;
    const V b = y;
    x = r.c * a - r.s * b;
    y = r.s * a + r.c * b;
  }
  TRIPONT_INLINE void ExchangeIf(V& x, V& y, const I& mask) {
    const V a = x;
    x = mask ? y : a;
    y = mask ? a : y;
  }

  TRIPONT_INLINE void Run(EigenTile<T>& tile) {
    const int64_t n = tile.n;
    V* const data = static_cast<V*>(tile.workspace);
    V* const v_data = data + MatrixVectors(n, n);
    V* const w = v_data + MatrixVectors(n, n);
    const Layout& layout = tile.layout;
    Load(tile.from, layout, n, n, tile.count, data);
    const View a = View::Of(data, tile.lower ? layout : layout.Transposed(), n, n);
    const View v = View::Of(v_data, layout, n, n);
    V largest = V{};
    I bad = I{};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        largest = Max(Abs(a(i, j)), largest);
        bad |= ~IsFinite(a(i, j));
      }
    }
    V power;
    V inverse;
    PowerOfTwo(largest, power, inverse);
    V squares = V{};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        const V x = ZeroIf(bad, a(i, j) * inverse);
        a(i, j) = x;
        squares += x * x;
      }
    }
    const bool vectors = tile.v != nullptr;
    if (vectors) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) v(i, j) = i == j ? All(T{1}) : V{};
      }
    }
    // What is left off the diagonal is together less than a rounding of the norm.
    const V least = Sqrt(squares) * (kEpsilon / static_cast<T>(4 * n));
    I rotated = AllBits(-1);
    int sweep = 0;
    for (; sweep < kMostSweeps && Any(rotated); ++sweep) {
      rotated = I{};
      for (int64_t q = 1; q < n; ++q) {
        for (int64_t p = 0; p < q; ++p) {
          const V x = a(q, p);
          const I mask = Abs(x) > least;
          if (!Any(mask)) continue;
          rotated |= mask;
          const Rotation r = RotationOf(a(p, p), a(q, q), x, mask);
          a(p, p) -= r.t * x;
          a(q, q) += r.t * x;
          a(q, p) = ZeroIf(mask, x);
          for (int64_t i = 0; i < p; ++i) Rotate(a(p, i), a(q, i), r);
          for (int64_t i = p + 1; i < q; ++i) Rotate(a(i, p), a(q, i), r);
          for (int64_t i = q + 1; i < n; ++i) Rotate(a(i, p), a(i, q), r);
          for (int64_t i = 0; vectors && i < n; ++i) Rotate(v(i, p), v(i, q), r);
        }
      }
    }
    if (sweep == kMostSweeps) bad |= rotated;
    for (int64_t i = 0; i < n; ++i) w[i] = a(i, i) * power;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        const I mask = w[j] < w[i];
        ExchangeIf(w[i], w[j], mask);
        for (int64_t k = 0; vectors && k < n; ++k) ExchangeIf(v(k, i), v(k, j), mask);
      }
    }
    StoreLine(w, n, n, tile.count, tile.w);
    if (vectors) Store(v_data, layout, n, n, tile.count, tile.v);
    tile.failed = SetOf(bad, tile.count);
  }

  // Columns are rotated, two and two, until they are orthogonal: then their norms are the singular
  // values (Hestenes).
  TRIPONT_INLINE void Run(SingularTile<T>& tile) {
    const int64_t n = tile.n;
    V* const data = static_cast<V*>(tile.workspace);
    V* const v_data = data + MatrixVectors(n, n);
    V* const s = v_data + MatrixVectors(n, n);
    V* const norms = s + n;  // squares
    const Layout& layout = tile.layout;
    Load(tile.from, layout, n, n, tile.count, data);
    const View a = View::Of(data, layout, n, n);
    const View v = View::Of(v_data, layout, n, n).Transposed();
    V largest = V{};
    I bad = I{};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        largest = Max(Abs(a(i, j)), largest);
        bad |= ~IsFinite(a(i, j));
      }
    }
    V power;
    V inverse;
    PowerOfTwo(largest, power, inverse);
    const bool vectors = tile.u != nullptr;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        a(i, j) = ZeroIf(bad, a(i, j) * inverse);
        if (vectors) v(i, j) = i == j ? All(T{1}) : V{};
      }
    }
    I rotated = AllBits(-1);
    int sweep = 0;
    for (; sweep < kMostSweeps && Any(rotated); ++sweep) {
      rotated = I{};
      for (int64_t j = 0; j < n; ++j) norms[j] = Squares(a.At(0, j), n);
      for (int64_t q = 1; q < n; ++q) {
        for (int64_t p = 0; p < q; ++p) {
          V x = V{};
          for (int64_t i = 0; i < n; ++i) x += a(i, p) * a(i, q);
          // Orthogonal but for the roundings of x.
          const T least = kEpsilon * static_cast<T>(n) / 2;
          const I mask = x * x > norms[p] * norms[q] * (least * least);
          if (!Any(mask)) continue;
          rotated |= mask;
          const Rotation r = RotationOf(norms[p], norms[q], x, mask);
          for (int64_t i = 0; i < n; ++i) Rotate(a(i, p), a(i, q), r);
          for (int64_t i = 0; vectors && i < n; ++i) Rotate(v(i, p), v(i, q), r);
          norms[p] = Squares(a.At(0, p), n);
          norms[q] = Squares(a.At(0, q), n);
        }
      }
    }
    if (sweep == kMostSweeps) bad |= rotated;
    for (int64_t j = 0; j < n; ++j) s[j] = Sqrt(norms[j]);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        const I mask = s[j] > s[i];
        ExchangeIf(s[i], s[j], mask);
        for (int64_t k = 0; vectors && k < n; ++k) {
          ExchangeIf(a(k, i), a(k, j), mask);
          ExchangeIf(v(k, i), v(k, j), mask);
        }
      }
    }
    if (vectors) {
      bad |= s[n - 1] <= s[0] * (kEpsilon * static_cast<T>(4 * n));
      for (int64_t j = 0; j < n; ++j) {
        const V factor = T{1} / s[j];
        for (int64_t i = 0; i < n; ++i) a(i, j) *= factor;
      }
      Store(data, layout, n, n, tile.count, tile.u);
      Store(v_data, layout, n, n, tile.count, tile.vt);
    }
    for (int64_t j = 0; j < n; ++j) s[j] *= power;
    StoreLine(s, n, n, tile.count, tile.s);
    tile.failed = SetOf(bad, tile.count);
  }
  TRIPONT_INLINE V Squares(const View& column, int64_t n) {
    V sum = V{};
    for (int64_t i = 0; i < n; ++i) sum += column(i, 0) * column(i, 0);
    return sum;
  }
};

#if defined(__x86_64__)
#define TRIPONT_WIDTHS 1
template <typename T, typename Tile>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void Run64(Tile& tile) {
  Lanes<T, 64>::Run(tile);
}
template <typename T, typename Tile>
[[gnu::target("arch=x86-64-v3")]] void Run32(Tile& tile) {
  Lanes<T, 32>::Run(tile);
}
#endif

}  // namespace

template <typename T>
int LaneCount() {
  return VectorBytes() / static_cast<int>(sizeof(T));
}

template <typename T>
Plan PlanFor(int64_t batch, int64_t order, int64_t most, int64_t vectors) {
  if constexpr (!std::is_floating_point_v<T>) {
    return {};
  } else {
    // A tile takes as long for one matrix as for all that it has room for.
    const int lanes = LaneCount<T>();
    const bool full = order <= kMostScarce ? batch > 1 : 4 * batch >= lanes;
    const int64_t bytes = vectors * VectorBytes();
    if (order == 0 || order > most || !full || bytes > kMostWorkspace) return {};
    return {lanes, static_cast<size_t>((bytes + 63) / 64 * 64)};
  }
}

template Plan PlanFor<float>(int64_t, int64_t, int64_t, int64_t);
template Plan PlanFor<double>(int64_t, int64_t, int64_t, int64_t);
template Plan PlanFor<std::complex<float>>(int64_t, int64_t, int64_t, int64_t);
template Plan PlanFor<std::complex<double>>(int64_t, int64_t, int64_t, int64_t);

template <template <typename> class Tile, typename T>
void Run(Tile<T>& tile) {
#if defined(TRIPONT_WIDTHS)
  if (VectorBytes() == 64) return Run64<T>(tile);
  if (VectorBytes() == 32) return Run32<T>(tile);
#endif
  Lanes<T, 16>::Run(tile);
}

#define TRIPONT_TILES(T)                      \
  template int LaneCount<T>();                \
  template void Run(CholeskyTile<T>& tile);   \
  template void Run(SolveTile<T>& tile);      \
  template void Run(LuTile<T>& tile);         \
  template void Run(QrTile<T>& tile);         \
  template void Run(ReflectorsTile<T>& tile); \
  template void Run(EigenTile<T>& tile);      \
  template void Run(SingularTile<T>& tile);
TRIPONT_TILES(float)
TRIPONT_TILES(double)
#undef TRIPONT_TILES

}  // namespace tripont::matrix_lanes
