// Fuzzer: a serialized CompileOptionsProto. It is refused, or what is read of it can be written
// canonically and read again to the same.
#include "pjrt/compile_options.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tripont::pjrt;
  const auto options = ParseCompileOptions({reinterpret_cast<const char*>(data), size});
  if (!options.ok()) {
    if (options.status().message().empty()) std::abort();
    return 0;
  }
  const std::string canonical = CanonicalCompileOptions(*options);
  const auto again = ParseCompileOptions(canonical);
  if (!again.ok() || CanonicalCompileOptions(*again) != canonical) std::abort();
  (void)CompilerOptions(*options);
  if (options->has_device_assignment) (void)options->device_assignment.Serialize();
  return 0;
}
