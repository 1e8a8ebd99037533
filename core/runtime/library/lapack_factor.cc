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
// lanes (matrix_lanes.h) and LU in tiles (lapack_tiles.h) alone. getrf swaps rows in the order of the pivots. "transpose" is the adjoint of complex matrices.
// "low" and "high" count from 1.
#include <memory>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"
#include "core/runtime/library/lapack_reflectors.h"
#include "core/runtime/library/lapack_tiles.h"

namespace tripont::lapack {
namespace {

template <typename T>
class Getrf final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(a_, arguments.MatrixInOrder(0));
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({a_.Of<T>()}, {a_.Of<T>(), Array<Int>({a_.smaller()}), Array<Int>({})}));
    SetWork(a_.larger(), 1.0 * a_.m * a_.n * a_.smaller(),
            BytesOf<T>(InTiles() && a_.row_major ? LuPanelSize(a_.m) : 0));
    if (InTiles()) SharesOut();
    return SetLanes<T>(a_.larger(), matrix_lanes::kMostOrder,
                       matrix_lanes::MatrixVectors(a_.m, a_.n) + a_.smaller(),
                       InTiles() ? nullptr : a_.needs_lanes());
  }

  bool InTiles() const { return a_.smaller() > kTiledOrder; }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, a_.size());
    Int* pivots = item.Result<Int>(1, a_.smaller());
    Int* info = item.Result<Int>(2, 1);
    if (InTiles()) {
      *info = a_.row_major ? FactorLuOfRows(lapack<T>(), a_.m, a_.n, a, pivots,
                                            item.Take<T>(LuPanelSize(a_.m)))
                           : FactorLu(lapack<T>(), a_.m, a_.n, a, pivots);
      return;
    }
    const Int lda = Leading(a_.m);
    lapack<T>().getrf(&a_.m, &a_.n, a, &lda, pivots, info);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      matrix_lanes::LuTile<T> tile{a_.m,
                                   a_.n,
                                   LayoutOf(a_),
                                   first.Operand<T>(0, a_.size()),
                                   first.Result<T>(0, a_.size()),
                                   first.Result<Int>(1, a_.smaller()),
                                   first.Result<Int>(2, 1),
                                   count,
                                   first.workspace()};
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  Matrix a_;
};

template <typename T>
class Geqrf final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(a_, arguments.MatrixInOrder(0));
    TRIPONT_RETURN_IF_ERROR(arguments.Check({a_.Of<T>()}, {a_.Of<T>(), Array<T>({a_.smaller()})}));
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("geqrf", [&](T* size, const Int* ask, Int* info) {
                               Call(size, size, size, ask, info);
                             }));
    const int64_t in_panels = InPanels() ? ReflectorsWork(a_.m, a_.n) : 0;
    SetWork(a_.larger(), 2.0 * a_.m * a_.n * a_.smaller(),
            BytesOf<T>(std::max<int64_t>(work_, in_panels)));
    if (InPanels()) SharesOut();
    return SetLanes<T>(a_.larger(), matrix_lanes::kMostOrder,
                       matrix_lanes::MatrixVectors(a_.m, a_.n) + a_.smaller(), a_.needs_lanes());
  }

  bool InPanels() const { return a_.smaller() > kPanel; }

  void Call(T* a, T* tau, T* work, const Int* lwork, Int* info) const {
    const Int lda = Leading(a_.m);
    lapack<T>().geqrf(&a_.m, &a_.n, a, &lda, tau, work, lwork, info);
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, a_.size());
    T* tau = item.Result<T>(1, a_.smaller());
    if (InPanels()) {
      FactorQr(lapack<T>(), a_.m, a_.n, a, a_.m, tau, item.Take<T>(ReflectorsWork(a_.m, a_.n)));
      return;
    }
    Int info = 0;
    Call(a, tau, item.Take<T>(work_), &work_, &info);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      matrix_lanes::QrTile<T> tile{a_.m,
                                   a_.n,
                                   LayoutOf(a_),
                                   first.Operand<T>(0, a_.size()),
                                   first.Result<T>(0, a_.size()),
                                   first.Result<T>(1, a_.smaller()),
                                   count,
                                   first.workspace()};
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  Matrix a_;
  Int work_ = 0;
};

template <typename T>
class Geqp3 final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    a_ = arguments.MatrixOf(0);
    const Expected pivots = Array<Int>({a_.n});
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({a_.Of<T>(), pivots}, {a_.Of<T>(), pivots, Array<T>({a_.smaller()})}));
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("geqp3", [&](T* size, const Int* ask, Int* info) {
                               Int unused = 0;
                               Real<T> rwork = 0;
                               Call(size, &unused, size, size, ask, &rwork, info);
                             }));
    SetWork(a_.larger(), 2.0 * a_.m * a_.n * a_.smaller(),
            BytesOf<T>(work_) + BytesOf<Real<T>>(int64_t{2} * a_.n));
    return OkStatus();
  }

  void Call(T* a, Int* pivots, T* tau, T* work, const Int* lwork, [[maybe_unused]] Real<T>* rwork,
            Int* info) const {
    const Int lda = Leading(a_.m);
    if constexpr (kIsComplex<T>) {
      lapack<T>().geqp3(&a_.m, &a_.n, a, &lda, pivots, tau, work, lwork, rwork, info);
    } else {
      lapack<T>().geqp3(&a_.m, &a_.n, a, &lda, pivots, tau, work, lwork, info);
    }
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, a_.size());
    Int* pivots = item.Copy<Int>(1, 1, a_.n);
    T* work = item.Take<T>(work_);
    Int info = 0;
    Call(a, pivots, item.Result<T>(2, a_.smaller()), work, &work_,
         item.Take<Real<T>>(int64_t{2} * a_.n), &info);
  }

  Matrix a_;
  Int work_ = 0;
};

template <typename T>
class Orgqr final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(a_, arguments.MatrixInOrder(0));
    k_ = arguments.Dimension(1, 0);
    TRIPONT_RETURN_IF_ERROR(arguments.Check({a_.Of<T>(), Array<T>({k_})}, {a_.Of<T>()}));
    if (a_.m < a_.n || a_.n < k_) {
      return InvalidArgument("a product of ", k_, " reflectors has no ", a_.n, " columns of ",
                             a_.m);
    }
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("orgqr", [&](T* size, const Int* ask, Int* info) {
                               Call(size, size, size, ask, info);
                             }));
    const int64_t in_panels = InPanels() ? ReflectorsWork(a_.m, a_.n) : 0;
    SetWork(a_.m, 2.0 * a_.m * a_.n * k_, BytesOf<T>(std::max<int64_t>(work_, in_panels)));
    if (InPanels()) SharesOut();
    return SetLanes<T>(a_.larger(), matrix_lanes::kMostOrder,
                       matrix_lanes::MatrixVectors(a_.m, a_.n) + k_, a_.needs_lanes());
  }

  bool InPanels() const { return k_ > kPanel; }

  void Call(T* a, const T* tau, T* work, const Int* lwork, Int* info) const {
    const Int lda = Leading(a_.m);
    lapack<T>().orgqr(&a_.m, &a_.n, &k_, a, &lda, tau, work, lwork, info);
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, a_.size());
    const T* tau = item.Operand<T>(1, k_);
    if (InPanels()) {
      T* work = item.Take<T>(ReflectorsWork(a_.m, a_.n));
      MakeOrthogonal(lapack<T>(), a_.m, a_.n, k_, a, a_.m, tau, work);
      return;
    }
    Int info = 0;
    Call(a, tau, item.Take<T>(work_), &work_, &info);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      matrix_lanes::ReflectorsTile<T> tile{a_.m,
                                           a_.n,
                                           k_,
                                           LayoutOf(a_),
                                           first.Operand<T>(0, a_.size()),
                                           first.Operand<T>(1, k_),
                                           first.Result<T>(0, a_.size()),
                                           count,
                                           first.workspace()};
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  Matrix a_;
  Int k_ = 0;
  Int work_ = 0;
};

template <typename T>
class Ormqr final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(const int64_t left, arguments.Integer("left"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t transpose, arguments.Integer("transpose"));
    side_ = left != 0 ? 'L' : 'R';
    transpose_ = transpose == 0 ? 'N' : kIsComplex<T> ? 'C' : 'T';
    a_ = arguments.MatrixOf(0);
    k_ = arguments.Dimension(1, 0);
    c_ = arguments.MatrixOf(2);
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({a_.Of<T>(), Array<T>({k_}), c_.Of<T>()}, {c_.Of<T>()}));
    if (a_.m != (left != 0 ? c_.m : c_.n) || k_ > a_.smaller()) {
      return InvalidArgument(k_, " reflectors of ", a_.m, " rows do not fit matrices of ", c_.m,
                             " rows and ", c_.n, " columns");
    }
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("ormqr", [&](T* size, const Int* ask, Int* info) {
                               Call(size, size, size, size, ask, info);
                             }));
    SetWork(c_.larger(), 2.0 * c_.m * c_.n * k_, BytesOf<T>(work_) + BytesOf<T>(a_.size()));
    return OkStatus();
  }

  void Call(const T* a, const T* tau, T* c, T* work, const Int* lwork, Int* info) const {
    const Int lda = Leading(a_.m);
    const Int ldc = Leading(c_.m);
    lapack<T>().ormqr(&side_, &transpose_, &c_.m, &c_.n, &k_, a, &lda, tau, c, &ldc, work, lwork,
                      info, 1, 1);
  }

  void Run(Item item) const override {
    T* c = item.Copy<T>(2, 0, c_.size());
    Int info = 0;
    // LAPACK writes to the reflectors and restores them; others may read the operand meanwhile, so
    // it gets a copy.
    T* a = item.Take<T>(a_.size());
    std::copy_n(item.Operand<T>(0, a_.size()), a_.size(), a);
    Call(a, item.Operand<T>(1, k_), c, item.Take<T>(work_), &work_, &info);
  }

  char side_ = 0;
  char transpose_ = 0;
  Matrix a_;  // reflectors
  Int k_ = 0;
  Matrix c_;
  Int work_ = 0;
};

template <typename T>
class Potrf final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    n_ = arguments.Dimension(0, 0);
    const Matrix a{n_, n_};
    TRIPONT_ASSIGN_OR_RETURN(uplo_, arguments.Character("uplo", "LU"));
    TRIPONT_RETURN_IF_ERROR(arguments.Check({a.Of<T>()}, {a.Of<T>(), Array<Int>({})}));
    SetWork(n_, 0.3 * n_ * n_ * n_);
    return SetLanes<T>(n_, matrix_lanes::kMostOrder, matrix_lanes::MatrixVectors(n_, n_), nullptr);
  }

  void Run(Item item) const override {
    T* a = item.Copy<T>(0, 0, int64_t{1} * n_ * n_);
    const Int lda = Leading(n_);
    lapack<T>().potrf(&uplo_, &n_, a, &lda, item.Result<Int>(1, 1), 1);
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

  Int n_ = 0;
  char uplo_ = 0;
};

template <typename T>
class Gehrd final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    n_ = arguments.Dimension(0, 0);
    off_ = std::max<Int>(0, n_ - 1);
    TRIPONT_ASSIGN_OR_RETURN(const int64_t low, arguments.Integer("low"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t high, arguments.Integer("high"));
    const Expected matrix = Array<T>({n_, n_});
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix, Array<T>({off_}), Array<Int>({})}));
    if (low < 1 || low > std::max<Int>(1, n_) || high > n_ || high < std::min<int64_t>(low, n_)) {
      return InvalidArgument("low = ", low, " and high = ", high, " of order ", n_);
    }
    low_ = static_cast<Int>(low);
    high_ = static_cast<Int>(high);
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("gehrd", [&](T* size, const Int* ask, Int* info) {
                               Call(size, size, size, ask, info);
                             }));
    SetWork(n_, 2.0 * n_ * n_ * n_, BytesOf<T>(work_));
    return OkStatus();
  }

  void Call(T* a, T* tau, T* work, const Int* lwork, Int* info) const {
    const Int lda = Leading(n_);
    lapack<T>().gehrd(&n_, &low_, &high_, a, &lda, tau, work, lwork, info);
  }

  void Run(Item item) const override {
    Call(item.Copy<T>(0, 0, int64_t{1} * n_ * n_), item.Result<T>(1, off_), item.Take<T>(work_),
         &work_, item.Result<Int>(2, 1));
  }

  Int n_ = 0;
  Int off_ = 0;  // the length of tau
  Int low_ = 0;
  Int high_ = 0;
  Int work_ = 0;
};

template <typename T>
class Sytrd final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    n_ = arguments.Dimension(0, 0);
    off_ = std::max<Int>(0, n_ - 1);
    TRIPONT_ASSIGN_OR_RETURN(uplo_, arguments.Character("uplo", "LU"));
    const Expected matrix = Array<T>({n_, n_});
    TRIPONT_RETURN_IF_ERROR(arguments.Check(
        {matrix},
        {matrix, Array<Real<T>>({n_}), Array<Real<T>>({off_}), Array<T>({off_}), Array<Int>({})}));
    TRIPONT_ASSIGN_OR_RETURN(work_, WorkSize<T>("sytrd", [&](T* size, const Int* ask, Int* info) {
                               Real<T> real = 0;
                               Call(size, &real, &real, size, size, ask, info);
                             }));
    SetWork(n_, 1.3 * n_ * n_ * n_, BytesOf<T>(work_));
    return OkStatus();
  }

  void Call(T* a, Real<T>* diagonal, Real<T>* off_diagonal, T* tau, T* work, const Int* lwork,
            Int* info) const {
    const Int lda = Leading(n_);
    lapack<T>().sytrd(&uplo_, &n_, a, &lda, diagonal, off_diagonal, tau, work, lwork, info, 1);
  }

  void Run(Item item) const override {
    Call(item.Copy<T>(0, 0, int64_t{1} * n_ * n_), item.Result<Real<T>>(1, n_),
         item.Result<Real<T>>(2, off_), item.Result<T>(3, off_), item.Take<T>(work_), &work_,
         item.Result<Int>(4, 1));
  }

  Int n_ = 0;
  Int off_ = 0;  // the length of what is beside the diagonal
  char uplo_ = 0;
  Int work_ = 0;
};

}  // namespace

void RegisterFactorizations(LibraryRegistry& registry) {
  registry.Register("getrf", BatchCall::Make<Getrf>);
  registry.Register("geqrf", BatchCall::Make<Geqrf>);
  registry.Register("geqp3", BatchCall::Make<Geqp3>);
  registry.Register("orgqr", BatchCall::Make<Orgqr>);
  registry.Register("ormqr", BatchCall::Make<Ormqr>);
  registry.Register("potrf", BatchCall::Make<Potrf>);
  registry.Register("gehrd", BatchCall::Make<Gehrd>);
  registry.Register("sytrd", BatchCall::Make<Sytrd>);
}

}  // namespace tripont::lapack
