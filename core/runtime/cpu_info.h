// What CPU this is, in LLVM's terms.
#ifndef TRIPONT_CORE_RUNTIME_CPU_INFO_H_
#define TRIPONT_CORE_RUNTIME_CPU_INFO_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"

namespace tripont {

// The features that this CPU and the operating system support, by LLVM's names ("avx2", "sse4.2"),
// sorted.
TRIPONT_EXPORT const std::vector<std::string>& CpuFeatures();
TRIPONT_EXPORT bool CpuHasFeature(std::string_view name);
// Whether `name` is a feature that this runtime knows how to detect on this architecture.
TRIPONT_EXPORT bool CpuKnowsFeature(std::string_view name);
// Brand string: "AMD EPYC 9654 96-Core Processor".
TRIPONT_EXPORT const std::string& CpuName();
// "x86_64" or "aarch64"
TRIPONT_EXPORT std::string_view CpuArchitecture();
// Model and features in one short string: what compiled code depends on.
TRIPONT_EXPORT const std::string& CpuFingerprint();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CPU_INFO_H_
