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
      {"FakeQuantWithMinMaxVarsGradient", FakeQuantization},
      {"FakeQuantWithMinMaxVarsPerChannel", FakeQuantization},
      {"FakeQuantWithMinMaxVarsPerChannelGradient", FakeQuantization},
      {"Fill", Fill},
      {"InTopKV2", InTopK},
      {"LRN", ResponseNormalization},
      {"LRNGrad", ResponseNormalization},
      {"MaxPool", MaxPool},
      {"MaxPool3DGradGrad", MaxPoolGradGrad},
      {"MaxPoolGrad", MaxPoolGrad},
      {"MaxPoolGradGrad", MaxPoolGradGrad},
      {"MaxPoolGradGradV2", MaxPoolGradGrad},
      {"Ndtri", Ndtri},
      {"NonMaxSuppressionV3", NonMaxSuppression},
      {"NonMaxSuppressionV4", NonMaxSuppression},
      {"NotEqual", Equality},
      {"ParallelDynamicStitch", DynamicStitch},
      {"ReciprocalGrad", GradientByResult},
      {"ResizeBilinear", ResizeBilinear},
      {"ResizeBilinearGrad", ResizeBilinearGrad},
      {"ResizeNearestNeighbor", ResizeNearestNeighbor},
      {"RsqrtGrad", GradientByResult},
      {"SeluGrad", SeluGrad},
      {"SqrtGrad", GradientByResult},
      {"Svd", Svd},
      {"UpperBound", UpperBound},
  };
  const auto found = translations->find(op);
  return found == translations->end() ? FindRandomTranslation(op) : found->second;
}

}  // namespace tripont::tensorflow
