// The collectives that compute: "all-reduce" and "reduce-scatter" (library/collectives.cc says what they are).
//
// "reduction" is a kernel (core/compiler/formats/artifact.py) of "reduction_work" units that takes two
// arrays of kReductionElements elements and gives a third, which may be the first.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "core/runtime/code_image.h"
#include "core/runtime/library/calls.h"
#include "core/runtime/library/collective_call.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"

namespace tripont::collectives {
namespace {

// Elements that one call of a reduction's kernel reduces: REDUCTION_ELEMENTS in
// core/compiler/passes/collectives.py.
constexpr int64_t kReductionElements = 1024;
constexpr size_t kLargestElement = 16;
// A piece of work for one thread: small enough to stay in a core's cache between the reduction and
// the copies of its result.
constexpr int64_t kPieceElements = 16 * kReductionElements;
// Operands of an all-reduce that are exchanged together: two rounds for most steps of training, and
// scratch memory that does not grow with the model.
constexpr size_t kTogetherBytes = size_t{64} << 20;

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

}  // namespace

void RegisterReductions(LibraryRegistry& registry) {
  registry.Register("all-reduce", Collective::Make<AllReduce>);
  registry.Register("reduce-scatter", Collective::Make<ReduceScatter>);
}

}  // namespace tripont::collectives
