#include "core/runtime/dtype.h"

namespace tripont {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t width;
};

TypeInfo Info(PrimitiveType type) {
  switch (type) {
#define TRIPONT_TYPE_INFO(enumerator, name, width) \
  case PrimitiveType::enumerator:                  \
    return {name, width};
    TRIPONT_FOR_EACH_ELEMENT_TYPE(TRIPONT_TYPE_INFO)
#undef TRIPONT_TYPE_INFO
    case PrimitiveType::kInvalid:
      break;
  }
  return {"invalid", 0};
}

}  // namespace

bool IsArrayType(uint32_t code) {
  return code < 256 && Info(static_cast<PrimitiveType>(code)).width != 0;
}
size_t ByteWidth(PrimitiveType type) { return Info(type).width; }
std::string_view TypeName(PrimitiveType type) { return Info(type).name; }

}  // namespace tripont
