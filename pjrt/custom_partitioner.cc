#include "pjrt/custom_partitioner.h"

#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/partitioners.h"
#include "pjrt/call.h"
#include "pjrt/custom_partitioner_extension.h"
#include "pjrt/profiler.h"

namespace tripont::pjrt {
namespace {

using Parts = std::span<const std::string>;
using Results = std::vector<std::string>;
using String = JAX_CustomCallPartitioner_string;
using Aval = JAX_CustomCallPartitioner_aval;

String View(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string Copy(const String& bytes) {
  return bytes.size == 0 ? std::string() : std::string(bytes.data, bytes.size);
}

// An optional sharding is nothing, or a byte and the sharding: that of a replicated array is empty.
Aval ReadAval(const std::string& shape, const std::string& sharding) {
  const bool has_sharding = !sharding.empty();
  return {View(shape), has_sharding,
          has_sharding ? View(std::string_view(sharding).substr(1)) : String{nullptr, 0}};
}

std::vector<Aval> ReadOperands(Parts parts) {
  std::vector<Aval> operands;
  for (size_t i = 0; i + 1 < parts.size(); i += 2)
    operands.push_back(ReadAval(parts[i], parts[i + 1]));
  return operands;
}

// Calls one of the callbacks and gives what `read` makes of its results, which are freed then.
template <typename Args, typename Read>
StatusOr<Results> CallBack(JAX_CustomCallPartitioner_Callbacks* callbacks,
                           void (*function)(JAX_CustomCallPartitioner_Callbacks*, Args*),
                           Args& args, Read read) {
  args.header = {};
  args.header.api_version = JAX_CUSTOM_CALL_PARTITIONER_VERSION;
  struct Cleanup {
    JAX_CustomCallPartitioner_version_and_error& header;
    ~Cleanup() {
      if (header.cleanup_fn != nullptr) header.cleanup_fn(header.data);
    }
  } cleanup{args.header};
  function(callbacks, &args);
  if (args.header.has_error) {
    return Status(StatusCodeFromInt(NumberOf(args.header.code)), Copy(args.header.error_msg));
  }
  return read();
}

StatusOr<Results> Propagate(JAX_CustomCallPartitioner_Callbacks* callbacks, Parts parts) {
  JAX_CustomCallPartitioner_PropagateUserSharding_Args args{};
  args.backend_config = View(parts[0]);
  args.result_shape = View(parts[1]);
  args.result_sharding = View(parts[2]);
  return CallBack(callbacks, callbacks->propagate_user_sharding, args,
                  [&] { return Results{Copy(args.result_sharding)}; });
}

StatusOr<Results> Partition(JAX_CustomCallPartitioner_Callbacks* callbacks, Parts parts) {
  std::vector<Aval> operands = ReadOperands(parts.subspan(3));
  JAX_CustomCallPartitioner_Partition_Args args{};
  args.backend_config = View(parts[0]);
  args.op_result = ReadAval(parts[1], parts[2]);
  args.num_args = operands.size();
  args.op_args = operands.data();
  return CallBack(callbacks, callbacks->partition, args, [&] {
    Results results{Copy(args.mlir_module), Copy(args.result_sharding)};
    for (size_t i = 0; i < operands.size(); ++i) results.push_back(Copy(args.args_sharding[i]));
    return results;
  });
}

StatusOr<Results> Infer(JAX_CustomCallPartitioner_Callbacks* callbacks, Parts parts) {
  std::vector<Aval> operands = ReadOperands(parts.subspan(2));
  JAX_CustomCallPartitioner_InferShardingFromOperands_Args args{};
  args.backend_config = View(parts[0]);
  args.result_shape = View(parts[1]);
  args.num_args = operands.size();
  args.op_args = operands.data();
  return CallBack(callbacks, callbacks->infer_sharding, args, [&] {
    return Results{args.has_result_sharding ? "\1" + Copy(args.result_sharding) : ""};
  });
}

size_t FewestParts(PartitioningQuestion question) {
  switch (question) {
    case PartitioningQuestion::kPropagate:
    case PartitioningQuestion::kPartition:
      return 3;
    case PartitioningQuestion::kInfer:
      return 2;
    case PartitioningQuestion::kInspect:  // core/bindings/callbacks.cc answers it
      break;
  }
  return SIZE_MAX;
}

// The answer of `callbacks`. The caller is in the middle of talking to the compile worker: no
// exception of the framework's may pass through it.
StatusOr<Results> Ask(JAX_CustomCallPartitioner_Callbacks* callbacks, PartitioningQuestion question,
                      Parts parts) {
  if (parts.size() < FewestParts(question))
    return Internal("the compile worker asked a malformed question about partitioning");
  try {
    switch (question) {
      case PartitioningQuestion::kPropagate:
        return Propagate(callbacks, parts);
      case PartitioningQuestion::kPartition:
        return Partition(callbacks, parts);
      case PartitioningQuestion::kInfer:
        return Infer(callbacks, parts);
      case PartitioningQuestion::kInspect:
        break;
    }
  } catch (const std::exception& exception) {
    return Internal("a function that partitions a custom call threw: ", exception.what());
  } catch (...) {
    return Internal("a function that partitions a custom call threw an unknown exception");
  }
  return Internal("the compile worker asked an unknown question about partitioning");
}

Partitioner MakePartitioner(JAX_CustomCallPartitioner_Callbacks* callbacks) {
  return {callbacks->can_side_effecting_have_replicated_sharding,
          [callbacks](PartitioningQuestion question, Parts parts) {
            return Ask(callbacks, question, parts);
          }};
}

// The callbacks are never destroyed: a compile may be using them, and their destructor needs
// Python's lock, which nobody here may take.
Status RegisterCustomPartitioner(PJRT_Register_Custom_Partitioner_Args& args) {
  const std::string_view name(args.name, args.name_size);
  const JAX_CustomCallPartitioner_Callbacks& callbacks = *args.callbacks;
  if (callbacks.version != JAX_CUSTOM_CALL_PARTITIONER_VERSION) {
    return Unimplemented("partitioner of '", name, "': its callbacks are of version ",
                         callbacks.version, ", known is ", JAX_CUSTOM_CALL_PARTITIONER_VERSION);
  }
  if (callbacks.partition == nullptr || callbacks.infer_sharding == nullptr ||
      callbacks.propagate_user_sharding == nullptr) {
    return InvalidArgument("partitioner of '", name, "': a callback is null");
  }
  if (name == kInspectShardingTarget)
    return InvalidArgument("partitioner of '", name, "': that name has a meaning already");
  return RegisterPartitioner(name, MakePartitioner(args.callbacks));
}

// Nothing to keep: that a custom call has the attribute num_batch_dims says the same of it.
Status RegisterBatchPartitionable(PJRT_Register_Batch_Partitionable_Args&) { return OkStatus(); }

TRIPONT_PJRT_CONTRACT(CustomPartitioner, PJRT_Register_Custom_Partitioner_Args, callbacks,
                      callbacks)
TRIPONT_PJRT_CONTRACT(BatchPartitionable, PJRT_Register_Batch_Partitionable_Args, name_size, name)

}  // namespace

PJRT_Extension_Base* CustomPartitionerExtension() {
  static PJRT_Custom_Partitioner_Extension extension = [] {
    PJRT_Custom_Partitioner_Extension result{};
    result.base = {PJRT_Custom_Partitioner_Extension_STRUCT_SIZE,
                   PJRT_Extension_Type_Custom_Partitioner, ProfilerExtension()};
    result.register_custom_partitioner =
        Call<"PJRT_Register_Custom_Partitioner", Contract_CustomPartitioner,
             RegisterCustomPartitioner>;
    result.register_batch_partitionable =
        Call<"PJRT_Register_Batch_Partitionable", Contract_BatchPartitionable,
             RegisterBatchPartitionable>;
    return result;
  }();
  return &extension.base;
}

}  // namespace tripont::pjrt
