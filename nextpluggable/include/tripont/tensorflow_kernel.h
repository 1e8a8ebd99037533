// Kernels for TensorFlow's device XPU, written by hand.
//
// Such a kernel runs on the host's processor, on the very buffers of the compiled programs around
// it: nothing is copied. It is a class with a constructor that takes the node's attributes and a
// function that computes:
//
//   #include "tripont/tensorflow_kernel.h"
//
//   struct ScaleKernel {
//     explicit ScaleKernel(tripont::Construction& node) : factor(node.Float("factor")) {}
//     void Compute(tripont::Context& context) {
//       const tripont::Array x = context.Input(0);
//       const tripont::Array y = context.Output(0, x.dtype, x.dims());
//       if (!context.ok()) return;
//       for (int64_t i = 0; i < x.size; ++i) y.data<float>()[i] = factor * x.data<float>()[i];
//     }
//     float factor;
//   };
//   TRIPONT_REGISTER_KERNEL(ScaleKernel, tripont::Kernel("Scale").Type("T", TF_FLOAT));
//
// The library is compiled with the flags of `tripont.tensorflow.compile_flags()` and opened with
// `tf.load_op_library`. examples/tensorflow_custom_kernel is a complete one, and docs/tensorflow.md
// explains it.
//
// Threads: Compute may be called by several threads at the same time, with contexts of their own.
// Errors: a failed call sets the context's status, returns arrays without elements, and makes the
// op fail; later calls do nothing. Exceptions that leave the constructor or Compute become errors
// of the op.
#ifndef TRIPONT_TENSORFLOW_KERNEL_H_
#define TRIPONT_TENSORFLOW_KERNEL_H_

#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

// The functions that tripont's adapter exports. The classes below are all that a kernel needs.
extern "C" {

enum { TRIPONT_MAX_RANK = 16 };

typedef struct TripontArray {
  void* data;                            // dense, row-major; aligned to 64 bytes in device memory
  int64_t size;                          // elements
  int64_t dimensions[TRIPONT_MAX_RANK];  // the first `rank`
  int32_t rank;
  TF_DataType dtype;
} TripontArray;

typedef struct TripontVariables TripontVariables;

__attribute__((visibility("default"))) void tripont_kernel_input(TF_OpKernelContext* context,
                                                                 int index, TripontArray* array,
                                                                 TF_Status* status);
__attribute__((visibility("default"))) void tripont_kernel_output(TF_OpKernelContext* context,
                                                                  int index, TF_DataType dtype,
                                                                  const int64_t* dimensions,
                                                                  int rank, TripontArray* array,
                                                                  TF_Status* status);
__attribute__((visibility("default"))) TripontVariables* tripont_kernel_lock_variables(
    TF_OpKernelContext* context, const int* inputs, int count, TripontArray* arrays,
    TF_Status* status);
__attribute__((visibility("default"))) void tripont_kernel_unlock_variables(
    TripontVariables* variables);
__attribute__((visibility("default"))) void tripont_kernel_parallel_for(
    int64_t count, int64_t grain, void (*body)(void* argument, int64_t begin, int64_t end),
    void* argument);
}

namespace tripont {

// A tensor's elements, in device or in host memory. Valid during Compute.
struct Array : TripontArray {
  std::span<const int64_t> dims() const { return {dimensions, static_cast<size_t>(rank)}; }
  // The elements; the caller knows the type (`dtype`).
  template <typename T>
  T* data() const {
    return static_cast<T*>(TripontArray::data);
  }
};

// A node's attributes, while its kernel is made. A missing attribute makes the op fail.
class Construction {
 public:
  explicit Construction(TF_OpKernelConstruction* construction, TF_Status* status)
      : construction_(construction), status_(status) {}

  bool Bool(const char* name) {
    TF_Bool value = 0;
    TF_OpKernelConstruction_GetAttrBool(construction_, name, &value, status_);
    return value != 0;
  }
  int64_t Int(const char* name) {
    int64_t value = 0;
    TF_OpKernelConstruction_GetAttrInt64(construction_, name, &value, status_);
    return value;
  }
  float Float(const char* name) {
    float value = 0;
    TF_OpKernelConstruction_GetAttrFloat(construction_, name, &value, status_);
    return value;
  }
  TF_DataType Type(const char* name) {
    TF_DataType value = TF_FLOAT;
    TF_OpKernelConstruction_GetAttrType(construction_, name, &value, status_);
    return value;
  }
  void Fail(TF_Code code, const std::string& message) {
    TF_SetStatus(status_, code, message.c_str());
  }
  TF_OpKernelConstruction* get() const { return construction_; }

 private:
  TF_OpKernelConstruction* construction_;
  TF_Status* status_;
};

// One call of a kernel.
class Context {
 public:
  Context(TF_OpKernelContext* context, TF_Status* status) : context_(context), status_(status) {}
  Context(const Context&) = delete;
  ~Context() { Unlock(); }

  bool ok() const { return TF_GetCode(status_) == TF_OK; }
  void Fail(TF_Code code, const std::string& message) {
    if (ok()) TF_SetStatus(status_, code, message.c_str());
  }

  // The input tensor, wherever the kernel's registration puts it (device, or host by HostMemory).
  // Waits until programs that compute it are done. Not to be written to: others may hold the same
  // tensor.
  Array Input(int index) {
    Array array{};
    if (ok()) tripont_kernel_input(context_, index, &array, status_);
    return Checked(array);
  }
  // A new output tensor; its content is undefined. For outputs in device or host memory.
  Array Output(int index, TF_DataType dtype, std::span<const int64_t> dims) {
    Array array{};
    if (ok()) {
      tripont_kernel_output(context_, index, dtype, dims.data(), static_cast<int>(dims.size()),
                            &array, status_);
    }
    return Checked(array);
  }
  // The input as output, without copying: both are then the same tensor.
  void Forward(int input, int output) {
    if (!ok()) return;
    TF_Tensor* tensor = nullptr;
    TF_GetInput(context_, input, &tensor, status_);
    if (ok()) TF_SetOutput(context_, output, tensor, status_);
    if (tensor != nullptr) TF_DeleteTensor(tensor);
  }
  // The contents of the variables that the resource inputs `inputs` name, to be read and written in
  // place. They are locked until the context goes or Unlock is called. A variable whose buffer
  // somebody else holds gets a buffer of its own first, with a copy of the content. Once a kernel.
  // A variable may be named once.
  std::vector<Array> Variables(const std::vector<int>& inputs) {
    std::vector<Array> arrays(inputs.size());
    if (!ok()) return arrays;
    std::vector<TripontArray> plain(inputs.size());
    variables_ = tripont_kernel_lock_variables(
        context_, inputs.data(), static_cast<int>(inputs.size()), plain.data(), status_);
    if (ok()) {
      for (size_t i = 0; i < plain.size(); ++i) static_cast<TripontArray&>(arrays[i]) = plain[i];
    }
    return arrays;
  }
  void Unlock() {
    if (variables_ != nullptr) tripont_kernel_unlock_variables(variables_);
    variables_ = nullptr;
  }

  TF_OpKernelContext* get() const { return context_; }

 private:
  Array Checked(const Array& array) const { return ok() ? array : Array{}; }

  TF_OpKernelContext* context_;
  TF_Status* status_;
  TripontVariables* variables_ = nullptr;
};

// Calls body(begin, end) over disjoint pieces of [0, count), of about `grain` or more each, on
// tripont's threads and the caller's. `body` must not throw.
template <typename Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
  tripont_kernel_parallel_for(
      count, grain,
      [](void* argument, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(argument))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// An op of one's own, for TRIPONT_REGISTER_OP. Arguments and attributes as in TensorFlow's
// REGISTER_OP: "x: T", "T: {float, double}", "factor: float = 1".
struct Op {
  std::string name;  // in CamelCase; Python's function is in snake_case
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes = {};
  bool stateful = false;  // has effects besides its outputs, or gives another result every time
};

// What a kernel is registered for.
struct Kernel {
  explicit Kernel(std::string op) : op(std::move(op)) {}
  // Only for this type of the attribute. For several types, register several times.
  Kernel& Type(std::string attribute, TF_DataType type) & {
    types.emplace_back(std::move(attribute), type);
    return *this;
  }
  Kernel&& Type(std::string attribute, TF_DataType type) && {
    return std::move(Type(std::move(attribute), type));
  }
  // The op's argument is in host memory. Resources are in any case.
  Kernel& HostMemory(std::string argument) & {
    host_memory.push_back(std::move(argument));
    return *this;
  }
  Kernel&& HostMemory(std::string argument) && {
    return std::move(HostMemory(std::move(argument)));
  }

  std::string op;
  std::vector<std::pair<std::string, TF_DataType>> types;
  std::vector<std::string> host_memory;
};

namespace internal {

// Runs `body`; what it throws becomes the status.
template <typename Body>
void WithoutExceptions(TF_Status* status, const Body& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "out of host memory");
  } catch (const std::exception& error) {
    TF_SetStatus(status, TF_INTERNAL, error.what());
  }
}

template <typename Implementation>
void* Create(TF_OpKernelConstruction* construction) {
  TF_Status* status = TF_NewStatus();
  Implementation* kernel = nullptr;
  WithoutExceptions(status, [&] {
    Construction node(construction, status);
    if constexpr (std::is_constructible_v<Implementation, Construction&>) {
      kernel = new Implementation(node);
    } else {
      kernel = new Implementation();
    }
  });
  if (TF_GetCode(status) != TF_OK) {
    TF_OpKernelConstruction_Failure(construction, status);
    delete std::exchange(kernel, nullptr);
  }
  TF_DeleteStatus(status);
  return kernel;
}

template <typename Implementation>
void Compute(void* kernel, TF_OpKernelContext* op_context) {
  TF_Status* status = TF_NewStatus();
  WithoutExceptions(status, [&] {
    Context context(op_context, status);
    static_cast<Implementation*>(kernel)->Compute(context);
  });
  if (TF_GetCode(status) != TF_OK) TF_OpKernelContext_Failure(op_context, status);
  TF_DeleteStatus(status);
}

template <typename Implementation>
void Delete(void* kernel) {
  delete static_cast<Implementation*>(kernel);
}

}  // namespace internal

// Registers the op with TensorFlow, with outputs of unknown shape. The empty string, or the error.
inline std::string RegisterOp(const Op& op) {
  TF_OpDefinitionBuilder* builder = TF_NewOpDefinitionBuilder(op.name.c_str());
  for (const std::string& input : op.inputs) TF_OpDefinitionBuilderAddInput(builder, input.c_str());
  for (const std::string& output : op.outputs) {
    TF_OpDefinitionBuilderAddOutput(builder, output.c_str());
  }
  for (const std::string& attribute : op.attributes) {
    TF_OpDefinitionBuilderAddAttr(builder, attribute.c_str());
  }
  TF_OpDefinitionBuilderSetIsStateful(builder, op.stateful);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(
      builder, [](TF_ShapeInferenceContext* context, TF_Status* status) {
        TF_ShapeInferenceContextSetUnknownShape(context, status);
      });
  TF_Status* status = TF_NewStatus();
  TF_RegisterOpDefinition(builder, status);
  std::string error = TF_GetCode(status) == TF_OK ? "" : TF_Message(status);
  TF_DeleteStatus(status);
  return error;
}

// Registers the kernel with TensorFlow, over the compiled kernels of the same op. The empty string,
// or the error.
template <typename Implementation>
std::string RegisterKernel(const Kernel& kernel) {
  TF_Status* status = TF_NewStatus();
  TF_KernelBuilder* builder =
      TF_NewKernelBuilder(kernel.op.c_str(), "XPU", internal::Create<Implementation>,
                          internal::Compute<Implementation>, internal::Delete<Implementation>);
  for (const auto& [attribute, type] : kernel.types) {
    TF_KernelBuilder_TypeConstraint(builder, attribute.c_str(), type, status);
  }
  for (const std::string& argument : kernel.host_memory) {
    TF_KernelBuilder_HostMemory(builder, argument.c_str());
  }
  if (TF_GetCode(status) != TF_OK) {  // a type that the C API cannot name
    std::string error = TF_Message(status);
    TF_DeleteStatus(status);
    TF_DeleteKernelBuilder(builder);
    return error;
  }
  // The kernels that compile the op have priority 0 or 1.
  TF_KernelBuilder_Priority(builder, 2);
  TF_RegisterKernelBuilder(("Tripont" + kernel.op).c_str(), builder, status);
  std::string error = TF_GetCode(status) == TF_OK ? "" : TF_Message(status);
  TF_DeleteStatus(status);
  return error;
}

namespace internal {

// Whether `error` is empty. Otherwise stderr says what is missing: whoever opens the library is not told.
inline bool Registered(const char* what, const std::string& op, const std::string& error) {
  if (error.empty()) return true;
  (void)std::fprintf(stderr, "tripont: %s %s was not registered: %s\n", what, op.c_str(),
                     error.c_str());
  return false;
}

inline bool Register(const Op& op) { return Registered("the op", op.name, RegisterOp(op)); }

template <typename Implementation>
bool Register(const Kernel& kernel) {
  return Registered("a kernel of the op", kernel.op, RegisterKernel<Implementation>(kernel));
}

}  // namespace internal

}  // namespace tripont

#define TRIPONT_CONCATENATE_(a, b) a##b
#define TRIPONT_CONCATENATE(a, b) TRIPONT_CONCATENATE_(a, b)

// Registers the op, or the class, when the library is opened; one that TensorFlow refuses is missing, and stderr says
// why. An exception, as of exhausted memory, ends the process.
#define TRIPONT_REGISTER_OP(...) \
  TRIPONT_REGISTER_(::tripont::internal::Register(__VA_ARGS__), __COUNTER__)
#define TRIPONT_REGISTER_KERNEL(Implementation, kernel) \
  TRIPONT_REGISTER_(::tripont::internal::Register<Implementation>(kernel), __COUNTER__)
#define TRIPONT_REGISTER_(registered, number)                                                  \
  static bool TRIPONT_CONCATENATE(tripont_register_, number)() noexcept { return registered; } \
  [[maybe_unused]] static const bool TRIPONT_CONCATENATE(tripont_registered_, number) =        \
      TRIPONT_CONCATENATE(tripont_register_, number)()

#endif  // TRIPONT_TENSORFLOW_KERNEL_H_
