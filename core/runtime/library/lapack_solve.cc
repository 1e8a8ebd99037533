// Library calls that solve, and one that goes with LU factors. Operands and results are given
// without batch dimensions; lapack_call.h says how matrices lie.
//
//   call   operands                   results                            attributes
//   trsm   a [r,r], b [n,m]           x [n,m]                            "side" 'L' (op(a) x = b;
//                                                                        r = m) or 'R'; "uplo";
//                                                                        "trans_x"; "diag"
//   triangular-solve
//          row-major a [r,r],         row-major x [m,n]                  "left_side" (op(a) x = b);
//          b [m,n]                                                       "lower"; "unit_diagonal";
//                                                                        "transpose_a";
//                                                                        "triangular_b"
//   gtsv   dl, d, du [n], b [c,n]     undefined dl, d, du [n], x [c,n],
//                                     info
//   tridiagonal-solve-perturbed
//          dl, d, du [n], b [c,n]     x [c,n]
//   lu-pivots-to-permutation
//          s32 pivots [k] (from 0)    s32 permutation [m]
//
// "uplo" and "lower" name the triangle of a that is read; with "diag" 'U' or "unit_diagonal" its
// diagonal is taken as ones. "transpose_a": "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT".
// "triangular_b" (0 if it is left out): 1 says that b is square, and zero where op(a) is.
// dl[0] and du[n-1] do not count. tridiagonal-solve-perturbed is gtsv for a matrix that may be
// singular: it makes small pivots larger, as LAPACK's xLAGTS does.
#include <memory>
#include <numeric>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"
#include "core/runtime/library/lapack_tiles.h"

namespace tripont::lapack {
namespace {

// Solves a triangular system, whose letters a subclass reads.
template <typename T>
class TriangularCall : public BatchCall {
 protected:
  Status SetSystem(const Arguments& arguments, char side, char uplo, char transpose, char diagonal,
                   bool has_triangular_b = false) {
    b_ = arguments.MatrixOf(1);
    if (has_triangular_b && b_.m != b_.n) {
      return InvalidArgument("b is said to be triangular, and is not square");
    }
    system_ = {side, uplo, transpose, diagonal, b_.m, b_.n, has_triangular_b};
    const Int order = system_.order();
    a_size_ = int64_t{1} * order * order;
    TRIPONT_RETURN_IF_ERROR(arguments.Check({Array<T>({order, order}), b_.Of<T>()}, {b_.Of<T>()}));
    SetWork(b_.larger(), 1.0 * b_.size() * order);
    SharesOut();
    const int64_t vectors =
        matrix_lanes::MatrixVectors(order, order) + matrix_lanes::MatrixVectors(b_.m, b_.n);
    return SetLanes<T>(order, matrix_lanes::kMostOrder, vectors, nullptr);
  }

 private:
  void Run(Item item) const override {
    T* b = item.Copy<T>(1, 0, b_.size());
    SolveTriangular(lapack<T>(), system_, item.Operand<T>(0, a_size_), b);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const bool left = system_.side == 'L';
      matrix_lanes::SolveTile<T> tile{};
      tile.n = system_.order();
      tile.sides = left ? b_.n : b_.m;
      matrix_lanes::Orient(matrix_lanes::kColumnMajor, matrix_lanes::kColumnMajor, left,
                           system_.uplo == 'L', system_.transpose != 'N', tile);
      tile.unit_diagonal = system_.diagonal == 'U';
      tile.a = first.Operand<T>(0, a_size_);
      tile.b = first.Operand<T>(1, b_.size());
      tile.x = first.Result<T>(0, b_.size());
      tile.count = count;
      tile.workspace = first.workspace();
      matrix_lanes::Run(tile);
    }
    return 0;
  }

  TriangularSystem system_{};
  Matrix b_;
  int64_t a_size_ = 0;
};

template <typename T>
class Trsm final : public TriangularCall<T> {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(const char side, arguments.Character("side", "LR"));
    TRIPONT_ASSIGN_OR_RETURN(const char uplo, arguments.Character("uplo", "LU"));
    TRIPONT_ASSIGN_OR_RETURN(const char transpose, arguments.Character("trans_x", "NTC"));
    TRIPONT_ASSIGN_OR_RETURN(const char diagonal, arguments.Character("diag", "NU"));
    return this->SetSystem(arguments, side, uplo, transpose, diagonal);
  }
};

// What is row-major here is transposed in LAPACK's letters: op(a) x = b is x^T op(a)^T = b^T, where
// a lower triangle is an upper one and op is the same letter.
template <typename T>
class RowMajorSolve final : public TriangularCall<T> {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(const int64_t left_side, arguments.Integer("left_side"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t lower, arguments.Integer("lower"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t unit_diagonal, arguments.Integer("unit_diagonal"));
    TRIPONT_ASSIGN_OR_RETURN(const std::string op,
                             arguments.signature().attributes.Bytes("transpose_a"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t triangular_b, arguments.IntegerOr("triangular_b", 0));
    if (op != "NO_TRANSPOSE" && op != "TRANSPOSE" && op != "ADJOINT") {
      return InvalidArgument("attribute transpose_a is '", op, "'");
    }
    return this->SetSystem(arguments, left_side != 0 ? 'R' : 'L', lower != 0 ? 'U' : 'L',
                           op == "ADJOINT" ? 'C' : op[0], unit_diagonal != 0 ? 'U' : 'N',
                           triangular_b != 0);
  }
};

// Systems of three diagonals [n] and right-hand sides [columns,n].
class TridiagonalCall : public BatchCall {
 public:
  TridiagonalCall() : BatchCall(1) {}

 protected:
  template <typename T>
  Status ReadSystem(const Arguments& arguments, bool keeps_diagonals, size_t workspace_arrays) {
    columns_ = arguments.Dimension(3, 0);
    n_ = arguments.Dimension(0, 0);
    const Expected diagonal = Array<T>({n_});
    const Expected b = Array<T>({columns_, n_});
    SetWork(0, 10.0 * n_ * (columns_ + 1), workspace_arrays * BytesOf<T>(n_));
    if (keeps_diagonals) return arguments.Check({diagonal, diagonal, diagonal, b}, {b});
    return arguments.Check({diagonal, diagonal, diagonal, b},
                           {diagonal, diagonal, diagonal, b, Array<Int>({})});
  }

  Int n_ = 0;
  Int columns_ = 0;
};

template <typename T>
class Gtsv final : public TridiagonalCall {
  Status Read(const Arguments& arguments) override {
    return ReadSystem<T>(arguments, /*keeps_diagonals=*/false, /*workspace_arrays=*/0);
  }

  void Run(Item item) const override {
    T* lower = item.Copy<T>(0, 0, n_);
    T* diagonal = item.Copy<T>(1, 1, n_);
    T* upper = item.Copy<T>(2, 2, n_);
    T* b = item.Copy<T>(3, 3, int64_t{1} * n_ * columns_);
    const Int ldb = Leading(n_);
    lapack<T>().gtsv(&n_, &columns_, n_ > 0 ? lower + 1 : lower, diagonal, upper, b, &ldb,
                     item.Result<Int>(4, 1));
  }
};

// Gaussian elimination with row exchanges of T - a tridiagonal matrix -, where small pivots of the
// upper factor are made larger, in the way of LAPACK's xLAGTF and xLAGTS: inverse iteration wants a
// large solution of a singular system, not an overflow.
template <typename T>
class PerturbedSolve final : public TridiagonalCall {
  using R = Real<T>;

  Status Read(const Arguments& arguments) override {
    return ReadSystem<T>(arguments, /*keeps_diagonals=*/true, /*workspace_arrays=*/3);
  }

  void Run(Item item) const override {
    if (n_ == 0) return;
    const T* lower = item.Operand<T>(0, n_);
    const T* diagonal = item.Operand<T>(1, n_);
    const T* upper = item.Operand<T>(2, n_);
    T* x = item.Copy<T>(3, 0, int64_t{1} * n_ * columns_);
    const UpperRows rows{item.Take<T>(n_), item.Take<T>(n_), item.Take<T>(n_)};
    const R largest = Eliminate(lower, diagonal, upper, rows, x);
    SolveUpper(rows, std::numeric_limits<R>::epsilon() * largest, x);
  }

  // The rows of the upper factor: diagonal and two elements beside it.
  struct UpperRows {
    T* diagonal;
    T* next;
    T* second;
  };

  // Makes the upper factor, with x as its right-hand side; returns its largest element.
  R Eliminate(const T* lower, const T* diagonal, const T* upper, const UpperRows& rows,
              T* x) const {
    T *const u0 = rows.diagonal, *const u1 = rows.next, *const u2 = rows.second;
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
    return std::max(largest, std::abs(u0[n_ - 1]));
  }

  void SolveUpper(const UpperRows& rows, R perturbation, T* x) const {
    T *const u0 = rows.diagonal, *const u1 = rows.next, *const u2 = rows.second;
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
      const R scale = Enlarge(perturbation, row_largest, pivot);
      const T inverse = T(1) / pivot;
      ForColumns([&](T* column) { column[k] = column[k] * scale * inverse; }, x);
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
};

class PivotsToPermutation final : public BatchCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature) {
    if (signature.operands.size() != 1 || signature.results.size() != 1 ||
        signature.results[0].rank() == 0) {
      return InvalidArgument("expected 1 operand and 1 result, of at least 1 dimension");
    }
    return Prepared(std::make_unique<PivotsToPermutation>(), signature, nullptr);
  }

  PivotsToPermutation() : BatchCall(1) {}

 private:
  Status Read(const Arguments& arguments) override {
    count_ = arguments.Dimension(0, 0);
    const Shape& result = arguments.signature().results[0];
    m_ = result.dimensions[result.rank() - 1];
    TRIPONT_RETURN_IF_ERROR(arguments.Check({Array<Int>({count_})}, {Array<Int>({m_})}));
    if (count_ > m_) return InvalidArgument(count_, " pivots of ", m_, " rows");
    SetWork(0, static_cast<double>(m_));
    return OkStatus();
  }

  void Run(Item item) const override {
    const Int* pivots = item.Operand<Int>(0, count_);
    Int* permutation = item.Result<Int>(0, m_);
    std::iota(permutation, permutation + m_, 0);
    for (Int i = 0; i < count_; ++i) {
      const int64_t other = std::clamp<int64_t>(pivots[i], 0, m_ - 1);
      std::swap(permutation[i], permutation[other]);
    }
  }

  Int count_ = 0;
  int64_t m_ = 0;
};

}  // namespace

void RegisterSolvers(LibraryRegistry& registry) {
  registry.Register("trsm", BatchCall::Make<Trsm>);
  registry.Register("triangular-solve", BatchCall::Make<RowMajorSolve>);
  registry.Register("gtsv", BatchCall::Make<Gtsv>);
  registry.Register("tridiagonal-solve-perturbed", BatchCall::Make<PerturbedSolve>);
  registry.Register("lu-pivots-to-permutation", PivotsToPermutation::Make);
}

}  // namespace tripont::lapack
