// Library call "rng-state": a state for rng-bit-generator that no other call on the device was
// given. No operands; result u64[3]: key, counter, stream.
//
// HLO's rng instruction has no state among its operands, so the device keeps one: the number of
// such calls that it has run. That is the stream; the key is the device's id in its client, which is
// unique in a job of several processes, and the counter starts at 0, so that every call draws from
// its own 2^64 blocks of Philox. Processes that run the same programs in the same order get the same
// numbers, and one process with as many devices gets them too. A client that is not of the job, in a
// process that is, gets the numbers of a process that is alone.
#include <array>
#include <atomic>
#include <memory>

#include "core/runtime/collectives.h"
#include "core/runtime/device.h"
#include "core/runtime/library/calls.h"
#include "core/runtime/library/registry.h"

namespace tripont {
namespace {

constexpr int kWords = 3;
// More than a client can have (options.h); a device past them shares a count with another one.
constexpr size_t kDevices = 512;

class RngState final : public LibraryCall {
 public:
  Status Execute(LibraryContext& context, void* const* /*operands*/,
                 void* const* results) const override {
    // The counts of clients that are alone, and those of the client that is of the job.
    static std::array<std::array<std::atomic<uint64_t>, kDevices>, 2> streams{};
    const Participation* const self = context.participation();
    const bool is_of_job = self != nullptr && self->device >= 0;
    const auto device = static_cast<uint64_t>(is_of_job ? self->device : context.device()->id());
    auto* const state = static_cast<uint64_t*>(results[0]);
    state[0] = device;
    state[1] = 0;
    state[2] = streams[is_of_job][device % kDevices].fetch_add(1, std::memory_order_relaxed);
    return OkStatus();
  }
};

StatusOr<std::unique_ptr<LibraryCall>> MakeRngState(const LibraryCallSignature& signature) {
  const Shape expected{PrimitiveType::kU64, {kWords}};
  if (!signature.operands.empty() || signature.results.size() != 1 ||
      !(signature.results[0] == expected)) {
    return InvalidArgument("expected no operands and one result u64[3]");
  }
  TRIPONT_RETURN_IF_ERROR(signature.attributes.CheckAllUsed());
  return std::unique_ptr<LibraryCall>(new RngState);
}

}  // namespace

void RegisterRngState(LibraryRegistry& registry) { registry.Register("rng-state", MakeRngState); }

}  // namespace tripont
