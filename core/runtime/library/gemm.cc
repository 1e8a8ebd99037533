// Library call "gemm": batched matrix multiplication by oneDNN.
//
//   result[b..., m, n] = epilogue(alpha * sum over k of lhs[b..., m, k] * rhs[b..., k, n])
//
// Attributes: "batch" (list of sizes, may be empty), "m", "n", "k"; "lhs_strides", "rhs_strides",
// "result_strides": one number a dimension of [b..., m, k], [b..., k, n], [b..., m, n], in elements
// (a stride of 0 repeats along a batch dimension); "alpha" and "epilogue" as epilogue.h says. So
// transposed and interleaved operands need no copy.
//
// The result may be written over the operand of the epilogue's last step if that is an "add" (and
// the operand is no other operand of the call).
//
// Element types: f32, bf16 and f16 where the CPU has them, s8 or u8 times s8 to s32.
#include <algorithm>
#include <array>
#include <memory>

#include "core/runtime/device.h"
#include "core/runtime/library/calls.h"
#include "core/runtime/library/epilogue.h"
#include "core/runtime/library/onednn.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

using onednn::Api;
using onednn::OwnedMemoryDesc;
using onednn::OwnedPrimitiveDesc;
using onednn::StridedArray;

StatusOr<StridedArray> ReadMatrix(const LibraryCallSignature& signature, const Shape& shape,
                                  std::vector<int64_t> dimensions, std::string_view name) {
  StridedArray matrix{shape, std::move(dimensions), {}};
  TRIPONT_ASSIGN_OR_RETURN(matrix.strides, signature.attributes.Integers(name));
  if (matrix.strides.size() != matrix.dimensions.size()) {
    return InvalidArgument("attribute ", name, " has ", matrix.strides.size(), " numbers, not ",
                           matrix.dimensions.size());
  }
  TRIPONT_RETURN_IF_ERROR(matrix.CheckReach(name));
  return matrix;
}

// The matrix product with its epilogue, checked.
struct Problem {
  StridedArray lhs;
  StridedArray rhs;
  StridedArray result;
  onednn::Epilogue epilogue;
  std::vector<StridedArray> step_operands;  // of the steps that have one, in order
  const void* lhs_constant;
  const void* rhs_constant;
};

class Gemm final : public LibraryCall {
 public:
  Gemm(size_t bytes, size_t added, std::unique_ptr<onednn::Plans> plan,
       std::unique_ptr<onednn::Plans> in_place)
      : bytes_(bytes), added_(added), plan_(std::move(plan)), in_place_(std::move(in_place)) {}

  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    if (added_ == 0 || operands[added_] != results[0] || plan_->StagesOutputs()) {
      return plan_->Execute(context, operands, results);
    }
    if (in_place_ != nullptr) return in_place_->Execute(context, operands, results);
    TRIPONT_ASSIGN_OR_RETURN(Scratch scratch, context.AllocateScratch(bytes_));
    const auto copy = std::make_shared<Scratch>(std::move(scratch));
    if (UsesQueue()) {
      context.KeepUntilDone(copy);
      TRIPONT_RETURN_IF_ERROR(
          context.device()->queue().Copy(copy->data(), operands[added_], bytes_));
    } else {
      ParallelCopy(copy->data(), operands[added_], bytes_);
    }
    std::vector<void*> moved(operands, operands + added_ + 1);
    moved[added_] = copy->data();
    return plan_->Execute(context, moved.data(), results);
  }
  bool UsesQueue() const override { return plan_->UsesQueue(); }

 private:
  const size_t bytes_;  // of the result
  const size_t added_;  // the operand whose memory the result may take, or 0
  std::unique_ptr<onednn::Plans> plan_;
  std::unique_ptr<onednn::Plans> in_place_;  // for that case; may be null
};

// Tries the operands where they lie first; where oneDNN has only its reference implementation for
// that, layouts of its choice. A constant right-hand side is packed once, so there its choice comes
// first.
StatusOr<OwnedPrimitiveDesc> Describe(const Api& api, const StridedArray& lhs,
                                      const StridedArray& rhs, const StridedArray& result,
                                      bool constant_rhs,
                                      const onednn::OwnedAttributes& attributes) {
  struct Attempt {
    bool any_lhs, any_rhs, any_result;
  };
  constexpr std::array<Attempt, 4> kAttempts = {
      Attempt{false, false, false}, {false, true, false}, {true, true, false}, {true, true, true}};
  OwnedPrimitiveDesc best;
  Status failure;
  for (size_t i = constant_rhs ? 1 : 0; i < kAttempts.size(); ++i) {
    TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc lhs_desc, lhs.Layout(api, kAttempts[i].any_lhs));
    TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc rhs_desc, rhs.Layout(api, kAttempts[i].any_rhs));
    TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc result_desc,
                             result.Layout(api, kAttempts[i].any_result));
    onednn::PrimitiveDesc created = nullptr;
    Status status = onednn::Check(
        api.matmul_primitive_desc_create(&created, api.engine, lhs_desc.get(), rhs_desc.get(),
                                         nullptr, result_desc.get(), attributes.get()),
        "matrix multiplication");
    if (!status.ok()) {
      if (failure.ok()) failure = status;
      continue;
    }
    OwnedPrimitiveDesc desc(created);
    if (!onednn::IsReference(api, created)) return desc;
    if (best == nullptr) best = std::move(desc);
  }
  if (best == nullptr) return failure;
  return best;
}

// The plan of the problem. `in_place`: the operand of the last step, an "add", is in the result's
// memory.
StatusOr<std::unique_ptr<onednn::Plan>> MakePlan(const Api& api, const Problem& problem,
                                                 bool in_place) {
  using onednn::PostOp;
  TRIPONT_RETURN_IF_ERROR(onednn::CheckInstructions(api, problem.lhs.shape.type));
  onednn::EpilogueOps post_ops(problem.epilogue.alpha);
  const std::vector<onednn::EpilogueStep>& steps = problem.epilogue.steps;
  size_t next = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == onednn::EpilogueStep::Kind::kElementwise) {
      post_ops.ops.push_back(PostOp::Elementwise(steps[i].algorithm));
    } else if (in_place && i + 1 == steps.size()) {
      post_ops.ops.push_back(PostOp::Sum());
    } else {
      TRIPONT_RETURN_IF_ERROR(post_ops.Combine(api, steps[i], problem.step_operands[next++]));
    }
  }
  TRIPONT_ASSIGN_OR_RETURN(const onednn::OwnedAttributes attributes,
                           onednn::MakeAttributes(api, post_ops.ops));
  TRIPONT_ASSIGN_OR_RETURN(OwnedPrimitiveDesc desc,
                           Describe(api, problem.lhs, problem.rhs, problem.result,
                                    problem.rhs_constant != nullptr, attributes));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc lhs, problem.lhs.Layout(api));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc rhs, problem.rhs.Layout(api));
  TRIPONT_ASSIGN_OR_RETURN(OwnedMemoryDesc result, problem.result.Layout(api));
  post_ops.arrays.push_back({onednn::kArgSource, false, 0, std::move(lhs), problem.lhs_constant});
  post_ops.arrays.push_back({onednn::kArgWeights, false, 1, std::move(rhs), problem.rhs_constant});
  post_ops.arrays.push_back({onednn::kArgDestination, true, 0, std::move(result)});
  return onednn::Plan::Create(api, std::move(desc), std::move(post_ops.arrays));
}

StatusOr<Problem> ReadProblem(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> batch, attributes.Integers("batch"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t m, attributes.Integer("m"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t n, attributes.Integer("n"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t k, attributes.Integer("k"));
  const auto dimensions = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> all(batch);
    all.insert(all.end(), {rows, columns});
    return all;
  };
  const std::vector<int64_t> sizes = dimensions(m, n);
  if (sizes.size() > onednn::kMaxDimensions) {
    return Unimplemented("more than ", onednn::kMaxDimensions, " dimensions");
  }
  if (k < 1 || std::any_of(sizes.begin(), sizes.end(), [](int64_t d) { return d < 1; })) {
    return InvalidArgument("sizes must be at least 1");
  }
  Problem problem{};
  problem.lhs_constant = signature.operands[0].constant;
  problem.rhs_constant = signature.operands[1].constant;
  TRIPONT_ASSIGN_OR_RETURN(problem.lhs, ReadMatrix(signature, signature.operands[0].shape,
                                                   dimensions(m, k), "lhs_strides"));
  TRIPONT_ASSIGN_OR_RETURN(problem.rhs, ReadMatrix(signature, signature.operands[1].shape,
                                                   dimensions(k, n), "rhs_strides"));
  TRIPONT_ASSIGN_OR_RETURN(problem.result,
                           ReadMatrix(signature, signature.results[0], sizes, "result_strides"));
  TRIPONT_ASSIGN_OR_RETURN(problem.epilogue, onednn::ReadEpilogue(signature));
  for (const onednn::EpilogueStep& step : problem.epilogue.steps) {
    if (step.kind == onednn::EpilogueStep::Kind::kElementwise) continue;
    const Shape& shape = signature.operands[step.operand].shape;
    if (step.kind == onednn::EpilogueStep::Kind::kArray && !(shape == signature.results[0])) {
      return InvalidArgument("operand ", step.operand, ", ", shape,
                             ", is not of the result's shape");
    }
    TRIPONT_ASSIGN_OR_RETURN(StridedArray operand,
                             problem.result.OperandOf(step, shape, sizes.size() - 1));
    problem.step_operands.push_back(std::move(operand));
  }
  return problem;
}

StatusOr<std::unique_ptr<LibraryCall>> MakeGemm(const LibraryCallSignature& signature) {
  if (signature.operands.size() < 2 || signature.results.size() != 1) {
    return InvalidArgument("expected at least 2 operands and 1 result");
  }
  TRIPONT_ASSIGN_OR_RETURN(const Problem problem, ReadProblem(signature));
  TRIPONT_ASSIGN_OR_RETURN(const size_t bytes, signature.results[0].ByteSize());
  const auto make_plans = [&](bool in_place) {
    return onednn::Plans::Create(*signature.backend,
                                 [&](const Api& api) { return MakePlan(api, problem, in_place); });
  };
  TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<onednn::Plans> plan, make_plans(false));
  size_t added = 0;
  std::unique_ptr<onednn::Plans> in_place;
  const std::vector<onednn::EpilogueStep>& steps = problem.epilogue.steps;
  if (!steps.empty() && steps.back().kind == onednn::EpilogueStep::Kind::kArray &&
      steps.back().algorithm == onednn::Algorithm::kBinaryAdd) {
    added = steps.back().operand;
    // Without this plan, or when it would not add to the caller's memory, the call makes a copy.
    StatusOr<std::unique_ptr<onednn::Plans>> sum = make_plans(true);
    if (sum.ok() && !(*sum)->StagesOutputs()) in_place = std::move(*sum);
  }
  return std::unique_ptr<LibraryCall>(new Gemm(bytes, added, std::move(plan), std::move(in_place)));
}

}  // namespace

void RegisterGemm(LibraryRegistry& registry) { registry.Register("gemm", MakeGemm); }

}  // namespace tripont
