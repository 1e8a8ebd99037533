#include "core/bindings/arrays.h"

#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/interrupt.h"

namespace tripont::python {
namespace py = pybind11;
using pybind11::literals::operator""_a;  // "name"_a = value
namespace {

PyObject* status_error = nullptr;

struct DtypeName {
  std::string_view name;  // numpy.dtype.name
  PrimitiveType type;
  bool in_numpy;  // else ml_dtypes
};

constexpr DtypeName kDtypes[] = {
    {"bool", PrimitiveType::kPred, true},
    {"int8", PrimitiveType::kS8, true},
    {"int16", PrimitiveType::kS16, true},
    {"int32", PrimitiveType::kS32, true},
    {"int64", PrimitiveType::kS64, true},
    {"uint8", PrimitiveType::kU8, true},
    {"uint16", PrimitiveType::kU16, true},
    {"uint32", PrimitiveType::kU32, true},
    {"uint64", PrimitiveType::kU64, true},
    {"float16", PrimitiveType::kF16, true},
    {"float32", PrimitiveType::kF32, true},
    {"float64", PrimitiveType::kF64, true},
    {"complex64", PrimitiveType::kC64, true},
    {"complex128", PrimitiveType::kC128, true},
    {"bfloat16", PrimitiveType::kBF16, false},
    {"int2", PrimitiveType::kS2, false},
    {"int4", PrimitiveType::kS4, false},
    {"uint2", PrimitiveType::kU2, false},
    {"uint4", PrimitiveType::kU4, false},
    {"float4_e2m1fn", PrimitiveType::kF4E2M1FN, false},
    {"float6_e2m3fn", PrimitiveType::kF6E2M3FN, false},
    {"float6_e3m2fn", PrimitiveType::kF6E3M2FN, false},
    {"float8_e3m4", PrimitiveType::kF8E3M4, false},
    {"float8_e4m3", PrimitiveType::kF8E4M3, false},
    {"float8_e4m3fn", PrimitiveType::kF8E4M3FN, false},
    {"float8_e4m3b11fnuz", PrimitiveType::kF8E4M3B11FNUZ, false},
    {"float8_e4m3fnuz", PrimitiveType::kF8E4M3FNUZ, false},
    {"float8_e5m2", PrimitiveType::kF8E5M2, false},
    {"float8_e5m2fnuz", PrimitiveType::kF8E5M2FNUZ, false},
    {"float8_e8m0fnu", PrimitiveType::kF8E8M0FNU, false},
};
constexpr size_t kTypeCount = std::size(kDtypes);

// The dtype of each of them, once it has been asked for. They live as long as the interpreter,
// whose lock guards them.
PyObject* known_dtypes[kTypeCount] = {};

}  // namespace

void DefineStatusError(py::module_& module) {
  // Lives as long as the interpreter.
  status_error = PyErr_NewExceptionWithDoc("tripont.core._tripont.StatusError",
                                           "An error of the runtime. `code` is the name of its "
                                           "status code, for example \"INVALID_ARGUMENT\".",
                                           PyExc_RuntimeError, nullptr);
  if (status_error == nullptr) throw py::error_already_set();
  module.attr("StatusError") = py::handle(status_error);
}

void Check(const Status& status) {
  if (status.ok()) return;
  // Ctrl-C, which the interrupted function could not raise itself.
  if (status.code() == StatusCode::kCancelled && RaiseInterrupt()) throw py::error_already_set();
  // Messages may quote bytes that are not UTF-8.
  const std::string text = status.ToString();
  const py::object message = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  const py::object error = py::reinterpret_borrow<py::object>(status_error)(message);
  error.attr("code") = std::string(StatusCodeName(status.code()));
  PyErr_SetObject(status_error, error.ptr());
  throw py::error_already_set();
}

PrimitiveType TypeOfDtype(const py::dtype& dtype) {
  for (size_t i = 0; i < kTypeCount; ++i) {
    if (known_dtypes[i] == dtype.ptr()) return kDtypes[i].type;
  }
  const std::string name = py::str(dtype.attr("name"));
  for (const DtypeName& entry : kDtypes) {
    if (entry.name == name && dtype.attr("isnative").cast<bool>()) return entry.type;
  }
  throw py::type_error("arrays of dtype " + name + " are not supported");
}

py::dtype DtypeOfType(PrimitiveType type) {
  for (size_t i = 0; i < kTypeCount; ++i) {
    const DtypeName& entry = kDtypes[i];
    if (entry.type != type) continue;
    if (known_dtypes[i] == nullptr) {
      const std::string name(entry.name);
      known_dtypes[i] =
          (entry.in_numpy
               ? py::dtype(name)
               : py::dtype::from_args(py::module_::import("ml_dtypes").attr(name.c_str())))
              .release()
              .ptr();
    }
    return py::reinterpret_borrow<py::dtype>(known_dtypes[i]);
  }
  throw py::type_error("element type " + std::string(TypeName(type)) + " has no NumPy dtype");
}

Shape ShapeOfArray(const py::array& array) {
  return {TypeOfDtype(array.dtype()),
          Dimensions(std::span<const int64_t>(array.shape(), array.ndim()))};
}

Ref<Buffer> BufferFromArray(Memory* memory, const py::array& array) {
  const Shape shape = ShapeOfArray(array);
  const std::vector<int64_t> strides(array.strides(), array.strides() + array.ndim());
  const void* const data = array.data();
  return Value(WithoutGil([&] { return Buffer::FromHost(memory, shape, data, strides); }));
}

py::array ArrayFromBuffer(Buffer& buffer) {
  const Shape& shape = buffer.shape();
  py::array array(DtypeOfType(shape.type),
                  std::vector<py::ssize_t>(shape.dimensions.begin(), shape.dimensions.end()));
  void* const destination = array.mutable_data();
  const size_t size = static_cast<size_t>(array.nbytes());
  Check(WithoutGil([&]() -> Status {
    TRIPONT_ASSIGN_OR_RETURN(const Ref<Event> copied, buffer.CopyToHost(destination, size));
    return copied ? copied->Await() : OkStatus();
  }));
  return array;
}

py::tuple DimensionsTuple(const Dimensions& dimensions) {
  py::tuple tuple(dimensions.size());
  for (size_t i = 0; i < dimensions.size(); ++i) tuple[i] = dimensions[i];
  return tuple;
}

py::dict StatsDict(const AllocatorStats& stats) {
  return py::dict(
      "bytes_in_use"_a = stats.bytes_in_use, "peak_bytes_in_use"_a = stats.peak_bytes_in_use,
      "num_allocs"_a = stats.num_allocs, "largest_alloc_size"_a = stats.largest_alloc_size,
      "bytes_limit"_a = stats.bytes_limit, "bytes_cached"_a = stats.bytes_cached,
      "bytes_reserved"_a = stats.bytes_reserved);
}

}  // namespace tripont::python
