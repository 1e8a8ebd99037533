// Library call "transpose": one result of a program that is another one with its dimensions in
// another order.
//
//   result[i...] = operand[j...], dimension d of the result is dimension permutation[d] of the
//   operand
//
// Attributes: "permutation". The operand is a result of the program too, and does not change after
// the call. Then an execution does not run it: the result is a deferred buffer
// (Buffer::Deferred), which is transposed when somebody reads it (LoadedProgram decides that). This
// is what does it where the compiler had to put either of them elsewhere.
#include "core/runtime/library/calls.h"
#include "core/runtime/strided_copy.h"

namespace tripont {
namespace {

class Transpose final : public LibraryCall {
 public:
  Transpose(const Shape& result, std::vector<int64_t> source_strides)
      : result_(result),
        strides_(result.DenseByteStrides()),
        source_strides_(std::move(source_strides)) {}

  Status Execute(LibraryContext& /*context*/, void* const* operands,
                 void* const* results) const override {
    StridedCopy(results[0], strides_, operands[0], source_strides_, result_.dimensions,
                ByteWidth(result_.type));
    return OkStatus();
  }
  std::span<const int64_t> DeferredStrides() const override { return source_strides_; }

 private:
  const Shape result_;
  const std::vector<int64_t> strides_;
  const std::vector<int64_t> source_strides_;
};

StatusOr<std::unique_ptr<LibraryCall>> MakeTranspose(const LibraryCallSignature& signature) {
  if (signature.operands.size() != 1 || signature.results.size() != 1)
    return InvalidArgument("expected one operand and one result");
  const Shape& operand = signature.operands[0].shape;
  const Shape& result = signature.results[0];
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> permutation,
                           signature.attributes.Integers("permutation"));
  const size_t rank = operand.rank();
  if (result.rank() != rank || permutation.size() != rank || result.type != operand.type ||
      ByteWidth(result.type) == 0) {
    return InvalidArgument("attribute permutation does not make ", result, " of ", operand);
  }
  const std::vector<int64_t> operand_strides = operand.DenseByteStrides();
  std::vector<int64_t> source_strides(rank);
  std::vector<bool> seen(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t from = permutation[i];
    if (from < 0 || from >= static_cast<int64_t>(rank) || seen[from] ||
        result.dimensions[i] != operand.dimensions[from]) {
      return InvalidArgument("attribute permutation does not make ", result, " of ", operand);
    }
    seen[from] = true;
    source_strides[i] = operand_strides[from];
  }
  return std::unique_ptr<LibraryCall>(new Transpose(result, std::move(source_strides)));
}

}  // namespace

void RegisterTranspose(LibraryRegistry& registry) { registry.Register("transpose", MakeTranspose); }

}  // namespace tripont
