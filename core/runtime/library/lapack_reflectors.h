// QR factors and products with Householder reflectors of one matrix, shared out to the runtime's
// threads: LAPACK factors panels of columns, and BLAS multiplies pieces of the other columns by a
// panel's reflectors, each on the thread that does its task (lapack::OneThread).
//
// Reflectors are as xGEQRF leaves them: column j of a [m,k] holds, below its diagonal, v_j, whose
// element j is 1 and whose elements before it are 0. Q = H_0 H_1 ... with H_j = I - tau_j v_j v_j*.
//
// Matrices are column-major; ld is the distance of two columns. What the pieces are depends on the
// sizes alone, so that results do not depend on the number of threads.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_REFLECTORS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_REFLECTORS_H_

#include <cstdint>

#include "core/runtime/library/lapack_api.h"

namespace tripont::lapack {

// Matrices with up to as many rows or columns are left to LAPACK's own routines.
constexpr Int kPanel = 32;

// Elements of `work` that the functions below take for matrices of m rows and n columns, which are
// multiplied by reflectors or factored.
int64_t ReflectorsWork(Int m, Int n);

// As xGEQRF: a [m,n] := reflectors and, on and above the diagonal, R; tau [min(m, n)].
template <typename T>
void FactorQr(const Routines<T>& lapack, Int m, Int n, T* a, Int lda, T* tau, T* work);

// As xORGQR: a [m,n], whose first k columns hold reflectors, := the first n columns of Q;
// m >= n >= k.
template <typename T>
void MakeOrthogonal(const Routines<T>& lapack, Int m, Int n, Int k, T* a, Int lda, const T* tau,
                    T* work);

// As xORMQR from the left: c [m,n] := Q c with the k reflectors of a [m,k], k <= m. Reads a only.
template <typename T>
void MultiplyByQ(const Routines<T>& lapack, Int m, Int n, Int k, const T* a, Int lda, const T* tau,
                 T* c, Int ldc, T* work);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_REFLECTORS_H_
