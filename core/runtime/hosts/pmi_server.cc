#include "core/runtime/hosts/pmi_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// The protocol's own limits, as hydra answers them.
constexpr int kMaxName = 256;
constexpr int kMaxKey = 64;
constexpr int kMaxValue = 4096;
constexpr size_t kLongestLine = 1 << 16;
constexpr std::chrono::milliseconds kLongestGet{1000};

// The value of `name=` in "cmd=put kvsname=... key=... value=...", to the next space.
std::string_view Field(std::string_view line, std::string_view name, bool to_the_end = false) {
  size_t start = 0;
  while (start < line.size()) {
    if (line.substr(start).starts_with(name) && line.size() > start + name.size() &&
        line[start + name.size()] == '=') {
      const size_t begin = start + name.size() + 1;
      return line.substr(begin,
                         to_the_end ? std::string_view::npos : line.find(' ', begin) - begin);
    }
    const size_t space = line.find(' ', start);
    if (space == std::string_view::npos) break;
    start = space + 1;
  }
  return {};
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

PmiServer::PmiServer(std::shared_ptr<KeyValueStore> store, Settings settings)
    : store_(std::move(store)), settings_(std::move(settings)) {
  if (!settings_.process_mapping.empty())
    known_.emplace("PMI_process_mapping", settings_.process_mapping);
}

StatusOr<std::unique_ptr<PmiServer>> PmiServer::Start(std::shared_ptr<KeyValueStore> store,
                                                      Settings settings) {
  std::unique_ptr<PmiServer> server(new PmiServer(std::move(store), std::move(settings)));
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, server->ends_) != 0)
    return Internal("cannot make a pair of sockets: ", std::strerror(errno));
  server->thread_ = std::thread([raw = server.get()] { raw->Serve(); });
  return server;
}

PmiServer::~PmiServer() {
  if (ends_[0] >= 0) shutdown(ends_[0], SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  if (ends_[0] >= 0) close(ends_[0]);
  if (ends_[1] < 0) return;
  // MPI remembers the number, and may write to it when it is finalised: nobody else shall get it.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0 || dup3(nothing, ends_[1], O_CLOEXEC) < 0) close(ends_[1]);
  if (nothing >= 0) close(nothing);
}

void PmiServer::Serve() {
  std::string pending;
  char bytes[4096];
  while (true) {
    const ssize_t count = recv(ends_[0], bytes, sizeof(bytes), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    pending.append(bytes, static_cast<size_t>(count));
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      const std::string answer = Answer(std::string_view(pending).substr(0, end));
      if (silent_.load(std::memory_order_acquire)) return;
      if (!WriteAll(ends_[0], answer + "\n")) return;
    }
    if (pending.size() > kLongestLine) return;
  }
}

std::string PmiServer::Answer(std::string_view line) {
  const std::string_view command = Field(line, "cmd");
  if (command == "init") return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1";
  if (command == "get_maxes") {
    return StrCat("cmd=maxes rc=0 kvsname_max=", kMaxName, " keylen_max=", kMaxKey,
                  " vallen_max=", kMaxValue);
  }
  if (command == "get_appnum") return "cmd=appnum rc=0 appnum=0";
  if (command == "get_my_kvsname") return StrCat("cmd=my_kvsname rc=0 kvsname=", settings_.job);
  if (command == "get_universe_size") return StrCat("cmd=universe_size rc=0 size=", settings_.size);
  if (command == "put") {
    put_.insert_or_assign(std::string(Field(line, "key")),
                          std::string(Field(line, "value", /*to_the_end=*/true)));
    return "cmd=put_result rc=0 msg=success";
  }
  if (command == "barrier_in") {
    const Status status = Barrier();
    if (status.ok()) return "cmd=barrier_out rc=0";
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    FallSilent();
    return "";
  }
  if (command == "get") {
    const auto found = known_.find(Field(line, "key"));
    if (found == known_.end()) return "cmd=get_result rc=-1 msg=key_not_found value=unknown";
    return StrCat("cmd=get_result rc=0 msg=success value=", found->second);
  }
  if (command == "finalize") return "cmd=finalize_ack rc=0";
  return StrCat("cmd=", command, " rc=-1 msg=unknown_command");
}

Status PmiServer::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

// In short calls, each of which the client's destruction would have to wait for.
StatusOr<std::string> PmiServer::Get(const std::string& key) {
  while (true) {
    StatusOr<std::string> value = store_->Get(key, kLongestGet);
    if (value.ok() || value.status().code() != StatusCode::kDeadlineExceeded) return value;
    if (silent_.load(std::memory_order_acquire)) return Cancelled("MPI is not waited for any more");
  }
}

// Process 0 gathers what all have put, and the others get it from there in one piece: as many
// messages as there are processes. An entry is "key value\n"; neither has a line break.
Status PmiServer::Barrier() {
  const std::string prefix = StrCat("tripont/pmi/", settings_.job, "/", barriers_++, "/");
  std::string mine = "\n";  // not every store takes an empty value
  for (const auto& [key, value] : put_) mine += StrCat(key, " ", value, "\n");
  put_.clear();
  std::string all;
  if (settings_.rank == 0) {
    all = std::move(mine);
    for (int rank = 1; rank < settings_.size; ++rank) {
      TRIPONT_ASSIGN_OR_RETURN(const std::string theirs, Get(StrCat(prefix, rank)));
      all += theirs;
    }
    TRIPONT_RETURN_IF_ERROR(store_->Put(prefix + "all", all));
  } else {
    TRIPONT_RETURN_IF_ERROR(store_->Put(StrCat(prefix, settings_.rank), mine));
    TRIPONT_ASSIGN_OR_RETURN(all, Get(prefix + "all"));
  }
  std::string_view rest = all;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const size_t space = entry.find(' ');
    if (space == std::string_view::npos) continue;
    known_.insert_or_assign(std::string(entry.substr(0, space)),
                            std::string(entry.substr(space + 1)));
  }
  return OkStatus();
}

}  // namespace tripont::hosts
