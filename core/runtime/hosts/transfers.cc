#include "core/runtime/hosts/transfers.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/runtime/hosts/exchange.h"
#include "core/runtime/stream.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// The stream of the transfers from `source` to `target`. It lives as long as the process.
Stream& StreamOf(int source, int target) {
  static auto* const mutex = new std::mutex;
  static auto* const streams = new std::map<std::pair<int, int>, std::unique_ptr<Stream>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Stream>& stream = (*streams)[{source, target}];
  if (stream == nullptr) {
    stream = std::make_unique<Stream>("tripont-transfer");
    // The thread that begins the transfers in one direction begins those in the other.
    stream->SetUnbounded(true);
  }
  return *stream;
}

StatusOr<Exchange> Begin(const Route& route, int64_t key) {
  return Exchange::Begin(
      route.job, ChannelUse::kTransfers, {route.source, route.target},
      StrCat("transfer ", key, " from xpu:", route.source, " to xpu:", route.target),
      static_cast<uint64_t>(key), route.timeout_seconds);
}

Status Send(const Route& route, int64_t key, Buffer& buffer) {
  TRIPONT_RETURN_IF_ERROR(buffer.definition_event()->Await());
  TRIPONT_ASSIGN_OR_RETURN(Exchange exchange, Begin(route, key));
  exchange.Send(route.job->ProcessOf(route.target), buffer.data(), buffer.byte_size());
  return exchange.Run();
}

Status Receive(const Route& route, int64_t key, Buffer& buffer) {
  TRIPONT_ASSIGN_OR_RETURN(Exchange exchange, Begin(route, key));
  exchange.Receive(route.job->ProcessOf(route.source), buffer.data(), buffer.byte_size());
  return exchange.Run();
}

void Decide(Event& event, const Status& status) {
  if (status.ok()) {
    event.SetReady();
  } else {
    event.SetError(status);
  }
}

// Queues `transfer` of the buffer; `done` says how it ended.
void Queue(const Route& route, int64_t key, const Ref<Buffer>& buffer, const Ref<Event>& done,
           Status (*transfer)(const Route&, int64_t, Buffer&)) {
  Stream& stream = StreamOf(route.source, route.target);
  StatusOr<Hold> hold = buffer->Acquire();
  const Status status = hold.ok() ? stream.EnsureThread() : hold.status();
  if (!status.ok()) {
    // The other process waits for the transfer.
    route.job->Break(status);
    return done->SetError(status);
  }
  auto kept = std::make_shared<Hold>(std::move(*hold));
  stream.Enqueue(
      [route, key, buffer, kept, done, transfer] {
        const Status status = transfer(route, key, *buffer);
        if (!status.ok()) route.job->Break(status);
        *kept = Hold();
        Decide(*done, status);
      },
      [done](const Status& status) { Decide(*done, status); });
}

}  // namespace

Ref<Event> SendBuffer(const Route& route, int64_t key, const Ref<Buffer>& buffer) {
  Ref<Event> sent = MakeRef<Event>();
  Queue(route, key, buffer, sent, &Send);
  return sent;
}

void ReceiveBuffer(const Route& route, int64_t key, const Ref<Buffer>& buffer,
                   const Ref<Event>& definition) {
  Queue(route, key, buffer, definition, &Receive);
}

}  // namespace tripont::hosts
