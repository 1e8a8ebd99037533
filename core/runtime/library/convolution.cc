// Library call "convolution": convolutions and their gradients by oneDNN.
//
// Attribute "kind" says which of the arrays of a forward convolution dst = src * weights are given:
//
//   kind                 operands               result
//   "forward"            src, weights           dst
//   "backward_data"      diff_dst, weights      diff_src
//   "backward_weights"   src, diff_dst          diff_weights
//
// Other attributes, in oneDNN's logical order and always those of the forward convolution:
// "src_dimensions" [n, c, spatial...], "weights_dimensions" [o, c, spatial...] or with groups [g, o
// / g, c / g, spatial...], "dst_dimensions" [n, o, spatial...]; "src_strides", "weights_strides",
// "dst_strides" in elements; "strides", "dilations" (1: dense), "padding_low", "padding_high", one
// number a spatial dimension; "alpha" and "epilogue" (forward only) as epilogue.h says.
//
// Element types: f32, and bf16 (with bf16 or f32 results).
#include <algorithm>
#include <array>
#include <memory>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/epilogue.h"
#include "core/runtime/library/onednn.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

using onednn::Api;
using onednn::ConstMemoryDesc;
using onednn::ConstPrimitiveDesc;
using onednn::OwnedMemoryDesc;
using onednn::OwnedPrimitiveDesc;
using onednn::Query;
using onednn::StridedArray;

// Bytes of copies for each thread: they stay in the second cache of server CPUs (1 MB or more).
constexpr size_t kCopiedBytes = 512 << 10;

// Times as many pieces as are wanted for that.
constexpr int64_t kMostPieces = 4;

enum class Kind { kForward, kBackwardData, kBackwardWeights };

struct Problem {
  Kind kind;
  // The three arrays of the forward convolution.
  StridedArray src;
  StridedArray weights;
  StridedArray dst;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;  // as oneDNN counts: 0 is dense
  std::vector<int64_t> padding_low;
  std::vector<int64_t> padding_high;

  // One of so many equal parts of the batch.
  Problem Piece(int64_t pieces) const {
    Problem piece = *this;
    piece.src.dimensions[0] /= pieces;
    piece.dst.dimensions[0] /= pieces;
    return piece;
  }
};

StatusOr<StridedArray> ReadArray(const LibraryAttributes& attributes, const Shape& shape,
                                 const std::string& name) {
  StridedArray array{shape, {}, {}};
  TRIPONT_ASSIGN_OR_RETURN(array.dimensions, attributes.Integers(name + "_dimensions"));
  TRIPONT_ASSIGN_OR_RETURN(array.strides, attributes.Integers(name + "_strides"));
  const std::string names = StrCat(name, "_dimensions and ", name, "_strides");
  if (array.dimensions.size() < 3 || array.dimensions.size() > 6 ||
      array.strides.size() != array.dimensions.size()) {
    return InvalidArgument("attributes ", names, " must have the same 3 to 6 numbers");
  }
  TRIPONT_RETURN_IF_ERROR(array.CheckReach(names));
  return array;
}

StatusOr<std::vector<int64_t>> ReadSpatial(const LibraryAttributes& attributes,
                                           std::string_view name, size_t rank) {
  TRIPONT_ASSIGN_OR_RETURN(std::vector<int64_t> values, attributes.Integers(name));
  if (values.size() != rank)
    return InvalidArgument("attribute ", name, " must have ", rank, " numbers");
  return values;
}

StatusOr<Kind> ReadKind(const LibraryAttributes& attributes) {
  TRIPONT_ASSIGN_OR_RETURN(const std::string kind, attributes.Bytes("kind"));
  if (kind == "forward") return Kind::kForward;
  if (kind == "backward_data") return Kind::kBackwardData;
  if (kind == "backward_weights") return Kind::kBackwardWeights;
  return InvalidArgument("attribute kind is '", kind, "'");
}

// Channels last: what oneDNN's best kernels read without a reorder.
bool IsChannelsLast(const StridedArray& array) {
  if (array.dimensions[1] == 1) return true;
  return array.strides[1] == 1;
}

StatusOr<OwnedPrimitiveDesc> DescribeWith(const Api& api, const Problem& problem, bool any_data,
                                          bool any_weights,
                                          const onednn::OwnedAttributes& attributes) {
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc src, problem.src.Layout(api, any_data));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc weights, problem.weights.Layout(api, any_weights));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc dst, problem.dst.Layout(api, any_data));
  const int64_t* strides = problem.strides.data();
  const int64_t* dilations = problem.dilations.data();
  const int64_t* low = problem.padding_low.data();
  const int64_t* high = problem.padding_high.data();
  constexpr onednn::Algorithm kDirect = onednn::Algorithm::kConvolutionDirect;

  onednn::PrimitiveDesc created = nullptr;
  if (problem.kind == Kind::kForward) {
    TRIPONT_RETURN_IF_ERROR(onednn::Check(
        api.convolution_forward_primitive_desc_create(
            &created, api.engine, onednn::PropagationKind::kForwardInference, kDirect, src.get(),
            weights.get(), nullptr, dst.get(), strides, dilations, low, high, attributes.get()),
        "convolution"));
    return OwnedPrimitiveDesc(created);
  }
  // The gradients want the descriptor of a forward convolution as a hint. It decides nothing that
  // matters here, so its layouts and element types are oneDNN's choice.
  const auto hint_type = problem.src.shape.type == PrimitiveType::kBF16 ? onednn::DataType::kBF16
                                                                        : onednn::DataType::kF32;
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc hint_src,
                           onednn::AnyDesc(api, hint_type, problem.src.dimensions));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc hint_weights,
                           onednn::AnyDesc(api, hint_type, problem.weights.dimensions));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc hint_dst,
                           onednn::AnyDesc(api, hint_type, problem.dst.dimensions));
  TRIPONT_RETURN_IF_ERROR(onednn::Check(
      api.convolution_forward_primitive_desc_create(
          &created, api.engine, onednn::PropagationKind::kForwardTraining, kDirect, hint_src.get(),
          hint_weights.get(), nullptr, hint_dst.get(), strides, dilations, low, high, nullptr),
      "convolution"));
  const OwnedPrimitiveDesc hint(created);
  created = nullptr;
  if (problem.kind == Kind::kBackwardData) {
    TRIPONT_RETURN_IF_ERROR(
        onednn::Check(api.convolution_backward_data_primitive_desc_create(
                          &created, api.engine, kDirect, src.get(), weights.get(), dst.get(),
                          strides, dilations, low, high, hint.get(), attributes.get()),
                      "gradient of a convolution's input"));
  } else {
    TRIPONT_RETURN_IF_ERROR(
        onednn::Check(api.convolution_backward_weights_primitive_desc_create(
                          &created, api.engine, kDirect, src.get(), weights.get(), nullptr,
                          dst.get(), strides, dilations, low, high, hint.get(), attributes.get()),
                      "gradient of a convolution's weights"));
  }
  return OwnedPrimitiveDesc(created);
}

// Weights in a layout of oneDNN's choice always (they are small, and reordering them pays many
// times over); activations where they lie if that is channels last, else also in a layout of its
// choice. A reference implementation only if nothing else is there.
StatusOr<OwnedPrimitiveDesc> Describe(const Api& api, const Problem& problem,
                                      const onednn::OwnedAttributes& attributes) {
  struct Attempt {
    bool any_data, any_weights;
  };
  std::array<Attempt, 3> attempts = {Attempt{false, true}, {true, true}, {false, false}};
  if (!IsChannelsLast(problem.src) || !IsChannelsLast(problem.dst))
    std::swap(attempts[0], attempts[1]);
  OwnedPrimitiveDesc best;
  Status failure;
  for (const Attempt& attempt : attempts) {
    StatusOr<OwnedPrimitiveDesc> desc =
        DescribeWith(api, problem, attempt.any_data, attempt.any_weights, attributes);
    if (!desc.ok()) {
      if (failure.ok()) failure = desc.status();
      continue;
    }
    if (!onednn::IsReference(api, desc->get())) return desc;
    if (best == nullptr) best = std::move(*desc);
  }
  if (best == nullptr) return failure;
  return best;
}

class Convolution final : public LibraryCall {
 public:
  explicit Convolution(std::unique_ptr<onednn::Plans> plan) : plan_(std::move(plan)) {}
  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    return plan_->Execute(context, operands, results);
  }
  bool UsesQueue() const override { return plan_->UsesQueue(); }

 private:
  std::unique_ptr<onednn::Plans> plan_;
};

StatusOr<Problem> ReadProblem(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  Problem problem{};
  TRIPONT_ASSIGN_OR_RETURN(problem.kind, ReadKind(attributes));
  const Shape& first = signature.operands[0].shape;
  const Shape& second = signature.operands[1].shape;
  const Shape& result = signature.results[0];
  const Shape& src = problem.kind == Kind::kBackwardData ? result : first;
  const Shape& weights = problem.kind == Kind::kBackwardWeights ? result : second;
  const Shape& dst = problem.kind == Kind::kForward        ? result
                     : problem.kind == Kind::kBackwardData ? first
                                                           : second;
  TRIPONT_ASSIGN_OR_RETURN(problem.src, ReadArray(attributes, src, "src"));
  TRIPONT_ASSIGN_OR_RETURN(problem.weights, ReadArray(attributes, weights, "weights"));
  TRIPONT_ASSIGN_OR_RETURN(problem.dst, ReadArray(attributes, dst, "dst"));
  const size_t rank = problem.src.dimensions.size();
  if (rank > 5 || problem.dst.dimensions.size() != rank ||
      (problem.weights.dimensions.size() != rank &&
       problem.weights.dimensions.size() != rank + 1)) {
    return InvalidArgument("src, weights and dst differ in their number of dimensions");
  }
  TRIPONT_ASSIGN_OR_RETURN(problem.strides, ReadSpatial(attributes, "strides", rank - 2));
  TRIPONT_ASSIGN_OR_RETURN(problem.dilations, ReadSpatial(attributes, "dilations", rank - 2));
  TRIPONT_ASSIGN_OR_RETURN(problem.padding_low, ReadSpatial(attributes, "padding_low", rank - 2));
  TRIPONT_ASSIGN_OR_RETURN(problem.padding_high, ReadSpatial(attributes, "padding_high", rank - 2));
  for (int64_t& dilation : problem.dilations) --dilation;
  return problem;
}

// How far the pieces of an array lie apart, in bytes.
size_t PieceBytes(const StridedArray& array) {
  return static_cast<size_t>(array.dimensions[0] * array.strides[0]) * ByteWidth(array.shape.type);
}

// A primitive, and the arrays of its epilogue.
struct Described {
  OwnedPrimitiveDesc desc;
  std::vector<onednn::PlanArray> arrays;
};

StatusOr<Described> DescribeWithEpilogue(const Api& api, const Problem& problem,
                                         const onednn::Epilogue& epilogue,
                                         const LibraryCallSignature& signature) {
  onednn::EpilogueOps post_ops(epilogue.alpha);
  for (const onednn::EpilogueStep& step : epilogue.steps) {
    if (step.kind == onednn::EpilogueStep::Kind::kElementwise) {
      post_ops.ops.push_back(onednn::PostOp::Elementwise(step.algorithm));
      continue;
    }
    const Shape& shape = signature.operands[step.operand].shape;
    if (step.kind == onednn::EpilogueStep::Kind::kArray &&
        shape.ElementCount() != signature.results[0].ElementCount()) {
      return InvalidArgument("operand ", step.operand, ", ", shape,
                             ", is not of the result's shape");
    }
    TRIPONT_ASSIGN_OR_RETURN(const StridedArray operand, problem.dst.OperandOf(step, shape, 1));
    TRIPONT_RETURN_IF_ERROR(post_ops.Combine(api, step, operand));
    if (step.kind == onednn::EpilogueStep::Kind::kArray)
      post_ops.arrays.back().piece_bytes = PieceBytes(problem.dst);
  }
  TRIPONT_ASSIGN_OR_RETURN(const onednn::OwnedAttributes primitive_attributes,
                           onednn::MakeAttributes(api, post_ops.ops));
  TRIPONT_ASSIGN_OR_RETURN(OwnedPrimitiveDesc desc, Describe(api, problem, primitive_attributes));
  return Described{std::move(desc), std::move(post_ops.arrays)};
}

// The bytes of an array's copy in the layout that the primitive wants; 0 if it reads or writes the
// array where it lies.
StatusOr<size_t> StagedBytes(const Api& api, ConstPrimitiveDesc desc, int arg,
                             const StridedArray& array) {
  TRIPONT_ASSIGN_OR_RETURN(const OwnedMemoryDesc lying, array.Layout(api));
  ConstMemoryDesc wanted = api.primitive_desc_query_md(desc, Query::kArgument, arg);
  if (api.memory_desc_equal(wanted, lying.get()) != 0) return 0;
  return api.memory_desc_get_size(wanted);
}

// In how many pieces of the batch the convolution is computed. Copies of a whole batch, in the
// layout that the primitive wants, take as much memory as the arrays, and leave the caches before
// they are read. The copies of a piece take at most `kCopiedBytes` for each thread, if an image does
// not take more. A gradient of the weights is a sum over the batch, and has one piece.
StatusOr<int64_t> CountPieces(const Api& api, const Problem& problem, ConstPrimitiveDesc desc) {
  if (problem.kind == Kind::kBackwardWeights || api.port->UsesQueue()) return 1;
  const bool forward = problem.kind == Kind::kForward;
  const int src = forward ? onednn::kArgSource : onednn::kArgDiffSource;
  const int dst = forward ? onednn::kArgDestination : onednn::kArgDiffDestination;
  TRIPONT_ASSIGN_OR_RETURN(const size_t src_bytes, StagedBytes(api, desc, src, problem.src));
  TRIPONT_ASSIGN_OR_RETURN(const size_t dst_bytes, StagedBytes(api, desc, dst, problem.dst));
  const size_t copied = src_bytes + dst_bytes;
  const size_t most = kCopiedBytes * static_cast<size_t>(NumThreads());
  const int64_t batch = problem.src.dimensions[0];
  if (copied <= most) return 1;
  // Pieces are equal, and where that would make many more of them than are wanted, there are fewer.
  const auto wanted = static_cast<int64_t>((copied + most - 1) / most);
  if (wanted >= batch) return batch;
  for (int64_t pieces = wanted; pieces <= std::min(batch, kMostPieces * wanted); ++pieces) {
    if (batch % pieces == 0) return pieces;
  }
  int64_t pieces = wanted - 1;
  while (batch % pieces != 0) --pieces;
  return pieces;
}

StatusOr<std::unique_ptr<onednn::Plan>> MakePlan(const Api& api, const Problem& whole,
                                                 const onednn::Epilogue& epilogue,
                                                 const LibraryCallSignature& signature) {
  TRIPONT_ASSIGN_OR_RETURN(Described described,
                           DescribeWithEpilogue(api, whole, epilogue, signature));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t pieces, CountPieces(api, whole, described.desc.get()));
  const Problem problem = whole.Piece(pieces);
  if (pieces > 1) {
    TRIPONT_ASSIGN_OR_RETURN(described, DescribeWithEpilogue(api, problem, epilogue, signature));
  }

  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc src, problem.src.Layout(api));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc weights, problem.weights.Layout(api));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc dst, problem.dst.Layout(api));
  const size_t src_piece = PieceBytes(problem.src);
  const size_t dst_piece = PieceBytes(problem.dst);
  std::vector<onednn::PlanArray>& arrays = described.arrays;
  const void* first = signature.operands[0].constant;
  const void* second = signature.operands[1].constant;
  switch (problem.kind) {
    case Kind::kForward:
      arrays.push_back({onednn::kArgSource, false, 0, std::move(src), first, src_piece});
      arrays.push_back({onednn::kArgWeights, false, 1, std::move(weights), second});
      arrays.push_back({onednn::kArgDestination, true, 0, std::move(dst), nullptr, dst_piece});
      break;
    case Kind::kBackwardData:
      arrays.push_back({onednn::kArgDiffDestination, false, 0, std::move(dst), first, dst_piece});
      arrays.push_back({onednn::kArgWeights, false, 1, std::move(weights), second});
      arrays.push_back({onednn::kArgDiffSource, true, 0, std::move(src), nullptr, src_piece});
      break;
    case Kind::kBackwardWeights:
      arrays.push_back({onednn::kArgSource, false, 0, std::move(src), first});
      arrays.push_back({onednn::kArgDiffDestination, false, 1, std::move(dst), second});
      arrays.push_back({onednn::kArgDiffWeights, true, 0, std::move(weights)});
      break;
  }
  return onednn::Plan::Create(api, std::move(described.desc), std::move(arrays), pieces);
}

StatusOr<std::unique_ptr<LibraryCall>> MakeConvolution(const LibraryCallSignature& signature) {
  if (signature.operands.size() < 2 || signature.results.size() != 1) {
    return InvalidArgument("expected at least 2 operands and 1 result");
  }
  TRIPONT_ASSIGN_OR_RETURN(const Problem problem, ReadProblem(signature));
  TRIPONT_ASSIGN_OR_RETURN(const onednn::Epilogue epilogue, onednn::ReadEpilogue(signature));
  if (problem.kind != Kind::kForward && (!epilogue.steps.empty() || epilogue.alpha != 1.0F)) {
    return InvalidArgument("attributes alpha and epilogue are for kind forward");
  }

  TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<onednn::Plans> plan,
                           onednn::Plans::Create(*signature.backend, [&](const Api& api) {
                             return MakePlan(api, problem, epilogue, signature);
                           }));
  return std::unique_ptr<LibraryCall>(new Convolution(std::move(plan)));
}

}  // namespace

void RegisterConvolution(LibraryRegistry& registry) {
  registry.Register("convolution", MakeConvolution);
}

}  // namespace tripont
