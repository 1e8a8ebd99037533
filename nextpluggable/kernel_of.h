// Kernels for XPU in which the kernel of another device does the work, and how kernels are registered.
#ifndef TRIPONT_NEXTPLUGGABLE_KERNEL_OF_H_
#define TRIPONT_NEXTPLUGGABLE_KERNEL_OF_H_

#include <memory>

#include "nextpluggable/adapter.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tripont::tensorflow {

// Has the kernel that another device has for the same node. If there is none, that is the error of
// the construction.
template <typename Base = ::tensorflow::OpKernel>
class KernelOf : public Base {
 public:
  KernelOf(::tensorflow::OpKernelConstruction* construction, const char* device)
      : Base(construction) {
    absl::Status status;
    kernel_ = ::tensorflow::CreateOpKernel(::tensorflow::DeviceType(device), construction->device(),
                                           ::tensorflow::cpu_allocator(), construction->def(),
                                           construction->graph_def_version(), &status);
    if (!status.ok()) construction->SetStatus(status);
  }
  bool IsExpensive() override { return kernel_->IsExpensive(); }

 protected:
  std::unique_ptr<::tensorflow::OpKernel> kernel_;
};

// A copy of `kernel` for XPU, to be registered before what TensorFlow has for it. Its registrar
// keeps it.
inline ::tensorflow::KernelDef* ForXpu(const ::tensorflow::KernelDef& kernel) {
  auto* own = new ::tensorflow::KernelDef(kernel);
  own->set_device_type(kDeviceType);
  own->set_priority(2);
  return own;
}

// Puts all arguments and results of an op into host memory.
inline void PutInHostMemory(const ::tensorflow::OpDef& op, ::tensorflow::KernelDef* kernel) {
  kernel->clear_host_memory_arg();
  for (const auto& argument : op.input_arg()) kernel->add_host_memory_arg(argument.name());
  for (const auto& argument : op.output_arg()) kernel->add_host_memory_arg(argument.name());
}

// `name`: for TensorFlow's lists of kernels.
template <typename Kernel>
void RegisterKernel(const ::tensorflow::KernelDef* definition, const char* name) {
  ::tensorflow::kernel_factory::OpKernelRegistrar(
      definition, name,
      [](::tensorflow::OpKernelConstruction* construction) -> ::tensorflow::OpKernel* {
        return new Kernel(construction);
      });
}

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_KERNEL_OF_H_
