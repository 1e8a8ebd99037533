// Parts of the runtime by themselves, for tests/core/runtime.
#ifndef TRIPONT_CORE_BINDINGS_TESTING_H_
#define TRIPONT_CORE_BINDINGS_TESTING_H_

#include <pybind11/pybind11.h>

namespace tripont::python {

void DefineTesting(pybind11::module_& module);

}  // namespace tripont::python

#endif  // TRIPONT_CORE_BINDINGS_TESTING_H_
