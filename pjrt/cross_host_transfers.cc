#include "pjrt/cross_host_transfers.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/runtime/hosts/transfers.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/cross_host_transfers_extension.h"
#include "pjrt/event.h"
#include "pjrt/ffi.h"
#include "pjrt/functions.h"
#include "pjrt/layouts.h"
#include "pjrt/types.h"

namespace tripont::pjrt {
namespace {

Status CheckJob(const PJRT_Client& client) {
  if (client.job == nullptr)
    return FailedPrecondition("this process is alone: there is no device of another one");
  return client.job->mpi_status();
}

// OK if `id` is a device of another process.
Status CheckRemote(const PJRT_Client& client, int id) {
  const PJRT_Device* const device = client.device(id);
  if (device == nullptr) return InvalidArgument("no device ", id);
  if (device->is_addressable())
    return InvalidArgument("device ", device->description->debug_string, " is of this process");
  return OkStatus();
}

// The order of the keys, in which both sides begin the transfers of a call.
std::vector<size_t> InOrder(const int64_t* keys, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}

Status SendBuffers(PJRT_CrossHostSendBuffers_Args& args) {
  const PJRT_Client& client = *args.client;
  TRIPONT_RETURN_IF_ERROR(CheckJob(client));
  if (args.num_buffers > 0 && (args.buffers == nullptr || args.target_devices == nullptr ||
                               args.transfer_keys == nullptr || args.send_events == nullptr)) {
    return InvalidArgument("a list of the arrays to send is null");
  }
  for (size_t i = 0; i < args.num_buffers; ++i) {
    TRIPONT_RETURN_IF_ERROR(CheckRemote(client, args.target_devices[i]));
    if (args.buffers[i] == nullptr || args.buffers[i]->memory->client != args.client)
      return InvalidArgument("array ", i, " to send is null, or of another client");
    if (args.buffers[i]->layout != nullptr) {
      return Unimplemented("array ", i, " to send has the layout ", args.buffers[i]->layout->text,
                           "; only row-major arrays can go to another process");
    }
  }
  for (const size_t i : InOrder(args.transfer_keys, args.num_buffers)) {
    const PJRT_Buffer& buffer = *args.buffers[i];
    const hosts::Route route{client.job, buffer.memory->device->description->id,
                             args.target_devices[i], client.client->options().collective_timeout};
    args.send_events[i] = ToHandle(hosts::SendBuffer(route, args.transfer_keys[i], buffer.buffer));
  }
  return OkStatus();
}

Status ReceiveBuffers(PJRT_CrossHostReceiveBuffers_Args& args) {
  const PJRT_Client& client = *args.client;
  TRIPONT_RETURN_IF_ERROR(CheckJob(client));
  TRIPONT_ASSIGN_OR_RETURN(PJRT_Memory * memory, TargetMemory(args.client, nullptr, args.device));
  if (args.num_shapes > 0 && (args.ranks == nullptr || args.dims == nullptr ||
                              args.element_types == nullptr || args.source_devices == nullptr ||
                              args.transfer_keys == nullptr || args.buffers == nullptr)) {
    return InvalidArgument("a list of the arrays to receive is null");
  }
  // All memory first: nothing is begun that cannot be.
  std::vector<std::pair<Ref<Buffer>, Ref<Event>>> made;
  for (size_t i = 0; i < args.num_shapes; ++i) {
    TRIPONT_RETURN_IF_ERROR(CheckRemote(client, args.source_devices[i]));
    TRIPONT_ASSIGN_OR_RETURN(const Shape shape,
                             MakeShape(args.element_types[i], args.dims[i], args.ranks[i]));
    if (args.layouts != nullptr) {
      TRIPONT_RETURN_IF_ERROR(CheckDeviceLayout(args.layouts[i], shape.dimensions,
                                                static_cast<int64_t>(ByteWidth(shape.type))));
    }
    Ref<Event> definition = MakeRef<Event>();
    TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer,
                             Buffer::Allocate(memory->memory, shape, definition));
    made.emplace_back(std::move(buffer), std::move(definition));
  }
  for (const size_t i : InOrder(args.transfer_keys, args.num_shapes)) {
    const hosts::Route route{client.job, args.source_devices[i], args.device->description->id,
                             client.client->options().collective_timeout};
    hosts::ReceiveBuffer(route, args.transfer_keys[i], made[i].first, made[i].second);
    args.buffers[i] = new PJRT_Buffer(std::move(made[i].first), memory);
  }
  return OkStatus();
}

TRIPONT_PJRT_CONTRACT(SendBuffers, PJRT_CrossHostSendBuffers_Args, send_events, client)
TRIPONT_PJRT_CONTRACT(ReceiveBuffers, PJRT_CrossHostReceiveBuffers_Args, buffers, client)

}  // namespace

PJRT_Extension_Base* CrossHostTransfersExtension() {
  static PJRT_CrossHostTransfers_Extension extension = [] {
    PJRT_CrossHostTransfers_Extension result{};
    result.base = {PJRT_CrossHostTransfers_Extension_STRUCT_SIZE,
                   PJRT_Extension_Type_CrossHostTransfers, FfiExtension()};
    result.make_receive_buffers = [](void*) {
      return UnimplementedError("PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers");
    };
    result.copy_to_remote_device = [](PJRT_CopyToRemoteDevice_Args* args) {
      PJRT_Event_Destroy_Args event{};
      event.event = args->event;
      if (args->event != nullptr) static_cast<void>(Event_Destroy(event));
      args->on_done(UnimplementedError("PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice"), false,
                    args->on_done_argument);
    };
    result.receive_buffers = Call<"PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers",
                                  Contract_ReceiveBuffers, ReceiveBuffers>;
    result.send_buffers =
        Call<"PJRT_Transfers_PJRT_Client_CrossHostSendBuffers", Contract_SendBuffers, SendBuffers>;
    return result;
  }();
  return &extension.base;
}

}  // namespace tripont::pjrt
