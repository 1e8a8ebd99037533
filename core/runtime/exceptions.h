// What exceptions become. The runtime throws none of its own, but the C++ library does where there is no memory, and so
// do libraries that it calls.
#ifndef TRIPONT_CORE_RUNTIME_EXCEPTIONS_H_
#define TRIPONT_CORE_RUNTIME_EXCEPTIONS_H_

#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// RESOURCE_EXHAUSTED, without the name of what needed the memory. Allocates nothing.
TRIPONT_EXPORT Status OutOfHostMemory() noexcept;

// In a catch clause: the status of the exception, with "about: " before its message. RESOURCE_EXHAUSTED
// for std::bad_alloc, else INTERNAL. Where there is no memory for the message: OutOfHostMemory.
TRIPONT_EXPORT Status StatusOfException(std::string_view about) noexcept;

// The status that `function` gives (OK, if it gives nothing), or that of the exception which it throws.
template <typename Function>
Status Guarded(std::string_view about, Function&& function) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Function>>) {
      std::invoke(std::forward<Function>(function));
      return OkStatus();
    } else {
      return std::invoke(std::forward<Function>(function));
    }
  } catch (...) {
    return StatusOfException(about);
  }
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_EXCEPTIONS_H_
