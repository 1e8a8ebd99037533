#include "core/runtime/hosts/pmi_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "core/runtime/checksum.h"
#include "core/runtime/hosts/text.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// The protocol's own limits, as hydra answers them.
constexpr int kMaxName = 256;
constexpr int kMaxKey = 64;
constexpr int kMaxValue = 4096;
constexpr std::string_view kRecord = "of";  // short: everybody gets one of each process
// What process 0 puts instead of all records: the reason follows.
constexpr std::string_view kFailed = "failed ";
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

// What one process has put, for the store: a line with its rank, the size of its entries and their
// checksum, and the entries, "key value\n" each. Neither has a line break.
std::string Record(int rank, const std::map<std::string, std::string, std::less<>>& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += StrCat(key, " ", value, "\n");
  return StrCat(kRecord, " ", rank, " ", text.size(), " ", Crc32(text), "\n", text);
}

// Takes the entries of `rank` from the front of `text`. MPICH ends the process when it is given an
// address that is not one, so what a store has changed must not come through.
StatusOr<std::string_view> TakeRecord(std::string_view& text, int rank) {
  const auto rubbish = [&] {
    return DataLoss("its answer is not what process ", rank, " has put");
  };
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return rubbish();
  const std::vector<std::string> fields = Split(text.substr(0, end), ' ');
  if (fields.size() != 4 || fields[0] != kRecord || ToNumber(fields[1]) != rank) return rubbish();
  text.remove_prefix(end + 1);
  const std::optional<int64_t> size = ToNumber(fields[2]);
  if (!size || *size < 0 || static_cast<size_t>(*size) > text.size()) return rubbish();
  const std::string_view entries = text.substr(0, static_cast<size_t>(*size));
  if (ToNumber(fields[3]) != static_cast<int64_t>(Crc32(entries))) return rubbish();
  text.remove_prefix(entries.size());
  return entries;
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
  try {
    server->thread_ = std::thread([raw = server.get()] { raw->Serve(); });
  } catch (const std::exception& error) {
    return ResourceExhausted("there is no thread that could answer MPI: ", error.what());
  }
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
    Fail(status);
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

std::string PmiServer::Prefix() const {
  return StrCat("tripont/pmi/", settings_.job, "/", barriers_, "/");
}

void PmiServer::Fail(const Status& status) {
  const bool was_silent = silent_.load(std::memory_order_acquire);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
  }
  FallSilent();
  // So that the others do not wait for their time limit, if they can be told.
  if (settings_.rank == 0 && !was_silent)
    (void)store_->Put(Prefix() + "all", StrCat(kFailed, status.message()));
}

std::string PmiServer::request() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return request_;
}

void PmiServer::SetRequest(std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  request_ = std::move(what);
}

// In short calls, each of which the client's destruction would have to wait for.
StatusOr<std::string> PmiServer::Get(const std::string& key, std::string what) {
  SetRequest(std::move(what));
  while (true) {
    StatusOr<std::string> value = store_->Get(key, kLongestGet);
    if (value.ok() || value.status().code() != StatusCode::kDeadlineExceeded) return value;
    if (silent_.load(std::memory_order_acquire)) return Cancelled("MPI is not waited for any more");
  }
}

Status PmiServer::Put(const std::string& key, std::string_view value, std::string what) {
  SetRequest(std::move(what));
  return store_->Put(key, value);
}

// Process 0 gathers what all have put, and the others get it from there in one piece: as many
// messages as there are processes.
StatusOr<std::string> PmiServer::Exchange(const std::string& prefix, std::string mine) {
  if (settings_.rank != 0) {
    TRIPONT_RETURN_IF_ERROR(
        Put(StrCat(prefix, settings_.rank), mine, "asks it to take its addresses"));
    return Get(prefix + "all", "asks it for the addresses of all processes");
  }
  for (int rank = 1; rank < settings_.size; ++rank) {
    TRIPONT_ASSIGN_OR_RETURN(
        const std::string theirs,
        Get(StrCat(prefix, rank), StrCat("asks it for the addresses of process ", rank)));
    std::string_view rest = theirs;
    TRIPONT_RETURN_IF_ERROR(TakeRecord(rest, rank).status());
    mine += theirs;
  }
  TRIPONT_RETURN_IF_ERROR(
      Put(prefix + "all", mine, "asks it to take the addresses of all processes"));
  return mine;
}

Status PmiServer::Barrier() {
  const StatusOr<std::string> all = Exchange(Prefix(), Record(settings_.rank, put_));
  if (!all.ok()) return all.status();
  if (all->starts_with(kFailed)) {
    return Unavailable("process 0 could not gather them: ",
                       std::string_view(*all).substr(kFailed.size()));
  }
  ++barriers_;
  put_.clear();
  std::string_view rest = *all;
  for (int rank = 0; rank < settings_.size; ++rank) {
    TRIPONT_ASSIGN_OR_RETURN(std::string_view entries, TakeRecord(rest, rank));
    while (!entries.empty()) {
      const std::string_view entry = entries.substr(0, entries.find('\n'));
      entries.remove_prefix(std::min(entries.size(), entry.size() + 1));
      const size_t space = entry.find(' ');
      if (space == std::string_view::npos) continue;
      known_.insert_or_assign(std::string(entry.substr(0, space)),
                              std::string(entry.substr(space + 1)));
    }
  }
  SetRequest("");
  return OkStatus();
}

}  // namespace tripont::hosts
