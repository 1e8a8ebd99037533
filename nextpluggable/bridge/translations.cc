// Which ops have a translation of their own.

#include <string_view>
#include <unordered_map>

#include "nextpluggable/bridge/rules.h"

namespace tripont::tensorflow {

Rule FindTranslation(std::string_view op) {
  static const auto* const translations = new std::unordered_map<std::string_view, Rule>{
      {"Bucketize", Bucketize},
      {"ClipByValue", ClipByValue},
      {"ExtractImagePatches", ExtractImagePatches},
      {"Fill", Fill},
      {"InTopKV2", InTopK},
      {"MaxPool", MaxPool},
      {"MaxPool3DGradGrad", MaxPoolGradGrad},
      {"MaxPoolGrad", MaxPoolGrad},
      {"MaxPoolGradGrad", MaxPoolGradGrad},
      {"MaxPoolGradGradV2", MaxPoolGradGrad},
      {"Ndtri", Ndtri},
      {"ResizeNearestNeighbor", ResizeNearestNeighbor},
      {"SeluGrad", SeluGrad},
      {"UpperBound", UpperBound},
  };
  const auto found = translations->find(op);
  return found == translations->end() ? FindRandomTranslation(op) : found->second;
}

}  // namespace tripont::tensorflow
