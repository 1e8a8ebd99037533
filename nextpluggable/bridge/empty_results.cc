#include "nextpluggable/bridge/empty_results.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "tensorflow/compiler/tf2xla/type_util.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The kernels of depthwise convolutions, and of gradients of convolutions, divide by the channels of
// the filter. Those of average pools and of strided slices give a dimension one element at least.
constexpr std::array<std::string_view, 13> kOps = {"AvgPool3DGrad",
                                                   "AvgPoolGrad",
                                                   "Conv2DBackpropFilter",
                                                   "Conv2DBackpropInput",
                                                   "Conv3DBackpropFilter",
                                                   "Conv3DBackpropFilterV2",
                                                   "Conv3DBackpropInput",
                                                   "Conv3DBackpropInputV2",
                                                   "DenseBincount",
                                                   "DepthwiseConv2dNative",
                                                   "DepthwiseConv2dNativeBackpropFilter",
                                                   "DepthwiseConv2dNativeBackpropInput",
                                                   "StridedSliceGrad"};

}  // namespace

bool SetEmptyResults(tf::XlaOpKernelContext* context,
                     const std::vector<tf::PartialTensorShape>& shapes) {
  const std::string_view op = context->op_kernel().type_string_view();
  if (std::find(kOps.begin(), kOps.end(), op) == kOps.end()) return false;
  const auto is_empty = [](const tf::PartialTensorShape& shape) {
    return shape.IsFullyDefined() && shape.num_elements() == 0;
  };
  if (shapes.empty() || !std::all_of(shapes.begin(), shapes.end(), is_empty)) return false;
  for (size_t output = 0; output < shapes.size(); ++output) {
    const int index = static_cast<int>(output);
    xla::PrimitiveType type = xla::PRIMITIVE_TYPE_INVALID;
    if (!tf::DataTypeToPrimitiveType(context->expected_output_dtype(index), &type).ok()) {
      return false;
    }
    const auto sizes = shapes[output].dim_sizes();
    context->SetOutput(index, xla::Broadcast(xla::Zero(context->builder(), type), sizes));
  }
  return true;
}

}  // namespace tripont::tensorflow
