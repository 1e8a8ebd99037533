// Multiply and add in one instruction: rounding once is as right as rounding twice, and twice as
// fast.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#endif

#include "core/runtime/library/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/runtime/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define TRIPONT_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIPONT_VECTOR_CLONES
#endif

namespace tripont::linear_algebra {
namespace {

// Columns that a triangular factorisation or solve does at a time before updating the rest by a
// matrix product.
constexpr int64_t kBlock = 64;
// Rows that are solved one by one, without matrix products.
constexpr int64_t kLeaf = 16;
// Rows and columns of c that one task of a matrix product computes.
constexpr int64_t kTileRows = 96;
constexpr int64_t kTileColumns = 128;
// Multiply-adds that make a matrix product worth several threads.
constexpr int64_t kParallelMultiplyAdds = 1 << 17;

constexpr int64_t kRows = 8;  // of the micro-kernel

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(64)));  // NOLINT: an alias template drops the attribute
};
// Columns of the micro-kernel: two vectors of real numbers.
template <typename T>
constexpr int64_t kColumns = 2 * 64 / sizeof(Real<T>);

// result[kRows][kColumns] = sum over p of a[p][kRows] * b[p][kColumns].
template <typename T>
[[gnu::always_inline]] inline void MicroKernel(const T* a, const T* b, int64_t depth, T* result) {
  using V = typename VectorOf<T>::Type;
  constexpr int64_t kWidth = 64 / sizeof(T);
  V sums[kRows][2] = {};
  for (int64_t p = 0; p < depth; ++p) {
    const V b0 = *reinterpret_cast<const V*>(b + p * 2 * kWidth);
    const V b1 = *reinterpret_cast<const V*>(b + p * 2 * kWidth + kWidth);
    for (int64_t i = 0; i < kRows; ++i) {
      const T factor = a[p * kRows + i];
      sums[i][0] += factor * b0;
      sums[i][1] += factor * b1;
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    *reinterpret_cast<V*>(result + i * 2 * kWidth) = sums[i][0];
    *reinterpret_cast<V*>(result + i * 2 * kWidth + kWidth) = sums[i][1];
  }
}

TRIPONT_VECTOR_CLONES void Micro(const float* a, const float* b, int64_t depth, float* result) {
  MicroKernel(a, b, depth, result);
}
TRIPONT_VECTOR_CLONES void Micro(const double* a, const double* b, int64_t depth, double* result) {
  MicroKernel(a, b, depth, result);
}

// A 64-byte aligned array without initial values.
template <typename T>
class Workspace {
 public:
  explicit Workspace(int64_t size) : memory_(static_cast<size_t>(size) * sizeof(T) + 64) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = reinterpret_cast<T*>((address + 63) / 64 * 64);
  }
  T* data() { return data_; }

 private:
  std::vector<std::byte> memory_;
  T* data_;
};

template <typename R>
R Part(std::complex<R> value, int part) {
  return part == 0 ? value.real() : value.imag();
}
template <typename R>
R Part(R value, int /*part*/) {
  return value;
}

// Packs rows [0, a.rows) as panels of kRows: panel[p][i], zero beyond the edge.
template <typename T>
void PackRows(View<T> a, int part, Real<T>* packed) {
  for (int64_t first = 0; first < a.rows; first += kRows) {
    for (int64_t p = 0; p < a.columns; ++p) {
      for (int64_t i = 0; i < kRows; ++i) {
        *packed++ = first + i < a.rows ? Part(a.Get(first + i, p), part) : Real<T>{0};
      }
    }
  }
}

template <typename T>
void PackColumns(View<T> b, int part, Real<T>* packed) {
  for (int64_t first = 0; first < b.columns; first += kColumns<T>) {
    for (int64_t p = 0; p < b.rows; ++p) {
      for (int64_t j = 0; j < kColumns<T>; ++j) {
        *packed++ = first + j < b.columns ? Part(b.Get(p, first + j), part) : Real<T>{0};
      }
    }
  }
}

// One tile of c -= a b, of at most kTileRows x kTileColumns. Elements with column - row >
// last_diagonal are left alone.
template <typename T>
void MultiplySubtractTile(View<T> c, View<T> a, View<T> b, int64_t last_diagonal) {
  using R = Real<T>;
  constexpr int kParts = kIsComplex<T> ? 2 : 1;
  const int64_t depth = a.columns;
  const int64_t row_panels = (c.rows + kRows - 1) / kRows;
  const int64_t column_panels = (c.columns + kColumns<T> - 1) / kColumns<T>;
  const int64_t rows_size = row_panels * kRows * depth;
  const int64_t columns_size = column_panels * kColumns<T> * depth;
  Workspace<R> packed_a(kParts * rows_size);
  Workspace<R> packed_b(kParts * columns_size);
  for (int part = 0; part < kParts; ++part) {
    PackRows(a, part, packed_a.data() + part * rows_size);
    PackColumns(b, part, packed_b.data() + part * columns_size);
  }
  alignas(64) R products[kParts * kParts][kRows * kColumns<T>];
  for (int64_t row = 0; row < row_panels; ++row) {
    for (int64_t column = 0; column < column_panels; ++column) {
      for (int x = 0; x < kParts; ++x) {
        for (int y = 0; y < kParts; ++y) {
          Micro(packed_a.data() + x * rows_size + row * kRows * depth,
                packed_b.data() + y * columns_size + column * kColumns<T> * depth, depth,
                products[x * kParts + y]);
        }
      }
      const int64_t first_row = row * kRows;
      const int64_t first_column = column * kColumns<T>;
      for (int64_t i = 0; i < std::min(kRows, c.rows - first_row); ++i) {
        const int64_t end = std::min({kColumns<T>, c.columns - first_column,
                                      first_row + i + last_diagonal + 1 - first_column});
        for (int64_t j = 0; j < end; ++j) {
          const int64_t at = i * kColumns<T> + j;
          T product;
          if constexpr (kIsComplex<T>) {
            product = T(products[0][at] - products[3][at], products[1][at] + products[2][at]);
          } else {
            product = products[0][at];
          }
          c.Set(first_row + i, first_column + j, c.Get(first_row + i, first_column + j) - product);
        }
      }
    }
  }
}

// y -= factor * x
template <typename T>
[[gnu::always_inline]] inline void Subtract(T* y, const T* x, T factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] -= factor * x[i];
}
TRIPONT_VECTOR_CLONES void SubtractScaled(float* y, const float* x, float factor, int64_t n) {
  Subtract(y, x, factor, n);
}
TRIPONT_VECTOR_CLONES void SubtractScaled(double* y, const double* x, double factor, int64_t n) {
  Subtract(y, x, factor, n);
}
template <typename R>
void SubtractScaled(std::complex<R>* y, const std::complex<R>* x, std::complex<R> factor,
                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] -= std::complex<R>(factor.real() * x[i].real() - factor.imag() * x[i].imag(),
                            factor.real() * x[i].imag() + factor.imag() * x[i].real());
  }
}

// b := inverse of a times b, for a small a. `b` is contiguous: b[a.rows][m].
template <typename T>
void SolveLowerSmall(View<T> a, T* b, int64_t m, bool unit_diagonal) {
  const int64_t n = a.rows;
  if (n > kLeaf) {
    const int64_t half = (n / 2 + kLeaf - 1) / kLeaf * kLeaf;
    SolveLowerSmall(a.Block(0, 0, half, half), b, m, unit_diagonal);
    MultiplySubtractTile<T>({b + half * m, n - half, m, m, 1}, a.Block(half, 0, n - half, half),
                            {b, half, m, m, 1}, m);
    SolveLowerSmall(a.Block(half, half, n - half, n - half), b + half * m, m, unit_diagonal);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T* row = b + i * m;
    for (int64_t p = 0; p < i; ++p) SubtractScaled(row, b + p * m, a.Get(i, p), m);
    if (unit_diagonal) continue;
    const T pivot = a.Get(i, i);
    for (int64_t j = 0; j < m; ++j) row[j] /= pivot;
  }
}

// The same for any b, through a contiguous copy.
template <typename T>
void SolveLowerCopied(View<T> a, View<T> b, bool unit_diagonal) {
  std::vector<T> copy(static_cast<size_t>(b.rows * b.columns));
  for (int64_t i = 0; i < b.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j)
      copy[static_cast<size_t>(i * b.columns + j)] = b.Get(i, j);
  }
  SolveLowerSmall(a, copy.data(), b.columns, unit_diagonal);
  for (int64_t i = 0; i < b.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j)
      b.Set(i, j, copy[static_cast<size_t>(i * b.columns + j)]);
  }
}

template <typename T>
bool FactorCholeskySmall(View<T> a) {
  using R = Real<T>;
  const int64_t n = a.rows;
  // Column by column (rows of `columns` are columns of a), so that updates run along memory.
  std::vector<T> columns(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) columns[static_cast<size_t>(j * n + i)] = a.Get(i, j);
  }
  for (int64_t j = 0; j < n; ++j) {
    T* column = columns.data() + j * n;
    for (int64_t p = 0; p < j; ++p) {
      const T* left = columns.data() + p * n;
      SubtractScaled(column + j, left + j, Conjugate(left[j]), n - j);
    }
    const R pivot = Part(column[j], 0);
    if (!(pivot > R{0}) || !std::isfinite(pivot)) return false;
    const R root = std::sqrt(pivot);
    column[j] = T(root);
    for (int64_t i = j + 1; i < n; ++i) column[i] /= root;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) a.Set(i, j, columns[static_cast<size_t>(j * n + i)]);
  }
  return true;
}

}  // namespace

template <typename T>
void MultiplySubtract(View<T> c, View<T> a, View<T> b, bool lower_only) {
  if (c.rows == 0 || c.columns == 0 || a.columns == 0) return;
  const int64_t row_tiles = (c.rows + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (c.columns + kTileColumns - 1) / kTileColumns;
  const int64_t tiles = row_tiles * column_tiles;
  const int64_t tile_work = kTileRows * kTileColumns * a.columns;
  ParallelFor(tiles, std::max<int64_t>(1, kParallelMultiplyAdds / tile_work),
              [&](int64_t begin, int64_t end) {
                for (int64_t tile = begin; tile < end; ++tile) {
                  const int64_t row = tile / column_tiles * kTileRows;
                  const int64_t column = tile % column_tiles * kTileColumns;
                  if (lower_only && column > row + kTileRows - 1) continue;
                  const int64_t rows = std::min(kTileRows, c.rows - row);
                  const int64_t columns = std::min(kTileColumns, c.columns - column);
                  MultiplySubtractTile(
                      c.Block(row, column, rows, columns), a.Block(row, 0, rows, a.columns),
                      b.Block(0, column, b.rows, columns), lower_only ? row - column : c.columns);
                }
              });
}

template <typename T>
void SolveLower(View<T> a, View<T> b, bool unit_diagonal) {
  const int64_t n = a.rows;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t size = std::min(kBlock, n - first);
    const View<T> diagonal = a.Block(first, first, size, size);
    ParallelFor(b.columns, std::max<int64_t>(16, kParallelMultiplyAdds / (size * size)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t column = begin; column < end; column += kTileColumns) {
                    const int64_t columns = std::min(kTileColumns, end - column);
                    SolveLowerCopied(diagonal, b.Block(first, column, size, columns),
                                     unit_diagonal);
                  }
                });
    const int64_t next = first + size;
    MultiplySubtract(b.Block(next, 0, n - next, b.columns), a.Block(next, first, n - next, size),
                     b.Block(first, 0, size, b.columns));
  }
}

template <typename T>
bool FactorCholesky(View<T> a) {
  const int64_t n = a.rows;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t size = std::min(kBlock, n - first);
    const int64_t next = first + size;
    const View<T> diagonal = a.Block(first, first, size, size);
    if (!FactorCholeskySmall(diagonal)) return false;
    const View<T> below = a.Block(next, first, n - next, size);
    if (below.rows == 0) break;
    // below = below times the inverse of the adjoint of the diagonal block.
    SolveLower(diagonal, below.Adjoint(), false);
    MultiplySubtract(a.Block(next, next, n - next, n - next), below, below.Adjoint(), true);
  }
  return true;
}

#define TRIPONT_INSTANTIATE(T)                                        \
  template void MultiplySubtract<T>(View<T>, View<T>, View<T>, bool); \
  template void SolveLower<T>(View<T>, View<T>, bool);                \
  template bool FactorCholesky<T>(View<T>);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
TRIPONT_INSTANTIATE(std::complex<float>)
TRIPONT_INSTANTIATE(std::complex<double>)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::linear_algebra
