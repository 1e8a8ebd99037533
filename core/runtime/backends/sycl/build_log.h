// What the SYCL runtime and the device's compiler say about a failure.
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_BUILD_LOG_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_BUILD_LOG_H_

#include <functional>
#include <string>
#include <string_view>

namespace tripont::sycl {

// dpctl's C interface turns an exception of the SYCL runtime into a null result, and writes its
// text to std::cerr if DPCTL_VERBOSITY says so. Runs `failing` again with that on, and returns what
// it wrote. For failures only: what other threads write to std::cerr meanwhile ends up in the
// result.
std::string RuntimeLog(const std::function<void()>& failing);

// What the compiler of the OpenCL device of this name says when it builds the module; dpctl does
// not ask for it. Uses the OpenCL loader that the SYCL runtime has opened. Empty if there is no
// such device or it says nothing.
std::string OpenClBuildLog(const std::string& device_name, std::string_view spirv);

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_BUILD_LOG_H_
