#include "core/runtime/library/lapack_tiles.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/runtime/library/few_vectors.h"
#include "core/runtime/library/lapack_call.h"
#include "core/runtime/library/tile_product.h"
#include "core/runtime/parallel.h"

namespace tripont::lapack {
namespace {

// Rows and columns of a tile of the matrix that is updated, and its depth. (Tiles and slices have whole
// pieces of SubtractProduct's rows, 48 of them at most.)
constexpr Int kTile = 240;
constexpr Int kDepth = 128;
// Right-hand sides that a task solves, at least, and up to how many are solved as vectors. (Each
// task packs all of the triangle: with many right-hand sides there are some 16 tasks.)
constexpr Int kSlice = 96;
constexpr Int kSlices = 16;
// The order of a triangle that is solved at once for a slice; larger ones are halved.
constexpr auto kLeaf = static_cast<Int>(kMostSmallOrder);
constexpr auto kVectors = static_cast<Int>(kFewVectors);
// Vectors are solved in blocks (of kVectorBlock elements), and each block's product with what
// is left of the matrix is shared out in so many elements of the result.
constexpr Int kVectorSlice = 128;
// Lines that a task transposes.
constexpr Int kTransposed = 64;
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

// As ForEachPiece for the columns to the right of a panel, of which the next panel's `first` are a piece of
// their own: body(0, first) also factors that panel, while the other pieces are updated.
template <typename Body>
void ForEachPieceBehindPanel(Int count, Int first, int64_t work, const Body& body) {
  const int64_t others = (int64_t{count} - first + kSlice - 1) / kSlice;
  ParallelFor((first > 0 ? 1 : 0) + others,
              std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t other = first > 0 ? i - 1 : i;
                  if (other < 0) {
                    body(0, first);
                    continue;
                  }
                  const auto from = static_cast<Int>(first + other * kSlice);
                  body(from, std::min(count, from + kSlice));
                }
              });
}

// A matrix in the letters of xGEMM: op(data), where op(a) is `a`, its transpose 'T' or its adjoint 'C'.
template <typename T>
struct Factor {
  char op;
  const T* data;
  Int leading;

  Strided<T> AsStrided() const {
    return op == 'N' ? Strided<T>{data, 1, leading} : Strided<T>{data, leading, 1};
  }
};

// Whether matrices of T's are multiplied, and small triangular systems solved, by tile_product.h.
template <typename T>
bool HasOwnProducts() {
  return !kIsComplex<T> && HasTileProduct();
}

// c [m,n] -= a [m,k] b [k,n].
template <typename T>
void Subtract(const Routines<T>& lapack, Int m, Int n, Int k, Factor<T> a, Factor<T> b, T* c,
              Int ldc) {
  if constexpr (!kIsComplex<T>) {
    if (HasOwnProducts<T>()) {
      SubtractProduct<T>(m, n, k, a.AsStrided(), b.AsStrided(), c, ldc);
      return;
    }
  }
  const T one = T(1);
  const T minus_one = T(-1);
  lapack.gemm(&a.op, &b.op, &m, &n, &k, &minus_one, a.data, &a.leading, b.data, &b.leading, &one, c,
              &ldc, 1, 1);
}

// As xTRSM, for the slice of a task.
template <typename T>
void SolveSlice(const Routines<T>& lapack, const TriangularSystem& system, const T* a, Int lda,
                T* b, Int ldb) {
  const Int order = system.order();
  if (!HasOwnProducts<T>()) {
    const T one = T(1);
    lapack.trsm(&system.side, &system.uplo, &system.transpose, &system.diagonal, &system.m,
                &system.n, &one, a, &lda, b, &ldb, 1, 1, 1, 1);
    return;
  }
  const bool left = system.side == 'L';
  const bool no_transpose = system.transpose == 'N';
  // Which half of x is known first: the upper one if op(a) is lower triangular, the left one if it is upper.
  const bool forward = ((system.uplo == 'L') == no_transpose) == left;
  if constexpr (!kIsComplex<T>) {
    if (order <= kLeaf) {
      // From the right it is the transposed system, of which b's rows are the right-hand sides.
      const char op = left == no_transpose ? 'N' : 'T';
      SolveSmall<T>(order, left ? system.n : system.m, Factor<T>{op, a, lda}.AsStrided(), forward,
                    system.diagonal == 'U', b, left ? 1 : ldb, left ? ldb : 1);
      return;
    }
  }
  const Int half = (order / 2 + kLeaf - 1) / kLeaf * kLeaf;
  const Int known = forward ? 0 : half;
  const Int other = forward ? half : 0;
  const auto place = [&](Int first) { return b + (left ? first : int64_t{first} * ldb); };
  const auto solve = [&](Int first) {
    TriangularSystem part = system;
    (left ? part.m : part.n) = first == 0 ? half : order - half;
    SolveSlice(lapack, part, a + int64_t{first} * lda + first, lda, place(first), ldb);
  };
  solve(known);
  // The other half loses the product of what is known and op(a) beside its diagonal.
  const bool below = left == no_transpose;
  const Factor<T> beside{system.transpose,
                         a + int64_t{below ? known : other} * lda + (below ? other : known), lda};
  const Factor<T> x{'N', place(known), ldb};
  const Int depth = known == 0 ? half : order - half;
  if (left) {
    Subtract<T>(lapack, order - depth, system.n, depth, beside, x, place(other), ldb);
  } else {
    Subtract<T>(lapack, system.m, order - depth, depth, x, beside, place(other), ldb);
  }
  solve(other);
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
      const TriangularSystem system = upper ? TriangularSystem{'L', uplo, adjoint, no, depth, size}
                                            : TriangularSystem{'R', uplo, adjoint, no, size, depth};
      SolveSlice<T>(lapack, system, diagonal, n, at(first, next + begin), n);
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
          Subtract<T>(lapack, rows, columns, depth, {adjoint, left, n}, {no, right, n},
                      at(row, column), n);
        } else {
          Subtract<T>(lapack, columns, rows, depth, {no, right, n}, {adjoint, left, n},
                      at(row, column), n);
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
  const auto at = [&](Int row, Int column) { return a + int64_t{column} * m + row; };
  const auto exchange = [&](Int column, Int begin, Int end) {
    T* x = at(0, column);
    for (Int j = begin; j < end; ++j) std::swap(x[j], x[pivots[j] - 1]);
  };
  Int first_zero = 0;
  const auto factor = [&](Int first) {
    const Int depth = std::min(kDepth, count - first);
    const Int rows = m - first;
    Int info = 0;
    lapack.getrf(&rows, &depth, at(first, first), &lda, pivots + first, &info);
    if (info > 0 && first_zero == 0) first_zero = first + info;
    for (Int j = first; j < first + depth; ++j) pivots[j] += first;
  };
  factor(0);
  for (Int first = 0; first < count; first += kDepth) {
    const Int depth = std::min(kDepth, count - first);
    const Int next = first + depth;
    // The columns to the right follow: exchanged, divided by the diagonal tile and updated.
    const Int panel = std::min(kDepth, count - next);
    const int64_t work = int64_t{kSlice} * depth * (m - first);
    ForEachPieceBehindPanel(n - next, panel, work, [&](Int begin, Int end) {
      for (Int column = next + begin; column < next + end; ++column) {
        exchange(column, first, next);
      }
      const Int columns = end - begin;
      T* above = at(first, next + begin);
      SolveSlice<T>(lapack, {'L', 'L', 'N', 'U', depth, columns}, at(first, first), lda, above,
                    lda);
      const Int below = m - next;
      if (below == 0) return;
      Subtract<T>(lapack, below, columns, depth, {'N', at(next, first), lda}, {'N', above, lda},
                  at(next, next + begin), lda);
      if (begin == 0 && panel > 0) factor(next);
    });
  }
  // At the end the columns to the left, once each.
  ForEachPiece(count, kSlice, int64_t{kSlice} * count, [&](Int begin, Int end) {
    for (Int column = begin; column < end; ++column) {
      exchange(column, std::min(count, (column / kDepth + 1) * kDepth), count);
    }
  });
  return first_zero;
}

namespace {

// a [count] and b [count] change places.
template <typename T>
void Exchange(Int count, T* a, T* b) {
  if constexpr (!kIsComplex<T>) {
    if (HasOwnProducts<T>()) {
      ExchangeLines(count, a, b);
      return;
    }
  }
  std::swap_ranges(a, a + count, b);
}

// `to` := columns of `from`, which has `lines` of `length` numbers; steps are those from line to line. In
// parallel.
template <typename T>
void TransposeLines(Int lines, Int length, const T* from, int64_t from_step, T* to,
                    int64_t to_step) {
  ForEachPiece(lines, kTransposed, int64_t{kTransposed} * length, [&](Int begin, Int end) {
    const T* first = from + begin * from_step;
    if constexpr (!kIsComplex<T>) {
      if (HasOwnProducts<T>()) {
        TransposePiece(end - begin, length, first, from_step, to + begin, to_step);
        return;
      }
    }
    for (Int i = begin; i < end; ++i, first += from_step) {
      for (Int j = 0; j < length; ++j) to[j * to_step + i] = first[j];
    }
  });
}

}  // namespace

// Two panels: one is read while the next one is factored.
int64_t LuPanelSize(Int m) { return 2 * int64_t{m} * kDepth; }

template <typename T>
Int FactorLuOfRows(const Routines<T>& lapack, Int m, Int n, T* a, Int* pivots, T* panel) {
  const Int count = std::min(m, n);
  const auto at = [&](Int row, Int column) { return a + int64_t{row} * n + column; };
  // The rows from `first` on and those that their pivots name, in columns [begin, end).
  const auto exchange = [&](Int first, Int next, Int begin, Int end) {
    for (Int i = first; i < next; ++i) {
      const Int other = pivots[i] - 1;
      if (other != i) Exchange(end - begin, at(i, begin), at(other, begin));
    }
  };
  Int first_zero = 0;
  const auto panel_of = [&](Int first) {
    return panel + (first / kDepth % 2 == 0 ? 0 : LuPanelSize(m) / 2);
  };
  // LAPACK factors a copy with the columns one after the other, from which the products read, too.
  const auto factor = [&](Int first) {
    const Int depth = std::min(kDepth, count - first);
    const Int rows = m - first;
    T* copy = panel_of(first);
    TransposeLines(rows, depth, at(first, first), n, copy, rows);
    Int info = 0;
    lapack.getrf(&rows, &depth, copy, &rows, pivots + first, &info);
    if (info > 0 && first_zero == 0) first_zero = first + info;
    for (Int i = first; i < first + depth; ++i) pivots[i] += first;
    TransposeLines(depth, rows, copy, rows, at(first, first), n);
  };
  factor(0);
  for (Int first = 0; first < count; first += kDepth) {
    const Int depth = std::min(kDepth, count - first);
    const Int next = first + depth;
    const Int rows = m - first;
    const T* factors = panel_of(first);
    // As in FactorLu, of the transposed matrix, which is column-major.
    const Int following = std::min(kDepth, count - next);
    const int64_t work = int64_t{kSlice} * depth * rows;
    ForEachPieceBehindPanel(n - next, following, work, [&](Int begin, Int end) {
      exchange(first, next, next + begin, next + end);
      const Int columns = end - begin;
      T* above = at(first, next + begin);
      SolveSlice<T>(lapack, {'R', 'L', 'T', 'U', columns, depth}, factors, rows, above, n);
      const Int below = m - next;
      if (below == 0) return;
      Subtract<T>(lapack, columns, below, depth, {'N', above, n}, {'T', factors + depth, rows},
                  at(next, next + begin), n);
      if (begin == 0 && following > 0) factor(next);
    });
  }
  ForEachPiece(count, kDepth, int64_t{kDepth} * count,
               [&](Int begin, Int end) { exchange(end, count, begin, end); });
  return first_zero;
}

namespace {

// What SolveVectors solves, in the letters of xTRSV.
template <typename T>
struct VectorSystem {
  char uplo;
  char transpose;
  char diagonal;
  Int order;
  const T* data;

  bool columns() const { return transpose == 'N'; }
  bool forward() const { return (uplo == 'L') == columns(); }
  const T* at(Int row, Int column) const { return data + int64_t{column} * order + row; }
};

// x := the solution y of op(a) y = x, for `sides` vectors that are `apart` from one another.
template <typename T>
void SolveVectors(const Routines<T>& lapack, const VectorSystem<T>& a, Int sides, T* x,
                  int64_t apart) {
  const Int step = 1;
  const T one = T(1);
  const T minus_one = T(-1);
  [[maybe_unused]] const TriangleWay way{a.columns(), a.forward(), a.diagonal == 'U'};
  bool own = false;
  if constexpr (!kIsComplex<T>) {
    own = HasFewVectors();
    if (own && a.columns() && NumThreads() == 1) {
      // The same bits, and columns are read to their ends. (Rows are faster in blocks.)
      SolveFew<T>(a.order, sides, a.data, a.order, way, x, apart);
      return;
    }
  }
  constexpr auto kBlock = static_cast<Int>(kVectorBlock);
  for (Int done = 0; done < a.order; done += kBlock) {
    const Int size = std::min(kBlock, a.order - done);
    const Int first = a.forward() ? done : a.order - done - size;
    T* block = x + first;
    if constexpr (!kIsComplex<T>) {
      if (own) SolveFew<T>(size, sides, a.at(first, first), a.order, way, block, apart);
    }
    for (Int side = 0; side < sides && !own; ++side) {
      lapack.trsv(&a.uplo, &a.transpose, &a.diagonal, &size, a.at(first, first), &a.order,
                  block + side * apart, &step, 1, 1, 1);
    }
    const Int left = a.order - done - size;
    const int64_t work = 4 * int64_t{kVectorSlice} * size;
    ForEachPiece(left, kVectorSlice, work, [&](Int begin, Int end) {
      const Int from = a.forward() ? first + size + begin : begin;
      const Int length = end - begin;
      const T* beside = a.columns() ? a.at(from, first) : a.at(first, from);
      T* y = x + from;
      if constexpr (!kIsComplex<T>) {
        if (own) {
          SubtractFew<T>(length, size, sides, beside, a.order, way, block, y, apart);
          return;
        }
      }
      for (Int side = 0; side < sides; ++side) {
        lapack.gemv(&a.transpose, a.columns() ? &length : &size, a.columns() ? &size : &length,
                    &minus_one, beside, &a.order, block + side * apart, &step, &one,
                    y + side * apart, &step, 1);
      }
    });
  }
}

// Whether zeros on the right side of a system are zeros of its solution too: the triangle is finite, and has an inverse.
template <typename T>
bool KeepsZeros(const TriangularSystem& system, const T* a, Int lda) {
  const Int order = system.order();
  bool keeps = true;
  for (Int column = 0; column < order; ++column) {
    const T* from = a + int64_t{column} * lda;
    const bool is_upper = system.uplo == 'U';
    for (Int row = is_upper ? 0 : column + 1; row < (is_upper ? column : order); ++row)
      keeps &= IsFinite(from[row]);
    if (system.diagonal != 'U') keeps &= IsFinite(from[column]) && from[column] != T(0);
  }
  return keeps;
}

}  // namespace

template <typename T>
void SolveTriangular(const Routines<T>& lapack, const TriangularSystem& system, const T* a, T* b) {
  const Int order = system.order();
  const bool left = system.side == 'L';
  const Int sides = left ? system.n : system.m;  // right-hand sides
  const Int lda = Leading(order);
  const Int ldb = Leading(system.m);
  if (sides == 0) return;
  if (sides <= kVectors) {
    // x op(a) = b is op(a)^T x^T = b^T; BLAS has no conjugate that is not transposed.
    char transpose = system.transpose;
    const bool conjugated = !left && transpose == 'C' && kIsComplex<T>;
    if (!left) transpose = transpose == 'N' ? 'T' : 'N';
    const VectorSystem<T> triangle{system.uplo, transpose, system.diagonal, order, a};
    if (left || (sides == 1 && !conjugated)) {
      SolveVectors(lapack, triangle, sides, b, ldb);
      return;
    }
    // They lie side by side: element by element in b, one after the other in x.
    std::vector<T> x(static_cast<size_t>(sides) * static_cast<size_t>(order));
    const auto copy = [&](const auto& body) {
      for (Int i = 0; i < order; ++i) {
        for (Int side = 0; side < sides; ++side) {
          body(b[int64_t{i} * ldb + side], x[static_cast<size_t>(int64_t{side} * order + i)]);
        }
      }
    };
    copy([&](T& from, T& to) { to = conjugated ? Conjugate(from) : from; });
    SolveVectors(lapack, triangle, sides, x.data(), order);
    copy([&](T& to, T& from) { to = conjugated ? Conjugate(from) : from; });
    return;
  }
  const Int slice = (sides / (kSlices * kSlice) + 1) * kSlice;
  // Lines [begin, end) of a triangular b are zero before `begin` or from `end` on.
  const bool is_lower = (system.uplo == 'L') == (system.transpose == 'N');
  const bool skips = system.has_triangular_b && KeepsZeros(system, a, lda);
  const bool zeros_first = skips && is_lower == left;
  const bool zeros_last = skips && is_lower != left;
  ForEachPiece(sides, slice, int64_t{slice} * order * order / 2, [&](Int begin, Int end) {
    TriangularSystem part = system;
    const Int first = zeros_first ? begin : 0;
    (left ? part.n : part.m) = end - begin;
    (left ? part.m : part.n) = (zeros_last ? end : order) - first;
    const Int row = left ? first : begin;
    const Int column = left ? begin : first;
    SolveSlice(lapack, part, a + int64_t{first} * lda + first, lda, b + int64_t{column} * ldb + row,
               ldb);
  });
}

namespace {

// PropagateCholesky up to order kLeaf, row by row from the last one.
template <typename T>
void PropagateSmall(Int n, const T* factor, T* gradient, Int leading) {
  T column[kLeaf];
  T sums[kLeaf];
  for (Int j = n - 1; j >= 0; --j) {
    const T pivot = factor[int64_t{j} * leading + j];
    for (Int i = j + 1; i < n; ++i) {
      column[i] = factor[int64_t{i} * leading + j];
      sums[i] = gradient[int64_t{i} * leading + j];
    }
    for (Int k = j + 1; k < n; ++k) {
      const T* row = gradient + int64_t{k} * leading;
      for (Int i = j + 1; i < n; ++i) sums[i] -= row[i] * column[k];
    }
    T* to = gradient + int64_t{j} * leading;
    T diagonal = to[j];
    for (Int i = j + 1; i < n; ++i) {
      const T quotient = sums[i] / pivot;
      diagonal -= quotient * column[i];
      to[i] = quotient;
      gradient[int64_t{i} * leading + j] = quotient;
    }
    to[j] = diagonal / pivot;
  }
}

}  // namespace

// With A = [A11 .; A21 A22], L = [D 0; C E] and E E^T = A22 - C C^T: the gradient G22 of that difference is A22's. C's is
// then less by 2 G22 C, and A21's is C's by the inverse of D; D's is less by A21's, transposed, by C.
template <typename T>
void PropagateCholesky(const Routines<T>& lapack, Int n, const T* factor, T* gradient,
                       Int leading) {
  if (n <= kLeaf) {
    PropagateSmall(n, factor, gradient, leading);
    return;
  }
  const Int half = (n / 2 + kLeaf - 1) / kLeaf * kLeaf;
  const Int rest = n - half;
  const int64_t step = leading;
  const T* below = factor + half * step;
  T* beside = gradient + half * step;
  T* last = beside + half;
  PropagateCholesky(lapack, rest, below + half, last, leading);
  // Rows are columns in LAPACK's letters, where L is upper triangular.
  ForEachPiece(rest, kSlice, int64_t{kSlice} * half * n, [&](Int begin, Int end) {
    const Int rows = end - begin;
    T* to = beside + begin * step;
    Subtract<T>(lapack, half, rows, rest, {'N', below, leading},
                {'N', last + begin * step, leading}, to, leading);
    SolveSlice<T>(lapack, {'L', 'U', 'N', 'N', half, rows}, factor, leading, to, leading);
  });
  TransposeLines(rest, half, beside, step, gradient + half, step);
  ForEachPiece(half, kSlice, int64_t{kSlice} * half * rest / 2, [&](Int begin, Int end) {
    Subtract<T>(lapack, end, end - begin, rest, {'N', below, leading},
                {'T', beside + begin, leading}, gradient + begin * step, leading);
  });
  PropagateCholesky(lapack, half, factor, gradient, leading);
}

int64_t CholeskyRowsSize(Int n) { return int64_t{n} * std::min(n, kDepth); }

template <typename T>
void PropagateCholeskyRows(const Routines<T>& lapack, Int n, const T* factor, T* gradient,
                           T* scratch) {
  // P, some rows at a time: they are sums over rows of L and G from these on, which are still there.
  for (Int first = 0; first < n; first += kDepth) {
    const Int next = std::min(n, first + kDepth);
    const Int rows = next - first;
    ForEachPiece(next, kSlice, int64_t{kSlice} * rows * (n - first), [&](Int begin, Int end) {
      for (Int i = 0; i < rows; ++i) {
        std::fill(scratch + int64_t{i} * n + begin, scratch + int64_t{i} * n + end, T(0));
      }
      const Int row = std::max(first, begin);
      Subtract<T>(lapack, end - begin, rows, n - row, {'N', gradient + int64_t{row} * n + begin, n},
                  {'T', factor + int64_t{row} * n + first, n}, scratch + begin, n);
    });
    for (Int i = first; i < next; ++i) {
      const T* from = scratch + int64_t{i - first} * n;
      T* to = gradient + int64_t{i} * n;
      for (Int j = 0; j < i; ++j) to[j] = -from[j];
      to[i] = T(-0.5) * from[i];
    }
  }
  // Rows are columns in LAPACK's letters, where L is upper triangular.
  SolveTriangular(lapack, {'L', 'U', 'N', 'N', n, n, true}, factor, gradient);
  SolveTriangular(lapack, {'R', 'U', 'T', 'N', n, n}, factor, gradient);
}

#define TRIPONT_INSTANTIATE(T)                                                \
  template bool FactorCholesky<T>(const Routines<T>&, char, Int, T*);         \
  template Int FactorLu<T>(const Routines<T>&, Int, Int, T*, Int*);           \
  template Int FactorLuOfRows<T>(const Routines<T>&, Int, Int, T*, Int*, T*); \
  template void SolveTriangular<T>(const Routines<T>&, const TriangularSystem&, const T*, T*);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
TRIPONT_INSTANTIATE(std::complex<float>)
TRIPONT_INSTANTIATE(std::complex<double>)
#undef TRIPONT_INSTANTIATE
template void PropagateCholesky<float>(const Routines<float>&, Int, const float*, float*, Int);
template void PropagateCholeskyRows<float>(const Routines<float>&, Int, const float*, float*,
                                           float*);
template void PropagateCholesky<double>(const Routines<double>&, Int, const double*, double*, Int);
template void PropagateCholeskyRows<double>(const Routines<double>&, Int, const double*, double*,
                                            double*);

}  // namespace tripont::lapack
