// Singular values and vectors of one matrix, in LAPACK's steps, of which those that multiply by
// reflectors are shared out to the runtime's threads (lapack_reflectors.h): a bidiagonal matrix, its
// vectors by divide and conquer, and back. A tall matrix is first replaced with its R. Results do
// not depend on the number of threads.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_SINGULAR_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_SINGULAR_H_

#include <cstdint>

#include "core/runtime/library/lapack_api.h"

namespace tripont::lapack {

// Elements that FindSingular takes for a matrix of m rows, n columns and `columns` columns of u.
template <typename T>
struct SingularWork {
  SingularWork(Int m, Int n, Int columns);
  int64_t elements;
  int64_t integers;
};

// a [m,n] = u s v*, m >= n, with finite elements: s [n] := the singular values, the largest first,
// u [m,columns] := the first n or m left vectors, the beginning of `work` := the right ones, v [n,n].
// `square`: room for n^2 elements. Matrices are column-major without gaps; a and `square` are undefined
// afterwards. The info: 0, or what LAPACK's xBDSDC says where it does not converge.
template <typename T>
Int FindSingular(const Api& api, Int m, Int n, Int columns, T* a, Real<T>* s, T* u, T* square,
                 T* work, Int* integers);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_SINGULAR_H_
