#include "core/runtime/library/lapack_call.h"

#include <optional>

#include "core/runtime/parallel.h"
#include "core/runtime/strings.h"

namespace tripont::lapack {
namespace {

// Matrices from this order on are worth OpenBLAS's own threads, which wait for each other by
// spinning: where other work wants the cores too, eigenvectors of order 100 that take 0.7 ms on one
// thread took two seconds on two.
constexpr int64_t kLargeOrder = 768;
// Multiply-adds that make a task worth another thread.
constexpr double kTaskWork = 1 << 15;

}  // namespace

Status BatchCall::Execute(LibraryContext& context, void* const* operands,
                          void* const* results) const {
  if (batch_ == 0) return OkStatus();
  if (lanes_.count > 0) return ExecuteTiles(context, operands, results);
  int64_t tasks = 1;
  if (batch_ > 1 && order_ < kLargeOrder) {
    const double worth = std::ceil(static_cast<double>(batch_) * multiply_adds_ / kTaskWork);
    tasks = std::min<int64_t>({batch_, 4 * static_cast<int64_t>(NumThreads()),
                               static_cast<int64_t>(std::min(worth, 1e6))});
    tasks = std::max<int64_t>(tasks, 1);
  }
  TRIPONT_ASSIGN_OR_RETURN(const Scratch scratch,
                           context.AllocateScratch(static_cast<size_t>(tasks) * workspace_));
  std::optional<OneThread> one_thread;
  const Api* api = LoadedOrNull();
  // LAPACK's own threads know nothing of a program's limit.
  const bool alone = tasks > 1 || order_ < kLargeOrder || ThreadsAreLimited() || shares_out_;
  if (alone && api != nullptr) one_thread.emplace(*api);
  ParallelFor(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      std::byte* work = scratch.as<std::byte>() + static_cast<size_t>(task) * workspace_;
      for (int64_t i = batch_ * task / tasks; i < batch_ * (task + 1) / tasks; ++i) {
        Run(Item(operands, results, i, work));
      }
    }
  });
  return OkStatus();
}

StatusOr<std::unique_ptr<LibraryCall>> BatchCall::Prepared(std::unique_ptr<BatchCall> call,
                                                           const LibraryCallSignature& signature,
                                                           const Api* api) {
  TRIPONT_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Read(signature, call->rank_));
  call->api_ = api;
  call->batch_ = arguments.batch();
  TRIPONT_RETURN_IF_ERROR(call->Read(arguments));
  return std::unique_ptr<LibraryCall>(std::move(call));
}

void BatchCall::SetWork(int64_t order, double multiply_adds, size_t workspace) {
  order_ = order;
  multiply_adds_ = multiply_adds;
  workspace_ = (workspace + 63) / 64 * 64;
}

Status BatchCall::SetLanes(const matrix_lanes::Plan& lanes, const char* needs) {
  if (needs != nullptr && lanes.count == 0) {
    return InvalidArgument(needs, ": ", batch_, " matrices of order ", order_,
                           " are not made in lanes");
  }
  lanes_ = lanes;
  workspace_ = std::max(workspace_, lanes.workspace);
  return OkStatus();
}

Status BatchCall::ExecuteTiles(LibraryContext& context, void* const* operands,
                               void* const* results) const {
  matrix_lanes::Plan plan = lanes_;
  plan.workspace = workspace_;
  const Api* api = LoadedOrNull();
  const auto grain = static_cast<int64_t>(matrix_lanes::kTaskWork / std::max(1.0, multiply_adds_));
  return matrix_lanes::ForEachTile(
      context, plan, batch_, grain, [&](int64_t first, int count, void* workspace) {
        auto* work = static_cast<std::byte*>(workspace);
        const matrix_lanes::LaneSet left = RunTile(Item(operands, results, first, work), count);
        std::optional<OneThread> one_thread;
        if (left != 0 && api != nullptr) one_thread.emplace(*api);
        for (int i = 0; i < count; ++i) {
          if ((left >> i & 1) != 0) Run(Item(operands, results, first + i, work));
        }
      });
}

StatusOr<Arguments> Arguments::Read(const LibraryCallSignature& signature, size_t rank) {
  const Shape& shape = signature.operands[0].shape;
  if (shape.rank() < rank) {
    return InvalidArgument("expected an operand of at least ", rank, " dimensions, not ", shape);
  }
  const size_t batch_rank = shape.rank() - rank;
  int64_t batch = 1;
  for (size_t i = 0; i < batch_rank; ++i) batch *= shape.dimensions[i];
  for (const LibraryOperand& operand : signature.operands) {
    for (size_t i = batch_rank; i < operand.shape.rank(); ++i) {
      if (operand.shape.dimensions[i] > std::numeric_limits<Int>::max()) {
        return Unimplemented("matrices of more than 2^31 - 1 rows or columns: ", operand.shape);
      }
    }
  }
  return Arguments(signature, batch_rank, batch);
}

Int Arguments::Dimension(size_t operand, size_t index) const {
  if (operand >= signature_->operands.size()) return 0;
  const Shape& shape = signature_->operands[operand].shape;
  const size_t i = batch_rank_ + index;
  return i < shape.rank() ? static_cast<Int>(shape.dimensions[i]) : 0;
}

Status Arguments::Check(std::initializer_list<Expected> operands,
                        std::initializer_list<Expected> results) const {
  const Shape& first = signature_->operands[0].shape;
  auto fits = [&](const Shape& shape, const Expected& expected) {
    if (shape.type != expected.type || shape.rank() != batch_rank_ + expected.dimensions.size()) {
      return false;
    }
    return std::equal(shape.dimensions.begin(),
                      shape.dimensions.begin() + static_cast<ptrdiff_t>(batch_rank_),
                      first.dimensions.begin()) &&
           std::equal(expected.dimensions.begin(), expected.dimensions.end(),
                      shape.dimensions.begin() + static_cast<ptrdiff_t>(batch_rank_));
  };
  auto refuse = [&](const char* what, size_t number, const Shape& shape, const Expected& expected) {
    return InvalidArgument(what, " ", number, ": expected ", TypeName(expected.type), "[batch",
                           expected.dimensions.empty() ? "" : ",",
                           StrJoin(expected.dimensions, ","), "], not ", shape);
  };
  if (signature_->operands.size() != operands.size() ||
      signature_->results.size() != results.size()) {
    return InvalidArgument("expected ", operands.size(), " operands and ", results.size(),
                           " results, not ", signature_->operands.size(), " and ",
                           signature_->results.size());
  }
  size_t number = 0;
  for (const Expected& expected : operands) {
    const Shape& shape = signature_->operands[number].shape;
    if (!fits(shape, expected)) return refuse("operand", number, shape, expected);
    ++number;
  }
  number = 0;
  for (const Expected& expected : results) {
    const Shape& shape = signature_->results[number];
    if (!fits(shape, expected)) return refuse("result", number, shape, expected);
    ++number;
  }
  return signature_->attributes.CheckAllUsed();
}

StatusOr<Matrix> Arguments::MatrixInOrder(size_t operand) const {
  TRIPONT_ASSIGN_OR_RETURN(const int64_t rows, IntegerOr("row_major", 0));
  return MatrixOf(operand, rows != 0);
}

StatusOr<char> Arguments::Character(std::string_view attribute, std::string_view allowed) const {
  TRIPONT_ASSIGN_OR_RETURN(const int64_t value, Integer(attribute));
  for (const char c : allowed) {
    if (value == c) return c;
  }
  return InvalidArgument("attribute ", attribute, " is ", value, ", expected one of the letters ",
                         allowed);
}

}  // namespace tripont::lapack
