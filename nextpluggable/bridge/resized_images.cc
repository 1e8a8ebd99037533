// Images that are resized, one dimension after the other. TensorFlow's bridge multiplies windows of pixels by
// their weights, 0 among them, so that an infinity makes NaN of pixels that it does not belong to.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/array2d.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/tsl/platform/statusor.h"
#include "xla/xla_data.pb.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// What the attributes and the second input of a resizing op say.
struct Resizing {
  std::vector<int64_t> sizes;  // the new height and width
  bool align_corners = false;
  bool half_pixels = false;
};

// The places of so many pixels are written into a program, 4 bytes each.
constexpr int64_t kMostPixels = int64_t{1} << 27;

// Nothing for images that are left to the bridge: their sizes or the new ones depend on values, or some are 0.
absl::StatusOr<std::optional<Resizing>> ResizingOf(Context* context) {
  const tf::TensorShape shape = context->InputShape(0);
  if (HasComputedSize(context) || HasComputedConstant(context) || shape.dims() != 4 ||
      shape.num_elements() == 0) {
    return std::nullopt;
  }
  Resizing resizing;
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector(1, &resizing.sizes));
  if (resizing.sizes.size() != 2 || resizing.sizes[0] < 1 || resizing.sizes[1] < 1) {
    return std::nullopt;
  }
  if (std::max(resizing.sizes[0], resizing.sizes[1]) > kMostPixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("images of ", resizing.sizes[0], " x ", resizing.sizes[1],
                     " pixels are too large to be made by resizing"));
  }
  const auto& node = context->op_kernel().def();
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "align_corners", &resizing.align_corners));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "half_pixel_centers", &resizing.half_pixels));
  return resizing;
}

// How far apart, in pixels of an image of `from` pixels, the neighbours among `to` new ones are. These floats and
// those below, and how they are rounded, are those of the kernels for CPUs and GPUs.
float ScaleOf(int64_t from, int64_t to, bool align_corners) {
  return align_corners && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                 : static_cast<float>(from) / static_cast<float>(to);
}

// The pixel at `place` of an image of `from` pixels, or the nearest one that it has.
int32_t PixelAt(float place, int64_t from) {
  return static_cast<int32_t>(std::clamp<int64_t>(static_cast<int64_t>(place), 0, from - 1));
}

// The pixel that each of `to` pixels is a copy of, among `from`.
std::vector<int32_t> NearestPixels(int64_t from, int64_t to, const Resizing& resizing) {
  const float scale = ScaleOf(from, to, resizing.align_corners);
  std::vector<int32_t> pixels;
  for (int64_t i = 0; i < to; ++i) {
    const float place = (static_cast<float>(i) + (resizing.half_pixels ? 0.5F : 0.0F)) * scale;
    pixels.push_back(PixelAt(resizing.align_corners ? std::round(place) : std::floor(place), from));
  }
  return pixels;
}

// Between which two pixels each of the new ones lies, and how far from the first.
struct Neighbours {
  std::vector<int32_t> lower;
  std::vector<int32_t> upper;
  std::vector<float> distance;
};

// Those of `to` pixels among `from`.
Neighbours NeighboursOf(int64_t from, int64_t to, bool align_corners, bool half_pixels) {
  const float scale = ScaleOf(from, to, align_corners);
  Neighbours result;
  for (int64_t i = 0; i < to; ++i) {
    const auto number = static_cast<float>(i);
    const float place = half_pixels ? (number + 0.5F) * scale - 0.5F : number * scale;
    const float below = std::floor(place);
    result.lower.push_back(PixelAt(below, from));
    result.upper.push_back(PixelAt(std::ceil(place), from));
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
  TF_ASSIGN_OR_RETURN(const std::optional<Resizing> resizing, ResizingOf(context));
  if (!resizing) return AsTheBridge(context, original);
  const tf::TensorShape shape = context->InputShape(0);
  const std::vector<int64_t>& to = resizing->sizes;
  xla::XlaOp x = xla::ConvertElementType(context->Input(0), xla::F32);
  if (to[0] != shape.dim_size(1) || to[1] != shape.dim_size(2)) {
    for (const int d : {2, 1}) {
      x = Resized(x, d,
                  NeighboursOf(shape.dim_size(d), to[static_cast<size_t>(d) - 1],
                               resizing->align_corners, resizing->half_pixels));
    }
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

// The bridge computes places in the type of the images, of which float16 and bfloat16 are too short,
// and takes images of integers through float.
absl::Status ResizeNearestNeighbor(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::optional<Resizing> resizing, ResizingOf(context));
  if (!resizing) return AsTheBridge(context, original);
  const tf::TensorShape shape = context->InputShape(0);
  xla::XlaOp x = context->Input(0);
  for (int d = 1; d <= 2; ++d) {
    const std::vector<int32_t> pixels =
        NearestPixels(shape.dim_size(d), resizing->sizes[static_cast<size_t>(d) - 1], *resizing);
    x = xla::TorchIndexSelect(x, xla::ConstantR1<int32_t>(context->builder(), pixels), d, 0);
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
