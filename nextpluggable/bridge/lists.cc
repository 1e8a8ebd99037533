// Lists of tensors in programs: an array of all elements, whose first size is the list's, and the number of
// elements that have been pushed.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// The array of a list's elements. A list of elements whose shape is not known yet is an array of one
// dimension.
absl::StatusOr<xla::Shape> ElementsOf(Context* context, xla::XlaOp list) {
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->builder()->GetShape(list));
  return shape.IsTuple() ? shape.tuple_shapes(0) : shape;
}

// `index`, which must be that of one of `length` elements when the program comes to it.
xla::XlaOp Checked(xla::XlaOp index, int64_t length) {
  Size last;
  last.bound = length - 1;
  last.value = Number(index.builder(), length - 1);
  return Within(index, last);
}

// A list with more elements, which are zeros.
absl::StatusOr<xla::XlaOp> Longer(xla::XlaOp list, int64_t length) {
  xla::XlaBuilder* const builder = list.builder();
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, builder->GetShape(list));
  const auto with_zeros = [&](xla::XlaOp x, const xla::Shape& of_x) {
    return xla::PadInDim(x, xla::Zero(builder, of_x.element_type()), /*dimno=*/0, /*pad_lo=*/0,
                         length - of_x.dimensions(0));
  };
  if (!shape.IsTuple()) return with_zeros(list, shape);
  const xla::XlaOp elements = with_zeros(xla::GetTupleElement(list, 0), shape.tuple_shapes(0));
  return xla::Tuple(builder, {elements, Number(builder, length)});
}

absl::Status Compute(Context* context, tf::OpKernel& original) {
  original.Compute(context->op_kernel_context());
  return absl::OkStatus();
}

}  // namespace

// The bridge writes the nearest element if there is none at the index, also where the list is to become
// longer then.
absl::Status TensorListSetItem(Context* context, tf::OpKernel& original) {
  bool may_grow = false;
  tf::TryGetNodeAttr(context->op_kernel().def(), "resize_if_index_out_of_bounds", &may_grow);
  TF_ASSIGN_OR_RETURN(const xla::Shape elements, ElementsOf(context, context->Input(0)));
  if (elements.dimensions().empty() || elements.is_dynamic_dimension(0)) {
    return AsTheBridge(context, original);
  }
  const int64_t length = elements.dimensions(0);
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> index, ConstantOf(context, context->Input(1)));
  if (index && *index >= length && may_grow) {
    TF_ASSIGN_OR_RETURN(const xla::XlaOp longer, Longer(context->Input(0), *index + 1));
    const OtherInput instead(context, 0, longer);
    return Compute(context, original);
  }
  const bool is_within = index && *index >= 0 && *index < length;
  if (is_within || (!index && !may_grow)) return AsTheBridge(context, original);
  if (length == 0) {
    return absl::UnimplementedError(absl::StrCat(
        "tripont: ", original.type_string(), " (", original.name(), ") writes to a list of no ",
        "elements, at an index that ", index ? "it cannot have" : "depends on values",
        ": a list of a compiled function becomes longer for an index that is constant only; give "
        "the TensorArray its size"));
  }
  const OtherInput checked(context, 1, Checked(context->Input(1), length));
  return Compute(context, original);
}

// The bridge reads the nearest element.
absl::Status TensorListGetItem(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const xla::Shape elements, ElementsOf(context, context->Input(0)));
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> index, ConstantOf(context, context->Input(1)));
  const bool is_known =
      index && !elements.dimensions().empty() && !elements.is_dynamic_dimension(0);
  const int64_t length = is_known ? elements.dimensions(0) : 0;
  if (!is_known || length == 0 || (*index >= 0 && *index < length)) {
    return AsTheBridge(context, original);
  }
  const OtherInput checked(context, 1, Checked(context->Input(1), length));
  return Compute(context, original);
}

// The bridge's flow of a gradient has no elements. The shape functions of the ops that are given it want a
// scalar, and so would refuse each of them.
absl::Status TensorArrayGrad(Context* context, tf::OpKernel& original) {
  TF_RETURN_IF_ERROR(Compute(context, original));
  TF_RETURN_IF_ERROR(context->status());
  tf::Tensor flow(tf::DT_FLOAT, tf::TensorShape());
  flow.scalar<float>()() = 0;
  delete context->op_kernel_context()->release_output(1).tensor;
  context->SetConstantOutput(1, flow);
  return absl::OkStatus();
}

// The bridge does not look whether the lengths add up to the array's, and takes the length of an element
// for the number of elements that were pushed.
absl::Status TensorListSplit(Context* context, tf::OpKernel& original) {
  const tf::TensorShape shape = context->InputShape(0);
  std::vector<int64_t> lengths;
  if (HasComputedSize(context) || HasComputedConstant(context) || shape.dims() == 0) {
    return AsTheBridge(context, original);
  }
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector(2, &lengths));
  const bool are_equal =
      std::all_of(lengths.begin(), lengths.end(), [&](int64_t each) { return each == lengths[0]; });
  if (lengths.empty() || !are_equal || lengths[0] < 1) return Compute(context, original);
  const int64_t length = lengths[0];
  const auto count = static_cast<int64_t>(lengths.size());
  if (shape.dim_size(0) != count * length) {
    return absl::InvalidArgumentError(absl::StrCat("the lengths must add up to ", shape.dim_size(0),
                                                   ", but are ", count, " times ", length));
  }
  std::vector<int64_t> sizes = {count, length};
  for (int d = 1; d < shape.dims(); ++d) sizes.push_back(shape.dim_size(d));
  xla::XlaBuilder* const builder = context->builder();
  context->SetTensorListOutput(
      0, xla::Tuple(builder, {xla::Reshape(context->Input(0), sizes), Number(builder, count)}));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
