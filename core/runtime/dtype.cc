#include "core/runtime/dtype.h"

namespace tripont {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t width;
};

TypeInfo Info(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
      return {"pred", 1};
    case PrimitiveType::kS2:
      return {"s2", 1};
    case PrimitiveType::kS4:
      return {"s4", 1};
    case PrimitiveType::kS8:
      return {"s8", 1};
    case PrimitiveType::kS16:
      return {"s16", 2};
    case PrimitiveType::kS32:
      return {"s32", 4};
    case PrimitiveType::kS64:
      return {"s64", 8};
    case PrimitiveType::kU2:
      return {"u2", 1};
    case PrimitiveType::kU4:
      return {"u4", 1};
    case PrimitiveType::kU8:
      return {"u8", 1};
    case PrimitiveType::kU16:
      return {"u16", 2};
    case PrimitiveType::kU32:
      return {"u32", 4};
    case PrimitiveType::kU64:
      return {"u64", 8};
    case PrimitiveType::kF16:
      return {"f16", 2};
    case PrimitiveType::kBF16:
      return {"bf16", 2};
    case PrimitiveType::kF32:
      return {"f32", 4};
    case PrimitiveType::kF64:
      return {"f64", 8};
    case PrimitiveType::kC64:
      return {"c64", 8};
    case PrimitiveType::kC128:
      return {"c128", 16};
    case PrimitiveType::kF4E2M1FN:
      return {"f4e2m1fn", 1};
    case PrimitiveType::kF6E2M3FN:
      return {"f6e2m3fn", 1};
    case PrimitiveType::kF6E3M2FN:
      return {"f6e3m2fn", 1};
    case PrimitiveType::kF8E3M4:
      return {"f8e3m4", 1};
    case PrimitiveType::kF8E4M3:
      return {"f8e4m3", 1};
    case PrimitiveType::kF8E4M3FN:
      return {"f8e4m3fn", 1};
    case PrimitiveType::kF8E4M3B11FNUZ:
      return {"f8e4m3b11fnuz", 1};
    case PrimitiveType::kF8E4M3FNUZ:
      return {"f8e4m3fnuz", 1};
    case PrimitiveType::kF8E5M2:
      return {"f8e5m2", 1};
    case PrimitiveType::kF8E5M2FNUZ:
      return {"f8e5m2fnuz", 1};
    case PrimitiveType::kF8E8M0FNU:
      return {"f8e8m0fnu", 1};
    case PrimitiveType::kToken:
      return {"token", 0};
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
