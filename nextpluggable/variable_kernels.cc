#include "nextpluggable/variable_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "nextpluggable/arrays.h"
#include "nextpluggable/cpu_kernels.h"
#include "nextpluggable/host_view.h"
#include "nextpluggable/kernel_of.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

constexpr std::array<std::string_view, 16> kVariableOps = {
    "ResourceApplyAdamWithAmsgrad",
    "ResourceCountUpTo",
    "ResourceSparseApplyAdadelta",
    "ResourceSparseApplyAdagrad",
    "ResourceSparseApplyAdagradDA",
    "ResourceSparseApplyAdagradV2",
    "ResourceSparseApplyCenteredRMSProp",
    "ResourceSparseApplyFtrl",
    "ResourceSparseApplyFtrlV2",
    "ResourceSparseApplyKerasMomentum",
    "ResourceSparseApplyMomentum",
    "ResourceSparseApplyProximalAdagrad",
    "ResourceSparseApplyProximalGradientDescent",
    "ResourceSparseApplyRMSProp",
    "StatefulRandomBinomial",
    "StatefulStandardNormal"};

// Memory of a variable that is locked: its kernel may write to it. A tensor that does not own its
// memory would be copied before.
class WritableView : public HostView<std::nullptr_t> {
 public:
  WritableView(void* data, size_t size) : HostView(nullptr, data, size) {}
  bool OwnsMemory() const override { return true; }
};

// A variable of the CPU device `cpu` whose content is `array`'s memory. `handle` keeps it.
tf::Var* VariableOfCpu(const TripontArray& array, const tf::Device& cpu,
                       tf::ResourceHandle* handle) {
  const auto dtype = static_cast<tf::DataType>(array.dtype);
  tf::TensorShape shape;
  for (int i = 0; i < array.rank; ++i) shape.AddDim(array.dimensions[i]);
  auto* const variable = new tf::Var(dtype);
  if (array.size == 0) {
    *variable->tensor() = tf::Tensor(dtype, shape);
  } else {
    const size_t bytes = static_cast<size_t>(array.size) * tf::DataTypeSize(dtype);
    const tf::core::RefCountPtr<tf::TensorBuffer> view(new WritableView(array.data, bytes));
    *variable->tensor() = tf::Tensor(dtype, shape, view.get());
  }
  variable->is_initialized = true;
  *handle = tf::ResourceHandle::MakeRefCountingHandle(variable, cpu.name());
  return variable;
}

// The CPU's kernel is given a variable of the CPU's for each of XPU's.
class VariableKernel : public KernelOf<> {
 public:
  explicit VariableKernel(tf::OpKernelConstruction* construction)
      : KernelOf(construction, tf::DEVICE_CPU) {
    // The CPU's kernels end the process where a variable has another type than the numbers.
    if (absl::StrContains(construction->def().op(), "Random") || !construction->HasAttr("T")) {
      return;
    }
    OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype_));
  }

  void Compute(tf::OpKernelContext* context) override {
    std::vector<int> variables;
    std::vector<tf::Tensor> inputs(static_cast<size_t>(context->num_inputs()));
    for (int i = 0; i < context->num_inputs(); ++i) {
      tf::Tensor& input = inputs[static_cast<size_t>(i)];
      if (context->input_dtype(i) == tf::DT_RESOURCE) {
        variables.push_back(i);
      } else if (context->input_memory_type(i) == tf::HOST_MEMORY) {
        input = context->input(i);
      } else {
        OP_REQUIRES_OK(context, OnHost(context->input(i), &input));
      }
    }
    std::vector<TripontArray> arrays(variables.size());
    LockedVariables locked;
    OP_REQUIRES_OK(context, LockVariables(context, variables, arrays.data(), &locked));
    tf::Device* cpu = nullptr;
    OP_REQUIRES_OK(context, FindCpu(context, &cpu));
    std::vector<tf::Var*> of_cpu;
    for (size_t i = 0; i < variables.size(); ++i) {
      const auto dtype = static_cast<tf::DataType>(arrays[i].dtype);
      OP_REQUIRES(context, dtype_ == tf::DT_INVALID || dtype == dtype_,
                  absl::InvalidArgumentError("a variable is of type " + tf::DataTypeString(dtype) +
                                             ", and the op's numbers are of type " +
                                             tf::DataTypeString(dtype_)));
      tf::Tensor& input = inputs[static_cast<size_t>(variables[i])];
      input = tf::Tensor(tf::DT_RESOURCE, tf::TensorShape({}));
      of_cpu.push_back(VariableOfCpu(arrays[i], *cpu, &input.scalar<tf::ResourceHandle>()()));
    }
    std::vector<tf::Tensor> outputs;
    OP_REQUIRES_OK(context, RunOnCpu(context, kernel_.get(), inputs, &outputs));
    // Before the variables are written, as ResourceCountUpTo gives back the old content.
    for (int i = 0; i < context->num_outputs(); ++i) {
      const tf::Tensor& output = outputs[static_cast<size_t>(i)];
      OP_REQUIRES_OK(context, SetOutput(context, i, output));
    }
    for (size_t i = 0; i < variables.size(); ++i) {
      const tf::Tensor& content = *of_cpu[i]->tensor();
      if (arrays[i].size != 0 && content.data() != arrays[i].data) {
        std::memcpy(arrays[i].data, content.data(), content.TotalBytes());
      }
    }
  }

 private:
  tf::DataType dtype_ = tf::DT_INVALID;
};

// Puts the variables' handles of a kernel, and arguments that are int32 alone, which TensorFlow
// keeps on the host, into host memory.
void PutOnHost(tf::KernelDef* kernel) {
  const tf::OpDef* op = nullptr;
  if (!tf::OpRegistry::Global()->LookUpOpDef(kernel->op(), &op).ok()) return;
  const auto is_int32 = [&](const std::string& attribute) {
    return std::any_of(
        kernel->constraint().begin(), kernel->constraint().end(), [&](const auto& constraint) {
          const auto& types = constraint.allowed_values().list().type();
          return constraint.name() == attribute && types.size() == 1 && types[0] == tf::DT_INT32;
        });
  };
  for (const auto& argument : op->input_arg()) {
    const auto& names = kernel->host_memory_arg();
    const bool there = std::find(names.begin(), names.end(), argument.name()) != names.end();
    if (!there && (argument.type() == tf::DT_RESOURCE ||
                   (!argument.type_attr().empty() && is_int32(argument.type_attr())))) {
      kernel->add_host_memory_arg(argument.name());
    }
  }
}

}  // namespace

void RegisterVariableKernels() {
  const tf::KernelList kernels = tf::GetAllRegisteredKernels();
  for (const tf::KernelDef& kernel : kernels.kernel()) {
    if (kernel.device_type() != tf::DEVICE_CPU || !kernel.label().empty() ||
        std::find(kVariableOps.begin(), kVariableOps.end(), kernel.op()) == kVariableOps.end()) {
      continue;
    }
    tf::KernelDef* const own = ForXpu(kernel);
    PutOnHost(own);
    RegisterKernel<VariableKernel>(own, "TripontVariableKernel");
  }
}

}  // namespace tripont::tensorflow
