// The optimised program that an executable gives to a framework: all of it, or its outline.
#ifndef TRIPONT_PJRT_OPTIMIZED_PROGRAM_H_
#define TRIPONT_PJRT_OPTIMIZED_PROGRAM_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "core/runtime/artifact.h"

namespace tripont::pjrt {

// The optimised program as a serialized HloModuleProtoWithConfig, which is the form that XLA's
// client reads. The whole one is the executable's HloModuleProto between two short pieces of our
// own, put together when somebody asks for it.
struct OptimizedProgram {
  std::string before;
  std::string_view module;
  std::string after;

  size_t size() const { return before.size() + module.size() + after.size(); }
  bool empty() const { return size() == 0; }
  // Writes size() bytes.
  void WriteTo(char* out) const;
};

// The program shape (ProgramShapeProto) of a serialized HloModuleProto: the caller's arrays, with
// their layouts.
std::string_view ProgramShapeOf(std::string_view module);

// That of `artifact`, which must outlive it. Empty if the artifact holds no program.
OptimizedProgram WholeProgram(const Artifact& artifact);

// The same with one custom call in the place of everything between parameters and results.
// PyTorch/XLA makes two modules, and a proto again, of each optimised program that it compiles, and
// reads the arrays and their shardings there. For a large program that is a third of its own time.
OptimizedProgram OutlineOfProgram(const Artifact& artifact);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_OPTIMIZED_PROGRAM_H_
