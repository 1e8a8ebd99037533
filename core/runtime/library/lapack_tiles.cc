#include "core/runtime/library/lapack_tiles.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/runtime/parallel.h"

namespace tripont::lapack {
namespace {

// Rows and columns of a tile of the matrix that is updated, and its depth.
constexpr Int kTile = 256;
constexpr Int kDepth = 128;
// Right-hand sides that a task solves, at least, and up to how many are solved one by one. (Each
// task packs all of the triangle: with many right-hand sides there are some 16 tasks.)
constexpr Int kSlice = 64;
constexpr Int kSlices = 16;
constexpr Int kVectors = 4;
// A single right-hand side is solved in blocks of so many elements, and each block's product with what
// is left of the matrix is shared out in so many elements of the result.
constexpr Int kVectorBlock = 256;
constexpr Int kVectorSlice = 128;
// Multiply-adds that make a task worth another thread.
constexpr int64_t kTaskWork = 1 << 17;

// Calls body(begin, end) for the pieces of [0, count) that begin at multiples of `size`, in
// parallel: `work` multiply-adds each.
template <typename Body>
void ForEachPiece(Int count, Int size, int64_t work, const Body& body) {
  const int64_t pieces = (int64_t{count} + size - 1) / size;
  ParallelFor(pieces, std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const auto first = static_cast<Int>(i * size);
                  body(first, std::min(count, first + size));
                }
              });
}

template <typename T>
bool FactorTile(const Routines<T>& lapack, char uplo, Int n, Int lda, T* a) {
  Int info = 0;
  lapack.potrf(&uplo, &n, a, &lda, &info, 1);
  if (info != 0) return false;
  // A NaN passes for a pivot, and with it what every NaN and infinity comes to.
  for (Int i = 0; i < n; ++i) {
    const auto pivot = std::real(a[int64_t{i} * lda + i]);
    if (!std::isfinite(pivot) || !(pivot > 0)) return false;
  }
  return true;
}

// The tiles (i, j), i <= j, of an upper triangle of `count` tiles a side, in order of j.
struct Pair {
  Int i;
  Int j;
};
std::vector<Pair> Triangle(Int count) {
  std::vector<Pair> pairs;
  for (Int j = 0; j < count; ++j) {
    for (Int i = 0; i <= j; ++i) pairs.push_back({i, j});
  }
  return pairs;
}

}  // namespace

template <typename T>
bool FactorCholesky(const Routines<T>& lapack, char uplo, Int n, T* a) {
  if (n <= kTiledOrder) return FactorTile(lapack, uplo, n, Leading(n), a);
  using R = Real<T>;
  const bool upper = uplo == 'U';
  const T one = T(1);
  const T minus_one = T(-1);
  const R real_one = R{1};
  const R real_minus_one = R{-1};
  const char no = 'N';
  const char adjoint = 'C';
  const char syrk_adjoint = kIsComplex<T> ? 'C' : 'T';
  // Element (row, column) of the triangle in use; for a lower one of its adjoint.
  const auto at = [&](Int row, Int column) {
    return upper ? a + int64_t{column} * n + row : a + int64_t{row} * n + column;
  };
  for (Int first = 0; first < n; first += kDepth) {
    const Int depth = std::min(kDepth, n - first);
    const Int next = first + depth;
    const Int rest = n - next;
    T* diagonal = at(first, first);
    if (!FactorTile(lapack, uplo, depth, n, diagonal)) return false;
    if (rest == 0) break;
    // Beside the diagonal tile: its inverse adjoint from the left (upper) or right (lower).
    ForEachPiece(rest, kSlice, int64_t{kSlice} * depth * depth / 2, [&](Int begin, Int end) {
      const Int size = end - begin;
      const char side = upper ? 'L' : 'R';
      lapack.trsm(&side, &uplo, &adjoint, &no, upper ? &depth : &size, upper ? &size : &depth, &one,
                  diagonal, &n, at(first, next + begin), &n, 1, 1, 1, 1);
    });
    // What is left loses the product of that.
    const std::vector<Pair> tiles = Triangle((rest + kTile - 1) / kTile);
    ParallelFor(static_cast<int64_t>(tiles.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const auto [i, j] = tiles[static_cast<size_t>(t)];
        const Int row = next + i * kTile;
        const Int column = next + j * kTile;
        const Int rows = std::min(kTile, n - row);
        const Int columns = std::min(kTile, n - column);
        const T* left = at(first, row);
        const T* right = at(first, column);
        if (i == j) {
          lapack.herk(&uplo, upper ? &syrk_adjoint : &no, &columns, &depth, &real_minus_one, right,
                      &n, &real_one, at(row, column), &n, 1, 1);
        } else if (upper) {
          lapack.gemm(&adjoint, &no, &rows, &columns, &depth, &minus_one, left, &n, right, &n, &one,
                      at(row, column), &n, 1, 1);
        } else {
          lapack.gemm(&no, &adjoint, &columns, &rows, &depth, &minus_one, right, &n, left, &n, &one,
                      at(row, column), &n, 1, 1);
        }
      }
    });
  }
  return true;
}

template <typename T>
Int FactorLu(const Routines<T>& lapack, Int m, Int n, T* a, Int* pivots) {
  const Int count = std::min(m, n);
  const Int lda = Leading(m);
  const T one = T(1);
  const T minus_one = T(-1);
  const auto at = [&](Int row, Int column) { return a + int64_t{column} * m + row; };
  Int first_zero = 0;
  for (Int first = 0; first < count; first += kDepth) {
    const Int depth = std::min(kDepth, count - first);
    const Int next = first + depth;
    const Int rows = m - first;
    Int info = 0;
    lapack.getrf(&rows, &depth, at(first, first), &lda, pivots + first, &info);
    if (info > 0 && first_zero == 0) first_zero = first + info;
    for (Int j = first; j < next; ++j) pivots[j] += first;
    // The other columns follow: exchanged, then those to the right divided by the diagonal tile and
    // updated.
    const auto exchange = [&](Int begin, Int end) {
      for (Int column = begin; column < end; ++column) {
        T* x = at(0, column);
        for (Int j = first; j < next; ++j) std::swap(x[j], x[pivots[j] - 1]);
      }
    };
    ForEachPiece(first, kSlice, int64_t{kSlice} * depth, exchange);
    ForEachPiece(n - next, kSlice, int64_t{kSlice} * depth * rows, [&](Int begin, Int end) {
      exchange(next + begin, next + end);
      const Int columns = end - begin;
      const char left = 'L';
      const char lower = 'L';
      const char no = 'N';
      const char unit = 'U';
      T* above = at(first, next + begin);
      lapack.trsm(&left, &lower, &no, &unit, &depth, &columns, &one, at(first, first), &lda, above,
                  &lda, 1, 1, 1, 1);
      const Int below = m - next;
      if (below == 0) return;
      lapack.gemm(&no, &no, &below, &columns, &depth, &minus_one, at(next, first), &lda, above,
                  &lda, &one, at(next, next + begin), &lda, 1, 1);
    });
  }
  return first_zero;
}

namespace {

// As xTRSV: x, of elements `step` apart, := the solution of op(a) y = x.
template <typename T>
void SolveVector(const Routines<T>& lapack, char uplo, char transpose, char diagonal, Int n,
                 const T* a, T* x, Int step) {
  const bool columns = transpose == 'N';
  const bool forward = (uplo == 'L') == columns;
  const T one = T(1);
  const T minus_one = T(-1);
  const auto at = [&](Int row, Int column) { return a + int64_t{column} * n + row; };
  for (Int done = 0; done < n; done += kVectorBlock) {
    const Int size = std::min(kVectorBlock, n - done);
    const Int first = forward ? done : n - done - size;
    T* block = x + int64_t{first} * step;
    lapack.trsv(&uplo, &transpose, &diagonal, &size, at(first, first), &n, block, &step, 1, 1, 1);
    const Int left = n - done - size;
    ForEachPiece(left, kVectorSlice, 4 * int64_t{kVectorSlice} * size, [&](Int begin, Int end) {
      const Int from = forward ? first + size + begin : begin;
      const Int length = end - begin;
      lapack.gemv(&transpose, columns ? &length : &size, columns ? &size : &length, &minus_one,
                  columns ? at(from, first) : at(first, from), &n, block, &step, &one,
                  x + int64_t{from} * step, &step, 1);
    });
  }
}

}  // namespace

template <typename T>
void SolveTriangular(const Routines<T>& lapack, const TriangularSystem& system, const T* a, T* b) {
  const Int order = system.order();
  const bool left = system.side == 'L';
  const Int sides = left ? system.n : system.m;  // right-hand sides
  const Int lda = Leading(order);
  const Int ldb = Leading(system.m);
  if (sides <= kVectors) {
    // x op(a) = b is op(a)^T x^T = b^T; BLAS has no conjugate that is not transposed.
    char transpose = system.transpose;
    const bool conjugated = !left && transpose == 'C' && kIsComplex<T>;
    if (!left) transpose = transpose == 'N' ? 'T' : 'N';
    const Int step = left ? 1 : ldb;
    for (Int side = 0; side < sides; ++side) {
      T* x = b + (left ? int64_t{side} * ldb : side);
      const auto conjugate = [&] {
        for (Int i = 0; conjugated && i < order; ++i) {
          x[int64_t{i} * step] = Conjugate(x[int64_t{i} * step]);
        }
      };
      conjugate();
      SolveVector(lapack, system.uplo, transpose, system.diagonal, order, a, x, step);
      conjugate();
    }
    return;
  }
  const T one = T(1);
  const Int slice = (sides / (kSlices * kSlice) + 1) * kSlice;
  ForEachPiece(sides, slice, int64_t{slice} * order * order / 2, [&](Int begin, Int end) {
    const Int size = end - begin;
    lapack.trsm(&system.side, &system.uplo, &system.transpose, &system.diagonal,
                left ? &system.m : &size, left ? &size : &system.n, &one, a, &lda,
                left ? b + int64_t{begin} * ldb : b + begin, &ldb, 1, 1, 1, 1);
  });
}

#define TRIPONT_INSTANTIATE(T)                                        \
  template bool FactorCholesky<T>(const Routines<T>&, char, Int, T*); \
  template Int FactorLu<T>(const Routines<T>&, Int, Int, T*, Int*);   \
  template void SolveTriangular<T>(const Routines<T>&, const TriangularSystem&, const T*, T*);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
TRIPONT_INSTANTIATE(std::complex<float>)
TRIPONT_INSTANTIATE(std::complex<double>)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
