// Where the programs of two processes differ, told by each through the coordinator's store.
#include <chrono>
#include <string>
#include <vector>

#include "core/runtime/hosts/job.h"
#include "core/runtime/hosts/text.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// For a process that runs another program to say which: it says so as soon as it finds that out, but
// its machine may be busy.
constexpr std::chrono::seconds kDifferenceTimeout{10};

}  // namespace

std::string Job::KeyOfCollectives(int process, uint64_t identity) const {
  return StrCat("tripont/collectives/", name_, "/", process, "/", identity);
}

void Job::TellCollectives(uint64_t identity, const std::string& collectives) {
  const StatusOr<std::shared_ptr<KeyValueStore>> store = this->store();
  // An error if they are told already: another thread was here, or the program before.
  if (store.ok()) (void)(*store)->Put(KeyOfCollectives(process_, identity), collectives);
}

std::string Job::FirstDifference(const std::string& collectives, int process,
                                 uint64_t its_identity) {
  const StatusOr<std::shared_ptr<KeyValueStore>> store = this->store();
  if (!store.ok()) return "";
  const StatusOr<std::string> others =
      (*store)->Get(KeyOfCollectives(process, its_identity), kDifferenceTimeout);
  if (!others.ok()) return "";
  const std::vector<std::string> here = Split(collectives, '\n');
  const std::vector<std::string> there = Split(*others, '\n');
  size_t line = 0;
  while (line < here.size() && line < there.size() && here[line] == there[line]) ++line;
  if (line == here.size() || line == there.size()) return "";
  // The line behind the last collective is empty.
  const auto quoted = [](const std::string& text) {
    return text.empty() ? "none is left" : Shortened(text);
  };
  return StrCat("; the first collective in which their programs differ is here: ",
                quoted(here[line]), "; there: ", quoted(there[line]));
}

}  // namespace tripont::hosts
