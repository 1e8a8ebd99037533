// Rows in a random order, each order as likely as any other.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/comparators.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tripont::tensorflow {

namespace tf = ::tensorflow;

// The bridge exchanges each row of an array of several dimensions with any of all rows. That gives orders with
// other probabilities: of three rows, 4/27 and 5/27 in place of 1/6. Here the rows are sorted by random keys,
// as the bridge does it for a vector: so often that there are as many keys as the number of rows to the third
// power, and equal ones are rare.
absl::Status RandomShuffle(tf::XlaOpKernelContext* context, tf::OpKernel& original) {
  if (HasComputedSize(context)) return Refuse(context, original);
  const tf::TensorShape shape = context->InputShape(0);
  if (shape.dims() < 2 || shape.num_elements() <= 1 || shape.dim_size(0) <= 1) {
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  const int64_t count = shape.dim_size(0);
  const double rounds = std::ceil(3 * std::log(static_cast<double>(count)) / std::log(kMost));
  xla::XlaBuilder* const builder = context->builder();
  xla::XlaOp order = xla::Iota(builder, xla::S32, count);
  for (int round = 0; round < static_cast<int>(std::max(rounds, 1.0)); ++round) {
    const xla::XlaOp keys = xla::RngUniform(xla::ConstantR0<uint32_t>(builder, 0),
                                            xla::ConstantR0<uint32_t>(builder, kMost),
                                            xla::ShapeUtil::MakeShape(xla::U32, {count}));
    const xla::XlaOp sorted =
        xla::Sort({keys, order}, xla::CreateScalarLtComputation({xla::U32, xla::S32}, builder));
    order = xla::GetTupleElement(sorted, 1);
  }
  context->SetOutput(0, xla::TorchIndexSelect(context->Input(0), order, /*dim=*/0));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
