#include "pjrt/layouts.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/runtime/strided_copy.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/executable.h"
#include "pjrt/ffi.h"
#include "pjrt/topology.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

// Immortal, one for every rank: freeing a layout frees nothing.
struct PJRT_Layouts_MemoryLayout {
  std::string text;  // as xla::Layout prints it: "{2,1,0}"
};

namespace tripont::pjrt {
namespace {

using Layouts = std::array<PJRT_Layouts_MemoryLayout, kMaxRank + 1>;

Layouts& AllLayouts() {
  static Layouts layouts = [] {
    Layouts result;
    for (size_t rank = 0; rank <= kMaxRank; ++rank) {
      std::string text = "{";
      for (size_t i = rank; i-- > 0;) {
        text += std::to_string(i);
        if (i > 0) text += ',';
      }
      result[rank].text = text + "}";
    }
    return result;
  }();
  return layouts;
}

StatusOr<PJRT_Layouts_MemoryLayout*> LayoutOfRank(size_t rank) {
  if (rank > kMaxRank) {
    return InvalidArgument("an array of ", rank, " dimensions: at most ", kMaxRank,
                           " are supported");
  }
  return &AllLayouts()[rank];
}

Status MemoryLayoutDestroy(PJRT_Layouts_MemoryLayout_Destroy_Args&) { return OkStatus(); }

Status MemoryLayoutSerialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  args.serialized_bytes = args.layout->text.data();
  args.serialized_bytes_size = args.layout->text.size();
  args.serialized_layout = reinterpret_cast<PJRT_Layouts_SerializedLayout*>(args.layout);
  args.serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout*) {};
  return OkStatus();
}

Status ClientGetDefaultLayout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) {
  StatusOr<PJRT_Layouts_MemoryLayout*> layout = LayoutOfRank(args.num_dims);
  if (!layout.ok()) return layout.status();
  args.layout = *layout;
  return OkStatus();
}

Status TopologyGetDefaultLayout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& args) {
  StatusOr<PJRT_Layouts_MemoryLayout*> layout = LayoutOfRank(args.num_dims);
  if (!layout.ok()) return layout.status();
  args.layout = *layout;
  return OkStatus();
}

Status BufferMemoryLayout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  StatusOr<PJRT_Layouts_MemoryLayout*> layout = LayoutOfRank(args.buffer->dims().size());
  if (!layout.ok()) return layout.status();
  args.layout = *layout;
  return OkStatus();
}

Status ExecutableGetOutputLayouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  // The API gives the list away as mutable, but callers only read it.
  args.layouts =
      const_cast<PJRT_Layouts_MemoryLayout**>(args.executable->info->output_layouts.data());
  args.num_outputs = args.executable->info->output_layouts.size();
  return OkStatus();
}

#define TRIPONT_LAYOUTS_CONTRACT(name, field, handle) \
  TRIPONT_PJRT_CONTRACT(name, PJRT_Layouts_##name##_Args, field, handle)
TRIPONT_PJRT_CONTRACT_WITHOUT_HANDLE(MemoryLayout_Destroy, PJRT_Layouts_MemoryLayout_Destroy_Args,
                                     layout)
TRIPONT_LAYOUTS_CONTRACT(MemoryLayout_Serialize, serialized_layout_deleter, layout)
TRIPONT_LAYOUTS_CONTRACT(PJRT_Client_GetDefaultLayout, layout, client)
TRIPONT_LAYOUTS_CONTRACT(PJRT_Topology_GetDefaultLayout, layout, topology_description)
TRIPONT_LAYOUTS_CONTRACT(PJRT_Buffer_MemoryLayout, layout, buffer)
TRIPONT_LAYOUTS_CONTRACT(PJRT_Executable_GetOutputLayouts, layouts, executable)
#undef TRIPONT_LAYOUTS_CONTRACT

// The byte strides of a dense array whose dimensions, fastest first, are `minor_to_major`.
std::vector<int64_t> DenseStrides(std::span<const int64_t> dims,
                                  std::span<const int64_t> minor_to_major, int64_t element_size) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = element_size;
  for (int64_t dimension : minor_to_major) {
    strides[dimension] = stride;
    stride *= dims[dimension];
  }
  return strides;
}

constexpr std::array<int64_t, kMaxRank> kDescending = [] {
  std::array<int64_t, kMaxRank> result{};
  for (size_t i = 0; i < kMaxRank; ++i) result[i] = static_cast<int64_t>(kMaxRank - 1 - i);
  return result;
}();

}  // namespace

// The last `rank` entries of {63, ..., 1, 0} are the order for any rank.
const int64_t* RowMajorMinorToMajor(size_t rank) { return kDescending.data() + (kMaxRank - rank); }

PJRT_Layouts_MemoryLayout* RowMajorLayout(size_t rank) {
  return &AllLayouts()[std::min(rank, kMaxRank)];
}

PJRT_Extension_Base* LayoutsExtension() {
  static PJRT_Layouts_Extension extension = [] {
    PJRT_Layouts_Extension result{};
    result.base = {PJRT_Layouts_Extension_STRUCT_SIZE, PJRT_Extension_Type_Layouts, FfiExtension()};
    result.PJRT_Layouts_MemoryLayout_Destroy =
        Call<"PJRT_Layouts_MemoryLayout_Destroy", Contract_MemoryLayout_Destroy,
             MemoryLayoutDestroy>;
    result.PJRT_Layouts_MemoryLayout_Serialize =
        Call<"PJRT_Layouts_MemoryLayout_Serialize", Contract_MemoryLayout_Serialize,
             MemoryLayoutSerialize>;
    result.PJRT_Layouts_PJRT_Client_GetDefaultLayout =
        Call<"PJRT_Layouts_PJRT_Client_GetDefaultLayout", Contract_PJRT_Client_GetDefaultLayout,
             ClientGetDefaultLayout>;
    result.PJRT_Layouts_PJRT_Topology_GetDefaultLayout =
        Call<"PJRT_Layouts_PJRT_Topology_GetDefaultLayout", Contract_PJRT_Topology_GetDefaultLayout,
             TopologyGetDefaultLayout>;
    result.PJRT_Layouts_PJRT_Buffer_MemoryLayout =
        Call<"PJRT_Layouts_PJRT_Buffer_MemoryLayout", Contract_PJRT_Buffer_MemoryLayout,
             BufferMemoryLayout>;
    result.PJRT_Layouts_PJRT_Executable_GetOutputLayouts =
        Call<"PJRT_Layouts_PJRT_Executable_GetOutputLayouts",
             Contract_PJRT_Executable_GetOutputLayouts, ExecutableGetOutputLayouts>;
    return result;
  }();
  return &extension.base;
}

StatusOr<std::vector<int64_t>> HostStrides(const PJRT_Buffer_MemoryLayout* layout,
                                           std::span<const int64_t> dims, int64_t element_size) {
  if (layout == nullptr)
    return DenseStrides(dims, {RowMajorMinorToMajor(dims.size()), dims.size()}, element_size);
  if (NumberOf(layout->type) == PJRT_Buffer_MemoryLayout_Type_Strides) {
    const PJRT_Buffer_MemoryLayout_Strides& strides = layout->strides;
    if (strides.num_byte_strides != dims.size()) {
      return InvalidArgument("a layout of ", strides.num_byte_strides,
                             " byte strides for an array of ", dims.size(), " dimensions");
    }
    return std::vector<int64_t>(strides.byte_strides,
                                strides.byte_strides + strides.num_byte_strides);
  }
  if (NumberOf(layout->type) != PJRT_Buffer_MemoryLayout_Type_Tiled) {
    return InvalidArgument("unknown memory layout type ", NumberOf(layout->type));
  }
  const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout->tiled;
  if (tiled.num_tiles != 0) {
    return Unimplemented("tiled memory layouts are not supported; arrays are dense");
  }
  std::array<bool, kMaxRank> seen{};
  bool is_permutation = tiled.minor_to_major_size == dims.size() && dims.size() <= kMaxRank;
  for (size_t i = 0; is_permutation && i < dims.size(); ++i) {
    const int64_t dimension = tiled.minor_to_major[i];
    is_permutation =
        dimension >= 0 && dimension < static_cast<int64_t>(dims.size()) && !seen[dimension];
    if (is_permutation) seen[dimension] = true;
  }
  if (!is_permutation) {
    return InvalidArgument("a layout's minor_to_major is not a permutation of the array's ",
                           dims.size(), " dimensions");
  }
  return DenseStrides(dims, {tiled.minor_to_major, tiled.minor_to_major_size}, element_size);
}

Status CheckDeviceLayout(const PJRT_Buffer_MemoryLayout* layout, std::span<const int64_t> dims,
                         int64_t element_size) {
  if (layout == nullptr) return Status();
  StatusOr<std::vector<int64_t>> strides = HostStrides(layout, dims, element_size);
  if (!strides.ok()) return strides.status();
  if (!IsDense(*strides, dims, element_size)) {
    return Unimplemented(
        "device buffers are row-major; another device layout was requested for an array of rank ",
        dims.size());
  }
  return OkStatus();
}

}  // namespace tripont::pjrt
