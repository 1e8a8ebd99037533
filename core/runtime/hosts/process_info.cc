#include "core/runtime/hosts/process_info.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/runtime/hosts/text.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

constexpr int kTopologyVersion = 2;

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "st_dev:st_ino" of a file; empty if there is none.
std::string Identity(const char* path) {
  struct stat info = {};
  if (stat(path, &info) != 0) return "";
  return StrCat(info.st_dev, ":", info.st_ino);
}

// Field 22 of /proc/PID/stat, which stands after the name in parentheses; 0 if there is no such
// process, or only what its parent has not collected yet.
int64_t StartTime(int64_t pid) {
  const std::string line = ReadLine(StrCat("/proc/", pid, "/stat"));
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream rest(line.substr(end + 1));
  std::string state;
  rest >> state;
  if (state == "Z" || state == "X") return 0;
  std::string field;
  for (int i = 4; i < 22; ++i) rest >> field;
  int64_t time = 0;
  rest >> time;
  return time;
}

}  // namespace

ProcessInfo ThisProcess() {
  std::array<char, 256> name{};
  (void)gethostname(name.data(), name.size() - 1);
  ProcessInfo info;
  info.name = name.data();
  info.machine = StrCat(ReadLine("/proc/sys/kernel/random/boot_id"), " ", Identity("/dev/shm"), " ",
                        Identity("/proc/self/ns/pid"));
  info.pid = getpid();
  info.start_time = StartTime(info.pid);
  return info;
}

std::string Serialize(const ProcessInfo& info) {
  return StrCat(kTopologyVersion, "\t", info.num_devices, "\t", Plain(info.device_kind), "\t",
                Plain(info.name), "\t", Plain(info.machine), "\t", info.pid, "\t", info.start_time,
                "\t", Plain(info.mpi), "\t", Plain(info.mpi_error), "\t", info.mpi_runs ? 1 : 0,
                "\t", Plain(info.network_error));
}

StatusOr<ProcessInfo> ParseProcessInfo(int process, std::string_view line) {
  const std::vector<std::string> fields = Split(line, '\t');
  const std::optional<int64_t> version = ToNumber(fields[0]);
  if (version != kTopologyVersion || fields.size() != 11) {
    return FailedPrecondition("process ", process,
                              " runs another version of tripont: all processes of a job need the "
                              "same one");
  }
  ProcessInfo info;
  const std::optional<int64_t> num_devices = ToNumber(fields[1]);
  if (!num_devices || *num_devices < 1 || *num_devices > 256)
    return Internal("process ", process, " has ", fields[1], " devices");
  info.num_devices = static_cast<int>(*num_devices);
  info.device_kind = fields[2];
  info.name = fields[3];
  info.machine = fields[4];
  info.pid = ToNumber(fields[5]).value_or(0);
  info.start_time = ToNumber(fields[6]).value_or(0);
  info.mpi = fields[7];
  info.mpi_error = fields[8];
  info.mpi_runs = fields[9] == "1";
  info.network_error = fields[10];
  return info;
}

std::string NameOf(const std::vector<ProcessInfo>& processes, int process) {
  const ProcessInfo& info = processes[static_cast<size_t>(process)];
  return StrCat("process ", process, " (", info.name, ", pid ", info.pid, ")");
}

bool OnOneMachine(const std::vector<ProcessInfo>& processes) {
  return std::all_of(processes.begin(), processes.end(), [&](const ProcessInfo& process) {
    return process.machine == processes[0].machine;
  });
}

bool IsGone(const ProcessInfo& self, const ProcessInfo& process) {
  return process.machine == self.machine && process.start_time != 0 &&
         StartTime(process.pid) != process.start_time;
}

}  // namespace tripont::hosts
