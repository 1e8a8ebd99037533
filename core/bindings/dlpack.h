// The DLPack ABI: how arrays are described to other libraries, versions 0.8 and 1.
//
// Source: https://dmlc.github.io/dlpack/latest/c_api.html. A capsule named "dltensor" holds a
// ManagedTensor, one named "dltensor_versioned" a VersionedManagedTensor; who takes the content
// renames it to "used_..." and calls the deleter when done.
#ifndef TRIPONT_CORE_BINDINGS_DLPACK_H_
#define TRIPONT_CORE_BINDINGS_DLPACK_H_

#include <cstdint>
#include <optional>

#include "core/runtime/dtype.h"

namespace tripont::python::dlpack {

enum DeviceType : int32_t { kCpu = 1 };

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  friend bool operator==(const DataType&, const DataType&) = default;
};

struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: dense, row-major (before version 1.2)
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};

inline constexpr uint64_t kReadOnly = 1;
inline constexpr uint64_t kIsCopied = 2;

struct VersionedManagedTensor {
  Version version;
  void* context;
  void (*deleter)(VersionedManagedTensor*);
  uint64_t flags;
  Tensor tensor;
};

inline constexpr char kName[] = "dltensor";
inline constexpr char kUsedName[] = "used_dltensor";
inline constexpr char kVersionedName[] = "dltensor_versioned";
inline constexpr char kUsedVersionedName[] = "used_dltensor_versioned";

// Nothing for an element type that DLPack does not have, or packs tighter than we do.
std::optional<DataType> FromPrimitive(PrimitiveType type);
std::optional<PrimitiveType> ToPrimitive(const DataType& type);

}  // namespace tripont::python::dlpack

#endif  // TRIPONT_CORE_BINDINGS_DLPACK_H_
