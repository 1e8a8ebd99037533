// Custom calls from Python: registration of handlers and types, calls of Python functions.
#ifndef TRIPONT_CORE_BINDINGS_FFI_H_
#define TRIPONT_CORE_BINDINGS_FFI_H_

#include <pybind11/pybind11.h>

namespace tripont::python {

// Handlers of the XLA FFI, by PyCapsule.
void DefineFfi(pybind11::module_& module);
// Programs that call Python functions.
void DefineCallbacks(pybind11::module_& module);

}  // namespace tripont::python

#endif  // TRIPONT_CORE_BINDINGS_FFI_H_
