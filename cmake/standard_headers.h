// The standard headers that most of the C++ files include, precompiled for the targets of core/runtime and pjrt.
// A file still includes what it uses: `make lint` reads each one without these.
#ifndef TRIPONT_CMAKE_STANDARD_HEADERS_H_
#define TRIPONT_CMAKE_STANDARD_HEADERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#endif  // TRIPONT_CMAKE_STANDARD_HEADERS_H_
