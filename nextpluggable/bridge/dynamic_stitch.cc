// DynamicStitch by one gather. TensorFlow's bridge makes a slice of each row: a program as long as the
// result.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/compiler/tf2xla/lib/scatter.h"
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

// The last writer of a row wins, as in the CPU's kernel. A row that nobody writes, which is whatever the memory
// holds there, is 0.
absl::Status DynamicStitch(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) return Refuse(context, original);
  std::vector<xla::Literal> indices;
  TF_RETURN_IF_ERROR(context->ConstantInputList("indices", &indices));
  std::vector<xla::XlaOp> data;
  std::vector<tf::TensorShape> shapes;
  TF_RETURN_IF_ERROR(context->InputList("data", &data, &shapes));
  xla::XlaBuilder* const builder = context->builder();
  std::vector<xla::XlaOp> rows;
  // The last row of `rows` for each place, by places. A single place may be far behind all others, so
  // there is no table of all of them.
  std::map<int32_t, int32_t> writers;
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
      // The CPU's kernel counts the rows of the result in 32 bits.
      if (place == std::numeric_limits<int32_t>::max()) {
        return absl::InvalidArgumentError("an index is too large: the result has too many rows");
      }
      writers[place] = count++;
    }
    std::vector<int64_t> flat = {static_cast<int64_t>(places.size())};
    flat.insert(flat.end(), row.begin(), row.end());
    rows.push_back(xla::Reshape(data[i], flat));
  }
  const xla::XlaOp zero = xla::Zero(builder, context->output_xla_type(0));
  std::vector<int64_t> sizes = {writers.empty() ? 0 : int64_t{writers.rbegin()->first} + 1};
  sizes.insert(sizes.end(), row_sizes.begin(), row_sizes.end());
  tf::TensorShape shape;
  TF_RETURN_IF_ERROR(tf::TensorShape::BuildTensorShape(sizes, &shape));
  const xla::XlaOp zeros = xla::Broadcast(zero, sizes);
  if (shape.num_elements() == 0) {
    context->SetOutput(0, zeros);
    return absl::OkStatus();
  }
  std::vector<int32_t> places;
  std::vector<int32_t> sources;
  for (const auto& [place, source] : writers) {
    places.push_back(place);
    sources.push_back(source);
  }
  const xla::XlaOp written = xla::TorchIndexSelect(
      xla::ConcatInDim(builder, rows, 0), xla::ConstantR1<int32_t>(builder, sources), /*dim=*/0);
  if (static_cast<int64_t>(places.size()) == sizes[0]) {
    context->SetOutput(0, written);
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(
      const xla::XlaOp result,
      tf::XlaScatter(zeros, written, xla::ConstantR1<int32_t>(builder, places),
                     /*indices_are_vectors=*/false, /*indices_are_sorted=*/true, {}, builder));
  context->SetOutput(0, result);
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
