// LAPACK, opened when first needed.
//
// tripont uses the OpenBLAS of the wheel scipy-openblas32 (docs/linear-algebra.md says why): a
// LAPACK with 32-bit integers whose functions have a prefix of their own, so that it stays apart
// from any other BLAS in the process. The declarations are ours. Fortran's rules: every argument is
// a pointer, matrices are column-major, and the length of each character argument follows at the
// end.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_API_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_API_H_

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/runtime/status.h"

namespace tripont::lapack {

template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

template <typename T>
T Conjugate(T value) {
  if constexpr (kIsComplex<T>) return std::conj(value);
  return value;
}

using Int = int32_t;
using Length = size_t;  // of a character argument

// A leading dimension: LAPACK wants at least 1.
inline Int Leading(Int rows) { return std::max<Int>(1, rows); }

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;

// The functions for matrices of T: float, double and complex of both. Where the complex function
// has another name (ungqr, unmqr, heevd, hetrd) it has the member of the real one's. `work`,
// `lwork`: scratch memory and its size in elements; -1 asks for the best size, which the function
// writes to work[0]. `info`: 0, or what the routine's manual says.
template <typename T>
struct Routines {
  using R = Real<T>;
  template <typename RealType, typename ComplexType>
  using Of = std::conditional_t<kIsComplex<T>, ComplexType, RealType>;

  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* lwork,
                Int* info);
  Of<void (*)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, T* tau, T* work,
              const Int* lwork, Int* info),
     void (*)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, T* tau, T* work,
              const Int* lwork, R* rwork, Int* info)>
      geqp3;
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau,
                T* work, const Int* lwork, Int* info);
  void (*ormqr)(const char* side, const char* transpose, const Int* m, const Int* n, const Int* k,
                const T* a, const Int* lda, const T* tau, T* c, const Int* ldc, T* work,
                const Int* lwork, Int* info, Length, Length);
  void (*potrf)(const char* uplo, const Int* n, T* a, const Int* lda, Int* info, Length);
  void (*trsm)(const char* side, const char* uplo, const char* transpose, const char* diagonal,
               const Int* m, const Int* n, const T* alpha, const T* a, const Int* lda, T* b,
               const Int* ldb, Length, Length, Length, Length);
  void (*trsv)(const char* uplo, const char* transpose, const char* diagonal, const Int* n,
               const T* a, const Int* lda, T* x, const Int* step, Length, Length, Length);
  void (*gemv)(const char* transpose, const Int* m, const Int* n, const T* alpha, const T* a,
               const Int* lda, const T* x, const Int* step_x, const T* beta, T* y,
               const Int* step_y, Length);
  void (*gemm)(const char* transpose_a, const char* transpose_b, const Int* m, const Int* n,
               const Int* k, const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb,
               const T* beta, T* c, const Int* ldc, Length, Length);
  void (*herk)(const char* uplo, const char* transpose, const Int* n, const Int* k, const R* alpha,
               const T* a, const Int* lda, const R* beta, T* c, const Int* ldc, Length, Length);
  void (*gtsv)(const Int* n, const Int* columns, T* lower, T* diagonal, T* upper, T* b,
               const Int* ldb, Int* info);
  void (*gehrd)(const Int* n, const Int* low, const Int* high, T* a, const Int* lda, T* tau,
                T* work, const Int* lwork, Int* info);
  void (*sytrd)(const char* uplo, const Int* n, T* a, const Int* lda, R* diagonal, R* off_diagonal,
                T* tau, T* work, const Int* lwork, Int* info, Length);
  void (*gebrd)(const Int* m, const Int* n, T* a, const Int* lda, R* diagonal, R* off_diagonal,
                T* left_tau, T* right_tau, T* work, const Int* lwork, Int* info);
  // These four are null for complex types.
  void (*sterf)(const Int* n, R* diagonal, R* off_diagonal, Int* info);
  void (*stedc)(const char* job, const Int* n, R* diagonal, R* off_diagonal, R* vectors,
                const Int* ldvectors, R* work, const Int* lwork, Int* iwork, const Int* liwork,
                Int* info, Length);
  void (*laed1)(const Int* n, R* diagonal, R* vectors, const Int* ldvectors, Int* order,
                const R* between, const Int* cut, R* work, Int* iwork, Int* info);
  void (*bdsdc)(const char* uplo, const char* job, const Int* n, R* diagonal, R* off_diagonal, R* u,
                const Int* ldu, R* vt, const Int* ldvt, R* q, Int* iq, R* work, Int* iwork,
                Int* info, Length, Length);
  Of<void (*)(const char* job, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u,
              const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* lwork, Int* iwork,
              Int* info, Length),
     void (*)(const char* job, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u,
              const Int* ldu, T* vt, const Int* ldvt, T* work, const Int* lwork, R* rwork,
              Int* iwork, Int* info, Length)>
      gesdd;
  Of<void (*)(const char* job_u, const char* job_vt, const Int* m, const Int* n, T* a,
              const Int* lda, R* s, T* u, const Int* ldu, T* vt, const Int* ldvt, T* work,
              const Int* lwork, Int* info, Length, Length),
     void (*)(const char* job_u, const char* job_vt, const Int* m, const Int* n, T* a,
              const Int* lda, R* s, T* u, const Int* ldu, T* vt, const Int* ldvt, T* work,
              const Int* lwork, R* rwork, Int* info, Length, Length)>
      gesvd;
  Of<void (*)(const char* job, const char* uplo, const Int* n, T* a, const Int* lda, R* w, T* work,
              const Int* lwork, Int* iwork, const Int* liwork, Int* info, Length, Length),
     void (*)(const char* job, const char* uplo, const Int* n, T* a, const Int* lda, R* w, T* work,
              const Int* lwork, R* rwork, const Int* lrwork, Int* iwork, const Int* liwork,
              Int* info, Length, Length)>
      syevd;
  Of<void (*)(const char* job_left, const char* job_right, const Int* n, T* a, const Int* lda,
              T* w_real, T* w_imag, T* left, const Int* ldleft, T* right, const Int* ldright,
              T* work, const Int* lwork, Int* info, Length, Length),
     void (*)(const char* job_left, const char* job_right, const Int* n, T* a, const Int* lda, T* w,
              T* left, const Int* ldleft, T* right, const Int* ldright, T* work, const Int* lwork,
              R* rwork, Int* info, Length, Length)>
      geev;
  Of<void (*)(const char* job, const char* sort, const void* select, const Int* n, T* a,
              const Int* lda, Int* selected, T* w_real, T* w_imag, T* vectors, const Int* ldvectors,
              T* work, const Int* lwork, Int* bwork, Int* info, Length, Length),
     void (*)(const char* job, const char* sort, const void* select, const Int* n, T* a,
              const Int* lda, Int* selected, T* w, T* vectors, const Int* ldvectors, T* work,
              const Int* lwork, R* rwork, Int* bwork, Int* info, Length, Length)>
      gees;
};

struct Api {
  Routines<float> f32{};
  Routines<double> f64{};
  Routines<std::complex<float>> c64{};
  Routines<std::complex<double>> c128{};
  std::string path;
  std::string description;  // the library's own words on its version; may be empty
  // How many threads it uses for one large matrix. Both null if the library has no such functions.
  void (*set_threads)(int threads) = nullptr;
  int (*get_threads)() = nullptr;

  template <typename T>
  const Routines<T>& Of() const {
    if constexpr (std::is_same_v<T, float>) {
      return f32;
    } else if constexpr (std::is_same_v<T, double>) {
      return f64;
    } else if constexpr (std::is_same_v<T, std::complex<float>>) {
      return c64;
    } else {
      return c128;
    }
  }
};

// The opened library; it stays open until the process ends. The first call opens it, later ones
// return the same answer. UNAVAILABLE if no fit library is found: the message lists the places and
// says what to install. Thread-safe.
//
// Places, in this order: $TRIPONT_LAPACK_PATH (a file) and nothing else if it is set; the wheel
// scipy-openblas32, and the copy of the same library that SciPy brings, both in the site-packages
// that tripont or oneTBB is installed in.
//
// OpenBLAS has threads of its own, which work on one large matrix at a time: as many as the runtime
// has, or $OPENBLAS_NUM_THREADS.
StatusOr<const Api*> Load();

// The library if Load() has opened it, else null. Opens nothing.
const Api* LoadedOrNull();

// While one exists, the library's routines run on the threads that call them: for tasks of oneTBB,
// which share the cores out already. (OpenBLAS's own threads wait for each other by spinning;
// beside as many of ours they wait for whole time slices of the system's.) Threads may make several
// at a time. A routine that another thread started before may go on with more threads. The last one
// that goes gives the library back the number of threads that the first one found, which the
// program may have chosen (threadpoolctl) after the library was opened.
class OneThread {
 public:
  explicit OneThread(const Api& api);
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const Api& api_;
};

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_API_H_
