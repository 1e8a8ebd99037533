// Library calls "all-reduce", "reduce-scatter", "all-gather", "all-to-all" and
// "collective-permute": what the devices of one program exchange. "collective-done": waits for one of
// them. "device-number": which of the devices this one is.
//
// Attributes of all collectives: "meeting", a number that no other collective of the program has;
// "channel": the program's own; "groups" and "group_sizes": the participants (replica *
// num_partitions + partition) of each group, one group after the other; "members": which of the
// program's own collectives the call is, several where they were joined; "operation", of reductions:
// what they compute, as text; "asynchronous", if it is not
// 0: the call only begins what it does with other processes, and the collective-done with the same
// "meeting" waits for it (until then operands and results are in use). In the formulas r and q are
// positions in the group.
//
//   all-reduce          result i of q = operand i of 0, 1, ... reduced in this order
//   reduce-scatter      result of q = block q of the operands of 0, 1, ... reduced in this order
//   all-gather          block r of the result of q = operand of r
//   all-to-all          block r of the result of q = block q of the operand of r
//   collective-permute  result of participant p = operand of participant "sources"[p]; zeros if
//   that
//                       is -1. A group holds those who exchange anything with one another.
//
// Blocks are equal parts of the array, one a member of the group: the compiler moves the dimension
// that is split or joined to the front.
//
// Groups whose members are of several processes exchange what they need through hosts::Exchange,
// and compute in the same order as those of one process: the results have the same bits.
#include "core/runtime/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/collective_call.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"

namespace tripont::collectives {
namespace {

// A piece of a copy, for one thread.
constexpr size_t kPieceBytes = 256 << 10;

// Copies that may be done in any order, in pieces, by all threads.
class Copies {
 public:
  void Add(void* to, const void* from, size_t size) {
    if (to == from) return;
    for (size_t done = 0; done < size; done += kPieceBytes) {
      pieces_.push_back({static_cast<char*>(to) + done, static_cast<const char*>(from) + done,
                         std::min(kPieceBytes, size - done)});
      total_ += static_cast<int64_t>(pieces_.back().size);
    }
  }
  void Run() const {
    const auto count = static_cast<int64_t>(pieces_.size());
    ParallelFor(count, total_ <= static_cast<int64_t>(2 * kPieceBytes) ? count : 1,
                [this](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const Piece& piece = pieces_[static_cast<size_t>(i)];
                    std::memcpy(piece.to, piece.from, piece.size);
                  }
                });
  }

 private:
  struct Piece {
    char* to;
    const char* from;
    size_t size;
  };
  std::vector<Piece> pieces_;
  int64_t total_ = 0;
};

// all-gather and all-to-all: blocks move, and change nothing.
template <bool kSplits>
class Blocks final : public Collective {
 public:
  Status Read(const LibraryCallSignature& signature, int64_t size) {
    TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
    for (size_t i = 0; i < signature.operands.size(); ++i) {
      const Shape& operand = signature.operands[i].shape;
      const Shape& result = signature.results[i];
      TRIPONT_RETURN_IF_ERROR(CheckBlocks(result, operand, kSplits ? 1 : size));
      if (kSplits && (size < 1 || operand.ElementCount() % size != 0))
        return InvalidArgument(operand, " cannot be split into ", size);
      TRIPONT_ASSIGN_OR_RETURN(const size_t bytes, result.ByteSize());
      block_bytes_.push_back(bytes / static_cast<size_t>(size));
    }
    return OkStatus();
  }

 protected:
  Status Exchange(const std::vector<int64_t>& /*members*/, Group& group) const override {
    Copies copies;
    for (size_t i = 0; i < block_bytes_.size(); ++i) {
      const size_t bytes = block_bytes_[i];
      for (const size_t q : group.local()) {
        for (const size_t r : group.local()) {
          copies.Add(group.Result(q, i) + r * bytes,
                     group.Operand(r, i) + (kSplits ? q * bytes : 0), bytes);
        }
      }
      if constexpr (kSplits) {
        for (const size_t q : group.remote()) {
          for (const size_t r : group.local())
            group.Send(group.ProcessOf(q), group.Operand(r, i) + q * bytes, bytes);
        }
        for (const size_t q : group.local()) {
          for (const size_t r : group.remote())
            group.Receive(group.ProcessOf(r), group.Result(q, i) + r * bytes, bytes);
        }
        continue;
      }
      // A process is sent each block once, for all its members.
      for (const int process : group.OtherProcesses()) {
        for (const size_t r : group.local()) group.Send(process, group.Operand(r, i), bytes);
      }
      for (const size_t r : group.remote()) {
        group.Receive(group.ProcessOf(r), group.Result(group.local()[0], i) + r * bytes, bytes);
      }
    }
    copies.Run();
    TRIPONT_RETURN_IF_ERROR(group.Run());
    if constexpr (!kSplits) {
      Copies more;
      for (size_t i = 0; i < block_bytes_.size(); ++i) {
        for (const size_t q : group.local()) {
          for (const size_t r : group.remote()) {
            const size_t offset = r * block_bytes_[i];
            more.Add(group.Result(q, i) + offset, group.Result(group.local()[0], i) + offset,
                     block_bytes_[i]);
          }
        }
      }
      more.Run();
    }
    return OkStatus();
  }

 private:
  std::vector<size_t> block_bytes_;
};

class CollectivePermute final : public Collective {
 public:
  Status Read(const LibraryCallSignature& signature, int64_t /*size*/) {
    TRIPONT_ASSIGN_OR_RETURN(sources_, signature.attributes.Integers("sources"));
    TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
    for (size_t i = 0; i < signature.operands.size(); ++i) {
      TRIPONT_RETURN_IF_ERROR(CheckBlocks(signature.operands[i].shape, signature.results[i], 1));
      TRIPONT_ASSIGN_OR_RETURN(const size_t bytes, signature.results[i].ByteSize());
      bytes_.push_back(bytes);
    }
    for (const auto& group : groups()) {
      for (const int64_t participant : *group) {
        const Place* const source = FindPlace(SourceOf(participant));
        if (SourceOf(participant) >= 0 && (source == nullptr || source->group != group.get()))
          return InvalidArgument("participant ", participant, " receives from another group");
      }
    }
    return OkStatus();
  }

 protected:
  Status Exchange(const std::vector<int64_t>& members, Group& group) const override {
    Copies copies;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      for (size_t q = 0; q < members.size(); ++q) {
        const Place* const source = FindPlace(SourceOf(members[q]));
        if (source == nullptr) {
          if (group.IsLocal(q)) std::memset(group.Result(q, i), 0, bytes_[i]);
          continue;
        }
        const size_t from = source->position;
        if (group.IsLocal(q) && group.IsLocal(from)) {
          copies.Add(group.Result(q, i), group.Operand(from, i), bytes_[i]);
        } else if (group.IsLocal(q)) {
          group.Receive(group.ProcessOf(from), group.Result(q, i), bytes_[i]);
        } else if (group.IsLocal(from)) {
          group.Send(group.ProcessOf(q), group.Operand(from, i), bytes_[i]);
        }
      }
    }
    copies.Run();
    return group.Run();
  }

 private:
  int64_t SourceOf(int64_t participant) const {
    return participant < static_cast<int64_t>(sources_.size())
               ? sources_[static_cast<size_t>(participant)]
               : -1;
  }
  std::vector<int64_t> sources_;
  std::vector<size_t> bytes_;
};

// ---------------------------------------------------------------------------------------------------------------
// what waits for a collective; replica-id and partition-id

class CollectiveDone final : public LibraryCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature) {
    auto call = std::make_unique<CollectiveDone>();
    TRIPONT_ASSIGN_OR_RETURN(call->meeting_, signature.attributes.Integer("meeting"));
    TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
    if (!signature.operands.empty() || !signature.results.empty())
      return InvalidArgument("expected no operands and no results");
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

  Status Execute(LibraryContext& context, void* const* /*operands*/,
                 void* const* /*results*/) const override {
    return context.has_collectives_in_flight() ? context.collectives_in_flight().Await(meeting_)
                                               : OkStatus();
  }

 private:
  int64_t meeting_ = 0;
};

class DeviceNumber final : public LibraryCall {
 public:
  static StatusOr<std::unique_ptr<LibraryCall>> Make(const LibraryCallSignature& signature) {
    auto call = std::make_unique<DeviceNumber>();
    TRIPONT_ASSIGN_OR_RETURN(const int64_t partition, signature.attributes.Integer("partition"));
    TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
    call->partition_ = partition != 0;
    if (!signature.operands.empty() || signature.results.size() != 1 ||
        !(signature.results[0] == Shape{PrimitiveType::kU32, {}}))
      return InvalidArgument("expected no operands and a result u32[]");
    return std::unique_ptr<LibraryCall>(std::move(call));
  }

  Status Execute(LibraryContext& context, void* const* /*operands*/,
                 void* const* results) const override {
    const Participation* const self = context.participation();
    if (self == nullptr) {
      return FailedPrecondition("a program for several devices needs to know on which it runs");
    }
    *static_cast<uint32_t*>(results[0]) =
        static_cast<uint32_t>(partition_ ? self->partition : self->replica);
    return OkStatus();
  }

 private:
  bool partition_ = false;
};

}  // namespace

void RegisterExchanges(LibraryRegistry& registry) {
  registry.Register("all-gather", Collective::Make<Blocks<false>>);
  registry.Register("all-to-all", Collective::Make<Blocks<true>>);
  registry.Register("collective-permute", Collective::Make<CollectivePermute>);
  registry.Register("collective-done", CollectiveDone::Make);
  registry.Register("device-number", DeviceNumber::Make);
}

}  // namespace tripont::collectives
