// Exchange of arrays between frameworks, for tripont.interop: the Python side of
// core/runtime/exchange.h, and DLPack.
#ifndef TRIPONT_CORE_BINDINGS_EXCHANGE_H_
#define TRIPONT_CORE_BINDINGS_EXCHANGE_H_

#include <pybind11/pybind11.h>

#include "core/runtime/buffer.h"

PYBIND11_DECLARE_HOLDER_TYPE(T, tripont::Ref<T>, true)

namespace tripont::python {

// Adds to class Buffer what makes buffers of foreign memory and shows them to others.
void DefineExchange(pybind11::class_<Buffer, Ref<Buffer>>& buffer);
// Adds the submodule `exchange`: ways for buffers through the frameworks.
void DefineFrameworks(pybind11::module_& module);

}  // namespace tripont::python

#endif  // TRIPONT_CORE_BINDINGS_EXCHANGE_H_
