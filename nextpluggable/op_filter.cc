#include "nextpluggable/op_filter.h"

#include <algorithm>
#include <array>

namespace tripont::tensorflow {
namespace {

// The CPU's kernels, to which TensorFlow's soft placement takes these, do all of them.
// TridiagonalSolve pivots unless told otherwise, and Dequantize has modes, which tf2xla's kernels
// refuse. What it makes of quantized arithmetic cuts fractions off where they are to be rounded,
// and of convolutions nothing.
constexpr std::array<std::string_view, 8> kDropped = {"Dequantize",
                                                      "TridiagonalSolve",
                                                      "UniformQuantizedAdd",
                                                      "UniformQuantizedConvolution",
                                                      "UniformQuantizedConvolutionHybrid",
                                                      "UniformQuantizedDot",
                                                      "UniformQuantizedDotHybrid",
                                                      "UniformRequantize"};

}  // namespace

bool KeepOp(std::string_view op) {
  return std::find(kDropped.begin(), kDropped.end(), op) == kDropped.end();
}

}  // namespace tripont::tensorflow
