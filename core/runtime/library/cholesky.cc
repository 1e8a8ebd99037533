// Library calls "cholesky": Cholesky factors of a batch of matrices, and "cholesky-gradient".
//
// cholesky:
// Attribute "lower": the lower triangle is read and L returned with a = L L*; else the upper one,
// and U with a = U* U. The other triangle of the result is zero. A matrix that is not positive
// definite gives NaNs in the triangle that is read. f32, f64, c64, c128. "symmetrize": 1 where the
// factors of (a + its transpose) / 2 are asked for: of real batches in lanes alone.
//
// cholesky-gradient: operands L and what the gradient of a function of it is for L, row-major [n,n], of which the lower
// triangles are read; the result is the gradient for L L^T. "symmetric": 1 where that is a symmetric matrix; 0 where the
// factor is that of a lower triangle, whose gradient is written as JAX's is, and L has zeros above the diagonal. f32,
// f64.
#include <algorithm>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/lapack_call.h"
#include "core/runtime/library/lapack_tiles.h"

namespace tripont {
namespace {

using namespace lapack;  // NOLINT(google-build-using-namespace)

template <typename T>
class Cholesky final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    TRIPONT_ASSIGN_OR_RETURN(const int64_t lower, arguments.Integer("lower"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t symmetrize, arguments.IntegerOr("symmetrize", 0));
    n_ = arguments.Dimension(0, 0);
    lower_ = lower != 0;
    symmetrize_ = symmetrize != 0;
    const Expected matrix = Array<T>({n_, n_});
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix}, {matrix}));
    SetWork(n_, 1.0 * n_ * n_ * n_);
    SharesOut();
    return SetLanes<T>(n_, matrix_lanes::kMostOrder, matrix_lanes::MatrixVectors(n_, n_),
                       symmetrize_ ? "symmetrize" : nullptr);
  }

  void Run(Item item) const override {
    const int64_t n = n_;
    const T* from = item.Operand<T>(0, n * n);
    T* to = item.Result<T>(0, n * n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t begin = lower_ ? 0 : i;  // of what is read
      const int64_t end = lower_ ? i + 1 : n;
      std::fill(to + i * n, to + i * n + begin, T(0));
      if (from != to) std::copy(from + i * n + begin, from + i * n + end, to + i * n + begin);
      std::fill(to + i * n + end, to + i * n + n, T(0));
    }
    // A row-major lower triangle is a column-major upper one, of the transposed factor.
    if (!FactorCholesky(lapack<T>(), lower_ ? 'U' : 'L', n_, to)) Fail(to);
  }

  matrix_lanes::LaneSet RunTile(Item first, int count) const override {
    if constexpr (!kIsComplex<T>) {
      const int64_t size = int64_t{1} * n_ * n_;
      T* to = first.Result<T>(0, size);
      // An upper factor is the lower one of the transposed matrix.
      const auto layout = lower_ ? matrix_lanes::kRowMajor : matrix_lanes::kColumnMajor;
      matrix_lanes::CholeskyTile<T> tile{
          n_, layout, true, symmetrize_, first.Operand<T>(0, size), to, count, first.workspace()};
      matrix_lanes::Run(tile);
      for (int i = 0; i < count; ++i) {
        if ((tile.failed >> i & 1) != 0) Fail(to + i * size);
      }
    }
    return 0;
  }

  // NaNs in the triangle that is read, zeros in the other.
  void Fail(T* to) const {
    const int64_t n = n_;
    for (int64_t i = 0; i < n; ++i) {
      std::fill(to + i * n, to + i * n + n, T(0));
      FillNan(to + i * n + (lower_ ? 0 : i), lower_ ? i + 1 : n - i);
    }
  }

  Int n_ = 0;
  bool lower_ = false;
  bool symmetrize_ = false;
};

template <typename T>
class CholeskyGradient final : public BatchCall {
  Status Read(const Arguments& arguments) override {
    if constexpr (kIsComplex<T>) return Unimplemented("Cholesky's gradients of complex matrices");
    TRIPONT_ASSIGN_OR_RETURN(const int64_t symmetric, arguments.Integer("symmetric"));
    symmetric_ = symmetric != 0;
    n_ = arguments.Dimension(0, 0);
    const Expected matrix = Array<T>({n_, n_});
    TRIPONT_RETURN_IF_ERROR(arguments.Check({matrix, matrix}, {matrix}));
    SetWork(n_, 1.0 * n_ * n_ * n_ * (symmetric_ ? 2.0 : 5.0) / 3,
            symmetric_ ? 0 : BytesOf<T>(CholeskyRowsSize(n_)));
    SharesOut();
    return OkStatus();
  }

  void Run(Item item) const override {
    if constexpr (!kIsComplex<T>) {
      const int64_t n = n_;
      const T* factor = item.Operand<T>(0, n * n);
      const T* from = item.Operand<T>(1, n * n);
      T* to = item.Result<T>(0, n * n);
      const T scale = symmetric_ ? T(0.5) : T(1);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) to[i * n + j] = scale * from[i * n + j];
        if (!symmetric_) std::fill(to + i * n + i + 1, to + i * n + n, T(0));
      }
      if (symmetric_) {
        PropagateCholesky(lapack<T>(), n_, factor, to, Leading(n_));
      } else {
        PropagateCholeskyRows(lapack<T>(), n_, factor, to, item.Take<T>(CholeskyRowsSize(n_)));
      }
    }
  }

  Int n_ = 0;
  bool symmetric_ = false;
};

}  // namespace

void RegisterCholesky(LibraryRegistry& registry) {
  registry.Register("cholesky", BatchCall::Make<Cholesky>);
  registry.Register("cholesky-gradient", BatchCall::Make<CholeskyGradient>);
}

}  // namespace tripont
