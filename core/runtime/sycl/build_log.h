// What the SYCL runtime says about a failure.
#ifndef TRIPONT_CORE_RUNTIME_SYCL_BUILD_LOG_H_
#define TRIPONT_CORE_RUNTIME_SYCL_BUILD_LOG_H_

#include <functional>
#include <string>

namespace tripont::sycl {

// dpctl's C interface turns an exception of the SYCL runtime into a null result, and writes its
// text (for a kernel bundle: the build log) to std::cerr if DPCTL_VERBOSITY says so. Runs `failing`
// again with that on, and returns what it wrote. For failures only: what other threads write to
// std::cerr meanwhile ends up in the result.
std::string BuildLog(const std::function<void()>& failing);

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_SYCL_BUILD_LOG_H_
