// The texts that the processes of a job send one another: fields, lines and reasons.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_TEXT_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace tripont::hosts {

// Without what would end a field ('\t') or a line.
std::string Plain(std::string text);

// The parts between the separators: one more than there are of them.
std::vector<std::string> Split(std::string_view text, char separator);

// Without the middle of what is longer than 1,000 bytes: a reason begins with where it happened,
// and ends with what happened (a Python traceback), perhaps in words that quote those of other
// processes.
std::string Shortened(const std::string& reason);

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_TEXT_H_
