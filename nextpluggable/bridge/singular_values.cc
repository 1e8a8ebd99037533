// Singular values by LAPACK. TensorFlow's bridge writes loops of Jacobi rotations that stop where a
// millionth is left to do, whatever the type: doubles had the precision of floats.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/matrix.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace tripont::tensorflow {

namespace tf = ::tensorflow;

// The compiler reads the custom call: core/compiler/passes/custom_calls.py.
absl::Status Svd(tf::XlaOpKernelContext* context, tf::OpKernel& original) {
  if (HasComputedSize(context)) return Refuse(context, original);
  bool with_vectors = false;
  bool full = false;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(original.def(), "compute_uv", &with_vectors));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(original.def(), "full_matrices", &full));

  const tf::TensorShape shape = context->InputShape(0);
  const int64_t m = shape.dim_size(shape.dims() - 2);
  const int64_t n = shape.dim_size(shape.dims() - 1);
  const int64_t k = std::min(m, n);
  std::vector<int64_t> batch;
  for (int d = 0; d < shape.dims() - 2; ++d) batch.push_back(shape.dim_size(d));
  const xla::PrimitiveType type = context->input_xla_type(0);
  // LAPACK has no routines for shorter types.
  const bool is_short = type != xla::F32 && type != xla::F64;
  const xla::PrimitiveType computed = is_short ? xla::F32 : type;
  const auto array = [&](std::vector<int64_t> last) {
    last.insert(last.begin(), batch.begin(), batch.end());
    return xla::ShapeUtil::MakeShape(computed, last);
  };

  xla::XlaOp a = context->Input(0);
  if (is_short) a = xla::ConvertElementType(a, computed);
  const bool is_square = full && with_vectors;
  const char* mode = "N";
  if (with_vectors) mode = full ? "A" : "S";
  const xla::Shape results = xla::ShapeUtil::MakeTupleShape(
      {array({m, is_square ? m : k}), array({k}), array({is_square ? n : k, n})});
  const xla::XlaOp call =
      xla::CustomCall(context->builder(),
                      absl::StrCat("tripont.svd$attributes{mode = \"", mode, "\"}"), {a}, results);
  const auto result = [&](int64_t index) {
    const xla::XlaOp value = xla::GetTupleElement(call, index);
    return is_short ? xla::ConvertElementType(value, type) : value;
  };
  context->SetOutput(0, result(1));
  if (with_vectors) {
    context->SetOutput(1, result(0));
    context->SetOutput(2, xla::TransposeInMinorDims(result(2)));
  } else {
    const std::vector<int64_t> no_elements = {0};
    const xla::XlaOp none = xla::Broadcast(xla::Zero(context->builder(), type), no_elements);
    context->SetOutput(1, none);
    context->SetOutput(2, none);
  }
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
