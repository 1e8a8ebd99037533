// Dense linear algebra on strided views: what the library calls "cholesky" and "triangular-solve"
// are made of.
//
// A view is a matrix with any strides, also negative ones, read and written through an optional
// conjugation. So transposed, adjoint, upper triangular and right-sided problems are all the lower
// triangular left-sided one through another view.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LINEAR_ALGEBRA_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LINEAR_ALGEBRA_H_

#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/runtime/shape.h"

namespace tripont::linear_algebra {

template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

template <typename T>
T Conjugate(T value) {
  if constexpr (kIsComplex<T>) return std::conj(value);
  return value;
}

template <typename T>
struct View {
  T* data;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;  // elements from a row to the next
  int64_t column_stride;
  bool conjugate = false;

  T Get(int64_t row, int64_t column) const {
    const T value = data[row * row_stride + column * column_stride];
    return conjugate ? Conjugate(value) : value;
  }
  void Set(int64_t row, int64_t column, T value) const {
    data[row * row_stride + column * column_stride] = conjugate ? Conjugate(value) : value;
  }
  View Block(int64_t row, int64_t column, int64_t block_rows, int64_t block_columns) const {
    return {data + row * row_stride + column * column_stride,
            block_rows,
            block_columns,
            row_stride,
            column_stride,
            conjugate};
  }
  View Transposed() const { return {data, columns, rows, column_stride, row_stride, conjugate}; }
  View Conjugated() const { return {data, rows, columns, row_stride, column_stride, !conjugate}; }
  View Adjoint() const { return Transposed().Conjugated(); }
  // Rows from last to first, and the same for columns.
  View RowsReversed() const {
    return {data + (rows - 1) * row_stride, rows, columns, -row_stride, column_stride, conjugate};
  }
  View Reversed() const { return RowsReversed().Transposed().RowsReversed().Transposed(); }
};

// c -= a b. `lower_only`: elements above the diagonal of c are left alone. On several threads if it
// is large. T: float, double and complex of both.
template <typename T>
void MultiplySubtract(View<T> c, View<T> a, View<T> b, bool lower_only = false);

// b := inverse of a times b. Only a's lower triangle is read; `unit_diagonal`: its diagonal is
// taken as ones.
template <typename T>
void SolveLower(View<T> a, View<T> b, bool unit_diagonal);

// a := its Cholesky factor L, a = L times the adjoint of L; the upper triangle is neither read nor
// written. False if a is not positive definite (then a's content is undefined).
template <typename T>
bool FactorCholesky(View<T> a);

}  // namespace tripont::linear_algebra

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LINEAR_ALGEBRA_H_
