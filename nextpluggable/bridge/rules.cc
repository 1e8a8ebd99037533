#include "nextpluggable/bridge/rules.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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

// Right where the sizes of the inputs' dimensions from kFirst on are constant, or of the last -kFirst
// dimensions if it is negative.
template <int kFirst>
absl::Status ConstantFrom(Context* context, tf::OpKernel& original) {
  for (int input = 0; input < context->num_inputs(); ++input) {
    const auto kind = context->InputExpression(input).kind();
    if (kind != tf::XlaExpression::Kind::kXlaOp) continue;
    TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(input)));
    const int rank = static_cast<int>(sizes.size());
    for (int d = kFirst < 0 ? std::max(0, rank + kFirst) : kFirst; d < rank; ++d) {
      if (!sizes[static_cast<size_t>(d)].constant) return Refuse(context, original);
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

// A rule, and the ops that it is for, with spaces between them.
struct RuleOfOps {
  Rule rule;
  std::string_view ops;
};

constexpr RuleOfOps kRules[] = {
    // Computed element by element, with broadcasts, or moving no element at all.
    {nullptr,
     "Abs Acos Acosh Add AddN AddV2 All Angle Any ApproximateEqual Asin Asinh Assert "
     "AssignAddVariableOp AssignSubVariableOp AssignVariableOp Atan Atan2 Atanh BatchMatMul "
     "BatchMatMulV2 BatchMatMulV3 BesselI0e BesselI1e Betainc BiasAdd BiasAddGrad BiasAddV1 "
     "Bincount Bitcast BitwiseAnd BitwiseOr BitwiseXor BroadcastGradientArgs BroadcastTo "
     "Bucketize Case Cast Ceil CheckNumerics ClipByValue Complex ComplexAbs Concat ConcatV2 "
     "Conj ConjugateTranspose Const ControlTrigger Cos Cosh Cross DenseBincount DeviceIndex "
     "Digamma Div DivNoNan DynamicPartition Einsum Elu EluGrad EmptyTensorList Equal Erf Erfc "
     "Erfinv Exp ExpandDims Expm1 FakeParam FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars "
     "Fill Floor FloorDiv FloorMod Gather GatherNd GatherV2 Greater GreaterEqual Identity "
     "IdentityN If Igamma IgammaGradA Igammac Imag Inv Invert IsFinite IsInf IsNan L2Loss "
     "LeakyRelu LeakyReluGrad LeftShift Less LessEqual Lgamma Log Log1p LogSoftmax LogicalAnd "
     "LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean Min Minimum Mod Mul MulNoNan "
     "Ndtri Neg NextAfter NoOp NotEqual OneHot Pack Pad PadV2 PartitionedCall "
     "PlaceholderWithDefault Polygamma PopulationCount Pow PreventGradient Prod "
     "RandomGammaGrad RandomStandardNormal RandomUniform Rank ReadVariableOp Real RealDiv "
     "Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Reshape ResourceGather "
     "ResourceGatherNd ResourceScatterAdd ResourceScatterSub ResourceScatterUpdate Reverse "
     "ReverseV2 RightShift "
     "Rint Round Rsqrt RsqrtGrad ScatterNd Select SelectV2 Selu SeluGrad Shape ShapeN Sigmoid "
     "SigmoidGrad Sign Sin Sinh Size Snapshot Softmax SoftmaxCrossEntropyWithLogits Softplus "
     "SoftplusGrad Softsign SoftsignGrad SparseMatMul SparseSoftmaxCrossEntropyWithLogits "
     "SparseToDense "
     "Split SplitV Sqrt SqrtGrad Square SquaredDifference Squeeze StatefulPartitionedCall "
     "StatelessCase StatelessIf StatelessRandomGetAlg StatelessRandomGetKeyCounter "
     "StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomUniform "
     "StatelessTruncatedNormal StatelessTruncatedNormalV2 StatelessWhile StopGradient Sub Sum "
     "SymbolicGradient Tan Tanh TanhGrad TensorListElementShape TensorListFromTensor "
     "TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack "
     "TensorListReserve TensorListSetItem TensorListStack TensorScatterAdd TensorScatterMax "
     "TensorScatterMin TensorScatterSub TensorScatterUpdate ToBool Transpose TruncateDiv "
     "TruncateMod TruncatedNormal UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd "
     "UnsortedSegmentSum UpperBound VarIsInitializedOp VariableShape Where While Xdivy XlaDot "
     "XlaDotV2 XlaEinsum XlaIf XlaKeyValueSort XlaOptimizationBarrier "
     "XlaRemoveDynamicDimensionSize XlaSetBound XlaSetDynamicDimensionSize XlaSharding XlaSort "
     "XlaVariadicSort XlaWhile Xlog1py Xlogy ZerosLike Zeta _Arg _ArrayToList _EagerConst "
     "_ListToArray _Retval _UnaryOpsComposition"},
    // Right for any number of images, examples, ...
    {ConstantFrom<1>,
     "AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad Conv2D Conv2DBackpropFilter "
     "Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthToSpace "
     "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter "
     "DepthwiseConv2dNativeBackpropInput ExtractImagePatches LRN LRNGrad MaxPool MaxPool3D "
     "MaxPool3DGrad MaxPoolGrad MaxPoolGradV2 MaxPoolV2 ResizeBilinear ResizeBilinearGrad "
     "ResizeNearestNeighbor SpaceToDepth"},
    // Right for any number of matrices, or of rows.
    {ConstantFrom<-2>,
     "Cholesky FFT2D IFFT2D IRFFT2D MatrixBandPart MatrixDiagPart MatrixDiagPartV2 "
     "MatrixDiagPartV3 MatrixTriangularSolve RFFT2D"},
    {ConstantFrom<-1>,
     "FFT HSVToRGB IFFT IRFFT MatrixDiag MatrixDiagV2 MatrixDiagV3 RFFT RGBToHSV"},
    {SizesOfFirst, "Cumprod Cumsum CumulativeLogsumexp OnesLike"},
    {ArgMinMax, "ArgMax ArgMin"},
    {StatelessRandom, "StatelessRandomNormalV2 StatelessRandomUniformV2"},
    {Unique, "Unique UniqueV2"},
    {ConcatOffset, "ConcatOffset"},
    {EnsureShape, "EnsureShape"},
    {MirrorPad, "MirrorPad"},
    {Range, "Range"},
    {ReverseSequence, "ReverseSequence"},
    {Roll, "Roll"},
    {Slice, "Slice"},
    {StridedSlice, "StridedSlice"},
    {StridedSliceGrad, "StridedSliceGrad"},
    {Tile, "Tile"},
    {TopK, "TopKV2"},
    {Unpack, "Unpack"},
};

const std::unordered_map<std::string_view, Rule>& Rules() {
  static const auto* const rules = [] {
    auto* made = new std::unordered_map<std::string_view, Rule>;
    for (const auto& [rule, ops] : kRules) {
      for (const std::string_view op : absl::StrSplit(ops, ' ')) made->emplace(op, rule);
    }
    return made;
  }();
  return *rules;
}

}  // namespace

Rule FindRule(std::string_view op) {
  const auto found = Rules().find(op);
  return found == Rules().end() ? Refuse : found->second;
}

absl::Status AsTheBridge(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) {
    const Rule rule = FindRule(original.type_string());
    if (rule != nullptr) return rule(context, original);
  }
  return Original(context, original);
}

absl::Status Refuse(Context*, tf::OpKernel& original) {
  return absl::UnimplementedError(absl::StrCat(
      "tripont: ", original.type_string(), " (", original.name(),
      ") has an argument whose size depends on values, or one that has to be constant and depends "
      "on values: TensorFlow's bridge to XLA would take the largest possible size for it; compute "
      "it outside of the compiled function, or without jit_compile=True"));
}

}  // namespace tripont::tensorflow
