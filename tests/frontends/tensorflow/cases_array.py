"""Making, moving, cutting and joining arrays: gather, scatter, sort, pad, quantise."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from .cases import ANY, FLOATS, NUMBERS, SIGNED, Table, distinct, given, truth, whole, x

TABLE: Final = Table()
add = TABLE.add

# Making.
add("fill", lambda a: tf.fill([3, 5], a[0]), x(1), dtypes=NUMBERS)
add("constant", lambda a: tf.constant([3], shape=(2, 5), dtype=a.dtype), x(1), dtypes=NUMBERS)
add("zeros_like", tf.zeros_like, x(3, 5), dtypes=ANY)
add("ones_like", tf.ones_like, x(3, 5), dtypes=ANY)
add("range", lambda: tf.range(3, 18, 3))
add("range_float", lambda: tf.range(0.0, 1.0, 0.25))
add("linspace", lambda: tf.linspace(0.0, 1.0, 7))
add("eye", lambda: tf.eye(4, 5, batch_shape=[2]))
add("one_hot", lambda i: tf.one_hot(i, 6), whole(3, 5, high=6))
add("one_hot_values", lambda i: tf.one_hot(i, 4, 5.0, -1.0, axis=0), whole(5, high=6))
add("sequence_mask", lambda n: tf.sequence_mask(n, 7), whole(5, high=8))
add("meshgrid", lambda a, b: tf.meshgrid(a, b), x(3), x(5), dtypes=("float32", "int32"))
add("shape", tf.shape, x(3, 5))
add("size", tf.size, x(3, 5))
add("rank", tf.rank, x(3, 5))
add("identity", tf.identity, x(3, 5), dtypes=ANY)
add("stop_gradient", tf.stop_gradient, x(3, 5))

# Dtypes.
for _to in ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool", "float64"):
    add(f"cast_{_to}", lambda a, t=_to: tf.cast(a, t), x(3, 7, low=0), dtypes=ANY[:-1])
add("cast_complex", lambda a: tf.cast(a, tf.complex64), x(3, 7), dtypes=("float32", "int32"))
add("bitcast", lambda a: tf.bitcast(a, tf.int32), x(3, 7))
add("bitcast_narrow", lambda a: tf.bitcast(a, tf.uint8), x(3, 7), dtypes=("float32", "int32"))
add("saturate_cast", lambda a: tf.saturate_cast(a, tf.uint8), x(3, 7, low=-200, high=400))

# Shapes.
add("reshape", lambda a: tf.reshape(a, [5, -1]), x(3, 5, 2), dtypes=ANY)
add("expand_dims", lambda a: tf.expand_dims(a, 1), x(3, 5), dtypes=ANY)
add("squeeze", tf.squeeze, x(3, 1, 5, 1), dtypes=ANY)
add("transpose", tf.transpose, x(3, 5, 7), dtypes=(*ANY, "float16", "float64"))
add("transpose_permutation", lambda a: tf.transpose(a, [0, 2, 1, 3]), x(2, 3, 4, 5), dtypes=ANY)
add("broadcast_to", lambda a: tf.broadcast_to(a, [2, 3, 5]), x(3, 1), dtypes=ANY)
add("tile", lambda a: tf.tile(a, [2, 3]), x(3, 5), dtypes=ANY)
add("repeat", lambda a: tf.repeat(a, 3, axis=1), x(3, 5), dtypes=NUMBERS)
add("roll", lambda a: tf.roll(a, [1, -2], [0, 1]), x(3, 5), dtypes=NUMBERS)
add("reverse", lambda a: tf.reverse(a, [0, 2]), x(3, 5, 7), dtypes=ANY)
add("reverse_sequence", lambda a, n: tf.reverse_sequence(a, n, 1), x(3, 5), whole(3, high=6))
add("flatten_rows", lambda a: tf.reshape(a, [tf.shape(a)[0], -1]), x(3, 5, 2))

# Joining and cutting.
add("concat", lambda a, b: tf.concat([a, b], 1), x(3, 5), x(3, 2), dtypes=ANY)
add("stack", lambda a, b: tf.stack([a, b], 1), x(3, 5), x(3, 5), dtypes=ANY)
add("unstack", lambda a: tf.unstack(a, axis=1), x(3, 5), dtypes=NUMBERS)
add("split", lambda a: tf.split(a, 3, axis=1), x(2, 9), dtypes=ANY)
add("split_sizes", lambda a: tf.split(a, [2, 3, 4], axis=1), x(2, 9), dtypes=NUMBERS)
add("slice", lambda a: tf.slice(a, [1, 0], [2, 3]), x(4, 5), dtypes=ANY)
add("strided_slice", lambda a: a[1:7:2, ::-1, None, ..., 0], x(8, 3, 5), dtypes=ANY)
add("slice_by_value", lambda a, i: a[i[0]], x(4, 5), whole(1), dtypes=NUMBERS)
add("pad", lambda a: tf.pad(a, [[1, 2], [0, 3]]), x(3, 5), dtypes=ANY[:-2])
add(
    "pad_constant",
    lambda a: tf.pad(a, [[1, 2], [0, 3]], constant_values=7),
    x(3, 5),
    dtypes=NUMBERS,
)
add("pad_reflect", lambda a: tf.pad(a, [[1, 2], [2, 1]], "REFLECT"), x(4, 5), dtypes=NUMBERS)
add("pad_symmetric", lambda a: tf.pad(a, [[1, 2], [2, 1]], "SYMMETRIC"), x(4, 5), dtypes=NUMBERS)
add("space_to_batch", lambda a: tf.space_to_batch(a, [2, 2], [[0, 0], [2, 0]]), x(1, 4, 6, 3))
add("batch_to_space", lambda a: tf.batch_to_space(a, [2, 2], [[0, 0], [1, 0]]), x(4, 3, 2, 3))
add("space_to_depth", lambda a: tf.nn.space_to_depth(a, 2), x(1, 4, 6, 3))
add("depth_to_space", lambda a: tf.nn.depth_to_space(a, 2), x(1, 2, 3, 8))
add(
    "extract_patches",
    lambda a: tf.image.extract_patches(a, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"),
    x(1, 5, 5, 2),
)
add("diag_from_slices", lambda a: tf.tensor_scatter_nd_update(tf.zeros([5]), [[1], [3]], a), x(2))

# Gathering and scattering.
add("gather", tf.gather, x(7, 5), whole(3, 2, high=7), dtypes=ANY)
add(
    "gather_axis",
    lambda a, i: tf.gather(a, i, axis=1),
    x(3, 7, 2),
    whole(4, high=7),
    dtypes=NUMBERS,
)
add("gather_batch", lambda a, i: tf.gather(a, i, batch_dims=1), x(3, 7), whole(3, 2, high=7))
add("gather_int64", tf.gather, x(7, 5), whole(3, high=7, dtype="int64"))
add("gather_nd", tf.gather_nd, x(4, 4, 3), whole(5, 2), dtypes=ANY)
add("gather_nd_batch", lambda a, i: tf.gather_nd(a, i, batch_dims=1), x(3, 4, 5), whole(3, 2, 1))
add("embedding_lookup", tf.nn.embedding_lookup, x(20, 8), whole(3, 5, high=20))
add(
    "scatter_nd",
    lambda i, u: tf.scatter_nd(i, u, [8, 3]),
    whole(5, 1, high=8),
    x(5, 3),
    dtypes=("float32", "int32"),
)
add(
    "tensor_scatter_update",
    tf.tensor_scatter_nd_update,
    x(8, 3),
    given([[1], [5]], "int32"),
    x(2, 3),
    dtypes=NUMBERS,
)
add("tensor_scatter_add", tf.tensor_scatter_nd_add, x(8), whole(6, 1, high=8), x(6), dtypes=NUMBERS)
add("tensor_scatter_sub", tf.tensor_scatter_nd_sub, x(8), whole(6, 1, high=8), x(6))
add("tensor_scatter_max", tf.tensor_scatter_nd_max, x(8), whole(6, 1, high=8), x(6))
add("tensor_scatter_min", tf.tensor_scatter_nd_min, x(8), whole(6, 1, high=8), x(6))
add("dynamic_stitch", lambda a, b: tf.dynamic_stitch([[0, 2], [1, 3]], [a, b]), x(2, 3), x(2, 3))
add("invert_permutation", tf.math.invert_permutation, given([3, 0, 2, 1], "int32"))
add("boolean_mask_static", lambda a, m: tf.where(m, a, tf.zeros_like(a)), x(5, 3), truth(5, 3))
add("matrix_set_diag", lambda a, d: tf.linalg.set_diag(a, d), x(3, 4, 5), x(3, 4))

# Ordering.
add("sort", lambda a: tf.sort(a, axis=1), x(3, 37), dtypes=(*FLOATS, *SIGNED, "uint8"))
add(
    "sort_descending",
    lambda a: tf.sort(a, direction="DESCENDING"),
    x(3, 37),
    dtypes=("float32", "int32"),
)
add("argsort", lambda a: tf.argsort(a, stable=True), distinct(3, 37), dtypes=("float32", "int32"))
add("sort_axis_0", lambda a: tf.sort(a, axis=0), x(37, 3))

# Quantising.
add("fake_quant", lambda a: tf.quantization.fake_quant_with_min_max_args(a, -1, 1), x(3, 7))
add(
    "fake_quant_vars", lambda a: tf.quantization.fake_quant_with_min_max_vars(a, -1.0, 1.0), x(3, 7)
)
add(
    "quantize_dequantize",
    lambda a: tf.quantization.quantize_and_dequantize_v2(a, -2.0, 2.0, range_given=True),
    x(3, 7),
)
add("bucketize", lambda a: tf.raw_ops.Bucketize(input=a, boundaries=[-1.0, 0.0, 1.0]), x(9))
add(
    "lower_bound",
    lambda s, v: tf.searchsorted(s, v, side="right"),
    given([[1, 3, 5]], "int32"),
    whole(1, 4, high=7),
)

# Results whose shape depends on values: XLA has one with a bound, or no kernel.
add("where", tf.where, truth(4, 5))
add("boolean_mask", tf.boolean_mask, x(7, 3), truth(7), dtypes=ANY)
add("unique", tf.unique, given([4, 2, 4, 7, 2, 1], "int32"))
add("unique_float", lambda a: tf.unique(a)[0], given([1.5, 2.5, 1.5]))
add("unique_with_counts", tf.unique_with_counts, given([4, 2, 4, 7, 2], "int64"), jit=False)
add(
    "dynamic_partition",
    lambda a, p: tf.dynamic_partition(a, p, 3),
    x(7, 2),
    whole(7, high=3),
)
add("repeat_by_value", lambda a, n: tf.repeat(a, n), x(4), whole(4, high=4))
add(
    "setdiff",
    lambda a, b: tf.raw_ops.ListDiff(x=a, y=b),
    given([1, 2, 3, 4], "int32"),
    given([2, 4], "int32"),
    jit=False,
)
add("masked_sum", lambda a, m: tf.reduce_sum(tf.boolean_mask(a, m)), x(7), truth(7))
