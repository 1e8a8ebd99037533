#include "core/runtime/library/lapack_reflectors.h"

#include <algorithm>
#include <complex>

#include "core/runtime/parallel.h"

namespace tripont::lapack {
namespace {

// Columns that a task multiplies by a panel's reflectors. (With 32 OpenBLAS's products reach two
// thirds of their speed, with 64 four fifths, with 128 nine tenths.)
constexpr Int kSlice = 96;
// Multiply-adds that make a task worth another thread.
constexpr int64_t kTaskWork = 1 << 17;

// The reflectors of a panel as matrices: H_0 H_1 ... = I - V T V* with the panel's vectors as the
// columns of V [rows,size], and T upper triangular [size,size].
template <typename T>
class Panel {
 public:
  // `work`: Work() elements, in use as long as this.
  Panel(const Routines<T>& lapack, T* work) : lapack_(lapack), work_(work) {}

  static int64_t Work(Int m, Int n) {
    return int64_t{kPanel} * m + 2 * int64_t{kPanel} * kPanel + 2 * int64_t{kPanel} * n;
  }

  // Copies the reflectors of a [rows,size], and computes T.
  void Read(Int rows, Int size, const T* a, Int lda, const T* tau) {
    rows_ = rows;
    size_ = size;
    for (Int j = 0; j < size; ++j) {
      T* v = vectors() + int64_t{j} * rows;
      std::fill_n(v, j, T(0));
      v[j] = T(1);
      std::copy(a + int64_t{j} * lda + j + 1, a + int64_t{j} * lda + rows, v + j + 1);
    }
    // T* is V* V's strict upper triangle and the inverses of tau on its diagonal, inverted: column
    // by column, t_j = -tau_j T (V* v_j) above the diagonal.
    T* products = factor() + int64_t{kPanel} * kPanel;
    Multiply('C', 'N', size, size, rows, T(1), vectors(), rows, vectors(), rows, T(0), products,
             size);
    for (Int j = 0; j < size; ++j) {
      T* t = factor() + int64_t{j} * size;
      std::fill_n(t, size, T(0));
      for (Int i = 0; i < j; ++i) {
        const T scale = -tau[j] * products[int64_t{j} * size + i];
        const T* column = factor() + int64_t{i} * size;
        for (Int r = 0; r <= i; ++r) t[r] += scale * column[r];
      }
      t[j] = tau[j];
    }
  }

  // c [rows,n] := H_0 H_1 ... c, or its adjoint times c.
  void Apply(bool adjoint, Int n, T* c, Int ldc) const {
    const int64_t pieces = (int64_t{n} + kSlice - 1) / kSlice;
    const int64_t work = 2 * int64_t{kSlice} * rows_ * size_;
    ParallelFor(pieces, std::max<int64_t>(1, kTaskWork / std::max<int64_t>(1, work)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const Int first = static_cast<Int>(i * kSlice);
                    ApplyTo(adjoint, first, std::min(kSlice, n - first), c, ldc);
                  }
                });
  }

 private:
  T* vectors() const { return work_; }
  T* factor() const { return work_ + int64_t{kPanel} * rows_; }

  void ApplyTo(bool adjoint, Int first, Int n, T* c, Int ldc) const {
    T* products = factor() + 2 * int64_t{kPanel} * kPanel + 2 * int64_t{kPanel} * first;
    T* factored = products + int64_t{size_} * n;
    c += int64_t{first} * ldc;
    Multiply('C', 'N', size_, n, rows_, T(1), vectors(), rows_, c, ldc, T(0), products, size_);
    Multiply(adjoint ? 'C' : 'N', 'N', size_, n, size_, T(1), factor(), size_, products, size_,
             T(0), factored, size_);
    Multiply('N', 'N', rows_, n, size_, T(-1), vectors(), rows_, factored, size_, T(1), c, ldc);
  }

  void Multiply(char op_a, char op_b, Int m, Int n, Int k, T alpha, const T* a, Int lda, const T* b,
                Int ldb, T beta, T* c, Int ldc) const {
    lapack_.gemm(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
  }

  const Routines<T>& lapack_;
  T* const work_;
  Int rows_ = 0;
  Int size_ = 0;
};

// The first column of the last panel of k columns.
Int LastPanel(Int k) { return (k - 1) / kPanel * kPanel; }

}  // namespace

int64_t ReflectorsWork(Int m, Int n) { return Panel<float>::Work(m, n) + int64_t{kPanel} * kPanel; }

template <typename T>
void FactorQr(const Routines<T>& lapack, Int m, Int n, T* a, Int lda, T* tau, T* work) {
  const Int count = std::min(m, n);
  const Int lwork = kPanel * kPanel;  // blocks of up to kPanel columns
  Panel<T> panel(lapack, work + lwork);
  for (Int first = 0; first < count; first += kPanel) {
    const Int size = std::min(kPanel, count - first);
    const Int rows = m - first;
    const Int next = first + size;
    T* diagonal = a + int64_t{first} * lda + first;
    Int info = 0;
    lapack.geqrf(&rows, &size, diagonal, &lda, tau + first, work, &lwork, &info);
    if (next == n) continue;
    panel.Read(rows, size, diagonal, lda, tau + first);
    panel.Apply(true, n - next, a + int64_t{next} * lda + first, lda);
  }
}

template <typename T>
void MakeOrthogonal(const Routines<T>& lapack, Int m, Int n, Int k, T* a, Int lda, const T* tau,
                    T* work) {
  const auto set_identity = [&](Int begin, Int end) {
    for (Int j = begin; j < end; ++j) {
      T* column = a + int64_t{j} * lda;
      std::fill_n(column, m, T(0));
      column[j] = T(1);
    }
  };
  set_identity(k, n);
  // A panel leaves the rows above it and the columns before it as they are.
  Panel<T> panel(lapack, work);
  for (Int first = LastPanel(k); k > 0 && first >= 0; first -= kPanel) {
    const Int size = std::min(kPanel, k - first);
    T* diagonal = a + int64_t{first} * lda + first;
    panel.Read(m - first, size, diagonal, lda, tau + first);
    set_identity(first, first + size);
    panel.Apply(false, n - first, diagonal, lda);
  }
}

template <typename T>
void MultiplyByQ(const Routines<T>& lapack, Int m, Int n, Int k, const T* a, Int lda, const T* tau,
                 T* c, Int ldc, T* work) {
  Panel<T> panel(lapack, work);
  for (Int first = LastPanel(k); k > 0 && first >= 0; first -= kPanel) {
    const Int size = std::min(kPanel, k - first);
    panel.Read(m - first, size, a + int64_t{first} * lda + first, lda, tau + first);
    panel.Apply(false, n, c + first, ldc);
  }
}

#define TRIPONT_INSTANTIATE(T)                                                                 \
  template void FactorQr<T>(const Routines<T>&, Int, Int, T*, Int, T*, T*);                    \
  template void MakeOrthogonal<T>(const Routines<T>&, Int, Int, Int, T*, Int, const T*, T*);   \
  template void MultiplyByQ<T>(const Routines<T>&, Int, Int, Int, const T*, Int, const T*, T*, \
                               Int, T*);
TRIPONT_INSTANTIATE(float)
TRIPONT_INSTANTIATE(double)
TRIPONT_INSTANTIATE(std::complex<float>)
TRIPONT_INSTANTIATE(std::complex<double>)
#undef TRIPONT_INSTANTIATE

}  // namespace tripont::lapack
