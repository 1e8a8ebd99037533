// What MPICH asks its process manager when it starts, answered from a KeyValueStore.
//
// MPICH speaks the wire protocol PMI-1 over a file descriptor that its environment names. Under
// mpiexec the other end is a proxy of hydra's; here it is a thread of the same process, so that any
// way of starting processes will do (two shells, Slurm, torchrun).
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_PMI_SERVER_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_PMI_SERVER_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/runtime/hosts/key_value.h"
#include "core/runtime/status.h"

namespace tripont::hosts {

// Serves one initialisation of MPI in this process. Its own thread ends when the descriptor is
// closed, at the latest by the destructor. MPICH ends the process when it is told of an error or
// finds the descriptor closed: a server that cannot answer any more is silent instead, and MPI
// waits until the process ends (see StartMpi).
class PmiServer {
 public:
  struct Settings {
    int rank = 0;
    int size = 1;
    std::string job;              // a name that no other job on these machines has
    std::string process_mapping;  // which processes share memory: "(vector,(0,2,1))"
  };
  static StatusOr<std::unique_ptr<PmiServer>> Start(std::shared_ptr<KeyValueStore> store,
                                                    Settings settings);
  ~PmiServer();
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  // The end that MPI is given (PMI_FD). Owned by the server, whose destructor makes it /dev/null: the
  // number stays taken, because MPI remembers it.
  int descriptor() const { return ends_[1]; }

  // Nothing is answered from now on, and within a second nothing asked of the store. Thread-safe.
  void FallSilent() { silent_.store(true, std::memory_order_release); }
  // Why it fell silent by itself: the store failed. Thread-safe.
  Status status() const;
  // What it is in the middle of asking the store, after "which ": "asks it for the addresses of
  // process 1". Empty if nothing. Thread-safe.
  std::string request() const;

 private:
  PmiServer(std::shared_ptr<KeyValueStore> store, Settings settings);
  void Serve();
  std::string Answer(std::string_view line);
  Status Barrier();
  void Fail(const Status& status);
  std::string Prefix() const;  // of the keys of this barrier
  // What all processes have put since the last barrier, in the form of Record().
  StatusOr<std::string> Exchange(const std::string& prefix, std::string mine);
  // `what`: the request, for people.
  StatusOr<std::string> Get(const std::string& key, std::string what);
  Status Put(const std::string& key, std::string_view value, std::string what);
  void SetRequest(std::string what);

  const std::shared_ptr<KeyValueStore> store_;
  const Settings settings_;
  int ends_[2] = {-1, -1};
  int barriers_ = 0;
  std::map<std::string, std::string, std::less<>> put_;    // since the last barrier
  std::map<std::string, std::string, std::less<>> known_;  // of all processes
  std::atomic<bool> silent_{false};
  mutable std::mutex mutex_;
  Status status_;        // with the mutex
  std::string request_;  // with the mutex
  std::thread thread_;
};

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_PMI_SERVER_H_
