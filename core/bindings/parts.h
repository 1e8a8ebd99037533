// Parts of the module tripont.core._tripont that nothing else names: a build can leave them out
// (TRIPONT_WITHOUT in CMakeLists.txt).
#ifndef TRIPONT_CORE_BINDINGS_PARTS_H_
#define TRIPONT_CORE_BINDINGS_PARTS_H_

#include <pybind11/pybind11.h>

#include <vector>

namespace tripont::python {

using DefinePart = void (*)(pybind11::module_& module);

// What the module defines when it is imported, once its own classes are there.
inline std::vector<DefinePart>& Parts() {
  static std::vector<DefinePart> parts;
  return parts;
}

// Registers a part when the library is loaded.
struct Part {
  explicit Part(DefinePart define) { Parts().push_back(define); }
};

}  // namespace tripont::python

#endif  // TRIPONT_CORE_BINDINGS_PARTS_H_
