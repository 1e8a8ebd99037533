// PJRT_LoadedExecutable_Execute: the hot path. Nothing here looks anything up by name or builds
// text unless it fails.

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/runtime/dynamic_results.h"
#include "core/runtime/exceptions.h"
#include "core/runtime/profile.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"
#include "pjrt/ffi.h"
#include "pjrt/functions.h"
#include "pjrt/profiler.h"

namespace tripont::pjrt {
namespace {

// An array of `size` default elements, on the stack unless it is large.
template <typename T, size_t kInline>
class ScratchArray {
 public:
  explicit ScratchArray(size_t size) : size_(size) {
    if (size > kInline) large_ = std::make_unique<T[]>(size);
  }
  T* data() { return large_ ? large_.get() : small_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }

 private:
  const size_t size_;
  std::array<T, kInline> small_{};
  std::unique_ptr<T[]> large_;
};

constexpr size_t kInlineBuffers = 32;

Status DeletedError(const PJRT_LoadedExecutable& executable) {
  return InvalidArgument("program ", executable.info->executable->name(),
                         " was deleted; it cannot run any more");
}

Status ForeignBufferError(const PJRT_LoadedExecutable& executable, size_t index) {
  return InvalidArgument("argument ", index, " of program ", executable.info->executable->name(),
                         " is a buffer of another client");
}

Status LayoutError(const PJRT_LoadedExecutable& executable, size_t index, Layout* expected,
                   const PJRT_Buffer& argument) {
  const auto text = [&](Layout* layout) {
    return (layout != nullptr ? layout : RowMajorLayout(argument.dims().size()))->text;
  };
  return InvalidArgument("argument ", index, " of program ", executable.info->executable->name(),
                         " has the layout ", text(argument.layout),
                         ", but the program was compiled for ", text(expected));
}

// Which device runs the one launch of a call that names it, or of a portable executable that does
// not.
StatusOr<PJRT_Device*> LaunchDevice(const PJRT_LoadedExecutable& executable, PJRT_Device* requested,
                                    std::span<PJRT_Buffer* const> arguments) {
  if (requested == nullptr) {
    // A portable executable runs where its arguments are.
    if (!arguments.empty() && arguments[0] != nullptr) return arguments[0]->memory->device;
    return executable.client->addressable_pointers[0];
  }
  if (requested->client != executable.client) {
    return InvalidArgument("`execute_device` of program ", executable.info->executable->name(),
                           " belongs to another client");
  }
  if (!requested->is_addressable()) {
    return InvalidArgument("`execute_device` of program ", executable.info->executable->name(),
                           " is of process ", requested->description->process_index);
  }
  if (!executable.assigned) return requested;
  for (PJRT_Device* device : executable.devices) {
    if (device == requested) return requested;
  }
  return InvalidArgument("program ", executable.info->executable->name(),
                         " was compiled for other devices than ",
                         requested->description->debug_string);
}

// Launches on several devices by one call are enqueued together, so that all devices get the
// programs of several threads in the same order: two that wait for one another would wait for ever.
std::mutex& GangMutex() {
  static auto* const mutex = new std::mutex;  // as long as the process
  return *mutex;
}

// What the `index`-th of this process's devices of a program for several is. Takes its next launch, if it has any.
Participation Participate(const PJRT_LoadedExecutable& executable, size_t index) {
  Participation participation;
  participation.participant = executable.participants[index];
  const int64_t partitions = executable.device_assignment.num_partitions;
  participation.replica = participation.participant / partitions;
  participation.partition = participation.participant % partitions;
  if (executable.client->job != nullptr) {
    participation.device = executable.devices[index]->description->id;
  }
  if (executable.launches != nullptr) {
    participation.launch = executable.launches->Next(participation.participant);
  }
  return participation;
}

// What a call says for all of its launches.
struct CallOptions {
  std::span<const int64_t> non_donatable;
  std::shared_ptr<const UserData> user_data;
  uint64_t caller = 0;
};

// The handles of a launch's results. They are made in the caller's list before the launch, after
// which nothing may fail; the list gets null pointers if it does not come to that.
class OutputHandles {
 public:
  explicit OutputHandles(PJRT_Buffer** outputs) : outputs_(outputs) {}
  ~OutputHandles() {
    for (size_t i = 0; i < made_; ++i) delete std::exchange(outputs_[i], nullptr);
  }
  OutputHandles(const OutputHandles&) = delete;
  OutputHandles& operator=(const OutputHandles&) = delete;

  void Make(const Shape& shape, PJRT_Memory* memory, Layout* layout) {
    outputs_[made_] = new PJRT_Buffer(shape, memory, layout);
    ++made_;
  }
  void Give(std::span<Ref<Buffer>> results) {
    for (size_t i = 0; i < made_; ++i) outputs_[i]->buffer = std::move(results[i]);
    made_ = 0;
  }

 private:
  PJRT_Buffer** const outputs_;
  size_t made_ = 0;
};

// Runs on one device and puts handles of the results into `outputs`; null pointers on error.
Status Launch(const PJRT_LoadedExecutable& executable, PJRT_Device* device,
              std::span<PJRT_Buffer* const> arguments, const CallOptions& options,
              const Participation* participation, PJRT_Buffer** outputs, PJRT_Event** done_handle) {
  const ExecutableInfo& info = *executable.info;
  ScratchArray<Buffer*, kInlineBuffers> buffers(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == nullptr) [[unlikely]] {
      return InvalidArgument("argument ", i, " of program ", info.executable->name(), " is null");
    }
    if (arguments[i]->memory->client != executable.client) [[unlikely]] {
      return ForeignBufferError(executable, i);
    }
    Layout* const layout = i < info.parameter_layouts.size() ? info.parameter_layouts[i] : nullptr;
    if (arguments[i]->layout != layout) [[unlikely]] {
      return LayoutError(executable, i, layout, *arguments[i]);
    }
    buffers[i] = arguments[i]->buffer.get();
  }
  const size_t num_outputs = info.num_outputs();
  const Artifact& artifact = info.executable->artifact();
  ScratchArray<Ref<Buffer>, kInlineBuffers> results(artifact.results.size());
  OutputHandles handles(outputs);
  const auto make = [&](size_t i, const Shape& shape) {
    handles.Make(shape, device->memory(info.output_memories[i]),
                 info.result_layouts.empty() ? nullptr : info.result_layouts[i]);
  };
  const bool cut = NeedsCutting(artifact);  // their shapes are known afterwards
  for (size_t i = 0; i < num_outputs && !cut; ++i) make(i, artifact.results[i].shape);
  Ref<Event> done;
  TRIPONT_RETURN_IF_ERROR(info.executable->Execute(
      device->device, buffers.span(), options.non_donatable, results.span(),
      done_handle != nullptr ? &done : nullptr, participation, options.user_data, options.caller));
  if (cut) [[unlikely]] {
    TRIPONT_RETURN_IF_ERROR(CutResults(*info.executable, results.span()));
    for (size_t i = 0; i < num_outputs; ++i) make(i, results[i]->shape());
  }
  handles.Give(results.span());
  if (done_handle != nullptr) *done_handle = ToHandle(std::move(done));
  return OkStatus();
}

// Takes back what the first `launches` of a call gave: the caller gets nothing from one that fails.
void DestroyOutputs(const PJRT_LoadedExecutable_Execute_Args& args, size_t launches) {
  const size_t num_outputs = args.executable->info->num_outputs();
  for (size_t i = 0; i < launches; ++i) {
    for (size_t j = 0; j < num_outputs; ++j) delete std::exchange(args.output_lists[i][j], nullptr);
    if (args.device_complete_events == nullptr) continue;
    PJRT_Event_Destroy_Args event{};
    event.event = args.device_complete_events[i];
    (void)Event_Destroy(event);
  }
}

// As many devices as the program runs on at a time, and lists for each of them.
Status CheckLists(const PJRT_LoadedExecutable_Execute_Args& args, bool one_launch) {
  const PJRT_LoadedExecutable& executable = *args.executable;
  const bool takes = args.num_args > 0;
  const bool gives = executable.info->num_outputs() > 0;
  if (args.num_devices > 0 && ((takes && args.argument_lists == nullptr) ||
                               (gives && args.output_lists == nullptr))) [[unlikely]] {
    return InvalidArgument(
        "PJRT_LoadedExecutable_Execute: `argument_lists` or `output_lists` is null");
  }
  if (args.num_devices != (one_launch ? 1 : executable.devices.size())) [[unlikely]] {
    return InvalidArgument("program ", executable.info->executable->name(), " runs on ",
                           one_launch ? 1 : executable.devices.size(),
                           " devices at a time, but `num_devices` is ", args.num_devices);
  }
  for (size_t i = 0; i < args.num_devices; ++i) {
    if ((takes && args.argument_lists[i] == nullptr) || (gives && args.output_lists[i] == nullptr))
        [[unlikely]] {
      return InvalidArgument(
          "PJRT_LoadedExecutable_Execute: `argument_lists` or `output_lists` of device ", i,
          " is null");
    }
  }
  return OkStatus();
}

Status ReadOptions(const PJRT_LoadedExecutable_Execute_Args& args, CallOptions& read) {
  read.caller = IsProfiling() ? CallerInProfile(args.extension_start) : 0;
  const PJRT_ExecuteOptions* const options = args.options;
  if (options == nullptr) return OkStatus();
  if (TRIPONT_PJRT_HAS_FIELD(options, PJRT_ExecuteOptions, num_non_donatable_input_indices)) {
    read.non_donatable = {options->non_donatable_input_indices,
                          options->num_non_donatable_input_indices};
    if (read.non_donatable.data() == nullptr && !read.non_donatable.empty()) [[unlikely]] {
      return InvalidArgument(
          "PJRT_LoadedExecutable_Execute: `non_donatable_input_indices` is null, but there are ",
          read.non_donatable.size());
    }
  }
  if (TRIPONT_PJRT_HAS_FIELD(options, PJRT_ExecuteOptions, context) &&
      options->context != nullptr) {
    read.user_data = options->context->user_data;
  }
  if (TRIPONT_PJRT_HAS_FIELD(options, PJRT_ExecuteOptions, num_recv_ops) &&
      (options->num_send_ops != 0 || options->num_recv_ops != 0)) [[unlikely]] {
    return Unimplemented("program ", args.executable->info->executable->name(),
                         ": send and recv callbacks are not supported on ", kPlatformName);
  }
  return OkStatus();
}

// The parts of all devices in one launch of a program for several.
Status JoinTogether(const PJRT_LoadedExecutable& executable,
                    std::vector<Participation>& participations) {
  // A device's results are cut before the next one's program is launched, for which it may wait.
  if (NeedsCutting(executable.info->executable->artifact())) {
    return Unimplemented("program ", executable.info->executable->name(),
                         " has results whose sizes depend on values; such a program is launched on "
                         "one device at a time");
  }
  participations.reserve(executable.devices.size());  // no launch is taken and then forgotten
  const Status status = Guarded(executable.info->executable->name(), [&] {
    for (size_t i = 0; i < executable.devices.size(); ++i)
      participations.push_back(Participate(executable, i));
  });
  if (status.ok()) return status;
  for (const Participation& taken : participations) {  // nobody waits for the others
    if (taken.launch) taken.launch->Fail(taken.participant, status);
  }
  return status;
}

// Takes the launches of a call that is refused before its devices take part in them: the other
// devices hear why and wait for nobody, and the next launch is as if nothing had been. device: the
// one that the call names, null for all.
void RefuseLaunches(const PJRT_LoadedExecutable& executable, const PJRT_Device* device,
                    const Status& status) {
  if (executable.launches == nullptr) return;
  std::unique_lock<std::mutex> gang;
  if (device == nullptr) {
    if (executable.client->job == nullptr) return;  // there are no others
    gang = std::unique_lock<std::mutex>(GangMutex());
  }
  for (size_t i = 0; i < executable.devices.size(); ++i) {
    if (device != nullptr && executable.devices[i] != device) continue;
    // Without memory for it there is nothing to tell them by.
    (void)Guarded(executable.info->executable->name(), [&] {
      const Participation refused = Participate(executable, i);
      refused.launch->Fail(refused.participant, status);
    });
  }
}

// The part of `device`, which a call names, in a launch of a program for several.
Status JoinAlone(const PJRT_LoadedExecutable& executable, PJRT_Device* device,
                 std::vector<Participation>& participations) {
  const auto found = std::find(executable.devices.begin(), executable.devices.end(), device);
  if (found == executable.devices.end()) [[unlikely]] {
    return InvalidArgument("program ", executable.info->executable->name(), " is for ",
                           executable.devices.size(), " devices, and ",
                           device->description->debug_string, " is not one of them");
  }
  participations.reserve(1);  // no launch is taken and then forgotten
  participations.push_back(
      Participate(executable, static_cast<size_t>(found - executable.devices.begin())));
  return OkStatus();
}

// What can be said of a call before it is known of which launches it is.
Status CheckAndRead(const PJRT_LoadedExecutable_Execute_Args& args, bool one_launch,
                    CallOptions& options) {
  if (args.executable->deleted.load(std::memory_order_acquire)) [[unlikely]] {
    return DeletedError(*args.executable);
  }
  TRIPONT_RETURN_IF_ERROR(ReadOptions(args, options));
  return CheckLists(args, one_launch);
}

}  // namespace

Status LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args& args) {
  const PJRT_LoadedExecutable& executable = *args.executable;
  const bool one_launch = args.execute_device != nullptr || executable.portable;
  CallOptions options;
  if (Status status = CheckAndRead(args, one_launch, options); !status.ok()) [[unlikely]] {
    RefuseLaunches(executable, args.execute_device, status);
    return status;
  }

  // A program for one device, the hot path, needs nothing of this.
  const bool several = executable.device_assignment.device_ids.size() > 1;
  const bool is_of_job = executable.client->job != nullptr;
  std::unique_lock<std::mutex> gang;
  std::vector<Participation> participations;
  if (several && !one_launch) {
    gang = std::unique_lock<std::mutex>(GangMutex());
    TRIPONT_RETURN_IF_ERROR(JoinTogether(executable, participations));
  }
  const size_t num_outputs = executable.info->num_outputs();
  for (size_t i = 0; i < args.num_devices; ++i) {
    std::span<PJRT_Buffer* const> arguments;
    if (args.num_args > 0) arguments = {args.argument_lists[i], args.num_args};
    PJRT_Buffer** outputs = num_outputs > 0 ? args.output_lists[i] : nullptr;
    PJRT_Event** done =
        args.device_complete_events != nullptr ? &args.device_complete_events[i] : nullptr;

    PJRT_Device* device = one_launch ? nullptr : executable.devices[i];
    if (device == nullptr) {
      TRIPONT_ASSIGN_OR_RETURN(device, LaunchDevice(executable, args.execute_device, arguments));
    }
    if (several && one_launch) {
      TRIPONT_RETURN_IF_ERROR(JoinAlone(executable, device, participations));
    }
    if (!several && is_of_job) [[unlikely]] {
      participations.push_back({.is_alone = true, .device = device->description->id, .launch = {}});
    }
    const Participation* const participation = several || is_of_job ? &participations[i] : nullptr;
    // An exception becomes a status, since the other devices of the launch must hear of it.
    Status status = Guarded(executable.info->executable->name(), [&] {
      return Launch(executable, device, arguments, options, participation, outputs, done);
    });
    if (!status.ok()) [[unlikely]] {
      // Nobody waits for a device that does not take part.
      if (several && participation->launch) {
        participation->launch->Fail(participation->participant, status);
      }
      DestroyOutputs(args, i);
      return status;
    }
  }
  return OkStatus();
}

Status ExecuteContext_Create(PJRT_ExecuteContext_Create_Args& args) {
  args.context = new PJRT_ExecuteContext;
  return OkStatus();
}

Status ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args& args) {
  delete args.context;
  return OkStatus();
}

}  // namespace tripont::pjrt
