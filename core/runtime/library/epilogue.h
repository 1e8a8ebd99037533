// What gemm and convolution have in common: strided arrays, and what is done to the result before
// it is stored: the "epilogue" attribute.
//
// The attribute is a list of words separated by spaces, applied in order: "relu", "tanh",
// "logistic", "gelu_tanh", "gelu_erf" (elementwise), "bias" (adds the next operand, a vector along
// the last dimension (gemm) or the features (convolution)), "add" and "multiply" (by the next
// operand, an array of the result's shape and element type). The attribute "alpha" (default 1)
// multiplies the contraction's result before anything else.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_EPILOGUE_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_EPILOGUE_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/runtime/library/onednn.h"

namespace tripont::onednn {

struct EpilogueStep {
  enum class Kind { kElementwise, kVector, kArray };
  Kind kind;
  Algorithm algorithm;
  size_t operand = 0;  // kVector, kArray: number of the library call's operand
};

struct Epilogue {
  float alpha = 1.0F;
  std::vector<EpilogueStep> steps;  // whose operands are those of the call from the third on
};

// Reads the attributes "alpha" and "epilogue", the last of a call. INVALID_ARGUMENT for an unknown
// word, attributes that nothing has read, and another number of operands than the steps use.
StatusOr<Epilogue> ReadEpilogue(const LibraryCallSignature& signature);

// An array of a contraction: where its elements lie in the operand's or result's memory.
struct StridedArray {
  Shape shape;
  std::vector<int64_t> dimensions;
  std::vector<int64_t> strides;

  // INVALID_ARGUMENT if elements lie outside of the memory; `attributes` name the strides.
  Status CheckReach(std::string_view attributes) const;
  // With `any`, in a layout of the primitive's choice.
  StatusOr<OwnedMemoryDesc> Layout(const Api& api, bool any = false) const;
  // A step's operand `given` where this is the result: a vector along `dimension`, or an array whose
  // elements lie as the result's do. INVALID_ARGUMENT for a vector of another length.
  StatusOr<StridedArray> OperandOf(const EpilogueStep& step, const Shape& given,
                                   size_t dimension) const;
};

// The operations after a primitive's own, and the arrays that they read.
struct EpilogueOps {
  std::vector<PostOp> ops;
  std::vector<PlanArray> arrays;

  explicit EpilogueOps(float alpha) {
    if (alpha != 1.0F) ops.push_back(PostOp::Elementwise(Algorithm::kLinear, alpha));
  }
  Status Combine(const Api& api, const EpilogueStep& step, const StridedArray& operand);
};

}  // namespace tripont::onednn

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_EPILOGUE_H_
