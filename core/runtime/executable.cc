#include "core/runtime/executable.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "core/runtime/interrupt.h"
#include "core/runtime/parallel.h"
#include "core/runtime/thunk_sequence.h"

namespace tripont {
namespace {

// What copying costs, to compare with estimates of programs: those are of one core too.
constexpr double kCopyBytesPerNs = 5;

// Tables up to this many pointers live on the stack.
constexpr size_t kStackEntries = 256;

// `size` elements, on the stack if they are few.
template <typename T>
class SmallArray {
 public:
  explicit SmallArray(size_t size) {
    if (size > kStackEntries) heap_.reset(new T[size]);
    data_ = heap_ ? heap_.get() : stack_;
  }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  T stack_[kStackEntries];
  std::unique_ptr<T[]> heap_;
  T* data_;
};

Status CheckTarget(const Artifact& artifact, const Backend& backend) {
  if (artifact.target == backend.target()) return OkStatus();
  return FailedPrecondition("the artifact is for target '", artifact.target, "', this device is '",
                            backend.target(), "'; TRIPONT_DEVICE=", artifact.target,
                            " runs it where there is such a device");
}

}  // namespace

// One execution that has been set up: what it reads, what it writes, and what it must give back.
class Executable::Execution : public StreamTask {
 public:
  Ref<Executable> executable;
  Device* device = nullptr;
  std::vector<Hold> inputs;              // one a parameter, empty for donated ones
  std::vector<Donation> donations;       // those that no result took over
  std::vector<Ref<Buffer>> overwritten;  // donated buffers whose memory is a result's now
  std::vector<Ref<Buffer>> awaited;      // inputs that may not be ready
  std::vector<Ref<Buffer>> copies;       // of inputs that were lent for the call only
  std::vector<Hold> outputs;             // one a result
  std::vector<void*> parameter_data;     // address of each parameter's content
  Participation participation;
  std::shared_ptr<const UserData> user_data;
  uint64_t caller = 0;
  Ref<Event> done;

  void Run() override {
    Status status;
    try {
      status = AwaitAndRun();
    } catch (const std::bad_alloc&) {  // the other devices of the launch must hear of it
      status = ResourceExhausted("program ", executable->name(), ": out of host memory");
    } catch (const std::exception& exception) {
      status = Internal("program ", executable->name(), ": ", exception.what());
    }
    if (!status.ok() && participation.launch) {
      participation.launch->Fail(participation.participant, status);
    }
    participation.launch = nullptr;
    // Readers of the results must find the inputs' memory free again and nothing of ours in the
    // way.
    inputs.clear();
    donations.clear();
    overwritten.clear();
    copies.clear();
    outputs.clear();
    // `done` stays: the child of a fork that happens now still finds it in Abandon.
    const Ref<Event> event = done;
    device->stream().FinishWork();
    status.ok() ? event->SetReady() : event->SetError(status);
  }

  void Abandon(const Status& status) override { done->SetError(status); }

 private:
  Status AwaitAndRun() {
    Status status;
    for (const Ref<Buffer>& input : awaited) {
      status = input->definition_event()->Await();
      if (!status.ok()) break;
    }
    awaited.clear();
    // Also when nothing will be written: the results own that memory now and free it when they are
    // deleted.
    for (const Ref<Buffer>& buffer : overwritten) buffer->WaitForHolds();
    if (!status.ok()) return status;
    SmallArray<void*> results(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) results[i] = outputs[i].data();
    return executable->RunProgram(device, parameter_data.data(), results.data(), &participation,
                                  user_data.get(), caller);
  }
};

// Gives back at the end of its scope, however that comes, what an execution holds of its arguments
// (Buffer::TryHoldToEnqueue): the first `count` ones that are not donated. The first `handed_over`
// of those have been given to the execution, which goes on holding them.
struct Executable::HeldArguments {
  std::span<Buffer* const> arguments;
  const int32_t* donation_of;  // of each argument; negative: it is not donated
  size_t count = 0;
  size_t handed_over = 0;

  ~HeldArguments() { Release(); }
  void Release() {
    for (size_t i = 0; i < count; ++i) {
      if (donation_of[i] >= 0) continue;
      i < handed_over ? arguments[i]->HoldEnqueued() : arguments[i]->ReleaseHoldToEnqueue();
    }
    count = handed_over = 0;
  }
};

StatusOr<Ref<Executable>> Executable::Load(std::string bytes, Backend& backend) {
  TRIPONT_ASSIGN_OR_RETURN(Ref<Executable> executable, LoadDescription(std::move(bytes)));
  const Artifact& artifact = executable->artifact_;
  TRIPONT_RETURN_IF_ERROR(CheckTarget(artifact, backend));
  TRIPONT_ASSIGN_OR_RETURN(executable->program_, LoadedProgram::Load(artifact, backend));
  for (const auto& deferred : executable->program_->deferred_results())
    executable->results_[deferred.result].deferred = true;
  return executable;
}

StatusOr<Ref<Executable>> Executable::LoadDescription(std::string bytes) {
  Ref<Executable> executable(new Executable);
  executable->bytes_ = std::move(bytes);
  TRIPONT_ASSIGN_OR_RETURN(executable->artifact_, ParseArtifact(executable->bytes_));
  const Artifact& artifact = executable->artifact_;
  executable->parameters_.resize(artifact.parameters.size());
  executable->results_.resize(artifact.results.size());
  for (const int64_t index : artifact.donatable_parameters)
    executable->parameters_[index].donatable = true;
  ExecutableMemoryStats& stats = executable->memory_stats_;
  for (size_t i = 0; i < artifact.allocations.size(); ++i) {
    const Allocation& allocation = artifact.allocations[i];
    if (allocation.kind == AllocationKind::kParameter) {
      executable->parameters_[allocation.index].allocation = static_cast<int32_t>(i);
    } else if (allocation.kind == AllocationKind::kResult) {
      ResultPlan& result = executable->results_[allocation.index];
      result.allocation = static_cast<int32_t>(i);
      result.aliased_parameter = static_cast<int32_t>(allocation.aliased_parameter);
      if (allocation.aliased_parameter < 0) continue;
      executable->parameters_[allocation.aliased_parameter].aliased_by =
          static_cast<int32_t>(allocation.index);
      stats.alias_size +=
          static_cast<int64_t>(*artifact.results[allocation.index].shape.ByteSize());
    } else if (allocation.kind == AllocationKind::kTemp) {
      stats.temp_size += (static_cast<int64_t>(allocation.size) + 63) / 64 * 64;
    }
  }
  for (const schema::Value& value : artifact.parameters) {
    if (!MemoryKindFromName(value.memory_kind))
      return Unimplemented("memory kind '", value.memory_kind, "'");
    stats.argument_size += static_cast<int64_t>(*value.shape.ByteSize());
  }
  for (size_t i = 0; i < artifact.results.size(); ++i) {
    const schema::Value& value = artifact.results[i];
    const std::optional<MemoryKind> kind = MemoryKindFromName(value.memory_kind);
    if (!kind) return Unimplemented("memory kind '", value.memory_kind, "'");
    executable->results_[i].memory = *kind;
    executable->results_[i].byte_size = *value.shape.ByteSize();
    stats.output_size += static_cast<int64_t>(executable->results_[i].byte_size);
  }
  stats.generated_code_size = static_cast<int64_t>(artifact.code.size());
  stats.constant_size = static_cast<int64_t>(artifact.constants.size());
  return executable;
}

Executable::~Executable() = default;

double Executable::cost_ns() const {
  return program_ != nullptr ? program_->cost_ns() : artifact_.costs.optimal_nanoseconds;
}
const std::string& Executable::collectives() const {
  static const std::string none;
  return program_ != nullptr ? program_->collectives() : none;
}
std::string Executable::ThunkSequenceText() const { return tripont::ThunkSequenceText(artifact_); }

Status Executable::CheckArgument(Device* device, size_t index, const Buffer* buffer) const {
  if (buffer == nullptr) return InvalidArgument(name(), ": argument ", index, " is null");
  const Shape& expected = artifact_.parameters[index].shape;
  if (!(buffer->shape() == expected)) {
    return InvalidArgument(name(), ": argument ", index, " has shape ", buffer->shape(),
                           ", the program expects ", expected);
  }
  if (buffer->device() != device) {
    return InvalidArgument(name(), ": argument ", index, " of shape ", expected, " is on device ",
                           buffer->device()->id(), ", the program runs on device ", device->id());
  }
  return OkStatus();
}

Status Executable::RunProgram(Device* device, void* const* parameters, void* const* results,
                              const Participation* participation, const UserData* user_data,
                              uint64_t caller) const {
  Allocator& allocator = device->default_memory()->allocator();
  Scratch arena;
  if (const size_t size = program_->temp_size(); size > 0) {
    Allocator& temporaries = program_->host_uses_temporaries() ? allocator : device->temporaries();
    const Block block = temporaries.TryAllocate(size);
    if (block.data == nullptr) {
      return temporaries.Exhausted(size).WithPrefix(
          StrCat(name(), ": the temporary arena of the program"));
    }
    arena = Scratch(&temporaries, block);
  }
  const std::vector<void*>& constants = program_->constant_bases();
  SmallArray<void*> bases(constants.size());
  if (arena.data() == nullptr) {
    std::copy(constants.begin(), constants.end(), bases.data());
  } else {
    const std::vector<int64_t>& temp_offsets = program_->temp_offsets();
    for (size_t i = 0; i < constants.size(); ++i) {
      bases[i] = temp_offsets[i] < 0 ? constants[i] : arena.as<char>() + temp_offsets[i];
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterPlan& plan = parameters_[i];
    if (plan.allocation >= 0) {
      bases[plan.allocation] = parameters[i];
    } else if (plan.aliased_by >= 0) {
      // Not donated, or memory that others can see: the result got memory of its own, which starts
      // as a copy.
      ParallelCopy(results[plan.aliased_by], parameters[i], results_[plan.aliased_by].byte_size);
    }
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i].allocation >= 0) bases[results_[i].allocation] = results[i];
  }
  LibraryContext context(device, &allocator, participation);
  context.set_user_data(user_data);
  context.set_caller(caller);
  Status status;
  try {
    WithThreads(artifact_.num_threads, [&] { status = program_->Run(bases.data(), context); });
  } catch (const std::exception& error) {
    status = Internal(name(), ": ", error.what());
  }
  // Nothing may run any more when the arena goes and others see the results.
  if (status.ok()) return device->queue().Wait();
  (void)device->queue().Wait();
  return status;
}

size_t Executable::CopyLent(std::span<Buffer* const> arguments, void** parameter_data,
                            std::vector<Ref<Buffer>>& copies) {
  std::vector<size_t> copied;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Buffer& lent = *arguments[i];
    if (!lent.IsLentByThisThread()) continue;
    copies.push_back(
        Buffer::TryAllocate(lent.memory(), lent.shape(), lent.byte_size(), /*definition=*/nullptr));
    if (!copies.back()) {
      copies.clear();
      return i;
    }
    copied.push_back(i);
  }
  for (size_t n = 0; n < copied.size(); ++n) {
    void*& data = parameter_data[copied[n]];
    ParallelCopy(copies[n]->data(), data, copies[n]->byte_size());
    data = copies[n]->data();
  }
  return arguments.size();
}

Status Executable::Execute(Device* device, std::span<Buffer* const> arguments,
                           std::span<const int64_t> non_donatable, std::span<Ref<Buffer>> results,
                           Ref<Event>* done, const Participation* participation,
                           std::shared_ptr<const UserData> user_data, uint64_t caller) {
  if (program_ == nullptr) {
    return FailedPrecondition(name(), " was compiled ahead of time for target '", artifact_.target,
                              "' (", artifact_.cpu,
                              "): serialize it, and load it on such a machine");
  }
  if (has_collectives() && (participation == nullptr || !participation->launch)) {
    return FailedPrecondition(name(), " is a program for ", artifact_.num_replicas,
                              " replicas and ", artifact_.num_partitions,
                              " partitions; it cannot run alone");
  }
  const size_t num_parameters = parameters_.size();
  const size_t num_results = results_.size();
  if (arguments.size() != num_parameters) {
    return InvalidArgument(name(), ": ", arguments.size(), " arguments given, the program takes ",
                           num_parameters);
  }
  if (results.size() != num_results) {
    return InvalidArgument(name(), ": room for ", results.size(), " results, the program has ",
                           num_results);
  }
  for (size_t i = 0; i < num_parameters; ++i)
    TRIPONT_RETURN_IF_ERROR(CheckArgument(device, i, arguments[i]));

  // Donations come first, so that a buffer that is donated and used too is found out by its hold
  // failing. From here on every way out gives back what was taken: the destructors do, and Undo.
  std::vector<Donation> donations;
  SmallArray<int32_t> donation_of(num_parameters);
  std::fill_n(donation_of.data(), num_parameters, -1);
  const auto undo = [&](Status status) {
    for (Donation& donation : donations) donation.Undo();
    return status;
  };
  for (const int64_t index : artifact_.donatable_parameters) {
    if (std::find(non_donatable.begin(), non_donatable.end(), index) != non_donatable.end())
      continue;
    StatusOr<Donation> donation = arguments[index]->Donate();
    if (!donation.ok())
      return undo(donation.status().WithPrefix(StrCat(name(), ": argument ", index)));
    donation_of[index] = static_cast<int32_t>(donations.size());
    donations.push_back(std::move(donation).value());
  }
  bool ready = true;
  HeldArguments held{arguments, donation_of.data()};
  for (; held.count < num_parameters; ++held.count) {
    Buffer* const buffer = arguments[held.count];
    if (donation_of[held.count] < 0 && !buffer->TryHoldToEnqueue()) {
      const bool both =
          std::any_of(donations.begin(), donations.end(),
                      [&](const Donation& donation) { return donation.buffer() == buffer; });
      const Status status = both ? InvalidArgument("the array of shape ", buffer->shape(),
                                                   " is donated and used in the same call")
                                 : buffer->HoldError();
      const size_t number = held.count;
      held.Release();
      return undo(status.WithPrefix(StrCat(name(), ": argument ", number)));
    }
    ready = ready && buffer->IsReady();
  }

  // Donated memory that somebody still reads: waiting for that is the stream's business.
  const bool still_read =
      std::any_of(donations.begin(), donations.end(), [](const Donation& donation) {
        return donation.exclusive() && donation.buffer()->HasHolds();
      });
  // A callback of a program that runs on this stream: what it starts cannot wait behind it.
  const bool nested = device->stream().OnStreamThread();
  if (nested && (!ready || still_read || has_collectives())) {
    held.Release();
    return undo(FailedPrecondition(
        name(),
        " was started by a callback on the device that the callback's program occupies, and ",
        has_collectives() ? "meets other devices"
        : still_read      ? "donates an array that is still read"
                          : "needs an array that is computed after it",
        ": compute on the CPU, or on another device, inside callbacks"));
  }
  const bool may_run_now =
      nested || (ready && !still_read && !has_collectives() && device->stream().IsIdle());
  bool run_inline = nested;
  size_t borrowed = 0;  // bytes that the caller may write to when this has returned
  if (may_run_now && !nested) {
    // Callbacks belong to the call, as on XLA's CPU device: their output is there when it returns,
    // and it raises their errors. (Not so on several devices, which the caller serves in turn.)
    run_inline = program_->has_callbacks()
                     ? participation == nullptr || participation->is_alone
                     : program_->cost_ns() < static_cast<double>(device->inline_ns());
  }
  if (!run_inline) {
    for (Buffer* const buffer : arguments) {
      if (buffer->IsLentByThisThread()) borrowed += buffer->byte_size();
    }
    // Where a copy takes half as long as the program, waiting for the program is the better choice.
    run_inline = borrowed > 0 && may_run_now && !program_->has_callbacks() &&
                 program_->cost_ns() < 2 * static_cast<double>(borrowed) / kCopyBytesPerNs;
  }
  const auto end_loans = [&] {
    for (Buffer* const buffer : arguments) {
      if (buffer->IsLentByThisThread()) buffer->EndLoan();
    }
  };
  Ref<Event> event;
  if (!run_inline) event = MakeRef<Event>();

  // Results: fresh memory first, because only that can fail; then those that take over donated
  // memory.
  SmallArray<void*> result_data(num_results);
  const auto exhausted = [&](Memory* memory, size_t size, std::string_view what, size_t number,
                             const Shape& shape) {
    for (Ref<Buffer>& result : results) result = nullptr;
    held.Release();
    return undo(memory->allocator().Exhausted(size).WithPrefix(
        StrCat(name(), ": ", what, " ", number, " of shape ", shape)));
  };
  const auto donation_for = [&](size_t i) -> Donation* {
    const int32_t parameter = results_[i].aliased_parameter;
    if (parameter < 0 || donation_of[parameter] < 0) return nullptr;
    Donation& donation = donations[donation_of[parameter]];
    return donation.exclusive() ? &donation : nullptr;
  };
  for (size_t i = 0; i < num_results; ++i) {
    if (donation_for(i) != nullptr || results_[i].deferred) continue;
    const ResultPlan& plan = results_[i];
    Memory* const memory = device->memory(plan.memory);
    results[i] = Buffer::TryAllocate(memory, artifact_.results[i].shape, plan.byte_size, event);
    if (!results[i])
      return exhausted(memory, plan.byte_size, "result", i, artifact_.results[i].shape);
    result_data[i] = results[i]->data();
  }
  SmallArray<void*> parameter_data(num_parameters);
  for (size_t i = 0; i < num_parameters; ++i) {
    parameter_data[i] =
        donation_of[i] < 0 ? arguments[i]->data() : donations[donation_of[i]].data();
  }
  std::vector<Ref<Buffer>> copies;
  bool wait = false;  // instead of copying
  if (borrowed > 0 && !run_inline) {
    const size_t lacking = CopyLent(arguments, parameter_data.data(), copies);
    if (lacking < num_parameters) {
      // Nobody may wait here for a program that meets others, which this thread may have to start,
      // nor on a stream's thread for another stream.
      if (has_collectives() || Stream::OnAnyStreamThread()) {
        const Buffer& lent = *arguments[lacking];
        return exhausted(lent.memory(), lent.byte_size(), "a copy of argument", lacking,
                         lent.shape());
      }
      wait = true;
    }
  }
  std::vector<Ref<Buffer>> overwritten;
  for (size_t i = 0; i < num_results; ++i) {
    Donation* const donation = donation_for(i);
    if (donation == nullptr) continue;
    overwritten.emplace_back(donation->buffer());
    results[i] = Buffer::FromDonation(device->memory(results_[i].memory),
                                      artifact_.results[i].shape, std::move(*donation), event);
    result_data[i] = results[i]->data();
  }

  for (const LoadedProgram::DeferredResult& plan : program_->deferred_results()) {
    result_data[plan.result] = nullptr;
    // Cannot fail: the source is there, and the shape was looked at when the program was loaded.
    results[plan.result] = Buffer::Deferred(*results[plan.source],
                                            artifact_.results[plan.result].shape, plan.byte_strides)
                               .value();
  }

  if (run_inline) {
    for (const Ref<Buffer>& buffer : overwritten) buffer->WaitForHolds();
    Status status = RunProgram(device, parameter_data.data(), result_data.data(), participation,
                               user_data.get(), caller);
    held.Release();
    if (borrowed > 0) end_loans();
    if (!status.ok() && InterruptIsKept()) {
      // Ctrl-C in a callback: Python raises that, and nobody looks at the results.
      for (size_t i = 0; i < num_results; ++i) {
        results[i] =
            Buffer::Failed(device->memory(results_[i].memory), artifact_.results[i].shape, status);
      }
      if (done != nullptr) *done = Event::Failed(status);
      return OkStatus();
    }
    if (!status.ok()) {
      for (Ref<Buffer>& result : results) result = nullptr;
      return status;
    }
    if (done != nullptr) *done = nullptr;
    return status;
  }

  auto execution = std::make_unique<Execution>();
  execution->executable = Ref<Executable>(this);
  execution->device = device;
  execution->parameter_data.assign(parameter_data.data(), parameter_data.data() + num_parameters);
  execution->inputs.reserve(num_parameters);
  for (size_t i = 0; i < num_parameters; ++i) {
    Ref<Buffer> buffer(arguments[i]);
    if (!buffer->IsReady()) execution->awaited.push_back(buffer);
    if (donation_of[i] < 0) execution->inputs.push_back(Hold(std::move(buffer)));
    held.handed_over = i + 1;
  }
  for (size_t i = 0; i < num_results; ++i) {
    const Ref<Buffer>& result = results[i];
    const bool written = !results_[i].deferred && result->TryHold();
    execution->outputs.push_back(written ? Hold(result) : Hold());
  }
  execution->donations = std::move(donations);
  execution->overwritten = std::move(overwritten);
  execution->copies = std::move(copies);
  if (participation != nullptr) execution->participation = *participation;
  execution->user_data = std::move(user_data);
  execution->caller = caller;
  execution->done = event;
  device->stream().Enqueue(std::move(execution));
  held.Release();
  if (wait) (void)event->Await();  // an error is the results'
  if (borrowed > 0) end_loans();
  if (done != nullptr) *done = std::move(event);
  return OkStatus();
}

}  // namespace tripont
