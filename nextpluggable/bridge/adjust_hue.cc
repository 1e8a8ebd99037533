// AdjustHue by the largest and the least of the three colours, as in the kernels for CPUs and GPUs.
// TensorFlow's bridge goes by the saturation, which is 0 where all three are negative, as they may be in
// images between -1 and 1: what it gives there is grey.

#include <cstdint>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// In turns of the circle, between 0 and 1, of colours whose largest and least one are `range` apart.
xla::XlaOp HueOf(xla::XlaOp red, xla::XlaOp green, xla::XlaOp blue, xla::XlaOp most,
                 xla::XlaOp range) {
  const auto number = [&](double value) { return xla::ScalarLike(most, value); };
  const xla::XlaOp norm = xla::Div(number(1.0 / 6.0), range);
  const auto hue_from = [&](xla::XlaOp next, xla::XlaOp before, double turn) {
    return xla::Add(xla::Mul(norm, xla::Sub(next, before)), number(turn));
  };
  xla::XlaOp hue = xla::Select(xla::Eq(green, most), hue_from(blue, red, 2.0 / 6.0),
                               hue_from(red, green, 4.0 / 6.0));
  hue = xla::Select(xla::Eq(red, most), hue_from(green, blue, 0.0), hue);
  hue = xla::Select(xla::Gt(range, number(0.0)), hue, xla::ZerosLike(hue));
  return xla::Select(xla::Lt(hue, number(0.0)), xla::Add(hue, number(1.0)), hue);
}

}  // namespace

absl::Status AdjustHue(Context* context, tf::OpKernel& original) {
  const tf::TensorShape shape = context->InputShape(0);
  const int last = shape.dims() - 1;
  if (HasComputedSize(context) || last < 2 || shape.dim_size(last) != 3 ||
      context->InputShape(1).dims() != 0) {
    return AsTheBridge(context, original);
  }
  const xla::XlaOp x = xla::ConvertElementType(context->Input(0), xla::F32);
  const xla::XlaOp delta = xla::ConvertElementType(context->Input(1), xla::F32);
  const auto colour = [&](int64_t i) { return xla::SliceInDim(x, i, i + 1, 1, last); };
  const xla::XlaOp red = colour(0);
  const xla::XlaOp green = colour(1);
  const xla::XlaOp blue = colour(2);
  const xla::XlaOp most = xla::Max(xla::Max(red, green), blue);
  const xla::XlaOp least = xla::Min(xla::Min(red, green), blue);
  const xla::XlaOp range = xla::Sub(most, least);
  const auto number = [&](double value) { return xla::ScalarLike(range, value); };
  const xla::XlaOp one = number(1.0);
  xla::XlaOp hue = xla::Rem(xla::Add(HueOf(red, green, blue, most, range), delta), one);
  hue = xla::Select(xla::Lt(hue, number(0.0)), xla::Rem(xla::Add(one, hue), one), hue);
  const xla::XlaOp sixths = xla::Mul(hue, number(6.0));
  const auto away_from = [&](double place) { return xla::Abs(xla::Sub(sixths, number(place))); };
  const auto share = [&](xla::XlaOp part) { return xla::Clamp(number(0.0), part, one); };
  const std::vector<xla::XlaOp> shares = {share(xla::Sub(away_from(3.0), one)),
                                          share(xla::Sub(number(2.0), away_from(2.0))),
                                          share(xla::Sub(number(2.0), away_from(4.0)))};
  std::vector<xla::XlaOp> colours;
  for (const xla::XlaOp part : shares) {
    colours.push_back(xla::Add(least, xla::Mul(range, part)));
  }
  const xla::XlaOp result = xla::ConcatInDim(context->builder(), colours, last);
  context->SetOutput(0, xla::ConvertElementType(result, context->input_xla_type(0)));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
