// Kernels that tripont.kernels compiles: the wing `kernels` in C++, with core/runtime/ffi/kernel.h.
#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/bindings/arrays.h"
#include "core/bindings/parts.h"
#include "core/runtime/ffi/kernel.h"

namespace tripont::python {
namespace py = pybind11;
namespace {

using Kind = ffi::KernelParameter::Kind;

// (kind, name, array, whether it is a result, dimension, element type as XLA's number)
using Parameter = std::tuple<std::string, std::string, int64_t, bool, int64_t, int>;

Kind KindOf(const std::string& name) {
  constexpr std::pair<const char*, Kind> kKinds[] = {{"operand", Kind::kOperand},
                                                     {"result", Kind::kResult},
                                                     {"attribute", Kind::kAttribute},
                                                     {"size", Kind::kSize},
                                                     {"rank", Kind::kRank},
                                                     {"dimension", Kind::kDimension},
                                                     {"dimensions", Kind::kDimensions},
                                                     {"begin", Kind::kBegin},
                                                     {"end", Kind::kEnd}};
  for (const auto& [text, kind] : kKinds) {
    if (name == text) return kind;
  }
  throw py::value_error("no kind of parameter is called '" + name + "'");
}

std::vector<ffi::KernelParameter> ReadParameters(const std::vector<Parameter>& parameters) {
  std::vector<ffi::KernelParameter> read;
  read.reserve(parameters.size());
  for (const auto& [kind, text, array, of_result, dimension, type] : parameters) {
    read.push_back(
        {KindOf(kind), text, array, of_result, dimension, static_cast<PrimitiveType>(type)});
  }
  return read;
}

void RegisterKernel(const std::string& name, uintptr_t entry,
                    const std::vector<Parameter>& parameters, bool returns_code, bool rows,
                    int64_t grain, const py::object& image) {
  ffi::Kernel kernel;
  kernel.parameters = ReadParameters(parameters);
  kernel.returns_code = returns_code;
  kernel.rows = rows;
  kernel.grain = grain;
  if (image.is_none()) {
    kernel.entry = reinterpret_cast<ffi::KernelEntry>(entry);
  } else {
    const auto [code, slots] =
        image.cast<std::pair<std::string, std::vector<std::pair<std::string, int64_t>>>>();
    std::vector<schema::Import> imports;
    for (const auto& [symbol, offset] : slots) imports.push_back({symbol, offset});
    const void* const function =
        Value(ffi::MapKernelCode(code, imports, static_cast<int64_t>(entry), &kernel.code));
    kernel.entry = reinterpret_cast<ffi::KernelEntry>(const_cast<void*>(function));
  }
  Check(ffi::RegisterKernel(name, std::move(kernel)));
}

void RegisterModuleKernel(const std::string& name, const std::string& format,
                          const py::bytes& module, const std::string& entry_point,
                          const std::vector<Parameter>& parameters, bool rows, size_t group) {
  ffi::Kernel kernel;
  kernel.parameters = ReadParameters(parameters);
  kernel.rows = rows;
  kernel.module_format = format;
  kernel.module = module;
  kernel.entry_point = entry_point;
  kernel.group = group;
  Check(ffi::RegisterKernel(name, std::move(kernel)));
}

void DefineKernels(py::module_& module) {
  module.def("register_kernel", &RegisterKernel, py::arg("name"), py::arg("entry"),
             py::arg("parameters"), py::arg("returns_code"), py::arg("rows"), py::arg("grain"),
             py::arg("image") = py::none(),
             "Registers a kernel; entry: its address, or its offset in image, a pair of code and "
             "imports.");
  module.def("register_module_kernel", &RegisterModuleKernel, py::arg("name"), py::arg("format"),
             py::arg("module"), py::arg("entry_point"), py::arg("parameters"), py::arg("rows"),
             py::arg("group"),
             "Registers a kernel of a module that devices build; format: \"SPIR-V\".");
}

const Part kernels_part(&DefineKernels);

}  // namespace

}  // namespace tripont::python
