// What the members of a collective's group exchange: their operands and results where they are of this
// process, and messages where they are of others.
//
// A Group lives for one exchange, on the thread that does the group's work; it refers to the arrays of
// its members, which belong to their programs and stay until the exchange has ended.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_COLLECTIVE_GROUP_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_COLLECTIVE_GROUP_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/runtime/collectives.h"
#include "core/runtime/hosts/exchange.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/status.h"

namespace tripont::collectives {

using Contributions = std::span<const Launch::Contribution>;

// A group as this process sees it. Members are named by their positions in the group; those of
// other processes, if there are any, take part through hosts::Exchange.
class Group {
 public:
  // A group whose members are all of this process.
  Group(Contributions all, LibraryContext& context)
      : all_(all), context_(context), processes_(all.size()), local_(all.size()) {
    std::iota(local_.begin(), local_.end(), size_t{0});
  }
  Group(const Placement& placement, const std::vector<int64_t>& members, Contributions all,
        hosts::Exchange exchange, LibraryContext& context)
      : all_(all),
        context_(context),
        exchange_(std::move(exchange)),
        process_(exchange_->job().process()) {
    for (size_t q = 0; q < members.size(); ++q) {
      processes_.push_back(placement.processes[static_cast<size_t>(members[q])]);
      (IsLocal(q) ? local_ : remote_).push_back(q);
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::vector<size_t>& local() const { return local_; }    // members of this process; any
  const std::vector<size_t>& remote() const { return remote_; }  // of others
  bool IsLocal(size_t member) const { return processes_[member] == process_; }
  int ProcessOf(size_t member) const { return processes_[member]; }
  // All other processes of the group, ascending.
  std::vector<int> OtherProcesses() const {
    return exchange_ ? exchange_->processes() : std::vector<int>();
  }
  // All processes of the group, ascending.
  std::vector<int> Processes() const {
    std::vector<int> all = OtherProcesses();
    all.insert(std::lower_bound(all.begin(), all.end(), process_), process_);
    return all;
  }
  const char* Operand(size_t member, size_t index = 0) const {
    return static_cast<const char*>(all_[member].operands[index]);
  }
  char* Result(size_t member, size_t index = 0) const {
    return static_cast<char*>(all_[member].results[index]);
  }

  void Send(int process, const void* data, size_t size) { exchange_->Send(process, data, size); }
  void Receive(int process, void* data, size_t size) { exchange_->Receive(process, data, size); }
  Status Run() { return exchange_ ? exchange_->Run() : OkStatus(); }
  // `count` arrays of `size` bytes each, at multiples of 64.
  StatusOr<Scratch> Arrays(size_t count, size_t size) const {
    if (count == 0) return Scratch();
    return context_.AllocateScratch(std::max<size_t>(count * Padded(size), 64));
  }
  static size_t Padded(size_t size) { return (size + 63) / 64 * 64; }

 private:
  Contributions all_;
  LibraryContext& context_;
  std::optional<hosts::Exchange> exchange_;
  int process_ = 0;             // this one
  std::vector<int> processes_;  // of each member
  std::vector<size_t> local_;
  std::vector<size_t> remote_;
};

}  // namespace tripont::collectives

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_COLLECTIVE_GROUP_H_
