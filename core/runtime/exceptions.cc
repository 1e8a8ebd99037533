#include "core/runtime/exceptions.h"

#include <exception>
#include <new>

namespace tripont {
namespace {

constexpr std::string_view kOutOfHostMemory = "out of host memory";

// Made while there is memory, when the library is loaded, and never destroyed.
const Status& KeptStatus() {
  static const auto* const status = new Status(ResourceExhausted(kOutOfHostMemory));
  return *status;
}
[[maybe_unused]] const Status& kept_made_at_start = KeptStatus();

}  // namespace

Status OutOfHostMemory() noexcept { return KeptStatus(); }

Status StatusOfException(std::string_view about) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return ResourceExhausted(about, ": ", kOutOfHostMemory);
    } catch (const std::exception& exception) {
      return Internal(about, ": ", exception.what());
    } catch (...) {
      return Internal(about, ": an exception of an unknown type");
    }
  } catch (...) {  // no memory for the message
    return OutOfHostMemory();
  }
}

}  // namespace tripont
