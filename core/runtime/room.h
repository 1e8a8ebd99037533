// What the process may still take, asked before libraries take it that end the process, or stop, where there is none.
//
// An answer holds for the moment: another thread may be faster. Allocates nothing that it keeps.
#ifndef TRIPONT_CORE_RUNTIME_ROOM_H_
#define TRIPONT_CORE_RUNTIME_ROOM_H_

#include <cstddef>

namespace tripont {

// Whether that many bytes can be added to the address space and to the data (`ulimit -v`, `ulimit -d`; cgroups count only
// pages that are used).
bool HasRoom(size_t bytes) noexcept;

// How many threads with that much stack can be started beside each other, at most `most`: starts and ends them.
int StartableThreads(int most, size_t stack) noexcept;

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ROOM_H_
