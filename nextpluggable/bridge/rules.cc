#include "nextpluggable/bridge/rules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

absl::Status Original(Context* context, tf::OpKernel& original) {
  original.Compute(context->op_kernel_context());
  return absl::OkStatus();
}

// Whether a size of some input depends on values that is not of the first `first` dimensions, nor
// of the others but the last `last`.
absl::StatusOr<bool> ComputedBetween(Context* context, int first, int last) {
  for (int input = 0; input < context->num_inputs(); ++input) {
    const auto kind = context->InputExpression(input).kind();
    if (kind != tf::XlaExpression::Kind::kXlaOp) continue;
    TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(input)));
    const int end = static_cast<int>(sizes.size()) - last;
    for (int d = first; d < end; ++d) {
      if (!sizes[static_cast<size_t>(d)].constant) return true;
    }
  }
  return false;
}

// Right for any number of images, examples, ...: the first dimension.
absl::Status BatchesOnly(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const bool more, ComputedBetween(context, 1, 0));
  return more ? Refuse(context, original) : Original(context, original);
}

// Right for any number of rows, of matrices: all dimensions but the last, or the last two.
template <int kInner>
absl::Status InnerStatic(Context* context, tf::OpKernel& original) {
  for (int input = 0; input < context->num_inputs(); ++input) {
    const auto kind = context->InputExpression(input).kind();
    if (kind != tf::XlaExpression::Kind::kXlaOp) continue;
    TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(input)));
    const size_t rank = sizes.size();
    for (size_t d = rank < kInner ? 0 : rank - kInner; d < rank; ++d) {
      if (!sizes[d].constant) return Refuse(context, original);
    }
  }
  return Original(context, original);
}

// A computed number of copies becomes the size: right of one element.
absl::Status Tile(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  for (size_t d = 0; d < sizes.size(); ++d) {
    const xla::XlaOp copies = Element(context, context->Input(1), static_cast<int64_t>(d));
    TF_ASSIGN_OR_RETURN(const std::optional<int64_t> constant, ConstantOf(context, copies));
    if (!constant && sizes[d].constant != 1) return Refuse(context, original);
  }
  return Original(context, original);
}

absl::Status MirrorPad(Context* context, tf::OpKernel& original) {
  if (HasComputedConstant(context)) return Refuse(context, original);
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  std::vector<int64_t> padding;
  TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(1, &padding));
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool padded = padding[2 * d] != 0 || padding[2 * d + 1] != 0;
    if (padded && !sizes[d].constant) return Refuse(context, original);
  }
  return Original(context, original);
}

absl::Status ReverseSequence(Context* context, tf::OpKernel& original) {
  int64_t sequence = 0;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "seq_dim", &sequence));
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  return sizes[static_cast<size_t>(sequence)].constant ? Original(context, original)
                                                       : Refuse(context, original);
}

absl::Status EnsureShape(Context* context, tf::OpKernel& original) {
  tf::PartialTensorShape shape;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "shape", &shape));
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  for (int d = 0; d < shape.dims(); ++d) {
    const bool any = shape.dim_size(d) < 0;
    if (!any && !sizes[static_cast<size_t>(d)].constant) return Refuse(context, original);
  }
  return Original(context, original);
}

absl::Status Unpack(Context* context, tf::OpKernel& original) {
  int64_t axis = 0;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "axis", &axis));
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  if (axis < 0) axis += static_cast<int64_t>(sizes.size());
  return sizes[static_cast<size_t>(axis)].constant ? Original(context, original)
                                                   : Refuse(context, original);
}

// TensorFlow's kernels draw for the largest shape and cut. That is what the shape itself gives only
// where the first numbers are the same for any number of rows: XLA pairs the numbers of a normal
// distribution, and Threefry's words of 32 bits, along the first dimension of even size.
absl::Status StatelessRandom(Context* context, tf::OpKernel& original) {
  constexpr int64_t kThreefry = 2;  // tf.random.Algorithm; XPU's own choice is Philox
  tf::DataType type = tf::DT_INVALID;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "dtype", &type));
  TF_ASSIGN_OR_RETURN(const std::vector<Size> ranks, SizesOf(context, context->Input(0)));
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> algorithm,
                      ConstantOf(context, context->Input(3)));
  if (ranks.size() != 1 || !ranks[0].constant || !algorithm) return Refuse(context, original);
  for (int64_t d = 1; d < ranks[0].bound; ++d) {
    const xla::XlaOp size = Element(context, context->Input(0), d);
    TF_ASSIGN_OR_RETURN(const std::optional<int64_t> constant, ConstantOf(context, size));
    if (!constant) return Refuse(context, original);
  }
  const bool is_vector = ranks[0].bound == 1;
  const bool is_normal = original.type_string() == "StatelessRandomNormalV2";
  const bool pairs_words = algorithm == kThreefry && type != tf::DT_DOUBLE;
  const bool same_numbers = is_normal ? is_vector && !pairs_words : is_vector || !pairs_words;
  return same_numbers ? Original(context, original) : Refuse(context, original);
}

// Ops that TensorFlow's kernels compute element by element, with broadcasts, or that move no
// element at all.
constexpr const char* kRight[] = {
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "AddN",
    "AddV2",
    "All",
    "Angle",
    "Any",
    "ApproximateEqual",
    "Asin",
    "Asinh",
    "Assert",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "AssignVariableOp",
    "Atan",
    "Atan2",
    "Atanh",
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "BesselI0e",
    "BesselI1e",
    "Betainc",
    "BiasAdd",
    "BiasAddGrad",
    "BiasAddV1",
    "Bincount",
    "Bitcast",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "BroadcastGradientArgs",
    "BroadcastTo",
    "Bucketize",
    "Case",
    "Cast",
    "Ceil",
    "CheckNumerics",
    "ClipByValue",
    "Complex",
    "ComplexAbs",
    "Concat",
    "ConcatV2",
    "Conj",
    "ConjugateTranspose",
    "Const",
    "ControlTrigger",
    "Cos",
    "Cosh",
    "Cross",
    "DenseBincount",
    "DeviceIndex",
    "Digamma",
    "Div",
    "DivNoNan",
    "DynamicPartition",
    "Einsum",
    "Elu",
    "EluGrad",
    "EmptyTensorList",
    "Equal",
    "Erf",
    "Erfc",
    "Erfinv",
    "Exp",
    "ExpandDims",
    "Expm1",
    "FakeParam",
    "FakeQuantWithMinMaxArgs",
    "FakeQuantWithMinMaxVars",
    "Fill",
    "Floor",
    "FloorDiv",
    "FloorMod",
    "Gather",
    "GatherNd",
    "GatherV2",
    "Greater",
    "GreaterEqual",
    "Identity",
    "IdentityN",
    "If",
    "Igamma",
    "IgammaGradA",
    "Igammac",
    "Imag",
    "Inv",
    "Invert",
    "IsFinite",
    "IsInf",
    "IsNan",
    "L2Loss",
    "LeakyRelu",
    "LeakyReluGrad",
    "LeftShift",
    "Less",
    "LessEqual",
    "Lgamma",
    "Log",
    "Log1p",
    "LogSoftmax",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "LowerBound",
    "MatMul",
    "Max",
    "Maximum",
    "Mean",
    "Min",
    "Minimum",
    "Mod",
    "Mul",
    "MulNoNan",
    "Ndtri",
    "Neg",
    "NextAfter",
    "NoOp",
    "NotEqual",
    "OneHot",
    "Pack",
    "Pad",
    "PadV2",
    "PartitionedCall",
    "PlaceholderWithDefault",
    "Polygamma",
    "PopulationCount",
    "Pow",
    "PreventGradient",
    "Prod",
    "RandomGammaGrad",
    "RandomStandardNormal",
    "RandomUniform",
    "Rank",
    "ReadVariableOp",
    "Real",
    "RealDiv",
    "Reciprocal",
    "ReciprocalGrad",
    "Relu",
    "Relu6",
    "Relu6Grad",
    "ReluGrad",
    "Reshape",
    "ResourceGather",
    "ResourceScatterAdd",
    "ResourceScatterSub",
    "ResourceScatterUpdate",
    "Reverse",
    "ReverseV2",
    "RightShift",
    "Rint",
    "Round",
    "Rsqrt",
    "RsqrtGrad",
    "ScatterNd",
    "Select",
    "SelectV2",
    "Selu",
    "SeluGrad",
    "Shape",
    "ShapeN",
    "Sigmoid",
    "SigmoidGrad",
    "Sign",
    "Sin",
    "Sinh",
    "Size",
    "Snapshot",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "Softplus",
    "SoftplusGrad",
    "Softsign",
    "SoftsignGrad",
    "SparseMatMul",
    "SparseSoftmaxCrossEntropyWithLogits",
    "Split",
    "SplitV",
    "Sqrt",
    "SqrtGrad",
    "Square",
    "SquaredDifference",
    "Squeeze",
    "StatefulPartitionedCall",
    "StatelessCase",
    "StatelessIf",
    "StatelessRandomGetAlg",
    "StatelessRandomGetKeyCounter",
    "StatelessRandomGetKeyCounterAlg",
    "StatelessRandomNormal",
    "StatelessRandomUniform",
    "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2",
    "StatelessWhile",
    "StopGradient",
    "Sub",
    "Sum",
    "SymbolicGradient",
    "Tan",
    "Tanh",
    "TanhGrad",
    "TensorListElementShape",
    "TensorListFromTensor",
    "TensorListGetItem",
    "TensorListLength",
    "TensorListPopBack",
    "TensorListPushBack",
    "TensorListReserve",
    "TensorListSetItem",
    "TensorListStack",
    "TensorScatterAdd",
    "TensorScatterMax",
    "TensorScatterMin",
    "TensorScatterSub",
    "TensorScatterUpdate",
    "ToBool",
    "Transpose",
    "TruncateDiv",
    "TruncateMod",
    "TruncatedNormal",
    "UnsortedSegmentMax",
    "UnsortedSegmentMin",
    "UnsortedSegmentProd",
    "UnsortedSegmentSum",
    "UpperBound",
    "VarIsInitializedOp",
    "VariableShape",
    "Where",
    "While",
    "Xdivy",
    "XlaDot",
    "XlaDotV2",
    "XlaEinsum",
    "XlaIf",
    "XlaKeyValueSort",
    "XlaOptimizationBarrier",
    "XlaRemoveDynamicDimensionSize",
    "XlaSetBound",
    "XlaSetDynamicDimensionSize",
    "XlaSharding",
    "XlaSort",
    "XlaVariadicSort",
    "XlaWhile",
    "Xlog1py",
    "Xlogy",
    "ZerosLike",
    "Zeta",
    "_Arg",
    "_ArrayToList",
    "_EagerConst",
    "_ListToArray",
    "_Retval",
    "_UnaryOpsComposition",
};

const std::unordered_map<std::string_view, Rule>& Rules() {
  static const auto* const rules = [] {
    auto* made = new std::unordered_map<std::string_view, Rule>{
        {"ArgMax", ArgMinMax},
        {"ArgMin", ArgMinMax},
        {"AvgPool", BatchesOnly},
        {"AvgPool3D", BatchesOnly},
        {"AvgPool3DGrad", BatchesOnly},
        {"AvgPoolGrad", BatchesOnly},
        {"Cholesky", InnerStatic<2>},
        {"ConcatOffset", ConcatOffset},
        {"Conv2D", BatchesOnly},
        {"Conv2DBackpropFilter", BatchesOnly},
        {"Conv2DBackpropInput", BatchesOnly},
        {"Conv3D", BatchesOnly},
        {"Conv3DBackpropFilterV2", BatchesOnly},
        {"Conv3DBackpropInputV2", BatchesOnly},
        {"Cumprod", SizesOfFirst},
        {"Cumsum", SizesOfFirst},
        {"CumulativeLogsumexp", SizesOfFirst},
        {"DepthToSpace", BatchesOnly},
        {"DepthwiseConv2dNative", BatchesOnly},
        {"DepthwiseConv2dNativeBackpropFilter", BatchesOnly},
        {"DepthwiseConv2dNativeBackpropInput", BatchesOnly},
        {"EnsureShape", EnsureShape},
        {"ExtractImagePatches", BatchesOnly},
        {"FFT", InnerStatic<1>},
        {"FFT2D", InnerStatic<2>},
        {"HSVToRGB", InnerStatic<1>},
        {"IFFT", InnerStatic<1>},
        {"IFFT2D", InnerStatic<2>},
        {"IRFFT", InnerStatic<1>},
        {"IRFFT2D", InnerStatic<2>},
        {"LRN", BatchesOnly},
        {"LRNGrad", BatchesOnly},
        {"MatrixBandPart", InnerStatic<2>},
        {"MatrixDiag", InnerStatic<1>},
        {"MatrixDiagPart", InnerStatic<2>},
        {"MatrixDiagPartV2", InnerStatic<2>},
        {"MatrixDiagPartV3", InnerStatic<2>},
        {"MatrixDiagV2", InnerStatic<1>},
        {"MatrixDiagV3", InnerStatic<1>},
        {"MatrixTriangularSolve", InnerStatic<2>},
        {"MaxPool", BatchesOnly},
        {"MaxPool3D", BatchesOnly},
        {"MaxPool3DGrad", BatchesOnly},
        {"MaxPoolGrad", BatchesOnly},
        {"MaxPoolGradV2", BatchesOnly},
        {"MaxPoolV2", BatchesOnly},
        {"MirrorPad", MirrorPad},
        {"OnesLike", SizesOfFirst},
        {"RFFT", InnerStatic<1>},
        {"RFFT2D", InnerStatic<2>},
        {"RGBToHSV", InnerStatic<1>},
        {"Range", Range},
        {"ResizeBilinear", BatchesOnly},
        {"ResizeBilinearGrad", BatchesOnly},
        {"ResizeNearestNeighbor", BatchesOnly},
        {"ReverseSequence", ReverseSequence},
        {"Roll", Roll},
        {"Slice", Slice},
        {"SpaceToDepth", BatchesOnly},
        {"StatelessRandomNormalV2", StatelessRandom},
        {"StatelessRandomUniformV2", StatelessRandom},
        {"StridedSlice", StridedSlice},
        {"StridedSliceGrad", StridedSliceGrad},
        {"Tile", Tile},
        {"TopKV2", TopK},
        {"Unique", Unique},
        {"UniqueV2", Unique},
        {"Unpack", Unpack},
    };
    for (const char* op : kRight) made->emplace(op, nullptr);
    return made;
  }();
  return *rules;
}

}  // namespace

Rule FindRule(std::string_view op) {
  const auto found = Rules().find(op);
  return found == Rules().end() ? Refuse : found->second;
}

absl::Status Refuse(Context*, tf::OpKernel& original) {
  return absl::UnimplementedError(absl::StrCat(
      "tripont: ", original.type_string(), " (", original.name(),
      ") has an argument whose size depends on values, or one that has to be constant and depends "
      "on values: TensorFlow's bridge to XLA would take the largest possible size for it; compute "
      "it outside of the compiled function, or without jit_compile=True"));
}

}  // namespace tripont::tensorflow
