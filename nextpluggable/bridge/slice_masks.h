// The attributes of a slice's NodeDef that say how its indices are meant, as StridedSlice and the ops that assign to
// slices have them. Thread-safe: nothing is kept.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_SLICE_MASKS_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_SLICE_MASKS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"

namespace tripont::tensorflow {

// A bit for each index: it has no begin, has no end, stands for all dimensions that are left, is a new dimension, or
// is a single place whose dimension goes.
struct SliceMasks {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t ellipsis = 0;
  int32_t new_axis = 0;
  int32_t shrink_axis = 0;
};

// The masks of `node`; an error where an attribute is missing.
inline absl::StatusOr<SliceMasks> MasksOf(const ::tensorflow::NodeDef& node) {
  namespace tf = ::tensorflow;
  SliceMasks masks;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "begin_mask", &masks.begin));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "end_mask", &masks.end));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "ellipsis_mask", &masks.ellipsis));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "new_axis_mask", &masks.new_axis));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "shrink_axis_mask", &masks.shrink_axis));
  return masks;
}

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_SLICE_MASKS_H_
