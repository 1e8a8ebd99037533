// The thunks of a loaded program, resolved: pointers to code and objects, slices in one table,
// costs summed up.
#ifndef TRIPONT_CORE_RUNTIME_THUNK_SEQUENCE_H_
#define TRIPONT_CORE_RUNTIME_THUNK_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/backend.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/status.h"
#include "core/runtime/thread.h"

namespace tripont {

struct LoadedThunk;
using LoadedSequence = std::vector<LoadedThunk>;

// Places in LoadedProgram's table of slices.
struct SliceRange {
  uint32_t first = 0;
  uint32_t count = 0;
};

struct LoadedKernel {
  SliceRange arguments;
  KernelHandle kernel = 0;  // of the DeviceProgram
  int64_t work_count = 0;
  int64_t grain = 1;
};

struct LoadedCopy {
  SliceRange slices;  // destination, source
  size_t size = 0;
};

struct LoadedWhile {
  SliceRange predicate;
  int64_t trip_count = -1;
  LoadedSequence condition;
  LoadedSequence body;
};

struct LoadedConditional {
  SliceRange selector;
  bool selector_is_pred = false;
  std::vector<LoadedSequence> branches;
};

struct LoadedCall {
  SliceRange slices;  // operands, then results
  uint32_t num_operands = 0;
  std::unique_ptr<LibraryCall> call;
};

struct LoadedView {
  uint32_t view = 0;  // its allocation
  SliceRange slices;  // source, then indices
  struct Stride {
    bool is_wide = false;  // whether the index has 64 bits, not 32
    int64_t limit = 0;
    int64_t stride = 0;
  };
  std::vector<Stride> strides;
};

struct LoadedThunk {
  int32_t number = 0;  // depth first in the artifact, as ThunkEvent has it (profile.h)
  int32_t debug = -1;
  // In the order of schema::Thunk.
  std::variant<LoadedKernel, LoadedCopy, LoadedWhile, LoadedConditional, LoadedCall, LoadedView>
      what;
};

// Immutable after Load. Run may be called by several threads at the same time.
class LoadedProgram {
 public:
  // Loads the code, copies the constants, makes the library calls. `artifact` passed ParseArtifact,
  // is for the target of `backend`, on whose devices it will run, and outlives this.
  static StatusOr<std::unique_ptr<LoadedProgram>> Load(const Artifact& artifact, Backend& backend);
  ~LoadedProgram();

  // Runs all thunks. bases: address of each allocation but the views, which are set here. The error
  // names the op that failed.
  Status Run(void** bases, LibraryContext& context) const;

  // Address of each constant's allocation, null for the others: what an execution's table of bases
  // starts from.
  const std::vector<void*>& constant_bases() const { return constant_bases_; }
  // Temporary allocations lie one after the other in one arena: where each starts (for the others:
  // -1), and how large it is.
  const std::vector<int64_t>& temp_offsets() const { return temp_offsets_; }
  size_t temp_size() const { return temp_size_; }
  // Whether the host reads or writes temporary values: predicates, operands of library calls that
  // run on it.
  bool host_uses_temporaries() const { return host_uses_temporaries_; }
  // Results that no thunk writes: each is another result in another order, for Buffer::Deferred.
  struct DeferredResult {
    size_t result;
    size_t source;  // the other result
    std::vector<int64_t> byte_strides;
  };
  const std::vector<DeferredResult>& deferred_results() const { return deferred_results_; }
  // Estimate, ns on one core; infinity if a trip count is unknown.
  double cost_ns() const { return cost_ns_; }
  // Bytes of a thread's stack that running it takes at most.
  size_t stack_bytes() const {
    return kStackOfFunction + kStackOfCalls + static_cast<size_t>(deepest_) * kStackOfLevel;
  }
  // Whether it calls functions of the user's that run in an interpreter (LibraryCall::IsCallback).
  bool has_callbacks() const { return has_callbacks_; }
  // What the collectives are, one after the other: programs with the same text can meet. Empty if
  // there are none.
  const std::string& collectives() const { return collectives_; }

 private:
  struct CompactSlice {
    uint32_t allocation;
    uint64_t offset;
  };
  struct State;

  LoadedProgram(const Artifact& artifact, Backend& backend)
      : artifact_(artifact), backend_(backend), constants_source_(backend.memory_source()) {}
  StatusOr<LoadedSequence> LoadSequence(const std::vector<schema::Thunk>& thunks, double* cost_ns);
  // Each makes what runs of a thunk, and adds its cost.
  Status Load(const schema::Kernel& thunk, LoadedKernel& loaded, double* cost_ns);
  Status Load(const schema::Copy& thunk, LoadedCopy& loaded, double* cost_ns);
  Status Load(const schema::While& thunk, LoadedWhile& loaded, double* cost_ns);
  Status Load(const schema::Conditional& thunk, LoadedConditional& loaded, double* cost_ns);
  Status Load(const schema::LibraryCall& thunk, LoadedCall& loaded, double* cost_ns);
  Status Load(const schema::View& thunk, LoadedView& loaded, double* cost_ns);
  Status MakeCall(const schema::LibraryCall& thunk, LoadedCall& loaded);
  void DeferResults();
  int64_t ResultAt(const schema::Operand& operand) const;
  void AddSlice(SliceRange& range, const Slice& slice);
  void* Resolve(const State& state, uint32_t slice) const;
  void** ResolveAll(const State& state, SliceRange slices) const;
  template <bool kProfiled>
  Status RunSequence(const LoadedSequence& sequence, const State& state) const;
  template <bool kProfiled>
  Status RunThunk(const LoadedThunk& thunk, const State& state) const;
  // What RunThunk does for each kind. `debug`: of the thunk, for errors.
  template <bool kProfiled>
  Status Run(const LoadedKernel& kernel, int32_t debug, const State& state) const;
  template <bool kProfiled>
  Status Run(const LoadedCopy& copy, int32_t debug, const State& state) const;
  template <bool kProfiled>
  Status Run(const LoadedWhile& loop, int32_t debug, const State& state) const;
  template <bool kProfiled>
  Status Run(const LoadedConditional& conditional, int32_t debug, const State& state) const;
  template <bool kProfiled>
  Status Run(const LoadedCall& call, int32_t debug, const State& state) const;
  template <bool kProfiled>
  Status Run(const LoadedView& view, int32_t debug, const State& state) const;
  Status Prepare(const State& state) const;
  std::string Describe(int32_t debug) const;

  const Artifact& artifact_;
  Backend& backend_;
  int64_t number_ = 0;  // as ExecutionEvent has it (profile.h)
  std::unique_ptr<DeviceProgram> code_;
  MemorySource* const constants_source_;  // where the constants' memory is from; null: the system
  char* constants_ = nullptr;             // 64-byte aligned and padded
  std::vector<void*> constant_bases_;
  std::vector<int64_t> temp_offsets_;
  size_t temp_size_ = 0;
  bool host_uses_temporaries_ = false;
  size_t max_arguments_ = 0;
  int32_t num_thunks_ = 0;
  double cost_ns_ = 0;
  int32_t depth_ = 0;    // of the sequence that is being loaded
  int32_t deepest_ = 0;  // of all sequences; 1: there are none in others
  bool has_callbacks_ = false;
  // Calls with LibraryCall::NeedsPrepare.
  struct PreparedCall {
    const LibraryCall* call;
    SliceRange slices;
    uint32_t num_operands;
  };
  std::vector<PreparedCall> prepared_calls_;
  struct ViewSource {
    uint32_t view;    // its allocation
    uint32_t source;  // its place in slices_
  };
  std::vector<ViewSource> views_;  // each behind the view that it is a piece of
  std::string collectives_;
  std::vector<DeferredResult> deferred_results_;
  std::vector<CompactSlice> slices_;
  LoadedSequence thunks_;
};

// One line a thunk, for people.
std::string ThunkSequenceText(const Artifact& artifact);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_THUNK_SEQUENCE_H_
