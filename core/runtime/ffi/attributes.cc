#include "core/runtime/ffi/attributes.h"

#include <cstring>

#include "core/runtime/dtype.h"

namespace tripont::ffi {

class AttributeDictionary::Decoder {
 public:
  Decoder(std::string_view bytes, AttributeDictionary& out) : bytes_(bytes), out_(out) {}

  Status Dictionary(Attributes& result, int depth) {
    if (depth > kMaxDepth) return InvalidArgument("attributes nest too deeply");
    uint32_t count = 0;
    TRIPONT_RETURN_IF_ERROR(Number(count));
    auto& types = out_.types_.emplace_back();
    auto& names = out_.names_.emplace_back();
    auto& pointers = out_.pointers_.emplace_back();
    for (uint32_t i = 0; i < count; ++i) {
      ByteSpan* name = nullptr;
      TRIPONT_RETURN_IF_ERROR(Text(name));
      names.push_back(name);
      AttributeType type = AttributeType::kString;
      TRIPONT_RETURN_IF_ERROR(Type(type));
      types.push_back(type);
      void* value = nullptr;
      TRIPONT_RETURN_IF_ERROR(Value(type, value, depth));
      pointers.push_back(value);
    }
    result.struct_size = sizeof(Attributes);
    result.extension_start = nullptr;
    result.size = count;
    result.types = types.data();
    result.names = names.data();
    result.values = pointers.data();
    return OkStatus();
  }

  Status CheckEnd() const {
    return bytes_.empty() ? OkStatus() : InvalidArgument("bytes after the attributes");
  }

 private:
  static constexpr int kMaxDepth = 32;

  Status Type(AttributeType& type) {
    uint8_t kind = 0;
    TRIPONT_RETURN_IF_ERROR(Number(kind));
    for (const AttributeType known : {AttributeType::kArray, AttributeType::kDictionary,
                                      AttributeType::kScalar, AttributeType::kString}) {
      if (kind != static_cast<int32_t>(known)) continue;
      type = known;
      return OkStatus();
    }
    return InvalidArgument("an attribute of the unknown kind ", int{kind});
  }

  Status Value(AttributeType type, void*& value, int depth) {
    switch (type) {
      case AttributeType::kString:
        break;
      case AttributeType::kDictionary: {
        Attributes& inner = out_.dictionaries_.emplace_back();
        value = &inner;
        return Dictionary(inner, depth + 1);
      }
      case AttributeType::kScalar: {
        Scalar& scalar = out_.scalars_.emplace_back();
        value = &scalar;
        TRIPONT_RETURN_IF_ERROR(ElementType(scalar.dtype));
        return Content(1, scalar.dtype, scalar.value);
      }
      case AttributeType::kArray: {
        Array& array = out_.arrays_.emplace_back();
        value = &array;
        uint64_t size = 0;
        TRIPONT_RETURN_IF_ERROR(ElementType(array.dtype));
        TRIPONT_RETURN_IF_ERROR(Number(size));
        array.size = size;
        return Content(size, array.dtype, array.data);
      }
    }
    ByteSpan* text = nullptr;
    TRIPONT_RETURN_IF_ERROR(Text(text));
    value = text;
    return OkStatus();
  }

  Status ElementType(int32_t& dtype) {
    uint8_t code = 0;
    TRIPONT_RETURN_IF_ERROR(Number(code));
    if (!IsArrayType(code)) return InvalidArgument("an attribute of element type ", int{code});
    dtype = code;
    return OkStatus();
  }

  Status Content(uint64_t count, int32_t dtype, void*& data) {
    const size_t width = ByteWidth(static_cast<PrimitiveType>(dtype));
    if (count > bytes_.size() / width) return InvalidArgument("the attributes end early");
    const size_t size = count * width;
    auto& words = out_.values_.emplace_back((size + 7) / 8 + 1);
    std::memcpy(words.data(), bytes_.data(), size);
    data = words.data();
    bytes_.remove_prefix(size);
    return OkStatus();
  }

  Status Text(ByteSpan*& span) {
    uint32_t size = 0;
    TRIPONT_RETURN_IF_ERROR(Number(size));
    if (size > bytes_.size()) return InvalidArgument("the attributes end early");
    const std::string& text = out_.texts_.emplace_back(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    span = &out_.spans_.emplace_back(ByteSpan{text.data(), text.size()});
    return OkStatus();
  }

  template <typename T>
  Status Number(T& number) {
    if (bytes_.size() < sizeof(T)) return InvalidArgument("the attributes end early");
    std::memcpy(&number, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return OkStatus();
  }

  std::string_view bytes_;
  AttributeDictionary& out_;
};

StatusOr<std::unique_ptr<AttributeDictionary>> AttributeDictionary::Decode(std::string_view bytes) {
  std::unique_ptr<AttributeDictionary> dictionary(new AttributeDictionary);
  Decoder decoder(bytes, *dictionary);
  TRIPONT_RETURN_IF_ERROR(decoder.Dictionary(dictionary->attributes_, 0));
  TRIPONT_RETURN_IF_ERROR(decoder.CheckEnd());
  return dictionary;
}

int64_t AttributeDictionary::Find(std::string_view name) const {
  for (int64_t i = 0; i < attributes_.size; ++i) {
    if (std::string_view(attributes_.names[i]->ptr, attributes_.names[i]->len) == name) return i;
  }
  return -1;
}

}  // namespace tripont::ffi
