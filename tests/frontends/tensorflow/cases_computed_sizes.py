"""Functions of arrays whose sizes depend on values, by what TensorFlow's bridge is asked for.

Each is called with :data:`VECTORS` or :data:`MATRICES`, whose masks leave other sizes each time. Those of one group are
compiled as one program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

_X: Final = np.array([3, 0, 1, 0, 2, 3, 1], np.float32)
# Seven numbers of which 5, 2, 7 and 0 are positive.
VECTORS: Final = (
    _X,
    np.eye(7, dtype=np.float32)[[0, 3]].sum(0) * 2,
    _X + 1,
    np.zeros(7, np.float32),
)
_M: Final = np.arange(12, dtype=np.float32).reshape(3, 4)
# Three rows of which 2, 1, 3 and 0 begin with a positive number.
MATRICES: Final = (_M, _M * [[0], [0], [1]], _M + 1, _M * 0)

Function = Callable[..., Any]
Group = dict[str, Function]


def positive(x: Any) -> Any:
    return tf.boolean_mask(x, x > 0)


def whole(x: Any) -> Any:
    return tf.cast(positive(x), tf.int32)


def count(x: Any) -> Any:
    return tf.size(positive(x))


def rows(x: Any) -> Any:
    return tf.boolean_mask(x, x[:, 0] > 0)


def outer(x: Any) -> Any:
    return positive(x)[:, None] * positive(x)[None]


def _gradient(function: Function) -> Function:
    def compute(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return compute


_SLICES: Final = {
    "[-2:]": lambda p: p[-2:],
    "[-1:]": lambda p: p[-1:],
    "[-9:]": lambda p: p[-9:],
    "[-3:-1]": lambda p: p[-3:-1],
    "[-2:2]": lambda p: p[-2:2],
    "[1:-1]": lambda p: p[1:-1],
    "[2:]": lambda p: p[2:],
    "[2:4]": lambda p: p[2:4],
    "[5:3]": lambda p: p[5:3],
    "[9:]": lambda p: p[9:],
    "[:-1]": lambda p: p[:-1],
    "[:-3]": lambda p: p[:-3],
    "[::-1]": lambda p: p[::-1],
    "[::2]": lambda p: p[::2],
    "[1::3]": lambda p: p[1::3],
    "[::-2]": lambda p: p[::-2],
    "[-2::-1]": lambda p: p[-2::-1],
    "[-2:0:-1]": lambda p: p[-2:0:-1],
    "[3::-1]": lambda p: p[3::-1],
    "[:-3:-1]": lambda p: p[:-3:-1],
    "[4:-4:-2]": lambda p: p[4:-4:-2],
    "[None, -2:]": lambda p: p[None, -2:],
    "[-2:, None]": lambda p: p[-2:, None],
    "[..., None]": lambda p: p[..., None],
}
SLICES: Final[Group] = {
    name: (lambda f: lambda x: f(positive(x)))(function) for name, function in _SLICES.items()
}
SLICES_OF_64_BITS: Final[Group] = {
    "[-2:]": lambda x: positive(x)[tf.constant(-2, tf.int64) :],
    "[:-1]": lambda x: positive(x)[: tf.constant(-1, tf.int64)],
    "[:far]": lambda x: positive(x)[: tf.constant(2**40, tf.int64)],
    "[n:]": lambda x: x[tf.size(positive(x), out_type=tf.int64) :],
}
GRADIENTS_OF_SLICES: Final[Group] = {
    name: _gradient(
        (lambda f: lambda x: tf.reduce_sum(f(positive(x)) ** 2) + tf.reduce_sum(x))(function)
    )
    for name, function in _SLICES.items()
}
COMPUTED_INDICES: Final[Group] = {
    "[n-2:]": lambda x: positive(x)[tf.maximum(count(x) - 2, 0) :],
    "[:n-1]": lambda x: positive(x)[: count(x) - 1],
    "[1:n]": lambda x: positive(x)[1 : count(x)],
    "[:2n]": lambda x: positive(x)[: 2 * count(x)],
    "[-n:]": lambda x: positive(x)[-count(x) :],
    "[::-1][:n]": lambda x: positive(x)[::-1][: count(x)],
    "known[n:]": lambda x: x[count(x) :],
    "known[:n]": lambda x: x[: count(x)],
    "known[:2n]": lambda x: x[: 2 * count(x)],
    "known[2:2n]": lambda x: x[2 : 2 * count(x)],
    "known[-n:]": lambda x: x[-count(x) :],
    "known[n::-1]": lambda x: x[count(x) :: -1],
    "known[::2][:n]": lambda x: x[::2][: count(x)],
    "slice": lambda x: tf.slice(x, [1], [tf.minimum(count(x), 3)]),
    "slice of computed size": lambda x: tf.slice(positive(x), [0], [tf.minimum(count(x), 2)]),
    "slice from n": lambda x: tf.slice(x, [count(x)], [-1]),
    "slice to the end": lambda x: tf.slice(positive(x), [0], [-1]),
    "added to what has that size": lambda x: x[: count(x)] + positive(x),
    "gradient": _gradient(lambda x: tf.reduce_sum(x[count(x) :] ** 2) + tf.reduce_sum(x)),
    "gradient of concat": _gradient(lambda x: tf.reduce_sum(tf.concat([positive(x), x], 0) ** 2)),
}
ARRAYS: Final[Group] = {
    "roll 1": lambda x: tf.roll(positive(x), 1, 0),
    "roll -1": lambda x: tf.roll(positive(x), -1, 0),
    "roll 9": lambda x: tf.roll(positive(x), 9, 0),
    "gradient of roll": _gradient(
        lambda x: tf.reduce_sum(tf.roll(positive(x), 1, 0) * positive(x))
    ),
    "ones_like": lambda x: tf.ones_like(positive(x)),
    "sum of ones_like": lambda x: tf.reduce_sum(tf.ones_like(positive(x))),
    "zeros_like": lambda x: tf.zeros_like(positive(x)),
    "fill": lambda x: tf.fill([count(x), 2], 3.0),
    "ones": lambda x: tf.ones(tf.shape(positive(x))) + positive(x),
    "shapes": lambda x: tf.shape_n([positive(x), x]),
    "range": lambda x: tf.range(count(x)),
    "range from": lambda x: tf.range(1, count(x) + 1),
    "range down": lambda x: tf.range(count(x), 0, -1),
    "range down by 2": lambda x: tf.range(count(x), 0, -2),
    "range by 2": lambda x: tf.range(0, count(x), 2),
    "range between": lambda x: tf.range(count(x), 2 * count(x)),
    "range of floats": lambda x: tf.range(tf.cast(count(x), tf.float32)),
    "tile": lambda x: tf.tile(positive(x)[:, None], [2, 2]),
    "repeat": lambda x: tf.repeat(positive(x), 2),
    "pad": lambda x: tf.pad(positive(x), [[1, 2]], constant_values=7.0),
    "concat": lambda x: tf.concat([positive(x), x, positive(-x), positive(x)], 0),
    "stack": lambda x: tf.stack([positive(x), positive(x) + 1], 1),
    "unstack": lambda x: tf.unstack(tf.stack([positive(x), positive(x) + 1]))[1],
    "split": lambda x: tf.split(tf.stack([positive(x), positive(x) + 1]), 2),
    "reverse": lambda x: tf.reverse(positive(x), [-1]),
    "gather": lambda x: tf.gather(positive(x), tf.range(count(x))),
    "gather_nd": lambda x: tf.gather_nd(positive(x), tf.range(count(x))[:, None]),
    "broadcast": lambda x: tf.broadcast_to(positive(x), [2, count(x)]),
    "broadcast from one": lambda x: tf.broadcast_to(x[:1], [count(x)]),
    "reshape": lambda x: tf.reshape(outer(x), [-1]),
    "transpose": lambda x: tf.transpose(positive(x)[:, None] * tf.ones([1, 2])),
    "scatter": lambda x: tf.tensor_scatter_nd_add(x, tf.where(x > 1), tf.boolean_mask(x, x > 1)),
    "mask of a mask": lambda x: positive(positive(positive(x) - 1)),
    "where of where": lambda x: tf.where(positive(x) > 1),
    "cast": lambda x: tf.cast(positive(x), tf.int64),
    "bitcast": lambda x: tf.bitcast(positive(x), tf.uint8),
}
UNIQUE: Final[Group] = {
    "unique": lambda x: tf.unique(positive(x)),
    "of unique": lambda x: tf.unique(tf.unique(x).y),
    "the last": lambda x: tf.unique(x).y[-1],
    "reversed": lambda x: tf.unique(x).y[::-1],
    "along an axis": lambda x: tf.raw_ops.UniqueV2(x=positive(x), axis=[0])[:2],
    "of integers": lambda x: tf.unique(whole(x), out_idx=tf.int64),
}
REDUCTIONS: Final[Group] = {
    "sum": lambda x: tf.reduce_sum(positive(x)),
    "mean": lambda x: tf.reduce_mean(positive(x)),
    "variance": lambda x: tf.math.reduce_variance(positive(x)),
    "product": lambda x: tf.reduce_prod(positive(x)),
    "max": lambda x: tf.reduce_max(positive(x)),
    "min": lambda x: tf.reduce_min(positive(x)),
    "logsumexp": lambda x: tf.reduce_logsumexp(positive(x)),
    "all": lambda x: tf.reduce_all(positive(x) > 1),
    "any": lambda x: tf.reduce_any(positive(x) > 2),
    "count_nonzero": lambda x: tf.math.count_nonzero(positive(x) - 1),
    "l2_loss": lambda x: tf.nn.l2_loss(positive(x)),
    "dot": lambda x: tf.tensordot(positive(x), positive(x), 1),
    "matmul": lambda x: positive(x)[None] @ positive(x)[:, None],
    "einsum": lambda x: tf.einsum("i,j->ij", positive(x), positive(x)),
    "cumsum": lambda x: tf.cumsum(positive(x)),
    "cumsum reversed": lambda x: tf.cumsum(positive(x), reverse=True),
    "cumsum exclusive": lambda x: tf.cumsum(positive(x), exclusive=True),
    "cumsum both": lambda x: tf.cumsum(positive(x), exclusive=True, reverse=True),
    "cumprod exclusive": lambda x: tf.math.cumprod(positive(x), exclusive=True),
    "cumulative_logsumexp": lambda x: tf.math.cumulative_logsumexp(positive(x)),
    "sort": lambda x: tf.sort(positive(x), direction="DESCENDING"),
    "argsort": lambda x: tf.argsort(positive(x), stable=True),
    "softmax": lambda x: tf.nn.softmax(positive(x)),
    "log_softmax": lambda x: tf.nn.log_softmax(positive(x)),
    "moments": lambda x: tf.nn.moments(positive(x), [0]),
    "one_hot": lambda x: tf.one_hot(whole(x), 4, axis=0),
    "segment": lambda x: tf.math.unsorted_segment_mean(positive(x), whole(x) % 3, 3),
    "segments": lambda x: tf.math.unsorted_segment_sum(x, tf.cast(x, tf.int32), count(x) + 5),
    "bincount": lambda x: tf.math.bincount(whole(x), minlength=5, maxlength=5),
    "searchsorted": lambda x: tf.searchsorted(tf.sort(positive(x)), [1.5]),
    "bucketize": lambda x: tf.raw_ops.Bucketize(input=positive(x), boundaries=[1.5, 2.5]),
    "equality of unlike bounds": lambda x: positive(x) == positive(tf.concat([x, [-1.0]], 0)),
    "partition": lambda x: tf.dynamic_partition(positive(x), whole(x) % 3, 3),
    "loop": lambda x: tf.while_loop(
        lambda i, a: i < count(x), lambda i, a: (i + 1, a + positive(x)[-1 - i]), (0, 0.0)
    )[1],
    "gradient of mean": _gradient(lambda x: tf.reduce_mean(positive(x) ** 2)),
    "gradient of softmax": _gradient(lambda x: tf.reduce_sum(tf.nn.softmax(positive(x)) ** 2)),
    "gradient of cumsum": _gradient(lambda x: tf.reduce_sum(tf.cumsum(positive(x)) ** 2)),
    "gradient of max": _gradient(lambda x: tf.reduce_max(positive(x))),
    "gradient of outer": _gradient(lambda x: tf.reduce_sum(outer(x) ** 2)),
    "gradient of reverse": _gradient(lambda x: tf.reduce_sum(positive(x)[::-1] * positive(x))),
}
OF_MATRICES: Final[Group] = {
    "[-2:]": lambda x: rows(x)[-2:],
    "[:, -1]": lambda x: rows(x)[:, -1],
    "[::-1]": lambda x: rows(x)[::-1],
    "[:, ::-1]": lambda x: rows(x)[:, ::-1],
    "[:-1, -2:]": lambda x: rows(x)[:-1, -2:],
    "[..., -2:]": lambda x: rows(x)[..., -2:],
    "[-2:, None, ::2]": lambda x: rows(x)[-2:, None, ::2],
    "[::2, 0]": lambda x: rows(x)[::2, 0],
    "transposed": lambda x: tf.transpose(rows(x))[-2:, -2:],
    "flat": lambda x: tf.reshape(rows(x), [-1])[-3:],
    "roll": lambda x: tf.roll(rows(x), [1, 1], [0, 1]),
    "cumsum": lambda x: tf.cumsum(rows(x), 0, exclusive=True),
    "mean": lambda x: tf.reduce_mean(rows(x), 0),
    "softmax": lambda x: tf.nn.softmax(rows(x), 0),
    "reshape": lambda x: tf.reshape(tf.transpose(rows(x)), [-1, 2]),
    "where": lambda x: tf.where(rows(x) > 5)[-3:],
    "unstack": lambda x: tf.unstack(rows(x), axis=1),
    "split": lambda x: tf.split(rows(x), 2, 1),
    "top_k": lambda x: tf.math.top_k(rows(x), 2),
    "argmax": lambda x: tf.argmax(rows(x), 1),
    "diag": lambda x: tf.linalg.diag(rows(x)),
    "diag_part": lambda x: tf.linalg.diag_part(tf.reshape(rows(x), [-1, 2, 2])),
    "band_part": lambda x: tf.linalg.band_part(tf.reshape(rows(x), [-1, 2, 2]), 0, -1),
    "reverse_sequence": lambda x: tf.reverse_sequence(
        rows(x), tf.fill([tf.shape(rows(x))[0]], 2), 1
    ),
    "resize": lambda x: tf.image.resize(tf.reshape(rows(x), [-1, 2, 2, 1]), [3, 3]),
    "attention": lambda x: tf.nn.softmax(rows(x) @ tf.transpose(rows(x))) @ rows(x),
    "gradient of the last": _gradient(lambda x: tf.reduce_sum(tf.transpose(rows(x))[:, -1:] ** 2)),
    "gradient of flat": _gradient(lambda x: tf.reduce_sum(tf.reshape(rows(x), [-1])[-3:] ** 2)),
    "gradient of concat": _gradient(lambda x: tf.reduce_sum(tf.concat([rows(x), x], 0) ** 2)),
}

GROUPS: Final[dict[str, tuple[Group, tuple[np.ndarray, ...]]]] = {
    "slices": (SLICES, VECTORS),
    "slices_of_64_bits": (SLICES_OF_64_BITS, VECTORS),
    "gradients_of_slices": (GRADIENTS_OF_SLICES, VECTORS),
    "computed_indices": (COMPUTED_INDICES, VECTORS),
    "arrays": (ARRAYS, VECTORS),
    "unique": (UNIQUE, VECTORS),
    "reductions": (REDUCTIONS, VECTORS),
    "map_fn": ({"map_fn": lambda x: tf.map_fn(lambda a: a * 2, positive(x))}, VECTORS),
    "foldl": ({"foldl": lambda x: tf.foldl(lambda a, b: a - b, positive(x), 0.0)}, VECTORS),
    "matrices": (OF_MATRICES, MATRICES),
}

# Functions that are an error if there are too few elements, on every device.
ERRORS: Final[Group] = {
    "[-1]": lambda x: positive(x)[-1],
    "[0]": lambda x: positive(x)[0],
    "[-2]": lambda x: positive(x)[-2],
    "[2]": lambda x: positive(x)[2],
    "slice": lambda x: tf.slice(positive(x), [1], [-1]),
    "slice of two": lambda x: tf.slice(positive(x), [0], [2]),
    "slice from one": lambda x: tf.slice(positive(x), [1], [2]),
    "slice past the end": lambda x: tf.slice(x, [3], [count(x)]),
    "gather": lambda x: tf.gather(positive(x), [0]),
    "top_k": lambda x: tf.math.top_k(positive(x), 2),
    "argmax": lambda x: tf.argmax(positive(x)),
}

# Functions that TensorFlow's bridge would give wrong numbers for, and the op that is named.
REFUSED: Final[dict[str, Function]] = {
    "MirrorPad": lambda x: tf.pad(positive(x), [[1, 1]], "REFLECT"),
    "ReverseSequence": lambda x: tf.reverse_sequence(positive(x)[None], [1], seq_axis=1),
    "MatrixDiagV3": lambda x: tf.linalg.diag(positive(x)),
    "MatrixDiagPartV3": lambda x: tf.linalg.diag_part(outer(x)),
    "MatrixBandPart": lambda x: tf.linalg.band_part(outer(x), 0, -1),
    "MatrixSetDiagV3": lambda x: tf.linalg.set_diag(outer(x), positive(x)),
    "Diag": lambda x: tf.raw_ops.Diag(diagonal=positive(x)),
    "Tile": lambda x: tf.tile(x[:2], [count(x)]),
    "InTopKV2": lambda x: tf.math.in_top_k([0], positive(x)[None], 2),
    "BroadcastArgs": lambda x: tf.broadcast_dynamic_shape(tf.shape(positive(x)), tf.shape(x[:1])),
    "ResizeBilinear": lambda x: tf.image.resize(positive(x)[None, :, None, None], [4, 1]),
    "EnsureShape": lambda x: tf.ensure_shape(positive(x), [7]),
    "RandomShuffle": lambda x: tf.random.shuffle(positive(x)),
    "AvgPool": lambda x: tf.nn.avg_pool1d(positive(x)[None, :, None], 2, 1, "SAME"),
    "Conv2D": lambda x: tf.nn.conv1d(positive(x)[None, :, None], tf.ones([2, 1, 1]), 1, "SAME"),
    "FFT": lambda x: tf.signal.fft(tf.cast(positive(x), tf.complex64)),
    "Cholesky": lambda x: tf.linalg.cholesky(outer(x)),
    "Range": lambda x: tf.range(tf.cast(count(x), tf.float32), 0.0, -1.0),
    "InvertPermutation": lambda x: tf.math.invert_permutation(tf.range(count(x))),
}
