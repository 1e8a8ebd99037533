// Executable: a loaded artifact, ready to run on any device of its target.
#ifndef TRIPONT_CORE_RUNTIME_EXECUTABLE_H_
#define TRIPONT_CORE_RUNTIME_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/buffer.h"
#include "core/runtime/collectives.h"
#include "core/runtime/device.h"
#include "core/runtime/export.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/ref_counted.h"
#include "core/runtime/status.h"
#include "core/runtime/wait_history.h"

namespace tripont {

class LoadedProgram;  // the pre-resolved thunks: thunk_sequence.h

// Bytes, as PJRT's CompiledMemoryStats has them.
struct ExecutableMemoryStats {
  int64_t generated_code_size = 0;
  int64_t argument_size = 0;
  int64_t output_size = 0;
  int64_t alias_size = 0;
  int64_t temp_size = 0;
  int64_t constant_size = 0;
};

// Immutable after Load: every function may be called from any thread, several executions may run at
// the same time.
class TRIPONT_EXPORT Executable : public RefCounted<Executable> {
 public:
  // Checks all of the artifact and loads its code for the devices of `backend`. Nothing about the
  // artifact can fail later.
  // INVALID_ARGUMENT for damaged bytes, FAILED_PRECONDITION for another format version, target or a
  // CPU feature that this machine lacks (named), UNIMPLEMENTED for library calls or imports that
  // this version lacks.
  static StatusOr<Ref<Executable>> Load(std::string bytes, Backend& backend);
  // As Load, for an artifact that was compiled for another machine: everything can be asked of it
  // and it can be serialized, but Execute gives FAILED_PRECONDITION. INVALID_ARGUMENT for damaged
  // bytes, FAILED_PRECONDITION for another format version.
  static StatusOr<Ref<Executable>> LoadDescription(std::string bytes);

  const std::string& name() const { return artifact_.name; }
  const std::string& fingerprint() const { return artifact_.fingerprint; }
  // Parameters, results, costs, debug information, program (optimised HLO).
  const Artifact& artifact() const { return artifact_; }
  // The bytes it was loaded from.
  const std::string& bytes() const { return bytes_; }
  const ExecutableMemoryStats& memory_stats() const { return memory_stats_; }
  // Whether executions meet those of other devices, and so need a launch.
  bool has_collectives() const { return !collectives().empty(); }
  // What the collectives are: executables for which this is the same text can meet, though they
  // were made from different programs.
  const std::string& collectives() const;
  // Estimate of one execution, ns; infinity if a loop's trip count is unknown (not of a
  // description: then it counts once).
  double cost_ns() const;
  // One line a thunk, for people.
  std::string ThunkSequenceText() const;

  // Runs the program on `device`.
  //
  // arguments: one buffer a parameter, of that shape, in a memory of `device`; deleted or donated
  // ones are refused, as is a buffer that is donated and used twice in one call. non_donatable:
  // parameters (by number) that the caller wants to keep; the other donatable parameters of the
  // program are donated, that is deleted before this returns, and their memory is used again where
  // nobody outside can see it. results: takes one new buffer a result. done, if not null: takes the
  // event of the end of the execution (null Ref: done already).
  //
  // A small program whose inputs are ready runs on this thread when the device's stream is idle,
  // and is finished when this returns, as does a larger one whose callers wait for it at once
  // (WaitHistory), and one of any size that calls the user's Python on one device; else it is
  // enqueued. Arguments that were borrowed for one call (Buffer::Borrow) are
  // not read after it: what is enqueued reads copies of them, or this waits for it if there is no
  // room for copies (RESOURCE_EXHAUSTED where waiting could be for ever: a program that meets other
  // devices, and in a callback). Errors found before the program starts (and all errors of one that
  // ran on this thread) are returned; later ones come through the definition events of the results,
  // and so does CANCELLED if Ctrl-C ended a Python callback (interrupt.h says why). An argument
  // whose producer failed gives results that failed with the same error.
  //
  // An error that is returned leaves no results. What was to be donated is then as it was before,
  // unless the program had begun to run on this thread, and may have overwritten it: it is deleted.
  // RESOURCE_EXHAUSTED if there is no memory for the call itself.
  //
  // user_data: what custom calls may ask for. caller: for profiles (ExecutionEvent::caller).
  // participation: what `device` is among the devices of the program; null only for a program for one
  // device of a client that is not of a job. An execution that fails after this has returned fails its launch; on an error
  // that this returns the caller does (Launch::Fail).
  Status Execute(Device* device, std::span<Buffer* const> arguments,
                 std::span<const int64_t> non_donatable, std::span<Ref<Buffer>> results,
                 Ref<Event>* done = nullptr, const Participation* participation = nullptr,
                 std::shared_ptr<const UserData> user_data = nullptr, uint64_t caller = 0);

 private:
  friend class RefCounted<Executable>;
  class Execution;
  class Call;
  Executable() = default;
  ~Executable();
  // Whether a call with these arguments can be made at all, by what does not change meanwhile.
  Status CheckCall(const Device* device, std::span<Buffer* const> arguments, size_t num_results,
                   const Participation* participation) const;
  // The addresses of all parameters and results; the thunks run on this thread.
  Status RunProgram(Device* device, void* const* parameters, void* const* results,
                    const Participation* participation, const UserData* user_data,
                    uint64_t caller) const;

  // What Execute needs to know of one parameter.
  struct ParameterPlan {
    int32_t allocation = -1;  // -1: aliased by a result, or unused
    int32_t aliased_by = -1;  // result that shares its memory
    bool donatable = false;
  };
  struct ResultPlan {
    int32_t allocation = -1;
    int32_t aliased_parameter = -1;
    MemoryKind memory = MemoryKind::kDevice;
    size_t byte_size = 0;
    bool deferred = false;  // no thunk writes it: LoadedProgram::deferred_results
  };

  std::string bytes_;
  Artifact artifact_;
  ExecutableMemoryStats memory_stats_;
  std::vector<ParameterPlan> parameters_;
  std::vector<ResultPlan> results_;
  std::unique_ptr<LoadedProgram> program_;  // null: a description
  WaitHistory waits_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_EXECUTABLE_H_
