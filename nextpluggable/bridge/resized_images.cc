// Images that are resized bilinearly, one dimension after the other. TensorFlow's bridge multiplies
// windows of three by three pixels by their weights, 0 among them, so that an infinity makes NaN of
// pixels that it does not belong to.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/array2d.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/xla_data.pb.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// Between which two pixels each of the new ones lies, and how far from the first.
struct Neighbours {
  std::vector<int32_t> lower;
  std::vector<int32_t> upper;
  std::vector<float> distance;
};

// Those of `to` pixels among `from`. The floats, and how they are rounded, are those of the kernels for
// CPUs and GPUs.
Neighbours NeighboursOf(int64_t from, int64_t to, bool align_corners, bool half_pixels) {
  const float scale = align_corners && to > 1
                          ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                          : static_cast<float>(from) / static_cast<float>(to);
  Neighbours result;
  for (int64_t i = 0; i < to; ++i) {
    const auto number = static_cast<float>(i);
    const float place = half_pixels ? (number + 0.5F) * scale - 0.5F : number * scale;
    const float below = std::floor(place);
    const auto pixel = [&](float where) {
      return static_cast<int32_t>(std::clamp<int64_t>(static_cast<int64_t>(where), 0, from - 1));
    };
    result.lower.push_back(pixel(below));
    result.upper.push_back(pixel(std::ceil(place)));
    result.distance.push_back(place - below);
  }
  return result;
}

// Along one dimension of f32[batch, height, width, channels].
xla::XlaOp Resized(xla::XlaOp x, int64_t dimension, const Neighbours& neighbours) {
  xla::XlaBuilder* const builder = x.builder();
  const auto pixels = [&](const std::vector<int32_t>& places) {
    return xla::TorchIndexSelect(x, xla::ConstantR1<int32_t>(builder, places), dimension);
  };
  const xla::XlaOp lower = pixels(neighbours.lower);
  const xla::XlaOp distance = xla::ConstantR1<float>(builder, neighbours.distance);
  const xla::XlaOp step = xla::Sub(pixels(neighbours.upper), lower);
  return xla::Add(lower, xla::Mul(step, distance, {dimension}));
}

}  // namespace

// The gradient of images of one column that are resized with their corners aligned. The bridge applies
// the kernel of the rows to the columns, and gives an array of another shape.
absl::Status ResizeBilinearGrad(Context* context, tf::OpKernel& original) {
  const tf::TensorShape from = context->InputShape(1);
  const tf::TensorShape to = context->InputShape(0);
  bool align_corners = false;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "align_corners", &align_corners));
  if (!align_corners || HasComputedSize(context) || from.dims() != 4 || to.dims() != 4 ||
      from.dim_size(1) == 0 || from.dim_size(2) != 1 || to.num_elements() == 0) {
    return AsTheBridge(context, original);
  }
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaOp gradient = xla::ConvertElementType(context->Input(0), xla::F32);
  const xla::XlaOp of_rows = xla::Reduce(gradient, xla::Zero(builder, xla::F32),
                                         xla::CreateScalarAddComputation(xla::F32, builder), {2});
  const Neighbours rows =
      NeighboursOf(from.dim_size(1), to.dim_size(1), align_corners, /*half_pixels=*/false);
  xla::Array2D<float> weights(to.dim_size(1), from.dim_size(1), 0.0F);
  for (int64_t i = 0; i < to.dim_size(1); ++i) {
    const auto row = static_cast<size_t>(i);
    weights(i, rows.lower[row]) += 1 - rows.distance[row];
    weights(i, rows.upper[row]) += rows.distance[row];
  }
  xla::DotDimensionNumbers numbers;
  numbers.add_lhs_contracting_dimensions(1);
  numbers.add_rhs_contracting_dimensions(0);
  const xla::XlaOp dot =
      xla::DotGeneral(of_rows, xla::ConstantR2FromArray2D<float>(builder, weights), numbers);
  context->SetOutput(0, xla::Reshape(xla::Transpose(dot, {0, 2, 1}), from.dim_sizes()));
  return absl::OkStatus();
}

absl::Status ResizeBilinear(Context* context, tf::OpKernel& original) {
  const tf::TensorShape shape = context->InputShape(0);
  if (HasComputedSize(context) || HasComputedConstant(context) || shape.dims() != 4 ||
      shape.num_elements() == 0) {
    return AsTheBridge(context, original);
  }
  std::vector<int64_t> to;
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector(1, &to));
  if (to.size() != 2 || to[0] < 1 || to[1] < 1) return AsTheBridge(context, original);
  bool align_corners = false;
  bool half_pixels = false;
  const auto& node = context->op_kernel().def();
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "align_corners", &align_corners));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "half_pixel_centers", &half_pixels));
  xla::XlaOp x = xla::ConvertElementType(context->Input(0), xla::F32);
  if (to[0] != shape.dim_size(1) || to[1] != shape.dim_size(2)) {
    for (const int d : {2, 1}) {
      x = Resized(x, d,
                  NeighboursOf(shape.dim_size(d), to[static_cast<size_t>(d) - 1], align_corners,
                               half_pixels));
    }
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
