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
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/runtime/library/lapack_api.h"
#include "core/runtime/library/matrix_lanes.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"
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
    if (to != from) ParallelCopy(to, from, static_cast<size_t>(elements) * sizeof(T));
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

// An operand or result without its batch dimensions.
struct Expected {
  PrimitiveType type;
  std::vector<int64_t> dimensions;
};

// An array of T's.
template <typename T>
Expected Array(std::initializer_list<int64_t> dimensions) {
  return {TypeOf<T>(), dimensions};
}

// The sizes of a matrix, and which of them comes first in its array.
struct Matrix {
  Int m = 0;  // rows
  Int n = 0;  // columns
  bool row_major = false;

  int64_t size() const { return int64_t{m} * n; }
  // The attribute by which operands and results are given in lanes alone; null if there is none.
  const char* needs_lanes() const { return row_major ? "row_major" : nullptr; }
  Int smaller() const { return std::min(m, n); }
  Int larger() const { return std::max(m, n); }
  template <typename T>
  Expected Of() const {
    return row_major ? Array<T>({m, n}) : Array<T>({n, m});
  }
};

// The shapes and attributes of a call. The batch dimensions are those of operand 0 but for the last
// `rank`.
class Arguments {
 public:
  // INVALID_ARGUMENT if operand 0 has fewer than `rank` dimensions; UNIMPLEMENTED if the last ones
  // are over 2^31 - 1.
  static StatusOr<Arguments> Read(const LibraryCallSignature& signature, size_t rank);

  int64_t batch() const { return batch_; }
  const LibraryCallSignature& signature() const { return *signature_; }
  // Dimension `index` of operand `operand`, from 0 after the batch dimensions; 0 if it has no such
  // dimension.
  Int Dimension(size_t operand, size_t index) const;
  // The matrices of an operand.
  Matrix MatrixOf(size_t operand, bool row_major = false) const {
    const Int first = Dimension(operand, 0);
    const Int second = Dimension(operand, 1);
    return row_major ? Matrix{first, second, true} : Matrix{second, first};
  }
  // The same, row-major if the attribute "row_major" says so.
  StatusOr<Matrix> MatrixInOrder(size_t operand) const;

  StatusOr<int64_t> Integer(std::string_view attribute) const {
    return signature_->attributes.Integer(attribute);
  }
  StatusOr<int64_t> IntegerOr(std::string_view attribute, int64_t otherwise) const {
    return signature_->attributes.IntegerOr(attribute, otherwise);
  }
  // An attribute that holds one of LAPACK's characters, as a number; INVALID_ARGUMENT if it is not
  // one of `allowed`.
  StatusOr<char> Character(std::string_view attribute, std::string_view allowed) const;
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

// Runs a routine on each matrix of a batch: small ones on several threads, and several at a time
// where the call has lanes for them (matrix_lanes.h); large ones one after the other, since OpenBLAS
// works on each with all its threads.
//
// A call is a class template on the element type: Read() takes what it needs from the shapes and
// attributes, Run() gives one matrix to the routine. It is made by Make().
class BatchCall : public LibraryCall {
 public:
  // A factory: opens LAPACK and makes Call<T> for the type of operand 0.
  template <template <typename> class Call>
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature) {
    if (signature.operands.empty()) return InvalidArgument("expected operands");
    TRIPONT_ASSIGN_OR_RETURN(const Api* api, Load());
    switch (signature.operands[0].shape.type) {
      case PrimitiveType::kF32:
        return Prepared(std::make_unique<Call<float>>(), signature, api);
      case PrimitiveType::kF64:
        return Prepared(std::make_unique<Call<double>>(), signature, api);
      case PrimitiveType::kC64:
        return Prepared(std::make_unique<Call<std::complex<float>>>(), signature, api);
      case PrimitiveType::kC128:
        return Prepared(std::make_unique<Call<std::complex<double>>>(), signature, api);
      default:
        return Unimplemented("element type ", TypeName(signature.operands[0].shape.type),
                             "; LAPACK has f32, f64, c64 and c128");
    }
  }

  Status Execute(LibraryContext& context, void* const* operands, void* const* results) const final;

 protected:
  // `rank`: of operand 0 without batch dimensions.
  explicit BatchCall(size_t rank = 2) : rank_(rank) {}

  // Reads the shapes and attributes, checks them, and calls SetWork.
  virtual Status Read(const Arguments& arguments) = 0;
  // `order`: the larger dimension of a matrix. `multiply_adds`: of one matrix, about. `workspace`:
  // bytes that Run takes.
  void SetWork(int64_t order, double multiply_adds, size_t workspace = 0);
  // Matrices of an `order` up to `most` may go through RunTile, which takes a workspace of `vectors`
  // (matrix_lanes.h). INVALID_ARGUMENT if they do not, but the attribute `needs` asks for
  // what only calls in lanes do.
  template <typename T>
  Status SetLanes(int64_t order, int64_t most, int64_t vectors, const char* needs) {
    return SetLanes(matrix_lanes::PlanFor<T>(batch_, order, most, vectors), needs);
  }

  // Run shares a large matrix out to the runtime's threads itself: LAPACK's take no part.
  void SharesOut() { shares_out_ = true; }

  const Api& api() const { return *api_; }
  template <typename T>
  const Routines<T>& lapack() const {
    return api_->Of<T>();
  }
  virtual void Run(Item item) const = 0;
  // The matrix of `first` and those behind it, `count` of them. Those of the set that it returns
  // are then given to Run: their operands must be as they were.
  virtual matrix_lanes::LaneSet RunTile(Item /*first*/, int /*count*/) const { return 0; }

  // Lets a new call read its arguments. `api`: null for calls that need no LAPACK.
  static StatusOr<std::unique_ptr<LibraryCall>> Prepared(std::unique_ptr<BatchCall> call,
                                                         const LibraryCallSignature& signature,
                                                         const Api* api);

 private:
  Status SetLanes(const matrix_lanes::Plan& lanes, const char* needs);
  Status ExecuteTiles(LibraryContext& context, void* const* operands, void* const* results) const;

  const size_t rank_;
  const Api* api_ = nullptr;
  int64_t batch_ = 0;
  int64_t order_ = 0;
  double multiply_adds_ = 0;
  size_t workspace_ = 0;
  bool shares_out_ = false;
  matrix_lanes::Plan lanes_;
};

inline matrix_lanes::Layout LayoutOf(const Matrix& matrix) {
  return matrix.row_major ? matrix_lanes::kRowMajor : matrix_lanes::kColumnMajor;
}

// For Run: exchanges the rows and columns of a [n,n] if it is row-major.
template <typename T>
void TransposeIfRows(T* a, const Matrix& matrix) {
  for (int64_t i = 0; matrix.row_major && i < matrix.n; ++i) {
    for (int64_t j = 0; j < i; ++j) std::swap(a[i * matrix.n + j], a[j * matrix.n + i]);
  }
}

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

// Multiplies finite elements by a power of two so that the largest is between 1 and 2, if it is so
// large or small that products of a few of them may not be representable. Returns the exponent that
// ScaleBack takes.
template <typename T>
int ScaleToOne(T* data, int64_t count) {
  using R = Real<T>;
  auto* numbers = reinterpret_cast<R*>(data);
  const int64_t size = count * (kIsComplex<T> ? 2 : 1);
  R largest = 0;
  for (int64_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(numbers[i]));
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  if (std::abs(exponent) < std::numeric_limits<R>::max_exponent / 2) return 0;
  for (int64_t i = 0; i < size; ++i) numbers[i] = std::ldexp(numbers[i], -exponent);
  return exponent;
}

template <typename T>
void ScaleBack(T* data, int64_t count, int exponent) {
  for (int64_t i = 0; exponent != 0 && i < count; ++i) data[i] = std::ldexp(data[i], exponent);
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

}  // namespace tripont::lapack

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_LAPACK_CALL_H_
