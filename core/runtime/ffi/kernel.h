// Kernels of the user: a C function with ordinary parameters, or a kernel in a module that
// devices build (an OpenCL kernel in SPIR-V), called by programs under a name.
//
// tripont.kernels (Python) reads the function's prototype, compiles it together with an entry
// function that takes all parameters as a table of 64-bit slots, and registers both here. What a
// program gives the kernel is checked against the prototype when the program is loaded.
#ifndef TRIPONT_CORE_RUNTIME_FFI_KERNEL_H_
#define TRIPONT_CORE_RUNTIME_FFI_KERNEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"
#include "core/schema/artifact.h"

namespace tripont::ffi {

// How to fill one slot.
struct TRIPONT_EXPORT KernelParameter {
  enum class Kind {
    kOperand,     // address of operand `array`
    kResult,      // address of result `array`
    kAttribute,   // the attribute `name`, converted to `type`
    kSize,        // elements of an array
    kRank,        // its number of dimensions
    kDimension,   // its dimension number `dimension`
    kDimensions,  // address of its dimensions, int64_t
    kBegin,       // first unit of work of this call
    kEnd,         // the unit after the last
  };
  Kind kind = Kind::kOperand;
  std::string name;
  int64_t array = 0;                             // which operand, or which result
  bool of_result = false;                        // kSize to kDimensions: `array` is a result
  int64_t dimension = 0;                         // negative: from the end
  PrimitiveType type = PrimitiveType::kInvalid;  // arrays: kInvalid takes any
};

// The function of the kernel's parameters as slots. Null if it succeeded, else the message of the
// failure, or (`returns_code`) a number that is not 0. Called by several threads at once.
using KernelEntry = const void* (*)(const uint64_t* slots);

struct TRIPONT_EXPORT Kernel {
  KernelEntry entry = nullptr;
  bool returns_code = false;
  std::vector<KernelParameter> parameters;
  // For kernels with kBegin and kEnd: the range [0, n) is split over threads, in pieces of about
  // `grain`. n: elements of the first result, or with `rows` its first dimension.
  bool rows = false;
  int64_t grain = 1;
  std::shared_ptr<void> code;  // keeps what `entry` is in
  // A kernel that devices build instead, one work-item a unit of work: a module in a format that
  // their backend takes ("SPIR-V"), and its entry point's name. `entry` is null then, and there
  // are no kBegin, kEnd, kDimensions.
  std::string module;
  std::string module_format;
  std::string entry_point;
  size_t group = 0;  // work-items of a work-group; 0: as many as the device likes
};

// INVALID_ARGUMENT for a plan that contradicts itself. A program with a call of a kernel in a module
// is refused with FAILED_PRECONDITION when it is loaded for devices that do not take that format. A kernel of the same name is
// replaced for programs that are loaded from now on.
TRIPONT_EXPORT Status RegisterKernel(std::string_view name, Kernel kernel);

// Maps machine code of tripont's own compiler (an image with imports, see code_image.h) and gives
// the address at `offset`; the code lives as long as `*code`.
TRIPONT_EXPORT StatusOr<const void*> MapKernelCode(std::string_view image,
                                                   std::span<const schema::Import> imports,
                                                   int64_t offset, std::shared_ptr<void>* code);

}  // namespace tripont::ffi

#endif  // TRIPONT_CORE_RUNTIME_FFI_KERNEL_H_
