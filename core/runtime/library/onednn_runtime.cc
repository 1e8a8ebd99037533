// What the oneDNN of the package takes from the Intel compiler's runtime besides functions of libm: two
// names for memcpy and memset. The package's copy of the library asks libtripont.so for them
// (cmake/fetch_onednn.py), so that a process needs no other library that bears the runtime's name.
#include <cstddef>
#include <cstring>

#include "core/runtime/export.h"

extern "C" {

TRIPONT_EXPORT void* _intel_fast_memcpy(void* destination, const void* source, size_t size) {
  return std::memcpy(destination, source, size);
}

TRIPONT_EXPORT void* _intel_fast_memset(void* destination, int value, size_t size) {
  return std::memset(destination, value, size);
}

}  // extern "C"
