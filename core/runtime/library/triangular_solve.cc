// Library call "triangular-solve": solves op(a) x = b ("left_side") or x op(a) = b for x, for a
// batch of triangular matrices a.
//
// Attributes: "left_side", "lower" (which triangle of a is read), "unit_diagonal" (a's diagonal is
// taken as ones), "transpose_a": "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT". f32, f64, c64, c128.
//
// BLAS solves large systems where it is installed; small ones, and all where it is not, go through
// loops of ours. Batches of small real systems go through lanes (matrix_lanes.h).
#include <algorithm>
#include <complex>
#include <limits>
#include <memory>
#include <optional>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_tiles.h"
#include "core/runtime/library/linear_algebra.h"
#include "core/runtime/library/matrix_lanes.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

// Multiply-adds that make a task worth another thread.
constexpr int64_t kTaskWork = 1 << 15;
// Up to this order our loops are as fast as BLAS, which need not be opened for them.
constexpr int64_t kOwnOrder = 16;

struct Problem {
  int64_t batch;
  int64_t n;     // a is n x n
  int64_t rows;  // of b
  int64_t columns;
  bool left_side;
  bool lower;
  bool unit_diagonal;
  bool transpose;
  bool conjugate;
};

template <typename T>
class TriangularSolve final : public LibraryCall {
 public:
  // `lapack`: null for our own loops.
  TriangularSolve(const Problem& problem, const lapack::Api* lapack)
      : problem_(problem),
        lapack_(lapack),
        lanes_(matrix_lanes::PlanFor<T>(
            problem.batch, problem.n, matrix_lanes::kMostOrder,
            matrix_lanes::MatrixVectors(problem.n, problem.n) +
                matrix_lanes::MatrixVectors(problem.rows, problem.columns))) {}

  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    const int64_t a_size = problem_.n * problem_.n;
    const int64_t b_size = problem_.rows * problem_.columns;
    if (problem_.batch == 0 || b_size == 0) return OkStatus();
    const auto* a = static_cast<const T*>(operands[0]);
    auto* x = static_cast<T*>(results[0]);
    if constexpr (!linear_algebra::kIsComplex<T>) {
      if (lanes_.count > 0) {
        const auto* b = static_cast<const T*>(operands[1]);
        return matrix_lanes::ForEachTile(context, lanes_, problem_.batch,
                                         matrix_lanes::kTaskWork / (problem_.n * b_size),
                                         [&](int64_t first, int count, void* workspace) {
                                           SolveTile(a + first * a_size, b + first * b_size,
                                                     x + first * b_size, count, workspace);
                                         });
      }
    }
    ParallelCopy(x, operands[1], static_cast<size_t>(problem_.batch * b_size) * sizeof(T));
    std::optional<lapack::OneThread> one_thread;
    if (lapack_ != nullptr) one_thread.emplace(*lapack_);
    ParallelFor(problem_.batch, std::max<int64_t>(1, kTaskWork / (problem_.n * b_size)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) Solve(a + i * a_size, x + i * b_size);
                });
    return OkStatus();
  }

 private:
  void SolveTile(const T* a, const T* b, T* x, int count, void* workspace) const {
    const Problem& p = problem_;
    matrix_lanes::SolveTile<T> tile{};
    tile.n = p.n;
    tile.sides = p.left_side ? p.columns : p.rows;
    matrix_lanes::Orient(matrix_lanes::kRowMajor, matrix_lanes::kRowMajor, p.left_side, p.lower,
                         p.transpose, tile);
    tile.unit_diagonal = p.unit_diagonal;
    tile.a = a;
    tile.b = b;
    tile.x = x;
    tile.count = count;
    tile.workspace = workspace;
    matrix_lanes::Run(tile);
  }

  void Solve(const T* a_data, T* x_data) const {
    using linear_algebra::View;
    if (lapack_ != nullptr) {
      // What is row-major here is transposed there: op(a) x = b is x^T op(a)^T = b^T, where a lower
      // triangle is an upper one and op is the same letter.
      const lapack::TriangularSystem system{
          problem_.left_side ? 'R' : 'L',
          problem_.lower ? 'U' : 'L',
          problem_.conjugate   ? 'C'
          : problem_.transpose ? 'T'
                               : 'N',
          problem_.unit_diagonal ? 'U' : 'N',
          static_cast<lapack::Int>(problem_.columns),
          static_cast<lapack::Int>(problem_.rows),
      };
      return lapack::SolveTriangular(lapack_->Of<T>(), system, a_data, x_data);
    }
    // The view of a is only read.
    View<T> a{const_cast<T*>(a_data), problem_.n, problem_.n, problem_.n, 1, problem_.conjugate};
    View<T> x{x_data, problem_.rows, problem_.columns, problem_.columns, 1};
    // x op(a) = b is op(a)^T x^T = b^T.
    if (!problem_.left_side) x = x.Transposed();
    const bool transposed = problem_.transpose != !problem_.left_side;
    if (transposed) a = a.Transposed();
    // An upper triangle read from its last row and column on is a lower one.
    if (problem_.lower == transposed) {
      a = a.Reversed();
      x = x.RowsReversed();
    }
    linear_algebra::SolveLower(a, x, problem_.unit_diagonal);
  }

  const Problem problem_;
  const lapack::Api* const lapack_;
  const matrix_lanes::Plan lanes_;
};

StatusOr<std::unique_ptr<LibraryCall>> MakeTriangularSolve(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  if (signature.operands.size() != 2 || signature.results.size() != 1) {
    return InvalidArgument("expected 2 operands and 1 result");
  }
  const Shape& a = signature.operands[0].shape;
  const Shape& b = signature.operands[1].shape;
  TRIPONT_ASSIGN_OR_RETURN(const int64_t left_side, attributes.Integer("left_side"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t lower, attributes.Integer("lower"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t unit_diagonal, attributes.Integer("unit_diagonal"));
  TRIPONT_ASSIGN_OR_RETURN(const std::string transpose, attributes.Bytes("transpose_a"));
  TRIPONT_RETURN_IF_ERROR(attributes.CheckAllUsed());
  if (transpose != "NO_TRANSPOSE" && transpose != "TRANSPOSE" && transpose != "ADJOINT") {
    return InvalidArgument("attribute transpose_a is '", transpose, "'");
  }
  const size_t rank = a.rank();
  if (rank < 2 || b.rank() != rank || !(b == signature.results[0]) || a.type != b.type) {
    return InvalidArgument("operands ", a, " and ", b, " and result ", signature.results[0],
                           " do not fit");
  }
  Problem problem{};
  problem.n = a.dimensions[rank - 1];
  problem.rows = b.dimensions[rank - 2];
  problem.columns = b.dimensions[rank - 1];
  problem.batch = 1;
  bool fits = a.dimensions[rank - 2] == problem.n &&
              (left_side != 0 ? problem.rows : problem.columns) == problem.n;
  for (size_t d = 0; d + 2 < rank; ++d) {
    problem.batch *= a.dimensions[d];
    fits &= a.dimensions[d] == b.dimensions[d];
  }
  if (!fits) return InvalidArgument("operands ", a, " and ", b, " do not fit");
  problem.left_side = left_side != 0;
  problem.lower = lower != 0;
  problem.unit_diagonal = unit_diagonal != 0;
  problem.transpose = transpose != "NO_TRANSPOSE";
  problem.conjugate = transpose == "ADJOINT";
  const lapack::Api* api = nullptr;
  constexpr int64_t kMost = std::numeric_limits<lapack::Int>::max();
  if (problem.n > kOwnOrder && problem.rows <= kMost && problem.columns <= kMost) {
    if (StatusOr<const lapack::Api*> found = lapack::Load(); found.ok()) api = *found;
  }
  switch (a.type) {
    case PrimitiveType::kF32:
      return std::unique_ptr<LibraryCall>(new TriangularSolve<float>(problem, api));
    case PrimitiveType::kF64:
      return std::unique_ptr<LibraryCall>(new TriangularSolve<double>(problem, api));
    case PrimitiveType::kC64:
      return std::unique_ptr<LibraryCall>(new TriangularSolve<std::complex<float>>(problem, api));
    case PrimitiveType::kC128:
      return std::unique_ptr<LibraryCall>(new TriangularSolve<std::complex<double>>(problem, api));
    default:
      return Unimplemented("element type ", TypeName(a.type));
  }
}

}  // namespace

void RegisterTriangularSolve(LibraryRegistry& registry) {
  registry.Register("triangular-solve", MakeTriangularSolve);
}

}  // namespace tripont
