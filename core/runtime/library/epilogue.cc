#include "core/runtime/library/epilogue.h"

#include <algorithm>
#include <array>
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

}  // namespace

StatusOr<std::vector<EpilogueStep>> ParseEpilogue(std::string_view text, size_t first_operand) {
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
    if (step.kind != EpilogueStep::Kind::kElementwise) step.operand = first_operand++;
    steps.push_back(step);
  }
  return steps;
}

size_t EpilogueOperands(const std::vector<EpilogueStep>& steps) {
  return static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const EpilogueStep& s) {
    return s.kind != EpilogueStep::Kind::kElementwise;
  }));
}

}  // namespace tripont::onednn
