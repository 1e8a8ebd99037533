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

// Elements of `work` that are used by one step after the other: by xBDSDC 3 n^2 + 4 n real ones, else
// two squares and what the steps take.
template <typename T>
int64_t StepsWork(Int m, Int n, Int columns) {
  constexpr int64_t kReals = sizeof(T) / sizeof(Real<T>);
  const int64_t square = int64_t{n} * n;
  const int64_t steps = std::max(BidiagonalWork(m, n), ReflectorsWork(m, std::max(n, columns)));
  return std::max((3 * square + 4 * int64_t{n}) / kReals, 2 * square + steps);
}

// u [m,columns] := the real matrix [n,n] at its beginning, in the corner of a unit matrix.
template <typename T>
void Embed(Int m, Int n, Int columns, T* u) {
  const auto* real = reinterpret_cast<const Real<T>*>(u);
  // From the end: an element of u lies nowhere before its real one.
  for (int64_t j = columns - 1; j >= 0; --j) {
    T* column = u + j * m;
    const Int rows = j < n ? n : 0;
    std::fill(column + rows, column + m, T(0));
    if (j >= n) column[j] = T(1);
    for (int64_t i = rows - 1; i >= 0; --i) column[i] = T(real[j * n + i]);
  }
}

}  // namespace

template <typename T>
SingularWork<T>::SingularWork(Int m, Int n, Int columns)
    : elements(StepsWork<T>(m, n, columns) + 4 * int64_t{n} + (IsTall(m, n) ? int64_t{n} * n : 0)),
      integers(8 * int64_t{n}) {}

template <typename T>
Int FindSingular(const Api& api, Int m, Int n, Int columns, T* a, Real<T>* s, T* u, T* square,
                 T* work, Int* integers) {
  using R = Real<T>;
  const Routines<T>& lapack = api.Of<T>();
  const bool tall = IsTall(m, n);
  T* v = work;
  T* right_reflectors = v + int64_t{n} * n;
  T* rest = right_reflectors + int64_t{n} * n;
  T* tau = work + StepsWork<T>(m, n, columns);
  T* left_tau = tau + n;
  T* right_tau = left_tau + n;
  auto* off_diagonal = reinterpret_cast<R*>(right_tau + n);
  T* upper = right_tau + 2 * int64_t{n};  // R of a tall matrix
  // The vectors of the bidiagonal matrix, the right ones as its adjoint.
  auto* left = reinterpret_cast<R*>(u);
  auto* right = reinterpret_cast<R*>(square);

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
                    &unused_iq, reinterpret_cast<R*>(work), integers, &info, 1, 1);
  if (info != 0) return info;

  Embed(m, n, columns, u);
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

#define TRIPONT_INSTANTIATE(T)     \
  template struct SingularWork<T>; \
  template Int FindSingular<T>(const Api&, Int, Int, Int, T*, Real<T>*, T*, T*, T*, Int*);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
TRIPONT_INSTANTIATE(std::complex<float>)
TRIPONT_INSTANTIATE(std::complex<double>)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
