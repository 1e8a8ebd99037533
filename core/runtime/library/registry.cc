#include "core/runtime/library/registry.h"

#include "core/runtime/device.h"

#include <algorithm>
#include <atomic>

namespace tripont {

const LibraryAttributes::Entry* LibraryAttributes::Find(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return nullptr;
  found->second.used = true;
  return &found->second;
}

bool LibraryAttributes::Has(std::string_view name) const {
  return values_.find(name) != values_.end();
}

namespace {

Status Missing(std::string_view name) { return InvalidArgument("attribute ", name, " is missing"); }
Status WrongType(std::string_view name, std::string_view expected) {
  return InvalidArgument("attribute ", name, " is not ", expected);
}

}  // namespace

StatusOr<std::vector<int64_t>> LibraryAttributes::Integers(std::string_view name) const {
  const Entry* const entry = Find(name);
  if (entry == nullptr) return Missing(name);
  const auto* const values = std::get_if<std::vector<int64_t>>(&entry->value);
  if (values == nullptr) return WrongType(name, "a list of integers");
  return *values;
}

StatusOr<int64_t> LibraryAttributes::Integer(std::string_view name) const {
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Integers(name));
  if (values.size() != 1) return WrongType(name, "one integer");
  return values[0];
}

StatusOr<int64_t> LibraryAttributes::IntegerOr(std::string_view name, int64_t otherwise) const {
  if (!Has(name)) return otherwise;
  return Integer(name);
}

StatusOr<std::vector<double>> LibraryAttributes::Floats(std::string_view name) const {
  const Entry* const entry = Find(name);
  if (entry == nullptr) return Missing(name);
  if (const auto* const values = std::get_if<std::vector<double>>(&entry->value)) return *values;
  if (const auto* const values = std::get_if<std::vector<int64_t>>(&entry->value)) {
    return std::vector<double>(values->begin(), values->end());
  }
  return WrongType(name, "a list of numbers");
}

StatusOr<double> LibraryAttributes::Float(std::string_view name) const {
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<double> values, Floats(name));
  if (values.size() != 1) return WrongType(name, "one number");
  return values[0];
}

StatusOr<double> LibraryAttributes::FloatOr(std::string_view name, double otherwise) const {
  if (!Has(name)) return otherwise;
  return Float(name);
}

StatusOr<std::string> LibraryAttributes::Bytes(std::string_view name) const {
  const Entry* const entry = Find(name);
  if (entry == nullptr) return Missing(name);
  const auto* const value = std::get_if<std::string>(&entry->value);
  if (value == nullptr) return WrongType(name, "bytes");
  return *value;
}

StatusOr<const void*> LibraryAttributes::Function(std::string_view name) const {
  const Entry* const entry = Find(name);
  if (entry == nullptr) return Missing(name);
  const auto* const value = std::get_if<const void*>(&entry->value);
  if (value == nullptr) return WrongType(name, "a function");
  return *value;
}

Status LibraryAttributes::CheckAllUsed() const {
  for (const auto& [name, entry] : values_) {
    if (!entry.used) return InvalidArgument("unknown attribute ", name);
  }
  return OkStatus();
}

CollectivesInFlight& LibraryContext::collectives_in_flight() {
  if (collectives_in_flight_ == nullptr)
    collectives_in_flight_ = std::make_unique<CollectivesInFlight>(device_->wire());
  return *collectives_in_flight_;
}

StatusOr<Scratch> LibraryContext::AllocateScratch(size_t size) {
  TRIPONT_ASSIGN_OR_RETURN(const Block block, allocator_->Allocate(size));
  return Scratch(allocator_, block);
}

int64_t LibraryContext::run_id() {
  static std::atomic<int64_t> last{0};
  if (run_id_ == 0) run_id_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return run_id_;
}

void LibraryRegistry::Register(std::string_view name, LibraryFactory factory) {
  factories_.insert_or_assign(std::string(name), factory);
}

LibraryFactory LibraryRegistry::Find(std::string_view name) const {
  const auto found = factories_.find(name);
  return found == factories_.end() ? nullptr : found->second;
}

std::vector<std::string> LibraryRegistry::names() const {
  std::vector<std::string> names;
  names.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

const LibraryRegistry& LibraryRegistry::Global() {
  static const auto* const registry = [] {
    auto* filled = new LibraryRegistry;
    RegisterLibraryCalls(*filled);
    return filled;
  }();
  return *registry;
}

}  // namespace tripont
