// The network that MPI listens on between machines, which the user has to choose.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_NETWORK_INTERFACE_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_NETWORK_INTERFACE_H_

#include <string>

namespace tripont::hosts {

// Why MPI has no network to listen on; empty if it has. `interface`: the option hosts_interface.
// Waits some seconds for an interface that is coming up: the system tells that a cable carries a
// moment after it does.
std::string NetworkError(const std::string& interface);

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_NETWORK_INTERFACE_H_
