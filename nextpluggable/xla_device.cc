#include "nextpluggable/xla_device.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/log_severity.h"
#include "absl/container/flat_hash_map.h"
#include "absl/log/globals.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nextpluggable/adapter.h"
#include "nextpluggable/op_filter.h"
#include "tensorflow/compiler/jit/flags.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/device_base.h"
#include "xla/pjrt/pjrt_common.h"

// Declared in headers that include MLIR's, which the wheel does not hold.
namespace xla {
class PjRtClient;
class KeyValueStoreInterface;
absl::StatusOr<std::unique_ptr<PjRtClient>> GetCApiClient(
    absl::string_view device_type,
    const absl::flat_hash_map<std::string, PjRtValueType>& create_options,
    std::shared_ptr<KeyValueStoreInterface> key_value_store);
}  // namespace xla

// Only a client that TensorFlow did not take would be destroyed here, where its type is not known.
template <>
struct std::default_delete<xla::PjRtClient> {
  void operator()(xla::PjRtClient*) const {}
};

namespace tensorflow {
absl::Status SetPjRtClientInTFGlobalResourceManager(const DeviceType& device_type,
                                                    std::unique_ptr<xla::PjRtClient> client);
}  // namespace tensorflow

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

void SetStatus(const absl::Status& from, TF_Status* to) {
  TF_SetStatus(to, static_cast<TF_Code>(from.code()), std::string(from.message()).c_str());
}

// Adds strings to the types that a kernel's attribute may be.
void AllowStrings(absl::string_view attribute, tf::KernelDef* kernel) {
  for (tf::KernelDef::AttrConstraint& constraint : *kernel->mutable_constraint()) {
    if (constraint.name() == attribute) {
      constraint.mutable_allowed_values()->mutable_list()->add_type(tf::DT_STRING);
      return;
    }
  }
}

// Leaves `types` of the types that a kernel's attribute may be.
void AllowAlone(std::initializer_list<tf::DataType> types, absl::string_view attribute,
                tf::KernelDef* kernel) {
  for (tf::KernelDef::AttrConstraint& constraint : *kernel->mutable_constraint()) {
    if (constraint.name() != attribute) continue;
    auto* list = constraint.mutable_allowed_values()->mutable_list();
    list->clear_type();
    for (const tf::DataType type : types) list->add_type(type);
  }
}

// Whether a kernel of tf2xla is registered, with which types.
bool KeepKernel(tf::KernelDef* kernel) {
  // The messages of assertions, which compiled functions leave out.
  if (kernel->op() == "Const") AllowStrings("dtype", kernel);
  if (kernel->op() == "Assert") AllowStrings("T", kernel);
  // tf2xla's kernel makes complex numbers of real ones.
  if (kernel->op() == "ConjugateTranspose") {
    AllowAlone({tf::DT_COMPLEX64, tf::DT_COMPLEX128}, "T", kernel);
  }
  // tf2xla's kernel refuses the other types.
  if (kernel->op() == "Range") {
    AllowAlone({tf::DT_INT32, tf::DT_INT64, tf::DT_FLOAT, tf::DT_DOUBLE}, "Tidx", kernel);
  }
  return KeepOp(kernel->op());
}

}  // namespace

void RegisterXlaDevice() {
  // Otherwise an op that XLA cannot translate would, in a compiled function, be given the kernel
  // that it has for any device, which finds no tensors to compute with: the process would end.
  tf::AddSymbolicExecutionDevice(kCompilationDevice);
  tf::XlaOpRegistry::RegisterBackend(kCompilationDevice, tf::kGpuAllTypes, KeepKernel);

  // jit_compile=True compiles; the automatic clustering of tf.config.optimizer.set_jit does if it
  // is asked for.
  tf::XlaOpRegistry::DeviceRegistration registration;
  registration.compilation_device_name = kCompilationDevice;
  registration.autoclustering_policy = tf::XlaOpRegistry::AutoclusteringPolicy::kIfEnabledGlobally;
  registration.cluster_resource_variable_ops_unsafely = true;
  registration.cluster_stack_ops = false;
  registration.cluster_tensor_array_ops = true;
  registration.cluster_stateful_rng_ops = true;
  registration.cluster_control_trigger = true;
  // A cluster would leave assertions and checks out, and what they say is text, of which XLA has no arguments: they stay
  // outside, as on TensorFlow's CPUs and GPUs.
  registration.elide_assert_and_checknumerics = false;
  registration.cluster_variant_ops = true;
  registration.cluster_slow_ops = true;
  registration.cluster_inaccurate_ops = true;
  tf::XlaOpRegistry::RegisterCompilationDevice(kDeviceType, registration);

  auto& device_api = tf::GetXlaOpsCommonFlags()->tf_xla_use_device_api;
  const tf::DeviceType device(kDeviceType);
  device_api.enabled_for_xla_launch_ = true;
  device_api.enabled_for_compile_on_demand_ = true;
  device_api.enabled_for_compile_and_run_ = true;
  device_api.AllowForDeviceInXlaLaunch(device);
  device_api.AllowForDeviceInXlaCompileOnDemand(device);
  device_api.AllowForDeviceInXlaCompileAndRun(device);
}

QuietLog::QuietLog() : level_(static_cast<int>(absl::MinLogLevel())) {
  const int quiet = std::max(level_, static_cast<int>(absl::LogSeverityAtLeast::kWarning));
  absl::SetMinLogLevel(static_cast<absl::LogSeverityAtLeast>(quiet));
}

QuietLog::~QuietLog() { absl::SetMinLogLevel(static_cast<absl::LogSeverityAtLeast>(level_)); }

void CreateClient(TF_Status* status) {
  const QuietLog quiet;
  TF_SetStatus(status, TF_OK, "");
  auto client = xla::GetCApiClient(kDeviceType, {}, nullptr);
  if (!client.ok()) return SetStatus(client.status(), status);
  const absl::Status set =
      tf::SetPjRtClientInTFGlobalResourceManager(tf::DeviceType(kDeviceType), *std::move(client));
  SetStatus(set, status);
}

}  // namespace tripont::tensorflow
