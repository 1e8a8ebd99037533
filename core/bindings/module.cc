// The Python module tripont.core._tripont.
//
// Small on purpose: the devices of this process, running artifacts on NumPy arrays, and what
// `tripont doctor` and `tripont inspect` show. It needs NumPy, and neither jaxlib nor a compiler.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/bindings/arrays.h"
#include "core/bindings/ffi.h"
#include "core/bindings/parts.h"
#include "core/runtime/backend_registry.h"
#include "core/runtime/client.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/dynamic_results.h"
#include "core/runtime/executable.h"
#include "core/runtime/installation.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"
#include "core/runtime/profile.h"

namespace tripont::python {
namespace py = pybind11;
using pybind11::literals::operator""_a;  // "name"_a = value
namespace {

// Options values may be str, int, float or bool, as JAX passes them.
using OptionValue = std::variant<bool, int64_t, double, std::string>;

std::string OptionText(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "1" : "0";
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return StrCat(*number);
  return std::get<std::string>(value);
}

Options MakeOptions(const std::map<std::string, OptionValue>& settings) {
  Options options = Value(Options::FromEnvironment());
  // Who uses the runtime from Python has an interpreter that can compile: this one.
  if (options.python.empty()) {
    const py::object interpreter = py::module_::import("sys").attr("executable");
    if (!interpreter.is_none()) options.python = interpreter.cast<std::string>();
  }
  for (const auto& [name, value] : settings) Check(options.Set(name, OptionText(value)));
  if (options.python_path.empty() && options.python == DefaultInterpreter()) {
    options.python_path =
        py::module_::import("tripont.helper_process").attr("package_path")().cast<std::string>();
  }
  return options;
}

Ref<Client> MakeClient(const std::map<std::string, OptionValue>& settings) {
  const Options options = MakeOptions(settings);
  return Value(WithoutGil([&] { return Client::Create(options); }));
}

Ref<Executable> Load(const py::bytes& artifact, Backend& backend) {
  std::string bytes(artifact);
  return Value(WithoutGil([&] { return Executable::Load(std::move(bytes), backend); }));
}

// For the devices that the process uses; if it uses none yet, those that the environment names.
Ref<Executable> LoadForThisProcess(const py::bytes& artifact) {
  Core* core = Core::GetIfCreated();
  if (core == nullptr) {
    const Options options = MakeOptions({});
    core = Value(WithoutGil([&] { return Core::Get(options); }));
  }
  return Load(artifact, core->backend());
}

Memory* FindMemory(const Device& device, const std::string& kind) {
  const std::optional<MemoryKind> found = MemoryKindFromName(kind);
  if (!found) throw py::value_error("no memory of kind '" + kind + "'");
  return device.memory(*found);
}

py::dict MemoryStats(const Device& device, const std::string& kind) {
  return StatsDict(device.memory_stats(FindMemory(device, kind)->kind()));
}

py::tuple CompileProgram(Client& client, const std::string& program, const std::string& format,
                         const std::string& compile_options,
                         const std::map<std::string, OptionValue>& options) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : options) texts[name] = OptionText(value);
  bool from_cache = false;
  const Ref<Executable> compiled = Value(WithoutGil([&] {
    return client.CompileAndLoad(program, format, compile_options, texts,
                                 Client::LoadAs::kDescription, &from_cache);
  }));
  return py::make_tuple(py::bytes(compiled->bytes()), from_cache);
}

py::list DescribeValues(const std::vector<schema::Value>& values) {
  py::list list;
  for (const schema::Value& value : values) {
    list.append(py::dict("dtype"_a = std::string(TypeName(value.shape.type)),
                         "dimensions"_a = DimensionsTuple(value.shape.dimensions),
                         "memory_kind"_a = value.memory_kind));
  }
  return list;
}

py::dict DescribeExecutable(const Executable& executable) {
  const Artifact& artifact = executable.artifact();
  const ExecutableMemoryStats& memory = executable.memory_stats();
  return py::dict(
      "name"_a = artifact.name, "target"_a = artifact.target, "triple"_a = artifact.triple,
      "cpu"_a = artifact.cpu, "cpu_features"_a = artifact.cpu_features,
      "compiler_version"_a = artifact.compiler_version, "fingerprint"_a = artifact.fingerprint,
      "num_replicas"_a = artifact.num_replicas, "num_partitions"_a = artifact.num_partitions,
      "parameters"_a = DescribeValues(artifact.parameters),
      "results"_a = DescribeValues(artifact.results),
      "donatable_parameters"_a = artifact.donatable_parameters, "flops"_a = artifact.costs.flops,
      "transcendentals"_a = artifact.costs.transcendentals,
      "bytes_accessed"_a = artifact.costs.bytes_accessed, "cost_ns"_a = executable.cost_ns(),
      "generated_code_size"_a = memory.generated_code_size,
      "argument_size"_a = memory.argument_size, "output_size"_a = memory.output_size,
      "alias_size"_a = memory.alias_size, "temp_size"_a = memory.temp_size,
      "constant_size"_a = memory.constant_size, "thunks"_a = executable.ThunkSequenceText());
}

std::vector<Ref<Buffer>> Execute(Executable& executable, Device* device,
                                 const std::vector<Ref<Buffer>>& arguments,
                                 const std::vector<int64_t>& non_donatable) {
  std::vector<Buffer*> pointers;
  pointers.reserve(arguments.size());
  for (const Ref<Buffer>& argument : arguments) pointers.push_back(argument.get());
  std::vector<Ref<Buffer>> results(executable.artifact().results.size());
  Check(WithoutGil([&]() -> Status {
    TRIPONT_RETURN_IF_ERROR(executable.Execute(device, pointers, non_donatable, results));
    return NeedsCutting(executable.artifact()) ? CutResults(executable, results) : OkStatus();
  }));
  results.resize(executable.artifact().visible_results);
  return results;
}

py::list Run(Executable& executable, Device* device, const std::vector<py::object>& arrays) {
  std::vector<Ref<Buffer>> arguments;
  for (const py::object& object : arrays) {
    const py::array array = py::array::ensure(object);  // takes scalars too
    if (!array) throw py::type_error("an argument is not an array");
    arguments.push_back(BufferFromArray(device->default_memory(), array));
  }
  py::list outputs;
  for (const Ref<Buffer>& result : Execute(executable, device, arguments, {})) {
    outputs.append(ArrayFromBuffer(*result));
  }
  return outputs;
}

py::dict CacheCounters() {
  const ArtifactCacheCounters counters = ArtifactCache::counters();
  return py::dict("hits"_a = counters.hits, "misses"_a = counters.misses,
                  "writes"_a = counters.writes, "corrupted"_a = counters.corrupted,
                  "evicted"_a = counters.evicted);
}

const BackendRegistration& BackendOf(const std::string& name) {
  const BackendRegistration* const backend = FindBackend(name);
  if (backend == nullptr) throw py::key_error("no backend '" + name + "'");
  return *backend;
}

py::list Backends() {
  py::list list;
  for (const BackendRegistration* const backend : RegisteredBackends()) {
    list.append(py::dict("name"_a = backend->name, "title"_a = backend->title,
                         "choices"_a = backend->choices, "device_option"_a = backend->device_option,
                         "kernel_format"_a = backend->kernel_format, "install"_a = backend->install,
                         "lists_devices"_a = backend->list != nullptr));
  }
  return list;
}

py::list ListDevices(const std::string& name, const std::string& python) {
  const BackendRegistration& backend = BackendOf(name);
  if (backend.list == nullptr) return py::list();
  std::vector<DeviceFacts> devices = Value(WithoutGil([&] { return backend.list(python); }));
  py::list list;
  for (DeviceFacts& device : devices) {
    py::dict values;
    for (auto& [key, value] : device.values) values[py::str(key)] = std::move(value);
    list.append(py::make_tuple(device.description, values));
  }
  return list;
}

std::vector<size_t> ChooseDevices(
    const std::string& name, const std::string& choice,
    const std::vector<std::pair<std::string, std::map<std::string, DeviceFacts::Value>>>& devices) {
  const BackendRegistration& backend = BackendOf(name);
  std::vector<DeviceFacts> facts;
  facts.reserve(devices.size());
  for (const auto& [description, values] : devices)
    facts.push_back({description, {values.begin(), values.end()}});
  std::vector<size_t> chosen(facts.size());
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  return backend.choose == nullptr ? chosen : Value(backend.choose(choice, facts));
}

py::dict WorkerCounters() {
  Core* const core = Core::GetIfCreated();
  const CompileWorkerCounters counters =
      core == nullptr ? CompileWorkerCounters() : core->workers().counters();
  return py::dict("started"_a = counters.started, "alive"_a = counters.alive,
                  "compiles"_a = counters.compiles, "reused"_a = counters.reused,
                  "deaths"_a = counters.deaths);
}

std::vector<pid_t> WorkerProcesses() {
  Core* const core = Core::GetIfCreated();
  return core == nullptr ? std::vector<pid_t>() : core->workers().pids();
}

// The profile that Python takes; the interpreter's lock guards it.
std::shared_ptr<ThunkLog>& PythonsProfile() {
  static auto* const log = new std::shared_ptr<ThunkLog>;
  return *log;
}

void StartProfile() {
  auto log = std::make_shared<ThunkLog>();
  Check(StartProfiling(log));
  PythonsProfile() = std::move(log);
}

py::tuple StopProfile() {
  const std::shared_ptr<ThunkLog> log = std::exchange(PythonsProfile(), nullptr);
  Check(StopProfiling(log.get()));
  int64_t dropped = 0;
  py::list events;
  for (const ThunkLog::Entry& entry : log->Take(&dropped)) {
    events.append(
        py::make_tuple(entry.program, entry.thunk, entry.debug, entry.start_ns, entry.end_ns));
  }
  return py::make_tuple(events, dropped);
}

void DefineDevice(py::module_& m) {
  py::class_<Device, std::unique_ptr<Device, py::nodelete>>(m, "Device",
                                                            "Something that programs run on.")
      .def_property_readonly("id", &Device::id)
      .def_property_readonly("target", &Device::target)
      .def_property_readonly("description", &Device::description)
      .def_property_readonly("uses_host_memory", &Device::uses_host_memory,
                             "Whether it accesses all of the process's memory, and the host its.")
      .def_property_readonly("memory_kinds",
                             [](const Device& device) {
                               std::vector<std::string> kinds;
                               for (const Memory* memory : device.memories())
                                 kinds.emplace_back(memory->kind_name());
                               return kinds;
                             })
      .def("memory_stats", &MemoryStats, "kind"_a = "device",
           "Statistics of one of its memories, in bytes.")
      .def(
          "trim",
          [](const Device& device, const std::string& kind) {
            FindMemory(device, kind)->allocator().Trim();
          },
          "kind"_a = "device", "Gives memory kept for reuse back to the system.")
      .def(
          "synchronize", [](Device& device) { device.stream().Synchronize(); },
          py::call_guard<py::gil_scoped_release>(),
          "Waits for everything that was started on the device.")
      .def("__repr__", [](const Device& device) {
        return StrCat("<tripont device ", device.id(), ": ", device.description(), ">");
      });
}

void DefineClient(py::module_& m) {
  py::class_<Client, Ref<Client>>(m, "Client",
                                  "A view of the process's core, with options of its own.")
      .def(py::init(&MakeClient), "options"_a = std::map<std::string, OptionValue>(),
           "options: names and values as `options()` lists them; they go over the environment.")
      .def_property_readonly("devices",
                             [](const Client& client) {
                               py::list list;
                               for (Device* device : client.devices())
                                 list.append(py::cast(device, py::return_value_policy::reference));
                               return list;
                             })
      .def("compile", &CompileProgram, "program"_a, "format"_a = "mlir",
           "compile_options"_a = py::bytes(""), "options"_a = std::map<std::string, OptionValue>(),
           "(artifact bytes, whether they came from the on-disk cache). format: \"mlir\" or "
           "\"hlo\".")
      .def(
          "load",
          [](const Client& client, const py::bytes& artifact) {
            return Load(artifact, client.core().backend());
          },
          "artifact"_a,
          "The Executable of an artifact, for the client's devices. Raises StatusError for bytes "
          "that are damaged or do not fit them.")
      .def_property_readonly("cache_folder", [](Client& client) { return client.cache().folder(); })
      .def(
          "clear_cache", [](Client& client) { return client.cache().Clear(); },
          py::call_guard<py::gil_scoped_release>(), "Removes all entries; how many.");
}

void DefineBuffer(py::module_& m) {
  py::class_<Buffer, Ref<Buffer>>(m, "Buffer", "An array in a device's memory.")
      .def_static(
          "from_array",
          [](const py::array& array, Device& device, const std::string& kind) {
            return BufferFromArray(FindMemory(device, kind), array);
          },
          "array"_a, "device"_a, "memory_kind"_a = "device", "A copy of a NumPy array.")
      .def("numpy", &ArrayFromBuffer, "A NumPy array with a copy of the content. Waits for it.")
      .def_property_readonly(
          "dtype", [](const Buffer& buffer) { return std::string(TypeName(buffer.shape().type)); })
      .def_property_readonly(
          "shape", [](const Buffer& buffer) { return DimensionsTuple(buffer.shape().dimensions); })
      .def_property_readonly("device", &Buffer::device, py::return_value_policy::reference)
      .def_property_readonly(
          "memory_kind",
          [](const Buffer& buffer) { return std::string(buffer.memory()->kind_name()); })
      .def_property_readonly(
          "is_ready", [](const Buffer& buffer) { return buffer.definition_event()->IsReady(); })
      .def_property_readonly("is_deleted", &Buffer::IsDeleted)
      .def(
          "wait",
          [](const Buffer& buffer) {
            Check(WithoutGil([&] { return buffer.definition_event()->Await(); }));
          },
          "Waits until the content is there; raises the error if there will be none.")
      .def("delete", &Buffer::Delete)
      .def(
          "copy_to",
          [](Buffer& buffer, Device& device, const std::string& kind) {
            Memory* const memory = FindMemory(device, kind);
            // Waits if the device's queue is full, perhaps of calls of Python functions.
            return Value(WithoutGil([&] { return buffer.CopyToMemory(memory); }));
          },
          "device"_a, "memory_kind"_a = "device")
      .def(
          "pointer",
          [](const Buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.data()); },
          "Address of the content; only meaningful with an external reference.")
      .def("add_external_reference",
           [](Buffer& buffer) {
             // Content may have to be made, or awaited.
             Check(WithoutGil([&] { return buffer.AddExternalReference(); }));
           })
      .def("drop_external_reference",
           [](Buffer& buffer) { Check(buffer.DropExternalReference()); });
}

void DefineExecutable(py::module_& m) {
  py::class_<Executable, Ref<Executable>>(m, "Executable", "A compiled program, ready to run.")
      .def_static(
          "load", &LoadForThisProcess, "artifact"_a,
          "For the devices that the process uses. If it uses none yet, this opens those that "
          "the environment names, and later clients cannot choose others (Client.load is "
          "for them). Raises StatusError for bytes that are damaged or do not fit the "
          "devices.")
      .def_property_readonly("name", &Executable::name)
      .def_property_readonly(
          "program",
          [](const Executable& e) { return py::bytes(std::string(e.artifact().program)); },
          "The optimised HLO, as HloModuleProto bytes; may be empty.")
      .def("describe", &DescribeExecutable, "Everything that `tripont inspect` shows.")
      .def("execute", &Execute, "device"_a, "arguments"_a,
           "non_donatable"_a = std::vector<int64_t>(),
           "Buffers in, buffers out. Donatable parameters that are not listed in non_donatable are "
           "donated.")
      .def("run", &Run, "device"_a, "arrays"_a, "NumPy arrays (or scalars) in, NumPy arrays out.");
}

// What this process has: options, the CPU, libraries.
void DefineInstallation(py::module_& m) {
  m.def("version", [] { return std::string(Version()); });
  m.def(
      "options",
      [] {
        py::list list;
        for (const OptionInfo& info : Options::List()) {
          list.append(py::make_tuple(std::string(info.name), std::string(info.environment),
                                     std::string(info.help)));
        }
        return list;
      },
      "All settings as (client option, environment variable, help).");
  m.def("cpu_name", &CpuName);
  m.def("cpu_features", &CpuFeatures, "What this CPU and system support, by LLVM's names.");
  m.def("num_threads", &NumThreads, "Threads of parallel kernels.");
  m.def(
      "library_calls", [] { return LibraryRegistry::Global().names(); },
      "Library calls that programs can make.");
  m.def("library_versions", &LibraryVersions, "(name, version and path) of the libraries in use.");
}

void DefineBackends(py::module_& m) {
  m.def("backends", &Backends,
        "The registered kinds of devices, as dictionaries: host, which is the first, and what "
        "TRIPONT_DEVICE can name besides.");
  m.def(
      "load_backends", [](const std::string& paths) { Check(LoadBackends(paths)); }, "paths"_a,
      "Registers the backends of shared libraries, as TRIPONT_BACKENDS does.");
  m.def("list_devices", &ListDevices, "backend"_a, "python"_a,
        "The devices of a backend: [(description, {name: value}), ...]. python: the interpreter "
        "whose environment may hold their runtime. Raises StatusError UNAVAILABLE without one.");
  m.def("choose_devices", &ChooseDevices, "backend"_a, "choice"_a, "devices"_a,
        "The numbers of the devices, among those that list_devices gave, that a choice means: "
        "\"gpu\" of TRIPONT_DEVICE=sycl:gpu, or \"\". Raises StatusError NOT_FOUND.");
}

void DefineProfile(py::module_& m) {
  m.def("start_profile", &StartProfile,
        "From now on every thunk of every execution is timed. Raises StatusError "
        "FAILED_PRECONDITION if a profile is being taken.");
  m.def("stop_profile", &StopProfile,
        "Ends the profile: ([(program, number of the thunk, index of its debug information, start "
        "in ns, end in ns), ...], number of events that were too many to keep).");
}

// The cache of compiled programs, and the workers that compile them.
void DefineCompiles(py::module_& m) {
  m.def("cache_counters", &CacheCounters,
        "The counters of the on-disk cache, summed over the clients of the process.");
  m.def(
      "find_python",
      [](const std::string& python) { return Value(WorkerInterpreter::FindPython(python)); },
      "python"_a = "", "The interpreter that compile workers run on.");
  m.def("worker_counters", &WorkerCounters);
  m.def(
      "end_compiles",
      [] {
        if (Core* const core = Core::GetIfCreated()) core->workers().EndCompiles();
      },
      py::call_guard<py::gil_scoped_release>(),
      "Ends what is being compiled: whoever waits for it gets an error. For the end of the "
      "program.");
  m.def("worker_processes", &WorkerProcesses, "Process ids of the compile workers.");
}

}  // namespace

PYBIND11_MODULE(_tripont, m) {
  m.doc() = "The runtime of tripont: devices, buffers, and compiled programs.";
  DefineStatusError(m);
  DefineFfi(m);
  DefineCallbacks(m);
  DefineDevice(m);
  DefineClient(m);
  DefineBuffer(m);
  DefineExecutable(m);
  DefineInstallation(m);
  DefineBackends(m);
  DefineProfile(m);
  DefineCompiles(m);
  Part::DefineAll(m);
}

}  // namespace tripont::python
