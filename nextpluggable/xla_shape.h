// XLA_Shape: TensorFlow's C struct of an array's or a tuple's shape, copied deeply.
#ifndef TRIPONT_NEXTPLUGGABLE_XLA_SHAPE_H_
#define TRIPONT_NEXTPLUGGABLE_XLA_SHAPE_H_

// Includes the struct, from a place that depends on the version of TensorFlow.
#include "tensorflow/core/common_runtime/next_pluggable_device/c/plugin_c_api.h"

namespace tripont::tensorflow {

// Makes `*to` equal to `from`, which it owns nothing of afterwards. Lists of more than
// TPU_C_API_MAX_INLINED elements lie behind a pointer, and TensorFlow frees those of both structs
// with delete[], so that a shallow copy would be freed twice. `*to` need not be initialised; its
// old content is not freed.
void CopyShape(const XLA_Shape& from, XLA_Shape* to);

// Frees what CopyShape allocated. `shape` itself is the caller's.
void DestroyShape(XLA_Shape* shape);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_XLA_SHAPE_H_
