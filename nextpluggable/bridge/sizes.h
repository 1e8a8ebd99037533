// Arrays whose sizes depend on values, as the bridge's kernels see them.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_SIZES_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_SIZES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {

// Whether some input of the kernel is an array (a list, a variable) of such a size.
bool HasComputedSize(::tensorflow::XlaOpKernelContext* context);

// Whether some input that the bridge wants to be constant depends on values.
bool HasComputedConstant(::tensorflow::XlaOpKernelContext* context);
bool IsComputed(::tensorflow::XlaOpKernelContext* context, int input);

// How many elements an array has along a dimension.
struct Size {
  int64_t bound = 0;                // at most
  std::optional<int64_t> constant;  // `bound`, unless the size depends on values
  xla::XlaOp value;                 // s32[]
};

// The sizes of an array's dimensions.
absl::StatusOr<std::vector<Size>> SizesOf(::tensorflow::XlaOpKernelContext* context, xla::XlaOp x);

// The value of an integer scalar if it is known; nothing if it depends on the program's arguments.
absl::StatusOr<std::optional<int64_t>> ConstantOf(::tensorflow::XlaOpKernelContext* context,
                                                  xla::XlaOp scalar);

// The least and the largest that an integer scalar may be, as far as that is known.
absl::StatusOr<std::optional<int64_t>> LeastOf(::tensorflow::XlaOpKernelContext* context,
                                               xla::XlaOp scalar);
absl::StatusOr<std::optional<int64_t>> MostOf(::tensorflow::XlaOpKernelContext* context,
                                              xla::XlaOp scalar);

// Element `position` of a vector, or of a scalar, as a scalar.
xla::XlaOp Element(::tensorflow::XlaOpKernelContext* context, xla::XlaOp vector, int64_t position);

// `range` elements of `x` from `start` (s32[]) along a dimension, where there may be fewer: zeros
// stand for what is not there. `start` must not be past the end. The result's size along the
// dimension is `range`.
xla::XlaOp Window(xla::XlaOp x, xla::XlaOp start, int64_t range, int64_t dimension);

// `number` (s32[]), which must be within [0, size], or the program fails.
xla::XlaOp Within(xla::XlaOp number, const Size& size);

inline xla::XlaOp Number(xla::XlaBuilder* builder, int64_t value) {
  return xla::ConstantR0<int32_t>(builder, static_cast<int32_t>(value));
}

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_SIZES_H_
