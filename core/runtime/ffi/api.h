// What handlers call: the function table of the FFI, and the object behind an execution context.
#ifndef TRIPONT_CORE_RUNTIME_FFI_API_H_
#define TRIPONT_CORE_RUNTIME_FFI_API_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/runtime/event.h"
#include "core/runtime/ffi/c_api.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/status.h"

namespace tripont::ffi {

// A status on its way through the C ABI.
struct Error {
  Status status;
};
// The status of an error (null: OK), which is destroyed.
Status TakeError(Error* error);
// Null for OK.
Error* MakeError(Status status);

struct Future {
  Ref<Event> event = MakeRef<Event>();
};

// User objects that handlers of one stage leave for later stages, each with its type's deleter.
class State {
 public:
  State() = default;
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // Takes the object over. FAILED_PRECONDITION if there is one, NOT_FOUND for an unknown type; then
  // the object stays the caller's.
  Status Set(int64_t type_id, void* object);
  // NOT_FOUND if nothing was set, INVALID_ARGUMENT if it has another type.
  StatusOr<void*> Get(int64_t type_id) const;

 private:
  int64_t type_id_ = 0;
  void* object_ = nullptr;
  void (*deleter_)(void*) = nullptr;
};

// State of the stages before kExecute, by stage.
using States = std::array<State*, 3>;

// Lives during one call of a handler. Its memory that the handler did not free goes with it.
struct ExecutionContext {
  LibraryContext* library = nullptr;  // null while a program is loaded
  States states{};                    // null: the stage has none (yet)
  std::vector<Scratch> memory;
};

// Never destroyed.
const Api& GetApi();

}  // namespace tripont::ffi

#endif  // TRIPONT_CORE_RUNTIME_FFI_API_H_
