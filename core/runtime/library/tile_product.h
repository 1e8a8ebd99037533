// Products, small triangular solves and transposes of pieces of matrices, for factorisations and solves of one matrix
// (lapack_tiles.h), on the calling thread. T is float or double.
//
// Both factors of a product are copied to where vectors read them one after the other, and 24 (12 without AVX-512)
// vectors of sums stay in registers. Every element is a sum in the order of the depth, in pieces of
// kProductDepth: its bits depend neither on the size of the pieces nor on where it lies in them.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_TILE_PRODUCT_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_TILE_PRODUCT_H_

#include <cstdint>

#include "core/runtime/export.h"

namespace tripont::lapack {

constexpr int64_t kProductDepth = 128;

// A matrix whose element (i, j) is data[i * row + j * column].
template <typename T>
struct Strided {
  const T* data;
  int64_t row;
  int64_t column;
};

// Whether this CPU has vectors for the functions below: 32 bytes or more.
TRIPONT_EXPORT bool HasTileProduct();

// c [m,n], column-major, -= a [m,k] b [k,n].
template <typename T>
TRIPONT_EXPORT void SubtractProduct(int64_t m, int64_t n, int64_t k, Strided<T> a, Strided<T> b,
                                    T* c, int64_t ldc);

constexpr int64_t kMostSmallOrder = 32;

// x [order,n] := the solution y of a y = x for a triangular a, of which the elements before the diagonal
// (`forward`) or behind it are read. `unit`: the diagonal is taken as ones.
template <typename T>
TRIPONT_EXPORT void SolveSmall(int64_t order, int64_t n, Strided<T> a, bool forward, bool unit,
                               T* x, int64_t row, int64_t column);

// `to` := columns of `from`, which has `lines` of `length` numbers; steps are those from line to line.
template <typename T>
TRIPONT_EXPORT void TransposePiece(int64_t lines, int64_t length, const T* from, int64_t from_step,
                                   T* to, int64_t to_step);

// a [count] and b [count] change places.
template <typename T>
TRIPONT_EXPORT void ExchangeLines(int64_t count, T* a, T* b);

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_TILE_PRODUCT_H_
