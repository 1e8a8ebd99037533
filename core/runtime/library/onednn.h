// oneDNN in C++: owned objects, and a Plan that runs one primitive with the reorders around it.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_ONEDNN_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_ONEDNN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/dtype.h"
#include "core/runtime/library/onednn_api.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/status.h"

namespace tripont::onednn {

// Frees any object of the API. The library is never closed, so owners may be destroyed at any time.
struct Destroyer {
  void operator()(MemoryDesc object) const { LoadedOrNull()->memory_desc_destroy(object); }
  void operator()(Memory object) const { LoadedOrNull()->memory_destroy(object); }
  void operator()(PrimitiveDesc object) const { LoadedOrNull()->primitive_desc_destroy(object); }
  void operator()(Primitive object) const { LoadedOrNull()->primitive_destroy(object); }
  void operator()(PrimitiveAttributes object) const {
    LoadedOrNull()->primitive_attr_destroy(object);
  }
  void operator()(PostOps object) const { LoadedOrNull()->post_ops_destroy(object); }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer>;

using OwnedMemoryDesc = Owned<MemoryDesc>;
using OwnedPrimitiveDesc = Owned<PrimitiveDesc>;
using OwnedPrimitive = Owned<Primitive>;
using OwnedAttributes = Owned<PrimitiveAttributes>;

// oneDNN's number for an element type; kUndefined if it has none.
DataType DataTypeOf(PrimitiveType type);

// An array of `dimensions` at `strides` (in elements).
StatusOr<OwnedMemoryDesc> StridedDesc(const Api& api, DataType type,
                                      std::span<const int64_t> dimensions,
                                      std::span<const int64_t> strides);
// An array of `dimensions` whose layout the primitive shall choose.
StatusOr<OwnedMemoryDesc> AnyDesc(const Api& api, DataType type,
                                  std::span<const int64_t> dimensions);

// One operation after the primitive's own, in the order of execution.
struct PostOp {
  enum class Kind { kElementwise, kBinary, kSum };
  Kind kind;
  Algorithm algorithm;  // not of kSum
  float alpha = 0.0F;   // kElementwise: the algorithm's parameters
  float beta = 0.0F;
  ConstMemoryDesc operand = nullptr;  // kBinary: the second operand

  static PostOp Elementwise(Algorithm algorithm, float alpha = 0.0F, float beta = 0.0F) {
    return {Kind::kElementwise, algorithm, alpha, beta};
  }
  static PostOp Binary(Algorithm algorithm, ConstMemoryDesc operand) {
    return {Kind::kBinary, algorithm, 0.0F, 0.0F, operand};
  }
  // Adds what is in the result's memory already.
  static PostOp Sum() { return {Kind::kSum, Algorithm::kBinaryAdd}; }
};

// Attributes with user-managed scratchpads (the only mode in which one primitive may run on several
// threads at once).
StatusOr<OwnedAttributes> MakeAttributes(const Api& api, std::span<const PostOp> post_ops = {});

// "brgconv:avx512_core", "ref:any", ...
std::string_view ImplementationName(const Api& api, ConstPrimitiveDesc desc);
// The reference implementations are correct, and a thousand times slower than the others.
bool IsReference(const Api& api, ConstPrimitiveDesc desc);

// One input or output of a plan.
struct PlanArray {
  int arg;  // the primitive's argument index
  bool is_output;
  size_t index;                    // of the library call's operand or result
  OwnedMemoryDesc layout;          // how the array lies in the caller's memory
  const void* constant = nullptr;  // an input that never changes, or null
  size_t piece_bytes = 0;          // how far the pieces lie apart; 0: each reads the whole array
};

// A primitive on one device, and a reorder for each array that the primitive wants in another
// layout than the caller's. Constant inputs are reordered once, when the plan is made. A plan of
// several `pieces` executes the primitive, which is that of one piece, once for each of them in the
// same scratch memory; a plan that enqueues its work has one piece. Execute may be called by several
// threads at once; where Port::UsesQueue says so, it enqueues its work in the device's queue.
class Plan {
 public:
  static StatusOr<std::unique_ptr<Plan>> Create(const Api& api, OwnedPrimitiveDesc desc,
                                                std::vector<PlanArray> arrays, int64_t pieces = 1);
  ~Plan();
  Status Execute(LibraryContext& context, void* const* operands, void* const* results) const;
  // Whether an output is computed elsewhere and reordered into the caller's memory at the end.
  bool StagesOutputs() const;

 private:
  // One primitive's execution: memory objects, to be pointed at the caller's arrays.
  struct Step {
    OwnedPrimitive primitive;
    std::vector<int> args;                 // argument indices, the scratchpad's (if any) last
    std::vector<OwnedMemoryDesc> layouts;  // one an argument
    size_t scratchpad_size = 0;
  };
  // Memory objects of all steps. A set is used by one execution at a time.
  struct State {
    std::vector<Owned<Memory>> memories;
    std::vector<ExecutionArgument> arguments;
  };
  // An array that goes through a reorder, into or out of `size` bytes at `offset` of the scratch
  // block.
  struct Staged {
    size_t array;
    size_t step;
    size_t offset;
  };

  explicit Plan(const Api& api) : api_(api) {}
  Status AddStep(ConstPrimitiveDesc desc, std::vector<int> args,
                 std::vector<OwnedMemoryDesc> layouts);
  Status AddReorder(ConstMemoryDesc from, ConstMemoryDesc to);
  Status PackConstant(size_t array, ConstMemoryDesc to);
  StatusOr<std::unique_ptr<State>> MakeState() const;
  StatusOr<std::unique_ptr<State>> TakeState() const;
  void GiveBack(std::unique_ptr<State> state) const;
  Status Run(const State& state, size_t step, std::span<void* const> handles, Stream stream) const;
  // `outside`: where the piece begins in each of the caller's arrays.
  Status RunPiece(const State& state, int64_t piece, std::span<char* const> outside, char* scratch,
                  Stream stream) const;

  const Api& api_;
  std::vector<PlanArray> arrays_;
  std::vector<Step> steps_;    // [0] is the primitive, then the reorders
  std::vector<size_t> first_;  // first memory object of each step
  std::vector<Staged> staged_;
  // Constants in the primitive's layout, from the backend's memory if it has its own.
  struct Packed {
    void* data = nullptr;  // null: the array is not packed
    size_t size = 0;
  };
  std::vector<Packed> packed_;  // one an array
  MemorySource* memory_source_ = nullptr;
  size_t scratch_size_ = 0;  // of one execution: staged arrays, then the largest scratchpad
  size_t scratchpad_offset_ = 0;
  int64_t pieces_ = 1;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<State>> free_states_;
};

// The same plan for each of the process's devices.
class Plans {
 public:
  using Maker = std::function<StatusOr<std::unique_ptr<Plan>>(const Api& api)>;

  static StatusOr<std::unique_ptr<Plans>> Create(const Backend& backend, const Maker& make);
  Status Execute(LibraryContext& context, void* const* operands, void* const* results) const;
  bool StagesOutputs() const;
  // As LibraryCall has it.
  bool UsesQueue() const { return uses_queue_; }

 private:
  std::vector<std::unique_ptr<Plan>> plans_;  // by device, or one for all
  bool uses_queue_ = false;
};

}  // namespace tripont::onednn

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_ONEDNN_H_
