#include "core/runtime/exchange.h"

#include <map>
#include <mutex>
#include <utility>

namespace tripont::exchange {
namespace {

struct ThreadState {
  bool capturing = false;
  Ref<Buffer> captured;
  Ref<Buffer> offered;
  bool taken = false;
};

ThreadState& OfThisThread() {
  thread_local ThreadState state;
  return state;
}

// Lives as long as the process: threads may still collect while it ends.
struct Tickets {
  std::mutex mutex;
  int64_t last = 0;
  std::map<int64_t, Ref<Buffer>> buffers;

  static Tickets& Global() {
    static auto* const tickets = new Tickets;
    return *tickets;
  }
};

}  // namespace

void BeginCapture() {
  OfThisThread().capturing = true;
  OfThisThread().captured = nullptr;
}

Ref<Buffer> EndCapture() {
  OfThisThread().capturing = false;
  return std::exchange(OfThisThread().captured, nullptr);
}

void Observe(Buffer& buffer) {
  ThreadState& state = OfThisThread();
  if (!state.capturing) return;
  StatusOr<Ref<Buffer>> share = Buffer::Share(buffer);
  if (share.ok()) state.captured = std::move(share).value();
}

void Offer(Ref<Buffer> buffer) {
  OfThisThread().offered = std::move(buffer);
  OfThisThread().taken = false;
}

bool Withdraw() {
  OfThisThread().offered = nullptr;
  return std::exchange(OfThisThread().taken, false);
}

Ref<Buffer> TakeOffer(const void* data, const Shape& shape, const Memory* memory) {
  ThreadState& state = OfThisThread();
  if (!state.offered || data == nullptr) return nullptr;
  Buffer& buffer = *state.offered;
  if (buffer.data() != data || buffer.memory() != memory || !(buffer.shape() == shape)) {
    return nullptr;
  }
  StatusOr<Ref<Buffer>> share = Buffer::Share(buffer);
  if (!share.ok()) return nullptr;
  state.taken = true;
  return std::move(share).value();
}

int64_t Deposit(Ref<Buffer> buffer) {
  Tickets& tickets = Tickets::Global();
  const std::lock_guard<std::mutex> lock(tickets.mutex);
  tickets.buffers[++tickets.last] = std::move(buffer);
  return tickets.last;
}

StatusOr<Ref<Buffer>> Collect(int64_t ticket) {
  Tickets& tickets = Tickets::Global();
  const std::lock_guard<std::mutex> lock(tickets.mutex);
  const auto found = tickets.buffers.find(ticket);
  if (found == tickets.buffers.end()) {
    return NotFound("no array waits under the number ", ticket, ": each can be collected once");
  }
  Ref<Buffer> buffer = std::move(found->second);
  tickets.buffers.erase(found);
  return buffer;
}

}  // namespace tripont::exchange
