// Library call "cholesky": Cholesky factors of a batch of matrices.
//
// Attribute "lower": the lower triangle is read and L returned with a = L L*; else the upper one,
// and U with a = U* U. The other triangle of the result is zero. A matrix that is not positive
// definite gives NaNs. f32, f64, c64, c128.
#include <complex>
#include <limits>
#include <memory>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/linear_algebra.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

// Multiply-adds that make a task worth another thread.
constexpr int64_t kTaskWork = 1 << 15;

template <typename T>
class Cholesky final : public LibraryCall {
 public:
  Cholesky(int64_t batch, int64_t n, bool lower) : batch_(batch), n_(n), lower_(lower) {}

  Status Execute(const LibraryContext& /*context*/, void* const* operands,
                 void* const* results) const override {
    if (batch_ == 0 || n_ == 0) return OkStatus();
    const int64_t size = n_ * n_;
    ParallelFor(batch_, std::max<int64_t>(1, kTaskWork / (size * n_)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    Factor(static_cast<const T*>(operands[0]) + i * size,
                           static_cast<T*>(results[0]) + i * size);
                  }
                });
    return OkStatus();
  }

 private:
  void Factor(const T* from, T* to) const {
    using linear_algebra::View;
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < n_; ++j) {
        const bool kept = lower_ ? j <= i : j >= i;
        to[i * n_ + j] = kept ? from[i * n_ + j] : T(0);
      }
    }
    const View<T> whole{to, n_, n_, n_, 1};
    if (linear_algebra::FactorCholesky(lower_ ? whole : whole.Adjoint())) return;
    std::fill(to, to + n_ * n_, std::numeric_limits<T>::quiet_NaN());
    if constexpr (linear_algebra::kIsComplex<T>) {
      const auto nan = std::numeric_limits<typename T::value_type>::quiet_NaN();
      std::fill(to, to + n_ * n_, T(nan, nan));
    }
  }

  const int64_t batch_;
  const int64_t n_;
  const bool lower_;
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
  TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
  const int64_t n = shape.dimensions[rank - 1];
  const int64_t batch = n == 0 ? 0 : shape.ElementCount() / (n * n);
  switch (shape.type) {
    case PrimitiveType::kF32:
      return std::unique_ptr<LibraryCall>(new Cholesky<float>(batch, n, lower != 0));
    case PrimitiveType::kF64:
      return std::unique_ptr<LibraryCall>(new Cholesky<double>(batch, n, lower != 0));
    case PrimitiveType::kC64:
      return std::unique_ptr<LibraryCall>(new Cholesky<std::complex<float>>(batch, n, lower != 0));
    case PrimitiveType::kC128:
      return std::unique_ptr<LibraryCall>(new Cholesky<std::complex<double>>(batch, n, lower != 0));
    default:
      return Unimplemented("element type ", TypeName(shape.type));
  }
}

}  // namespace

void RegisterCholesky(LibraryRegistry& registry) { registry.Register("cholesky", MakeCholesky); }

}  // namespace tripont
