#include "nextpluggable/host_lists.h"

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nextpluggable/adapter.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The CPU's kernel of a node, run in a context of the CPU device: what it allocates on the way is
// host memory, which XPU's own allocator would not give.
class ListKernel : public tf::OpKernel {
 public:
  explicit ListKernel(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    absl::Status status;
    kernel_ = tf::CreateOpKernel(tf::DeviceType(tf::DEVICE_CPU), construction->device(),
                                 tf::cpu_allocator(), construction->def(),
                                 construction->graph_def_version(), &status);
    OP_REQUIRES_OK(construction, status);
  }

  void Compute(tf::OpKernelContext* context) override {
    tf::Device* cpu = nullptr;
    OP_REQUIRES(context, context->function_library() != nullptr,
                absl::InternalError("no function library to find the CPU device in"));
    OP_REQUIRES_OK(context, context->function_library()->device_mgr()->LookupDevice("CPU:0", &cpu));
    std::vector<tf::Tensor> tensors;
    tensors.reserve(context->num_inputs());
    std::vector<tf::TensorValue> inputs;
    for (int i = 0; i < context->num_inputs(); ++i) {
      tensors.push_back(context->input(i));
      inputs.emplace_back(&tensors.back());
    }
    const std::vector<tf::AllocatorAttributes> attributes(context->num_outputs());
    tf::OpKernelContext::Params parameters;
    parameters.step_id = context->step_id();
    parameters.device = cpu;
    parameters.op_kernel = kernel_.get();
    parameters.inputs = inputs;
    parameters.output_attr_array = attributes.data();
    parameters.resource_manager = cpu->resource_manager();
    parameters.function_library = context->function_library();
    parameters.cancellation_manager = context->cancellation_manager();
    parameters.runner = context->runner();
    tf::OpKernelContext on_host(&parameters, context->num_outputs());
    kernel_->Compute(&on_host);
    OP_REQUIRES_OK(context, on_host.status());
    for (int i = 0; i < context->num_outputs(); ++i) {
      if (const tf::Tensor* result = on_host.mutable_output(i)) context->set_output(i, *result);
    }
  }
  bool IsExpensive() override { return kernel_->IsExpensive(); }

 private:
  std::unique_ptr<tf::OpKernel> kernel_;
};

// What gradients of lists need beside the ops on lists themselves.
bool IsForVariants(const tf::KernelDef& kernel) {
  if (kernel.op() != "ZerosLike" && kernel.op() != "AddN") return false;
  for (const auto& constraint : kernel.constraint()) {
    const auto& types = constraint.allowed_values().list().type();
    if (types.size() == 1 && types[0] == tf::DT_VARIANT) return true;
  }
  return false;
}

}  // namespace

void RegisterHostListKernels() {
  const tf::KernelList kernels = tf::GetAllRegisteredKernels();
  for (const tf::KernelDef& kernel : kernels.kernel()) {
    const std::string_view op = kernel.op();
    if (kernel.device_type() != tf::DEVICE_CPU ||
        !(op.starts_with("TensorList") || op == "EmptyTensorList" || IsForVariants(kernel))) {
      continue;
    }
    const tf::OpDef* definition = nullptr;
    if (!tf::OpRegistry::Global()->LookUpOpDef(kernel.op(), &definition).ok()) continue;
    auto* own = new tf::KernelDef(kernel);  // the registrar's
    own->set_device_type(kDeviceType);
    own->set_priority(2);
    own->clear_host_memory_arg();
    for (const auto& argument : definition->input_arg()) own->add_host_memory_arg(argument.name());
    for (const auto& argument : definition->output_arg()) own->add_host_memory_arg(argument.name());
    tf::kernel_factory::OpKernelRegistrar(
        own, "TripontListKernel", [](tf::OpKernelConstruction* construction) -> tf::OpKernel* {
          return new ListKernel(construction);
        });
  }
}

}  // namespace tripont::tensorflow
