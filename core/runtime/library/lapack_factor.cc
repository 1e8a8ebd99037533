// Library calls of LAPACK's factorisations and of what goes with them. Operands and results are
// given without batch dimensions; lapack_call.h says how matrices lie. k = min(m, n), except for
// orgqr and ormqr, where k is the number of reflectors.
//
//   call   operands                     results                                   attributes
//   getrf  a [n,m]                      lu [n,m], pivots s32 [k] (from 1), info
//   geqrf  a [n,m]                      qr [n,m], tau [k]
//   geqp3  a [n,m], pivots s32 [n]      qr [n,m], pivots s32 [n], tau [k]
//   orgqr  a [n,m], tau [k]             q [n,m]; m >= n >= k
//   ormqr  a [k,r], tau [k], c [n,m]    q c, or c q                               "left", "transpose"
//   potrf  a [n,n]                      factor [n,n], info                        "uplo"
//   gehrd  a [n,n]                      h [n,n], tau [n-1], info                  "low", "high"
//   sytrd  a [n,n]                      a [n,n], real d [n], e [n-1], tau [n-1],  "uplo"
//                                       info
//
// "row_major": 1 where getrf, geqrf or orgqr takes and gives row-major matrices [m,n]: batches in
// lanes alone (matrix_lanes.h). getrf swaps rows in the order of the pivots. "transpose" is the adjoint of complex matrices.
// "low" and "high" count from 1.
#include <memory>
#include <optional>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"
#include "core/runtime/library/lapack_tiles.h"

namespace tripont::lapack {
namespace {

template <typename T>
class Getrf final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t rows, signature.attributes.IntegerOr("row_major", 0));
    const Int n = arguments.Dimension(0, rows != 0 ? 1 : 0);
    const Int m = arguments.Dimension(0, rows != 0 ? 0 : 1);
    const Expected matrix = MatrixOf<T>(m, n, rows != 0);
    TRIPONT_RETURN_IF_ERROR(arguments.Check(
        {matrix}, {matrix, {PrimitiveType::kS32, {std::min(m, n)}}, {PrimitiveType::kS32, {}}}));
    std::unique_ptr<Getrf> call(new Getrf(arguments.batch(), m, n, lapack));
    TRIPONT_RETURN_IF_ERROR(call->SetRowMajor(rows != 0));
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

 private:
  Getrf(int64_t batch, Int m, Int n, const Routines<T>& lapack)
      : BatchCall(batch, std::max(m, n), 1.0 * m * n * std::min(m, n), 0,
                  matrix_lanes::PlanFor<T>(batch, std::max(m, n), matrix_lanes::kMostOrder,
                                           matrix_lanes::MatrixVectors(m, n) + std::min(m, n))),
        m_(m),
        n_(n),
        lapack_(lapack) {}

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * m_ * n_);
    Int* pivots = item.Result<Int>(1, std::min(m_, n_));
    Int* info = item.Result<Int>(2, 1);
    if (std::min(m_, n_) > kTiledOrder) {
      std::optional<OneThread> one_thread;
      if (const Api* api = LoadedOrNull(); api != nullptr) one_thread.emplace(*api);
      *info = FactorLu(lapack_, m_, n_, a, pivots);
      return;
    }
    const Int lda = Leading(m_);
    lapack_.getrf(&m_, &n_, a, &lda, pivots, info);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const int64_t size = int64_t{1} * m_ * n_;
      matrix_lanes::LuTile<T> tile{m_,
                                   n_,
                                   layout(),
                                   first.Operand<T>(0, size),
                                   first.Result<T>(0, size),
                                   first.Result<Int>(1, std::min(m_, n_)),
                                   first.Result<Int>(2, 1),
                                   count,
                                   first.workspace()};
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  const Int m_;
  const Int n_;
  const Routines<T>& lapack_;
};

template <typename T>
class Geqrf final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t rows, signature.attributes.IntegerOr("row_major", 0));
    const Int n = arguments.Dimension(0, rows != 0 ? 1 : 0);
    const Int m = arguments.Dimension(0, rows != 0 ? 0 : 1);
    const Int lda = Leading(m);
    const Expected matrix = MatrixOf<T>(m, n, rows != 0);
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix, {TypeOf<T>(), {std::min(m, n)}}}));
    TRIPONT_ASSIGN_OR_RETURN(const Int work,
                             WorkSize<T>("geqrf", [&](T* size, const Int* ask, Int* info) {
                               lapack.geqrf(&m, &n, size, &lda, size, size, ask, info);
                             }));
    std::unique_ptr<Geqrf> call(new Geqrf(arguments.batch(), m, n, work, lapack));
    TRIPONT_RETURN_IF_ERROR(call->SetRowMajor(rows != 0));
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

 private:
  Geqrf(int64_t batch, Int m, Int n, Int work, const Routines<T>& lapack)
      : BatchCall(batch, std::max(m, n), 2.0 * m * n * std::min(m, n), BytesOf<T>(work),
                  matrix_lanes::PlanFor<T>(batch, std::max(m, n), matrix_lanes::kMostOrder,
                                           matrix_lanes::MatrixVectors(m, n) + std::min(m, n))),
        m_(m),
        n_(n),
        work_(work),
        lapack_(lapack) {}

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * m_ * n_);
    const Int lda = Leading(m_);
    Int info = 0;
    lapack_.geqrf(&m_, &n_, a, &lda, item.Result<T>(1, std::min(m_, n_)), item.Take<T>(work_),
                  &work_, &info);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const int64_t size = int64_t{1} * m_ * n_;
      matrix_lanes::QrTile<T> tile{m_,
                                   n_,
                                   layout(),
                                   first.Operand<T>(0, size),
                                   first.Result<T>(0, size),
                                   first.Result<T>(1, std::min(m_, n_)),
                                   count,
                                   first.workspace()};
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  const Int m_;
  const Int n_;
  const Int work_;
  const Routines<T>& lapack_;
};

template <typename T>
class Geqp3 final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    const Int n = arguments.Dimension(0, 0);
    const Int m = arguments.Dimension(0, 1);
    const Expected matrix{TypeOf<T>(), {n, m}};
    const Expected pivots{PrimitiveType::kS32, {n}};
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({matrix, pivots}, {matrix, pivots, {TypeOf<T>(), {std::min(m, n)}}}));
    TRIPONT_ASSIGN_OR_RETURN(const Int work,
                             WorkSize<T>("geqp3", [&](T* size, const Int* ask, Int* info) {
                               Int unused = 0;
                               Real<T> rwork = 0;
                               Call(lapack, m, n, size, &unused, size, size, ask, &rwork, info);
                             }));
    return std::unique_ptr<LibraryCall>(new Geqp3(arguments.batch(), m, n, work, lapack));
  }

 private:
  Geqp3(int64_t batch, Int m, Int n, Int work, const Routines<T>& lapack)
      : BatchCall(batch, std::max(m, n), 2.0 * m * n * std::min(m, n),
                  BytesOf<T>(work) + BytesOf<Real<T>>(int64_t{2} * n)),
        m_(m),
        n_(n),
        work_(work),
        lapack_(lapack) {}

  static void Call(const Routines<T>& lapack, Int m, Int n, T* a, Int* pivots, T* tau, T* work,
                   const Int* lwork, Real<T>* rwork, Int* info) {
    const Int lda = Leading(m);
    if constexpr (kIsComplex<T>) {
      lapack.geqp3(&m, &n, a, &lda, pivots, tau, work, lwork, rwork, info);
    } else {
      lapack.geqp3(&m, &n, a, &lda, pivots, tau, work, lwork, info);
    }
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * m_ * n_);
    Int* pivots = item.Copy<Int>(1, 1, n_);
    T* work = item.Take<T>(work_);
    Int info = 0;
    Call(lapack_, m_, n_, a, pivots, item.Result<T>(2, std::min(m_, n_)), work, &work_,
         item.Take<Real<T>>(int64_t{2} * n_), &info);
  }

  const Int m_;
  const Int n_;
  const Int work_;
  const Routines<T>& lapack_;
};

template <typename T>
class Orgqr final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t rows, signature.attributes.IntegerOr("row_major", 0));
    const Int n = arguments.Dimension(0, rows != 0 ? 1 : 0);
    const Int m = arguments.Dimension(0, rows != 0 ? 0 : 1);
    const Int k = arguments.Dimension(1, 0);
    const Int lda = Leading(m);
    const Expected matrix = MatrixOf<T>(m, n, rows != 0);
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix, {TypeOf<T>(), {k}}}, {matrix}));
    if (m < n || n < k) {
      return InvalidArgument("a product of ", k, " reflectors has no ", n, " columns of ", m);
    }
    TRIPONT_ASSIGN_OR_RETURN(const Int work,
                             WorkSize<T>("orgqr", [&](T* size, const Int* ask, Int* info) {
                               lapack.orgqr(&m, &n, &k, size, &lda, size, size, ask, info);
                             }));
    std::unique_ptr<Orgqr> call(new Orgqr(arguments.batch(), m, n, k, work, lapack));
    TRIPONT_RETURN_IF_ERROR(call->SetRowMajor(rows != 0));
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

 private:
  Orgqr(int64_t batch, Int m, Int n, Int k, Int work, const Routines<T>& lapack)
      : BatchCall(batch, m, 2.0 * m * n * k, BytesOf<T>(work),
                  matrix_lanes::PlanFor<T>(batch, m, matrix_lanes::kMostOrder,
                                           matrix_lanes::MatrixVectors(m, n) + k)),
        m_(m),
        n_(n),
        k_(k),
        work_(work),
        lapack_(lapack) {}

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * m_ * n_);
    const Int lda = Leading(m_);
    Int info = 0;
    lapack_.orgqr(&m_, &n_, &k_, a, &lda, item.Operand<T>(1, k_), item.Take<T>(work_), &work_,
                  &info);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const int64_t size = int64_t{1} * m_ * n_;
      matrix_lanes::ReflectorsTile<T> tile{m_,
                                           n_,
                                           k_,
                                           layout(),
                                           first.Operand<T>(0, size),
                                           first.Operand<T>(1, k_),
                                           first.Result<T>(0, size),
                                           count,
                                           first.workspace()};
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  const Int m_;
  const Int n_;
  const Int k_;
  const Int work_;
  const Routines<T>& lapack_;
};

template <typename T>
class Ormqr final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t left, signature.attributes.Integer("left"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t transpose, signature.attributes.Integer("transpose"));
    Problem p{};
    p.side = left != 0 ? 'L' : 'R';
    p.transpose = transpose == 0 ? 'N' : kIsComplex<T> ? 'C' : 'T';
    p.columns = arguments.Dimension(0, 0);
    p.rows = arguments.Dimension(0, 1);
    p.k = arguments.Dimension(1, 0);
    p.n = arguments.Dimension(2, 0);
    p.m = arguments.Dimension(2, 1);
    const Expected c{TypeOf<T>(), {p.n, p.m}};
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({{TypeOf<T>(), {p.columns, p.rows}}, {TypeOf<T>(), {p.k}}, c}, {c}));
    if (p.rows != (left != 0 ? p.m : p.n) || p.k > p.rows || p.k > p.columns) {
      return InvalidArgument(p.k, " reflectors of ", p.rows, " rows do not fit matrices of ", p.m,
                             " rows and ", p.n, " columns");
    }
    TRIPONT_ASSIGN_OR_RETURN(p.work, WorkSize<T>("ormqr", [&](T* size, const Int* ask, Int* info) {
                               Call(lapack, p, size, size, size, size, ask, info);
                             }));
    return std::unique_ptr<LibraryCall>(new Ormqr(arguments.batch(), p, lapack));
  }

 private:
  struct Problem {
    char side;
    char transpose;
    Int rows;  // of the reflectors
    Int columns;
    Int k;
    Int m;
    Int n;
    Int work;
  };

  Ormqr(int64_t batch, const Problem& problem, const Routines<T>& lapack)
      : BatchCall(
            batch, std::max(problem.m, problem.n), 2.0 * problem.m * problem.n * problem.k,
            BytesOf<T>(problem.work) + BytesOf<T>(int64_t{1} * problem.rows * problem.columns)),
        problem_(problem),
        lapack_(lapack) {}

  static void Call(const Routines<T>& lapack, const Problem& p, const T* a, const T* tau, T* c,
                   T* work, const Int* lwork, Int* info) {
    const Int lda = Leading(p.rows);
    const Int ldc = Leading(p.m);
    lapack.ormqr(&p.side, &p.transpose, &p.m, &p.n, &p.k, a, &lda, tau, c, &ldc, work, lwork, info,
                 1, 1);
  }

  void Run(Item item) const override {
    const Problem& p = problem_;
    T* c = item.Copy<T>(2, 0, int64_t{1} * p.m * p.n);
    Int info = 0;
    // LAPACK writes to the reflectors and restores them; others may read the operand meanwhile, so
    // it gets a copy.
    const int64_t size = int64_t{1} * p.rows * p.columns;
    T* a = item.Take<T>(size);
    std::copy_n(item.Operand<T>(0, size), size, a);
    Call(lapack_, p, a, item.Operand<T>(1, p.k), c, item.Take<T>(p.work), &p.work, &info);
  }

  const Problem problem_;
  const Routines<T>& lapack_;
};

template <typename T>
class Potrf final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    const Int n = arguments.Dimension(0, 0);
    const Expected matrix{TypeOf<T>(), {n, n}};
    TRIPONT_ASSIGN_OR_RETURN(const char uplo, Character(signature.attributes, "uplo", "LU"));
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix, {PrimitiveType::kS32, {}}}));
    return std::unique_ptr<LibraryCall>(new Potrf(arguments.batch(), n, uplo, lapack));
  }

 private:
  Potrf(int64_t batch, Int n, char uplo, const Routines<T>& lapack)
      : BatchCall(batch, n, 0.3 * n * n * n, 0,
                  matrix_lanes::PlanFor<T>(batch, n, matrix_lanes::kMostOrder,
                                           matrix_lanes::MatrixVectors(n, n))),
        n_(n),
        uplo_(uplo),
        lapack_(lapack) {}

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * n_ * n_);
    const Int lda = Leading(n_);
    lapack_.potrf(&uplo_, &n_, a, &lda, item.Result<Int>(1, 1), 1);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const int64_t size = int64_t{1} * n_ * n_;
      // An upper triangle is the lower one of the transposed matrix.
      matrix_lanes::CholeskyTile<T> tile{
          n_,
          uplo_ == 'L' ? matrix_lanes::kColumnMajor : matrix_lanes::kRowMajor,
          false,
          false,
          first.Operand<T>(0, size),
          first.Result<T>(0, size),
          count,
          first.workspace()};
      std::fill_n(first.Result<Int>(1, 1), count, 0);
      matrix_lanes::Run(tile);
      return tile.failed;
    }
    return 0;
  }

  const Int n_;
  const char uplo_;
  const Routines<T>& lapack_;
};

template <typename T>
class Gehrd final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    const Int n = arguments.Dimension(0, 0);
    TRIPONT_ASSIGN_OR_RETURN(const int64_t low, signature.attributes.Integer("low"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t high, signature.attributes.Integer("high"));
    const Expected matrix{TypeOf<T>(), {n, n}};
    TRIPONT_RETURN_IF_ERROR(arguments.Check(
        {matrix}, {matrix, {TypeOf<T>(), {std::max<Int>(0, n - 1)}}, {PrimitiveType::kS32, {}}}));
    if (low < 1 || low > std::max<Int>(1, n) || high > n || high < std::min<int64_t>(low, n)) {
      return InvalidArgument("low = ", low, " and high = ", high, " of order ", n);
    }
    const Int lo = static_cast<Int>(low);
    const Int hi = static_cast<Int>(high);
    const Int lda = Leading(n);
    TRIPONT_ASSIGN_OR_RETURN(const Int work,
                             WorkSize<T>("gehrd", [&](T* size, const Int* ask, Int* info) {
                               lapack.gehrd(&n, &lo, &hi, size, &lda, size, size, ask, info);
                             }));
    return std::unique_ptr<LibraryCall>(new Gehrd(arguments.batch(), n, lo, hi, work, lapack));
  }

 private:
  Gehrd(int64_t batch, Int n, Int low, Int high, Int work, const Routines<T>& lapack)
      : BatchCall(batch, n, 2.0 * n * n * n, BytesOf<T>(work)),
        n_(n),
        low_(low),
        high_(high),
        work_(work),
        lapack_(lapack) {}

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * n_ * n_);
    const Int lda = Leading(n_);
    lapack_.gehrd(&n_, &low_, &high_, a, &lda, item.Result<T>(1, std::max<Int>(0, n_ - 1)),
                  item.Take<T>(work_), &work_, item.Result<Int>(2, 1));
  }

  const Int n_;
  const Int low_;
  const Int high_;
  const Int work_;
  const Routines<T>& lapack_;
};

template <typename T>
class Sytrd final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    const Int n = arguments.Dimension(0, 0);
    const Int off = std::max<Int>(0, n - 1);
    TRIPONT_ASSIGN_OR_RETURN(const char uplo, Character(signature.attributes, "uplo", "LU"));
    const Expected matrix{TypeOf<T>(), {n, n}};
    constexpr PrimitiveType kReal = TypeOf<Real<T>>();
    TRIPONT_RETURN_IF_ERROR(arguments.Check(
        {matrix},
        {matrix, {kReal, {n}}, {kReal, {off}}, {TypeOf<T>(), {off}}, {PrimitiveType::kS32, {}}}));
    const Int lda = Leading(n);
    TRIPONT_ASSIGN_OR_RETURN(
        const Int work, WorkSize<T>("sytrd", [&](T* size, const Int* ask, Int* info) {
          Real<T> real = 0;
          lapack.sytrd(&uplo, &n, size, &lda, &real, &real, size, size, ask, info, 1);
        }));
    return std::unique_ptr<LibraryCall>(new Sytrd(arguments.batch(), n, uplo, work, lapack));
  }

 private:
  Sytrd(int64_t batch, Int n, char uplo, Int work, const Routines<T>& lapack)
      : BatchCall(batch, n, 1.3 * n * n * n, BytesOf<T>(work)),
        n_(n),
        uplo_(uplo),
        work_(work),
        lapack_(lapack) {}

  void Run(Item item) const override {
    const Int off = std::max<Int>(0, n_ - 1);
    T* a = item.Copy<T>(0, 0, int64_t{1} * n_ * n_);
    const Int lda = Leading(n_);
    lapack_.sytrd(&uplo_, &n_, a, &lda, item.Result<Real<T>>(1, n_), item.Result<Real<T>>(2, off),
                  item.Result<T>(3, off), item.Take<T>(work_), &work_, item.Result<Int>(4, 1), 1);
  }

  const Int n_;
  const char uplo_;
  const Int work_;
  const Routines<T>& lapack_;
};

}  // namespace

void RegisterFactorizations(LibraryRegistry& registry) {
  registry.Register("getrf", MakeCall<Getrf>);
  registry.Register("geqrf", MakeCall<Geqrf>);
  registry.Register("geqp3", MakeCall<Geqp3>);
  registry.Register("orgqr", MakeCall<Orgqr>);
  registry.Register("ormqr", MakeCall<Ormqr>);
  registry.Register("potrf", MakeCall<Potrf>);
  registry.Register("gehrd", MakeCall<Gehrd>);
  registry.Register("sytrd", MakeCall<Sytrd>);
}

}  // namespace tripont::lapack
