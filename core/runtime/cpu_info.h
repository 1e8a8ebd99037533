// What CPU this is, in LLVM's terms.
#ifndef TRIPONT_CORE_RUNTIME_CPU_INFO_H_
#define TRIPONT_CORE_RUNTIME_CPU_INFO_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// Makes the process behave as if it ran on the CPU `name` (cpu_models.h): the functions below, and
// the libraries that are opened later, go by it. For the core, before anything else asks.
// INVALID_ARGUMENT for an unknown name; FAILED_PRECONDITION if this CPU lacks instructions of that
// one, which it names, and if the process behaves as another CPU already.
Status ActAsCpu(std::string_view name);
// The name given to ActAsCpu, or "".
TRIPONT_EXPORT std::string_view ActingCpu();

// The features that this CPU and the operating system support, by LLVM's names ("avx2", "sse4.2"),
// sorted, of those that compiled code may need. Those of another CPU after ActAsCpu.
TRIPONT_EXPORT const std::vector<std::string>& CpuFeatures();
TRIPONT_EXPORT bool CpuHasFeature(std::string_view name);
// Bytes of the vectors that functions compiled for several levels of instructions run in: 64 on
// x86-64-v4, 32 on x86-64-v3, else 16.
TRIPONT_EXPORT int VectorBytes();
// Brand string: "AMD EPYC 9654 96-Core Processor"; "... as x86-64-v3" after ActAsCpu.
TRIPONT_EXPORT const std::string& CpuName();
// "x86_64" or "aarch64"
TRIPONT_EXPORT std::string_view CpuArchitecture();
// Model and features in one short string: what compiled code depends on.
TRIPONT_EXPORT const std::string& CpuFingerprint();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CPU_INFO_H_
