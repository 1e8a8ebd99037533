// Library calls that solve, and one that goes with LU factors. Operands and results are given
// without batch dimensions; lapack_call.h says how matrices lie.
//
//   call   operands                   results                            attributes
//   trsm   a [r,r], b [n,m]           x [n,m]                            "side" 'L' (op(a) x = b;
//                                                                        r = m) or 'R'; "uplo";
//                                                                        "trans_x"; "diag"
//   gtsv   dl, d, du [n], b [c,n]     undefined dl, d, du [n], x [c,n],
//                                     info
//   tridiagonal-solve-perturbed
//          dl, d, du [n], b [c,n]     x [c,n]
//   lu-pivots-to-permutation
//          s32 pivots [k] (from 0)    s32 permutation [m]
//
// dl[0] and du[n-1] do not count. tridiagonal-solve-perturbed is gtsv for a matrix that may be
// singular: it makes small pivots larger, as LAPACK's xLAGTS does.
#include <memory>
#include <numeric>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"

namespace tripont::lapack {
namespace {

template <typename T>
class Trsm final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 2));
    const LibraryAttributes& attributes = signature.attributes;
    Problem p{};
    TRIPONT_ASSIGN_OR_RETURN(p.side, Character(attributes, "side", "LR"));
    TRIPONT_ASSIGN_OR_RETURN(p.uplo, Character(attributes, "uplo", "LU"));
    TRIPONT_ASSIGN_OR_RETURN(p.transpose, Character(attributes, "trans_x", "NTC"));
    TRIPONT_ASSIGN_OR_RETURN(p.diagonal, Character(attributes, "diag", "NU"));
    p.n = arguments.Dimension(1, 0);
    p.m = arguments.Dimension(1, 1);
    p.order = p.side == 'L' ? p.m : p.n;
    const Expected b{TypeOf<T>(), {p.n, p.m}};
    TRIPONT_RETURN_IF_ERROR(arguments.Check({{TypeOf<T>(), {p.order, p.order}}, b}, {b}));
    return std::unique_ptr<LibraryCall>(new Trsm(arguments.batch(), p, lapack));
  }

 private:
  struct Problem {
    char side;
    char uplo;
    char transpose;
    char diagonal;
    Int m;
    Int n;
    Int order;
  };

  Trsm(int64_t batch, const Problem& p, const Routines<T>& lapack)
      : BatchCall(batch, std::max(p.m, p.n), 0.5 * p.m * p.n * p.order, 0,
                  matrix_lanes::PlanFor<T>(batch, p.order, matrix_lanes::kMostOrder,
                                           matrix_lanes::MatrixVectors(p.order, p.order) +
                                               matrix_lanes::MatrixVectors(p.m, p.n))),
        problem_(p),
        lapack_(lapack) {}

  void Run(Item item) const override {
    const Problem& p = problem_;
    T* b = item.Copy<T>(1, 0, int64_t{1} * p.m * p.n);
    const T one = T(1);
    const Int lda = Leading(p.order);
    const Int ldb = Leading(p.m);
    lapack_.trsm(&p.side, &p.uplo, &p.transpose, &p.diagonal, &p.m, &p.n, &one,
                 item.Operand<T>(0, int64_t{1} * p.order * p.order), &lda, b, &ldb, 1, 1, 1, 1);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const Problem& p = problem_;
      const int64_t sides = p.side == 'L' ? p.n : p.m;
      matrix_lanes::SolveTile<T> tile{};
      tile.n = p.order;
      tile.sides = sides;
      matrix_lanes::Orient(matrix_lanes::kColumnMajor, matrix_lanes::kColumnMajor, p.side == 'L',
                           p.uplo == 'L', p.transpose != 'N', tile);
      tile.unit_diagonal = p.diagonal == 'U';
      tile.a = first.Operand<T>(0, int64_t{1} * p.order * p.order);
      tile.b = first.Operand<T>(1, int64_t{1} * p.m * p.n);
      tile.x = first.Result<T>(0, int64_t{1} * p.m * p.n);
      tile.count = count;
      tile.workspace = first.workspace();
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  const Problem problem_;
  const Routines<T>& lapack_;
};

template <typename T>
class Gtsv final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& lapack) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 1));
    const Int columns = arguments.Dimension(3, 0);
    const Int n = arguments.Dimension(0, 0);
    const Expected diagonal{TypeOf<T>(), {n}};
    const Expected b{TypeOf<T>(), {columns, n}};
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({diagonal, diagonal, diagonal, b},
                        {diagonal, diagonal, diagonal, b, {PrimitiveType::kS32, {}}}));
    return std::unique_ptr<LibraryCall>(new Gtsv(arguments.batch(), n, columns, lapack));
  }

 private:
  Gtsv(int64_t batch, Int n, Int columns, const Routines<T>& lapack)
      : BatchCall(batch, 0, 10.0 * n * (columns + 1), 0),
        n_(n),
        columns_(columns),
        lapack_(lapack) {}

  void Run(Item item) const override {
    T* lower = item.Copy<T>(0, 0, n_);
    T* diagonal = item.Copy<T>(1, 1, n_);
    T* upper = item.Copy<T>(2, 2, n_);
    T* b = item.Copy<T>(3, 3, int64_t{1} * n_ * columns_);
    const Int ldb = Leading(n_);
    lapack_.gtsv(&n_, &columns_, n_ > 0 ? lower + 1 : lower, diagonal, upper, b, &ldb,
                 item.Result<Int>(4, 1));
  }

  const Int n_;
  const Int columns_;
  const Routines<T>& lapack_;
};

// Gaussian elimination with row exchanges of T - a tridiagonal matrix -, where small pivots of the
// upper factor are made larger, in the way of LAPACK's xLAGTF and xLAGTS: inverse iteration wants a
// large solution of a singular system, not an overflow.
template <typename T>
class PerturbedSolve final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature,
                                                     const Routines<T>& /*lapack*/) {
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 1));
    const Int columns = arguments.Dimension(3, 0);
    const Int n = arguments.Dimension(0, 0);
    const Expected diagonal{TypeOf<T>(), {n}};
    const Expected b{TypeOf<T>(), {columns, n}};
    TRIPONT_RETURN_IF_ERROR(arguments.Check({diagonal, diagonal, diagonal, b}, {b}));
    return std::unique_ptr<LibraryCall>(new PerturbedSolve(arguments.batch(), n, columns));
  }

 private:
  using R = Real<T>;

  PerturbedSolve(int64_t batch, Int n, Int columns)
      : BatchCall(batch, 0, 10.0 * n * (columns + 1), 3 * BytesOf<T>(n)),
        n_(n),
        columns_(columns) {}

  void Run(Item item) const override {
    if (n_ == 0) return;
    const T* lower = item.Operand<T>(0, n_);
    const T* diagonal = item.Operand<T>(1, n_);
    const T* upper = item.Operand<T>(2, n_);
    T* x = item.Copy<T>(3, 0, int64_t{1} * n_ * columns_);
    // The rows of the upper factor: diagonal and two elements beside it.
    T* u0 = item.Take<T>(n_);
    T* u1 = item.Take<T>(n_);
    T* u2 = item.Take<T>(n_);
    u0[0] = diagonal[0];
    u1[0] = n_ > 1 ? upper[0] : T(0);
    R scale = std::abs(u0[0]) + std::abs(u1[0]);
    R largest = std::max(std::abs(u0[0]), std::abs(u1[0]));
    for (Int k = 0; k + 1 < n_; ++k) {
      const T below = lower[k + 1];
      const T next_upper = k + 2 < n_ ? upper[k + 1] : T(0);
      u2[k] = T(0);
      u0[k + 1] = diagonal[k + 1];
      u1[k + 1] = next_upper;
      const R next_scale = std::abs(below) + std::abs(diagonal[k + 1]) + std::abs(next_upper);
      if (below == T(0)) {
        scale = next_scale;
      } else {
        const R here = u0[k] == T(0) ? R(0) : std::abs(u0[k]) / scale;
        if (std::abs(below) / next_scale <= here) {
          const T factor = below / u0[k];
          u0[k + 1] -= factor * u1[k];
          ForColumns([&](T* column) { column[k + 1] -= factor * column[k]; }, x);
          scale = next_scale;
        } else {
          const T factor = u0[k] / below;
          u0[k + 1] = u1[k] - factor * diagonal[k + 1];
          u1[k + 1] = -factor * next_upper;
          u0[k] = below;
          u1[k] = diagonal[k + 1];
          u2[k] = next_upper;
          ForColumns(
              [&](T* column) {
                const T first = column[k];
                column[k] = column[k + 1];
                column[k + 1] = first - factor * column[k];
              },
              x);
          scale = std::abs(u0[k + 1]) + std::abs(u1[k + 1]);
        }
      }
      largest = std::max({largest, std::abs(u0[k]), std::abs(u1[k]), std::abs(u2[k])});
    }
    largest = std::max(largest, std::abs(u0[n_ - 1]));
    const R perturbation = std::numeric_limits<R>::epsilon() * largest;
    for (Int k = n_ - 1; k >= 0; --k) {
      R row_largest = 0;
      ForColumns(
          [&](T* column) {
            if (k + 1 < n_) column[k] -= u1[k] * column[k + 1];
            if (k + 2 < n_) column[k] -= u2[k] * column[k + 2];
            row_largest = std::max(row_largest, std::abs(column[k]));
          },
          x);
      T pivot = u0[k];
      const R factor = Enlarge(perturbation, row_largest, pivot);
      const T inverse = T(1) / pivot;
      ForColumns([&](T* column) { column[k] = column[k] * factor * inverse; }, x);
    }
  }

  template <typename Body>
  void ForColumns(const Body& body, T* x) const {
    for (Int j = 0; j < columns_; ++j) body(x + int64_t{1} * j * n_);
  }

  // Changes `pivot` until dividing numbers up to `row_largest` by it does not overflow; returns
  // what to multiply the row by.
  static R Enlarge(R perturbation, R row_largest, T& pivot) {
    const R safe_minimum = std::numeric_limits<R>::min();
    const R large = R(1) / safe_minimum;
    perturbation = std::copysign(std::max(perturbation, safe_minimum), std::real(pivot));
    R size = std::abs(pivot);
    while (size < R(1)) {
      const bool tiny = size < safe_minimum;
      if (tiny && size != R(0) && row_largest * safe_minimum <= size) {
        pivot *= large;
        return large;
      }
      if (!tiny && row_largest <= size * large) break;
      pivot += perturbation;
      perturbation *= R(2);
      size = std::abs(pivot);
    }
    return R(1);
  }

  const Int n_;
  const Int columns_;
};

class PivotsToPermutation final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature) {
    if (signature.operands.size() != 1 || signature.results.size() != 1 ||
        signature.results[0].rank() == 0) {
      return InvalidArgument("expected 1 operand and 1 result, of at least 1 dimension");
    }
    TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, 1));
    const Int count = arguments.Dimension(0, 0);
    const int64_t m = signature.results[0].dimensions[signature.results[0].rank() - 1];
    TRIPONT_RETURN_IF_ERROR(
        arguments.Check({{PrimitiveType::kS32, {count}}}, {{PrimitiveType::kS32, {m}}}));
    if (count > m) return InvalidArgument(count, " pivots of ", m, " rows");
    return std::unique_ptr<LibraryCall>(new PivotsToPermutation(arguments.batch(), count, m));
  }

 private:
  PivotsToPermutation(int64_t batch, Int count, int64_t m)
      : BatchCall(batch, 0, static_cast<double>(m), 0), count_(count), m_(m) {}

  void Run(Item item) const override {
    const Int* pivots = item.Operand<Int>(0, count_);
    Int* permutation = item.Result<Int>(0, m_);
    std::iota(permutation, permutation + m_, 0);
    for (Int i = 0; i < count_; ++i) {
      const int64_t other = std::clamp<int64_t>(pivots[i], 0, m_ - 1);
      std::swap(permutation[i], permutation[other]);
    }
  }

  const Int count_;
  const int64_t m_;
};

}  // namespace

void RegisterSolvers(LibraryRegistry& registry) {
  registry.Register("trsm", MakeCall<Trsm>);
  registry.Register("gtsv", MakeCall<Gtsv>);
  registry.Register("tridiagonal-solve-perturbed", MakeCall<PerturbedSolve>);
  registry.Register("lu-pivots-to-permutation", PivotsToPermutation::Make);
}

}  // namespace tripont::lapack
