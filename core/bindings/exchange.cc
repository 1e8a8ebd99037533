// Exchange of arrays between frameworks, for tripont.interop: what makes buffers of foreign memory
// and shows them to others, by DLPack too. With frameworks.cc the wing `interop` in C++.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bindings/arrays.h"
#include "core/bindings/dlpack.h"
#include "core/bindings/parts.h"
#include "core/runtime/device.h"
#include "core/runtime/memory.h"

namespace tripont::python {
namespace py = pybind11;

namespace dlpack {
namespace {

struct TypeEntry {
  PrimitiveType primitive;
  DataType dtype;
};

// Codes: 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool, 7 and up the 8-bit floats.
constexpr std::array<TypeEntry, 23> kTypes = {{
    {PrimitiveType::kPred, {6, 8, 1}},       {PrimitiveType::kS8, {0, 8, 1}},
    {PrimitiveType::kS16, {0, 16, 1}},       {PrimitiveType::kS32, {0, 32, 1}},
    {PrimitiveType::kS64, {0, 64, 1}},       {PrimitiveType::kU8, {1, 8, 1}},
    {PrimitiveType::kU16, {1, 16, 1}},       {PrimitiveType::kU32, {1, 32, 1}},
    {PrimitiveType::kU64, {1, 64, 1}},       {PrimitiveType::kF16, {2, 16, 1}},
    {PrimitiveType::kF32, {2, 32, 1}},       {PrimitiveType::kF64, {2, 64, 1}},
    {PrimitiveType::kBF16, {4, 16, 1}},      {PrimitiveType::kC64, {5, 64, 1}},
    {PrimitiveType::kC128, {5, 128, 1}},     {PrimitiveType::kF8E3M4, {7, 8, 1}},
    {PrimitiveType::kF8E4M3, {8, 8, 1}},     {PrimitiveType::kF8E4M3B11FNUZ, {9, 8, 1}},
    {PrimitiveType::kF8E4M3FN, {10, 8, 1}},  {PrimitiveType::kF8E4M3FNUZ, {11, 8, 1}},
    {PrimitiveType::kF8E5M2, {12, 8, 1}},    {PrimitiveType::kF8E5M2FNUZ, {13, 8, 1}},
    {PrimitiveType::kF8E8M0FNU, {14, 8, 1}},
}};

}  // namespace

std::optional<DataType> FromPrimitive(PrimitiveType type) {
  for (const TypeEntry& entry : kTypes) {
    if (entry.primitive == type) return entry.dtype;
  }
  return std::nullopt;
}

std::optional<PrimitiveType> ToPrimitive(const DataType& type) {
  for (const TypeEntry& entry : kTypes) {
    if (entry.dtype == type) return entry.primitive;
  }
  return std::nullopt;
}

}  // namespace dlpack

namespace {

// Python objects whose last use may end on a thread that has no interpreter lock and must not wait
// for it (a thread that has it may be waiting for this one). They are let go when the interpreter
// comes by.
class Garbage {
 public:
  static Garbage& Global() {
    static auto* const garbage = new Garbage;
    return *garbage;
  }
  // Takes a reference over. From any thread.
  void Drop(PyObject* object) {
    if (Py_IsInitialized() == 0) return;  // the process ends
    if (PyGILState_Check() != 0) {
      Py_DECREF(object);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      objects_.push_back(object);
    }
    Py_AddPendingCall(
        [](void*) {
          Garbage::Global().Collect();
          return 0;
        },
        nullptr);  // if too many calls are pending, one of those collects this object too
  }
  // With the interpreter lock.
  void Collect() {
    std::vector<PyObject*> objects;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      objects.swap(objects_);
    }
    for (PyObject* const object : objects) Py_DECREF(object);
  }

 private:
  std::mutex mutex_;
  std::vector<PyObject*> objects_;
};

Memory* DefaultMemory(Device& device) { return device.default_memory(); }

// A buffer on the memory of an array, which it keeps; null if it cannot be read there.
Ref<Buffer> FromMemory(const py::array& array, Device& device) {
  Garbage::Global().Collect();
  if ((array.flags() & py::array::c_style) == 0) {
    throw py::value_error("the array is not contiguous");
  }
  void* const data = const_cast<void*>(array.data());
  const Shape shape = ShapeOfArray(array);
  if (!Buffer::CanViewInPlace(DefaultMemory(device), data)) return nullptr;
  PyObject* const object = array.ptr();
  Py_INCREF(object);
  StatusOr<Ref<Buffer>> buffer = Buffer::FromExternal(DefaultMemory(device), shape, data,
                                                      [object] { Garbage::Global().Drop(object); });
  if (!buffer.ok()) Py_DECREF(object);
  return Value(std::move(buffer));
}

// The content in place, once it is there: read-only, and keeping the memory.
py::array View(Buffer& buffer) {
  if (!buffer.device()->uses_host_memory()) {
    throw py::value_error("the memory of " + buffer.device()->description() +
                          " cannot be read in place");
  }
  Ref<Buffer> share = Value(Buffer::Share(buffer));
  Check(WithoutGil([&] { return share->definition_event()->Await(); }));
  const Shape shape = share->shape();
  void* const data = share->data();
  const py::capsule owner(share.Leak(), [](void* kept) {
    const Ref<Buffer> last = Ref<Buffer>::Adopt(static_cast<Buffer*>(kept));
  });
  py::array view(DtypeOfType(shape.type),
                 std::vector<py::ssize_t>(shape.dimensions.begin(), shape.dimensions.end()), data,
                 owner);
  py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return view;
}

// ------------------------------------------------------------------------------------------------
// DLPack

// What a capsule holds until its consumer is done.
template <typename Managed>
struct Export {
  Managed managed;
  Ref<Buffer> share;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

template <typename Managed>
Managed* MakeExport(Buffer& buffer, bool ready) {
  const Shape& shape = buffer.shape();
  const std::optional<dlpack::DataType> dtype = dlpack::FromPrimitive(shape.type);
  if (!dtype) {
    throw py::buffer_error(StrCat("the array ", shape, ": DLPack has no such element type"));
  }
  if (!ready && !buffer.device()->uses_host_memory()) {
    throw py::buffer_error(StrCat("the array ", shape, " is in the memory of ",
                                  buffer.device()->description(), ", not in the host's"));
  }
  auto exported = std::make_unique<Export<Managed>>();
  exported->share = Value(Buffer::Share(buffer));
  if (!ready) {
    Check(WithoutGil([&] { return exported->share->definition_event()->Await(); }));
  }
  exported->shape.assign(shape.dimensions.begin(), shape.dimensions.end());
  exported->strides.resize(exported->shape.size());
  int64_t stride = 1;
  for (size_t i = exported->shape.size(); i-- > 0;) {
    exported->strides[i] = stride;
    stride *= exported->shape[i];
  }
  exported->managed.tensor = {.data = exported->share->data(),
                              .device = {dlpack::kCpu, 0},
                              .rank = static_cast<int32_t>(exported->shape.size()),
                              .dtype = *dtype,
                              .shape = exported->shape.data(),
                              .strides = exported->strides.data(),
                              .byte_offset = 0};
  exported->managed.context = exported.get();
  exported->managed.deleter = [](Managed* managed) {
    delete static_cast<Export<Managed>*>(managed->context);
  };
  return &exported.release()->managed;
}

// A capsule whose content nobody took frees it.
template <typename Managed>
py::object MakeCapsule(Managed* managed, const char* name) {
  PyObject* const capsule = PyCapsule_New(managed, name, [](PyObject* object) {
    const char* const current = PyCapsule_GetName(object);
    if (current == nullptr || std::string_view(current).starts_with("used_")) return;
    auto* const content = static_cast<Managed*>(PyCapsule_GetPointer(object, current));
    if (content != nullptr) content->deleter(content);
  });
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

py::object UnversionedCapsule(Buffer& buffer, bool ready) {
  return MakeCapsule(MakeExport<dlpack::ManagedTensor>(buffer, ready), dlpack::kName);
}

// Python's array API: `max_version` of the consumer decides about the generation.
py::object DlpackCapsule(Buffer& buffer, const py::object& stream,
                         const std::optional<std::pair<int, int>>& max_version,
                         const std::optional<std::pair<int, int>>& dl_device,
                         std::optional<bool> copy) {
  if (!stream.is_none()) throw py::buffer_error("`stream`: arrays on the host have none");
  if (dl_device && *dl_device != std::pair<int, int>(dlpack::kCpu, 0)) {
    throw py::buffer_error("`dl_device`: the array is on the host, (1, 0)");
  }
  Ref<Buffer> source(&buffer);
  if (copy.value_or(false)) {
    source = Value(WithoutGil([&] { return buffer.CopyToMemory(buffer.memory()); }));
  }
  if (!max_version || max_version->first < 1) return UnversionedCapsule(*source, false);
  auto* const managed = MakeExport<dlpack::VersionedManagedTensor>(*source, false);
  managed->version = {1, 0};
  managed->flags = copy.value_or(false) ? dlpack::kIsCopied : dlpack::kReadOnly;
  return MakeCapsule(managed, dlpack::kVersionedName);
}

bool IsRowMajor(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t stride = 1;
  bool dense = true;
  for (int32_t i = tensor.rank; i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) dense = false;
    stride *= tensor.shape[i];
  }
  return dense;
}

template <typename Managed>
Ref<Buffer> TakeManaged(const py::object& capsule, const char* name, const char* used_name,
                        Device& device) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr) throw py::error_already_set();
  const dlpack::Tensor& tensor = managed->tensor;
  const std::optional<PrimitiveType> type = dlpack::ToPrimitive(tensor.dtype);
  if (!type) {
    throw py::buffer_error(StrCat("a DLPack array of type code ", int{tensor.dtype.code}, ", ",
                                  int{tensor.dtype.bits}, " bits and ", tensor.dtype.lanes,
                                  " lanes: there is no such element type here"));
  }
  Shape shape;
  shape.type = *type;
  const std::vector<int64_t> dimensions(tensor.shape, tensor.shape + tensor.rank);
  shape.dimensions = Dimensions(dimensions);
  if (tensor.device.type != dlpack::kCpu) {
    throw py::buffer_error(StrCat("the DLPack array ", shape, " is on a device of type ",
                                  tensor.device.type, ", not on the host (1)"));
  }
  if (!IsRowMajor(tensor)) {
    throw py::buffer_error(StrCat("the DLPack array ", shape, " is not contiguous"));
  }
  void* const data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  Ref<Buffer> buffer = Value(Buffer::FromExternal(DefaultMemory(device), shape, data, [managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }));
  PyCapsule_SetName(capsule.ptr(), used_name);
  return buffer;
}

Ref<Buffer> FromDlpack(const py::object& capsule, Device& device) {
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedName) != 0) {
    const auto* const managed = static_cast<dlpack::VersionedManagedTensor*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersionedName));
    if (managed->version.major != 1) {
      throw py::buffer_error(StrCat("a capsule of DLPack ", managed->version.major,
                                    ": versions 0 and 1 are known here"));
    }
    return TakeManaged<dlpack::VersionedManagedTensor>(capsule, dlpack::kVersionedName,
                                                       dlpack::kUsedVersionedName, device);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kName) == 0) {
    throw py::type_error("no DLPack capsule, or one that was taken already");
  }
  return TakeManaged<dlpack::ManagedTensor>(capsule, dlpack::kName, dlpack::kUsedName, device);
}

// Adds to the class Buffer.
void DefineExchange(py::module_& module) {
  py::class_<Buffer, Ref<Buffer>>(module.attr("Buffer"))
      .def(
          "share", [](Buffer& source) { return Value(Buffer::Share(source)); },
          "Another buffer on the same memory. Raises StatusError if this one was deleted.")
      .def_property_readonly("byte_size", &Buffer::byte_size)
      .def_property_readonly("numpy_dtype",
                             [](const Buffer& self) { return DtypeOfType(self.shape().type); })
      .def(
          "is_on",
          [](const Buffer& self, const Device& device) {
            return self.memory() == device.default_memory();
          },
          py::arg("device"), "Whether it is in that device's own memory, the kind \"device\".")
      .def_static("from_memory", &FromMemory, py::arg("array"), py::arg("device"),
                  "A buffer on the memory of a contiguous NumPy array, which it keeps. Not to be "
                  "written to while there are programs that read it. None where the device cannot "
                  "read it: it must be able to read the process's memory, at a multiple of 64 "
                  "bytes. TypeError if the device has no such element type.")
      .def("view", &View,
           "The content in place, as a read-only NumPy array that keeps the memory. Waits for it. "
           "Raises ValueError where the host cannot read the memory.")
      .def("dlpack_capsule", &UnversionedCapsule, py::arg("ready") = false,
           "The buffer as a capsule of DLPack 0. With ready=True the caller sees to it that nobody "
           "reads the content where it cannot be read, or before it is there.")
      .def_static("from_dlpack", &FromDlpack, py::arg("capsule"), py::arg("device"),
                  "A buffer on the memory of a capsule, of DLPack 0 or 1, that is then used up. "
                  "BufferError for arrays that are not dense, in the host's memory and of a known "
                  "element type; StatusError for memory that is not aligned to 64 bytes.")
      .def("__dlpack__", &DlpackCapsule, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
           py::arg("copy") = py::none(),
           "A capsule of DLPack 1, read-only, if max_version allows it, else one of DLPack 0.")
      .def("__dlpack_device__", [](const Buffer&) { return py::make_tuple(int{dlpack::kCpu}, 0); });
}

const Part exchange_part(&DefineExchange);

}  // namespace

}  // namespace tripont::python
