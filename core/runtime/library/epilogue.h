// What a gemm or convolution does to its result before storing it: the "epilogue" attribute.
//
// The attribute is a list of words separated by spaces, applied in order: "relu", "tanh",
// "logistic", "gelu_tanh", "gelu_erf" (elementwise), "bias" (adds the next operand, a vector along
// the last dimension (gemm) or the features (convolution)), "add" and "multiply" (by the next
// operand, an array of the result's shape and element type). The attribute "alpha" (default 1)
// multiplies the contraction's result before anything else.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_EPILOGUE_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_EPILOGUE_H_

#include <cstddef>
#include <string>
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

// The steps of `text` when the first operand they may use is number `first_operand`.
// INVALID_ARGUMENT for an unknown word.
StatusOr<std::vector<EpilogueStep>> ParseEpilogue(std::string_view text, size_t first_operand);

// Number of operands that the steps use.
size_t EpilogueOperands(const std::vector<EpilogueStep>& steps);

}  // namespace tripont::onednn

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_EPILOGUE_H_
