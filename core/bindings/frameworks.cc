// The submodule `exchange`: buffers through the frameworks, by the ways of core/runtime/exchange.h.
#include <pybind11/pybind11.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/bindings/arrays.h"
#include "core/bindings/parts.h"
#include "core/runtime/device.h"
#include "core/runtime/exchange.h"

namespace tripont::python {
namespace py = pybind11;
namespace {

// For as long as it lives, the buffer whose address a framework asks for on this thread is noted.
class Capture {
 public:
  Capture() { exchange::BeginCapture(); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { exchange::EndCapture(); }
  Ref<Buffer> Take() { return exchange::EndCapture(); }
};

Ref<Buffer> CaptureIn(const py::function& function, const py::args& arguments) {
  Capture capture;
  function(*arguments);
  return capture.Take();
}

py::object OfferIn(Ref<Buffer> buffer, const py::function& function, const py::args& arguments) {
  struct Offer {
    explicit Offer(Ref<Buffer> buffer) { exchange::Offer(std::move(buffer)); }
    Offer(const Offer&) = delete;
    Offer& operator=(const Offer&) = delete;
    ~Offer() { exchange::Withdraw(); }
  };
  const bool empty = buffer->byte_size() == 0;
  const Offer offer(std::move(buffer));
  py::object result = function(*arguments);
  return exchange::Withdraw() || empty ? result : py::none();
}

// The functions of nextpluggable/eager_tensors.h, by their addresses: they are in a library that is
// loaded with TensorFlow alone.
class Tensorflow {
 public:
  Tensorflow(uintptr_t export_tensor, uintptr_t import_buffer, uintptr_t wrap)
      : export_(reinterpret_cast<char* (*)(void*)>(export_tensor)),
        import_(reinterpret_cast<char* (*)(void*, int64_t, int, int, void**)>(import_buffer)),
        wrap_(reinterpret_cast<char* (*)(void*, void**)>(wrap)) {}

  Ref<Buffer> Export(const py::object& tensor) const {
    Capture capture;
    RaiseIf(WithoutGil([&] { return export_(tensor.ptr()); }));
    Ref<Buffer> captured = capture.Take();
    if (!captured) throw std::runtime_error("its array was deleted or donated to a program");
    return captured;
  }

  py::object Import(Buffer& buffer, const py::capsule& context, int dtype) const {
    const int64_t ticket = exchange::Deposit(Value(Buffer::Share(buffer)));
    const int ordinal = buffer.device()->id();
    void* const the_context = context.get_pointer();
    void* handle = nullptr;
    RaiseIf(WithoutGil([&] {
      char* const message = import_(the_context, ticket, dtype, ordinal, &handle);
      if (message != nullptr) (void)exchange::Collect(ticket);
      return message;
    }));
    void* tensor = nullptr;
    RaiseIf(wrap_(handle, &tensor));
    if (tensor == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(static_cast<PyObject*>(tensor));
  }

 private:
  static void RaiseIf(char* message) {
    if (message == nullptr) return;
    const std::string text(message);
    std::free(message);
    throw std::runtime_error(text);
  }

  char* (*const export_)(void*);
  char* (*const import_)(void*, int64_t, int, int, void**);
  char* (*const wrap_)(void*, void**);
};

void DefineFrameworks(py::module_& module) {
  py::module_ submodule =
      module.def_submodule("exchange", "Ways for buffers through the frameworks.");
  submodule.def("capture", &CaptureIn, py::arg("function"),
                "Calls function(*arguments). A share of the last buffer whose address a framework "
                "asked for meanwhile on this thread, or None.");
  submodule.def("offer", &OfferIn, py::arg("buffer"), py::arg("function"),
                "function(*arguments), in which a framework that makes a buffer of this one's "
                "memory, on this thread, gets a share of this one. None if none did, and there was "
                "memory to share.");
  py::class_<Tensorflow>(submodule, "Tensorflow",
                         "TensorFlow's side, by the addresses of its adapter's functions.")
      .def(py::init<uintptr_t, uintptr_t, uintptr_t>(), py::arg("export_tensor"),
           py::arg("import_buffer"), py::arg("wrap"))
      .def("export_tensor", &Tensorflow::Export, py::arg("tensor"),
           "A share of the buffer behind an EagerTensor of XPU. RuntimeError if there is none.")
      .def("import_buffer", &Tensorflow::Import, py::arg("buffer"), py::arg("context"),
           py::arg("dtype"),
           "An EagerTensor on the buffer, on the device of that number, in TensorFlow's context (a "
           "capsule). dtype: the number of TensorFlow's element type. RuntimeError if TensorFlow "
           "does not take it; StatusError if the buffer was deleted.");
}

const Part frameworks_part(&DefineFrameworks);

}  // namespace

}  // namespace tripont::python
