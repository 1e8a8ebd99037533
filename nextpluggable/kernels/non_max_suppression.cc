// NonMaxSuppressionV3, V4 and V5: of boxes with scores, the best, without those that overlap a
// better one too much.
//
// V5 can lower the score of an overlapping box instead of dropping it: Bodla et al., "Soft-NMS:
// Improving Object Detection With One Line of Code", 2017, with the Gaussian weight.

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>

#include "nextpluggable/kernels/kernels.h"

namespace tripont::tensorflow {
namespace {

struct Box {
  float top, left, bottom, right;

  // The box of two opposite corners (y, x, y, x), in any order.
  static Box FromCorners(const float* c) {
    return {std::min(c[0], c[2]), std::min(c[1], c[3]), std::max(c[0], c[2]), std::max(c[1], c[3])};
  }
  float area() const { return (bottom - top) * (right - left); }
};

// Intersection over union; 0 for boxes without an area.
float Overlap(const Box& a, const Box& b) {
  if (a.area() <= 0 || b.area() <= 0) return 0;
  const float height = std::max(0.0f, std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
  const float width = std::max(0.0f, std::min(a.right, b.right) - std::max(a.left, b.left));
  return height * width / (a.area() + b.area() - height * width);
}

struct Parameters {
  int64_t max_output_size;
  float overlap_threshold;
  float score_threshold;
  float sigma;  // of the Gaussian weight; 0: boxes are dropped
};

struct Candidate {
  int32_t box;
  float score;
  size_t compared;  // with so many of the selected boxes

  // The best comes out of the queue first; of equal ones, the first.
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : box > other.box;
  }
};

struct Selection {
  std::vector<int32_t> boxes;
  std::vector<float> scores;
};

Selection Select(const float* corners, const float* scores, int64_t count, const Parameters& p) {
  std::priority_queue<Candidate> queue;
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i] > p.score_threshold) queue.push({static_cast<int32_t>(i), scores[i], 0});
  }
  Selection selection;
  std::vector<Box> selected;
  while (!queue.empty() && static_cast<int64_t>(selected.size()) < p.max_output_size) {
    Candidate best = queue.top();
    queue.pop();
    const float before = best.score;
    const Box box = Box::FromCorners(corners + int64_t{4} * best.box);
    bool dropped = false;
    // The latest are the likeliest to overlap: they have similar scores.
    for (size_t j = selected.size(); j > best.compared && !dropped; --j) {
      const float overlap = Overlap(box, selected[j - 1]);
      if (p.sigma > 0) {
        const float weight = std::exp(-0.5f / p.sigma * overlap * overlap);
        best.score *= overlap <= p.overlap_threshold ? weight : 0;
        dropped = best.score <= p.score_threshold;
      } else {
        dropped = overlap > p.overlap_threshold;
      }
    }
    if (dropped) continue;
    best.compared = selected.size();
    if (best.score != before) {  // another may be better now
      queue.push(best);
      continue;
    }
    selected.push_back(box);
    selection.boxes.push_back(best.box);
    selection.scores.push_back(best.score);
  }
  return selection;
}

// Inputs: boxes [n, 4], scores [n], max_output_size, iou_threshold, score_threshold, and V5:
// soft_nms_sigma. Outputs: selected_indices; V4: and valid_outputs; V5: selected_indices,
// selected_scores and valid_outputs.
template <int kVersion>
class NonMaxSuppression {
 public:
  explicit NonMaxSuppression(Construction& node)
      : padded_(kVersion > 3 && node.Bool("pad_to_max_output_size")) {}

  void Compute(Context& context) {
    const Array boxes = context.Input(0);
    const Array scores = context.Input(1);
    if (!context.ok()) return;
    if (boxes.rank != 2 || boxes.dimensions[1] != 4) {
      return context.Fail(TF_INVALID_ARGUMENT, "boxes must have shape [num_boxes, 4]");
    }
    if (scores.rank != 1 || scores.dimensions[0] != boxes.dimensions[0]) {
      return context.Fail(TF_INVALID_ARGUMENT, "scores has incompatible shape: it must be [" +
                                                   std::to_string(boxes.dimensions[0]) + "]");
    }
    const Parameters parameters{Scalar<int32_t>(context, 2), Scalar<float>(context, 3),
                                Scalar<float>(context, 4),
                                kVersion == 5 ? Scalar<float>(context, 5) : 0.0f};
    if (!context.ok()) return;
    if (parameters.max_output_size < 0) {
      return context.Fail(TF_INVALID_ARGUMENT, "output size must be non-negative");
    }
    if (!(parameters.overlap_threshold >= 0 && parameters.overlap_threshold <= 1)) {
      return context.Fail(TF_INVALID_ARGUMENT, "iou_threshold must be in [0, 1]");
    }
    if (!(parameters.sigma >= 0)) {
      return context.Fail(TF_INVALID_ARGUMENT, "soft_nms_sigma must be non-negative");
    }
    Selection selection =
        Select(boxes.data<float>(), scores.data<float>(), boxes.dimensions[0], parameters);
    const auto valid = static_cast<int32_t>(selection.boxes.size());
    if (padded_) {
      selection.boxes.resize(static_cast<size_t>(parameters.max_output_size));
      selection.scores.resize(static_cast<size_t>(parameters.max_output_size));
    }
    Write(context, 0, TF_INT32, selection.boxes);
    if constexpr (kVersion == 5) Write(context, 1, TF_FLOAT, selection.scores);
    if constexpr (kVersion > 3) {
      const Array count = context.Output(kVersion - 3, TF_INT32, {});
      if (context.ok()) *count.data<int32_t>() = valid;
    }
  }

 private:
  template <typename T>
  static T Scalar(Context& context, int input) {
    const Array scalar = context.Input(input);
    if (!context.ok()) return T(0);
    if (scalar.size != 1 || scalar.rank != 0) {
      context.Fail(TF_INVALID_ARGUMENT, "input " + std::to_string(input) + " must be a scalar");
      return T(0);
    }
    return *scalar.data<T>();
  }

  template <typename T>
  static void Write(Context& context, int output, TF_DataType type, const std::vector<T>& values) {
    const std::array<int64_t, 1> dims = {static_cast<int64_t>(values.size())};
    const Array array = context.Output(output, type, dims);
    if (context.ok()) std::copy(values.begin(), values.end(), array.data<T>());
  }

  bool padded_;
};

// The numbers that TensorFlow has on the host anyway stay there.
Kernel OnFloats(const char* op) {
  return Kernel(op)
      .Type("T", TF_FLOAT)
      .HostMemory("max_output_size")
      .HostMemory("iou_threshold")
      .HostMemory("score_threshold");
}

}  // namespace

void RegisterNonMaxSuppressionKernels() {
  Register<NonMaxSuppression<3>>(OnFloats("NonMaxSuppressionV3").Type("T_threshold", TF_FLOAT));
  Register<NonMaxSuppression<4>>(
      OnFloats("NonMaxSuppressionV4").Type("T_threshold", TF_FLOAT).HostMemory("valid_outputs"));
  Register<NonMaxSuppression<5>>(
      OnFloats("NonMaxSuppressionV5").HostMemory("soft_nms_sigma").HostMemory("valid_outputs"));
}

}  // namespace tripont::tensorflow
