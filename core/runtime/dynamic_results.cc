#include "core/runtime/dynamic_results.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/runtime/dtype.h"

namespace tripont {
namespace {

// The number in a buffer without dimensions, once it is there.
template <typename T>
StatusOr<T> ReadScalar(Buffer& buffer) {
  TRIPONT_RETURN_IF_ERROR(buffer.definition_event()->Await());
  T value{};
  TRIPONT_ASSIGN_OR_RETURN(Ref<Event> copied, buffer.CopyToHost(&value, sizeof(value)));
  if (copied) TRIPONT_RETURN_IF_ERROR(copied->Await());
  return value;
}

// The first elements along each dimension of `source`, in an array of their own.
StatusOr<Ref<Buffer>> CutArray(Buffer& source, const Shape& shape) {
  const auto width = static_cast<int64_t>(ByteWidth(shape.type));
  const Dimensions& bounds = source.shape().dimensions;
  std::vector<int64_t> strides(bounds.size());
  int64_t stride = width;
  for (size_t d = bounds.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= bounds[d];
  }
  if (source.device()->uses_host_memory()) {
    TRIPONT_ASSIGN_OR_RETURN(const Hold hold, source.Acquire());
    return Buffer::FromHost(source.memory(), shape, hold.data(), strides);
  }
  const size_t size = source.byte_size();
  const auto host = std::make_unique<char[]>(size);
  TRIPONT_ASSIGN_OR_RETURN(Ref<Event> copied, source.CopyToHost(host.get(), size));
  if (copied) TRIPONT_RETURN_IF_ERROR(copied->Await());
  return Buffer::FromHost(source.memory(), shape, host.get(), strides);
}

Status Cut(const Executable& executable, std::span<Ref<Buffer>> results) {
  const Artifact& artifact = executable.artifact();
  for (const schema::SizeCheck& check : artifact.size_checks) {
    TRIPONT_ASSIGN_OR_RETURN(const uint8_t holds, ReadScalar<uint8_t>(*results[check.result]));
    if (holds == 0) return InvalidArgument(executable.name(), ": ", check.message);
  }
  std::vector<std::vector<int64_t>> sizes(artifact.visible_results);
  for (const schema::DynamicDimension& dimension : artifact.dynamic_results) {
    std::vector<int64_t>& of_result = sizes[dimension.result];
    const Dimensions& bounds = results[dimension.result]->shape().dimensions;
    if (of_result.empty()) of_result.assign(bounds.begin(), bounds.end());
    int64_t& size = of_result[dimension.dimension];
    TRIPONT_ASSIGN_OR_RETURN(size, ReadScalar<int32_t>(*results[dimension.size_result]));
    if (size < 0 || size > bounds[dimension.dimension]) {
      return InvalidArgument(executable.name(), ": dimension ", dimension.dimension, " of result ",
                             dimension.result, " was given the size ", size,
                             ", which is not within 0 and its bound ", bounds[dimension.dimension]);
    }
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].empty()) continue;
    Shape shape{results[i]->shape().type, Dimensions(std::span<const int64_t>(sizes[i]))};
    if (shape == results[i]->shape()) continue;
    TRIPONT_RETURN_IF_ERROR(results[i]->definition_event()->Await());
    TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> cut, CutArray(*results[i], shape));
    results[i]->Delete();
    results[i] = std::move(cut);
  }
  return OkStatus();
}

}  // namespace

Status CutResults(const Executable& executable, std::span<Ref<Buffer>> results) {
  const Status status = Cut(executable, results);
  const size_t kept = status.ok() ? executable.artifact().visible_results : 0;
  for (size_t i = kept; i < results.size(); ++i) {
    results[i]->Delete();
    results[i] = nullptr;
  }
  return status;
}

}  // namespace tripont
