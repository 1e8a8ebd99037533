// Library call "cholesky": Cholesky factors of a batch of matrices.
//
// Attribute "lower": the lower triangle is read and L returned with a = L L*; else the upper one,
// and U with a = U* U. The other triangle of the result is zero. A matrix that is not positive
// definite gives NaNs in the triangle that is read. f32, f64, c64, c128. "symmetrize": 1 where the
// factors of (a + its transpose) / 2 are asked for: of real batches in lanes alone.
//
// LAPACK computes large matrices where it is installed; small ones, and all where it is not, go
// through loops of ours. Batches of small real matrices go through lanes (matrix_lanes.h).
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
// Up to this order our loops are as fast as LAPACK, which need not be opened for them.
constexpr int64_t kOwnOrder = 16;

template <typename T>
matrix_lanes::Plan Plan(int64_t batch, int64_t n) {
  return matrix_lanes::PlanFor<T>(batch, n, matrix_lanes::kMostOrder,
                                  matrix_lanes::MatrixVectors(n, n));
}

template <typename T>
class Cholesky final : public LibraryCall {
 public:
  // `lapack`: null for our own loops.
  Cholesky(int64_t batch, int64_t n, bool lower, bool symmetrize, const lapack::Api* lapack)
      : batch_(batch),
        n_(n),
        lower_(lower),
        symmetrize_(symmetrize),
        lapack_(lapack),
        lanes_(Plan<T>(batch, n)) {}

  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    if (batch_ == 0 || n_ == 0) return OkStatus();
    const int64_t size = n_ * n_;
    if constexpr (!linear_algebra::kIsComplex<T>) {
      if (lanes_.count > 0) {
        return matrix_lanes::ForEachTile(
            context, lanes_, batch_, matrix_lanes::kTaskWork / (size * n_),
            [&](int64_t first, int count, void* workspace) {
              FactorTile(static_cast<const T*>(operands[0]) + first * size,
                         static_cast<T*>(results[0]) + first * size, count, workspace);
            });
      }
    }
    std::optional<lapack::OneThread> one_thread;
    if (lapack_ != nullptr) one_thread.emplace(*lapack_);
    const int64_t grain = std::max<int64_t>(1, kTaskWork / (size * n_));
    ParallelFor(batch_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Factor(static_cast<const T*>(operands[0]) + i * size,
               static_cast<T*>(results[0]) + i * size);
      }
    });
    return OkStatus();
  }

 private:
  void FactorTile(const T* from, T* to, int count, void* workspace) const {
    const int64_t size = n_ * n_;
    // An upper factor is the lower one of the transposed matrix.
    const auto layout = lower_ ? matrix_lanes::kRowMajor : matrix_lanes::kColumnMajor;
    matrix_lanes::CholeskyTile<T> tile{n_, layout, true, symmetrize_, from, to, count, workspace};
    matrix_lanes::Run(tile);
    for (int i = 0; i < count; ++i) {
      if ((tile.failed >> i & 1) == 0) continue;
      FillTriangle(to + i * size, std::numeric_limits<T>::quiet_NaN());
    }
  }

  // `value` in the triangle that is read, zeros in the other.
  void FillTriangle(T* to, T value) const {
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < n_; ++j) {
        to[i * n_ + j] = (lower_ ? j <= i : j >= i) ? value : T(0);
      }
    }
  }

  void Factor(const T* from, T* to) const {
    using linear_algebra::View;
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t begin = lower_ ? 0 : i;  // of what is read
      const int64_t end = lower_ ? i + 1 : n_;
      std::fill(to + i * n_, to + i * n_ + begin, T(0));
      if (from != to) std::copy(from + i * n_ + begin, from + i * n_ + end, to + i * n_ + begin);
      std::fill(to + i * n_ + end, to + i * n_ + n_, T(0));
    }
    if (lapack_ != nullptr) {
      // A row-major lower triangle is a column-major upper one, of the transposed factor.
      const char uplo = lower_ ? 'U' : 'L';
      const auto n = static_cast<lapack::Int>(n_);
      if (lapack::FactorCholesky(lapack_->Of<T>(), uplo, n, to)) return;
    } else {
      const View<T> whole{to, n_, n_, n_, 1};
      if (linear_algebra::FactorCholesky(lower_ ? whole : whole.Adjoint())) return;
    }
    if constexpr (linear_algebra::kIsComplex<T>) {
      const auto nan = std::numeric_limits<typename T::value_type>::quiet_NaN();
      FillTriangle(to, T(nan, nan));
    } else {
      FillTriangle(to, std::numeric_limits<T>::quiet_NaN());
    }
  }

  const int64_t batch_;
  const int64_t n_;
  const bool lower_;
  const bool symmetrize_;
  const lapack::Api* const lapack_;
  const matrix_lanes::Plan lanes_;
};

StatusOr<std::unique_ptr<LibraryCall>> MakeCholesky(const LibraryCallSignature& signature) {
  if (signature.operands.size() != 1 || signature.results.size() != 1) {
    return InvalidArgument("expected 1 operand and 1 result");
  }
  const Shape& shape = signature.operands[0].shape;
  const size_t rank = shape.rank();
  if (rank < 2 || !(shape == signature.results[0]) ||
      shape.dimensions[rank - 1] != shape.dimensions[rank - 2]) {
    return InvalidArgument("expected square matrices, not ", shape, " to ", signature.results[0]);
  }
  TRIPONT_ASSIGN_OR_RETURN(const int64_t lower, signature.attributes.Integer("lower"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t symmetrize,
                           signature.attributes.IntegerOr("symmetrize", 0));
  TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
  const int64_t n = shape.dimensions[rank - 1];
  const int64_t batch = n == 0 ? 0 : shape.ElementCount() / (n * n);
  if (symmetrize != 0) {
    const bool wide = shape.type == PrimitiveType::kF64;
    const bool real = wide || shape.type == PrimitiveType::kF32;
    const auto plan = wide ? Plan<double>(batch, n) : Plan<float>(batch, n);
    if (!real || plan.count == 0) {
      return InvalidArgument("symmetrize: matrices ", shape, " are not made in lanes");
    }
  }
  const lapack::Api* api = nullptr;
  if (n > kOwnOrder && n <= std::numeric_limits<lapack::Int>::max()) {
    if (StatusOr<const lapack::Api*> found = lapack::Load(); found.ok()) api = *found;
  }
  switch (shape.type) {
    case PrimitiveType::kF32:
      return std::unique_ptr<LibraryCall>(
          new Cholesky<float>(batch, n, lower != 0, symmetrize != 0, api));
    case PrimitiveType::kF64:
      return std::unique_ptr<LibraryCall>(
          new Cholesky<double>(batch, n, lower != 0, symmetrize != 0, api));
    case PrimitiveType::kC64:
      return std::unique_ptr<LibraryCall>(
          new Cholesky<std::complex<float>>(batch, n, lower != 0, symmetrize != 0, api));
    case PrimitiveType::kC128:
      return std::unique_ptr<LibraryCall>(
          new Cholesky<std::complex<double>>(batch, n, lower != 0, symmetrize != 0, api));
    default:
      return Unimplemented("element type ", TypeName(shape.type));
  }
}

}  // namespace

void RegisterCholesky(LibraryRegistry& registry) { registry.Register("cholesky", MakeCholesky); }

}  // namespace tripont
