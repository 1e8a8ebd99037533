// Writes the records of core/schema (records.py says how they are written): one template for all of
// them, which goes through the tables of fields that are generated with the structs. Compile
// workers' messages are what this library writes; record_reader.h reads them and artifacts.
#ifndef TRIPONT_CORE_RUNTIME_RECORD_WRITER_H_
#define TRIPONT_CORE_RUNTIME_RECORD_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tripont {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie");

// Appends to a string that the caller owns.
class RecordWriter {
 public:
  explicit RecordWriter(std::string& out) : out_(out) {}

  void Write(std::string_view large) {
    Write(uint64_t{large.size()});
    out_.append(large);
  }
  void Write(const std::string& bytes) {  // schema::Bytes too
    Write(static_cast<uint32_t>(bytes.size()));
    out_.append(bytes);
  }
  template <typename T>
    requires std::is_arithmetic_v<T>
  void Write(T number) {
    out_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <typename T>
    requires std::is_enum_v<T>
  void Write(T value) {
    Write(static_cast<uint8_t>(value));
  }
  template <typename A, typename B>
  void Write(const std::pair<A, B>& entry) {
    Write(entry.first);
    Write(entry.second);
  }
  template <typename T>
  void Write(const std::vector<T>& values) {
    Write(static_cast<uint32_t>(values.size()));
    for (const T& value : values) Write(value);
  }
  template <typename Record>
    requires requires { Record::Fields(); }
  void Write(const Record& record) {
    std::apply([&](const auto&... fields) { (Write(record.*fields.second), ...); },
               Record::Fields());
  }

 private:
  std::string& out_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_RECORD_WRITER_H_
