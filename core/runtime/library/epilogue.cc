#include "core/runtime/library/epilogue.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace tripont::onednn {
namespace {

struct Word {
  std::string_view name;
  EpilogueStep::Kind kind;
  Algorithm algorithm;
};

constexpr std::array kWords = {
    Word{"relu", EpilogueStep::Kind::kElementwise, Algorithm::kRelu},
    Word{"tanh", EpilogueStep::Kind::kElementwise, Algorithm::kTanh},
    Word{"logistic", EpilogueStep::Kind::kElementwise, Algorithm::kLogistic},
    Word{"gelu_tanh", EpilogueStep::Kind::kElementwise, Algorithm::kGeluTanh},
    Word{"gelu_erf", EpilogueStep::Kind::kElementwise, Algorithm::kGeluErf},
    Word{"bias", EpilogueStep::Kind::kVector, Algorithm::kBinaryAdd},
    Word{"add", EpilogueStep::Kind::kArray, Algorithm::kBinaryAdd},
    Word{"multiply", EpilogueStep::Kind::kArray, Algorithm::kBinaryMultiply},
};

StatusOr<std::vector<EpilogueStep>> ParseSteps(std::string_view text) {
  size_t next_operand = 2;
  std::vector<EpilogueStep> steps;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto* word =
        std::find_if(kWords.begin(), kWords.end(), [&](const Word& w) { return w.name == name; });
    if (word == kWords.end())
      return InvalidArgument("unknown step '", name, "' in attribute epilogue");
    EpilogueStep step{word->kind, word->algorithm};
    if (step.kind != EpilogueStep::Kind::kElementwise) step.operand = next_operand++;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

StatusOr<Epilogue> ReadEpilogue(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  TRIPONT_ASSIGN_OR_RETURN(const double alpha, attributes.FloatOr("alpha", 1.0));
  std::string text;
  if (attributes.Has("epilogue")) {
    TRIPONT_ASSIGN_OR_RETURN(text, attributes.Bytes("epilogue"));
  }
  TRIPONT_ASSIGN_OR_RETURN(std::vector<EpilogueStep> steps, ParseSteps(text));
  TRIPONT_RETURN_IF_ERROR(attributes.CheckAllUsed());
  const auto operands = 2 + std::count_if(steps.begin(), steps.end(), [](const EpilogueStep& s) {
                          return s.kind != EpilogueStep::Kind::kElementwise;
                        });
  if (std::ssize(signature.operands) != operands)
    return InvalidArgument("expected ", operands, " operands");
  return Epilogue{static_cast<float>(alpha), std::move(steps)};
}

Status StridedArray::CheckReach(std::string_view attributes) const {
  int64_t last = 0;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    int64_t reach = 0;
    if (dimensions[i] < 1 || strides[i] < 0 ||
        __builtin_mul_overflow(strides[i], dimensions[i] - 1, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return InvalidArgument("the array that ", attributes, " describe is out of range");
    }
  }
  if (last < shape.ElementCount()) return OkStatus();
  return InvalidArgument("the array that ", attributes, " describe reaches outside of ", shape);
}

StatusOr<OwnedMemoryDesc> StridedArray::Layout(const Api& api, bool any) const {
  const DataType type = DataTypeOf(shape.type);
  return any ? AnyDesc(api, type, dimensions) : StridedDesc(api, type, dimensions, strides);
}

StatusOr<StridedArray> StridedArray::OperandOf(const EpilogueStep& step, const Shape& given,
                                               size_t dimension) const {
  StridedArray operand{given, dimensions, strides};
  if (step.kind != EpilogueStep::Kind::kVector) return operand;
  const int64_t length = dimensions[dimension];
  if (given.ElementCount() != length)
    return InvalidArgument("bias ", given, " does not have ", length, " elements");
  std::fill(operand.dimensions.begin(), operand.dimensions.end(), 1);
  std::fill(operand.strides.begin(), operand.strides.end(), length);
  operand.dimensions[dimension] = length;
  operand.strides[dimension] = 1;
  return operand;
}

Status EpilogueOps::Combine(const Api& api, const EpilogueStep& step, const StridedArray& operand) {
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc layout, operand.Layout(api));
  ops.push_back(PostOp::Binary(step.algorithm, layout.get()));
  arrays.push_back(
      {ArgPostOp(static_cast<int>(ops.size()) - 1), false, step.operand, std::move(layout)});
  return OkStatus();
}

}  // namespace tripont::onednn
