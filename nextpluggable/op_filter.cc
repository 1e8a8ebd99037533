#include "nextpluggable/op_filter.h"

#include <algorithm>
#include <array>

namespace tripont::tensorflow {
namespace {

// TridiagonalSolve pivots unless told otherwise, and Dequantize has modes, which tf2xla's kernels
// refuse; the CPU's kernels, to which TensorFlow's soft placement takes them, do all of it.
constexpr std::array<std::string_view, 2> kDropped = {"Dequantize", "TridiagonalSolve"};

}  // namespace

bool KeepOp(std::string_view op) {
  return std::find(kDropped.begin(), kDropped.end(), op) == kDropped.end();
}

}  // namespace tripont::tensorflow
