// Library calls of LAPACK's eigenvalues and singular values. Operands and results are given without
// batch dimensions; lapack_call.h says how matrices lie. k = min(m, n).
//
//   call   operand  results                                               attributes
//   syevd  a [n,n]  vectors [n,n], real values [n], info                  "uplo"; "mode" 'V' or 'N'
//   geev   a [n,n]  values, complex left, right [n,n], info               "compute_left",
//                                                                         "compute_right" 'V' or 'N'
//   gees   a [n,n]  form [n,n], vectors [n,n], values, s32 selected,      "mode" 'V' or 'N';
//                   info                                                  "sort" 'N'
//   gesdd, gesvd
//          a [n,m]  undefined [n,m], s [k], u [m or k,m], vt [n,n or k],  "mode" 'A', 'S' or 'N'
//                   info
//
// "row_major": 1 where syevd or gesdd takes and gives row-major matrices: batches in lanes alone
// (matrix_lanes.h).
//
// `values` are two real arrays [n] (real and imaginary parts) for real matrices and one complex
// array for complex matrices. A matrix with a NaN or an infinity (for syevd: in the triangle that
// "uplo" names) gives NaNs and info kNotFinite, because LAPACK's iterations may not end on such a
// matrix. Results that the mode says not to compute are undefined.
//
// Eigenvalues alone of f32 and c64 are those of the tridiagonal matrix in f64: LAPACK's routine for them (xSTERF) rounds
// more than the one that makes vectors, and takes a small part of the time.
#include <memory>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"
#include "core/runtime/library/lapack_reflectors.h"
#include "core/runtime/library/lapack_singular.h"
#include "core/runtime/library/lapack_tridiagonal.h"

namespace tripont::lapack {
namespace {

template <typename T>
class Syevd final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(a_, arguments.MatrixInOrder(0));
    n_ = a_.n;
    TRIPONT_ASSIGN_OR_RETURN(uplo_, arguments.Character("uplo", "LU"));
    TRIPONT_ASSIGN_OR_RETURN(mode_, arguments.Character("mode", "VN"));
    const Expected matrix = Array<T>({n_, n_});
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({matrix}, {matrix, Array<Real<T>>({n_}), Array<Int>({})}));
    // Three sizes are asked for at once.
    T size = T(0);
    Real<T> real_size = 0;
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("syevd", [&](T* to, const Int* ask, Int* info) {
                               Real<T> w = 0;
                               Call(&size, &w, &size, ask, &real_size, ask, &iwork_, ask, info);
                               *to = size;
                             }));
    TRIPONT_ASSIGN_OR_RETURN(
        rwork_, WorkSize<T>("syevd", [&](T* to, const Int*, Int*) { *to = T(real_size); }));
    iwork_ = std::max<Int>(1, iwork_);
    SetWork(n_, 6.0 * n_ * n_ * n_,
            std::max(InSteps() ? StepsWork() : ValuesWork(),
                     BytesOf<T>(work_) + BytesOf<Real<T>>(rwork_) + BytesOf<Int>(iwork_)));
    if (InSteps()) SharesOut();
    return SetLanes<T>(n_, matrix_lanes::kMostJacobiOrder,
                       2 * matrix_lanes::MatrixVectors(n_, n_) + n_, a_.needs_lanes());
  }

  // Whether the steps of xSYEVD are taken here, so that threads share them.
  bool InSteps() const { return mode_ == 'V' && n_ > kPanel; }

  size_t StepsWork() const {
    const int64_t size = int64_t{n_} * n_;
    const int64_t work = std::max<int64_t>(int64_t{kPanel} * n_, ReflectorsWork(n_, n_));
    return BytesOf<Real<T>>(n_) + BytesOf<T>(n_) + BytesOf<Real<T>>(size) + BytesOf<Int>(n_) +
           BytesOf<Real<T>>(TridiagonalWork(n_)) + BytesOf<Int>(TridiagonalIntegers(n_)) +
           BytesOf<T>(work) + (kIsComplex<T> ? BytesOf<T>(size) : 0);
  }

  // Whether there are no vectors, and values come from a tridiagonal matrix in f64.
  bool HasWideValues() const { return mode_ == 'N' && sizeof(Real<T>) == sizeof(float); }

  size_t ValuesWork() const {
    const int64_t n = std::max<Int>(1, n_);
    return BytesOf<Real<T>>(n) + BytesOf<T>(n) + BytesOf<T>(kPanel * n) + 2 * BytesOf<double>(n);
  }

  // Both triangles, from that which "uplo" names.
  void CompleteTriangles(T* a) const {
    for (int64_t column = 0; column < n_; ++column) {
      for (int64_t row = 0; row < column; ++row) {
        T& above = a[column * n_ + row];
        T& below = a[row * n_ + column];
        uplo_ == 'U' ? below = Conjugate(above) : above = Conjugate(below);
      }
    }
  }

  // w := the eigenvalues of a, which is overwritten. The info of a step that failed, or 0.
  Int Values(Item item, T* a, Real<T>* w) const {
    const Int lda = Leading(n_);
    auto* off_diagonal = item.Take<Real<T>>(lda);
    T* tau = item.Take<T>(lda);
    const Int work_size = kPanel * lda;
    T* work = item.Take<T>(work_size);
    auto* diagonal = item.Take<double>(lda);
    auto* beside = item.Take<double>(lda);
    CompleteTriangles(a);
    const int exponent = ScaleToOne(a, int64_t{n_} * n_);
    const char lower = 'L';
    Int info = 0;
    lapack<T>().sytrd(&lower, &n_, a, &lda, w, off_diagonal, tau, work, &work_size, &info, 1);
    if (info != 0) return info;
    std::copy_n(w, n_, diagonal);
    std::copy_n(off_diagonal, std::max<Int>(0, n_ - 1), beside);
    lapack<double>().sterf(&n_, diagonal, beside, &info);
    for (Int i = 0; i < n_; ++i) w[i] = static_cast<Real<T>>(diagonal[i]);
    ScaleBack(w, n_, exponent);
    return info;
  }

  // a := the eigenvectors, w := the eigenvalues. The info of a step that failed, or 0.
  Int Steps(Item item, T* a, Real<T>* w) const {
    const int64_t size = int64_t{n_} * n_;
    auto* off_diagonal = item.Take<Real<T>>(n_);
    T* tau = item.Take<T>(n_);
    auto* tridiagonal = item.Take<Real<T>>(size);
    Int* order = item.Take<Int>(n_);
    auto* real_work = item.Take<Real<T>>(TridiagonalWork(n_));
    Int* integers = item.Take<Int>(TridiagonalIntegers(n_));
    const Int work_size = kPanel * n_;
    T* work = item.Take<T>(std::max<int64_t>(work_size, ReflectorsWork(n_, n_)));
    // So that reflectors lie below the diagonal, as those of xGEQRF do.
    CompleteTriangles(a);
    const int exponent = ScaleToOne(a, size);
    const char lower = 'L';
    Int info = 0;
    lapack<T>().sytrd(&lower, &n_, a, &n_, w, off_diagonal, tau, work, &work_size, &info, 1);
    if (info == 0) {
      info = SolveTridiagonal(lapack<Real<T>>(), n_, w, off_diagonal, tridiagonal, order, real_work,
                              integers);
    }
    if (info != 0) return info;
    T* vectors = nullptr;
    if constexpr (kIsComplex<T>) {
      vectors = item.Take<T>(size);
      std::copy_n(tridiagonal, size, vectors);
    } else {
      vectors = tridiagonal;
    }
    MultiplyByQ(lapack<T>(), n_ - 1, n_, n_ - 1, a + 1, n_, tau, vectors + 1, n_, work);
    std::copy_n(w, n_, real_work);
    for (int64_t i = 0; i < n_; ++i) {
      w[i] = real_work[order[i]];
      std::copy_n(vectors + int64_t{order[i]} * n_, n_, a + i * n_);
    }
    ScaleBack(w, n_, exponent);
    return 0;
  }

  // `rwork`: complex matrices only.
  void Call(T* a, Real<T>* w, T* work, const Int* lwork, [[maybe_unused]] Real<T>* rwork,
            [[maybe_unused]] const Int* lrwork, Int* iwork, const Int* liwork, Int* info) const {
    const Int lda = Leading(n_);
    if constexpr (kIsComplex<T>) {
      lapack<T>().syevd(&mode_, &uplo_, &n_, a, &lda, w, work, lwork, rwork, lrwork, iwork, liwork,
                        info, 1, 1);
    } else {
      lapack<T>().syevd(&mode_, &uplo_, &n_, a, &lda, w, work, lwork, iwork, liwork, info, 1, 1);
    }
  }

  bool Finite(const T* a) const {
    const int64_t n = n_;
    for (int64_t column = 0; column < n; ++column) {
      const int64_t begin = uplo_ == 'L' ? column : 0;
      const int64_t end = uplo_ == 'L' ? n : column + 1;
      if (!AllFinite(a + column * n + begin, end - begin)) return false;
    }
    return true;
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, a_.size());
    TransposeIfRows(a, a_);
    auto* w = item.Result<Real<T>>(1, n_);
    Int* info = item.Result<Int>(2, 1);
    if (!Finite(a)) {
      FillNan(a, a_.size());
      FillNan(w, n_);
      *info = kNotFinite;
      return;
    }
    if (InSteps()) {
      *info = Steps(item, a, w);
    } else if (HasWideValues()) {
      *info = Values(item, a, w);
    } else {
      T* work = item.Take<T>(work_);
      auto* rwork = item.Take<Real<T>>(rwork_);
      Call(a, w, work, &work_, rwork, &rwork_, item.Take<Int>(iwork_), &iwork_, info);
    }
    TransposeIfRows(a, a_);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      matrix_lanes::EigenTile<T> tile{n_,
                                      LayoutOf(a_),
                                      uplo_ == 'L',
                                      first.Operand<T>(0, a_.size()),
                                      first.Result<T>(1, n_),
                                      mode_ == 'V' ? first.Result<T>(0, a_.size()) : nullptr,
                                      count,
                                      first.workspace()};
      std::fill_n(first.Result<Int>(2, 1), count, 0);
      matrix_lanes::Run(tile);
      return tile.failed;
    }
    return 0;
  }

  Matrix a_;
  Int n_ = 0;
  char uplo_ = 0;
  char mode_ = 0;
  Int work_ = 0;
  Int rwork_ = 0;
  Int iwork_ = 0;
};

template <typename T>
class Geev final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    n_ = arguments.Dimension(0, 0);
    TRIPONT_ASSIGN_OR_RETURN(left_, arguments.Character("compute_left", "VN"));
    TRIPONT_ASSIGN_OR_RETURN(right_, arguments.Character("compute_right", "VN"));
    const Expected matrix = Array<T>({n_, n_});
    const Expected values = Array<T>({n_});
    const Expected vectors = Array<std::complex<Real<T>>>({n_, n_});
    const Expected info = Array<Int>({});
    if constexpr (kIsComplex<T>) {
      TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {values, vectors, vectors, info}));
    } else {
      TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {values, values, vectors, vectors, info}));
    }
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("geev", [&](T* size, const Int* ask, Int* state) {
                               Real<T> unused = 0;
                               Call(size, size, size, size, size, size, ask, &unused, state);
                             }));
    SetWork(n_, 15.0 * n_ * n_ * n_,
            BytesOf<T>(work_) + 3 * BytesOf<T>(int64_t{1} * n_ * n_) +
                BytesOf<Real<T>>(int64_t{2} * n_));
    return OkStatus();
  }

  // `w_imag`: real matrices only; `rwork`: complex ones only.
  void Call(T* a, T* w, [[maybe_unused]] T* w_imag, T* left, T* right, T* work, const Int* lwork,
            [[maybe_unused]] Real<T>* rwork, Int* info) const {
    const Int ld = Leading(n_);
    if constexpr (kIsComplex<T>) {
      lapack<T>().geev(&left_, &right_, &n_, a, &ld, w, left, &ld, right, &ld, work, lwork, rwork,
                       info, 1, 1);
    } else {
      lapack<T>().geev(&left_, &right_, &n_, a, &ld, w, w_imag, left, &ld, right, &ld, work, lwork,
                       info, 1, 1);
    }
  }

  // LAPACK packs the eigenvectors of a conjugate pair as one real and one imaginary column.
  void Unpack(const Real<T>* w_imag, const Real<T>* packed, std::complex<Real<T>>* vectors) const {
    for (int64_t j = 0; j < n_; ++j) {
      const Real<T>* column = packed + j * n_;
      auto* to = vectors + j * n_;
      if (w_imag[j] == 0 || j + 1 == n_) {
        for (int64_t i = 0; i < n_; ++i) to[i] = column[i];
        continue;
      }
      for (int64_t i = 0; i < n_; ++i) {
        to[i] = {column[i], column[n_ + i]};
        to[n_ + i] = {column[i], -column[n_ + i]};
      }
      ++j;
    }
  }

  void Run(Item item) const override {
    using Complex = std::complex<Real<T>>;
    const int64_t size = int64_t{1} * n_ * n_;
    constexpr size_t kFirst = kIsComplex<T> ? 1 : 2;  // result that holds the left vectors
    T* w = item.Result<T>(0, n_);
    T* w_imag = kIsComplex<T> ? nullptr : item.Result<T>(1, n_);
    auto* left = item.Result<Complex>(kFirst, size);
    auto* right = item.Result<Complex>(kFirst + 1, size);
    Int* info = item.Result<Int>(kFirst + 2, 1);
    const T* from = item.Operand<T>(0, size);
    if (!AllFinite(from, size)) {
      FillNan(w, n_);
      if (w_imag != nullptr) FillNan(w_imag, n_);
      FillNan(left, size);
      FillNan(right, size);
      *info = kNotFinite;
      return;
    }
    T* a = item.Take<T>(size);
    std::copy_n(from, size, a);
    T* work = item.Take<T>(work_);
    auto* rwork = item.Take<Real<T>>(int64_t{2} * n_);
    if constexpr (kIsComplex<T>) {
      Call(a, w, nullptr, left, right, work, &work_, rwork, info);
    } else {
      T* packed_left = item.Take<T>(size);
      T* packed_right = item.Take<T>(size);
      Call(a, w, w_imag, packed_left, packed_right, work, &work_, rwork, info);
      if (*info != 0) return;
      if (left_ == 'V') Unpack(w_imag, packed_left, left);
      if (right_ == 'V') Unpack(w_imag, packed_right, right);
    }
  }

  Int n_ = 0;
  char left_ = 0;
  char right_ = 0;
  Int work_ = 0;
};

template <typename T>
class Gees final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    n_ = arguments.Dimension(0, 0);
    TRIPONT_ASSIGN_OR_RETURN(mode_, arguments.Character("mode", "VN"));
    TRIPONT_RETURN_IF_ERROR(arguments.Character("sort", "N").status());
    const Expected matrix = Array<T>({n_, n_});
    const Expected values = Array<T>({n_});
    const Expected number = Array<Int>({});
    if constexpr (kIsComplex<T>) {
      TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix, matrix, values, number, number}));
    } else {
      TRIPONT_RETURN_IF_ERROR(
          arguments.Check({matrix}, {matrix, matrix, values, values, number, number}));
    }
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("gees", [&](T* size, const Int* ask, Int* info) {
                               Real<T> unused = 0;
                               Int selected = 0;
                               Call(size, &selected, size, size, size, size, ask, &unused, info);
                             }));
    SetWork(n_, 15.0 * n_ * n_ * n_, BytesOf<T>(work_) + BytesOf<Real<T>>(n_));
    return OkStatus();
  }

  void Call(T* a, Int* selected, T* w, [[maybe_unused]] T* w_imag, T* vectors, T* work,
            const Int* lwork, [[maybe_unused]] Real<T>* rwork, Int* info) const {
    const char sort = 'N';
    const Int ld = Leading(n_);
    if constexpr (kIsComplex<T>) {
      lapack<T>().gees(&mode_, &sort, nullptr, &n_, a, &ld, selected, w, vectors, &ld, work, lwork,
                       rwork, nullptr, info, 1, 1);
    } else {
      lapack<T>().gees(&mode_, &sort, nullptr, &n_, a, &ld, selected, w, w_imag, vectors, &ld, work,
                       lwork, nullptr, info, 1, 1);
    }
  }

  void Run(Item item) const override {
    const int64_t size = int64_t{1} * n_ * n_;
    constexpr size_t kSelected = kIsComplex<T> ? 3 : 4;
    T* a = item.Copy<T>(0, 0, size);
    T* vectors = item.Result<T>(1, size);
    T* w = item.Result<T>(2, n_);
    T* w_imag = kIsComplex<T> ? nullptr : item.Result<T>(3, n_);
    Int* selected = item.Result<Int>(kSelected, 1);
    Int* info = item.Result<Int>(kSelected + 1, 1);
    if (!AllFinite(a, size)) {
      FillNan(a, size);
      FillNan(vectors, size);
      FillNan(w, n_);
      if (w_imag != nullptr) FillNan(w_imag, n_);
      *selected = 0;
      *info = kNotFinite;
      return;
    }
    T* work = item.Take<T>(work_);
    Call(a, selected, w, w_imag, vectors, work, &work_, item.Take<Real<T>>(n_), info);
  }

  Int n_ = 0;
  char mode_ = 0;
  Int work_ = 0;
};

// gesdd (divide and conquer) or gesvd (QR iterations).
template <typename T, bool kDivide>
class SingularValues final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(a_, arguments.MatrixInOrder(0));
    k_ = a_.smaller();
    TRIPONT_ASSIGN_OR_RETURN(mode_, arguments.Character("mode", "ASN"));
    u_.m = a_.m;
    vt_.n = a_.n;
    u_.n = mode_ == 'A' ? a_.m : k_;
    vt_.m = mode_ == 'A' ? a_.n : k_;
    if (mode_ == 'N') {  // what is not computed may have either shape
      if (FromEnd(arguments.signature(), 2, 2) == a_.m) u_.n = a_.m;
      if (FromEnd(arguments.signature(), 3, 1) == a_.n) vt_.m = a_.n;
    }
    TRIPONT_RETURN_IF_ERROR(arguments.Check(
        {a_.Of<T>()}, {a_.Of<T>(), Array<Real<T>>({k_}), u_.Of<T>(), vt_.Of<T>(), Array<Int>({})}));
    TRIPONT_ASSIGN_OR_RETURN(
        work_, WorkSize<T>(kDivide ? "gesdd" : "gesvd", [&](T* size, const Int* ask, Int* info) {
          Real<T> s = 0;
          Int iwork = 0;
          Call(size, &s, size, size, size, ask, &s, &iwork, info);
        }));
    SetWork(a_.larger(), 10.0 * a_.m * a_.n * k_,
            InSteps()
                ? StepsWork()
                : BytesOf<T>(work_) + BytesOf<Real<T>>(RealWork()) + BytesOf<Int>(int64_t{8} * k_));
    if (InSteps()) SharesOut();
    const int64_t vectors = 2 * matrix_lanes::MatrixVectors(a_.n, a_.n) + int64_t{2} * a_.n;
    return SetLanes<T>(a_.n, a_.m == a_.n ? matrix_lanes::kMostJacobiOrder : 0, vectors,
                       a_.needs_lanes());
  }

  // A dimension of a result; -1 if there is none.
  static int64_t FromEnd(const LibraryCallSignature& signature, size_t result, size_t position) {
    if (result >= signature.results.size()) return -1;
    const Shape& shape = signature.results[result];
    return shape.rank() >= position ? shape.dimensions[shape.rank() - position] : -1;
  }

  // Whether the steps of xGESDD are taken here, so that threads share them.
  bool InSteps() const { return kDivide && mode_ != 'N' && k_ > kPanel; }

  bool IsWide() const { return a_.m < a_.n; }

  // The vectors of the longer side of a, of which there are k or as many as that side has elements.
  Int LongVectors() const { return mode_ == 'A' ? a_.larger() : k_; }

  size_t StepsWork() const {
    const SingularWork<T> work(a_.larger(), k_, LongVectors());
    const size_t turned =
        IsWide() ? BytesOf<T>(a_.size()) + BytesOf<T>(int64_t{1} * a_.n * LongVectors()) : 0;
    return turned + BytesOf<T>(work.elements) + BytesOf<Int>(work.integers);
  }

  // A wide matrix's adjoint is a tall one, whose left vectors are its right ones.
  Int Steps(Item item, T* a, Real<T>* s, T* u, T* vt) const {
    const bool wide = IsWide();
    const Int m = a_.larger();
    const Int columns = LongVectors();
    const SingularWork<T> sizes(m, k_, columns);
    T* adjoint = wide ? item.Take<T>(a_.size()) : nullptr;
    T* long_vectors = wide ? item.Take<T>(int64_t{1} * m * columns) : u;
    T* short_vectors = item.Take<T>(sizes.elements);  // its beginning
    Int* integers = item.Take<Int>(sizes.integers);
    if (wide) {
      Adjoint(a_.m, a_.n, a, adjoint);
      a = adjoint;
    }
    const int exponent = ScaleToOne(a, a_.size());
    const Int info = FindSingular(api(), m, k_, columns, a, s, long_vectors, wide ? u : vt,
                                  short_vectors, integers);
    ScaleBack(s, k_, exponent);
    if (wide) {
      std::copy_n(short_vectors, int64_t{1} * k_ * k_, u);
      Adjoint(m, columns, long_vectors, vt);
    } else {
      Adjoint(k_, k_, short_vectors, vt);
    }
    return info;
  }

  // to [n,m] := the adjoint of from [m,n].
  static void Adjoint(int64_t m, int64_t n, const T* from, T* to) {
    constexpr int64_t kTile = 16;
    for (int64_t first = 0; first < m; first += kTile) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = first; i < std::min(m, first + kTile); ++i) {
          to[i * n + j] = Conjugate(from[j * m + i]);
        }
      }
    }
  }

  // As the manuals of cgesdd and cgesvd say.
  int64_t RealWork() const {
    const int64_t k = k_;
    const int64_t larger = a_.larger();
    if (!kIsComplex<T>) return 0;
    if (!kDivide) return 5 * k;
    if (mode_ == 'N') return 7 * k;
    return std::max(5 * k * k + 5 * k, 2 * larger * k + 2 * k * k + k);
  }

  void Call(T* a, Real<T>* s, T* u, T* vt, T* work, const Int* lwork,
            [[maybe_unused]] Real<T>* rwork, [[maybe_unused]] Int* iwork, Int* info) const {
    const Routines<T>& lapack = this->template lapack<T>();
    const Int& m = a_.m;
    const Int& n = a_.n;
    const Int lda = Leading(m);
    const Int ldvt = Leading(vt_.m);
    if constexpr (kDivide && kIsComplex<T>) {
      lapack.gesdd(&mode_, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, work, lwork, rwork, iwork, info,
                   1);
    } else if constexpr (kDivide) {
      lapack.gesdd(&mode_, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, work, lwork, iwork, info, 1);
    } else if constexpr (kIsComplex<T>) {
      lapack.gesvd(&mode_, &mode_, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, work, lwork, rwork, info,
                   1, 1);
    } else {
      lapack.gesvd(&mode_, &mode_, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, work, lwork, info, 1, 1);
    }
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, a_.size());
    TransposeIfRows(a, a_);
    auto* s = item.Result<Real<T>>(1, k_);
    T* u = item.Result<T>(2, u_.size());
    T* vt = item.Result<T>(3, vt_.size());
    Int* info = item.Result<Int>(4, 1);
    if (!AllFinite(a, a_.size())) {
      FillNan(s, k_);
      FillNan(u, u_.size());
      FillNan(vt, vt_.size());
      *info = kNotFinite;
      return;
    }
    if (InSteps()) {
      *info = Steps(item, a, s, u, vt);
      return;
    }
    T* work = item.Take<T>(work_);
    auto* rwork = item.Take<Real<T>>(RealWork());
    Call(a, s, u, vt, work, &work_, rwork, item.Take<Int>(int64_t{8} * k_), info);
    TransposeIfRows(u, a_);
    TransposeIfRows(vt, a_);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const bool vectors = mode_ != 'N';
      matrix_lanes::SingularTile<T> tile{a_.n,
                                         LayoutOf(a_),
                                         first.Operand<T>(0, a_.size()),
                                         first.Result<T>(1, a_.n),
                                         vectors ? first.Result<T>(2, u_.size()) : nullptr,
                                         vectors ? first.Result<T>(3, vt_.size()) : nullptr,
                                         count,
                                         first.workspace()};
      std::fill_n(first.Result<Int>(4, 1), count, 0);
      matrix_lanes::Run(tile);
      return tile.failed;
    }
    return 0;
  }

  Matrix a_;
  Matrix u_;
  Matrix vt_;
  Int k_ = 0;
  char mode_ = 0;
  Int work_ = 0;
};

template <typename T>
using Gesdd = SingularValues<T, true>;
template <typename T>
using Gesvd = SingularValues<T, false>;

}  // namespace

void RegisterEigen(LibraryRegistry& registry) {
  registry.Register("syevd", BatchCall::Make<Syevd>);
  registry.Register("geev", BatchCall::Make<Geev>);
  registry.Register("gees", BatchCall::Make<Gees>);
  registry.Register("gesdd", BatchCall::Make<Gesdd>);
  registry.Register("gesvd", BatchCall::Make<Gesvd>);
}

}  // namespace tripont::lapack
