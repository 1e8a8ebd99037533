#include "pjrt/shardings.h"

#include <cstdint>

#include "pjrt/call.h"
#include "pjrt/cross_host_transfers.h"
#include "pjrt/executable.h"
#include "pjrt/shardings_extension.h"
#include "pjrt/wire.h"

namespace tripont::pjrt {
namespace {

// Field numbers of HloModuleProto and OpSharding.
enum PartitionedModuleField : uint32_t { kOutputSharding = 12, kParametersShardings = 14 };
enum OpShardingField : uint32_t { kShardingType = 1, kTupleShardings = 5 };
constexpr uint64_t kTupleSharding = 2;

void AddSharding(std::string_view sharding, Shardings& shardings) {
  shardings.data.push_back(sharding.data());
  shardings.sizes.push_back(sharding.size());
}

void GiveShardings(const Shardings& shardings, TRIPONT_PJRT_Executable_Shardings_Args& args) {
  const bool has_any = !shardings.data.empty();
  args.num_values = shardings.data.size();
  args.shardings = has_any ? shardings.data.data() : nullptr;
  args.sharding_sizes = has_any ? shardings.sizes.data() : nullptr;
}

Status ParameterShardings(TRIPONT_PJRT_Executable_Shardings_Args& args) {
  GiveShardings(args.executable->info->parameter_shardings, args);
  return OkStatus();
}

Status OutputShardings(TRIPONT_PJRT_Executable_Shardings_Args& args) {
  GiveShardings(args.executable->info->output_shardings, args);
  return OkStatus();
}

TRIPONT_PJRT_CONTRACT(Shardings, TRIPONT_PJRT_Executable_Shardings_Args, sharding_sizes, executable)

}  // namespace

Shardings ParameterShardingsOf(std::string_view module) {
  Shardings shardings;
  for (WireReader reader(module); reader.Next();) {
    if (reader.field() == kParametersShardings) AddSharding(reader.bytes(), shardings);
  }
  return shardings;
}

Shardings OutputShardingsOf(std::string_view module) {
  Shardings shardings;
  for (WireReader reader(module); reader.Next();) {
    if (reader.field() != kOutputSharding) continue;
    const std::string_view whole = reader.bytes();
    bool is_tuple = false;
    for (WireReader sharding(whole); sharding.Next();) {
      if (sharding.field() == kShardingType) is_tuple = sharding.number() == kTupleSharding;
    }
    if (!is_tuple) AddSharding(whole, shardings);
    for (WireReader sharding(whole); is_tuple && sharding.Next();) {
      if (sharding.field() == kTupleShardings) AddSharding(sharding.bytes(), shardings);
    }
  }
  return shardings;
}

PJRT_Extension_Base* ShardingsExtension() {
  static TRIPONT_PJRT_Shardings_Extension extension = [] {
    TRIPONT_PJRT_Shardings_Extension result{};
    result.base = {TRIPONT_PJRT_Shardings_Extension_STRUCT_SIZE, TRIPONT_PJRT_SHARDINGS,
                   CrossHostTransfersExtension()};
    result.parameter_shardings = Call<"PJRT_Shardings_PJRT_Executable_ParameterShardings",
                                      Contract_Shardings, ParameterShardings>;
    result.output_shardings =
        Call<"PJRT_Shardings_PJRT_Executable_OutputShardings", Contract_Shardings, OutputShardings>;
    return result;
  }();
  return &extension.base;
}

}  // namespace tripont::pjrt
