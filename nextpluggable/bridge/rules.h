// What is done with each op of the bridge that is given an array whose size depends on values, or a
// number that depends on values where TensorFlow asks for a constant, such as a shape.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_RULES_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_RULES_H_

#include <string_view>

#include "absl/status/status.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"

namespace tripont::tensorflow {

// Sets the outputs, by way of TensorFlow's kernel or without, or says why it cannot. An error of
// TensorFlow's kernel is in the context's status.
using Rule = absl::Status (*)(::tensorflow::XlaOpKernelContext* context,
                              ::tensorflow::OpKernel& original);

// The rule of an op; null if TensorFlow's kernel is right as it is.
Rule FindRule(std::string_view op);

// The translation of an op whose kernel computes something else than those of CPUs and GPUs, to be
// used for all its arguments; null if TensorFlow's is right. translations.cc
Rule FindTranslation(std::string_view op);

// That of an op that draws random numbers. random.cc
Rule FindRandomTranslation(std::string_view op);

// The rule of every op that is not known: an error that names it.
absl::Status Refuse(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);

// What is done without a translation, for an array whose size depends on values too.
absl::Status AsTheBridge(::tensorflow::XlaOpKernelContext* context,
                         ::tensorflow::OpKernel& original);

// strided_slice.cc
absl::Status StridedSlice(::tensorflow::XlaOpKernelContext* context,
                          ::tensorflow::OpKernel& original);
absl::Status StridedSliceGrad(::tensorflow::XlaOpKernelContext* context,
                              ::tensorflow::OpKernel& original);

// array_rules.cc
absl::Status Slice(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status Fill(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status Roll(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status Range(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status Unique(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status ConcatOffset(::tensorflow::XlaOpKernelContext* context,
                          ::tensorflow::OpKernel& original);
absl::Status TopK(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status SizesOfFirst(::tensorflow::XlaOpKernelContext* context,
                          ::tensorflow::OpKernel& original);
absl::Status ArgMinMax(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);

// elementwise.cc
absl::Status Bucketize(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status CastToBool(::tensorflow::XlaOpKernelContext* context,
                        ::tensorflow::OpKernel& original);
absl::Status ClipByValue(::tensorflow::XlaOpKernelContext* context,
                         ::tensorflow::OpKernel& original);
absl::Status Equality(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status GradientByResult(::tensorflow::XlaOpKernelContext* context,
                              ::tensorflow::OpKernel& original);
absl::Status InTopK(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status Ndtri(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status OneHot(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status SeluGrad(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status UpperBound(::tensorflow::XlaOpKernelContext* context,
                        ::tensorflow::OpKernel& original);

// fake_quantization.cc
absl::Status FakeQuantization(::tensorflow::XlaOpKernelContext* context,
                              ::tensorflow::OpKernel& original);
absl::Status FakeQuantizationGradient(::tensorflow::XlaOpKernelContext* context,
                                      ::tensorflow::OpKernel& original);

// adjust_hue.cc
absl::Status AdjustHue(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);

// incomplete_gamma.cc
absl::Status IncompleteGamma(::tensorflow::XlaOpKernelContext* context,
                             ::tensorflow::OpKernel& original);
absl::Status RandomGammaGrad(::tensorflow::XlaOpKernelContext* context,
                             ::tensorflow::OpKernel& original);

// lists.cc
absl::Status TensorArrayGrad(::tensorflow::XlaOpKernelContext* context,
                             ::tensorflow::OpKernel& original);
absl::Status TensorListGetItem(::tensorflow::XlaOpKernelContext* context,
                               ::tensorflow::OpKernel& original);
absl::Status TensorListSetItem(::tensorflow::XlaOpKernelContext* context,
                               ::tensorflow::OpKernel& original);
absl::Status TensorListSplit(::tensorflow::XlaOpKernelContext* context,
                             ::tensorflow::OpKernel& original);

// non_max_suppression.cc
absl::Status NonMaxSuppression(::tensorflow::XlaOpKernelContext* context,
                               ::tensorflow::OpKernel& original);

// response_normalization.cc
absl::Status ResponseNormalization(::tensorflow::XlaOpKernelContext* context,
                                   ::tensorflow::OpKernel& original);

// sequences.cc
absl::Status LinSpace(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status RangeOfConstants(::tensorflow::XlaOpKernelContext* context,
                              ::tensorflow::OpKernel& original);

// strided_assign.cc
absl::Status StridedSliceAssign(::tensorflow::XlaOpKernelContext* context,
                                ::tensorflow::OpKernel& original);

// unique.cc
absl::Status UniqueInOrder(::tensorflow::XlaOpKernelContext* context,
                           ::tensorflow::OpKernel& original);

// dynamic_stitch.cc
absl::Status DynamicStitch(::tensorflow::XlaOpKernelContext* context,
                           ::tensorflow::OpKernel& original);

// random_shuffle.cc
absl::Status RandomShuffle(::tensorflow::XlaOpKernelContext* context,
                           ::tensorflow::OpKernel& original);

// resized_images.cc
absl::Status ResizeBilinear(::tensorflow::XlaOpKernelContext* context,
                            ::tensorflow::OpKernel& original);
absl::Status ResizeBilinearGrad(::tensorflow::XlaOpKernelContext* context,
                                ::tensorflow::OpKernel& original);
absl::Status ResizeNearestNeighbor(::tensorflow::XlaOpKernelContext* context,
                                   ::tensorflow::OpKernel& original);

// singular_values.cc
absl::Status Svd(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);

// windows.cc. The original kernel of a pool with explicit padding is one for VALID.
absl::Status ExtractImagePatches(::tensorflow::XlaOpKernelContext* context,
                                 ::tensorflow::OpKernel& original);
absl::Status MaxPool(::tensorflow::XlaOpKernelContext* context, ::tensorflow::OpKernel& original);
absl::Status MaxPoolGrad(::tensorflow::XlaOpKernelContext* context,
                         ::tensorflow::OpKernel& original);
absl::Status MaxPoolGradGrad(::tensorflow::XlaOpKernelContext* context,
                             ::tensorflow::OpKernel& original);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_RULES_H_
