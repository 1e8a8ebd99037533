// Numbers rounded to the steps of a range, and the gradients of that, as the CPU's kernels compute them.
//
// TensorFlow's bridge divides by a range from 0 to 0, rounds to the other side where a number lies half way
// between two steps, and refuses channels of arrays whose sizes depend on values.

#include <cstdint>
#include <numeric>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// The range of all numbers, or of each channel (the last dimension), moved so that 0 is one of its steps.
struct StepRange {
  xla::XlaOp is_zero;  // from 0 to 0
  xla::XlaOp low;
  xla::XlaOp high;
  xla::XlaOp scale;                 // from one step to the next
  xla::XlaOp inverse;               // steps by distance
  std::vector<int64_t> dimensions;  // of the numbers, which those of the range are
};

// From the inputs `first` and the one behind it.
absl::StatusOr<StepRange> RangeOf(Context* context, int first) {
  int64_t bits = 0;
  bool is_narrow = false;
  const tf::NodeDef& node = context->op_kernel().def();
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "num_bits", &bits));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "narrow_range", &is_narrow));
  if (bits < 2 || bits > 16) {
    return absl::InvalidArgumentError("num_bits must be between 2 and 16");
  }
  const xla::XlaOp low = context->Input(first);
  const xla::XlaOp high = context->Input(first + 1);
  const auto number = [&](double value) { return xla::ScalarLike(low, value); };
  const xla::XlaOp least = number(is_narrow ? 1 : 0);
  const xla::XlaOp most = number(static_cast<double>((int64_t{1} << bits) - 1));
  const xla::XlaOp steps = xla::Sub(most, least);
  const xla::XlaOp zero = number(0);
  StepRange range;
  range.is_zero = xla::And(xla::Eq(low, zero), xla::Eq(high, zero));
  range.scale = xla::Div(xla::Sub(high, low), steps);
  range.inverse = xla::Div(steps, xla::Sub(high, low));
  const xla::XlaOp step_of_zero =
      xla::Clamp(least, xla::Round(xla::Sub(least, xla::Div(low, range.scale))), most);
  range.low = xla::Mul(xla::Sub(least, step_of_zero), range.scale);
  range.high = xla::Mul(xla::Sub(most, step_of_zero), range.scale);
  if (context->InputShape(first).dims() == 1) {
    range.dimensions = {context->InputShape(0).dims() - 1};
  }
  return range;
}

// A range for each channel needs to know how many there are.
absl::StatusOr<bool> HasComputedChannels(Context* context, int first) {
  if (context->InputShape(first).dims() == 0) return false;
  for (int input = 0; input < context->num_inputs(); ++input) {
    TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(input)));
    if (!sizes.empty() && !sizes.back().constant) return true;
  }
  return false;
}

}  // namespace

absl::Status FakeQuantization(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const bool has_computed_channels, HasComputedChannels(context, 1));
  if (has_computed_channels) return Refuse(context, original);
  TF_ASSIGN_OR_RETURN(const StepRange range, RangeOf(context, 1));
  const std::vector<int64_t>& along = range.dimensions;
  const xla::XlaOp numbers = context->Input(0);
  const xla::XlaOp half = xla::ScalarLike(range.low, 0.5);
  const xla::XlaOp step_of_zero =
      xla::Floor(xla::Add(xla::Mul(xla::Neg(range.low), range.inverse), half));
  const xla::XlaOp within = xla::Max(xla::Min(numbers, range.high, along), range.low, along);
  const xla::XlaOp distance = xla::Sub(within, range.low, along);
  // The CPU's kernels differ here too. The maximum changes nothing: without it the product and the difference
  // behind it may be one operation, which is rounded once.
  const xla::XlaOp steps =
      along.empty() ? xla::Div(distance, range.scale)
                    : xla::Max(xla::Mul(distance, range.inverse, along), xla::ZerosLike(distance));
  const xla::XlaOp from_zero =
      xla::Floor(xla::Add(xla::Sub(steps, step_of_zero, along), xla::ScalarLike(numbers, 0.5)));
  const xla::XlaOp result = xla::Mul(from_zero, range.scale, along);
  const xla::XlaOp is_zero =
      xla::BroadcastInDim(range.is_zero, context->InputShape(0).dim_sizes(), along);
  context->SetOutput(0, xla::Select(is_zero, xla::ZerosLike(result), result));
  return absl::OkStatus();
}

absl::Status FakeQuantizationGradient(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const bool has_computed_channels, HasComputedChannels(context, 2));
  if (has_computed_channels) return Refuse(context, original);
  TF_ASSIGN_OR_RETURN(const StepRange range, RangeOf(context, 2));
  const std::vector<int64_t>& along = range.dimensions;
  const xla::XlaOp gradient = context->Input(0);
  const xla::XlaOp numbers = context->Input(1);
  const xla::XlaOp is_within =
      xla::And(xla::Ge(numbers, range.low, along), xla::Le(numbers, range.high, along));
  const xla::XlaOp no = xla::ZerosLike(gradient);
  const xla::XlaOp passes = xla::Or(is_within, range.is_zero, along);
  context->SetOutput(0, xla::Select(passes, gradient, no));
  const int rank = context->InputShape(0).dims();
  std::vector<int64_t> summed(static_cast<size_t>(along.empty() ? rank : rank - 1));
  std::iota(summed.begin(), summed.end(), 0);
  const auto sum_where = [&](xla::XlaOp is_outside) {
    const xla::XlaOp sum =
        xla::Reduce(xla::Select(is_outside, gradient, no), xla::Zero(context->builder(), xla::F32),
                    *context->GetOrCreateAdd(tf::DT_FLOAT), summed);
    return xla::Select(range.is_zero, xla::ZerosLike(sum), sum);
  };
  context->SetOutput(1, sum_where(xla::Lt(numbers, range.low, along)));
  context->SetOutput(2, sum_where(xla::Gt(numbers, range.high, along)));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
