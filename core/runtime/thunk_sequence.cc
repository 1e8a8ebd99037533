#include "core/runtime/thunk_sequence.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "core/runtime/device.h"
#include "core/runtime/exceptions.h"
#include "core/runtime/floating_point.h"
#include "core/runtime/profile.h"

namespace tripont {
namespace {

// What a thunk costs besides its work, what other threads cost that share it, and what copying
// costs (10 GB/s): rough, they only choose where a program runs.
constexpr double kThunkNs = 10;
constexpr double kSharingNs = 5000;
constexpr double kCopyNsPerByte = 0.1;
// Things that library calls in a device's queue may keep alive before they are waited for.
constexpr size_t kMostKept = 32;
// Argument tables up to this many pointers live on the stack.
constexpr size_t kStackArguments = 256;

}  // namespace

struct LoadedProgram::State {
  void** bases;
  void** arguments;  // room for max_arguments_ pointers
  LibraryContext& context;
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

// The result whose whole memory `operand` is; -1 if there is none.
int64_t LoadedProgram::ResultAt(const schema::Operand& operand) const {
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
    if (const auto* const call = std::get_if<schema::LibraryCall>(&artifact_.thunks[i])) {
      const std::span<const int64_t> strides =
          std::get<LoadedCall>(thunks_[i].what).call->DeferredStrides();
      const int64_t source = strides.empty() ? -1 : ResultAt(call->operands[0]);
      const int64_t result = source < 0 ? -1 : ResultAt(call->results[0]);
      if (result >= 0) {
        const uint32_t target = call->results[0].slice.allocation;
        if (artifact_.allocations[target].aliased_parameter < 0 && uses[target] == 1 &&
            artifact_.results[result].memory_kind == artifact_.results[source].memory_kind) {
          deferred_results_.push_back({static_cast<size_t>(result),
                                       static_cast<size_t>(source),
                                       {strides.begin(), strides.end()}});
          cost_ns_ -= call->cost_ns + kThunkNs;
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

void LoadedProgram::AddSlice(SliceRange& range, const Slice& slice) {
  if (range.count == 0) range.first = static_cast<uint32_t>(slices_.size());
  slices_.push_back({slice.allocation, slice.offset});
  ++range.count;
  max_arguments_ = std::max<size_t>(max_arguments_, range.count);
}

namespace {

// What a thunk of the artifact becomes: the alternative of the same number.
template <typename T, size_t i = 0>
struct LoadedOf : LoadedOf<T, i + 1> {};
template <typename T, size_t i>
  requires std::is_same_v<T, std::variant_alternative_t<i, schema::Thunk::Union>>
struct LoadedOf<T, i> {
  using Type = std::variant_alternative_t<i, decltype(LoadedThunk::what)>;
};

}  // namespace

StatusOr<LoadedSequence> LoadedProgram::LoadSequence(const std::vector<schema::Thunk>& thunks,
                                                     double* cost_ns) {
  LoadedSequence sequence;
  sequence.reserve(thunks.size());
  deepest_ = std::max(deepest_, ++depth_);
  for (const schema::Thunk& thunk : thunks) {
    LoadedThunk& loaded = sequence.emplace_back();
    loaded.number = num_thunks_++;
    *cost_ns += kThunkNs;
    TRIPONT_RETURN_IF_ERROR(std::visit(
        [&]<typename T>(const T& what) {
          loaded.debug = what.debug;
          return Load(what, loaded.what.emplace<typename LoadedOf<T>::Type>(), cost_ns);
        },
        thunk));
  }
  --depth_;
  return sequence;
}

Status LoadedProgram::Load(const schema::Kernel& thunk, LoadedKernel& loaded, double* cost_ns) {
  TRIPONT_ASSIGN_OR_RETURN(loaded.kernel, code_->FindKernel(thunk.function));
  loaded.work_count = thunk.work_count;
  loaded.grain = std::max<int64_t>(thunk.grain, 1);
  for (const Slice& slice : thunk.arguments) AddSlice(loaded.arguments, slice);
  int64_t sharers = code_->Sharers(loaded.work_count, loaded.grain);
  if (artifact_.num_threads > 0) sharers = std::min(sharers, artifact_.num_threads);
  *cost_ns +=
      sharers > 1 ? thunk.cost_ns / static_cast<double>(sharers) + kSharingNs : thunk.cost_ns;
  return OkStatus();
}

Status LoadedProgram::Load(const schema::Copy& thunk, LoadedCopy& loaded, double* cost_ns) {
  AddSlice(loaded.slices, thunk.destination);
  AddSlice(loaded.slices, thunk.source);
  loaded.size = thunk.source.size;
  *cost_ns += kCopyNsPerByte * static_cast<double>(loaded.size);
  return OkStatus();
}

Status LoadedProgram::Load(const schema::While& thunk, LoadedWhile& loaded, double* cost_ns) {
  AddSlice(loaded.predicate, thunk.predicate);
  loaded.trip_count = thunk.trip_count;
  host_uses_temporaries_ |= thunk.trip_count < 0;
  double once = 0;
  TRIPONT_ASSIGN_OR_RETURN(loaded.condition, LoadSequence(thunk.condition, &once));
  TRIPONT_ASSIGN_OR_RETURN(loaded.body, LoadSequence(thunk.body, &once));
  *cost_ns += thunk.trip_count < 0 ? std::numeric_limits<double>::infinity()
                                   : once * static_cast<double>(thunk.trip_count);
  return OkStatus();
}

Status LoadedProgram::Load(const schema::Conditional& thunk, LoadedConditional& loaded,
                           double* cost_ns) {
  AddSlice(loaded.selector, thunk.selector);
  loaded.selector_is_pred = thunk.selector_is_pred;
  host_uses_temporaries_ = true;
  double longest = 0;
  for (const auto& thunks : thunk.branches) {
    double branch = 0;
    TRIPONT_ASSIGN_OR_RETURN(LoadedSequence inner, LoadSequence(thunks, &branch));
    const bool may_run = thunk.usual < 0 || std::cmp_equal(thunk.usual, loaded.branches.size());
    loaded.branches.push_back(std::move(inner));
    if (may_run) longest = std::max(longest, branch);
  }
  *cost_ns += longest;
  return OkStatus();
}

Status LoadedProgram::Load(const schema::LibraryCall& thunk, LoadedCall& loaded, double* cost_ns) {
  *cost_ns += thunk.cost_ns;
  Status status = MakeCall(thunk, loaded);
  if (status.ok()) return status;
  const std::string name =
      thunk.name == "custom-call" ? "custom call" : StrCat("library call ", thunk.name);
  return status.WithPrefix(StrCat(name, Describe(thunk.debug)));
}

Status LoadedProgram::Load(const schema::View& thunk, LoadedView& loaded, double*) {
  loaded.view = thunk.view.allocation;
  AddSlice(loaded.slices, thunk.source);
  for (const schema::Stride& stride : thunk.strides) {
    AddSlice(loaded.slices, stride.index);
    loaded.strides.push_back({stride.index.size == sizeof(int64_t), stride.limit, stride.stride});
    host_uses_temporaries_ = true;
  }
  views_.push_back({loaded.view, loaded.slices.first});
  return OkStatus();
}

Status LoadedProgram::MakeCall(const schema::LibraryCall& thunk, LoadedCall& loaded) {
  const LibraryFactory factory = LibraryRegistry::Global().Find(thunk.name);
  if (factory == nullptr)
    return Unimplemented("this version of tripont has no library call of that name");
  LibraryCallSignature signature;
  signature.name = thunk.name;
  signature.debug = Describe(thunk.debug);
  signature.backend = &backend_;
  for (const schema::Operand& operand : thunk.operands) {
    const void* const base = constant_bases_[operand.slice.allocation];
    signature.operands.push_back(
        {operand.shape,
         base == nullptr ? nullptr : static_cast<const char*>(base) + operand.slice.offset});
    AddSlice(loaded.slices, operand.slice);
  }
  loaded.num_operands = static_cast<uint32_t>(thunk.operands.size());
  for (const schema::Operand& result : thunk.results) {
    signature.results.push_back(result.shape);
    AddSlice(loaded.slices, result.slice);
  }
  for (const auto& [name, attribute] : thunk.attributes) {
    if (signature.attributes.Has(name))
      return InvalidArgument("attribute ", name, " is there twice");
    if (const auto* const offset = std::get_if<schema::FunctionOffset>(&attribute)) {
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
                    if constexpr (std::is_same_v<decltype(value), const schema::FunctionOffset&>) {
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
    prepared_calls_.push_back({loaded.call.get(), loaded.slices, loaded.num_operands});
  }
  if (loaded.call->IsCollective()) collectives_ += loaded.call->Description();
  return OkStatus();
}

std::string LoadedProgram::Describe(int32_t debug) const {
  if (debug < 0) return "";
  const schema::DebugInfo& info = artifact_.debug[debug];
  std::string text = StrCat(" ", info.name);
  if (!info.op_name.empty()) text += StrCat(" (", info.op_name, ")");
  if (!info.source_file.empty()) text += StrCat(" at ", info.source_file, ":", info.source_line);
  return text;
}

inline void* LoadedProgram::Resolve(const State& state, uint32_t slice) const {
  const CompactSlice& compact = slices_[slice];
  return static_cast<char*>(state.bases[compact.allocation]) + compact.offset;
}

void** LoadedProgram::ResolveAll(const State& state, SliceRange slices) const {
  for (uint32_t i = 0; i < slices.count; ++i) state.arguments[i] = Resolve(state, slices.first + i);
  return state.arguments;
}

Status LoadedProgram::Run(void** bases, LibraryContext& context) const {
  const StandardFloatingPoint modes;
  void* stack[kStackArguments];
  std::unique_ptr<void*[]> heap;
  if (max_arguments_ > kStackArguments) heap.reset(new void*[max_arguments_]);
  const std::shared_ptr<Profiler> profiler = ActiveProfiler();
  const State state{bases, heap ? heap.get() : stack, context, context.device()->queue(),
                    profiler.get()};
  // A call that prepares itself sees an array that is there.
  for (const ViewSource& view : views_) bases[view.view] = Resolve(state, view.source);
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
      state.profiler->RecordThunk({&artifact_, number_, thunk.number, thunk.debug,
                                   static_cast<schema::ThunkKind>(thunk.what.index()),
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
  return std::visit([&](const auto& what) { return Run<kProfiled>(what, thunk.debug, state); },
                    thunk.what);
}

template <bool kProfiled>
[[gnu::always_inline]] inline Status LoadedProgram::Run(const LoadedKernel& kernel, int32_t debug,
                                                        const State& state) const {
  void** const arguments = ResolveAll(state, kernel.arguments);
  const Status status = code_->Launch(state.queue, kernel.kernel, arguments, kernel.arguments.count,
                                      kernel.work_count, kernel.grain);
  if (!status.ok()) return status.WithPrefix(StrCat("kernel", Describe(debug)));
  return OkStatus();
}

template <bool kProfiled>
Status LoadedProgram::Run(const LoadedCopy& copy, int32_t, const State& state) const {
  return state.queue.Copy(Resolve(state, copy.slices.first), Resolve(state, copy.slices.first + 1),
                          copy.size);
}

template <bool kProfiled>
Status LoadedProgram::Run(const LoadedWhile& loop, int32_t, const State& state) const {
  if (loop.trip_count >= 0) {
    for (int64_t i = 0; i < loop.trip_count; ++i)
      TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(loop.body, state));
    return OkStatus();
  }
  const auto* const predicate =
      static_cast<const volatile uint8_t*>(Resolve(state, loop.predicate.first));
  while (true) {
    TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(loop.condition, state));
    TRIPONT_RETURN_IF_ERROR(state.Wait());
    if (*predicate == 0) return OkStatus();
    TRIPONT_RETURN_IF_ERROR(RunSequence<kProfiled>(loop.body, state));
  }
}

template <bool kProfiled>
Status LoadedProgram::Run(const LoadedConditional& conditional, int32_t, const State& state) const {
  TRIPONT_RETURN_IF_ERROR(state.Wait());
  const void* const selector = Resolve(state, conditional.selector.first);
  size_t branch;
  if (conditional.selector_is_pred) {
    branch = *static_cast<const uint8_t*>(selector) != 0 ? 0 : 1;
  } else {
    int32_t index;
    std::memcpy(&index, selector, sizeof(index));
    const size_t last = conditional.branches.size() - 1;
    branch = index < 0 || static_cast<size_t>(index) > last ? last : static_cast<size_t>(index);
  }
  return RunSequence<kProfiled>(conditional.branches[branch], state);
}

template <bool kProfiled>
Status LoadedProgram::Run(const LoadedCall& call, int32_t debug, const State& state) const {
  // Calls that do not use the device's queue run on the host, on memory that it shares with the
  // device. And a loop must not pile up scratch memory.
  if (!call.call->UsesQueue() || state.context.num_kept_until_done() >= kMostKept)
    TRIPONT_RETURN_IF_ERROR(state.Wait());
  void** const arguments = ResolveAll(state, call.slices);
  // The libraries behind these calls are C++: what they throw ends here.
  const Status status = Guarded("in its library", [&] {
    return call.call->Execute(state.context, arguments, arguments + call.num_operands);
  });
  return status.ok() ? status : status.WithPrefix(StrCat("call", Describe(debug)));
}

template <bool kProfiled>
Status LoadedProgram::Run(const LoadedView& view, int32_t, const State& state) const {
  if (!view.strides.empty()) TRIPONT_RETURN_IF_ERROR(state.Wait());
  char* place = static_cast<char*>(Resolve(state, view.slices.first));
  uint32_t slice = view.slices.first;
  for (const LoadedView::Stride& stride : view.strides) {
    const void* const source = Resolve(state, ++slice);
    int64_t index;
    if (stride.is_wide) {
      std::memcpy(&index, source, sizeof(index));
    } else {
      int32_t narrow;
      std::memcpy(&narrow, source, sizeof(narrow));
      index = narrow;
    }
    place += std::clamp<int64_t>(index, 0, stride.limit) * stride.stride;
  }
  state.bases[view.view] = place;
  return OkStatus();
}

Status LoadedProgram::Prepare(const State& state) const {
  for (const PrepareStep step : {PrepareStep::kPrepare, PrepareStep::kInitialize}) {
    for (const PreparedCall& call : prepared_calls_) {
      void** const arguments = ResolveAll(state, call.slices);
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

void WriteOperands(std::ostringstream& out, const std::vector<schema::Operand>& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) out << ", ";
    out << operands[i].shape << " ";
    WriteSlice(out, operands[i].slice);
  }
}

// Writes thunks, one a line, those of loops and branches further in.
class TextWriter {
 public:
  TextWriter(std::ostringstream& out, const Artifact& artifact) : out_(out), artifact_(artifact) {}

  void Write(const std::vector<schema::Thunk>& thunks, int indent) {
    const std::string margin(static_cast<size_t>(indent) * 2, ' ');
    for (const schema::Thunk& thunk : thunks) {
      out_ << margin;
      std::visit(
          [&](const auto& what) {
            const std::string name = what.debug >= 0 ? " " + artifact_.debug[what.debug].name : "";
            WriteThunk(what, name, margin, indent);
          },
          thunk);
    }
  }

 private:
  void WriteThunk(const schema::Kernel& kernel, const std::string& name, const std::string&, int) {
    out_ << "kernel" << name << " function=" << kernel.function << " work=" << kernel.work_count
         << " grain=" << kernel.grain << " cost_ns=" << kernel.cost_ns << " (";
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      if (i > 0) out_ << ", ";
      WriteSlice(out_, kernel.arguments[i]);
    }
    out_ << ")\n";
  }

  void WriteThunk(const schema::Copy& copy, const std::string& name, const std::string&, int) {
    out_ << "copy" << name << " ";
    WriteSlice(out_, copy.destination);
    out_ << " <- ";
    WriteSlice(out_, copy.source);
    out_ << "\n";
  }

  void WriteThunk(const schema::View& view, const std::string& name, const std::string&, int) {
    out_ << "view" << name << " ";
    WriteSlice(out_, view.view);
    out_ << " = ";
    WriteSlice(out_, view.source);
    for (const schema::Stride& stride : view.strides) {
      out_ << " + min(";
      WriteSlice(out_, stride.index);
      out_ << ", " << stride.limit << ") * " << stride.stride;
    }
    out_ << "\n";
  }

  void WriteThunk(const schema::While& loop, const std::string& name, const std::string& margin,
                  int indent) {
    out_ << "while" << name << " predicate=";
    WriteSlice(out_, loop.predicate);
    out_ << " trip_count=" << loop.trip_count << "\n" << margin << "condition:\n";
    Write(loop.condition, indent + 1);
    out_ << margin << "body:\n";
    Write(loop.body, indent + 1);
  }

  void WriteThunk(const schema::Conditional& conditional, const std::string& name,
                  const std::string& margin, int indent) {
    out_ << "conditional" << name << " selector=";
    WriteSlice(out_, conditional.selector);
    out_ << "\n";
    for (size_t i = 0; i < conditional.branches.size(); ++i) {
      out_ << margin << "branch " << i << ":\n";
      Write(conditional.branches[i], indent + 1);
    }
  }

  void WriteThunk(const schema::LibraryCall& call, const std::string& name, const std::string&,
                  int) {
    out_ << "library-call " << call.name << name << " (";
    WriteOperands(out_, call.operands);
    out_ << ") -> (";
    WriteOperands(out_, call.results);
    out_ << ")";
    for (const auto& [key, value] : call.attributes) out_ << " " << key;
    out_ << "\n";
  }

  std::ostringstream& out_;
  const Artifact& artifact_;
};

}  // namespace

std::string ThunkSequenceText(const Artifact& artifact) {
  std::ostringstream out;
  TextWriter(out, artifact).Write(artifact.thunks, 0);
  return std::move(out).str();
}

}  // namespace tripont
