// Registration of custom call handlers, as JAX hands them over: function pointers in capsules.
#include "core/bindings/ffi.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <string>

#include "core/bindings/arrays.h"
#include "core/runtime/ffi/registry.h"
#include "core/runtime/strings.h"

namespace tripont::python {
namespace py = pybind11;
namespace {

// The pointer in a capsule of any name.
void* Pointer(const py::handle& object, const std::string& what) {
  if (!PyCapsule_CheckExact(object.ptr())) {
    throw py::type_error(what + " is a " + std::string(py::str(py::type::of(object))) +
                         ", not a PyCapsule with a function's address (jax.ffi.pycapsule)");
  }
  void* const pointer = PyCapsule_GetPointer(object.ptr(), PyCapsule_GetName(object.ptr()));
  if (pointer == nullptr) throw py::error_already_set();
  return pointer;
}

ffi::Handler* AsHandler(const py::handle& object, const std::string& what) {
  return reinterpret_cast<ffi::Handler*>(Pointer(object, what));
}

void RegisterCustomCall(const std::string& name, const py::object& function, int api_version) {
  if (api_version == 0) {
    Check(ffi::RegisterUntyped(
        name, reinterpret_cast<ffi::UntypedFunction>(Pointer(function, "'" + name + "'"))));
    return;
  }
  if (api_version != 1) {
    throw py::value_error("custom call '" + name + "': api_version is " +
                          std::to_string(api_version) + ", expected 0 or 1");
  }
  ffi::HandlerBundle bundle{};
  if (!py::isinstance<py::dict>(function)) {
    bundle.execute = AsHandler(function, "'" + name + "'");
  } else {
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(function)) {
      const std::string stage = py::str(key);
      const std::string what = StrCat("stage '", stage, "' of custom call '", name, "'");
      ffi::Handler** const place = stage == "instantiate"  ? &bundle.instantiate
                                   : stage == "prepare"    ? &bundle.prepare
                                   : stage == "initialize" ? &bundle.initialize
                                   : stage == "execute"    ? &bundle.execute
                                                           : nullptr;
      if (place == nullptr) {
        throw py::value_error(what + ": expected instantiate, prepare, initialize or execute");
      }
      *place = AsHandler(value, what);
    }
  }
  // Handlers are asked for their metadata.
  Check(WithoutGil([&] { return ffi::RegisterHandler(name, bundle); }));
}

void RegisterType(const std::string& name, const py::object& registration) {
  py::object id = registration;
  void (*deleter)(void*) = nullptr;
  if (py::isinstance<py::dict>(registration)) {
    const auto given = py::reinterpret_borrow<py::dict>(registration);
    if (!given.contains("type_id")) throw py::value_error("type '" + name + "' has no type_id");
    id = given["type_id"];
    if (given.contains("type_info")) {
      const auto* const info =
          static_cast<const ffi::TypeInfo*>(Pointer(given["type_info"], "type_info"));
      deleter = info->deleter;
    }
  }
  auto* const type = static_cast<ffi::TypeId*>(Pointer(id, "type_id"));
  Check(ffi::RegisterType(name, deleter, &type->type_id));
}

}  // namespace

void DefineFfi(py::module_& module) {
  module.def("register_custom_call", &RegisterCustomCall, py::arg("name"), py::arg("function"),
             py::arg("api_version") = 1,
             "Registers a handler of the XLA FFI (api_version 1; a capsule, or a dict of capsules "
             "by stage) or an untyped function (api_version 0) under a name, for programs of every "
             "framework.");
  module.def("register_custom_type", &RegisterType, py::arg("name"), py::arg("registration"),
             "Registers a type of state or user data; registration: a capsule of the type's id, or "
             "a dict with type_id and type_info.");
  module.def("custom_calls", &ffi::TargetNames, "Names of the registered custom calls.");
}

}  // namespace tripont::python
