// Products and triangular solves of up to four vectors, on the calling thread: every number of the matrix is read
// once for all of them. T is float or double.
//
// Matrices are lines of numbers that are `step` apart: rows, or columns. Vectors are `apart` from one another.
// Every element is a sum in an order that depends on the matrix's shape alone, not on the number of vectors, nor on
// whether a triangle is solved at once or in blocks of kVectorBlock.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_FEW_VECTORS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_FEW_VECTORS_H_

#include <cstdint>

#include "core/runtime/export.h"

namespace tripont::lapack {

constexpr int kFewVectors = 4;
// Unknowns whose products with one row are one sum, at most.
constexpr int64_t kVectorBlock = 256;

// Whether this CPU has vectors for the functions below: 32 bytes or more.
TRIPONT_EXPORT bool HasFewVectors();

// How a triangle lies, and how it is solved.
struct TriangleWay {
  bool columns;  // its lines are columns
  bool forward;  // it is a lower one, whose first unknown is solved first; else an upper one
  bool unit;     // its diagonal is taken as ones
};

// y [m] -= a [m,k] x [k] for `count` pairs of vectors: a rectangle beside such a triangle, k of whose unknowns are
// solved.
template <typename T>
TRIPONT_EXPORT void SubtractFew(int64_t m, int64_t k, int count, const T* a, int64_t step,
                                TriangleWay way, const T* x, T* y, int64_t apart);

// x := the solution y of a y = x, for `count` vectors.
template <typename T>
TRIPONT_EXPORT void SolveFew(int64_t order, int count, const T* a, int64_t step, TriangleWay way,
                             T* x, int64_t apart);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_FEW_VECTORS_H_
