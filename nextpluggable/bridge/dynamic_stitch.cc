// DynamicStitch by one gather. TensorFlow's bridge makes a slice of each row: a program as long as the
// result.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

}  // namespace

// The last writer of a row wins, as in the CPU's kernel.
absl::Status DynamicStitch(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) return Refuse(context, original);
  std::vector<xla::Literal> indices;
  TF_RETURN_IF_ERROR(context->ConstantInputList("indices", &indices));
  std::vector<xla::XlaOp> data;
  std::vector<tf::TensorShape> shapes;
  TF_RETURN_IF_ERROR(context->InputList("data", &data, &shapes));
  xla::XlaBuilder* const builder = context->builder();
  std::vector<xla::XlaOp> rows;
  std::vector<int32_t> sources;  // the row of `rows` for each row of the result, or -1
  std::vector<int64_t> row_sizes;
  int32_t count = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int rank = static_cast<int>(indices[i].shape().dimensions().size());
    if (shapes[i].dims() < rank) {
      return absl::InvalidArgumentError("the shape of data must begin with that of its indices");
    }
    const auto sizes = shapes[i].dim_sizes();
    const std::vector<int64_t> row(sizes.begin() + rank, sizes.end());
    if (!std::equal(sizes.begin(), sizes.begin() + rank, indices[i].shape().dimensions().begin())) {
      return absl::InvalidArgumentError("the shape of data must begin with that of its indices");
    }
    if (i > 0 && row != row_sizes) {
      return absl::InvalidArgumentError("the rows of all data must have the same shape");
    }
    row_sizes = row;
    const auto places = indices[i].data<int32_t>();
    for (const int32_t place : places) {
      if (place < 0) return absl::InvalidArgumentError("an index is negative");
      const auto needed = static_cast<size_t>(place) + 1;
      if (sources.size() < needed) sources.resize(needed, -1);
      sources[static_cast<size_t>(place)] = count++;
    }
    std::vector<int64_t> flat = {static_cast<int64_t>(places.size())};
    flat.insert(flat.end(), row.begin(), row.end());
    rows.push_back(xla::Reshape(data[i], flat));
  }
  const xla::XlaOp zero = xla::Zero(builder, context->output_xla_type(0));
  std::vector<int64_t> sizes = {static_cast<int64_t>(sources.size())};
  sizes.insert(sizes.end(), row_sizes.begin(), row_sizes.end());
  if (tf::TensorShape(sizes).num_elements() == 0) {
    context->SetOutput(0, xla::Broadcast(zero, sizes));
    return absl::OkStatus();
  }
  if (std::find(sources.begin(), sources.end(), -1) != sources.end()) {
    return absl::InvalidArgumentError("not all indices are used");
  }
  const xla::XlaOp all = xla::ConcatInDim(builder, rows, 0);
  context->SetOutput(
      0, xla::TorchIndexSelect(all, xla::ConstantR1<int32_t>(builder, sources), /*dim=*/0));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
