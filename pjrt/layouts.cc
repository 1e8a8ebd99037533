#include "pjrt/layouts.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/runtime/strided_copy.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/executable.h"
#include "pjrt/shardings.h"
#include "pjrt/topology.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

namespace tripont::pjrt {
namespace {

PJRT_Layouts_MemoryLayout MakeLayout(std::vector<int64_t> minor_to_major) {
  std::string text = StrCat("{", StrJoin(minor_to_major, ","), "}");
  return {std::move(text), std::move(minor_to_major)};
}

using Layouts = std::array<PJRT_Layouts_MemoryLayout, kMaxRank + 1>;

// The layouts of row-major arrays, by rank.
Layouts& AllLayouts() {
  static Layouts layouts = [] {
    Layouts result;
    for (size_t rank = 0; rank <= kMaxRank; ++rank) {
      const int64_t* const order = RowMajorMinorToMajor(rank);
      result[rank] = MakeLayout({order, order + rank});
    }
    return result;
  }();
  return layouts;
}

// The order may come from a caller, who may have given a size without a list.
bool IsPermutation(std::span<const int64_t> order, size_t rank) {
  if (order.size() != rank || rank > kMaxRank) return false;
  if (order.data() == nullptr) return rank == 0;
  std::array<bool, kMaxRank> seen{};
  for (const int64_t dimension : order) {
    if (dimension < 0 || dimension >= static_cast<int64_t>(rank) || seen[dimension]) return false;
    seen[dimension] = true;
  }
  return true;
}

Status NotAPermutation(size_t rank) {
  return InvalidArgument("a layout's minor_to_major is not a permutation of the array's ", rank,
                         " dimensions");
}

StatusOr<PJRT_Layouts_MemoryLayout*> LayoutOfRank(size_t rank) {
  if (rank > kMaxRank) {
    return InvalidArgument("an array of ", rank, " dimensions: at most ", kMaxRank,
                           " are supported");
  }
  return &AllLayouts()[rank];
}

Status MemoryLayoutDestroy(PJRT_Layouts_MemoryLayout_Destroy_Args&) { return OkStatus(); }

// Callers get layouts as mutable, but have nothing to change them with.
PJRT_Layouts_MemoryLayout* ForCaller(Layout* layout) {
  return const_cast<PJRT_Layouts_MemoryLayout*>(layout);
}

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
  if (args.buffer->layout != nullptr) {
    args.layout = ForCaller(args.buffer->layout);
    return OkStatus();
  }
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
  auto stride = static_cast<uint64_t>(element_size);
  for (int64_t dimension : minor_to_major) {
    strides[dimension] = static_cast<int64_t>(stride);
    // Without a sign, since it may go past 64 bits: in an array without elements, whose strides nobody uses.
    stride *= static_cast<uint64_t>(dims[dimension]);
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

Layout* RowMajorLayout(size_t rank) { return &AllLayouts()[std::min(rank, kMaxRank)]; }

StatusOr<Layout*> LayoutOf(std::span<const int64_t> minor_to_major, size_t rank) {
  if (!IsPermutation(minor_to_major, rank)) return NotAPermutation(rank);
  if (std::is_sorted(minor_to_major.rbegin(), minor_to_major.rend()))
    return static_cast<Layout*>(nullptr);
  static std::mutex mutex;
  static auto* const layouts = new std::map<std::vector<int64_t>, PJRT_Layouts_MemoryLayout>();
  std::vector<int64_t> order(minor_to_major.begin(), minor_to_major.end());
  const std::lock_guard<std::mutex> lock(mutex);
  return &layouts->try_emplace(order, MakeLayout(order)).first->second;
}

std::vector<int64_t> InMemoryOrder(std::span<const int64_t> values, const Layout& layout) {
  std::vector<int64_t> result;
  for (size_t i = values.size(); i-- > 0;) result.push_back(values[layout.minor_to_major[i]]);
  return result;
}

std::vector<int64_t> FromMemoryOrder(std::span<const int64_t> values, const Layout& layout) {
  std::vector<int64_t> result(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    result[layout.minor_to_major[values.size() - 1 - i]] = values[i];
  return result;
}

StatusOr<Layout*> DeviceLayout(const PJRT_Buffer_MemoryLayout* layout,
                               std::span<const int64_t> dims, int64_t element_size) {
  if (layout != nullptr && NumberOf(layout->type) == PJRT_Buffer_MemoryLayout_Type_Tiled &&
      layout->tiled.num_tiles == 0) {
    return LayoutOf({layout->tiled.minor_to_major, layout->tiled.minor_to_major_size}, dims.size());
  }
  TRIPONT_RETURN_IF_ERROR(CheckDeviceLayout(layout, dims, element_size));
  return static_cast<Layout*>(nullptr);
}

PJRT_Extension_Base* LayoutsExtension() {
  static PJRT_Layouts_Extension extension = [] {
    PJRT_Layouts_Extension result{};
    result.base = {PJRT_Layouts_Extension_STRUCT_SIZE, PJRT_Extension_Type_Layouts,
                   ShardingsExtension()};
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
    if (strides.num_byte_strides != 0 && strides.byte_strides == nullptr)
      return InvalidArgument("`byte_strides` of a layout is null");
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
  const std::span<const int64_t> order(tiled.minor_to_major, tiled.minor_to_major_size);
  if (!IsPermutation(order, dims.size())) return NotAPermutation(dims.size());
  return DenseStrides(dims, order, element_size);
}

Status CheckDeviceLayout(const PJRT_Buffer_MemoryLayout* layout, std::span<const int64_t> dims,
                         int64_t element_size) {
  if (layout == nullptr) return Status();
  StatusOr<std::vector<int64_t>> strides = HostStrides(layout, dims, element_size);
  if (!strides.ok()) return strides.status();
  if (!IsDense(*strides, dims, element_size)) {
    return Unimplemented(
        "such a device buffer is row-major; another device layout was requested for an array of "
        "rank ",
        dims.size());
  }
  return OkStatus();
}

}  // namespace tripont::pjrt
