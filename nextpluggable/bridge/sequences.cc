// Sequences of numbers.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// Whether there are numbers from `start` to before `limit`.
bool IsRange(double start, double limit, double step) {
  return step > 0 ? start < limit : step < 0 && start > limit;
}

// How many integers there are from `start` to before `limit`, which may be further apart than the largest.
uint64_t CountOf(int64_t start, int64_t limit, int64_t step) {
  const auto whole = [](int64_t number) { return static_cast<uint64_t>(number); };
  const uint64_t distance = step > 0 ? whole(limit) - whole(start) : whole(start) - whole(limit);
  const uint64_t size = step > 0 ? whole(step) : uint64_t{0} - whole(step);
  return (distance - 1) / size + 1;
}

// The numbers of a range of a short type are a constant, each rounded as the CPU's kernel rounds it.
template <typename T>
bool SetShortRange(Context* context, const tf::Tensor (&given)[3]) {
  constexpr double kMost = 1 << 20;
  const T start = given[0].scalar<T>()();
  const T limit = given[1].scalar<T>()();
  const T step = given[2].scalar<T>()();
  const auto wide = [](T number) { return static_cast<double>(number); };
  const double count = std::ceil(std::abs(wide((limit - start) / step)));
  if (!IsRange(wide(start), wide(limit), wide(step)) || !(count <= kMost)) return false;
  std::vector<T> numbers;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    numbers.push_back(start + static_cast<T>(i) * step);
  }
  context->SetOutput(0, xla::ConstantR1<T>(context->builder(), numbers));
  return true;
}

// Sets nothing and says false where the limits are the kernel's to refuse.
template <typename T>
bool SetIntegerRange(Context* context, const tf::Tensor (&given)[3]) {
  const T start = given[0].scalar<T>()();
  const T limit = given[1].scalar<T>()();
  const T step = given[2].scalar<T>()();
  if (step > 0 ? start >= limit : (step == 0 || start <= limit)) return false;
  const uint64_t count = CountOf(start, limit, step);
  if (count > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) return false;
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaOp places =
      xla::Iota(builder, context->input_xla_type(0), static_cast<int64_t>(count));
  context->SetOutput(0, xla::Add(xla::Mul(places, context->Input(2)), context->Input(0)));
  return true;
}

}  // namespace

// The bridge counts the distance of the limits in the type of the numbers, where it may be too large, and takes
// no numbers of 16 bits.
absl::Status RangeOfConstants(Context* context, tf::OpKernel& original) {
  for (int input = 0; input < 3; ++input) {
    if (IsComputed(context, input) || context->InputShape(input).dims() != 0) {
      return AsTheBridge(context, original);
    }
  }
  tf::Tensor given[3];
  for (int input = 0; input < 3; ++input) {
    TF_ASSIGN_OR_RETURN(given[input], context->ConstantInputTensor(input));
  }
  bool is_set = false;
  switch (context->input_type(0)) {
    case tf::DT_INT32:
      is_set = SetIntegerRange<int32_t>(context, given);
      break;
    case tf::DT_INT64:
      is_set = SetIntegerRange<int64_t>(context, given);
      break;
    case tf::DT_BFLOAT16:
      is_set = SetShortRange<tf::bfloat16>(context, given);
      break;
    default:
      break;
  }
  return is_set ? absl::OkStatus() : AsTheBridge(context, original);
}

// The bridge multiplies the step by 0 for the first number, which makes NaN of a step that is too large.
absl::Status LinSpace(Context* context, tf::OpKernel& original) {
  TF_RETURN_IF_ERROR(AsTheBridge(context, original));
  TF_RETURN_IF_ERROR(context->status());
  const xla::XlaOp result = Output(context, 0);
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->builder()->GetShape(result));
  const int64_t count = shape.dimensions(0);
  const xla::XlaOp places = xla::Iota(context->builder(), xla::S64, count);
  const xla::XlaOp is_first = xla::Eq(places, xla::ConstantR0<int64_t>(context->builder(), 0));
  ReplaceOutput(context, 0,
                xla::Select(is_first, xla::Broadcast(context->Input(0), {count}), result));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
