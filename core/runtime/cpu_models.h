// CPUs by name, as `tripont compile --cpu` and TRIPONT_CPU take them. The table is
// core/compiler/targets/host/cpus.txt, which the compiler reads too; it is part of this library.
#ifndef TRIPONT_CORE_RUNTIME_CPU_MODELS_H_
#define TRIPONT_CORE_RUNTIME_CPU_MODELS_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

struct CpuModel {
  std::string name;                   // as it was asked for: "x86-64-v3+avxvnni"
  std::string architecture;           // "x86_64" or "aarch64"
  std::vector<std::string> features;  // LLVM's names, sorted
};

// The model `name`: a name of the table, and behind it features that it has besides, each after a
// "+". INVALID_ARGUMENT for a name or a feature that the table does not have.
TRIPONT_EXPORT StatusOr<CpuModel> FindCpuModel(std::string_view name);
// The names of the table, in its order.
TRIPONT_EXPORT std::vector<std::string> CpuModelNames();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CPU_MODELS_H_
