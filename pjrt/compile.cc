// PJRT_Client_Compile and PJRT_Compile: from program bytes to an executable. The compiler runs in a
// worker process, or not at all if the artifact is in the cache; neither needs Python's lock of
// this process.

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/profile.h"
#include "pjrt/call.h"
#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/executable.h"
#include "pjrt/functions.h"
#include "pjrt/profiler.h"
#include "pjrt/topology.h"

namespace tripont::pjrt {
namespace {

// A checked view of the caller's program and options.
struct Program {
  std::string_view code;
  std::string_view format;
  std::string_view compile_options;
  CompileOptions options;
};

StatusOr<Program> ReadProgram(const PJRT_Program* program, const char* compile_options,
                              size_t compile_options_size) {
  if (program == nullptr || !TRIPONT_PJRT_HAS_FIELD(program, PJRT_Program, format_size)) {
    return InvalidArgument("`program` is null or its struct_size is too small");
  }
  if (program->code == nullptr || program->code_size == 0)
    return InvalidArgument("the program is empty");
  if (program->format == nullptr) return InvalidArgument("the program's format is not given");
  Program result;
  result.code = {program->code, program->code_size};
  result.format = {program->format, program->format_size};
  if (result.format != "mlir" && result.format != "hlo") {
    return InvalidArgument("program format '", result.format,
                           "' is not supported; give 'mlir' or 'hlo'");
  }
  if (compile_options != nullptr) result.compile_options = {compile_options, compile_options_size};
  TRIPONT_ASSIGN_OR_RETURN(result.options, ParseCompileOptions(result.compile_options));
  return result;
}

// `extra`: more options for the compiler; they go over the caller's.
StatusOr<Ref<Executable>> CompileAndLoad(Client& client, const Program& program, Client::LoadAs as,
                                         std::map<std::string, std::string> extra = {}) {
  extra.merge(CompilerOptions(program.options));
  return client.CompileAndLoad(program.code, program.format,
                               CanonicalCompileOptions(program.options), extra, as);
}

// The client for compiling without one: for PJRT_Compile with a topology only. The first call's
// `settings` (client options) decide.
StatusOr<Client*> CompileOnlyClient(const std::map<std::string, std::string>& settings) {
  static std::mutex mutex;
  static Ref<Client>* client = nullptr;  // never destroyed, like the core it stands for
  const std::lock_guard<std::mutex> lock(mutex);
  if (client == nullptr) {
    TRIPONT_ASSIGN_OR_RETURN(Options options, Options::FromEnvironment());
    for (const auto& [name, value] : settings) TRIPONT_RETURN_IF_ERROR(options.Set(name, value));
    TRIPONT_ASSIGN_OR_RETURN(Ref<Client> created, Client::Create(options));
    client = new Ref<Client>(std::move(created));
  }
  return client->get();
}

}  // namespace

Status Client_Compile(PJRT_Client_Compile_Args& args) {
  HostActivity activity(kCompileActivity);
  TRIPONT_ASSIGN_OR_RETURN(const Program program, ReadProgram(args.program, args.compile_options,
                                                              args.compile_options_size));
  TRIPONT_ASSIGN_OR_RETURN(Ref<Executable> executable,
                           CompileAndLoad(*args.client->client, program, Client::LoadAs::kProgram));
  TRIPONT_ASSIGN_OR_RETURN(args.executable, LoadExecutable(args.client, std::move(executable),
                                                           std::string(program.compile_options)));
  if (activity.IsRecorded()) {
    activity.About(args.executable->info->executable->name());
    activity.Caller(CallerInProfile(args.extension_start));
  }
  return OkStatus();
}

Status Compile(PJRT_Compile_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(const Program program, ReadProgram(args.program, args.compile_options,
                                                              args.compile_options_size));
  Client* client = args.client != nullptr ? args.client->client.get() : nullptr;
  const PJRT_TopologyDescription* const topology = args.topology;
  if (client == nullptr) {
    TRIPONT_ASSIGN_OR_RETURN(
        client, CompileOnlyClient(topology != nullptr ? topology->runtime_options
                                                      : std::map<std::string, std::string>()));
  }
  // Nothing of this needs a device that can run it: that is for who loads it.
  TRIPONT_ASSIGN_OR_RETURN(
      Ref<Executable> executable,
      CompileAndLoad(
          *client, program, Client::LoadAs::kDescription,
          topology != nullptr ? topology->compiler_options : std::map<std::string, std::string>()));
  args.executable = new PJRT_Executable{std::make_shared<const ExecutableInfo>(
      std::move(executable), std::string(program.compile_options),
      args.client != nullptr && args.client->gives_outlines)};
  return OkStatus();
}

}  // namespace tripont::pjrt
