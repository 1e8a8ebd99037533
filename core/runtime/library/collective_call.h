// What all collectives have (library/collectives.cc says what each of them is): groups, and how their members meet.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_COLLECTIVE_CALL_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_COLLECTIVE_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/collectives.h"
#include "core/runtime/library/collective_group.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/status.h"

namespace tripont::collectives {

// A collective as its program calls it: which groups meet, and what the processes must agree on. Thread-safe once it is read:
// the members of a group call Execute() on threads of their own.
class Collective : public LibraryCall {
 public:
  // A Call, which its Read(signature, size) makes of the signature. `size`: of each group; 0 if
  // they differ.
  template <typename Call>
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature) {
    if (signature.operands.empty() || signature.operands.size() != signature.results.size())
      return InvalidArgument("expected as many results as operands");
    auto call = std::make_unique<Call>();
    int64_t size = 0;
    TRIPONT_RETURN_IF_ERROR(call->ReadGroups(signature, &size));
    TRIPONT_RETURN_IF_ERROR(call->Read(signature, size));
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

  bool IsCollective() const override { return true; }
  std::string Description() const override { return description_; }

  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override;

 protected:
  // Does the work of a group, of the participants `members`.
  virtual Status Exchange(const std::vector<int64_t>& members, Group& group) const = 0;

  // Reads the attributes that all collectives have. *size: members of a group; 0 if groups differ.
  Status ReadGroups(const LibraryCallSignature& signature, int64_t* size);

  struct Place {
    const std::vector<int64_t>* group = nullptr;
    size_t position = 0;
  };
  const Place* FindPlace(int64_t participant) const;
  const std::vector<std::unique_ptr<std::vector<int64_t>>>& groups() const { return groups_; }

 private:
  // All that the programs of two processes must agree on to meet here. Which collectives are joined
  // belongs to it: each process compiles its own program.
  Status Describe(const LibraryCallSignature& signature);

  // waiting: how many wait for the result, if that may be none; null if somebody does.
  Status MeetProcesses(LibraryContext& context, const Launch& launch,
                       const std::vector<int64_t>& members, Contributions all,
                       const std::atomic<int>* waiting) const;

  static constexpr int64_t kMaxParticipants = 1 << 16;
  std::string name_;        // with where the program has it from
  std::string short_name_;  // "all-reduce 2": which of the program's collectives
  std::string description_;
  int64_t meeting_ = 0;
  bool asynchronous_ = false;  // a collective-done waits for it
  size_t num_operands_ = 0;
  size_t num_results_ = 0;
  std::vector<std::unique_ptr<std::vector<int64_t>>> groups_;
  std::vector<Place> places_;  // by participant
};

// One operand of `whole` = `blocks` times the elements of the one `part`, both of one type.
Status CheckBlocks(const Shape& whole, const Shape& part, int64_t blocks);

}  // namespace tripont::collectives

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_COLLECTIVE_CALL_H_
