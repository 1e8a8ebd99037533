#include "core/runtime/library/lapack_singular.h"

#include <algorithm>
#include <complex>

#include "core/runtime/library/lapack_reflectors.h"

namespace tripont::lapack {
namespace {

// Matrices with so many times as many rows as columns are replaced with their R, as xGESDD does.
bool IsTall(Int m, Int n) { return 6 * int64_t{m} >= 11 * int64_t{n}; }

// What xGEBRD takes, in blocks of up to kPanel columns.
int64_t BidiagonalWork(Int m, Int n) { return int64_t{kPanel} * (int64_t{m} + n); }

}  // namespace

SingularWork::SingularWork(Int m, Int n, Int columns)
    : elements(3 * int64_t{n} + 2 * int64_t{n} * n +
               std::max(BidiagonalWork(m, n), ReflectorsWork(m, std::max(n, columns)))),
      reals(5 * int64_t{n} + 5 * int64_t{n} * n),
      integers(8 * int64_t{n}) {}

template <typename T>
Int FindSingular(const Api& api, Int m, Int n, Int columns, T* a, Real<T>* s, T* u, T* v, T* work,
                 Real<T>* reals, Int* integers) {
  using R = Real<T>;
  const Routines<T>& lapack = api.Of<T>();
  const int64_t square = int64_t{n} * n;
  const bool tall = IsTall(m, n);
  T* tau = work;
  T* left_tau = tau + n;
  T* right_tau = left_tau + n;
  T* upper = right_tau + n;  // R of a tall matrix
  T* right_reflectors = upper + square;
  T* rest = right_reflectors + square;
  R* off_diagonal = reals;
  R* left = off_diagonal + n;     // of the bidiagonal matrix
  R* right = left + square;       // its adjoint
  R* real_work = right + square;  // 3 n^2 + 4 n

  if (tall) {
    FactorQr(lapack, m, n, a, m, tau, rest);
    for (int64_t j = 0; j < n; ++j) {
      std::copy_n(a + j * m, j + 1, upper + j * n);
      std::fill(upper + j * n + j + 1, upper + (j + 1) * n, T(0));
    }
  }
  T* factored = tall ? upper : a;
  const Int rows = tall ? n : m;
  const auto work_size = static_cast<Int>(std::min<int64_t>(BidiagonalWork(rows, n), 1 << 30));
  Int info = 0;
  lapack.gebrd(&rows, &n, factored, &rows, s, off_diagonal, left_tau, right_tau, rest, &work_size,
               &info);
  if (info != 0) return info;
  const char upper_letter = 'U';
  const char identity = 'I';
  R unused_q = 0;
  Int unused_iq = 0;
  api.Of<R>().bdsdc(&upper_letter, &identity, &n, s, off_diagonal, left, &n, right, &n, &unused_q,
                    &unused_iq, real_work, integers, &info, 1, 1);
  if (info != 0) return info;

  for (int64_t j = 0; j < columns; ++j) {
    T* column = u + j * m;
    std::fill_n(column, m, T(0));
    if (j < n) {
      std::copy_n(left + j * n, n, column);
    } else {
      column[j] = T(1);
    }
  }
  if (tall) {
    MultiplyByQ(lapack, n, n, n, upper, n, left_tau, u, m, rest);
    MultiplyByQ(lapack, m, columns, n, a, m, tau, u, m, rest);
  } else {
    MultiplyByQ(lapack, m, columns, n, a, m, left_tau, u, m, rest);
  }

  // The right reflectors lie in the rows above the diagonal, conjugated.
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < n; ++i) v[i * n + j] = T(right[j * n + i]);
    for (int64_t i = j + 1; i < n; ++i) {
      right_reflectors[j * n + i] = Conjugate(factored[i * rows + j]);
    }
  }
  if (n > 1) {
    MultiplyByQ(lapack, n - 1, n, n - 1, right_reflectors + 1, n, right_tau, v + 1, n, rest);
  }
  return 0;
}

#define TRIPONT_INSTANTIATE(T) \
  template Int FindSingular<T>(const Api&, Int, Int, Int, T*, Real<T>*, T*, T*, T*, Real<T>*, Int*);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
TRIPONT_INSTANTIATE(std::complex<float>)
TRIPONT_INSTANTIATE(std::complex<double>)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
