#include "core/runtime/executable.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/parallel.h"
#include "core/runtime/profile.h"
#include "core/runtime/thread.h"
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
  int64_t enqueued_ns = 0;
  Ref<Event> done;

  void Run() override {
    // The other devices of the launch must hear of an exception too.
    const Status status = Guarded(executable->name(), [this] { return AwaitAndRun(); });
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
    const int64_t start_ns = ProfileClockNs();
    status = executable->RunProgram(device, parameter_data.data(), results.data(), &participation,
                                    user_data.get(), caller);
    const int64_t waits_since = done->caller_waits_since();
    executable->waits_.Enqueued(ProfileClockNs() - start_ns,
                                waits_since == 0 ? -1 : waits_since - enqueued_ns);
    return status;
  }
};

// One call of Execute: what it has taken of its arguments, and the results that it makes. It lives
// on the caller's stack, and its public functions are the steps of Execute, in their order.
//
// Until RunHere or Enqueue has begun, the end of the call gives everything back, however it comes,
// by an exception too: what was donated is as it was before, and nothing is held. Afterwards
// donated memory belongs to the results that took it over, or is freed; and what an Execution needs
// belongs to it.
//
// The steps that every call takes are inlined: as calls they would cost 4 % of the dispatch of a
// small program (benchmarks/dispatch.py).
class Executable::Call {
 public:
  Call(Executable& executable, Device* device, std::span<Buffer* const> arguments,
       std::span<Ref<Buffer>> results, const Participation* participation)
      : executable_(executable),
        device_(device),
        arguments_(arguments),
        results_(results),
        participation_(participation),
        donation_of_(arguments.size()),
        parameter_data_(arguments.size()),
        result_data_(results.size()) {}

  ~Call() {
    ReleaseHolds();
    if (begun_) return;
    // Deferred results wait for the event and are kept by it. Nobody will decide it any more, nor see the error.
    if (event_) event_->SetError(OutOfHostMemory());
    for (Donation& donation : donations_) donation.Undo();
  }

  // Takes the arguments that the program may overwrite and the caller does not want to keep. This
  // comes before the holds, so that a buffer that is donated and used too is found by its hold.
  [[gnu::always_inline]] Status TakeDonations(std::span<const int64_t> non_donatable) {
    std::fill_n(donation_of_.data(), arguments_.size(), -1);
    for (const int64_t index : executable_.artifact_.donatable_parameters) {
      if (std::find(non_donatable.begin(), non_donatable.end(), index) != non_donatable.end())
        continue;
      // What was taken must not be lost for lack of memory.
      if (donations_.empty()) {
        donations_.reserve(executable_.artifact_.donatable_parameters.size());
      }
      StatusOr<Donation> donation = arguments_[index]->Donate();
      if (!donation.ok()) return OfArgument(index, donation.status());
      donation_of_[index] = static_cast<int32_t>(donations_.size());
      donations_.push_back(std::move(donation).value());
    }
    return OkStatus();
  }

  // Holds the other arguments, whose content may still be in the making.
  [[gnu::always_inline]] Status HoldArguments() {
    for (; held_ < arguments_.size(); ++held_) {
      Buffer* const buffer = arguments_[held_];
      if (donation_of_[held_] < 0 && !buffer->TryHoldToEnqueue())
        return OfArgument(held_, WhyNotHeld(*buffer));
      ready_ = ready_ && buffer->IsReady();
    }
    return OkStatus();
  }

  // Decides whether the program runs on this thread, or on the device's stream: then results have
  // an event to wait for.
  [[gnu::always_inline]] Status ChooseThread() {
    const LoadedProgram& program = *executable_.program_;
    const bool meets_others = !program.collectives().empty();
    // Donated memory that somebody still reads: waiting for that is the stream's business.
    const bool still_read =
        std::any_of(donations_.begin(), donations_.end(), [](const Donation& donation) {
          return donation.exclusive() && donation.buffer()->HasHolds();
        });
    const bool has_stack = StackLeft() >= program.stack_bytes();
    // A callback of a program that runs on this stream: what it starts cannot wait behind it.
    if (device_->stream().OnStreamThread()) {
      runs_here_ = ready_ && !still_read && !meets_others;
      if (runs_here_ && !has_stack) {
        return ResourceExhausted(
            executable_.name(), " was started by a callback on the device, and needs ",
            program.stack_bytes() / 1024, " KB of the thread's stack, of which ",
            StackLeft() / 1024, " KB are left");
      }
      if (runs_here_) return OkStatus();
      return FailedPrecondition(
          executable_.name(),
          " was started by a callback on the device that the callback's program occupies, and ",
          meets_others ? "meets other devices"
          : still_read ? "donates an array that is still read"
                       : "needs an array that is computed after it",
          ": compute on the CPU, or on another device, inside callbacks");
    }
    const bool may_run_now = ready_ && !still_read && !meets_others && device_->stream().IsIdle();
    if (may_run_now) {
      // Callbacks belong to the call, as on XLA's CPU device: their output is there when it
      // returns, and it raises their errors. (Not so on several devices, which the caller serves in
      // turn.)
      const bool is_alone = participation_ == nullptr || participation_->is_alone;
      runs_here_ = program.has_callbacks()
                       ? is_alone
                       : program.cost_ns() < static_cast<double>(device_->inline_ns());
      if (!runs_here_ && is_alone && device_->inline_ns() > 0)
        runs_here_ = is_waited_for_ = executable_.waits_.TakeCallHere();
    }
    if (runs_here_ && !has_stack) {
      runs_here_ = false;
      waits_ = program.has_callbacks() && !Stream::OnAnyStreamThread();
    }
    if (runs_here_) return OkStatus();
    for (Buffer* const buffer : arguments_) {
      if (buffer->IsLentByThisThread()) lent_bytes_ += buffer->byte_size();
    }
    // Where a copy takes half as long as the program, waiting for the program is the better choice.
    runs_here_ = lent_bytes_ > 0 && may_run_now && has_stack && !program.has_callbacks() &&
                 program.cost_ns() < 2 * static_cast<double>(lent_bytes_) / kCopyBytesPerNs;
    if (runs_here_) return OkStatus();
    if (meets_others || !ready_ || still_read) {
      const Status status = device_->stream().EnsureThread();
      if (!status.ok()) return status.WithPrefix(executable_.name());
    }
    event_ = MakeRef<Event>();
    return OkStatus();
  }
  bool runs_here() const { return runs_here_; }

  // Makes a buffer for each result: in fresh memory, at the address of donated memory that Begin
  // will give it, or without memory, for those that are computed when somebody reads them.
  [[gnu::always_inline]] Status MakeResults() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const ResultPlan& plan = executable_.results_[i];
      if (plan.deferred) continue;
      Memory* const memory = device_->memory(plan.memory);
      const Shape& shape = ShapeOfResult(i);
      if (const Donation* const donation = DonationFor(plan)) {
        results_[i] = Buffer::ForDonation(memory, shape, *donation, event_);
      } else {
        results_[i] = Buffer::TryAllocate(memory, shape, plan.byte_size, event_);
        if (!results_[i]) return Exhausted(memory, plan.byte_size, "result", i, shape);
      }
      result_data_[i] = results_[i]->data();
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      parameter_data_[i] =
          donation_of_[i] < 0 ? arguments_[i]->data() : donations_[donation_of_[i]].data();
    }
    if (lent_bytes_ > 0 && !runs_here_) TRIPONT_RETURN_IF_ERROR(CopyLent());
    if (!donations_.empty()) overwritten_.reserve(donations_.size());
    for (const auto& [result, source, byte_strides] : executable_.program_->deferred_results()) {
      result_data_[result] = nullptr;
      // Cannot fail: the source is there, and the shape was looked at when the program was loaded.
      results_[result] =
          Buffer::Deferred(*results_[source], ShapeOfResult(result), byte_strides).value();
    }
    return OkStatus();
  }

  [[gnu::always_inline]] Status RunHere(const UserData* user_data, uint64_t caller,
                                        Ref<Event>* done) {
    Begin();
    for (const Ref<Buffer>& buffer : overwritten_) buffer->WaitForHolds();
    const int64_t start_ns = is_waited_for_ ? ProfileClockNs() : 0;
    const Status status = Guarded(executable_.name(), [&] {
      return executable_.RunProgram(device_, parameter_data_.data(), result_data_.data(),
                                    participation_, user_data, caller);
    });
    if (is_waited_for_) executable_.waits_.RanHere(ProfileClockNs() - start_ns);
    ReleaseHolds();
    EndLoans();
    if (done != nullptr) *done = nullptr;
    if (status.ok() || !InterruptIsKept()) return status;
    // Ctrl-C in a callback: Python raises that, and nobody looks at the results.
    for (size_t i = 0; i < results_.size(); ++i) {
      Memory* const memory = device_->memory(executable_.results_[i].memory);
      results_[i] = Buffer::Failed(memory, ShapeOfResult(i), status);
    }
    if (done != nullptr) *done = Event::Failed(status);
    return OkStatus();
  }

  // Gives the device's stream all that the program needs. Everything that takes memory comes before
  // Begin.
  void Enqueue(std::shared_ptr<const UserData> user_data, uint64_t caller, Ref<Event>* done) {
    auto execution = std::make_unique<Execution>();
    execution->executable = Ref<Executable>(&executable_);
    execution->device = device_;
    execution->parameter_data.assign(parameter_data_.data(),
                                     parameter_data_.data() + arguments_.size());
    execution->inputs.reserve(arguments_.size());
    execution->outputs.reserve(results_.size());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      Ref<Buffer> buffer(arguments_[i]);
      if (!buffer->IsReady()) execution->awaited.push_back(buffer);
      if (donation_of_[i] < 0) execution->inputs.push_back(Hold(std::move(buffer)));
      handed_over_ = i + 1;
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const bool written = !executable_.results_[i].deferred && results_[i]->TryHold();
      execution->outputs.push_back(written ? Hold(results_[i]) : Hold());
    }
    Begin();
    execution->donations = std::move(donations_);
    execution->overwritten = std::move(overwritten_);
    execution->copies = std::move(copies_);
    if (participation_ != nullptr) execution->participation = *participation_;
    execution->user_data = std::move(user_data);
    execution->caller = caller;
    execution->done = event_;
    execution->enqueued_ns = ProfileClockNs();
    device_->stream().Enqueue(std::move(execution));
    ReleaseHolds();
    if (waits_) (void)event_->Await();  // an error is the results'
    EndLoans();
    if (done != nullptr) *done = std::move(event_);
  }

 private:
  const Shape& ShapeOfResult(size_t i) const { return executable_.artifact_.results[i].shape; }

  // The program may write from now on: gives the results the donated memory at whose address they
  // are. There is no way back, and nothing here can fail.
  [[gnu::always_inline]] void Begin() noexcept {
    begun_ = true;
    for (size_t i = 0; !donations_.empty() && i < results_.size(); ++i) {
      Donation* const donation = DonationFor(executable_.results_[i]);
      if (donation == nullptr) continue;
      overwritten_.emplace_back(donation->buffer());  // there is room
      results_[i]->TakeOver(std::move(*donation));
    }
  }

  // The donation whose memory the result takes over; null if there is none that nobody else sees.
  Donation* DonationFor(const ResultPlan& plan) {
    const int32_t parameter = plan.aliased_parameter;
    if (parameter < 0 || donation_of_[parameter] < 0) return nullptr;
    Donation& donation = donations_[donation_of_[parameter]];
    return donation.exclusive() ? &donation : nullptr;
  }

  // Copies the arguments that this thread lent, or none if there is no room for all copies. Then
  // the call waits for the program, unless it must not.
  Status CopyLent() {
    std::vector<size_t> copied;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const Buffer& lent = *arguments_[i];
      if (!lent.IsLentByThisThread()) continue;
      copies_.push_back(Buffer::TryAllocate(lent.memory(), lent.shape(), lent.byte_size(),
                                            /*definition=*/nullptr));
      if (copies_.back()) {
        copied.push_back(i);
        continue;
      }
      copies_.clear();
      // Nobody may wait here for a program that meets others, which this thread may have to start,
      // nor on a stream's thread for another stream.
      if (executable_.has_collectives() || Stream::OnAnyStreamThread()) {
        return Exhausted(lent.memory(), lent.byte_size(), "a copy of argument", i, lent.shape());
      }
      waits_ = true;
      return OkStatus();
    }
    for (size_t n = 0; n < copied.size(); ++n) {
      void*& data = parameter_data_[copied[n]];
      ParallelCopy(copies_[n]->data(), data, copies_[n]->byte_size());
      data = copies_[n]->data();
    }
    return OkStatus();
  }

  Status OfArgument(size_t index, const Status& status) const {
    return status.WithPrefix(StrCat(executable_.name(), ": argument ", index));
  }
  Status WhyNotHeld(const Buffer& buffer) const {
    for (const Donation& donation : donations_) {
      if (donation.buffer() != &buffer) continue;
      return InvalidArgument("the array of shape ", buffer.shape(),
                             " is donated and used in the same call");
    }
    return buffer.HoldError();
  }
  Status Exhausted(Memory* memory, size_t size, std::string_view what, size_t number,
                   const Shape& shape) {
    return memory->allocator().Exhausted(size).WithPrefix(
        StrCat(executable_.name(), ": ", what, " ", number, " of shape ", shape));
  }
  [[gnu::always_inline]] void ReleaseHolds() {
    for (size_t i = 0; i < held_; ++i) {
      if (donation_of_[i] >= 0) continue;
      i < handed_over_ ? arguments_[i]->HoldEnqueued() : arguments_[i]->ReleaseHoldToEnqueue();
    }
    held_ = handed_over_ = 0;
  }
  // The caller may write to what it lent when the call has returned.
  void EndLoans() {
    if (lent_bytes_ == 0) return;
    for (Buffer* const buffer : arguments_) {
      if (buffer->IsLentByThisThread()) buffer->EndLoan();
    }
  }

  Executable& executable_;
  Device* const device_;
  const std::span<Buffer* const> arguments_;
  const std::span<Ref<Buffer>> results_;
  const Participation* const participation_;
  std::vector<Donation> donations_;
  SmallArray<int32_t> donation_of_;  // of each argument; -1: it is not donated
  // Among the arguments, the first `held_` that are not donated are held (Buffer::TryHoldToEnqueue),
  // and the first `handed_over_` of these are held by the Execution too.
  size_t held_ = 0;
  size_t handed_over_ = 0;
  bool ready_ = true;  // all arguments are computed
  bool runs_here_ = false;
  bool is_waited_for_ = false;  // the reason why it runs here: WaitHistory
  bool waits_ = false;          // for the program, which reads what was lent in place or calls back
  bool begun_ = false;
  size_t lent_bytes_ = 0;  // of the arguments that the caller may write to after the call
  Ref<Event> event_;       // of the results; null: they are there when the call returns
  SmallArray<void*> parameter_data_;
  SmallArray<void*> result_data_;
  std::vector<Ref<Buffer>> copies_;       // of what was lent
  std::vector<Ref<Buffer>> overwritten_;  // donated buffers whose memory is a result's now
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

Status Executable::CheckCall(const Device* device, std::span<Buffer* const> arguments,
                             size_t num_results, const Participation* participation) const {
  if (program_ == nullptr) {
    return FailedPrecondition(name(), " was compiled ahead of time for target '", artifact_.target,
                              "' (", artifact_.cpu,
                              "): serialize it, and load it on such a machine");
  }
  if (!program_->collectives().empty() && (participation == nullptr || !participation->launch)) {
    return FailedPrecondition(name(), " is a program for ", artifact_.num_replicas,
                              " replicas and ", artifact_.num_partitions,
                              " partitions; it cannot run alone");
  }
  if (arguments.size() != parameters_.size()) {
    return InvalidArgument(name(), ": ", arguments.size(), " arguments given, the program takes ",
                           parameters_.size());
  }
  if (num_results != results_.size()) {
    return InvalidArgument(name(), ": room for ", num_results, " results, the program has ",
                           results_.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Buffer* const buffer = arguments[i];
    if (buffer == nullptr) return InvalidArgument(name(), ": argument ", i, " is null");
    const Shape& expected = artifact_.parameters[i].shape;
    if (!(buffer->shape() == expected)) {
      return InvalidArgument(name(), ": argument ", i, " has shape ", buffer->shape(),
                             ", the program expects ", expected);
    }
    if (buffer->device() != device) {
      return InvalidArgument(name(), ": argument ", i, " of shape ", expected, " is on device ",
                             buffer->device()->id(), ", the program runs on device ", device->id());
    }
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
  Status status = Guarded(name(), [&] {
    Status ran;
    WithThreads(artifact_.num_threads, [&] { ran = program_->Run(bases.data(), context); });
    return ran;
  });
  if (context.has_collectives_in_flight()) {
    // Those who wait for what this execution will not do any more are what its collectives wait for.
    if (!status.ok() && participation != nullptr && participation->launch)
      participation->launch->Fail(participation->participant, status);
    const Status last = context.collectives_in_flight().AwaitAll();
    if (status.ok()) status = last;
  }
  // Nothing may run any more when the arena goes and others see the results.
  if (status.ok()) return device->queue().Wait();
  (void)device->queue().Wait();
  return status;
}

Status Executable::Execute(Device* device, std::span<Buffer* const> arguments,
                           std::span<const int64_t> non_donatable, std::span<Ref<Buffer>> results,
                           Ref<Event>* done, const Participation* participation,
                           std::shared_ptr<const UserData> user_data, uint64_t caller) {
  // An exception is the lack of memory for what the call itself needs. It ends the call, which gives
  // everything back, before it becomes a status here.
  const Status status = Guarded(name(), [&]() -> Status {
    TRIPONT_RETURN_IF_ERROR(CheckCall(device, arguments, results.size(), participation));
    Call call(*this, device, arguments, results, participation);
    TRIPONT_RETURN_IF_ERROR(call.TakeDonations(non_donatable));
    TRIPONT_RETURN_IF_ERROR(call.HoldArguments());
    TRIPONT_RETURN_IF_ERROR(call.ChooseThread());
    TRIPONT_RETURN_IF_ERROR(call.MakeResults());
    if (call.runs_here()) return call.RunHere(user_data.get(), caller, done);
    call.Enqueue(std::move(user_data), caller, done);
    return OkStatus();
  });
  if (status.ok()) [[likely]] {
    return status;
  }
  for (Ref<Buffer>& result : results) result = nullptr;
  if (done != nullptr) *done = nullptr;
  return status;
}

}  // namespace tripont
