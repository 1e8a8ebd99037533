// What the tensors of a kernel of the bridge hold: which array of the program each one is.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_EXPRESSIONS_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_EXPRESSIONS_H_

#include "tensorflow/compiler/tf2xla/xla_expression.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {

// What a tensor of symbolic execution holds, and nothing else: which array it is.
inline ::tensorflow::XlaExpression* Expression(const ::tensorflow::Tensor& tensor) {
  return const_cast<::tensorflow::XlaExpression*>(
      ::tensorflow::XlaExpression::CastExpressionFromTensor(tensor));
}

// An output that the original kernel has set.
inline xla::XlaOp Output(::tensorflow::XlaOpKernelContext* context, int index) {
  return Expression(*context->op_kernel_context()->mutable_output(index))->handle();
}

// Puts another array of the same bounds in the place of an output of the original kernel.
inline void ReplaceOutput(::tensorflow::XlaOpKernelContext* context, int index, xla::XlaOp value) {
  ::tensorflow::XlaExpression* output =
      Expression(*context->op_kernel_context()->mutable_output(index));
  *output = ::tensorflow::XlaExpression::XlaOp(value, output->dtype());
}

// While one exists, the kernel's input is another array.
class OtherInput {
 public:
  OtherInput(::tensorflow::XlaOpKernelContext* context, int index, xla::XlaOp value)
      : expression_(Expression(context->op_kernel_context()->input(index))), before_(*expression_) {
    *expression_ = ::tensorflow::XlaExpression::XlaOp(value, before_.dtype());
  }
  ~OtherInput() { *expression_ = before_; }
  OtherInput(const OtherInput&) = delete;

 private:
  ::tensorflow::XlaExpression* expression_;
  ::tensorflow::XlaExpression before_;
};

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_EXPRESSIONS_H_
