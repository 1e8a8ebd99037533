// KeyValueStore: how the processes of a job find one another before MPI runs.
//
// A framework's coordinator (jax.distributed.initialize, torch_xla's XlaCoordinator) keeps the
// store and hands its functions to PJRT_Client_Create.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_KEY_VALUE_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_KEY_VALUE_H_

#include <chrono>
#include <string>
#include <string_view>

#include "core/runtime/status.h"

namespace tripont::hosts {

// Thread-safe.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // The value of `key`, waited for. The store's own error after `timeout`.
  virtual StatusOr<std::string> Get(std::string_view key, std::chrono::milliseconds timeout) = 0;
  // A key can be put once.
  virtual Status Put(std::string_view key, std::string_view value) = 0;
  // Ends the use of what keeps the store: calls from now on are CANCELLED. Blocks until those that
  // run have ended, or for a few seconds if one of them does not.
  virtual void Close() = 0;
};

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_KEY_VALUE_H_
