// What the library calls of LAPACK's routines have in common: a batch of matrices, each given to
// one routine.
//
// Matrices are column-major, as LAPACK has them: an array [..., n, m] holds matrices of m rows and
// n columns. (The compiler puts transposes around the calls, where they may cancel or be fused with
// what is there.) The batch dimensions of all operands and results are the same. "info" results are
// s32 [...]: 0, or LAPACK's number for what went wrong with that matrix; the other results are then
// undefined, or NaNs where the call says so. Nothing here fails because of the values.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_CALL_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_CALL_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/runtime/library/lapack_api.h"
#include "core/runtime/library/matrix_lanes.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont::lapack {

// LAPACK's number for a matrix with NaNs or infinities, from routines that JAX's CPU backend does
// not give such matrices.
constexpr Int kNotFinite = -4;

template <typename T>
constexpr PrimitiveType TypeOf() {
  if constexpr (std::is_same_v<T, float>) return PrimitiveType::kF32;
  if constexpr (std::is_same_v<T, double>) return PrimitiveType::kF64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return PrimitiveType::kC64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return PrimitiveType::kC128;
  if constexpr (std::is_same_v<T, Int>) return PrimitiveType::kS32;
}

// Bytes for an array of `count` T's in a workspace, where arrays start at multiples of 64.
template <typename T>
constexpr size_t BytesOf(int64_t count) {
  return (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
}

// One matrix of an execution.
class Item {
 public:
  Item(void* const* operands, void* const* results, int64_t index, std::byte* work)
      : operands_(operands), results_(results), index_(index), work_(work) {}

  // This matrix's part of operand or result `number`, `elements` T's.
  template <typename T>
  const T* Operand(size_t number, int64_t elements) const {
    return static_cast<const T*>(operands_[number]) + index_ * elements;
  }
  template <typename T>
  T* Result(size_t number, int64_t elements) const {
    return static_cast<T*>(results_[number]) + index_ * elements;
  }
  // The same part of the result, holding a copy of the operand.
  template <typename T>
  T* Copy(size_t operand, size_t result, int64_t elements) const {
    T* to = Result<T>(result, elements);
    const T* from = Operand<T>(operand, elements);
    if (to != from && elements > 0) {
      std::memcpy(to, from, static_cast<size_t>(elements) * sizeof(T));
    }
    return to;
  }
  void* workspace() const { return work_; }
  // The next `count` T's of the workspace.
  template <typename T>
  T* Take(int64_t count) {
    T* taken = reinterpret_cast<T*>(work_);
    work_ += BytesOf<T>(count);
    return taken;
  }

 private:
  void* const* const operands_;
  void* const* const results_;
  const int64_t index_;
  std::byte* work_;
};

// Runs a routine on each matrix of a batch: small ones on several threads, and several at a time
// where the call has lanes for them (matrix_lanes.h); large ones one after the other, since OpenBLAS
// works on each with all its threads.
class BatchCall : public LibraryCall {
 public:
  Status Execute(LibraryContext& context, void* const* operands, void* const* results) const final;

 protected:
  // `order`: the larger dimension of a matrix. `multiply_adds`: of one matrix, about. `workspace`:
  // bytes that Run takes. `lanes`: how many matrices RunTile takes, and the bytes that it does.
  BatchCall(int64_t batch, int64_t order, double multiply_adds, size_t workspace,
            matrix_lanes::Plan lanes = {})
      : batch_(batch),
        order_(order),
        multiply_adds_(multiply_adds),
        workspace_((std::max(workspace, lanes.workspace) + 63) / 64 * 64),
        lanes_(lanes) {}
  // Whether operands and results are row-major, which only calls in lanes take. INVALID_ARGUMENT if
  // this one is not in lanes.
  Status SetRowMajor(bool row_major);
  matrix_lanes::Layout layout() const {
    return row_major_ ? matrix_lanes::kRowMajor : matrix_lanes::kColumnMajor;
  }

  // For Run: exchanges the rows and columns of a [n,n] if the call is row-major.
  template <typename T>
  void TransposeIfRows(T* a, int64_t n) const {
    for (int64_t i = 0; row_major_ && i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) std::swap(a[i * n + j], a[j * n + i]);
    }
  }

  virtual void Run(Item item) const = 0;
  // The matrix of `first` and those behind it, `count` of them. Those of the set that it returns
  // are then given to Run: their operands must be as they were.
  virtual matrix_lanes::LaneSet RunTile(Item /*first*/, int /*count*/) const { return 0; }

 private:
  Status ExecuteTiles(LibraryContext& context, void* const* operands, void* const* results) const;

  const int64_t batch_;
  const int64_t order_;
  const double multiply_adds_;
  const size_t workspace_;
  const matrix_lanes::Plan lanes_;
  bool row_major_ = false;
};

// An operand or result without its batch dimensions.
struct Expected {
  PrimitiveType type;
  std::vector<int64_t> dimensions;
};

// A matrix of m rows and n columns.
template <typename T>
Expected MatrixOf(Int m, Int n, bool row_major) {
  if (row_major) return {TypeOf<T>(), {m, n}};
  return {TypeOf<T>(), {n, m}};
}

// The shapes of a call. The batch dimensions are those of operand 0 but for the last `rank`.
class Arguments {
 public:
  // INVALID_ARGUMENT if operand 0 has fewer than `rank` dimensions; UNIMPLEMENTED if the last ones
  // are over 2^31 - 1.
  static StatusOr<Arguments> Read(const LibraryCallSignature& signature, size_t rank);

  int64_t batch() const { return batch_; }
  // Dimension `index` of operand `operand`, from 0 after the batch dimensions; 0 if it has no such
  // dimension.
  Int Dimension(size_t operand, size_t index) const;
  // INVALID_ARGUMENT naming what does not fit, or an attribute that nothing has read.
  Status Check(std::initializer_list<Expected> operands,
               std::initializer_list<Expected> results) const;

 private:
  Arguments(const LibraryCallSignature& signature, size_t batch_rank, int64_t batch)
      : signature_(&signature), batch_rank_(batch_rank), batch_(batch) {}
  const LibraryCallSignature* signature_;
  size_t batch_rank_;
  int64_t batch_;
};

// An attribute that holds one of LAPACK's characters, as a number; INVALID_ARGUMENT if it is not
// one of `allowed`.
StatusOr<char> Character(const LibraryAttributes& attributes, std::string_view name,
                         std::string_view allowed);

// The size of work that `query(work, lwork, info)` asks for, in elements. INTERNAL if the routine
// refuses its arguments.
template <typename T, typename Query>
StatusOr<Int> WorkSize(const char* routine, const Query& query) {
  T size = T(0);
  const Int ask = -1;
  Int info = 0;
  query(&size, &ask, &info);
  if (info != 0) return Internal("LAPACK's ", routine, ", asked for its workspace: info ", info);
  // A float may not hold the number exactly.
  double number = std::ceil(static_cast<double>(std::real(size)) *
                            (1.0 + std::numeric_limits<Real<T>>::epsilon()));
  if (!(number <= std::numeric_limits<Int>::max())) {
    return Unimplemented("LAPACK's ", routine, " with 32-bit integers cannot do so large a matrix");
  }
  return std::max<Int>(1, static_cast<Int>(number));
}

template <typename T>
bool IsFinite(T value) {
  if constexpr (kIsComplex<T>) {
    return std::isfinite(value.real()) && std::isfinite(value.imag());
  } else {
    return std::isfinite(value);
  }
}

template <typename T>
bool AllFinite(const T* data, int64_t count) {
  return std::all_of(data, data + count, IsFinite<T>);
}

template <typename T>
void FillNan(T* data, int64_t count) {
  constexpr auto kNan = std::numeric_limits<Real<T>>::quiet_NaN();
  if constexpr (kIsComplex<T>) {
    std::fill(data, data + count, T(kNan, kNan));
  } else {
    std::fill(data, data + count, kNan);
  }
}

// A factory: opens LAPACK and makes Call<T> for the type of operand 0.
template <template <typename> class Call>
StatusOr<std::unique_ptr<LibraryCall>> MakeCall(const LibraryCallSignature& signature) {
  if (signature.operands.empty()) return InvalidArgument("expected operands");
  TRIPONT_ASSIGN_OR_RETURN(const Api* api, Load());
  switch (signature.operands[0].shape.type) {
    case PrimitiveType::kF32:
      return Call<float>::Make(signature, api->f32);
    case PrimitiveType::kF64:
      return Call<double>::Make(signature, api->f64);
    case PrimitiveType::kC64:
      return Call<std::complex<float>>::Make(signature, api->c64);
    case PrimitiveType::kC128:
      return Call<std::complex<double>>::Make(signature, api->c128);
    default:
      return Unimplemented("element type ", TypeName(signature.operands[0].shape.type),
                           "; LAPACK has f32, f64, c64 and c128");
  }
}

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_CALL_H_
