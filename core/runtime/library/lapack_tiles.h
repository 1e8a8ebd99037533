// Cholesky and LU factors, Cholesky's gradients and triangular solves of one matrix, shared out to the runtime's threads: LAPACK
// and BLAS compute tiles, each on the thread that does its task (lapack::OneThread).
//
// What the tiles are depends on the sizes alone, so that results do not depend on the number of
// threads. Matrices are column-major, without gaps between the columns, but for FactorLuOfRows.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_TILES_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_TILES_H_

#include "core/runtime/library/lapack_api.h"

namespace tripont::lapack {

// Matrices up to this order are one tile.
constexpr Int kTiledOrder = 256;

// As xPOTRF: a [n,n] := its factor U with a = U* U ("uplo" 'U'; the lower triangle is neither read
// nor written) or L with a = L L* ('L'). False if a is not positive definite, or holds NaNs or
// infinities where it is read; its content is undefined then.
template <typename T>
bool FactorCholesky(const Routines<T>& lapack, char uplo, Int n, T* a);

// What the gradient of a function of Cholesky's factor L of a real matrix A = L L^T is for A. Both arrays are
// row-major, their rows `leading` elements apart. `factor`: L [n,n], of which the lower triangle is read.
// `gradient` [n,n]: the lower triangle holds half of what the gradient is for L; becomes the symmetric gradient for A.
template <typename T>
void PropagateCholesky(const Routines<T>& lapack, Int n, const T* factor, T* gradient, Int leading);

// The gradient of an A whose factor is that of its lower triangle, as automatic differentiation has it: L^-T P L^-1,
// where P is the lower triangle of L^T G with half of its diagonal. Row-major [n,n] without gaps: `factor`, L, and
// `gradient`, G, which becomes the result, have zeros above the diagonal. `scratch`: CholeskyRowsSize(n) T's.
template <typename T>
void PropagateCholeskyRows(const Routines<T>& lapack, Int n, const T* factor, T* gradient,
                           T* scratch);
int64_t CholeskyRowsSize(Int n);

// As xGETRF: a [m,n] := L and U of a with rows exchanged; pivots [min(m, n)] count from 1. The info:
// 0, or the first pivot that is 0.
template <typename T>
Int FactorLu(const Routines<T>& lapack, Int m, Int n, T* a, Int* pivots);

// The same of a row-major matrix, of more than one tile. `panel`: scratch for LuPanelSize(m) T's.
template <typename T>
Int FactorLuOfRows(const Routines<T>& lapack, Int m, Int n, T* a, Int* pivots, T* panel);
int64_t LuPanelSize(Int m);

// A triangular system, in the letters of xTRSM: op(a) x = b for side 'L', x op(a) = b for 'R'.
struct TriangularSystem {
  char side;
  char uplo;
  char transpose;  // 'N', 'T' or 'C'
  char diagonal;   // 'U': taken as ones
  Int m;           // b is [m,n]
  Int n;
  // b is square, and zero where op(a) is, so that x is too: zeros are not computed, unless a is singular or not finite.
  bool has_triangular_b = false;
  // The order of a.
  Int order() const { return side == 'L' ? m : n; }
};

// b := x.
template <typename T>
void SolveTriangular(const Routines<T>& lapack, const TriangularSystem& system, const T* a, T* b);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_TILES_H_
