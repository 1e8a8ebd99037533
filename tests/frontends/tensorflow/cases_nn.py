"""Contractions, convolutions, pooling, normalisation, activations and losses, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from .cases import FLOATS, WIDE, Table, positive, whole, x

TABLE: Final = Table()
add = TABLE.add


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of a bounded function of a function's result with respect to all its arguments."""

    def gradients(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            result = function(*arguments)
            # The squares of a normalised result have a constant sum, and a gradient of nothing but rounding.
            loss = tf.reduce_sum(result * result if result.dtype.is_complex else tf.sin(result))
        return tape.gradient(loss, arguments)

    return gradients


def both(name: str, function: Callable[..., Any], *makers: Any, **options: Any) -> None:
    """A row for a function and one for its gradient; errors of sums grow with the squares in the latter."""
    add(name, function, *makers, **options)
    options["tolerance"] = 4 * options.get("tolerance", 32)
    add(f"{name}_gradient", gradient(function), *makers, **options)


# Contractions.
both("matmul", tf.matmul, x(17, 33), x(33, 9), dtypes=(*FLOATS, "complex64"))
add("matmul_integer", tf.matmul, x(5, 7), x(7, 3), dtypes=("int32", "int64"))
add(
    "matmul_int8",
    lambda a, b: tf.matmul(a, b, output_type=tf.int32),
    x(5, 7),
    x(7, 3),
    dtypes=("int8",),
)
both(
    "matmul_transposed",
    lambda a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True),
    x(7, 5),
    x(3, 7),
)
both("batch_matmul", tf.matmul, x(2, 3, 5, 7), x(2, 3, 7, 4), dtypes=("float32", "bfloat16"))
both("matvec", tf.linalg.matvec, x(5, 7), x(7))
both("einsum", lambda a, b: tf.einsum("bij,bkj->bik", a, b), x(2, 3, 5), x(2, 4, 5))
both("tensordot", lambda a, b: tf.tensordot(a, b, [[1, 2], [0, 1]]), x(2, 3, 5), x(3, 5, 4))
both("bias_add", tf.nn.bias_add, x(3, 5, 5, 4), x(4), dtypes=("float32", "bfloat16"))

# Convolutions.
both("conv1d", lambda a, k: tf.nn.conv1d(a, k, 1, "SAME"), x(2, 12, 3), x(3, 3, 5))
for _padding in ("SAME", "VALID"):
    both(
        f"conv2d_{_padding.lower()}",
        lambda a, k, p=_padding: tf.nn.conv2d(a, k, 1, p),
        x(2, 9, 8, 3),
        x(3, 3, 3, 5),
        dtypes=("float32", "float64"),
    )
both(
    "conv2d_bfloat16",
    lambda a, k: tf.nn.conv2d(a, k, 1, "SAME"),
    x(2, 8, 8, 4),
    x(3, 3, 4, 8),
    dtypes=("bfloat16",),
)
both("conv2d_strided", lambda a, k: tf.nn.conv2d(a, k, 2, "SAME"), x(2, 9, 8, 3), x(3, 3, 3, 5))
both(
    "conv2d_dilated",
    lambda a, k: tf.nn.conv2d(a, k, 1, "SAME", dilations=2),
    x(1, 9, 9, 2),
    x(3, 3, 2, 4),
)
both("conv2d_grouped", lambda a, k: tf.nn.conv2d(a, k, 1, "SAME"), x(2, 8, 8, 4), x(3, 3, 2, 6))
both("conv2d_1x1", lambda a, k: tf.nn.conv2d(a, k, 1, "VALID"), x(2, 8, 8, 16), x(1, 1, 16, 8))
both(
    "conv2d_explicit",
    lambda a, k: tf.nn.conv2d(a, k, 2, [[0, 0], [1, 0], [0, 1], [0, 0]]),
    x(2, 8, 8, 3),
    x(3, 3, 3, 4),
)
both(
    "depthwise",
    lambda a, k: tf.nn.depthwise_conv2d(a, k, [1, 1, 1, 1], "SAME"),
    x(2, 8, 8, 6),
    x(3, 3, 6, 1),
)
both(
    "depthwise_multiplier",
    lambda a, k: tf.nn.depthwise_conv2d(a, k, [1, 2, 2, 1], "SAME"),
    x(2, 8, 8, 3),
    x(3, 3, 3, 2),
)
both(
    "separable",
    lambda a, d, p: tf.nn.separable_conv2d(a, d, p, [1, 1, 1, 1], "SAME"),
    x(1, 8, 8, 3),
    x(3, 3, 3, 1),
    x(1, 1, 3, 5),
)
both(
    "conv2d_transpose",
    lambda a, k: tf.nn.conv2d_transpose(a, k, [2, 8, 8, 3], 2, "SAME"),
    x(2, 4, 4, 5),
    x(3, 3, 3, 5),
)
both(
    "conv3d",
    lambda a, k: tf.nn.conv3d(a, k, [1, 1, 1, 1, 1], "SAME"),
    x(1, 5, 6, 7, 2),
    x(3, 3, 3, 2, 4),
)
both("atrous", lambda a, k: tf.nn.atrous_conv2d(a, k, 2, "VALID"), x(1, 9, 9, 2), x(3, 3, 2, 3))

# Pooling.
both(
    "max_pool",
    lambda a: tf.nn.max_pool2d(a, 2, 2, "VALID"),
    x(2, 8, 8, 3),
    dtypes=("float32", "bfloat16"),
)
both("max_pool_overlapping", lambda a: tf.nn.max_pool2d(a, 3, 2, "SAME"), x(2, 9, 9, 3))
both("avg_pool", lambda a: tf.nn.avg_pool2d(a, 2, 2, "VALID"), x(2, 8, 8, 3))
both("avg_pool_same", lambda a: tf.nn.avg_pool2d(a, 3, 2, "SAME"), x(2, 9, 9, 3))
both("max_pool1d", lambda a: tf.nn.max_pool1d(a, 2, 2, "VALID"), x(2, 8, 3))
both("avg_pool3d", lambda a: tf.nn.avg_pool3d(a, 2, 2, "VALID"), x(1, 4, 4, 4, 2))
both("max_pool3d", lambda a: tf.nn.max_pool3d(a, 2, 2, "VALID"), x(1, 4, 4, 4, 2))
add(
    "max_pool_argmax",
    lambda a: tf.nn.max_pool_with_argmax(a, 2, 2, "VALID"),
    x(1, 4, 4, 2),
    jit=False,
)
add(
    "dilation2d",
    lambda a, k: tf.nn.dilation2d(a, k, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]),
    x(1, 6, 6, 2),
    x(3, 3, 2),
    jit=False,
)


# Normalisation.
def _batch_norm(a: Any, scale: Any, offset: Any) -> Any:
    return tf.raw_ops.FusedBatchNormV3(
        x=a, scale=scale, offset=offset, mean=tf.zeros([0]), variance=tf.zeros([0])
    )[:3]


def _batch_norm_inference(a: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    return tf.raw_ops.FusedBatchNormV3(
        x=a, scale=scale, offset=offset, mean=mean, variance=variance, is_training=False
    )[0]


add("batch_norm_training", _batch_norm, x(4, 5, 5, 6), positive(6), x(6))
add(
    "batch_norm_inference",
    _batch_norm_inference,
    x(4, 5, 5, 6),
    positive(6),
    x(6),
    x(6),
    positive(6),
)
add(
    "batch_norm_gradient",
    gradient(lambda a, s, o: _batch_norm(a, s, o)[0]),
    x(4, 5, 5, 6),
    positive(6),
    x(6),
    tolerance=512,
)
both(
    "batch_normalization",
    lambda a, m, v: tf.nn.batch_normalization(a, m, v, 0.5, 2.0, 1e-3),
    x(4, 6),
    x(6),
    positive(6),
)
both("moments", lambda a: tf.nn.moments(a, [0, 1])[1], x(4, 5, 6))
both("local_response", lambda a: tf.nn.local_response_normalization(a), x(1, 3, 3, 12))
both(
    "layer_norm",
    lambda a: (
        (a - tf.reduce_mean(a, -1, keepdims=True))
        * tf.math.rsqrt(tf.math.reduce_variance(a, -1, keepdims=True) + 1e-5)
    ),
    x(6, 16),
    tolerance=128,
)

# Activations.
for _name in (
    "relu",
    "relu6",
    "elu",
    "selu",
    "leaky_relu",
    "silu",
    "gelu",
    "crelu",
    "softsign",
    "tanh",
):
    both(f"activation_{_name}", getattr(tf.nn, _name), x(3, 37), dtypes=("float32", "bfloat16"))
both("softmax", tf.nn.softmax, x(5, 37), dtypes=(*WIDE, "bfloat16"), tolerance=256)
both("softmax_axis", lambda a: tf.nn.softmax(a, axis=1), x(2, 5, 7))
both("log_softmax", tf.nn.log_softmax, x(5, 37), dtypes=WIDE)
add("dropout_rate_0", lambda a: tf.nn.dropout(a, 0.0), x(3, 5))

# Losses.
add("l2_loss", tf.nn.l2_loss, x(3, 37), dtypes=WIDE)
both(
    "cross_entropy",
    lambda a: tf.nn.softmax_cross_entropy_with_logits(tf.one_hot([1, 0, 3, 2], 5), a),
    x(4, 5),
)
both(
    "sparse_cross_entropy",
    lambda a: tf.nn.sparse_softmax_cross_entropy_with_logits([1, 0, 3, 2], a),
    x(4, 5),
)
both(
    "sigmoid_cross_entropy",
    lambda a, b: tf.nn.sigmoid_cross_entropy_with_logits(a, b),
    x(4, 5, low=0, high=1),
    x(4, 5),
)
both(
    "weighted_cross_entropy",
    lambda a, b: tf.nn.weighted_cross_entropy_with_logits(a, b, 2.0),
    x(4, 5, low=0, high=1),
    x(4, 5),
)
both("poisson_loss", lambda a, b: tf.nn.log_poisson_loss(a, b), positive(4, 5), x(4, 5))
add(
    "ctc_loss",
    lambda a: tf.nn.ctc_loss(
        [[1, 2, 1], [2, 1, 0]], tf.cast(a, tf.float32), [3, 2], [8, 8], blank_index=0
    ),
    x(8, 2, 4),
    tolerance=256,
)


# Attention and recurrent cells.
def _attention(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 8.0), v)


def _lstm_step(a: Any, h: Any, kernel: Any, recurrent: Any) -> Any:
    i, f, g, o = tf.split(a @ kernel + h @ recurrent, 4, axis=1)
    c = tf.sigmoid(f) * h + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c)


both("attention", _attention, x(2, 4, 9, 16), x(2, 4, 9, 16), x(2, 4, 9, 16), tolerance=64)
both("lstm_step", _lstm_step, x(3, 5), x(3, 4), x(5, 16), x(4, 16), tolerance=64)

# Gradients of elementwise functions, reductions and data movement.
_GRADIENTS: Final[dict[str, Callable[..., Any]]] = {
    "exp": tf.exp,
    "log": lambda a: tf.math.log(a),
    "sqrt": tf.sqrt,
    "rsqrt": tf.math.rsqrt,
    "tan": lambda a: tf.tan(a / 3),
    "asin": lambda a: tf.asin(a / 4),
    "erf": tf.math.erf,
    "lgamma": tf.math.lgamma,
    "pow": lambda a: tf.pow(a, 2.5),
    "softplus": tf.math.softplus,
    "cumsum": tf.cumsum,
    "cumprod": tf.math.cumprod,
    "reduce_prod": lambda a: tf.reduce_prod(a[:, :4], axis=1),
    "reduce_max": lambda a: tf.reduce_max(a, axis=1),
    "reduce_mean": lambda a: tf.reduce_mean(a, axis=0),
    "reduce_std": lambda a: tf.math.reduce_std(a, axis=0),
    "logsumexp": lambda a: tf.reduce_logsumexp(a, axis=1),
    "sort": lambda a: tf.sort(a, axis=1) * tf.range(37.0),
    "top_k": lambda a: tf.math.top_k(a, 3)[0],
    "gather": lambda a: tf.gather(a, [2, 0, 2]),
    "gather_nd": lambda a: tf.gather_nd(a, [[0, 1], [2, 3], [0, 1]]),
    "strided_slice": lambda a: a[::2, 3:20:3],
    "concat": lambda a: tf.concat([a, a * 2], 0),
    "pad": lambda a: tf.pad(a, [[1, 1], [2, 0]]),
    "pad_reflect": lambda a: tf.pad(a, [[1, 1], [2, 0]], "REFLECT"),
    "tile": lambda a: tf.tile(a, [2, 2]),
    "transpose": tf.transpose,
    "where": lambda a: tf.where(a > 1, a, a * a),
    "maximum": lambda a: tf.maximum(a, 1.0),
    "clip": lambda a: tf.clip_by_value(a, 0.5, 2.0),
    "scatter": lambda a: tf.tensor_scatter_nd_add(tf.zeros([4, 37]), [[1], [1], [3]], a),
    "segment_sum": lambda a: tf.math.unsorted_segment_sum(a, [0, 1, 0], 2),
    "reverse": lambda a: tf.reverse(a, [1]),
    "roll": lambda a: tf.roll(a, 2, 1),
    "norm": lambda a: tf.norm(a, axis=1),
    "broadcast": lambda a: tf.broadcast_to(a, [2, 3, 37]),
}
for _name, _function in _GRADIENTS.items():
    add(f"gradient_{_name}", gradient(_function), positive(3, 37), tolerance=256)
add("gradient_unbroadcast", gradient(tf.multiply), x(3, 1, 5), x(4, 1))
add("gradient_embedding", gradient(lambda t: tf.nn.embedding_lookup(t, [[1, 2], [1, 0]])), x(6, 4))
add(
    "embedding_sum",
    lambda t, i: tf.reduce_sum(tf.nn.embedding_lookup(t, i), 1),
    x(9, 4),
    whole(3, 2, high=9),
)
