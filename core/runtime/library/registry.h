// Library calls: code that compiled programs use and the compiler does not generate (oneDNN, sorts,
// random numbers, linear algebra, ...).
//
// One name, one factory. When an artifact is loaded, the factory checks shapes, dtypes and
// attributes of one call and makes a LibraryCall object with everything precomputed; so what does
// not fit is refused when loading, not when running. Then Execute is called once an execution,
// possibly by several threads at the same time.
//
// To add one: write a class and a factory in a file of this folder and register it in
// RegisterLibraryCalls (library.cc).
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_REGISTRY_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/runtime/allocator.h"
#include "core/runtime/collectives_in_flight.h"
#include "core/runtime/export.h"
#include "core/runtime/parallel.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont {

class Backend;
class Device;
struct Participation;

// The attributes of one call. A factory reads each with the getter of its type, then calls
// CheckAllUsed, so that an unknown attribute is an error. Getters: INVALID_ARGUMENT if the
// attribute is missing or of another type. (The compiler writes int, bool and lists of them as
// integers; float and lists with a float as floats; str and bytes as bytes.)
class TRIPONT_EXPORT LibraryAttributes {
 public:
  using Value = std::variant<std::vector<int64_t>, std::vector<double>, std::string, const void*>;

  void Add(std::string name, Value value) {
    values_.insert_or_assign(std::move(name), Entry{std::move(value)});
  }

  bool Has(std::string_view name) const;
  StatusOr<int64_t> Integer(std::string_view name) const;  // a list of exactly one
  StatusOr<int64_t> IntegerOr(std::string_view name,
                              int64_t otherwise) const;  // otherwise: if it is missing
  StatusOr<std::vector<int64_t>> Integers(std::string_view name) const;
  StatusOr<double> Float(
      std::string_view name) const;  // a list of exactly one; an integer is converted
  StatusOr<double> FloatOr(std::string_view name, double otherwise) const;
  StatusOr<std::vector<double>> Floats(std::string_view name) const;
  StatusOr<std::string> Bytes(std::string_view name) const;
  // Address of a function in the program's code. Its signature is a matter of the library call.
  StatusOr<const void*> Function(std::string_view name) const;
  // INVALID_ARGUMENT naming an attribute that no getter has read.
  Status CheckAllUsed() const;

 private:
  struct Entry {
    Value value;
    mutable bool used = false;
  };
  const Entry* Find(std::string_view name) const;
  std::map<std::string, Entry, std::less<>> values_;
};

struct LibraryOperand {
  Shape shape;
  // Address of the value if it is a constant of the program (valid as long as the LibraryCall),
  // else null: lets a factory prepare constant weights once.
  const void* constant = nullptr;
};

// What a factory gets. Valid during the call of the factory only.
struct LibraryCallSignature {
  std::string name;
  std::vector<LibraryOperand> operands;
  std::vector<Shape> results;
  LibraryAttributes attributes;
  std::string debug;           // op name and source line, for messages; may be empty
  Backend* backend = nullptr;  // of the devices that the program will run on; never null
};

// Scratch memory of the caching allocator, freed when destroyed. Start and end as Allocator says
// (64 bytes).
class TRIPONT_EXPORT Scratch {
 public:
  Scratch() = default;
  Scratch(Allocator* allocator, Block block) : allocator_(allocator), block_(block) {}
  Scratch(Scratch&& other) noexcept
      : allocator_(std::exchange(other.allocator_, nullptr)),
        block_(std::exchange(other.block_, Block{})) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(block_, other.block_);
    return *this;
  }
  ~Scratch() {
    if (allocator_ != nullptr) allocator_->Free(block_);
  }
  void* data() const { return block_.data; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(block_.data);
  }

 private:
  Allocator* allocator_ = nullptr;
  Block block_;
};

// Objects of the user that an execution carries to its custom calls: by the number of their type.
using UserData = std::map<int64_t, void*>;

// What an execution offers to a library call. For parallel loops: ParallelFor of parallel.h.
class TRIPONT_EXPORT LibraryContext {
 public:
  LibraryContext(Device* device, Allocator* allocator, const Participation* participation)
      : device_(device), allocator_(allocator), participation_(participation) {}
  Device* device() const { return device_; }
  // For calls that use the device's queue: `thing` (scratch memory, objects that what was enqueued
  // refers to) is destroyed when everything that was enqueued until now is done.
  void KeepUntilDone(std::shared_ptr<void> thing) { until_done_.push_back(std::move(thing)); }
  size_t num_kept_until_done() const { return until_done_.size(); }
  // The queue was waited for.
  void ReleaseKept() { until_done_.clear(); }
  // At least `size` bytes, content undefined; RESOURCE_EXHAUSTED.
  StatusOr<Scratch> AllocateScratch(size_t size);
  // A number that no other execution in the process has.
  int64_t run_id();
  // Null if there is none.
  const UserData* user_data() const { return user_data_; }
  void set_user_data(const UserData* user_data) { user_data_ = user_data; }
  // For profiles: ExecutionEvent::caller.
  uint64_t caller() const { return caller_; }
  void set_caller(uint64_t caller) { caller_ = caller; }
  // What `call` keeps from its preparation to the end of the execution; null at first.
  std::shared_ptr<void>& KeptFor(const void* call) { return kept_[call]; }
  // What this device is among those of the program (collectives.h). A program for one device has
  // none, or one that is_alone.
  const Participation* participation() const { return participation_; }
  // Collectives of this execution that run beside it.
  CollectivesInFlight& collectives_in_flight();
  bool has_collectives_in_flight() const {
    return collectives_in_flight_ != nullptr && !collectives_in_flight_->empty();
  }

 private:
  Device* const device_;
  std::vector<std::shared_ptr<void>> until_done_;
  Allocator* const allocator_;
  const UserData* user_data_ = nullptr;
  uint64_t caller_ = 0;
  int64_t run_id_ = 0;
  // An execution's calls are made one after the other, on one thread.
  std::map<const void*, std::shared_ptr<void>> kept_;
  const Participation* const participation_;
  std::unique_ptr<CollectivesInFlight> collectives_in_flight_;  // null: none has begun yet
};

enum class PrepareStep { kPrepare, kInitialize };

class TRIPONT_EXPORT LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Whether Prepare is to be called: for every call of a program once an execution, before its
  // first thunk; first one step for all calls, then the other. Arrays have addresses but no content
  // yet.
  virtual bool NeedsPrepare() const { return false; }
  virtual Status Prepare(LibraryContext&, PrepareStep, void* const* /*operands*/,
                         void* const* /*results*/) const {
    return OkStatus();
  }
  // operands[i], results[i]: addresses, at multiples of 64 if the slice starts there (the compiler
  // aligns all values to 64). Results do not overlap operands unless they are the same slice (the
  // compiler does that only where the call's documentation in core/compiler says it may). The error
  // gets the op's name and source line put before it.
  virtual Status Execute(LibraryContext& context, void* const* operands,
                         void* const* results) const = 0;
  // True if Execute calls the user's Python. Programs with such calls run on the caller's thread
  // where they can, however long they take.
  virtual bool IsCallback() const { return false; }
  // True if Execute meets other devices: the execution must belong to a launch, and never runs on
  // the caller's thread.
  virtual bool IsCollective() const { return false; }
  // For a collective: all that two programs must agree on to meet in it.
  virtual std::string Description() const { return ""; }
  // Where the result is the operand in another order and nothing else: the byte strides, one a
  // dimension of the result, with which the operand is read. Empty: it computes something.
  virtual std::span<const int64_t> DeferredStrides() const { return {}; }
  // True if Execute enqueues its work in the device's queue, after what is there, instead of doing
  // it on the host before it returns. Other calls run when the queue is empty.
  virtual bool UsesQueue() const { return false; }
};

using LibraryFactory =
    StatusOr<std::unique_ptr<LibraryCall>> (*)(const LibraryCallSignature& signature);

// Filled once, then read-only.
class TRIPONT_EXPORT LibraryRegistry {
 public:
  void Register(std::string_view name, LibraryFactory factory);
  // Null if there is none of that name.
  LibraryFactory Find(std::string_view name) const;
  std::vector<std::string> names() const;
  // The process's registry, filled by RegisterLibraryCalls at the first call. Thread-safe.
  static const LibraryRegistry& Global();

 private:
  std::map<std::string, LibraryFactory, std::less<>> factories_;
};

// In library.cc: registers every library call of the runtime.
void RegisterLibraryCalls(LibraryRegistry& registry);

// Versions and paths of the libraries in use, as (name, text); opens none that is not open. In
// library.cc.
TRIPONT_EXPORT std::vector<std::pair<std::string, std::string>> LibraryVersions();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_REGISTRY_H_
