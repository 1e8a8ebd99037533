#include "core/runtime/backends/sycl/program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/runtime/backends/sycl/build_log.h"
#include "core/runtime/backends/sycl/queue.h"

namespace tripont::sycl {
namespace {

constexpr size_t kHeaderSize = 16;
constexpr uint64_t kHostCodeAlignment = 4096;
constexpr uint32_t kSpirvMagic = 0x07230203;
// Pieces of work a thread gets on a CPU device, for balance.
constexpr int64_t kPiecesPerThread = 8;
constexpr size_t kStackArguments = 64;

template <typename T>
T At(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The names of a module's kernels: the operands of its OpEntryPoint instructions.
std::vector<std::string> KernelNames(std::string_view spirv) {
  constexpr size_t kWord = 4;
  constexpr uint32_t kOpEntryPoint = 15;
  constexpr size_t kFirstInstruction = 5 * kWord;
  constexpr size_t kNameOffset = 3 * kWord;  // after the instruction's word, the model and the id
  std::vector<std::string> names;
  for (size_t at = kFirstInstruction; at + kWord <= spirv.size();) {
    const auto word = At<uint32_t>(spirv, at);
    const size_t size = (word >> 16) * kWord;
    if (size == 0 || size > spirv.size() - at) break;  // damaged
    if ((word & 0xffff) == kOpEntryPoint && size > kNameOffset) {
      const std::string_view text = spirv.substr(at + kNameOffset, size - kNameOffset);
      names.emplace_back(text.substr(0, text.find('\0')));
    }
    at += size;
  }
  return names;
}

// The first dimension of the work-groups that kernel `name` asks for (its execution mode
// LocalSize); 0 if it does not.
size_t LocalSize(std::string_view spirv, std::string_view name) {
  constexpr size_t kHeader = 20;
  constexpr uint32_t kOpEntryPoint = 15;
  constexpr uint32_t kOpExecutionMode = 16;
  constexpr uint32_t kOpFunction = 54;
  constexpr uint32_t kModeLocalSize = 17;
  uint32_t id = 0;
  for (size_t at = kHeader; at + 4 <= spirv.size();) {
    const auto word = At<uint32_t>(spirv, at);
    const uint32_t opcode = word & 0xFFFF;
    const size_t size = size_t{word >> 16} * 4;
    if (opcode == kOpFunction || size == 0 || size > spirv.size() - at) break;
    if (opcode == kOpEntryPoint && size > 12) {
      const std::string_view text = spirv.substr(at + 12, size - 12);
      if (text.substr(0, text.find('\0')) == name) id = At<uint32_t>(spirv, at + 8);
    } else if (opcode == kOpExecutionMode && size >= 16 && id != 0 &&
               At<uint32_t>(spirv, at + 4) == id && At<uint32_t>(spirv, at + 8) == kModeLocalSize) {
      return At<uint32_t>(spirv, at + 12);
    }
    at += size;
  }
  return 0;
}

// "the kernel multiply_add", "the kernels multiply_add, exp, ...": those that the log names, if
// any.
std::string DescribeKernels(std::vector<std::string> names, const std::string& log) {
  constexpr size_t kMost = 8;
  std::vector<std::string> named;
  for (const std::string& name : names) {
    if (log.find(name) != std::string::npos) named.push_back(name);
  }
  if (!named.empty()) names = std::move(named);
  if (names.size() == 1) return "the kernel " + names[0];
  if (names.size() > kMost) {
    names.resize(kMost);
    names.emplace_back("...");
  }
  return "the kernels " + StrJoin(names, ", ");
}

// The module as a kernel bundle of each device. `owner`: whose kernels they are, for the error.
StatusOr<std::vector<Handle<KernelBundleRef>>> BuildBundles(const Api& api, ContextRef context,
                                                            std::span<const DeviceRef> devices,
                                                            std::string_view spirv,
                                                            std::string_view owner) {
  std::vector<Handle<KernelBundleRef>> bundles;
  for (const DeviceRef device : devices) {
    Handle<KernelBundleRef> bundle(
        api.KernelBundle_CreateFromSpirv(context, device, spirv.data(), spirv.size(), ""));
    if (!bundle) {
      std::string log = OpenClBuildLog(DeviceName(api, device), spirv);
      if (log.empty()) {
        log = RuntimeLog([&] {
          Handle<KernelBundleRef>(
              api.KernelBundle_CreateFromSpirv(context, device, spirv.data(), spirv.size(), ""));
        });
      }
      return Internal("the SYCL device's compiler refuses ",
                      DescribeKernels(KernelNames(spirv), log), " of ", owner, ":\n",
                      log.empty() ? "(it says no more)" : log);
    }
    bundles.push_back(std::move(bundle));
  }
  return bundles;
}

// dpctl's number for a number of type `type`; kPointer if there is none.
ArgumentType TypeOf(PrimitiveType type) {
  constexpr std::pair<PrimitiveType, ArgumentType> kTypes[] = {
      {PrimitiveType::kS8, kInt8},     {PrimitiveType::kU8, kUint8},
      {PrimitiveType::kS16, kInt16},   {PrimitiveType::kU16, kUint16},
      {PrimitiveType::kS32, kInt32},   {PrimitiveType::kU32, kUint32},
      {PrimitiveType::kS64, kInt64},   {PrimitiveType::kU64, kUint64},
      {PrimitiveType::kF32, kFloat32}, {PrimitiveType::kF64, kFloat64}};
  for (const auto& [from, to] : kTypes) {
    if (from == type) return to;
  }
  return kPointer;
}

}  // namespace

Status Program::Split(const Artifact& artifact) {
  const auto map = [&](std::string_view image) -> Status {
    std::vector<schema::Import> imports = artifact.imports;
    for (auto& [name, offset] : imports) offset -= host_code_offset_;
    TRIPONT_ASSIGN_OR_RETURN(host_code_, CodeImage::Map(image, imports));
    return OkStatus();
  };
  if (code_.empty()) return map({});
  if (code_.size() < kHeaderSize)
    return InvalidArgument("artifact: ", code_.size(), " bytes of code for a SYCL device");
  const auto spirv_size = At<uint64_t>(code_, 0);
  const auto host_size = At<uint64_t>(code_, 8);
  if (spirv_size > code_.size() - kHeaderSize || spirv_size % 4 != 0) {
    return InvalidArgument("artifact: a SPIR-V module of ", spirv_size, " bytes in ", code_.size(),
                           " bytes of code");
  }
  spirv_ = code_.substr(kHeaderSize, spirv_size);
  if (!spirv_.empty() && (spirv_.size() < 20 || At<uint32_t>(spirv_, 0) != kSpirvMagic)) {
    return InvalidArgument("artifact: the code is not SPIR-V");
  }
  if (host_size == 0) return map({});
  const uint64_t offset =
      (kHeaderSize + spirv_size + kHostCodeAlignment - 1) / kHostCodeAlignment * kHostCodeAlignment;
  if (offset > code_.size() || host_size > code_.size() - offset) {
    return InvalidArgument("artifact: host code of ", host_size, " bytes at ", offset,
                           " is outside the code");
  }
  host_code_offset_ = static_cast<int64_t>(offset);
  return map(code_.substr(offset, host_size));
}

StatusOr<std::unique_ptr<Program>> Program::Build(const Api& api, ContextRef context,
                                                  std::span<const DeviceRef> devices,
                                                  const Artifact& artifact) {
  std::unique_ptr<Program> program(new Program(api, artifact));
  TRIPONT_RETURN_IF_ERROR(program->Split(artifact));
  if (program->spirv_.empty()) return program;
  TRIPONT_ASSIGN_OR_RETURN(program->bundles_,
                           BuildBundles(api, context, devices, program->spirv_, artifact.name));
  return program;
}

StatusOr<KernelHandle> Program::FindKernel(int64_t function) {
  if (const auto found = numbers_.find(function); found != numbers_.end()) return found->second;
  const int64_t end = static_cast<int64_t>(kHeaderSize + spirv_.size());
  if (function < static_cast<int64_t>(kHeaderSize) || function >= end) {
    return InvalidArgument("kernel at ", function, " is outside the SPIR-V module");
  }
  const std::string_view rest = spirv_.substr(static_cast<size_t>(function) - kHeaderSize);
  const size_t length = rest.find('\0');
  if (length == std::string_view::npos || length == 0 || length > 4096) {
    return InvalidArgument("there is no kernel's name at ", function);
  }
  Kernel kernel{std::string(rest.substr(0, length)), 0, {}};
  if (!for_cpu_) kernel.group = LocalSize(spirv_, kernel.name);
  for (const Handle<KernelBundleRef>& bundle : bundles_) {
    if (!api_.KernelBundle_HasKernel(bundle.get(), kernel.name.c_str())) {
      return InvalidArgument("the SPIR-V module has no kernel ", kernel.name);
    }
    kernel.by_device.emplace_back(api_.KernelBundle_GetKernel(bundle.get(), kernel.name.c_str()));
    if (!kernel.by_device.back()) return Internal("the kernel ", kernel.name, " cannot be created");
  }
  const KernelHandle number = kernels_.size();
  kernels_.push_back(std::move(kernel));
  numbers_.emplace(function, number);
  return number;
}

Status Program::Launch(DeviceQueue& device_queue, KernelHandle number, void* const* arguments,
                       size_t num_arguments, int64_t work_count, int64_t grain) const {
  if (work_count <= 0) return OkStatus();
  auto& queue = static_cast<Queue&>(device_queue);
  TRIPONT_RETURN_IF_ERROR(queue.CheckUsable());
  const Kernel& kernel = kernels_[number];
  // On a CPU a work-item does `chunk` units, in a work-group of its own; on a GPU a work-item does
  // one, or a work-group does.
  int64_t chunk = 1;
  if (for_cpu_) {
    const int64_t most = kPiecesPerThread * queue.compute_units();
    chunk = std::max((work_count + most - 1) / most, std::min(grain, work_count));
  }
  const auto items = static_cast<size_t>((work_count + chunk - 1) / chunk);

  void* stack_values[kStackArguments + 2];
  int stack_types[kStackArguments + 2];
  std::vector<void*> heap_values;
  std::vector<int> heap_types;
  void** values = stack_values;
  int* types = stack_types;
  if (num_arguments > kStackArguments) {
    heap_values.resize(num_arguments + 2);
    heap_types.resize(num_arguments + 2);
    values = heap_values.data();
    types = heap_types.data();
  }
  for (size_t i = 0; i < num_arguments; ++i) {
    values[i] = arguments[i];
    types[i] = kPointer;
  }
  values[num_arguments] = &work_count;
  values[num_arguments + 1] = &chunk;
  types[num_arguments] = types[num_arguments + 1] = kInt64;
  const size_t group = std::max<size_t>(kernel.group, 1);
  const size_t global[3] = {items * group, 1, 1};
  const size_t local[3] = {group, 1, 1};
  const KernelRef handle = kernel.by_device[static_cast<size_t>(queue.device_number())].get();
  const EventRef event =
      for_cpu_ || kernel.group != 0
          ? api_.Queue_SubmitNDRange(handle, queue.handle(), values, types, num_arguments + 2,
                                     global, local, 1, nullptr, 0)
          : api_.Queue_SubmitRange(handle, queue.handle(), values, types, num_arguments + 2, global,
                                   1, nullptr, 0);
  if (event == nullptr)
    return Internal("the kernel ", kernel.name, " could not be launched on ", queue.description());
  return queue.Enqueued(event);
}

StatusOr<std::unique_ptr<SpirvKernel>> SpirvKernel::Build(const Api& api, ContextRef context,
                                                          std::span<const DeviceRef> devices,
                                                          std::string_view spirv,
                                                          const std::string& name) {
  if (spirv.size() < 20 || spirv.size() % 4 != 0 || At<uint32_t>(spirv, 0) != kSpirvMagic)
    return InvalidArgument(spirv.size(), " bytes that are no SPIR-V module");
  const std::vector<std::string> names = KernelNames(spirv);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return InvalidArgument("the SPIR-V module has no kernel '", name, "'; it has ",
                           names.empty() ? "none" : StrJoin(names, ", "));
  }
  std::unique_ptr<SpirvKernel> kernel(new SpirvKernel(api, name));
  TRIPONT_ASSIGN_OR_RETURN(
      kernel->bundles_, BuildBundles(api, context, devices, spirv, "a module of tripont.kernels"));
  for (const Handle<KernelBundleRef>& bundle : kernel->bundles_) {
    kernel->kernels_.emplace_back(api.KernelBundle_GetKernel(bundle.get(), name.c_str()));
    if (!kernel->kernels_.back()) return Internal("the kernel ", name, " cannot be created");
  }
  return kernel;
}

Status SpirvKernel::Launch(DeviceQueue& device_queue, std::span<const KernelArgument> arguments,
                           size_t items, size_t group) const {
  if (items == 0) return OkStatus();
  auto& queue = static_cast<Queue&>(device_queue);
  TRIPONT_RETURN_IF_ERROR(queue.CheckUsable());
  std::vector<void*> values;
  std::vector<int> types;
  for (const KernelArgument& argument : arguments) {
    const bool array = argument.type == PrimitiveType::kInvalid;
    types.push_back(array ? kPointer : TypeOf(argument.type));
    // A number is passed by its address, an array as the address that it is.
    values.push_back(array ? reinterpret_cast<void*>(argument.bits)
                           : const_cast<uint64_t*>(&argument.bits));
  }
  const size_t local[3] = {std::max<size_t>(group, 1), 1, 1};
  const size_t global[3] = {(items + local[0] - 1) / local[0] * local[0], 1, 1};
  const KernelRef handle = kernels_[static_cast<size_t>(queue.device_number())].get();
  const EventRef event =
      group != 0 ? api_.Queue_SubmitNDRange(handle, queue.handle(), values.data(), types.data(),
                                            values.size(), global, local, 1, nullptr, 0)
                 : api_.Queue_SubmitRange(handle, queue.handle(), values.data(), types.data(),
                                          values.size(), global, 1, nullptr, 0);
  if (event == nullptr) {
    return Internal("the kernel ", name_, " could not be launched with ", values.size(),
                    " arguments on ", queue.description(),
                    " (do its parameters fit the signature?)");
  }
  return queue.Enqueued(event);
}

}  // namespace tripont::sycl
