#include "nextpluggable/op_filter.h"

#include <algorithm>
#include <array>

namespace tripont::tensorflow {
namespace {

// Their results' sizes depend on values. tf2xla compiles them to bounded dynamic shapes; the CPU's
// kernels, to which TensorFlow's soft placement takes them, give the real size. TridiagonalSolve
// pivots unless told otherwise, and Dequantize has modes, which tf2xla's kernels refuse.
constexpr std::array<std::string_view, 8> kDropped = {"Dequantize",
                                                      "DynamicPartition",
                                                      "NonMaxSuppressionV3",
                                                      "NonMaxSuppressionV4",
                                                      "TridiagonalSolve",
                                                      "Unique",
                                                      "UniqueV2",
                                                      "Where"};

}  // namespace

bool KeepOp(std::string_view op) {
  return std::find(kDropped.begin(), kDropped.end(), op) == kDropped.end();
}

}  // namespace tripont::tensorflow
