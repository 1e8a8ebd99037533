// Products and triangular solves of up to four vectors, on the calling thread: every number of the matrix is read
// once for all of them. T is float or double.
//
// Matrices are row-major, lines of numbers that are `step` apart; vectors are `apart` from one another. Every
// element is a sum in an order that depends on its row's length alone.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_FEW_VECTORS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_FEW_VECTORS_H_

#include <cstdint>

#include "core/runtime/export.h"

namespace tripont::lapack {

constexpr int kFewVectors = 4;

// Whether this CPU has vectors for the functions below: 32 bytes or more.
TRIPONT_EXPORT bool HasFewVectors();

// y [m] -= a [m,k] x [k] for `count` pairs of vectors.
template <typename T>
TRIPONT_EXPORT void SubtractFew(int64_t m, int64_t k, int count, const T* a, int64_t step,
                                const T* x, T* y, int64_t apart);

// x [order] := the solution y of a y = x for a triangular a, of which the elements before the diagonal
// (`forward`) or behind it are read. `unit`: the diagonal is taken as ones.
template <typename T>
TRIPONT_EXPORT void SolveFew(int64_t order, int count, const T* a, int64_t step, bool forward,
                             bool unit, T* x, int64_t apart);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_FEW_VECTORS_H_
