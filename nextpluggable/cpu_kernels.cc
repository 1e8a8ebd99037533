#include "nextpluggable/cpu_kernels.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "nextpluggable/arrays.h"
#include "nextpluggable/kernel_of.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/function.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

constexpr std::array<std::string_view, 12> kOps = {"CheckNumerics",
                                                   "MatrixInverse",
                                                   "MatrixSolve",
                                                   "Multinomial",
                                                   "ParameterizedTruncatedNormal",
                                                   "RandomShuffle",
                                                   "RandomUniform",
                                                   "RandomUniformInt",
                                                   "RandomStandardNormal",
                                                   "StatelessParameterizedTruncatedNormal",
                                                   "TridiagonalSolve",
                                                   "TruncatedNormal"};

// Whether the kernel is for numbers: XPU's memory holds nothing else.
bool IsOfNumbers(const tf::KernelDef& kernel) {
  for (const auto& constraint : kernel.constraint()) {
    for (const int type : constraint.allowed_values().list().type()) {
      if (!BufferType(static_cast<tf::DataType>(type)).ok()) return false;
    }
  }
  return true;
}

// Results are numbers in device memory, arguments too but for shapes and bounds.
class CpuKernel : public KernelOf<> {
 public:
  explicit CpuKernel(tf::OpKernelConstruction* construction)
      : KernelOf(construction, tf::DEVICE_CPU) {}

  void Compute(tf::OpKernelContext* context) override {
    std::vector<tf::Tensor> inputs(static_cast<size_t>(context->num_inputs()));
    for (int i = 0; i < context->num_inputs(); ++i) {
      tf::Tensor& input = inputs[static_cast<size_t>(i)];
      if (context->input_memory_type(i) == tf::HOST_MEMORY) {
        input = context->input(i);
      } else {
        OP_REQUIRES_OK(context, OnHost(context->input(i), &input));
      }
    }
    std::vector<tf::Tensor> outputs;
    OP_REQUIRES_OK(context, RunOnCpu(context, kernel_.get(), inputs, &outputs));
    for (int i = 0; i < context->num_outputs(); ++i) {
      const tf::Tensor& output = outputs[static_cast<size_t>(i)];
      // CheckNumerics gives back what it was given, and RandomShuffle one row.
      const auto same = std::find_if(inputs.begin(), inputs.end(), [&](const tf::Tensor& input) {
        return output.SharesBufferWith(input);
      });
      if (same != inputs.end()) {
        context->set_output(i, context->input(static_cast<int>(same - inputs.begin())));
      } else {
        OP_REQUIRES_OK(context, SetOutput(context, i, output));
      }
    }
  }
};

}  // namespace

absl::Status FindCpu(tf::OpKernelContext* context, tf::Device** cpu) {
  tf::FunctionLibraryRuntime* const library = context->function_library();
  if (library == nullptr) {
    return absl::InternalError("no function library to find the CPU device in");
  }
  return library->device_mgr()->LookupDevice("CPU:0", cpu);
}

absl::Status RunOnCpu(tf::OpKernelContext* context, tf::OpKernel* kernel,
                      std::vector<tf::Tensor> inputs, std::vector<tf::Tensor>* outputs) {
  tf::Device* cpu = nullptr;
  TF_RETURN_IF_ERROR(FindCpu(context, &cpu));
  std::vector<tf::TensorValue> values;
  values.reserve(inputs.size());
  for (tf::Tensor& input : inputs) values.emplace_back(&input);
  const std::vector<tf::AllocatorAttributes> attributes(
      static_cast<size_t>(context->num_outputs()));
  tf::OpKernelContext::Params parameters;
  parameters.step_id = context->step_id();
  parameters.device = cpu;
  parameters.op_kernel = kernel;
  parameters.inputs = values;
  parameters.output_attr_array = attributes.data();
  parameters.resource_manager = cpu->resource_manager();
  parameters.step_container = context->step_container();
  parameters.function_library = context->function_library();
  parameters.cancellation_manager = context->cancellation_manager();
  parameters.runner = context->runner();
  tf::OpKernelContext on_cpu(&parameters, context->num_outputs());
  kernel->Compute(&on_cpu);
  TF_RETURN_IF_ERROR(on_cpu.status());
  for (int i = 0; i < context->num_outputs(); ++i) {
    const tf::Tensor* result = on_cpu.mutable_output(i);
    outputs->push_back(result == nullptr ? tf::Tensor() : *result);
  }
  return absl::OkStatus();
}

void RegisterCpuKernels() {
  const tf::KernelList kernels = tf::GetAllRegisteredKernels();
  for (const tf::KernelDef& kernel : kernels.kernel()) {
    if (kernel.device_type() != tf::DEVICE_CPU || !kernel.label().empty() ||
        std::find(kOps.begin(), kOps.end(), kernel.op()) == kOps.end() || !IsOfNumbers(kernel)) {
      continue;
    }
    RegisterKernel<CpuKernel>(ForXpu(kernel), "TripontCpuKernel");
  }
}

}  // namespace tripont::tensorflow
