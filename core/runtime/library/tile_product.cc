// Multiply and add in one instruction: rounding once is as right as rounding twice, and faster.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"  // all functions of vectors are inlined
#endif

#include "core/runtime/library/tile_product.h"

#include <algorithm>
#include <utility>

#include "core/runtime/cpu_info.h"
#include "core/runtime/library/vector_transpose.h"

namespace tripont::lapack {
namespace {

#define TRIPONT_INLINE [[gnu::always_inline]] static inline

// Columns of b that are copied at once: 64 KB, which stay in the second cache.
template <typename T>
constexpr int64_t kSlice = (64 << 10) / (kProductDepth * static_cast<int64_t>(sizeof(T)));
constexpr int64_t kLine = 64;  // bytes

// In vectors of kBytes.
template <typename T, int kBytes>
struct TileProduct {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  static constexpr int kVectors = 3;
  static constexpr int kRows = kVectors * kLanes;        // of a tile of sums
  static constexpr int kColumns = kBytes == 64 ? 8 : 4;  // as the registers allow
  typedef T V __attribute__((vector_size(kBytes), may_alias));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));

  TRIPONT_INLINE V Load(const T* from) { return *reinterpret_cast<const Unaligned*>(from); }
  TRIPONT_INLINE void Store(T* to, const V& value) { *reinterpret_cast<Unaligned*>(to) = value; }

  // `rows`: kLanes lines of kLanes numbers that are `step` apart, as columns.
  TRIPONT_INLINE void LoadColumns(const T* from, int64_t step, V* rows) {
#pragma GCC unroll 16
    for (int l = 0; l < kLanes; ++l) rows[l] = Load(from + l * step);
    VectorTranspose<T, kBytes>::Run(rows);
  }

  // Lines of `to` := columns of `from`, which has `lines` of `length` numbers, whole vectors of both. Steps are
  // those from line to line.
  TRIPONT_INLINE void Transpose(int64_t lines, int64_t length, const T* from, int64_t from_step,
                                T* to, int64_t to_step) {
    for (int64_t i = 0; i < lines; i += kLanes) {
      for (int64_t j = 0; j < length; j += kLanes) {
        V rows[kLanes];
        LoadColumns(from + i * from_step + j, from_step, rows);
#pragma GCC unroll 16
        for (int l = 0; l < kLanes; ++l) Store(to + (j + l) * to_step + i, rows[l]);
      }
    }
  }

  // The same of any sizes.
  TRIPONT_INLINE void TransposeAny(int64_t lines, int64_t length, const T* from, int64_t from_step,
                                   T* to, int64_t to_step) {
    const int64_t whole_lines = lines / kLanes * kLanes;
    const int64_t whole = length / kLanes * kLanes;
    Transpose(whole_lines, whole, from, from_step, to, to_step);
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t j = i < whole_lines ? whole : 0; j < length; ++j) {
        to[j * to_step + i] = from[i * from_step + j];
      }
    }
  }

  TRIPONT_INLINE void Exchange(int64_t count, T* a, T* b) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const V left = Load(a + i);
      Store(a + i, Load(b + i));
      Store(b + i, left);
    }
    for (; i < count; ++i) std::swap(a[i], b[i]);
  }

  // `to`, in pieces of kRows rows, := `from` [rows,k], with zeros below; rows of a piece side by side.
  TRIPONT_INLINE void PackRows(int64_t rows, int64_t k, Strided<T> from, T* to) {
    int64_t p = 0;
    if (rows == kRows && from.column == 1) {
      p = k / kLanes * kLanes;
      Transpose(kRows, p, from.data, from.row, to, kRows);
      to += p * kRows;
    }
    for (; p < k; ++p, to += kRows) {
      const T* column = from.data + p * from.column;
      if (rows == kRows && from.row == 1) {
        for (int v = 0; v < kVectors; ++v) Store(to + v * kLanes, Load(column + v * kLanes));
        continue;
      }
      for (int64_t i = 0; i < rows; ++i) to[i] = column[i * from.row];
      std::fill(to + rows, to + kRows, T(0));
    }
  }

  // The same of columns, in pieces of kColumns.
  TRIPONT_INLINE void PackColumns(int64_t columns, int64_t k, Strided<T> from, T* to) {
    int64_t first = 0;
    if (from.row == 1) {
      // As many columns as a vector has numbers are one piece or two.
      for (; first + kLanes <= columns; first += kLanes, to += k * kLanes) {
        const T* start = from.data + first * from.column;
        int64_t p = 0;
        for (; p + kLanes <= k; p += kLanes) {
          V lines[kLanes];
          LoadColumns(start + p, from.column, lines);
#pragma GCC unroll 16
          for (int l = 0; l < kLanes; ++l) StoreLine(lines[l], k, to + (p + l) * kColumns);
        }
        for (; p < k; ++p) {
          for (int64_t j = 0; j < kLanes; ++j) {
            to[(j / kColumns * k + p) * kColumns + j % kColumns] = start[j * from.column + p];
          }
        }
      }
    }
    for (; first < columns; first += kColumns, to += k * kColumns) {
      const int64_t count = std::min<int64_t>(kColumns, columns - first);
      const T* start = from.data + first * from.column;
      for (int64_t p = 0; p < k; ++p, start += from.row) {
        T* line = to + p * kColumns;
        if (count == kColumns && from.column == 1) {
          std::copy_n(start, kColumns, line);
          continue;
        }
        for (int64_t j = 0; j < count; ++j) line[j] = start[j * from.column];
        std::fill(line + count, line + kColumns, T(0));
      }
    }
  }

  // A line of a piece; the rest of the vector goes to the next piece.
  TRIPONT_INLINE void StoreLine(const V& line, int64_t k, T* to) {
    static_assert(kLanes == kColumns || kLanes == 2 * kColumns);
    typedef T Piece
        __attribute__((vector_size(kColumns * sizeof(T)), aligned(alignof(T)), may_alias));
    const auto* pieces = reinterpret_cast<const Piece*>(&line);
    for (int i = 0; i < kLanes / kColumns; ++i)
      *reinterpret_cast<Piece*>(to + i * k * kColumns) = pieces[i];
  }

  // c [rows,columns] -= the product of a piece of a and one of b.
  TRIPONT_INLINE void Tile(int64_t rows, int64_t columns, int64_t k, const T* a, const T* b, T* c,
                           int64_t ldc) {
    // What is subtracted from is on its way meanwhile.
    for (int64_t j = 0; j < columns; ++j) {
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + j * ldc + v * kLanes, 1);
    }
    V sums[kColumns][kVectors] = {};
    for (int64_t p = 0; p < k; ++p) {
      const auto* left = reinterpret_cast<const V*>(a + p * kRows);
      const T* right = b + p * kColumns;
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sums[j][v] += left[v] * right[j];
      }
    }
    if (rows == kRows && columns == kColumns) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) {
          T* to = c + j * ldc + v * kLanes;
          Store(to, Load(to) - sums[j][v]);
        }
      }
      return;
    }
    alignas(kLine) T all[kColumns * kRows];
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) Store(all + j * kRows + v * kLanes, sums[j][v]);
    }
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) c[j * ldc + i] -= all[j * kRows + i];
    }
  }

  // Right-hand sides of SolveSmall that are solved together: six chains of products at a time.
  static constexpr int kChains = 6;
  static constexpr int kSides = kChains * kLanes;

  // y [order,kSides] := x [order,n], or x := y.
  TRIPONT_INLINE void LoadSides(int64_t order, int64_t n, const T* x, int64_t row, int64_t column,
                                T* y) {
    for (int64_t i = 0; i < order; ++i) std::fill(y + i * kSides + n, y + (i + 1) * kSides, T(0));
    int64_t whole = 0;  // sides that are transposed in vectors
    if (row == 1 && order % kLanes == 0) {
      whole = n / kLanes * kLanes;
      Transpose(whole, order, x, column, y, kSides);
    }
    for (int64_t i = 0; i < order; ++i) {
      for (int64_t j = whole; j < n; ++j) y[i * kSides + j] = x[i * row + j * column];
    }
  }
  TRIPONT_INLINE void StoreSides(int64_t order, int64_t n, const T* y, T* x, int64_t row,
                                 int64_t column) {
    int64_t whole = 0;
    if (row == 1 && order % kLanes == 0) {
      whole = n / kLanes * kLanes;
      Transpose(order, whole, y, kSides, x, column);
    }
    for (int64_t i = 0; i < order; ++i) {
      for (int64_t j = whole; j < n; ++j) x[i * row + j * column] = y[i * kSides + j];
    }
  }

  TRIPONT_INLINE void Solve(int64_t order, int64_t n, Strided<T> a, bool forward, bool unit, T* x,
                            int64_t row, int64_t column) {
    alignas(kLine) T y[kMostSmallOrder * kSides];
    for (int64_t first = 0; first < n; first += kSides) {
      const int64_t count = std::min<int64_t>(kSides, n - first);
      LoadSides(order, count, x + first * column, row, column, y);
      for (int64_t step = 0; step < order; ++step) {
        const int64_t i = forward ? step : order - 1 - step;
        const T* elements = a.data + i * a.row;
        V sums[kChains];
#pragma GCC unroll 6
        for (int c = 0; c < kChains; ++c) sums[c] = Load(y + i * kSides + c * kLanes);
        for (int64_t done = 0; done < step; ++done) {
          const int64_t p = forward ? done : order - 1 - done;
          const T element = elements[p * a.column];
#pragma GCC unroll 6
          for (int c = 0; c < kChains; ++c) sums[c] -= Load(y + p * kSides + c * kLanes) * element;
        }
        const T diagonal = unit ? T(1) : elements[i * a.column];
#pragma GCC unroll 6
        for (int c = 0; c < kChains; ++c) Store(y + i * kSides + c * kLanes, sums[c] / diagonal);
      }
      StoreSides(order, count, y, x + first * column, row, column);
    }
  }

  TRIPONT_INLINE void Run(int64_t m, int64_t n, int64_t k, Strided<T> a, Strided<T> b, T* c,
                          int64_t ldc) {
    alignas(kLine) T rows[kRows * kProductDepth];
    alignas(kLine) T columns[kSlice<T> * kProductDepth];
    for (int64_t p = 0; p < k; p += kProductDepth) {
      const int64_t depth = std::min(kProductDepth, k - p);
      for (int64_t j = 0; j < n; j += kSlice<T>) {
        const int64_t width = std::min(kSlice<T>, n - j);
        PackColumns(width, depth, {b.data + p * b.row + j * b.column, b.row, b.column}, columns);
        for (int64_t i = 0; i < m; i += kRows) {
          const int64_t height = std::min<int64_t>(kRows, m - i);
          PackRows(height, depth, {a.data + i * a.row + p * a.column, a.row, a.column}, rows);
          for (int64_t t = 0; t < width; t += kColumns) {
            Tile(height, std::min<int64_t>(kColumns, width - t), depth, rows, columns + t * depth,
                 c + (j + t) * ldc + i, ldc);
          }
        }
      }
    }
  }
};

#if defined(__x86_64__)
template <typename T>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void Run64(int64_t m, int64_t n,
                                                                     int64_t k, Strided<T> a,
                                                                     Strided<T> b, T* c,
                                                                     int64_t ldc) {
  TileProduct<T, 64>::Run(m, n, k, a, b, c, ldc);
}
template <typename T>
[[gnu::target("arch=x86-64-v3")]] void Run32(int64_t m, int64_t n, int64_t k, Strided<T> a,
                                             Strided<T> b, T* c, int64_t ldc) {
  TileProduct<T, 32>::Run(m, n, k, a, b, c, ldc);
}
template <typename T>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void Solve64(int64_t order, int64_t n,
                                                                       Strided<T> a, bool forward,
                                                                       bool unit, T* x, int64_t row,
                                                                       int64_t column) {
  TileProduct<T, 64>::Solve(order, n, a, forward, unit, x, row, column);
}
template <typename T>
[[gnu::target("arch=x86-64-v3")]] void Solve32(int64_t order, int64_t n, Strided<T> a, bool forward,
                                               bool unit, T* x, int64_t row, int64_t column) {
  TileProduct<T, 32>::Solve(order, n, a, forward, unit, x, row, column);
}
template <typename T>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void Transpose64(
    int64_t lines, int64_t length, const T* from, int64_t from_step, T* to, int64_t to_step) {
  TileProduct<T, 64>::TransposeAny(lines, length, from, from_step, to, to_step);
}
template <typename T>
[[gnu::target("arch=x86-64-v3")]] void Transpose32(int64_t lines, int64_t length, const T* from,
                                                   int64_t from_step, T* to, int64_t to_step) {
  TileProduct<T, 32>::TransposeAny(lines, length, from, from_step, to, to_step);
}
template <typename T>
[[gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void Exchange64(int64_t count, T* a,
                                                                          T* b) {
  TileProduct<T, 64>::Exchange(count, a, b);
}
template <typename T>
[[gnu::target("arch=x86-64-v3")]] void Exchange32(int64_t count, T* a, T* b) {
  TileProduct<T, 32>::Exchange(count, a, b);
}
#endif

}  // namespace

#if defined(__x86_64__)
bool HasTileProduct() { return VectorBytes() >= 32; }

template <typename T>
void SubtractProduct(int64_t m, int64_t n, int64_t k, Strided<T> a, Strided<T> b, T* c,
                     int64_t ldc) {
  VectorBytes() == 64 ? Run64<T>(m, n, k, a, b, c, ldc) : Run32<T>(m, n, k, a, b, c, ldc);
}

template <typename T>
void SolveSmall(int64_t order, int64_t n, Strided<T> a, bool forward, bool unit, T* x, int64_t row,
                int64_t column) {
  VectorBytes() == 64 ? Solve64<T>(order, n, a, forward, unit, x, row, column)
                      : Solve32<T>(order, n, a, forward, unit, x, row, column);
}

template <typename T>
void TransposePiece(int64_t lines, int64_t length, const T* from, int64_t from_step, T* to,
                    int64_t to_step) {
  VectorBytes() == 64 ? Transpose64<T>(lines, length, from, from_step, to, to_step)
                      : Transpose32<T>(lines, length, from, from_step, to, to_step);
}

template <typename T>
void ExchangeLines(int64_t count, T* a, T* b) {
  VectorBytes() == 64 ? Exchange64<T>(count, a, b) : Exchange32<T>(count, a, b);
}
#else
bool HasTileProduct() { return false; }

template <typename T>
void SolveSmall(int64_t, int64_t, Strided<T>, bool, bool, T*, int64_t, int64_t) {}

template <typename T>
void SubtractProduct(int64_t, int64_t, int64_t, Strided<T>, Strided<T>, T*, int64_t) {}

template <typename T>
void TransposePiece(int64_t, int64_t, const T*, int64_t, T*, int64_t) {}

template <typename T>
void ExchangeLines(int64_t, T*, T*) {}
#endif

#define TRIPONT_INSTANTIATE(T)                                                                 \
  template void SubtractProduct<T>(int64_t, int64_t, int64_t, Strided<T>, Strided<T>, T*,      \
                                   int64_t);                                                   \
  template void SolveSmall<T>(int64_t, int64_t, Strided<T>, bool, bool, T*, int64_t, int64_t); \
  template void TransposePiece<T>(int64_t, int64_t, const T*, int64_t, T*, int64_t);           \
  template void ExchangeLines<T>(int64_t, T*, T*);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
