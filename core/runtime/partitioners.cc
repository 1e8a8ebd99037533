#include "core/runtime/partitioners.h"

#include <mutex>
#include <utility>

namespace tripont {
namespace {

struct PartitionerTable {
  std::mutex mutex;
  Partitioners partitioners;
};

// Never destroyed: a partitioner may hold Python objects, which outlive the interpreter's end.
PartitionerTable& Global() {
  static auto* const registry = new PartitionerTable;
  return *registry;
}

}  // namespace

Status RegisterPartitioner(std::string_view name, Partitioner partitioner) {
  if (name.empty()) return InvalidArgument("a partitioner needs the name of a custom call");
  PartitionerTable& registry = Global();
  auto added = std::make_shared<const Partitioner>(std::move(partitioner));
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.partitioners.insert_or_assign(std::string(name), std::move(added));
  return OkStatus();
}

Partitioners PartitionersNamedIn(std::string_view program) {
  Partitioners found;
  PartitionerTable& registry = Global();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& [name, partitioner] : registry.partitioners) {
    if (program.find(name) != std::string_view::npos) found.emplace(name, partitioner);
  }
  return found;
}

}  // namespace tripont
