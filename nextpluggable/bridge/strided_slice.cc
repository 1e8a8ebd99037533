// StridedSlice and its gradient, x[begin:end:stride] in every dimension, of arrays whose sizes
// depend on values or with bounds that do.
//
// TensorFlow's kernels count a negative index from the bound, take no stride but 1, and do not look
// whether a computed index is past the end. Here each dimension is one Cut.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "nextpluggable/bridge/slice_masks.h"
#include "tensorflow/compiler/tf2xla/literal_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/util/strided_slice_op.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/dynamic_shaped_ops.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/literal.h"
#include "xla/tsl/platform/statusor.h"
#include "xla/xla_data.pb.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// One of the numbers in x[begin:end:stride] in its written form: it may be negative.
struct Index {
  std::optional<int64_t> constant;
  xla::XlaOp value;  // s32[], if it is no constant
  bool non_negative = false;
};

// What the kernel is asked for, dimension by dimension of the array that is sliced.
struct Request {
  struct Dimension {
    bool from_start = true;  // no begin is given
    bool to_end = true;      // no end is given
    bool one = false;        // an index, and no slice: the dimension goes away
    Index begin;
    Index end;
    int64_t stride = 1;
  };
  std::vector<Dimension> dimensions;
  // For every dimension of the result the sliced one that it is of; -1 for tf.newaxis.
  std::vector<int64_t> of_result;
};

// A slice of one dimension of which `bound` elements are there at most and `size` are: `reversed`
// says that it goes from the last to the first, and what follows is of the reversed array. From
// `start` it takes `count` elements, one of every `stride`, of which there are `most` at most.
struct Cut {
  bool nothing_to_do = false;
  bool reversed = false;
  int64_t stride = 1;
  int64_t range = 0;  // elements from the first to the last that may be taken
  int64_t most = 0;
  std::optional<int64_t> constant_start;
  xla::XlaOp start;                       // s32[]
  std::optional<int64_t> constant_count;  // if neither sizes nor indices are computed
  xla::XlaOp count;                       // s32[]
  bool rebound = false;                   // `most` is only a guess
};

// Index `position` of the vector that is input `input`.
absl::StatusOr<Index> ReadIndex(Context* context, int input, int64_t position, int64_t bound) {
  xla::XlaOp value = Element(context, context->Input(input), position);
  Index index;
  TF_ASSIGN_OR_RETURN(index.constant, ConstantOf(context, value));
  // More than the bound is as good as the bound, and fits into 32 bits.
  const int64_t limit = bound + 1;
  if (index.constant) {
    index.constant = std::clamp(*index.constant, -limit, limit);
    return index;
  }
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> least, LeastOf(context, value));
  index.non_negative = least && *least >= 0;
  if (context->input_xla_type(input) == xla::S64) {
    xla::XlaBuilder* builder = context->builder();
    value = xla::Clamp(xla::ConstantR0<int64_t>(builder, -limit), value,
                       xla::ConstantR0<int64_t>(builder, limit));
  }
  index.value = xla::ConvertElementType(value, xla::S32);
  return index;
}

absl::StatusOr<Request> ReadRequest(Context* context, const tf::TensorShape& shape) {
  TF_ASSIGN_OR_RETURN(const SliceMasks masks, MasksOf(context->op_kernel().def()));
  TF_ASSIGN_OR_RETURN(const tf::Tensor strides_tensor, context->ConstantInputTensor(3));
  tf::PartialTensorShape processed;
  tf::PartialTensorShape result;
  bool unused = false;
  absl::InlinedVector<int64_t, 4> begin;
  absl::InlinedVector<int64_t, 4> end;
  absl::InlinedVector<int64_t, 4> strides;
  tf::StridedSliceShapeSpec spec;
  // Without indices: what they are is looked up below, and no bound is to be counted from.
  TF_RETURN_IF_ERROR(tf::ValidateStridedSliceOp(
      nullptr, nullptr, strides_tensor, shape, masks.begin, masks.end, masks.ellipsis,
      masks.new_axis, masks.shrink_axis, &processed, &result, &unused, &unused, &unused, &begin,
      &end, &strides, &spec));
  Request request;
  request.of_result.assign(spec.output_to_processing_mapping.begin(),
                           spec.output_to_processing_mapping.end());
  for (int d = 0; d < shape.dims(); ++d) {
    Request::Dimension dimension;
    const int64_t position = spec.processing_to_sparse_mapping[static_cast<size_t>(d)];
    const int bit = 1 << d;
    dimension.stride = strides[static_cast<size_t>(d)];
    dimension.one = (spec.shrink_axis_dense_mask & bit) != 0;
    dimension.from_start = !dimension.one && (spec.begin_dense_mask & bit) != 0;
    dimension.to_end = !dimension.one && (spec.end_dense_mask & bit) != 0;
    const int64_t bound = shape.dim_size(d);
    if (!dimension.from_start) {
      TF_ASSIGN_OR_RETURN(dimension.begin, ReadIndex(context, 1, position, bound));
    }
    if (!dimension.to_end && !dimension.one) {
      TF_ASSIGN_OR_RETURN(dimension.end, ReadIndex(context, 2, position, bound));
    }
    request.dimensions.push_back(dimension);
  }
  return request;
}

// The same index in the array reversed: -1 becomes 0, and 0 becomes -1.
Index Reversed(const Index& index) {
  Index other;
  if (index.constant) {
    other.constant = ~*index.constant;
  } else {
    other.value = xla::Not(index.value);
  }
  return other;
}

// How many elements are between two constant indices at most, over all sizes up to the bound.
int64_t MostBetween(bool from_start, int64_t begin, bool to_end, int64_t end, int64_t bound) {
  const int64_t first = from_start ? 0 : begin;
  int64_t most = bound;
  if (to_end) {
    most = first >= 0 ? bound - first : -first;
  } else if ((first >= 0) == (end >= 0)) {
    most = end - first;
  } else if (first >= 0) {
    most = bound + end - first;
  } else {
    most = std::min(end, -first);
  }
  return std::clamp<int64_t>(most, 0, bound);
}

// Where an index is in an array of `size` elements: within [0, size].
xla::XlaOp Place(const Index& index, const Size& size, xla::XlaBuilder* builder) {
  const xla::XlaOp zero = Number(builder, 0);
  xla::XlaOp value = index.value;
  if (index.constant) {
    value = Number(builder, *index.constant);
  }
  const xla::XlaOp from_end = xla::Max(xla::Add(value, size.value), zero);
  const xla::XlaOp from_start = xla::Min(value, size.value);
  if (index.constant) return *index.constant < 0 ? from_end : from_start;
  if (index.non_negative) return from_start;
  return xla::Select(xla::Lt(value, zero), from_end, from_start);
}

int64_t Place(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
}

Cut CutOne(const Index& index, const Size& size, xla::XlaBuilder* builder) {
  Cut cut;
  cut.range = cut.most = 1;
  cut.constant_count = 1;
  if (index.constant && (*index.constant >= 0 || size.constant)) {
    cut.constant_start = *index.constant < 0 ? *index.constant + *size.constant : *index.constant;
    cut.start = Number(builder, *cut.constant_start);
    return cut;
  }
  // No limits: an index that is not there is an error.
  xla::XlaOp value = index.value;
  if (index.constant) {
    value = Number(builder, *index.constant);
    cut.start = xla::Add(value, size.value);
  } else if (index.non_negative) {
    cut.start = value;
  } else {
    const auto negative = xla::Lt(value, Number(builder, 0));
    cut.start = xla::Select(negative, xla::Add(value, size.value), value);
  }
  return cut;
}

Cut MakeCut(const Request::Dimension& of, const Size& size, xla::XlaBuilder* builder) {
  if (of.one) return CutOne(of.begin, size, builder);
  Cut cut;
  cut.nothing_to_do = of.from_start && of.to_end && of.stride == 1;
  cut.reversed = of.stride < 0;
  cut.stride = std::abs(of.stride);
  const Index begin = cut.reversed && !of.from_start ? Reversed(of.begin) : of.begin;
  const Index end = cut.reversed && !of.to_end ? Reversed(of.end) : of.end;
  const bool constant = (of.from_start || begin.constant) && (of.to_end || end.constant);
  const int64_t first = begin.constant.value_or(0);
  if (constant) {
    cut.range = MostBetween(of.from_start, first, of.to_end, end.constant.value_or(0), size.bound);
  } else {
    cut.range = size.bound;
    cut.rebound = cut.stride == 1;
  }
  if (constant && size.constant) {
    cut.constant_start = of.from_start ? 0 : Place(first, *size.constant);
    const int64_t last = of.to_end ? *size.constant : Place(*end.constant, *size.constant);
    cut.range = std::max<int64_t>(last - *cut.constant_start, 0);
    cut.constant_count = (cut.range + cut.stride - 1) / cut.stride;
  } else if (of.from_start || (begin.constant && first >= 0)) {
    cut.constant_start = std::min(first, size.bound);
  }
  cut.most = (cut.range + cut.stride - 1) / cut.stride;
  if (cut.constant_start) {
    cut.range = std::min(cut.range, size.bound - *cut.constant_start);
    cut.most = (cut.range + cut.stride - 1) / cut.stride;
    cut.start = Number(builder, *cut.constant_start);
  } else {
    cut.start = Place(begin, size, builder);
  }
  if (cut.constant_count) return cut;
  const xla::XlaOp last = of.to_end ? size.value : Place(end, size, builder);
  const xla::XlaOp zero = Number(builder, 0);
  cut.count = xla::Max(xla::Sub(last, cut.start), zero);
  if (cut.stride > 1) {
    cut.count =
        xla::Div(xla::Add(cut.count, Number(builder, cut.stride - 1)), Number(builder, cut.stride));
  }
  return cut;
}

std::vector<Cut> MakeCuts(const Request& request, const std::vector<Size>& sizes,
                          xla::XlaBuilder* builder) {
  std::vector<Cut> cuts;
  cuts.reserve(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    cuts.push_back(MakeCut(request.dimensions[d], sizes[d], builder));
  }
  return cuts;
}

xla::XlaOp TakeOne(xla::XlaOp x, xla::XlaOp start, int64_t dimension) {
  xla::XlaBuilder* builder = x.builder();
  const xla::Shape shape = builder->GetShape(x).value();
  std::vector<xla::XlaOp> starts(shape.dimensions().size(), Number(builder, 0));
  starts[static_cast<size_t>(dimension)] = start;
  std::vector<int64_t> extents(shape.dimensions().begin(), shape.dimensions().end());
  extents[static_cast<size_t>(dimension)] = 1;
  return xla::DynamicSlice(x, starts, extents);
}

xla::XlaOp Apply(const Cut& cut, bool one, xla::XlaOp x, int64_t dimension) {
  if (cut.nothing_to_do) return x;
  if (cut.reversed) x = xla::Rev(x, {dimension});
  if (cut.constant_start) {
    const int64_t start = *cut.constant_start;
    return xla::SliceInDim(x, start, start + cut.range, cut.stride, dimension);
  }
  if (one) return TakeOne(x, cut.start, dimension);
  if (cut.range == 0) return xla::SliceInDim(x, 0, 0, 1, dimension);
  x = Window(x, cut.start, cut.range, dimension);
  return cut.stride == 1 ? x : xla::SliceInDim(x, 0, cut.range, cut.stride, dimension);
}

// The elements `x` of a slice of one dimension where they were taken from, and zeros elsewhere.
absl::StatusOr<xla::XlaOp> PutBack(const Cut& cut, xla::XlaOp x, const Size& size,
                                   int64_t dimension) {
  if (cut.nothing_to_do) return x;
  xla::XlaBuilder* builder = x.builder();
  TF_ASSIGN_OR_RETURN(xla::Shape shape, builder->GetShape(x));
  const xla::XlaOp zero = xla::Zero(builder, shape.element_type());
  const int64_t number = shape.dimensions(static_cast<int>(dimension));
  if (cut.stride > 1 && number > 1) {
    xla::PaddingConfig padding;
    for (int d = 0; d < static_cast<int>(shape.dimensions().size()); ++d) {
      auto* one = padding.add_dimensions();
      one->set_interior_padding(d == dimension ? cut.stride - 1 : 0);
    }
    x = xla::Pad(x, zero, padding);
  }
  // Zeros before and after, of which as many stay before as elements are not taken there.
  x = xla::PadInDim(x, zero, dimension, size.bound, size.bound + 1);
  TF_ASSIGN_OR_RETURN(shape, builder->GetShape(x));
  std::vector<xla::XlaOp> starts(shape.dimensions().size(), Number(builder, 0));
  starts[static_cast<size_t>(dimension)] = xla::Sub(Number(builder, size.bound), cut.start);
  std::vector<int64_t> extents(shape.dimensions().begin(), shape.dimensions().end());
  extents[static_cast<size_t>(dimension)] = size.bound;
  x = xla::DynamicSlice(x, starts, extents);
  if (!cut.reversed) return x;
  if (!size.constant) x = xla::SetDimensionSize(x, size.value, dimension);
  return xla::Rev(x, {dimension});
}

// Whether TensorFlow's own kernel is right: indices alone are computed, and the array's sizes are
// constant. (XLA moves an index that is past the end to the end.)
bool OnlyIndices(const Request& request, const std::vector<Size>& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Request::Dimension& of = request.dimensions[d];
    const bool constant =
        (of.from_start || of.begin.constant) && (of.to_end || of.one || of.end.constant);
    if (!sizes[d].constant || (!constant && !of.one)) return false;
  }
  return true;
}

tf::TensorShape Bounds(const std::vector<Size>& sizes) {
  tf::TensorShape shape;
  for (const Size& size : sizes) shape.AddDim(size.bound);
  return shape;
}

}  // namespace

absl::Status StridedSlice(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  TF_ASSIGN_OR_RETURN(const Request request, ReadRequest(context, Bounds(sizes)));
  if (OnlyIndices(request, sizes)) {
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  const std::vector<Cut> cuts = MakeCuts(request, sizes, context->builder());
  xla::XlaOp x = context->Input(0);
  for (size_t d = 0; d < cuts.size(); ++d) {
    x = Apply(cuts[d], request.dimensions[d].one, x, static_cast<int64_t>(d));
  }
  TF_ASSIGN_OR_RETURN(const xla::Shape sliced, context->builder()->GetShape(x));
  std::vector<int64_t> bounds;
  bounds.reserve(request.of_result.size());
  for (const int64_t d : request.of_result) {
    bounds.push_back(d < 0 ? 1 : sliced.dimensions(static_cast<int>(d)));
  }
  x = xla::Reshape(x, bounds);
  for (size_t place = 0; place < bounds.size(); ++place) {
    const int64_t d = request.of_result[place];
    if (d < 0 || bounds[place] == 0) continue;
    const Cut& cut = cuts[static_cast<size_t>(d)];
    const Size& size = sizes[static_cast<size_t>(d)];
    if (cut.nothing_to_do ? size.constant.has_value() : cut.constant_count.has_value()) continue;
    const xla::XlaOp count = cut.nothing_to_do ? size.value : cut.count;
    const auto dimension = static_cast<int64_t>(place);
    if (cut.rebound) {
      TF_ASSIGN_OR_RETURN(
          x, xla::SetDimensionSizeWithRebound(&context->value_inference(), x, count, dimension));
    } else {
      x = xla::SetDimensionSize(x, count, dimension);
    }
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

absl::Status StridedSliceGrad(Context* context, tf::OpKernel& original) {
  // The sizes of the array that was sliced are a vector of numbers.
  const xla::XlaOp shape = context->Input(0);
  TF_ASSIGN_OR_RETURN(const xla::Shape of_shape, context->builder()->GetShape(shape));
  std::vector<Size> sizes;
  for (int64_t d = 0; d < of_shape.dimensions(0); ++d) {
    Size size;
    const xla::XlaOp number = Element(context, shape, d);
    TF_ASSIGN_OR_RETURN(size.constant, ConstantOf(context, number));
    TF_ASSIGN_OR_RETURN(const std::optional<int64_t> most, MostOf(context, number));
    if (!most) {
      return absl::UnimplementedError(
          "tripont: StridedSliceGrad: how large the sliced array may be is not known");
    }
    size.bound = *most;
    size.value = size.constant ? Number(context->builder(), *size.constant)
                               : xla::ConvertElementType(number, xla::S32);
    sizes.push_back(size);
  }
  TF_ASSIGN_OR_RETURN(const Request request, ReadRequest(context, Bounds(sizes)));
  if (OnlyIndices(request, sizes)) {
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  const std::vector<Cut> cuts = MakeCuts(request, sizes, context->builder());
  xla::XlaOp x = context->Input(4);
  TF_ASSIGN_OR_RETURN(const xla::Shape given, context->builder()->GetShape(x));
  std::vector<int64_t> bounds(sizes.size(), 1);
  for (size_t place = 0; place < request.of_result.size(); ++place) {
    const int64_t d = request.of_result[place];
    if (d >= 0) bounds[static_cast<size_t>(d)] = given.dimensions(static_cast<int>(place));
  }
  x = xla::Reshape(x, bounds);
  for (size_t d = 0; d < cuts.size(); ++d) {
    TF_ASSIGN_OR_RETURN(x, PutBack(cuts[d], x, sizes[d], static_cast<int64_t>(d)));
  }
  for (size_t d = 0; d < cuts.size(); ++d) {
    if (sizes[d].constant) continue;
    x = xla::SetDimensionSize(x, sizes[d].value, static_cast<int64_t>(d));
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
