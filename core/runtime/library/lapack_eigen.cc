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
#include <memory>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"

namespace tripont::lapack {
namespace {

template <typename T>
class Syevd final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    Problem p{};
    p.n = arguments.Dimension(0, 0);
    TRIPONT_ASSIGN_OR_RETURN(p.uplo, Character(signature.attributes, "uplo", "LU"));
    TRIPONT_ASSIGN_OR_RETURN(p.mode, Character(signature.attributes, "mode", "VN"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t rows, signature.attributes.IntegerOr("row_major", 0));
    const Expected matrix{TypeOf<T>(), {p.n, p.n}};
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({matrix}, {matrix, {TypeOf<Real<T>>(), {p.n}}, {PrimitiveType::kS32, {}}}));
    // Three sizes are asked for at once.
    const Int lda = Leading(p.n);
    T size = T(0);
    Real<T> real_size = 0;
    Real<T> w = 0;
    const Int ask = -1;
    Int info = 0;
    if constexpr (kIsComplex<T>) {
      lapack.syevd(&p.mode, &p.uplo, &p.n, &size, &lda, &w, &size, &ask, &real_size, &ask, &p.iwork,
                   &ask, &info, 1, 1);
    } else {
      lapack.syevd(&p.mode, &p.uplo, &p.n, &size, &lda, &w, &size, &ask, &p.iwork, &ask, &info, 1,
                   1);
    }
    auto answer = [&](auto value) {
      return WorkSize<T>("syevd", [&](T* to, const Int*, Int* to_info) {
        *to = T(std::real(value));
        *to_info = info;
      });
    };
    TRIPONT_ASSIGN_OR_RETURN(p.work, answer(size));
    TRIPONT_ASSIGN_OR_RETURN(p.rwork, answer(real_size));
    p.iwork = std::max<Int>(1, p.iwork);
    std::unique_ptr<Syevd> call(new Syevd(arguments.batch(), p, lapack));
    TRIPONT_RETURN_IF_ERROR(call->SetRowMajor(rows != 0));
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

 private:
  struct Problem {
    Int n;
    char uplo;
    char mode;
    Int work;
    Int rwork;
    Int iwork;
  };

  Syevd(int64_t batch, const Problem& p, const Routines<T>& lapack)
      : BatchCall(batch, p.n, 6.0 * p.n * p.n * p.n,
                  BytesOf<T>(p.work) + BytesOf<Real<T>>(p.rwork) + BytesOf<Int>(p.iwork),
                  matrix_lanes::PlanFor<T>(batch, p.n, matrix_lanes::kMostJacobiOrder,
                                           2 * matrix_lanes::MatrixVectors(p.n, p.n) + p.n)),
        problem_(p),
        lapack_(lapack) {}

  bool Finite(const T* a) const {
    const int64_t n = problem_.n;
    for (int64_t column = 0; column < n; ++column) {
      const int64_t begin = problem_.uplo == 'L' ? column : 0;
      const int64_t end = problem_.uplo == 'L' ? n : column + 1;
      if (!AllFinite(a + column * n + begin, end - begin)) return false;
    }
    return true;
  }

  void Run(Item item) const override {
    const Problem& p = problem_;
    const int64_t size = int64_t{1} * p.n * p.n;
    T* a = item.Copy<T>(0, 0, size);
    TransposeIfRows(a, p.n);
    auto* w = item.Result<Real<T>>(1, p.n);
    Int* info = item.Result<Int>(2, 1);
    if (!Finite(a)) {
      FillNan(a, size);
      FillNan(w, p.n);
      *info = kNotFinite;
      return;
    }
    const Int lda = Leading(p.n);
    T* work = item.Take<T>(p.work);
    [[maybe_unused]] auto* rwork = item.Take<Real<T>>(p.rwork);
    Int* iwork = item.Take<Int>(p.iwork);
    if constexpr (kIsComplex<T>) {
      lapack_.syevd(&p.mode, &p.uplo, &p.n, a, &lda, w, work, &p.work, rwork, &p.rwork, iwork,
                    &p.iwork, info, 1, 1);
    } else {
      lapack_.syevd(&p.mode, &p.uplo, &p.n, a, &lda, w, work, &p.work, iwork, &p.iwork, info, 1, 1);
    }
    TransposeIfRows(a, p.n);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const Int n = problem_.n;
      const int64_t size = int64_t{1} * n * n;
      matrix_lanes::EigenTile<T> tile{n,
                                      layout(),
                                      problem_.uplo == 'L',
                                      first.Operand<T>(0, size),
                                      first.Result<T>(1, n),
                                      problem_.mode == 'V' ? first.Result<T>(0, size) : nullptr,
                                      count,
                                      first.workspace()};
      std::fill_n(first.Result<Int>(2, 1), count, 0);
      matrix_lanes::Run(tile);
      return tile.failed;
    }
    return 0;
  }

  const Problem problem_;
  const Routines<T>& lapack_;
};

template <typename T>
class Geev final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    Problem p{};
    p.n = arguments.Dimension(0, 0);
    TRIPONT_ASSIGN_OR_RETURN(p.left, Character(signature.attributes, "compute_left", "VN"));
    TRIPONT_ASSIGN_OR_RETURN(p.right, Character(signature.attributes, "compute_right", "VN"));
    const Expected matrix{TypeOf<T>(), {p.n, p.n}};
    const Expected values{TypeOf<T>(), {p.n}};
    const Expected vectors{TypeOf<std::complex<Real<T>>>(), {p.n, p.n}};
    const Expected info{PrimitiveType::kS32, {}};
    if constexpr (kIsComplex<T>) {
      TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {values, vectors, vectors, info}));
    } else {
      TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {values, values, vectors, vectors, info}));
    }
    TRIPONT_ASSIGN_OR_RETURN(p.work, WorkSize<T>("geev", [&](T* size, const Int* ask, Int* state) {
                               Real<T> unused = 0;
                               Call(lapack, p, size, size, size, size, size, size, ask, &unused,
                                    state);
                             }));
    return std::unique_ptr<LibraryCall>(new Geev(arguments.batch(), p, lapack));
  }

 private:
  struct Problem {
    Int n;
    char left;
    char right;
    Int work;
  };

  Geev(int64_t batch, const Problem& p, const Routines<T>& lapack)
      : BatchCall(batch, p.n, 15.0 * p.n * p.n * p.n,
                  BytesOf<T>(p.work) + 3 * BytesOf<T>(int64_t{1} * p.n * p.n) +
                      BytesOf<Real<T>>(int64_t{2} * p.n)),
        problem_(p),
        lapack_(lapack) {}

  // `w_imag`: real matrices only; `rwork`: complex ones only.
  static void Call(const Routines<T>& lapack, const Problem& p, T* a, T* w,
                   [[maybe_unused]] T* w_imag, T* left, T* right, T* work, const Int* lwork,
                   [[maybe_unused]] Real<T>* rwork, Int* info) {
    const Int ld = Leading(p.n);
    if constexpr (kIsComplex<T>) {
      lapack.geev(&p.left, &p.right, &p.n, a, &ld, w, left, &ld, right, &ld, work, lwork, rwork,
                  info, 1, 1);
    } else {
      lapack.geev(&p.left, &p.right, &p.n, a, &ld, w, w_imag, left, &ld, right, &ld, work, lwork,
                  info, 1, 1);
    }
  }

  // LAPACK packs the eigenvectors of a conjugate pair as one real and one imaginary column.
  void Unpack(const Real<T>* w_imag, const Real<T>* packed, std::complex<Real<T>>* vectors) const {
    const int64_t n = problem_.n;
    for (int64_t j = 0; j < n; ++j) {
      const Real<T>* column = packed + j * n;
      auto* to = vectors + j * n;
      if (w_imag[j] == 0 || j + 1 == n) {
        for (int64_t i = 0; i < n; ++i) to[i] = column[i];
        continue;
      }
      for (int64_t i = 0; i < n; ++i) {
        to[i] = {column[i], column[n + i]};
        to[n + i] = {column[i], -column[n + i]};
      }
      ++j;
    }
  }

  void Run(Item item) const override {
    using Complex = std::complex<Real<T>>;
    const Problem& p = problem_;
    const int64_t size = int64_t{1} * p.n * p.n;
    constexpr size_t kFirst = kIsComplex<T> ? 1 : 2;  // result that holds the left vectors
    T* w = item.Result<T>(0, p.n);
    T* w_imag = kIsComplex<T> ? nullptr : item.Result<T>(1, p.n);
    auto* left = item.Result<Complex>(kFirst, size);
    auto* right = item.Result<Complex>(kFirst + 1, size);
    Int* info = item.Result<Int>(kFirst + 2, 1);
    const T* from = item.Operand<T>(0, size);
    if (!AllFinite(from, size)) {
      FillNan(w, p.n);
      if (w_imag != nullptr) FillNan(w_imag, p.n);
      FillNan(left, size);
      FillNan(right, size);
      *info = kNotFinite;
      return;
    }
    T* a = item.Take<T>(size);
    std::copy_n(from, size, a);
    T* work = item.Take<T>(p.work);
    auto* rwork = item.Take<Real<T>>(int64_t{2} * p.n);
    if constexpr (kIsComplex<T>) {
      Call(lapack_, p, a, w, nullptr, left, right, work, &p.work, rwork, info);
    } else {
      T* packed_left = item.Take<T>(size);
      T* packed_right = item.Take<T>(size);
      Call(lapack_, p, a, w, w_imag, packed_left, packed_right, work, &p.work, rwork, info);
      if (*info != 0) return;
      if (p.left == 'V') Unpack(w_imag, packed_left, left);
      if (p.right == 'V') Unpack(w_imag, packed_right, right);
    }
  }

  const Problem problem_;
  const Routines<T>& lapack_;
};

template <typename T>
class Gees final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    Problem p{};
    p.n = arguments.Dimension(0, 0);
    TRIPONT_ASSIGN_OR_RETURN(p.mode, Character(signature.attributes, "mode", "VN"));
    TRIPONT_RETURN_IF_ERROR(Character(signature.attributes, "sort", "N").status());
    const Expected matrix{TypeOf<T>(), {p.n, p.n}};
    const Expected values{TypeOf<T>(), {p.n}};
    const Expected number{PrimitiveType::kS32, {}};
    if constexpr (kIsComplex<T>) {
      TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix, matrix, values, number, number}));
    } else {
      TRIPONT_RETURN_IF_ERROR(
          arguments.Check({matrix}, {matrix, matrix, values, values, number, number}));
    }
    TRIPONT_ASSIGN_OR_RETURN(p.work, WorkSize<T>("gees", [&](T* size, const Int* ask, Int* info) {
                               Real<T> unused = 0;
                               Int selected = 0;
                               Call(lapack, p, size, &selected, size, size, size, size, ask,
                                    &unused, info);
                             }));
    return std::unique_ptr<LibraryCall>(new Gees(arguments.batch(), p, lapack));
  }

 private:
  struct Problem {
    Int n;
    char mode;
    Int work;
  };

  Gees(int64_t batch, const Problem& p, const Routines<T>& lapack)
      : BatchCall(batch, p.n, 15.0 * p.n * p.n * p.n, BytesOf<T>(p.work) + BytesOf<Real<T>>(p.n)),
        problem_(p),
        lapack_(lapack) {}

  static void Call(const Routines<T>& lapack, const Problem& p, T* a, Int* selected, T* w,
                   [[maybe_unused]] T* w_imag, T* vectors, T* work, const Int* lwork,
                   [[maybe_unused]] Real<T>* rwork, Int* info) {
    const char sort = 'N';
    const Int ld = Leading(p.n);
    if constexpr (kIsComplex<T>) {
      lapack.gees(&p.mode, &sort, nullptr, &p.n, a, &ld, selected, w, vectors, &ld, work, lwork,
                  rwork, nullptr, info, 1, 1);
    } else {
      lapack.gees(&p.mode, &sort, nullptr, &p.n, a, &ld, selected, w, w_imag, vectors, &ld, work,
                  lwork, nullptr, info, 1, 1);
    }
  }

  void Run(Item item) const override {
    const Problem& p = problem_;
    const int64_t size = int64_t{1} * p.n * p.n;
    constexpr size_t kSelected = kIsComplex<T> ? 3 : 4;
    T* a = item.Copy<T>(0, 0, size);
    T* vectors = item.Result<T>(1, size);
    T* w = item.Result<T>(2, p.n);
    T* w_imag = kIsComplex<T> ? nullptr : item.Result<T>(3, p.n);
    Int* selected = item.Result<Int>(kSelected, 1);
    Int* info = item.Result<Int>(kSelected + 1, 1);
    if (!AllFinite(a, size)) {
      FillNan(a, size);
      FillNan(vectors, size);
      FillNan(w, p.n);
      if (w_imag != nullptr) FillNan(w_imag, p.n);
      *selected = 0;
      *info = kNotFinite;
      return;
    }
    T* work = item.Take<T>(p.work);
    Call(lapack_, p, a, selected, w, w_imag, vectors, work, &p.work, item.Take<Real<T>>(p.n), info);
  }

  const Problem problem_;
  const Routines<T>& lapack_;
};

// gesdd (divide and conquer) or gesvd (QR iterations).
template <typename T, bool kDivide>
class SingularValues final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    Problem p{};
    p.n = arguments.Dimension(0, 0);
    p.m = arguments.Dimension(0, 1);
    p.k = std::min(p.m, p.n);
    TRIPONT_ASSIGN_OR_RETURN(const int64_t rows, signature.attributes.IntegerOr("row_major", 0));
    TRIPONT_ASSIGN_OR_RETURN(p.mode, Character(signature.attributes, "mode", "ASN"));
    p.u_columns = p.mode == 'A' ? p.m : p.k;
    p.vt_rows = p.mode == 'A' ? p.n : p.k;
    if (p.mode == 'N') {  // what is not computed may have either shape
      if (FromEnd(signature, 2, 2) == p.m) p.u_columns = p.m;
      if (FromEnd(signature, 3, 1) == p.n) p.vt_rows = p.n;
    }
    const Expected matrix{TypeOf<T>(), {p.n, p.m}};
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix,
                                                       {TypeOf<Real<T>>(), {p.k}},
                                                       {TypeOf<T>(), {p.u_columns, p.m}},
                                                       {TypeOf<T>(), {p.n, p.vt_rows}},
                                                       {PrimitiveType::kS32, {}}}));
    TRIPONT_ASSIGN_OR_RETURN(
        p.work, WorkSize<T>(kDivide ? "gesdd" : "gesvd", [&](T* size, const Int* ask, Int* info) {
          Real<T> s = 0;
          Int iwork = 0;
          Call(lapack, p, size, &s, size, size, size, ask, &s, &iwork, info);
        }));
    std::unique_ptr<SingularValues> call(new SingularValues(arguments.batch(), p, lapack));
    TRIPONT_RETURN_IF_ERROR(call->SetRowMajor(rows != 0));
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

 private:
  struct Problem {
    Int m;
    Int n;
    Int k;
    char mode;
    Int u_columns;
    Int vt_rows;
    Int work;
  };

  // A dimension of a result; -1 if there is none.
  static int64_t FromEnd(const LibraryCallSignature& signature, size_t result, size_t position) {
    if (result >= signature.results.size()) return -1;
    const Shape& shape = signature.results[result];
    return shape.rank() >= position ? shape.dimensions[shape.rank() - position] : -1;
  }

  // As the manuals of cgesdd and cgesvd say.
  static int64_t RealWork(const Problem& p) {
    const int64_t k = p.k;
    const int64_t larger = std::max(p.m, p.n);
    if (!kIsComplex<T>) return 0;
    if (!kDivide) return 5 * k;
    if (p.mode == 'N') return 7 * k;
    return std::max(5 * k * k + 5 * k, 2 * larger * k + 2 * k * k + k);
  }

  SingularValues(int64_t batch, const Problem& p, const Routines<T>& lapack)
      : BatchCall(
            batch, std::max(p.m, p.n), 10.0 * p.m * p.n * p.k,
            BytesOf<T>(p.work) + BytesOf<Real<T>>(RealWork(p)) + BytesOf<Int>(int64_t{8} * p.k),
            p.m == p.n
                ? matrix_lanes::PlanFor<T>(batch, p.n, matrix_lanes::kMostJacobiOrder,
                                           2 * matrix_lanes::MatrixVectors(p.n, p.n) + 2 * p.n)
                : matrix_lanes::Plan{}),
        problem_(p),
        lapack_(lapack) {}

  static void Call(const Routines<T>& lapack, const Problem& p, T* a, Real<T>* s, T* u, T* vt,
                   T* work, const Int* lwork, [[maybe_unused]] Real<T>* rwork,
                   [[maybe_unused]] Int* iwork, Int* info) {
    const Int lda = Leading(p.m);
    const Int ldu = Leading(p.m);
    const Int ldvt = Leading(p.vt_rows);
    if constexpr (kDivide && kIsComplex<T>) {
      lapack.gesdd(&p.mode, &p.m, &p.n, a, &lda, s, u, &ldu, vt, &ldvt, work, lwork, rwork, iwork,
                   info, 1);
    } else if constexpr (kDivide) {
      lapack.gesdd(&p.mode, &p.m, &p.n, a, &lda, s, u, &ldu, vt, &ldvt, work, lwork, iwork, info,
                   1);
    } else if constexpr (kIsComplex<T>) {
      lapack.gesvd(&p.mode, &p.mode, &p.m, &p.n, a, &lda, s, u, &ldu, vt, &ldvt, work, lwork, rwork,
                   info, 1, 1);
    } else {
      lapack.gesvd(&p.mode, &p.mode, &p.m, &p.n, a, &lda, s, u, &ldu, vt, &ldvt, work, lwork, info,
                   1, 1);
    }
  }

  void Run(Item item) const override {
    const Problem& p = problem_;
    const int64_t size = int64_t{1} * p.m * p.n;
    const int64_t u_size = int64_t{1} * p.m * p.u_columns;
    const int64_t vt_size = int64_t{1} * p.n * p.vt_rows;
    T* a = item.Copy<T>(0, 0, size);
    TransposeIfRows(a, p.n);
    auto* s = item.Result<Real<T>>(1, p.k);
    T* u = item.Result<T>(2, u_size);
    T* vt = item.Result<T>(3, vt_size);
    Int* info = item.Result<Int>(4, 1);
    if (!AllFinite(a, size)) {
      FillNan(s, p.k);
      FillNan(u, u_size);
      FillNan(vt, vt_size);
      *info = kNotFinite;
      return;
    }
    T* work = item.Take<T>(p.work);
    auto* rwork = item.Take<Real<T>>(RealWork(p));
    Call(lapack_, p, a, s, u, vt, work, &p.work, rwork, item.Take<Int>(int64_t{8} * p.k), info);
    TransposeIfRows(u, p.n);
    TransposeIfRows(vt, p.n);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const Int n = problem_.n;
      const int64_t size = int64_t{1} * n * n;
      const bool vectors = problem_.mode != 'N';
      matrix_lanes::SingularTile<T> tile{n,
                                         layout(),
                                         first.Operand<T>(0, size),
                                         first.Result<T>(1, n),
                                         vectors ? first.Result<T>(2, size) : nullptr,
                                         vectors ? first.Result<T>(3, size) : nullptr,
                                         count,
                                         first.workspace()};
      std::fill_n(first.Result<Int>(4, 1), count, 0);
      matrix_lanes::Run(tile);
      return tile.failed;
    }
    return 0;
  }

  const Problem problem_;
  const Routines<T>& lapack_;
};

template <typename T>
using Gesdd = SingularValues<T, true>;
template <typename T>
using Gesvd = SingularValues<T, false>;

}  // namespace

void RegisterEigen(LibraryRegistry& registry) {
  registry.Register("syevd", MakeCall<Syevd>);
  registry.Register("geev", MakeCall<Geev>);
  registry.Register("gees", MakeCall<Gees>);
  registry.Register("gesdd", MakeCall<Gesdd>);
  registry.Register("gesvd", MakeCall<Gesvd>);
}

}  // namespace tripont::lapack
