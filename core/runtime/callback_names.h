// Names of Python functions in programs, and programs without them.
//
// A program that calls Python names each function by a text that holds for one process
// (frontends/jax/callbacks.py makes them, core/bindings/callbacks.cc looks them up). Whatever
// compiles a program sees placeholders in the names' place: the same program of two processes is
// compiled once and found in the cache by the second.
//
// Names and placeholders are texts of one length, so they are replaced in a program's bytes
// whatever its format, and in an artifact's. A text of that form which names no function of this
// process is data, say a constant of bytes, and stays as it is.
#ifndef TRIPONT_CORE_RUNTIME_CALLBACK_NAMES_H_
#define TRIPONT_CORE_RUNTIME_CALLBACK_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/export.h"

namespace tripont {

// What a name begins with; sixteen hexadecimal digits follow (lower case).
inline constexpr std::string_view kCallbackName = "tripont.callback.";
inline constexpr size_t kCallbackDigits = 16;

// The numbers that name functions of this process: core/bindings/callbacks.cc adds and removes them.
// From any thread.
TRIPONT_EXPORT void AddCallbackNumber(uint64_t number);
TRIPONT_EXPORT void RemoveCallbackNumber(uint64_t number);

class TRIPONT_EXPORT CallbackNames {
 public:
  // Finds the names in `program`, which must outlive this object if it has none.
  explicit CallbackNames(std::string_view program);

  bool empty() const { return names_.empty(); }
  // The program with the digits of the n-th name, in the order of first occurrence, set to n: or,
  // where data of the program has the form of that placeholder, to the n-th number of which there
  // is none. A name that is data in another process is data in the program's key, too.
  std::string_view program() const { return program_; }
  // Puts the names back into an artifact that the masked program was compiled to.
  void PutBack(std::string& artifact) const;

 private:
  // The digits of names and of what stands for them.
  std::vector<std::pair<std::string, std::string>> names_;
  std::string masked_;
  std::string_view program_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CALLBACK_NAMES_H_
