#include "nextpluggable/bridge/empty_results.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "absl/types/span.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/matrix.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The kernels of depthwise convolutions, and of gradients of convolutions, divide by the channels of
// the filter. Those of average pools and of strided slices give a dimension one element at least. That
// of singular values takes one of their number at least.
constexpr std::array<std::string_view, 14> kOps = {"AvgPool3DGrad",
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
                                                   "StridedSliceGrad",
                                                   "Svd"};

bool IsEmpty(const tf::PartialTensorShape& shape) {
  return shape.IsFullyDefined() && shape.num_elements() == 0;
}

// Zeros, or identity matrices: the vectors to no singular values are any that are orthogonal.
xla::XlaOp ZerosOrIdentity(xla::XlaBuilder* builder, xla::PrimitiveType type,
                           const tf::PartialTensorShape& shape) {
  const auto sizes = shape.dim_sizes();
  if (IsEmpty(shape)) return xla::Broadcast(xla::Zero(builder, type), sizes);
  const size_t batch = sizes.size() - 2;
  const auto matrix = xla::IdentityMatrix(builder, type, sizes[batch], sizes[batch + 1]);
  return xla::Broadcast(matrix, absl::MakeConstSpan(sizes).first(batch));
}

// Gradients of filters, which are sums over the images.
constexpr std::array<std::string_view, 4> kSums = {"Conv2DBackpropFilter", "Conv3DBackpropFilter",
                                                   "Conv3DBackpropFilterV2",
                                                   "DepthwiseConv2dNativeBackpropFilter"};

// Whether the result is a sum of nothing. The bridge refuses images without pixels.
bool IsEmptySum(tf::XlaOpKernelContext* context, std::string_view op) {
  return std::find(kSums.begin(), kSums.end(), op) != kSums.end() &&
         context->InputShape(0).num_elements() == 0 && context->InputShape(2).num_elements() == 0;
}

}  // namespace

bool SetEmptyResults(tf::XlaOpKernelContext* context,
                     const std::vector<tf::PartialTensorShape>& shapes) {
  const std::string_view op = context->op_kernel().type_string_view();
  if (std::find(kOps.begin(), kOps.end(), op) == kOps.end()) return false;
  if (shapes.empty()) return false;
  // What is sliced out of nothing has no gradient: the bridge's kernel refuses one that has elements.
  if (op == "StridedSliceGrad" && context->InputShape(4).num_elements() > 0) return false;
  const bool is_sum = shapes[0].IsFullyDefined() && IsEmptySum(context, op);
  // The first result of Svd are the singular values.
  const bool is_empty = op == "Svd" ? IsEmpty(shapes[0]) && shapes.size() == 3
                                    : std::all_of(shapes.begin(), shapes.end(), IsEmpty);
  if (!is_sum && !is_empty) return false;
  for (size_t output = 0; output < shapes.size(); ++output) {
    const int index = static_cast<int>(output);
    xla::PrimitiveType type = xla::PRIMITIVE_TYPE_INVALID;
    if (!tf::DataTypeToPrimitiveType(context->expected_output_dtype(index), &type).ok()) {
      return false;
    }
    xla::XlaBuilder* const builder = context->builder();
    context->SetOutput(index,
                       is_sum ? xla::Broadcast(xla::Zero(builder, type), shapes[output].dim_sizes())
                              : ZerosOrIdentity(builder, type, shapes[output]));
  }
  return true;
}

}  // namespace tripont::tensorflow
