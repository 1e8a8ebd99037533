// Conversions between the runtime's values and Python's.
#ifndef TRIPONT_CORE_BINDINGS_ARRAYS_H_
#define TRIPONT_CORE_BINDINGS_ARRAYS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "core/runtime/allocator.h"
#include "core/runtime/buffer.h"
#include "core/runtime/status.h"

PYBIND11_DECLARE_HOLDER_TYPE(T, tripont::Ref<T>, true)

namespace tripont::python {

// Raises StatusError (a RuntimeError with an attribute `code`, for example "INVALID_ARGUMENT")
// unless the status is OK.
void Check(const Status& status);
// Makes the exception class and adds it to the module.
void DefineStatusError(pybind11::module_& module);

template <typename T>
T Value(StatusOr<T> value) {
  Check(value.status());
  return std::move(value).value();
}

// What `function` returns, without the interpreter's lock: it may take long, or wait for a thread
// that needs the lock.
template <typename Function>
auto WithoutGil(const Function& function) {
  const pybind11::gil_scoped_release release;
  return function();
}

// The element type of a NumPy dtype, ml_dtypes' included; TypeError for others.
PrimitiveType TypeOfDtype(const pybind11::dtype& dtype);
// The NumPy dtype of an element type; types that NumPy lacks need the package ml_dtypes
// (ImportError).
pybind11::dtype DtypeOfType(PrimitiveType type);

Shape ShapeOfArray(const pybind11::array& array);

// A buffer with a copy of `array` (any strides).
Ref<Buffer> BufferFromArray(Memory* memory, const pybind11::array& array);
// A NumPy array with a copy of the buffer's content. Waits for it, without the GIL.
pybind11::array ArrayFromBuffer(Buffer& buffer);

pybind11::tuple DimensionsTuple(const Dimensions& dimensions);
pybind11::dict StatsDict(const AllocatorStats& stats);

}  // namespace tripont::python

#endif  // TRIPONT_CORE_BINDINGS_ARRAYS_H_
