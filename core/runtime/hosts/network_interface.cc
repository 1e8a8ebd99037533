#include "core/runtime/hosts/network_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// How long an interface that was just set up may take until it carries messages.
constexpr std::chrono::seconds kInterfaceWait{5};
constexpr std::chrono::milliseconds kInterfacePause{50};

// What MPI would lack on a network interface; empty if it has all. MPI itself leaves such an interface
// out, and then ends the process because it reaches no other machine.
std::string WhatIsMissing(const char* interface) {
  if (if_nametoindex(interface) == 0) return "this machine has no network interface of that name";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";  // the system does not tell; MPI will
  bool is_running = false;
  bool has_address = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (std::string_view(one->ifa_name) != interface) continue;
    constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
    is_running = is_running || (one->ifa_flags & kRunning) == kRunning;
    const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
    has_address = has_address || family == AF_INET || family == AF_INET6;
  }
  freeifaddrs(all);
  if (!is_running) return "this network interface is down or has no carrier";
  if (!has_address) return "this network interface has no IP address";
  return "";
}

}  // namespace

std::string NetworkError(const std::string& interface) {
  const auto check = [](std::string_view variable, const char* name) -> std::string {
    const auto start = std::chrono::steady_clock::now();
    std::string missing = WhatIsMissing(name);
    while (!missing.empty() && if_nametoindex(name) != 0 &&
           std::chrono::steady_clock::now() - start < kInterfaceWait) {
      std::this_thread::sleep_for(kInterfacePause);
      missing = WhatIsMissing(name);
    }
    return missing.empty() ? "" : StrCat(variable, "=", name, ", but ", missing);
  };
  if (!interface.empty()) return check("TRIPONT_HOSTS_INTERFACE", interface.c_str());
  // UCX's devices are not only the system's: "mlx5_0:1".
  if (std::getenv("UCX_NET_DEVICES") != nullptr) return "";
  if (const char* const name = std::getenv("FI_TCP_IFACE"); name != nullptr)
    return check("FI_TCP_IFACE", name);
  return "set TRIPONT_HOSTS_INTERFACE to the network interface that MPI shall listen on, for "
         "example eth0 (messages on it are neither encrypted nor authenticated: docs/hosts.md)";
}

}  // namespace tripont::hosts
