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
// that is split or joined to the front. "reduction" is a kernel (core/compiler/formats/artifact.py) of
// "reduction_work" units that takes two arrays of kReductionElements elements and gives a third,
// which may be the first.
//
// Groups whose members are of several processes exchange what they need through hosts::Exchange,
// and compute in the same order as those of one process: the results have the same bits.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "core/runtime/code_image.h"
#include "core/runtime/collectives.h"
#include "core/runtime/device.h"
#include "core/runtime/hosts/exchange.h"
#include "core/runtime/library/calls.h"
#include "core/runtime/library/registry.h"

namespace tripont {
namespace {

// Elements that one call of a reduction's kernel reduces: REDUCTION_ELEMENTS in
// core/compiler/passes/collectives.py.
constexpr int64_t kReductionElements = 1024;
constexpr size_t kLargestElement = 16;
// A piece of work for one thread: small enough to stay in a core's cache between the reduction and
// the copies of its result.
constexpr int64_t kPieceElements = 16 * kReductionElements;
constexpr size_t kPieceBytes = 256 << 10;
// Operands of an all-reduce that are exchanged together: two rounds for most steps of training, and
// scratch memory that does not grow with the model.
constexpr size_t kTogetherBytes = size_t{64} << 20;

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

struct Reduction {
  KernelFunction function = nullptr;
  int64_t work = 0;
  size_t element_size = 0;

  void Call(const char* a, const char* b, char* result) const {
    void* const arguments[] = {const_cast<char*>(a), const_cast<char*>(b), result};
    function(arguments, 0, work);
  }

  // target[0] = source[0] op source[1] op ..., the other targets get copies. A target may be the
  // source at the same position.
  void Run(std::span<const char* const> sources, std::span<char* const> targets,
           int64_t elements) const {
    const int64_t pieces = (elements + kPieceElements - 1) / kPieceElements;
    ParallelFor(pieces, pieces > 2 ? 1 : pieces, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece * kPieceElements;
        const int64_t count = std::min(kPieceElements, elements - first);
        const size_t offset = static_cast<size_t>(first) * element_size;
        char* const result = targets[0] + offset;
        ReducePiece(sources[0] + offset, sources[1] + offset, result, count);
        for (size_t i = 2; i < sources.size(); ++i) {
          ReducePiece(result, sources[i] + offset, result, count);
        }
        for (size_t i = 1; i < targets.size(); ++i) {
          std::memcpy(targets[i] + offset, result, static_cast<size_t>(count) * element_size);
        }
      }
    });
  }

 private:
  void ReducePiece(const char* a, const char* b, char* result, int64_t count) const {
    const size_t step = static_cast<size_t>(kReductionElements) * element_size;
    for (; count >= kReductionElements; count -= kReductionElements) {
      Call(a, b, result);
      a += step;
      b += step;
      result += step;
    }
    if (count == 0) return;
    // The kernel knows one size: what is left gets there in arrays of that size.
    alignas(64) char padded[3][kReductionElements * kLargestElement];
    const size_t size = static_cast<size_t>(count) * element_size;
    std::memset(padded[0] + size, 0, step - size);
    std::memset(padded[1] + size, 0, step - size);
    std::memcpy(padded[0], a, size);
    std::memcpy(padded[1], b, size);
    Call(padded[0], padded[1], padded[2]);
    std::memcpy(result, padded[2], size);
  }
};

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

// ---------------------------------------------------------------------------------------------------------------
// what all collectives have

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
                 void* const* results) const override {
    const Participation* const self = context.participation();
    if (self == nullptr || !self->launch) return FailedPrecondition("executed without a launch");
    const auto participant = static_cast<size_t>(self->participant);
    if (participant >= places_.size() || places_[participant].group == nullptr)
      return Internal("participant ", participant, " is in none of the groups");
    const Place& place = places_[participant];
    const std::vector<int64_t>& members = *place.group;
    const Placement& placement = self->launch->placement();
    const bool is_across = placement.job != nullptr &&
                           std::any_of(members.begin(), members.end(),
                                       [&](int64_t member) { return !placement.IsLocal(member); });
    // The wire is one more thread than a program with a limit may have.
    const bool begins = asynchronous_ && !ThreadsAreLimited();
    if (!is_across || (!begins && !context.has_collectives_in_flight())) {
      return self->launch->Meet(meeting_, name_, members, place.position, context.device(),
                                {operands, results}, [&](Contributions all) {
                                  if (is_across)
                                    return MeetProcesses(context, *self->launch, members, all,
                                                         nullptr);
                                  Group group(all, context);
                                  return Exchange(members, group);
                                });
    }
    // The wire's thread is the parent's in the child of a fork.
    TRIPONT_RETURN_IF_ERROR(placement.job->CheckNotForked());
    CollectivesInFlight& in_flight = context.collectives_in_flight();
    std::vector<void*> arrays(operands, operands + num_operands_);
    arrays.insert(arrays.end(), results, results + num_results_);
    TRIPONT_RETURN_IF_ERROR(in_flight.Begin(
        meeting_, [this, &context, self, &members, &place, arrays = std::move(arrays)] {
          return self->launch->Meet(meeting_, name_, members, place.position, context.device(),
                                    {arrays.data(), arrays.data() + num_operands_},
                                    [&](Contributions all) {
                                      return MeetProcesses(context, *self->launch, members, all,
                                                           &context.device()->wire().waiting);
                                    });
        }));
    // One that its program waits for at once comes after those that are in flight all the same.
    return begins ? OkStatus() : in_flight.Await(meeting_);
  }

 protected:
  // Does the work of a group, of the participants `members`.
  virtual Status Exchange(const std::vector<int64_t>& members, Group& group) const = 0;

  // Reads the attributes that all collectives have. *size: members of a group; 0 if groups differ.
  Status ReadGroups(const LibraryCallSignature& signature, int64_t* size) {
    name_ = StrCat(signature.name, signature.debug);
    const LibraryAttributes& attributes = signature.attributes;
    TRIPONT_ASSIGN_OR_RETURN(meeting_, attributes.Integer("meeting"));
    TRIPONT_ASSIGN_OR_RETURN(const int64_t asynchronous, attributes.IntegerOr("asynchronous", 0));
    asynchronous_ = asynchronous != 0;
    num_operands_ = signature.operands.size();
    num_results_ = signature.results.size();
    short_name_ = StrCat(signature.name, " ", meeting_);
    TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> members, attributes.Integers("groups"));
    TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, attributes.Integers("group_sizes"));
    auto next = members.begin();
    for (const int64_t count : sizes) {
      if (count < 1 || count > members.end() - next) return InvalidArgument("bad group sizes");
      auto group = std::make_unique<std::vector<int64_t>>(next, next + count);
      next += count;
      for (size_t position = 0; position < group->size(); ++position) {
        const int64_t participant = (*group)[position];
        if (participant < 0 || participant >= kMaxParticipants)
          return InvalidArgument("participant ", participant);
        if (places_.size() <= static_cast<size_t>(participant))
          places_.resize(static_cast<size_t>(participant) + 1);
        Place& place = places_[static_cast<size_t>(participant)];
        if (place.group != nullptr)
          return InvalidArgument("participant ", participant, " is in two groups");
        place = {group.get(), position};
      }
      groups_.push_back(std::move(group));
    }
    if (next != members.end()) return InvalidArgument("bad group sizes");
    TRIPONT_RETURN_IF_ERROR(Describe(signature));
    *size = sizes.empty() ? 0 : sizes[0];
    for (const int64_t count : sizes) {
      if (count != *size) *size = 0;
    }
    return OkStatus();
  }

  struct Place {
    const std::vector<int64_t>* group = nullptr;
    size_t position = 0;
  };
  const Place* FindPlace(int64_t participant) const {
    const bool known = participant >= 0 && static_cast<size_t>(participant) < places_.size() &&
                       places_[static_cast<size_t>(participant)].group != nullptr;
    return known ? &places_[static_cast<size_t>(participant)] : nullptr;
  }
  const std::vector<std::unique_ptr<std::vector<int64_t>>>& groups() const { return groups_; }

 private:
  // All that the programs of two processes must agree on to meet here. Which collectives are joined
  // belongs to it: each process compiles its own program.
  Status Describe(const LibraryCallSignature& signature) {
    const LibraryAttributes& attributes = signature.attributes;
    TRIPONT_ASSIGN_OR_RETURN(const int64_t channel, attributes.Integer("channel"));
    TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> joined, attributes.Integers("members"));
    description_ = signature.name;
    if (attributes.Has("operation")) {
      TRIPONT_ASSIGN_OR_RETURN(const std::string operation, attributes.Bytes("operation"));
      description_ += StrCat(" (", operation, ")");
    }
    description_ += StrCat(" of ", joined.size() == 1 ? "collective " : "collectives ",
                           StrJoin(joined, ", "), " with operands");
    for (const LibraryOperand& operand : signature.operands)
      description_ += StrCat(" ", operand.shape);
    description_ += StrCat(", channel ", channel);
    if (attributes.Has("sources")) {
      TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> sources, attributes.Integers("sources"));
      description_ += StrCat(", from ", StrJoin(sources, ","));
    }
    description_ += ", groups";
    for (const auto& group : groups_) description_ += StrCat(" {", StrJoin(*group, ","), "}");
    description_ += '\n';
    return OkStatus();
  }

  // waiting: how many wait for the result, if that may be none; null if somebody does.
  Status MeetProcesses(LibraryContext& context, const Launch& launch,
                       const std::vector<int64_t>& members, Contributions all,
                       const std::atomic<int>* waiting) const {
    const Placement& placement = launch.placement();
    std::vector<int> devices;
    devices.reserve(members.size());
    for (const int64_t member : members)
      devices.push_back(placement.devices[static_cast<size_t>(member)]);
    const uint64_t identity =
        placement.program + 0x9E3779B97F4A7C15u * static_cast<uint64_t>(meeting_ + 1);
    TRIPONT_ASSIGN_OR_RETURN(
        hosts::Exchange exchange,
        hosts::Exchange::Begin(placement.job, hosts::ChannelUse::kCollectives, devices,
                               StrCat(short_name_, " of program ", launch.program()), identity,
                               launch.timeout_seconds(), waiting, placement.collectives));
    Group group(placement, members, all, std::move(exchange), context);
    return Exchange(members, group);
  }

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

StatusOr<Reduction> ReadReduction(const LibraryCallSignature& signature) {
  Reduction reduction;
  TRIPONT_ASSIGN_OR_RETURN(const void* const function, signature.attributes.Function("reduction"));
  reduction.function = reinterpret_cast<KernelFunction>(const_cast<void*>(function));
  TRIPONT_ASSIGN_OR_RETURN(reduction.work, signature.attributes.Integer("reduction_work"));
  const Shape& shape = signature.operands[0].shape;
  const size_t size = ByteWidth(shape.type);
  if (size == 0 || size > kLargestElement)
    return Unimplemented("element type ", TypeName(shape.type));
  reduction.element_size = size;
  return reduction;
}

// One operand of `whole` = `blocks` times the elements of the one `part`, both of one type.
Status CheckBlocks(const Shape& whole, const Shape& part, int64_t blocks) {
  if (blocks < 1 || whole.type != part.type ||
      whole.ElementCount() != part.ElementCount() * blocks) {
    return InvalidArgument(whole, " is not ", blocks, " times ", part);
  }
  return OkStatus();
}

// ---------------------------------------------------------------------------------------------------------------
// each of them

class AllReduce final : public Collective {
 public:
  Status Read(const LibraryCallSignature& signature, int64_t /*size*/) {
    TRIPONT_ASSIGN_OR_RETURN(reduction_, ReadReduction(signature));
    TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
    for (size_t i = 0; i < signature.operands.size(); ++i) {
      const Shape& shape = signature.operands[i].shape;
      if (!(shape == signature.results[i]) || shape.type != signature.operands[0].shape.type)
        return InvalidArgument("result ", signature.results[i], " of operand ", shape);
      elements_.push_back(shape.ElementCount());
    }
    return OkStatus();
  }

 protected:
  // Small arrays: every process sends its own to all others, and each reduces all. Large ones: each
  // process reduces a part of the elements, which the others send it, and sends them the result.
  Status Exchange(const std::vector<int64_t>& /*members*/, Group& group) const override {
    if (group.remote().empty()) return ReduceHere(group);
    const int64_t elements = std::accumulate(elements_.begin(), elements_.end(), int64_t{0});
    const size_t bytes = static_cast<size_t>(elements) * reduction_.element_size;
    if (bytes * (group.local().size() + group.remote().size()) <= hosts::kPackedBytes)
      return ReduceEverywhere(group, bytes);
    // By sizes alone, so that all processes cut the list at the same places.
    for (size_t first = 0; first < elements_.size();) {
      size_t end = first + 1;
      size_t sum = ByteSize(first);
      while (end < elements_.size() && sum + ByteSize(end) <= kTogetherBytes)
        sum += ByteSize(end++);
      TRIPONT_RETURN_IF_ERROR(ReduceInParts(group, first, end));
      first = end;
    }
    return OkStatus();
  }

 private:
  Status ReduceHere(const Group& group) const {
    const size_t count = group.local().size();
    std::vector<const char*> sources(count);
    std::vector<char*> targets(count);
    for (size_t i = 0; i < elements_.size(); ++i) {
      for (size_t q = 0; q < count; ++q) {
        sources[q] = group.Operand(q, i);
        targets[q] = group.Result(q, i);
      }
      if (count > 1) {
        reduction_.Run(sources, targets, elements_[i]);
      } else {
        ParallelCopy(targets[0], sources[0], ByteSize(i));
      }
    }
    return OkStatus();
  }

  Status ReduceEverywhere(Group& group, size_t bytes) const {
    const size_t count = group.local().size() + group.remote().size();
    // Operands one after the other, each member's at the same distance.
    const size_t distance = bytes + 64 * elements_.size();
    TRIPONT_ASSIGN_OR_RETURN(const Scratch scratch, group.Arrays(count, distance));
    std::vector<std::vector<const char*>> sources(elements_.size(),
                                                  std::vector<const char*>(count));
    for (const size_t q : group.local()) {
      for (size_t i = 0; i < elements_.size(); ++i) {
        sources[i][q] = group.Operand(q, i);
        for (const int process : group.OtherProcesses())
          group.Send(process, sources[i][q], ByteSize(i));
      }
    }
    for (const size_t r : group.remote()) {
      char* next = scratch.as<char>() + r * Group::Padded(distance);
      for (size_t i = 0; i < elements_.size(); ++i) {
        sources[i][r] = next;
        group.Receive(group.ProcessOf(r), next, ByteSize(i));
        next += Group::Padded(ByteSize(i));
      }
    }
    TRIPONT_RETURN_IF_ERROR(group.Run());
    for (size_t i = 0; i < elements_.size(); ++i) {
      std::vector<char*> targets = FirstTarget(group, sources[i]);
      for (const size_t q : group.local()) targets.push_back(group.Result(q, i));
      reduction_.Run(sources[i], targets, elements_[i]);
    }
    return OkStatus();
  }

  // The operands [first, end) together take two rounds, however many they are: the gradients of a
  // training step, or as many of them as kTogetherBytes allows.
  Status ReduceInParts(Group& group, size_t first, size_t end) const {
    const std::vector<int> processes = group.Processes();
    const auto count = static_cast<int64_t>(processes.size());
    const size_t size = reduction_.element_size;
    const size_t self = group.local()[0];
    int64_t own = 0;
    while (processes[static_cast<size_t>(own)] != group.ProcessOf(self)) ++own;
    // Where the part of the n-th process begins in operand i, and how large it is, in bytes.
    const auto begin = [&](size_t i, int64_t n) {
      const int64_t blocks = (elements_[i] + kReductionElements - 1) / kReductionElements;
      return static_cast<size_t>(std::min(elements_[i], blocks * n / count * kReductionElements)) *
             size;
    };
    const auto bytes = [&](size_t i, int64_t n) { return begin(i, n + 1) - begin(i, n); };
    size_t distance = 0;  // of one member's parts from the next one's
    for (size_t i = first; i < end; ++i) distance += Group::Padded(bytes(i, own));
    TRIPONT_ASSIGN_OR_RETURN(const Scratch scratch, group.Arrays(group.remote().size(), distance));
    // sources[i][q]: the part of member q's operand i that this process reduces.
    std::vector<std::vector<const char*>> sources(
        elements_.size(), std::vector<const char*>(group.local().size() + group.remote().size()));
    for (const size_t q : group.local()) {
      for (size_t i = first; i < end; ++i) {
        sources[i][q] = group.Operand(q, i) + begin(i, own);
        for (int64_t n = 0; n < count; ++n) {
          if (n == own) continue;
          group.Send(processes[static_cast<size_t>(n)], group.Operand(q, i) + begin(i, n),
                     bytes(i, n));
        }
      }
    }
    char* next = scratch.as<char>();
    for (const size_t r : group.remote()) {
      for (size_t i = first; i < end; ++i) {
        sources[i][r] = next;
        group.Receive(group.ProcessOf(r), next, bytes(i, own));
        next += Group::Padded(bytes(i, own));
      }
    }
    TRIPONT_RETURN_IF_ERROR(group.Run());
    for (size_t i = first; i < end; ++i) {
      std::vector<char*> targets = FirstTarget(group, sources[i]);
      for (const size_t q : group.local()) targets.push_back(group.Result(q, i) + begin(i, own));
      reduction_.Run(sources[i], targets, static_cast<int64_t>(bytes(i, own) / size));
      char* const result = group.Result(self, i);
      for (int64_t n = 0; n < count; ++n) {
        if (n == own) continue;
        const int process = processes[static_cast<size_t>(n)];
        group.Send(process, result + begin(i, own), bytes(i, own));
        group.Receive(process, result + begin(i, n), bytes(i, n));
      }
    }
    TRIPONT_RETURN_IF_ERROR(group.Run());
    for (const size_t q : group.local()) {
      if (q == self) continue;
      for (size_t i = first; i < end; ++i)
        ParallelCopy(group.Result(q, i), group.Result(self, i), ByteSize(i));
    }
    return OkStatus();
  }

  // A reduction is computed in its first target, which no source but the first may overlap: an
  // operand can be the result of its member. So member 0's array as it was received is the first
  // target, if that member is of another process.
  static std::vector<char*> FirstTarget(const Group& group,
                                        const std::vector<const char*>& sources) {
    if (group.IsLocal(0)) return {};
    return {const_cast<char*>(sources[0])};
  }

  size_t ByteSize(size_t i) const {
    return static_cast<size_t>(elements_[i]) * reduction_.element_size;
  }

  Reduction reduction_;
  std::vector<int64_t> elements_;
};

class ReduceScatter final : public Collective {
 public:
  Status Read(const LibraryCallSignature& signature, int64_t size) {
    TRIPONT_ASSIGN_OR_RETURN(reduction_, ReadReduction(signature));
    TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
    TRIPONT_RETURN_IF_ERROR(CheckBlocks(signature.operands[0].shape, signature.results[0], size));
    block_ = signature.results[0].ElementCount();
    return OkStatus();
  }

 protected:
  Status Exchange(const std::vector<int64_t>& members, Group& group) const override {
    const size_t bytes = static_cast<size_t>(block_) * reduction_.element_size;
    if (members.size() == 1) {
      ParallelCopy(group.Result(0), group.Operand(0), bytes);
      return OkStatus();
    }
    TRIPONT_ASSIGN_OR_RETURN(const Scratch scratch,
                             group.Arrays(group.local().size() * group.remote().size(), bytes));
    for (const size_t q : group.remote()) {
      for (const size_t r : group.local())
        group.Send(group.ProcessOf(q), group.Operand(r, 0) + q * bytes, bytes);
    }
    std::vector<const char*> sources(members.size());
    std::vector<std::vector<const char*>> sources_of;
    char* next = scratch.as<char>();
    for (const size_t q : group.local()) {
      for (const size_t r : group.remote()) {
        sources[r] = next;
        group.Receive(group.ProcessOf(r), next, bytes);
        next += Group::Padded(bytes);
      }
      for (const size_t r : group.local()) sources[r] = group.Operand(r, 0) + q * bytes;
      sources_of.push_back(sources);
    }
    TRIPONT_RETURN_IF_ERROR(group.Run());
    for (size_t n = 0; n < group.local().size(); ++n) {
      char* const target = group.Result(group.local()[n], 0);
      reduction_.Run(sources_of[n], {&target, 1}, block_);
    }
    return OkStatus();
  }

 private:
  Reduction reduction_;
  int64_t block_ = 0;
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

void RegisterCollectives(LibraryRegistry& registry) {
  registry.Register("all-reduce", Collective::Make<AllReduce>);
  registry.Register("reduce-scatter", Collective::Make<ReduceScatter>);
  registry.Register("all-gather", Collective::Make<Blocks<false>>);
  registry.Register("all-to-all", Collective::Make<Blocks<true>>);
  registry.Register("collective-permute", Collective::Make<CollectivePermute>);
  registry.Register("collective-done", CollectiveDone::Make);
  registry.Register("device-number", DeviceNumber::Make);
}

}  // namespace tripont
