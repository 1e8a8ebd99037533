#include "core/runtime/thunk_sequence.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>

#include "core/runtime/device.h"
#include "core/runtime/profile.h"

namespace tripont {
namespace {

// What a thunk costs besides its work, and what copying costs (10 GB/s): rough, they only choose
// where a program runs.
constexpr double kThunkNs = 10;
constexpr double kCopyNsPerByte = 0.1;
// Things that library calls in a device's queue may keep alive before they are waited for.
constexpr size_t kMostKept = 32;
// Argument tables up to this many pointers live on the stack.
constexpr size_t kStackArguments = 256;

}  // namespace

struct LoadedProgram::State {
  void* const* bases;
  void** arguments;  // room for max_arguments_ pointers
  const LibraryContext& context;
  DeviceQueue& queue;
  Profiler* profiler;  // null: thunks are not timed

  // Until what was enqueued is done: the host reads what kernels wrote.
  Status Wait() const {
    Status status = queue.Wait();
    context.ReleaseKept();
    return status;
  }
};

StatusOr<std::unique_ptr<LoadedProgram>> LoadedProgram::Load(const Artifact& artifact,
                                                             Backend& backend) {
  std::unique_ptr<LoadedProgram> program(new LoadedProgram(artifact, backend));
  static std::atomic<int64_t> loaded{0};
  program->number_ = loaded.fetch_add(1, std::memory_order_relaxed) + 1;
  TRIPONT_ASSIGN_OR_RETURN(program->code_, backend.Load(artifact));
  const size_t constants_size = (artifact.constants.size() + 63) / 64 * 64;
  if (constants_size > 0) {
    program->constants_ = static_cast<char*>(program->constants_source_ != nullptr
                                                 ? program->constants_source_->Map(constants_size)
                                                 : std::aligned_alloc(64, constants_size));
    if (program->constants_ == nullptr) {
      return ResourceExhausted("no memory for ", constants_size, " bytes of constants");
    }
    std::memcpy(program->constants_, artifact.constants.data(), artifact.constants.size());
    std::memset(program->constants_ + artifact.constants.size(), 0,
                constants_size - artifact.constants.size());
  }
  program->constant_bases_.resize(artifact.allocations.size());
  program->temp_offsets_.resize(artifact.allocations.size(), -1);
  // A constant of no bytes may stand at the very end: it needs some address.
  alignas(64) static char empty[64];
  for (size_t i = 0; i < artifact.allocations.size(); ++i) {
    const Allocation& allocation = artifact.allocations[i];
    if (allocation.kind == AllocationKind::kConstant) {
      program->constant_bases_[i] =
          allocation.size > 0 ? program->constants_ + allocation.offset : empty;
    } else if (allocation.kind == AllocationKind::kTemp) {
      program->temp_offsets_[i] = static_cast<int64_t>(program->temp_size_);
      program->temp_size_ += (static_cast<size_t>(allocation.size) + 63) / 64 * 64;
    }
  }
  TRIPONT_ASSIGN_OR_RETURN(program->thunks_,
                           program->LoadSequence(artifact.thunks, &program->cost_ns_));
  program->DeferResults();
  return program;
}

// The result whose memory `operand` is, as it is; -1: none.
int64_t LoadedProgram::ResultAt(const ArtifactOperand& operand) const {
  const Allocation& allocation = artifact_.allocations[operand.slice.allocation];
  const bool is_result = allocation.kind == AllocationKind::kResult && operand.slice.offset == 0 &&
                         artifact_.results[allocation.index].shape == operand.shape;
  return is_result ? allocation.index : -1;
}

// Takes out the calls that write a result, which nothing else reads or writes, in another order
// than another result has it.
void LoadedProgram::DeferResults() {
  std::vector<uint32_t> uses(artifact_.allocations.size());
  for (const CompactSlice& slice : slices_) ++uses[slice.allocation];
  size_t kept = 0;
  for (size_t i = 0; i < thunks_.size(); ++i) {
    const ArtifactThunk& thunk = artifact_.thunks[i];
    if (thunk.kind == ArtifactThunk::Kind::kLibraryCall) {
      const std::span<const int64_t> strides = thunks_[i].call->DeferredStrides();
      const int64_t source = strides.empty() ? -1 : ResultAt(thunk.operands[0]);
      const int64_t result = source < 0 ? -1 : ResultAt(thunk.results[0]);
      if (result >= 0) {
        const uint32_t target = thunk.results[0].slice.allocation;
        if (artifact_.allocations[target].aliased_parameter < 0 && uses[target] == 1 &&
            artifact_.results[result].memory_kind == artifact_.results[source].memory_kind) {
          deferred_results_.push_back({static_cast<size_t>(result),
                                       static_cast<size_t>(source),
                                       {strides.begin(), strides.end()}});
          cost_ns_ -= thunk.cost_ns + kThunkNs;
          continue;
        }
      }
    }
    if (kept != i) thunks_[kept] = std::move(thunks_[i]);
    ++kept;
  }
  thunks_.resize(kept);
}

LoadedProgram::~LoadedProgram() {
  if (constants_source_ == nullptr) {
    std::free(constants_);
  } else if (constants_ != nullptr) {
    constants_source_->Unmap(constants_, (artifact_.constants.size() + 63) / 64 * 64);
  }
}

void LoadedProgram::AddSlice(LoadedThunk& thunk, const Slice& slice) {
  if (thunk.num_slices == 0) thunk.first_slice = static_cast<uint32_t>(slices_.size());
  slices_.push_back({slice.allocation, slice.offset});
  ++thunk.num_slices;
  max_arguments_ = std::max<size_t>(max_arguments_, thunk.num_slices);
}

StatusOr<LoadedSequence> LoadedProgram::LoadSequence(const std::vector<ArtifactThunk>& thunks,
                                                     double* cost_ns) {
  LoadedSequence sequence;
  sequence.reserve(thunks.size());
  for (const ArtifactThunk& thunk : thunks) {
    LoadedThunk& loaded = sequence.emplace_back();
    loaded.kind = thunk.kind;
    loaded.number = num_thunks_++;
    loaded.debug = thunk.debug;
    *cost_ns += kThunkNs;
    switch (thunk.kind) {
      case ArtifactThunk::Kind::kKernel: {
        TRIPONT_ASSIGN_OR_RETURN(loaded.kernel, code_->FindKernel(thunk.function));
        loaded.work_count = thunk.work_count;
        loaded.grain = std::max<int64_t>(thunk.grain, 1);
        for (const Slice& slice : thunk.arguments) AddSlice(loaded, slice);
        *cost_ns += thunk.cost_ns;
        break;
      }
      case ArtifactThunk::Kind::kCopy:
        AddSlice(loaded, thunk.destination);
        AddSlice(loaded, thunk.source);
        loaded.size = thunk.source.size;
        *cost_ns += kCopyNsPerByte * static_cast<double>(loaded.size);
        break;
      case ArtifactThunk::Kind::kWhile: {
        AddSlice(loaded, thunk.source);
        loaded.trip_count = thunk.trip_count;
        host_uses_temporaries_ |= thunk.trip_count < 0;
        double once = 0;
        for (const auto& body : thunk.bodies) {
          TRIPONT_ASSIGN_OR_RETURN(LoadedSequence inner, LoadSequence(body, &once));
          loaded.bodies.push_back(std::move(inner));
        }
        *cost_ns += thunk.trip_count < 0 ? std::numeric_limits<double>::infinity()
                                         : once * static_cast<double>(thunk.trip_count);
        break;
      }
      case ArtifactThunk::Kind::kConditional: {
        AddSlice(loaded, thunk.source);
        loaded.selector_is_pred = thunk.selector_is_pred;
        host_uses_temporaries_ = true;
        double longest = 0;
        for (const auto& body : thunk.bodies) {
          double branch = 0;
          TRIPONT_ASSIGN_OR_RETURN(LoadedSequence inner, LoadSequence(body, &branch));
          loaded.bodies.push_back(std::move(inner));
          longest = std::max(longest, branch);
        }
        *cost_ns += longest;
        break;
      }
      case ArtifactThunk::Kind::kLibraryCall:
        if (const Status status = LoadLibraryCall(thunk, loaded); !status.ok()) {
          return status.WithPrefix(StrCat(CallName(thunk), Describe(thunk.debug)));
        }
        *cost_ns += thunk.cost_ns;
        break;
    }
  }
  return sequence;
}

std::string LoadedProgram::CallName(const ArtifactThunk& thunk) {
  return thunk.name == "custom-call" ? "custom call" : StrCat("library call ", thunk.name);
}

Status LoadedProgram::LoadLibraryCall(const ArtifactThunk& thunk, LoadedThunk& loaded) {
  const LibraryFactory factory = LibraryRegistry::Global().Find(thunk.name);
  if (factory == nullptr)
    return Unimplemented("this version of tripont has no library call of that name");
  LibraryCallSignature signature;
  signature.name = thunk.name;
  signature.debug = Describe(thunk.debug);
  signature.backend = &backend_;
  for (const ArtifactOperand& operand : thunk.operands) {
    const void* const base = constant_bases_[operand.slice.allocation];
    signature.operands.push_back(
        {operand.shape,
         base == nullptr ? nullptr : static_cast<const char*>(base) + operand.slice.offset});
    AddSlice(loaded, operand.slice);
  }
  loaded.num_operands = static_cast<uint32_t>(thunk.operands.size());
  for (const ArtifactOperand& result : thunk.results) {
    signature.results.push_back(result.shape);
    AddSlice(loaded, result.slice);
  }
  for (const auto& [name, attribute] : thunk.attributes) {
    if (signature.attributes.Has(name))
      return InvalidArgument("attribute ", name, " is there twice");
    if (const auto* const offset = std::get_if<FunctionOffset>(&attribute)) {
      const void* const function = code_->HostFunction(offset->offset);
      if (function == nullptr) {
        return InvalidArgument("function at ", offset->offset, " is outside the host's code");
      }
      signature.attributes.Add(name, function);
      continue;
    }
    signature.attributes.Add(
        name, std::visit(
                  [&](const auto& value) -> LibraryAttributes::Value {
                    if constexpr (std::is_same_v<decltype(value), const FunctionOffset&>) {
                      return nullptr;
                    } else {
                      return value;
                    }
                  },
                  attribute));
  }
  TRIPONT_ASSIGN_OR_RETURN(loaded.call, factory(signature));
  TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
  has_callbacks_ |= loaded.call->IsCallback();
  host_uses_temporaries_ |= !loaded.call->UsesQueue();
  if (loaded.call->NeedsPrepare()) {
    prepared_calls_.push_back(
        {loaded.call.get(), loaded.first_slice, loaded.num_slices, loaded.num_operands});
  }
  if (loaded.call->IsCollective()) collectives_ += loaded.call->Description();
  return OkStatus();
}

std::string LoadedProgram::Describe(int32_t debug) const {
  if (debug < 0) return "";
  const ArtifactDebugInfo& info = artifact_.debug[debug];
  std::string text = StrCat(" ", info.name);
  if (!info.op_name.empty()) text += StrCat(" (", info.op_name, ")");
  if (!info.source_file.empty()) text += StrCat(" at ", info.source_file, ":", info.source_line);
  return text;
}

inline void* LoadedProgram::Resolve(const State& state, uint32_t slice) const {
  const CompactSlice& compact = slices_[slice];
  return static_cast<char*>(state.bases[compact.allocation]) + compact.offset;
}

Status LoadedProgram::Run(void* const* bases, const LibraryContext& context) const {
  void* stack[kStackArguments];
  std::unique_ptr<void*[]> heap;
  if (max_arguments_ > kStackArguments) heap.reset(new void*[max_arguments_]);
  const std::shared_ptr<Profiler> profiler = ActiveProfiler();
  const State state{bases, heap ? heap.get() : stack, context, context.device()->queue(),
                    profiler.get()};
  if (!prepared_calls_.empty()) TRIPONT_RETURN_IF_ERROR(Prepare(state));
  if (profiler == nullptr) [[likely]] {
    return RunSequence<false>(thunks_, state);
  }
  const int64_t start = ProfileClockNs();
  TRIPONT_RETURN_IF_ERROR(RunSequence<true>(thunks_, state));
  profiler->RecordExecution(
      {&artifact_, number_, context.device()->id(), context.caller(), start, ProfileClockNs()});
  return OkStatus();
}

template <bool kProfiled>
Status LoadedProgram::RunSequence(const LoadedSequence& sequence, const State& state) const {
  for (const LoadedThunk& thunk : sequence) {
    if constexpr (kProfiled) {
      const int64_t start = ProfileClockNs();
      TRIPONT_RETURN_IF_ERROR(RunThunk<true>(thunk, state));
      TRIPONT_RETURN_IF_ERROR(state.Wait());
      state.profiler->RecordThunk({&artifact_, number_, thunk.number, thunk.debug, thunk.kind,
                                   state.context.device()->id(), start, ProfileClockNs()});
    } else {
      TRIPONT_RETURN_IF_ERROR(RunThunk<false>(thunk, state));
    }
  }
  return OkStatus();
}

template <bool kProfiled>
[[gnu::always_inline]] inline Status LoadedProgram::RunThunk(const LoadedThunk& thunk,
                                                             const State& state) const {
  switch (thunk.kind) {
    case ArtifactThunk::Kind::kKernel: {
      void** const arguments = state.arguments;
      for (uint32_t i = 0; i < thunk.num_slices; ++i)
        arguments[i] = Resolve(state, thunk.first_slice + i);
      const Status status = code_->Launch(state.queue, thunk.kernel, arguments, thunk.num_slices,
                                          thunk.work_count, thunk.grain);
      if (!status.ok()) return status.WithPrefix(StrCat("kernel", Describe(thunk.debug)));
      break;
    }
    case ArtifactThunk::Kind::kCopy:
      TRIPONT_RETURN_IF_ERROR(state.queue.Copy(Resolve(state, thunk.first_slice),
                                               Resolve(state, thunk.first_slice + 1), thunk.size));
      break;
    case ArtifactThunk::Kind::kWhile: {
      const LoadedSequence& body = thunk.bodies[1];
      if (thunk.trip_count >= 0) {
        for (int64_t i = 0; i < thunk.trip_count; ++i)
          TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(body, state));
        break;
      }
      const auto* const predicate =
          static_cast<const volatile uint8_t*>(Resolve(state, thunk.first_slice));
      while (true) {
        TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(thunk.bodies[0], state));
        TRIPONT_RETURN_IF_ERROR(state.Wait());
        if (*predicate == 0) break;
        TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(body, state));
      }
      break;
    }
    case ArtifactThunk::Kind::kConditional: {
      TRIPONT_RETURN_IF_ERROR(state.Wait());
      const void* const selector = Resolve(state, thunk.first_slice);
      size_t branch;
      if (thunk.selector_is_pred) {
        branch = *static_cast<const uint8_t*>(selector) != 0 ? 0 : 1;
      } else {
        int32_t index;
        std::memcpy(&index, selector, sizeof(index));
        const size_t last = thunk.bodies.size() - 1;
        branch = index < 0 || static_cast<size_t>(index) > last ? last : static_cast<size_t>(index);
      }
      TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(thunk.bodies[branch], state));
      break;
    }
    case ArtifactThunk::Kind::kLibraryCall:
      TRIPONT_RETURN_IF_ERROR(RunLibraryCall(thunk, state));
      break;
  }
  return OkStatus();
}

Status LoadedProgram::RunLibraryCall(const LoadedThunk& thunk, const State& state) const {
  // Calls that do not use the device's queue run on the host, on memory that it shares with the
  // device. And a loop must not pile up scratch memory.
  if (!thunk.call->UsesQueue() || state.context.num_kept_until_done() >= kMostKept)
    TRIPONT_RETURN_IF_ERROR(state.Wait());
  void** const arguments = state.arguments;
  for (uint32_t i = 0; i < thunk.num_slices; ++i)
    arguments[i] = Resolve(state, thunk.first_slice + i);
  Status status;
  // The libraries behind these calls are C++: what they throw ends here.
  try {
    status = thunk.call->Execute(state.context, arguments, arguments + thunk.num_operands);
  } catch (const std::bad_alloc&) {
    status = ResourceExhausted("out of memory");
  } catch (const std::exception& error) {
    status = Internal(error.what());
  }
  return status.ok() ? status : status.WithPrefix(StrCat("call", Describe(thunk.debug)));
}

Status LoadedProgram::Prepare(const State& state) const {
  for (const PrepareStep step : {PrepareStep::kPrepare, PrepareStep::kInitialize}) {
    for (const PreparedCall& call : prepared_calls_) {
      void** const arguments = state.arguments;
      for (uint32_t i = 0; i < call.num_slices; ++i)
        arguments[i] = Resolve(state, call.first_slice + i);
      TRIPONT_RETURN_IF_ERROR(
          call.call->Prepare(state.context, step, arguments, arguments + call.num_operands));
    }
  }
  return OkStatus();
}

// ---------------------------------------------------------------------------------------------------------------
// text

namespace {

void WriteSlice(std::ostringstream& out, const Slice& slice) {
  out << slice.allocation << "[" << slice.offset << ",+" << slice.size << "]";
}

void WriteSequence(std::ostringstream& out, const Artifact& artifact,
                   const std::vector<ArtifactThunk>& thunks, int indent) {
  const std::string margin(static_cast<size_t>(indent) * 2, ' ');
  for (const ArtifactThunk& thunk : thunks) {
    out << margin;
    const std::string name = thunk.debug >= 0 ? " " + artifact.debug[thunk.debug].name : "";
    switch (thunk.kind) {
      case ArtifactThunk::Kind::kKernel:
        out << "kernel" << name << " function=" << thunk.function << " work=" << thunk.work_count
            << " grain=" << thunk.grain << " cost_ns=" << thunk.cost_ns << " (";
        for (size_t i = 0; i < thunk.arguments.size(); ++i) {
          if (i > 0) out << ", ";
          WriteSlice(out, thunk.arguments[i]);
        }
        out << ")\n";
        break;
      case ArtifactThunk::Kind::kCopy:
        out << "copy" << name << " ";
        WriteSlice(out, thunk.destination);
        out << " <- ";
        WriteSlice(out, thunk.source);
        out << "\n";
        break;
      case ArtifactThunk::Kind::kWhile:
        out << "while" << name << " predicate=";
        WriteSlice(out, thunk.source);
        out << " trip_count=" << thunk.trip_count << "\n" << margin << "condition:\n";
        WriteSequence(out, artifact, thunk.bodies[0], indent + 1);
        out << margin << "body:\n";
        WriteSequence(out, artifact, thunk.bodies[1], indent + 1);
        break;
      case ArtifactThunk::Kind::kConditional:
        out << "conditional" << name << " selector=";
        WriteSlice(out, thunk.source);
        out << "\n";
        for (size_t i = 0; i < thunk.bodies.size(); ++i) {
          out << margin << "branch " << i << ":\n";
          WriteSequence(out, artifact, thunk.bodies[i], indent + 1);
        }
        break;
      case ArtifactThunk::Kind::kLibraryCall: {
        out << "library-call " << thunk.name << name << " (";
        const auto write_operands = [&](const std::vector<ArtifactOperand>& operands) {
          for (size_t i = 0; i < operands.size(); ++i) {
            if (i > 0) out << ", ";
            out << operands[i].shape << " ";
            WriteSlice(out, operands[i].slice);
          }
        };
        write_operands(thunk.operands);
        out << ") -> (";
        write_operands(thunk.results);
        out << ")";
        for (const auto& [key, value] : thunk.attributes) out << " " << key;
        out << "\n";
        break;
      }
    }
  }
}

}  // namespace

std::string ThunkSequenceText(const Artifact& artifact) {
  std::ostringstream out;
  WriteSequence(out, artifact, artifact.thunks, 0);
  return std::move(out).str();
}

}  // namespace tripont
