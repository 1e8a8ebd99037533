// The process's custom calls: handlers and types by name.
//
// A program names the custom calls that it makes; their code is the user's, found here when an
// artifact is loaded. All frameworks in the process share this registry, so a handler that one of
// them registered can be called from programs of the others. Names are never removed: loaded
// programs hold the addresses.
//
// All functions may be called from any thread.
#ifndef TRIPONT_CORE_RUNTIME_FFI_REGISTRY_H_
#define TRIPONT_CORE_RUNTIME_FFI_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/ffi/c_api.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/status.h"

namespace tripont::ffi {

// The platform that handlers are registered for ("xpu"); "XPU" is the same.
TRIPONT_EXPORT bool IsOurPlatform(std::string_view platform);

// A function of the old kind (API version 0 of jax.ffi): result pointer (a table of pointers if
// there are several results), table of operand pointers.
using UntypedFunction = void (*)(void* result, const void** operands);

// Makes the call for one site in a program, or says why it cannot: for custom calls that are
// implemented inside this project (kernels.h). `attributes`: the encoded dictionary.
using CallFactory = std::function<StatusOr<std::unique_ptr<LibraryCall>>(
    const LibraryCallSignature& signature, std::string_view attributes)>;

// One registered name; exactly one of the three is set.
struct Target {
  HandlerBundle bundle{};
  UntypedFunction untyped = nullptr;
  CallFactory factory;
};

// Registers a handler. `execute` is required. Asks each handler for its metadata first.
// INVALID_ARGUMENT: no name or no execute handler; ALREADY_EXISTS: another handler has the name;
// UNIMPLEMENTED: compiled for a version of the ABI that is not ours; or the error of the handler.
TRIPONT_EXPORT Status RegisterHandler(std::string_view name, const HandlerBundle& bundle);
TRIPONT_EXPORT Status RegisterUntyped(std::string_view name, UntypedFunction function);
// `replace`: an earlier factory of the name is replaced, for programs loaded from now on.
TRIPONT_EXPORT Status RegisterFactory(std::string_view name, CallFactory factory, bool replace);
// Null if there is none of that name. Valid for ever.
TRIPONT_EXPORT const Target* FindTarget(std::string_view name);
TRIPONT_EXPORT std::vector<std::string> TargetNames();

// Registers a type of user data or state. type_id in: 0 to be given one, else the type's number
// elsewhere (a type has one number in a process). `deleter` may be null. INVALID_ARGUMENT if name
// and number do not fit what was registered before.
TRIPONT_EXPORT Status RegisterType(std::string_view name, void (*deleter)(void*), int64_t* type_id);

struct Type {
  std::string name;
  void (*deleter)(void*) = nullptr;
};
// Nothing if no type has that number.
TRIPONT_EXPORT std::optional<Type> FindType(int64_t type_id);

}  // namespace tripont::ffi

#endif  // TRIPONT_CORE_RUNTIME_FFI_REGISTRY_H_
