// Eigenvalues and eigenvectors of one symmetric tridiagonal matrix by divide and conquer, shared out
// to the runtime's threads: halves are solved at the same time, each on one thread (lapack::OneThread)
// by LAPACK's xSTEDC if it is small, and joined by LAPACK's xLAED1.
//
// Where a matrix is divided depends on its order alone, so that results do not depend on the number
// of threads. Matrices are column-major.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_TRIDIAGONAL_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_TRIDIAGONAL_H_

#include <cstdint>

#include "core/runtime/library/lapack_api.h"

namespace tripont::lapack {

// Elements of `work` and `integers` that SolveTridiagonal takes for a matrix of order n.
int64_t TridiagonalWork(Int n);
int64_t TridiagonalIntegers(Int n);

// diagonal [n] := the eigenvalues of the matrix with this diagonal and `off_diagonal` [n-1] beside
// it, all of them finite; vectors [n,n] := its orthonormal eigenvectors. order [n] := the columns, from 0, by
// growing eigenvalue. off_diagonal is undefined afterwards. T is float or double. The info: 0, or
// what LAPACK says of an eigenvalue that it did not find.
template <typename T>
Int SolveTridiagonal(const Routines<T>& lapack, Int n, T* diagonal, T* off_diagonal, T* vectors,
                     Int* order, T* work, Int* integers);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_TRIDIAGONAL_H_
