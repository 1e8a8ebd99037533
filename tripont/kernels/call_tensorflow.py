"""Calls of kernels from TensorFlow, by its op for custom calls.

The op ``XlaCustomCallV2`` has no attributes for the kernel, so that they stand in the target. It has kernels for XLA's
devices alone: eagerly, and in functions without ``jit_compile``, TensorFlow's soft placement puts it on XPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .prototype import SignatureError

if TYPE_CHECKING:
    from .kernel import Kernel


def call(kernel: Kernel, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """One tf.Tensor, or a tuple of them. Raises SignatureError for shapes that are not known yet."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    tensors = [
        o
        if isinstance(o, tf.Tensor)
        else tf.convert_to_tensor(o, tf.as_dtype(p.type.numpy) if p.type.numpy else None)
        for p, o in zip(kernel.prototype.operands, operands, strict=False)
    ]
    for parameter, tensor in zip(kernel.prototype.operands, tensors, strict=False):
        if not tensor.shape.is_fully_defined():
            raise SignatureError(
                f"kernel {kernel.name!r}: operand {parameter.name!r} has the shape {tensor.shape}; kernels "
                "need shapes that are known when the function is traced (tf.function's input_signature, "
                "tf.ensure_shape)"
            )
    described = [(tuple(t.shape.as_list()), np.dtype(t.dtype.as_numpy_dtype).name) for t in tensors]
    results = kernel.results(len(operands), described, attributes)
    values = gen_xla_ops.xla_custom_call_v2(
        operands=tensors,
        call_target_name=kernel.target_with(attributes),
        backend_config="",
        has_side_effect=False,
        result_dtypes=[tf.as_dtype(dtype) for _, dtype in results],
        result_shapes=[list(shape) for shape, _ in results],
    )
    return values[0] if len(values) == 1 else tuple(values)
