// Parts of the module tripont.core._tripont that nothing else names: a build can leave them out
// (TRIPONT_WITHOUT in CMakeLists.txt).
#ifndef TRIPONT_CORE_BINDINGS_PARTS_H_
#define TRIPONT_CORE_BINDINGS_PARTS_H_

#include <pybind11/pybind11.h>

namespace tripont::python {

using DefinePart = void (*)(pybind11::module_& module);

// Registers a part when the library is loaded. Parts are a list through their own members: there is
// no exception while a library is loaded.
struct Part {
  explicit Part(DefinePart define) noexcept : define(define), next(first) { first = this; }

  // What the module defines when it is imported, once its own classes are there.
  static void DefineAll(pybind11::module_& module) {
    for (const Part* part = first; part != nullptr; part = part->next) part->define(module);
  }

  const DefinePart define;
  const Part* const next;
  static inline const Part* first = nullptr;
};

}  // namespace tripont::python

#endif  // TRIPONT_CORE_BINDINGS_PARTS_H_
