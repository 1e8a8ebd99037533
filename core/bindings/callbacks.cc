// Programs that call Python: the custom call "tripont.python_callback".
//
// Its attribute `callback` is the name of a Python function in this process
// (core/runtime/callback_names.h): a number, which frontends/jax/callbacks.py gives out. The call takes the GIL and gives the function copies of the
// operands. It runs on the thread that started the program where nothing is ahead on the device's
// stream, else on the stream's. Nobody may wait for the stream while holding the GIL: JAX does not,
// and our own bindings release it.
//
// A program for several devices may also show Python the sharding of an array while it is compiled
// (frontends/jax/inspection.py).
#include <pybind11/numpy.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/bindings/arrays.h"
#include "core/bindings/ffi.h"
#include "core/runtime/callback_names.h"
#include "core/runtime/client.h"
#include "core/runtime/ffi/attributes.h"
#include "core/runtime/ffi/registry.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/parallel.h"
#include "core/runtime/partitioners.h"

namespace tripont::python {
namespace py = pybind11;
namespace {

constexpr char kTarget[] = "tripont.python_callback";

// Whether Python can be entered still: false once the interpreter is about to end.
std::atomic<bool> running{false};

// The Python functions by number, each with the handles and the loaded calls that need it. Those
// that nobody needs any more wait in `garbage` for somebody who holds the GIL: programs are
// destroyed by threads that do not, and must not wait for it.
class Functions {
 public:
  static Functions& Global() {
    static auto* const functions = new Functions;
    return *functions;
  }
  // With the GIL.
  void Add(uint64_t number, py::object function) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_[number] = {function.release().ptr(), 1};
    AddCallbackNumber(number);
  }
  // Null if there is no such number.
  PyObject* Hold(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(number);
    if (found == entries_.end()) return nullptr;
    ++found->second.users;
    return found->second.function;
  }
  void Release(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(number);
    if (found == entries_.end() || --found->second.users > 0) return;
    garbage_.push_back(found->second.function);
    entries_.erase(found);
    RemoveCallbackNumber(number);
  }
  // With the GIL.
  void Collect() {
    std::vector<PyObject*> garbage;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      garbage.swap(garbage_);
    }
    for (PyObject* const function : garbage) Py_DECREF(function);
  }
  size_t size() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    PyObject* function;
    int users;
  };
  std::mutex mutex_;
  std::map<uint64_t, Entry> entries_;
  std::vector<PyObject*> garbage_;
};

// The exception as Python prints it. The GIL is held.
std::string Traceback(py::error_already_set& error) {
  try {
    return py::str(py::module_::import("tripont.core.tracebacks")
                       .attr("format_exception")(error.type(), error.value(), error.trace()));
  } catch (py::error_already_set&) {
    return error.what();
  }
}

py::array CopyOf(const Shape& shape, const void* data) {
  py::array array(DtypeOfType(shape.type),
                  std::vector<py::ssize_t>(shape.dimensions.begin(), shape.dimensions.end()));
  std::memcpy(array.mutable_data(), data, static_cast<size_t>(array.nbytes()));
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

class PythonCall : public LibraryCall {
 public:
  // Takes a hold of the number over.
  PythonCall(uint64_t number, PyObject* function, std::vector<Shape> operands,
             std::vector<Shape> results)
      : number_(number),
        function_(function),
        operands_(std::move(operands)),
        results_(std::move(results)) {}
  ~PythonCall() override { Functions::Global().Release(number_); }

  bool IsCallback() const override { return true; }

  Status Execute(LibraryContext&, void* const* operands, void* const* results) const override {
    if (!running.load(std::memory_order_acquire)) {
      return Unavailable("the Python function was not called: Python is shutting down");
    }
    const py::gil_scoped_acquire gil;
    Functions::Global().Collect();
    try {
      return Call(operands, results);
    } catch (py::error_already_set& error) {
      if (error.matches(PyExc_KeyboardInterrupt) || error.matches(PyExc_SystemExit)) {
        const std::string type = py::str(error.type().attr("__name__"));
        PyErr_Restore(error.type().inc_ref().ptr(), error.value().inc_ref().ptr(),
                      error.trace().inc_ref().ptr());
        if (KeepInterrupt()) return Cancelled("the Python function was interrupted by ", type);
        PyErr_Clear();
      }
      return Internal("the Python function failed: ", Traceback(error));
    }
  }

 private:
  Status Call(void* const* operands, void* const* results) const {
    py::tuple arguments(operands_.size());
    for (size_t i = 0; i < operands_.size(); ++i) arguments[i] = CopyOf(operands_[i], operands[i]);
    const py::tuple values = py::reinterpret_borrow<py::object>(function_)(*arguments);
    if (values.size() != results_.size()) {
      return Internal("the Python function gave ", values.size(), " results, expected ",
                      results_.size());
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const py::array value = py::array::ensure(values[i], py::array::c_style);
      const size_t size = *results_[i].ByteSize();
      if (!value || static_cast<size_t>(value.nbytes()) != size) {
        return Internal("result ", i, " of the Python function is not an array of shape ",
                        results_[i]);
      }
      std::memcpy(results[i], value.data(), size);
    }
    return OkStatus();
  }

  const uint64_t number_;
  PyObject* const function_;
  const std::vector<Shape> operands_;
  const std::vector<Shape> results_;
};

StatusOr<uint64_t> NumberIn(std::string_view name) {
  uint64_t number = 0;
  if (name.size() == kCallbackName.size() + kCallbackDigits && name.starts_with(kCallbackName)) {
    const char* const end = name.data() + name.size();
    const auto [read, error] = std::from_chars(end - kCallbackDigits, end, number, 16);
    if (error == std::errc() && read == end) return number;
  }
  return InvalidArgument("the attribute `callback` is not the name of a Python function");
}

StatusOr<std::unique_ptr<LibraryCall>> MakeCall(const LibraryCallSignature& signature,
                                                std::string_view bytes) {
  TRIPONT_ASSIGN_OR_RETURN(const auto dictionary, ffi::AttributeDictionary::Decode(bytes));
  const int64_t index = dictionary->Find("callback");
  const ffi::Attributes& attributes = dictionary->attributes();
  if (index < 0 || attributes.types[index] != ffi::AttributeType::kString) {
    return InvalidArgument("the attribute `callback` is missing");
  }
  const auto* const text = static_cast<const ffi::ByteSpan*>(attributes.values[index]);
  TRIPONT_ASSIGN_OR_RETURN(const uint64_t number, NumberIn({text->ptr, text->len}));
  PyObject* const function = Functions::Global().Hold(number);
  if (function == nullptr) {
    return FailedPrecondition(
        "the program calls a Python function of the process that compiled it; programs with "
        "callbacks cannot be saved and loaded elsewhere");
  }
  std::vector<Shape> operands;
  operands.reserve(signature.operands.size());
  for (const LibraryOperand& operand : signature.operands) operands.push_back(operand.shape);
  return std::make_unique<PythonCall>(number, function, std::move(operands), signature.results);
}

void StartCallbacks() {
  Check(ffi::RegisterFactory(kTarget, MakeCall, /*replace=*/true));
  running.store(true, std::memory_order_release);
}

void StopCallbacks() {
  if (const Core* const core = Core::GetIfCreated(); core != nullptr && !InForkedChild()) {
    for (int i = 0; i < core->num_devices(); ++i) core->device(i)->stream().Synchronize();
  }
  running.store(false, std::memory_order_release);
}

void AddCallback(uint64_t number, py::object function) {
  Functions::Global().Add(number, std::move(function));
  Functions::Global().Collect();
}

void RemoveCallback(uint64_t number) {
  Functions::Global().Release(number);
  Functions::Global().Collect();
}

// Answers the question of an InspectSharding call, of which `config` are the bytes in the program.
StatusOr<std::vector<std::string>> Inspect(PyObject* show, const std::string& config,
                                           const std::string& sharding) {
  if (!running.load(std::memory_order_acquire))
    return Unavailable("inspect_array_sharding: Python is shutting down");
  const py::gil_scoped_acquire gil;
  try {
    if (py::reinterpret_borrow<py::object>(show)(py::bytes(config), py::bytes(sharding))
            .cast<bool>()) {
      return std::vector<std::string>();
    }
  } catch (py::error_already_set& error) {
    return Internal("inspect_array_sharding: ", Traceback(error));
  } catch (const py::cast_error& error) {
    return Internal("inspect_array_sharding: ", error.what());
  }
  return InvalidArgument(
      kInspectShardingTarget,
      ": the program does not name a function that JAX made in this process and that is still "
      "there; was the program made by another process?");
}

void ShowShardings(py::object show) {
  // Kept for good: a compile on a thread without the GIL may hold the partitioner.
  PyObject* const function = show.release().ptr();
  Check(RegisterPartitioner(
      kInspectShardingTarget,
      {/*side_effects_may_be_replicated=*/true,
       [function](PartitioningQuestion question,
                  std::span<const std::string> parts) -> StatusOr<std::vector<std::string>> {
         if (question != PartitioningQuestion::kInspect || parts.size() != 2)
           return Internal("the compile worker asked a malformed question about a sharding");
         return Inspect(function, parts[0], parts[1]);
       }}));
}

}  // namespace

void DefineCallbacks(py::module_& module) {
  module.def("start_callbacks", &StartCallbacks, "From now on programs may call Python functions.");
  module.def("stop_callbacks", &StopCallbacks, py::call_guard<py::gil_scoped_release>(),
             "Waits for what was started on all devices; programs that would call Python fail from "
             "then on. For the end of the interpreter.");
  module.def("add_callback", &AddCallback, py::arg("number"), py::arg("function"),
             "Programs that name the number call function(*arrays), which gives a tuple of arrays "
             "of the dtypes and shapes that the program expects.");
  module.def("remove_callback", &RemoveCallback, py::arg("number"),
             "No more programs with the number are loaded; those that are keep the function.");
  module.def(
      "show_shardings", &ShowShardings, py::arg("show"),
      "Compiles of programs with InspectSharding calls call show(config, sharding): the bytes "
      "in the program and a serialized OpSharding. False is an error of the program.");
  module.def("num_callbacks", [] {
    Functions::Global().Collect();
    return Functions::Global().size();
  });
}

}  // namespace tripont::python
