// The part of oneDNN's C API (version 3) that the runtime uses, declared by its documentation, and
// the loader of the library.
//
// There are several builds of it: that for oneTBB threads runs on the host, others work in the
// queues of devices. A process has devices of one kind, so it opens one of them; a Port is how.
//
// libtripont.so does not link oneDNN: the library (65 MB) is opened at the first use, by full path
// and with local symbols, so that a program without contractions never pays for it and another copy
// in the process (a framework's own) is never mixed up with ours. A missing or unfit library is a
// Status, not an abort.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_ONEDNN_API_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_ONEDNN_API_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/runtime/dtype.h"
#include "core/runtime/status.h"

namespace tripont {
class Backend;
class DeviceQueue;
class MemorySource;
}  // namespace tripont

namespace tripont::onednn {

// Names and numbers are oneDNN's (dnnl_types.h); only those in use are listed.
enum class StatusCode : int {
  kSuccess = 0,
  kOutOfMemory = 1,
  kInvalidArguments = 2,
  kUnimplemented = 3
};
enum class DataType : int {
  kUndefined = 0,
  kF16 = 1,
  kBF16 = 2,
  kF32 = 3,
  kS32 = 4,
  kS8 = 5,
  kU8 = 6,
  kF64 = 7
};
// Sets of instructions: bits of dnnl_cpu_isa_t, of which each set includes the smaller ones.
enum CpuIsa : int {
  kSse41 = 0x1,
  kAvx = 0x3,
  kAvx2 = 0x7,
  kAvx2Vnni = 0xf,
  kAvx512Core = 0x27,
  kAvx512CoreVnni = 0x67,
  kAvx512CoreBf16 = 0xe7,
  kAvx512CoreFp16 = 0x1ef,
  kAvx512CoreAmx = 0xfef,
};
constexpr int kVnniBits = (kAvx2Vnni & ~kAvx2) | (kAvx512CoreVnni & ~kAvx512Core);
enum class EngineKind : int { kCpu = 1 };
enum class PropagationKind : int { kForwardTraining = 64, kForwardInference = 96 };
enum class Algorithm : int {
  kConvolutionDirect = 0x1,
  kRelu = 0x20,
  kTanh = 0x21,
  kLinear = 0x26,
  kLogistic = 0x29,
  kGeluTanh = 0x2b,
  kGeluErf = 0x31,
  kBinaryAdd = 0x1fff0,
  kBinaryMultiply = 0x1fff1,
};
enum class Query : int {
  kImplementationName = 8,
  kSource = 129,
  kDiffSource = 130,
  kWeights = 131,
  kDiffWeights = 132,
  kDestination = 133,
  kDiffDestination = 134,
  kScratchpad = 136,
  kArgument = 255,  // index: the argument
};
enum class FormatTag : int { kAny = 1 };
enum class ScratchpadMode : int { kLibrary = 0, kUser = 1 };

constexpr int kMaxDimensions = 12;
constexpr unsigned kRuntimeTbb = 4;
constexpr unsigned kStreamInOrder = 1;

// Indices of arguments of an execution.
constexpr int kArgSource = 1;
constexpr int kArgDestination = 17;
constexpr int kArgWeights = 33;
constexpr int kArgBias = 41;
constexpr int kArgScratchpad = 80;
constexpr int kArgDiffSource = 129;
constexpr int kArgDiffDestination = 145;
constexpr int kArgDiffWeights = 161;
// The second operand of binary post-op number `index` (DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) |
// DNNL_ARG_SRC_1).
constexpr int ArgPostOp(int index) { return (32768 * (index + 1)) | 2; }

// Opaque objects.
using Engine = struct dnnl_engine*;
using Stream = struct dnnl_stream*;
using MemoryDesc = struct dnnl_memory_desc*;
using ConstMemoryDesc = const struct dnnl_memory_desc*;
using Memory = struct dnnl_memory*;
using PrimitiveDesc = struct dnnl_primitive_desc*;
using ConstPrimitiveDesc = const struct dnnl_primitive_desc*;
using Primitive = struct dnnl_primitive*;
using PrimitiveAttributes = struct dnnl_primitive_attr*;
using ConstPrimitiveAttributes = const struct dnnl_primitive_attr*;
using PostOps = struct dnnl_post_ops*;

struct Version {
  int major;
  int minor;
  int patch;
  const char* hash;
  unsigned cpu_runtime;
  unsigned gpu_runtime;
};

struct ExecutionArgument {
  int arg;
  Memory memory;
};

// X(member, symbol, return type, parameters)
#define TRIPONT_ONEDNN_FUNCTIONS(X)                                                               \
  X(set_max_cpu_isa, "dnnl_set_max_cpu_isa", StatusCode, (int))                                   \
  X(get_effective_cpu_isa, "dnnl_get_effective_cpu_isa", int, ())                                 \
  X(version, "dnnl_version", const Version*, ())                                                  \
  X(engine_create, "dnnl_engine_create", StatusCode, (Engine*, EngineKind, size_t))               \
  X(stream_create, "dnnl_stream_create", StatusCode, (Stream*, Engine, unsigned))                 \
  X(memory_desc_create_with_strides, "dnnl_memory_desc_create_with_strides", StatusCode,          \
    (MemoryDesc*, int, const int64_t*, DataType, const int64_t*))                                 \
  X(memory_desc_create_with_tag, "dnnl_memory_desc_create_with_tag", StatusCode,                  \
    (MemoryDesc*, int, const int64_t*, DataType, FormatTag))                                      \
  X(memory_desc_clone, "dnnl_memory_desc_clone", StatusCode, (MemoryDesc*, ConstMemoryDesc))      \
  X(memory_desc_destroy, "dnnl_memory_desc_destroy", StatusCode, (MemoryDesc))                    \
  X(memory_desc_equal, "dnnl_memory_desc_equal", int, (ConstMemoryDesc, ConstMemoryDesc))         \
  X(memory_desc_get_size, "dnnl_memory_desc_get_size", size_t, (ConstMemoryDesc))                 \
  X(memory_create, "dnnl_memory_create", StatusCode, (Memory*, ConstMemoryDesc, Engine, void*))   \
  X(memory_set_data_handle, "dnnl_memory_set_data_handle", StatusCode, (Memory, void*))           \
  X(memory_destroy, "dnnl_memory_destroy", StatusCode, (Memory))                                  \
  X(primitive_desc_query, "dnnl_primitive_desc_query", StatusCode,                                \
    (ConstPrimitiveDesc, Query, int, void*))                                                      \
  X(primitive_desc_query_md, "dnnl_primitive_desc_query_md", ConstMemoryDesc,                     \
    (ConstPrimitiveDesc, Query, int))                                                             \
  X(primitive_desc_destroy, "dnnl_primitive_desc_destroy", StatusCode, (PrimitiveDesc))           \
  X(primitive_create, "dnnl_primitive_create", StatusCode, (Primitive*, ConstPrimitiveDesc))      \
  X(primitive_execute, "dnnl_primitive_execute", StatusCode,                                      \
    (Primitive, Stream, int, const ExecutionArgument*))                                           \
  X(primitive_destroy, "dnnl_primitive_destroy", StatusCode, (Primitive))                         \
  X(primitive_attr_create, "dnnl_primitive_attr_create", StatusCode, (PrimitiveAttributes*))      \
  X(primitive_attr_destroy, "dnnl_primitive_attr_destroy", StatusCode, (PrimitiveAttributes))     \
  X(primitive_attr_set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode", StatusCode,    \
    (PrimitiveAttributes, ScratchpadMode))                                                        \
  X(primitive_attr_set_post_ops, "dnnl_primitive_attr_set_post_ops", StatusCode,                  \
    (PrimitiveAttributes, PostOps))                                                               \
  X(post_ops_create, "dnnl_post_ops_create", StatusCode, (PostOps*))                              \
  X(post_ops_destroy, "dnnl_post_ops_destroy", StatusCode, (PostOps))                             \
  X(post_ops_append_eltwise, "dnnl_post_ops_append_eltwise", StatusCode,                          \
    (PostOps, Algorithm, float, float))                                                           \
  X(post_ops_append_sum, "dnnl_post_ops_append_sum", StatusCode,                                  \
    (PostOps, float, int32_t, DataType))                                                          \
  X(post_ops_append_binary, "dnnl_post_ops_append_binary", StatusCode,                            \
    (PostOps, Algorithm, ConstMemoryDesc))                                                        \
  X(reorder_primitive_desc_create, "dnnl_reorder_primitive_desc_create", StatusCode,              \
    (PrimitiveDesc*, ConstMemoryDesc, Engine, ConstMemoryDesc, Engine, ConstPrimitiveAttributes)) \
  X(matmul_primitive_desc_create, "dnnl_matmul_primitive_desc_create", StatusCode,                \
    (PrimitiveDesc*, Engine, ConstMemoryDesc, ConstMemoryDesc, ConstMemoryDesc, ConstMemoryDesc,  \
     ConstPrimitiveAttributes))                                                                   \
  X(convolution_forward_primitive_desc_create, "dnnl_convolution_forward_primitive_desc_create",  \
    StatusCode,                                                                                   \
    (PrimitiveDesc*, Engine, PropagationKind, Algorithm, ConstMemoryDesc, ConstMemoryDesc,        \
     ConstMemoryDesc, ConstMemoryDesc, const int64_t*, const int64_t*, const int64_t*,            \
     const int64_t*, ConstPrimitiveAttributes))                                                   \
  X(convolution_backward_data_primitive_desc_create,                                              \
    "dnnl_convolution_backward_data_primitive_desc_create", StatusCode,                           \
    (PrimitiveDesc*, Engine, Algorithm, ConstMemoryDesc, ConstMemoryDesc, ConstMemoryDesc,        \
     const int64_t*, const int64_t*, const int64_t*, const int64_t*, ConstPrimitiveDesc,          \
     ConstPrimitiveAttributes))                                                                   \
  X(convolution_backward_weights_primitive_desc_create,                                           \
    "dnnl_convolution_backward_weights_primitive_desc_create", StatusCode,                        \
    (PrimitiveDesc*, Engine, Algorithm, ConstMemoryDesc, ConstMemoryDesc, ConstMemoryDesc,        \
     ConstMemoryDesc, const int64_t*, const int64_t*, const int64_t*, const int64_t*,             \
     ConstPrimitiveDesc, ConstPrimitiveAttributes))

class Port;

struct Api {
#define TRIPONT_ONEDNN_MEMBER(member, symbol, result, parameters) \
  result(*member) parameters = nullptr;
  TRIPONT_ONEDNN_FUNCTIONS(TRIPONT_ONEDNN_MEMBER)
#undef TRIPONT_ONEDNN_MEMBER
  // The engine and a stream of the device. `stream` is used while a program is loaded; executions
  // use Port::StreamOf. Both may be used by several threads at once.
  Engine engine = nullptr;
  Stream stream = nullptr;
  const Port* port = nullptr;
  std::string path;
  void* handle = nullptr;  // of the opened library: dlsym finds its other functions
};

using Apis = std::vector<const Api*>;

// How oneDNN is used on devices of one kind. Immutable; thread-safe; lives as long as the process.
class Port {
 public:
  virtual ~Port() = default;
  // The folder where its library is looked for.
  virtual std::filesystem::path Folder() const = 0;
  // The opened `library`, of which the functions and the path are set, for each of the devices, with
  // an engine and a stream. UNAVAILABLE if it was built for other devices.
  virtual StatusOr<Apis> Attach(const Api& library) const = 0;
  // Whether primitives run later, in the device's queue, after what is there; else they are done
  // when the call that executes them returns.
  virtual bool UsesQueue() const = 0;
  // A memory object, whose address is to be set.
  virtual StatusCode MakeMemory(const Api& api, Memory* memory, ConstMemoryDesc layout) const = 0;
  // The stream of executions on the device with that queue.
  virtual StatusOr<Stream> StreamOf(const Api& api, DeviceQueue& queue) const = 0;
  // Until what was done in `api.stream` is done.
  virtual Status FinishLoading(const Api& api) const = 0;
  // Where packed weights are kept; null: in memory of the system.
  virtual MemorySource* memory_source() const = 0;
};

// The opened library for each of the process's devices, in the backend's order (one for the host);
// it stays open until the process ends. The first call opens it, later ones return the same answer.
// UNAVAILABLE if no fit library is found: the message lists the places and says what to install.
// Thread-safe.
//
// Places, in this order: $TRIPONT_ONEDNN_PATH (a file, or a folder that holds libdnnl.so.3) and
// nothing else if it is set; the folder of the backend's port, if it has one; the folder of
// libtripont.so, into which the build puts the library for oneTBB. With that one calls run on the
// host, in memory that it shares with the devices.
StatusOr<const Apis*> Load(const Backend& backend);

// Whether Load() gives a library, as far as that can be told without opening one: false if there is
// no file where it looks, or if Load() has failed. The first false answer is a warning in the log:
// programs that are compiled from then on do without the library. Thread-safe.
bool IsUsable(const Backend& backend);

// OK if oneDNN computes with operands of this type exactly as the program was compiled to expect:
// with fewer instructions than the CPU has (ONEDNN_MAX_CPU_ISA), products of 8-bit integers
// saturate in 16 bits. FAILED_PRECONDITION then.
Status CheckInstructions(const Api& api, PrimitiveType type);

// The library for the first device if Load() has opened it, else null. Opens nothing.
const Api* LoadedOrNull();

// OK, or INTERNAL / RESOURCE_EXHAUSTED / UNIMPLEMENTED naming `what`.
Status Check(StatusCode code, const char* what);

}  // namespace tripont::onednn

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_ONEDNN_API_H_
