// Functions of this process that take part in partitioning a program over several devices.
//
// The partitioner (XLA's) runs in a compile worker. For a custom call that somebody has registered
// a partitioner for it asks this process, in the middle of a compile: how are the results sharded,
// which program does each device run for the call? JAX's custom_partitioning is such a partitioner,
// and so is inspect_array_sharding, which only looks. A program that names one depends on functions
// of this process: its artifact is not cached.
//
// All functions may be called from any thread.
#ifndef TRIPONT_CORE_RUNTIME_PARTITIONERS_H_
#define TRIPONT_CORE_RUNTIME_PARTITIONERS_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/schema/messages.h"

namespace tripont {

using schema::PartitioningQuestion;

// The target of custom calls that only look at the sharding of their operand. The program's bytes
// name addresses of functions; nobody may call those (frontends/jax/inspection.py).
inline constexpr std::string_view kInspectShardingTarget = "InspectSharding";

struct Partitioner {
  // Whether a custom call with side effects may have a replicated sharding.
  bool side_effects_may_be_replicated = false;
  // Called on the thread that compiles, with no lock held: it may run Python, and compile itself.
  // `parts` are the worker's and unchecked. Must not throw.
  std::function<StatusOr<std::vector<std::string>>(PartitioningQuestion question,
                                                   std::span<const std::string> parts)>
      answer;
};
using Partitioners = std::map<std::string, std::shared_ptr<const Partitioner>>;

// For custom calls with the target `name`. An earlier one of that name is replaced, for compiles
// that begin from now on. INVALID_ARGUMENT without a name.
TRIPONT_EXPORT Status RegisterPartitioner(std::string_view name, Partitioner partitioner);

// Those whose names occur in the bytes of `program`.
TRIPONT_EXPORT Partitioners PartitionersNamedIn(std::string_view program);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_PARTITIONERS_H_
