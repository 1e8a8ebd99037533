// Reads the records of core/schema (records.py says how they are written): one template for all of
// them, which goes through the tables of fields that are generated with the structs.
#ifndef TRIPONT_CORE_RUNTIME_RECORD_READER_H_
#define TRIPONT_CORE_RUNTIME_RECORD_READER_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/runtime/dtype.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"
#include "core/runtime/thread.h"
#include "core/schema/artifact.h"

namespace tripont {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read as they lie");

namespace record_internal {

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsPair = false;
template <typename A, typename B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;
template <typename T>
concept Union = requires { typename T::Union; };

// The fewest bytes that a value takes.
template <typename T>
constexpr size_t LeastSize();

template <typename... Ts>
constexpr size_t LeastOf(const std::variant<Ts...>*) {
  return 1 + std::min({LeastSize<Ts>()...});
}
template <typename... Fields>
constexpr size_t SumOf(const std::tuple<Fields...>&) {
  const auto of_field = []<typename C, typename M>(const std::pair<const char*, M C::*>*) {
    return LeastSize<M>();
  };
  return (of_field(static_cast<const Fields*>(nullptr)) + ... + 0);
}

template <typename T>
constexpr size_t LeastSize() {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return sizeof(T);
  } else if constexpr (std::is_base_of_v<std::string, T> || kIsVector<T>) {
    return 4;
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return 8;
  } else if constexpr (std::is_same_v<T, Shape>) {
    return 5;
  } else if constexpr (kIsPair<T>) {
    return LeastSize<typename T::first_type>() + LeastSize<typename T::second_type>();
  } else if constexpr (Union<T>) {
    return LeastOf(static_cast<const typename T::Union*>(nullptr));
  } else {
    return SumOf(T::Fields());
  }
}

}  // namespace record_internal

// Reads values one after the other and never outside of the bytes. After an error everything reads
// as 0 and the first message stays; it names the field.
class RecordReader {
 public:
  // `name`: of what the bytes are, for messages.
  RecordReader(std::string_view data, std::string_view name) : data_(data), name_(name) {}

  // The fields of a table of generated fields.
  template <typename Record, typename Table>
  void ReadFields(Record& record, const Table& table) {
    std::apply([&](const auto&... fields) { (ReadField(record, fields), ...); }, table);
  }

  bool failed() const { return !status_.ok(); }
  // Also an error if something is left over.
  Status Finish() {
    if (!failed() && position_ != data_.size()) Fail("there are bytes after its end");
    return status_;
  }

 private:
  // Thunks in thunks: so many fit the stacks of 2 MB that threads have where a process's stack is not
  // limited (kStackOfLevel). A thread with less is told so.
  static constexpr size_t kMaxNesting = 2000;
  static constexpr size_t kUncounted = 64;  // levels for which the stack is not looked at
  static constexpr uint32_t kMaxRank = 1024;

  struct Step {
    const char* field;  // null: an element
    uint32_t index;
  };

  template <typename Record, typename Member>
  void ReadField(Record& record, const std::pair<const char*, Member>& field) {
    if (failed()) return;
    path_.push_back({field.first, 0});
    Read(record.*field.second);
    path_.pop_back();
  }

  template <typename T>
  void Read(T& value) {
    using record_internal::kIsPair;
    using record_internal::kIsVector;
    if constexpr (std::is_same_v<T, bool>) {
      value = Number<uint8_t>() != 0;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = Number<T>();
    } else if constexpr (std::is_enum_v<T>) {
      const auto number = Number<uint8_t>();
      if (number >= NumberOf(T{})) return Fail(StrCat("unknown kind ", int{number}));
      value = static_cast<T>(number);
    } else if constexpr (std::is_base_of_v<std::string, T>) {
      ReadBytes(value);
      if (std::is_same_v<T, std::string> && !IsUtf8(value)) Fail("a string is not UTF-8");
    } else if constexpr (std::is_same_v<T, std::string_view>) {  // valid as long as the bytes
      const auto size = Number<uint64_t>();
      if (!Need(size)) return;
      value = data_.substr(position_, size);
      position_ += size;
    } else if constexpr (std::is_same_v<T, Shape>) {
      ReadShape(value);
    } else if constexpr (kIsVector<T>) {
      ReadList(value);
    } else if constexpr (kIsPair<T>) {
      Read(value.first);
      Read(value.second);
    } else if constexpr (record_internal::Union<T>) {
      ReadUnion(value, static_cast<const typename T::Union*>(nullptr));
    } else {
      ReadFields(value, T::Fields());
    }
  }

  template <typename T>
  T Number() {
    T value{};
    if (!Need(sizeof(T))) return value;
    std::memcpy(&value, data_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  void ReadBytes(std::string& bytes) {
    const auto size = Number<uint32_t>();
    if (!Need(size)) return;
    bytes.assign(data_.substr(position_, size));
    position_ += size;
  }

  template <typename T>
  void ReadList(std::vector<T>& values) {
    static_assert(record_internal::LeastSize<T>() > 0);
    const auto count = Number<uint32_t>();
    if (failed()) return;
    if (count > (data_.size() - position_) / record_internal::LeastSize<T>())
      return Fail("a list is longer than its section");
    // One after the other, not all at once: each level of lists in lists could claim as many as the
    // bytes have room for.
    for (uint32_t i = 0; i < count && !failed(); ++i) {
      path_.push_back({nullptr, i});
      Read(values.emplace_back());
      path_.pop_back();
    }
  }

  template <typename T, typename... Ts>
  void ReadUnion(T& value, const std::variant<Ts...>*) {
    static constexpr std::array<void (RecordReader::*)(T&), sizeof...(Ts)> kReaders = {
        &RecordReader::ReadAlternative<T, Ts>...};
    const auto number = Number<uint8_t>();
    if (failed()) return;
    if (number >= sizeof...(Ts)) return Fail(StrCat("unknown kind ", int{number}));
    if constexpr (std::is_same_v<T, schema::Thunk>) {
      if (depth_ > kMaxNesting)
        return Fail(StrCat("loops and branches are nested more than ", kMaxNesting, " deep"));
      if (depth_ > kUncounted && stack_ < depth_ * kStackOfLevel + kStackOfCalls)
        return Fail(StrCat("loops and branches are nested more than ", depth_,
                           " deep, which is too much for the ", stack_ / 1024,
                           " KB that the thread has left of its stack"));
    }
    ++depth_;
    (this->*kReaders[number])(value);
    --depth_;
  }
  template <typename T, typename Alternative>
  void ReadAlternative(T& value) {
    Read(value.template emplace<Alternative>());
  }

  void ReadShape(Shape& shape) {
    const auto code = Number<uint8_t>();
    const auto rank = Number<uint32_t>();
    if (failed()) return;
    if (!IsArrayType(code)) return Fail(StrCat("unknown element type ", int{code}));
    if (rank > kMaxRank) return Fail(StrCat("a shape of rank ", rank));
    if (!Need(size_t{8} * rank)) return;
    std::vector<int64_t> dimensions(rank);
    for (int64_t& dimension : dimensions) dimension = Number<int64_t>();
    shape = Shape{static_cast<PrimitiveType>(code), Dimensions(dimensions)};
    if (const StatusOr<size_t> size = shape.ByteSize(); !size.ok()) Fail(size.status().message());
  }

  // RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
  static bool IsUtf8(std::string_view text);

  bool Need(size_t size) {
    if (!failed() && size > data_.size() - position_) Fail("it ends early");
    return !failed();
  }
  void Fail(std::string_view message);

  std::string_view data_;
  std::string_view name_;
  size_t position_ = 0;
  size_t depth_ = 0;  // of unions in each other
  const size_t stack_ = StackLeft();
  std::vector<Step> path_;  // to the field that is read
  Status status_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_RECORD_READER_H_
