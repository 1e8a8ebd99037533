// Which ops have a translation of their own.

#include <string_view>
#include <unordered_map>

#include "nextpluggable/bridge/rules.h"

namespace tripont::tensorflow {

Rule FindTranslation(std::string_view op) {
  static const auto* const translations = new std::unordered_map<std::string_view, Rule>{
      {"AdjustHue", AdjustHue},
      {"Bucketize", Bucketize},
      {"Cast", CastToBool},
      {"ClipByValue", ClipByValue},
      {"DynamicStitch", DynamicStitch},
      {"Equal", Equality},
      {"ExtractImagePatches", ExtractImagePatches},
      {"FakeQuantWithMinMaxVars", FakeQuantization},
      {"FakeQuantWithMinMaxVarsGradient", FakeQuantizationGradient},
      {"FakeQuantWithMinMaxVarsPerChannel", FakeQuantization},
      {"FakeQuantWithMinMaxVarsPerChannelGradient", FakeQuantizationGradient},
      {"Fill", Fill},
      {"Igamma", IncompleteGamma},
      {"IgammaGradA", IncompleteGamma},
      {"Igammac", IncompleteGamma},
      {"InTopKV2", InTopK},
      {"LRN", ResponseNormalization},
      {"LRNGrad", ResponseNormalization},
      {"LinSpace", LinSpace},
      {"MaxPool", MaxPool},
      {"MaxPool3DGradGrad", MaxPoolGradGrad},
      {"MaxPoolGrad", MaxPoolGrad},
      {"MaxPoolGradGrad", MaxPoolGradGrad},
      {"MaxPoolGradGradV2", MaxPoolGradGrad},
      {"Ndtri", Ndtri},
      {"NonMaxSuppressionV3", NonMaxSuppression},
      {"NonMaxSuppressionV4", NonMaxSuppression},
      {"NotEqual", Equality},
      {"OneHot", OneHot},
      {"ParallelDynamicStitch", DynamicStitch},
      {"RandomGammaGrad", RandomGammaGrad},
      {"RandomShuffle", RandomShuffle},
      {"Range", RangeOfConstants},
      {"ReciprocalGrad", GradientByResult},
      {"ResizeBilinear", ResizeBilinear},
      {"ResizeBilinearGrad", ResizeBilinearGrad},
      {"ResizeNearestNeighbor", ResizeNearestNeighbor},
      {"ResourceStridedSliceAssign", StridedSliceAssign},
      {"RsqrtGrad", GradientByResult},
      {"SeluGrad", SeluGrad},
      {"SqrtGrad", GradientByResult},
      {"Svd", Svd},
      {"TensorArrayGradV3", TensorArrayGrad},
      {"TensorListGetItem", TensorListGetItem},
      {"TensorListSetItem", TensorListSetItem},
      {"TensorListSplit", TensorListSplit},
      {"TensorStridedSliceUpdate", StridedSliceAssign},
      {"Unique", UniqueInOrder},
      {"UniqueV2", UniqueInOrder},
      {"UpperBound", UpperBound},
  };
  const auto found = translations->find(op);
  return found == translations->end() ? FindRandomTranslation(op) : found->second;
}

}  // namespace tripont::tensorflow
