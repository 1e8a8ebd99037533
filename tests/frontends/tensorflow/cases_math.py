"""Elementwise mathematics, reductions, scans, segments and special functions."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from .cases import (
    COMPLEX,
    FLOATS,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    WIDE,
    Table,
    distinct,
    given,
    positive,
    truth,
    whole,
    x,
)

TABLE: Final = Table()
add = TABLE.add

# One operand.
add("abs", tf.abs, x(3, 37), dtypes=(*FLOATS, *SIGNED, *COMPLEX))
add("negative", tf.negative, x(3, 37), dtypes=(*FLOATS, *SIGNED, *COMPLEX))
add("sign", tf.sign, x(3, 37), dtypes=(*FLOATS, "int32", "int64"))
add("square", tf.square, x(3, 37), dtypes=(*FLOATS, "int32", "int64", *COMPLEX))
add("reciprocal", tf.math.reciprocal, positive(3, 37), dtypes=FLOATS)
add("exp", tf.exp, x(3, 37), dtypes=(*FLOATS, *COMPLEX))
add("expm1", tf.math.expm1, x(3, 37), dtypes=FLOATS)
add("log", tf.math.log, positive(3, 37), dtypes=(*FLOATS, *COMPLEX))
add("log1p", tf.math.log1p, positive(3, 37), dtypes=FLOATS)
add("sqrt", tf.sqrt, positive(3, 37), dtypes=(*FLOATS, *COMPLEX))
add("rsqrt", tf.math.rsqrt, positive(3, 37), dtypes=FLOATS)
add("sin", tf.sin, x(3, 37), dtypes=(*FLOATS, *COMPLEX))
add("cos", tf.cos, x(3, 37), dtypes=(*FLOATS, *COMPLEX))
add("tan", tf.tan, x(3, 37, low=-1, high=1), dtypes=FLOATS)
add("asin", tf.asin, x(3, 37, low=-0.9, high=0.9), dtypes=WIDE)
add("acos", tf.acos, x(3, 37, low=-0.9, high=0.9), dtypes=WIDE)
add("atan", tf.atan, x(3, 37), dtypes=FLOATS)
add("sinh", tf.sinh, x(3, 37), dtypes=WIDE)
add("cosh", tf.cosh, x(3, 37), dtypes=WIDE)
add("tanh", tf.tanh, x(3, 37), dtypes=(*FLOATS, "complex64"))
add("asinh", tf.asinh, x(3, 37), dtypes=WIDE, tolerance=128)
add("acosh", lambda a: tf.acosh(a + 1), positive(3, 37), dtypes=WIDE)
add("atanh", tf.atanh, x(3, 37, low=-0.9, high=0.9), dtypes=WIDE)
add("sigmoid", tf.sigmoid, x(3, 37), dtypes=FLOATS)
add("erf", tf.math.erf, x(3, 37), dtypes=FLOATS)
add("erfc", tf.math.erfc, x(3, 37), dtypes=WIDE)
add("erfinv", tf.math.erfinv, x(3, 37, low=-0.9, high=0.9), dtypes=WIDE)
add("ndtri", tf.math.ndtri, given([0.1, 0.4, 0.5, 0.9]), dtypes=WIDE)
add("lgamma", tf.math.lgamma, positive(3, 37), dtypes=WIDE, tolerance=64)
add("digamma", tf.math.digamma, positive(3, 37), dtypes=WIDE, tolerance=64)
add("bessel_i0e", tf.math.bessel_i0e, x(3, 37))
add("bessel_i1e", tf.math.bessel_i1e, x(3, 37))
add("floor", tf.floor, x(3, 37), dtypes=FLOATS)
add("ceil", tf.math.ceil, x(3, 37), dtypes=FLOATS)
add("round", tf.round, x(3, 37), dtypes=(*FLOATS, "int32"))
add("rint", tf.math.rint, x(3, 37), dtypes=WIDE)
add("is_nan", tf.math.is_nan, given([1, float("nan"), float("inf")]), dtypes=FLOATS)
add("is_inf", tf.math.is_inf, given([1, float("nan"), float("inf")]), dtypes=FLOATS)
add("is_finite", tf.math.is_finite, given([1, float("nan"), float("inf")]), dtypes=FLOATS)
add("logical_not", tf.logical_not, truth(3, 7))
add("invert", tf.bitwise.invert, x(3, 7), dtypes=(*SIGNED, *UNSIGNED))
add("real", tf.math.real, x(3, 7), dtypes=COMPLEX)
add("imag", tf.math.imag, x(3, 7), dtypes=COMPLEX)
add("conj", tf.math.conj, x(3, 7), dtypes=COMPLEX)
add("angle", tf.math.angle, x(3, 7), dtypes=COMPLEX)
add("softplus", tf.math.softplus, x(3, 37), dtypes=FLOATS)
add("softsign", tf.nn.softsign, x(3, 37), dtypes=FLOATS)
add("nan_min", lambda a: tf.minimum(a, 1.0), given([float("nan"), 0.5, 2.0]))
add("log_sigmoid", tf.math.log_sigmoid, x(3, 37), dtypes=WIDE)
add("xlogy", tf.math.xlogy, x(3, 5), positive(3, 5), dtypes=WIDE)
add("xlog1py", tf.math.xlog1py, x(3, 5), positive(3, 5), dtypes=WIDE)
add("xdivy", tf.math.xdivy, x(3, 5), positive(3, 5), dtypes=WIDE)
add("multiply_no_nan", tf.math.multiply_no_nan, x(3, 5), x(3, 5), dtypes=WIDE)
add("divide_no_nan", tf.math.divide_no_nan, x(4), given([1, 0, 2, 0]), dtypes=WIDE)

# Two operands.
_ALL = (*FLOATS, *SIGNED, *UNSIGNED, *COMPLEX)
add("add", tf.add, x(3, 37), x(3, 37), dtypes=_ALL)
add("add_broadcast", tf.add, x(3, 1, 5), x(7, 1), dtypes=NUMBERS)
add("subtract", tf.subtract, x(3, 37), x(3, 37), dtypes=_ALL)
add("multiply", tf.multiply, x(3, 37), x(3, 37), dtypes=_ALL)
add("divide", tf.divide, x(3, 37), positive(3, 37), dtypes=(*FLOATS, "int32", *COMPLEX))
add("floordiv", tf.math.floordiv, x(3, 37), positive(3, 37), dtypes=(*WIDE, "int32", "int64"))
add("floormod", tf.math.floormod, x(3, 37), positive(3, 37), dtypes=(*WIDE, "int32", "int64"))
add("truncatediv", tf.truncatediv, x(3, 37), positive(3, 37), dtypes=("int32", "int64"))
add("truncatemod", tf.truncatemod, x(3, 37), positive(3, 37), dtypes=("int32", *WIDE))
add("pow", tf.pow, positive(3, 37), x(3, 37), dtypes=FLOATS, tolerance=64)
add("pow_integer", tf.pow, x(3, 7), whole(3, 7, high=4), dtypes=("int32",))
add("atan2", tf.atan2, x(3, 37), x(3, 37), dtypes=WIDE)
add("maximum", tf.maximum, x(3, 37), x(3, 37), dtypes=(*FLOATS, *SIGNED, *UNSIGNED))
add("minimum", tf.minimum, x(3, 37), x(3, 37), dtypes=(*FLOATS, *SIGNED, *UNSIGNED))
add("squared_difference", tf.math.squared_difference, x(3, 37), x(3, 37), dtypes=NUMBERS)
add("complex", tf.complex, x(3, 7), x(3, 7), dtypes=WIDE)
add("nextafter", tf.math.nextafter, x(3, 7), x(3, 7), dtypes=WIDE)
add("igamma", tf.math.igamma, positive(3, 7), positive(3, 7), tolerance=256)
add("igammac", tf.math.igammac, positive(3, 7), positive(3, 7), tolerance=256)
add("zeta", tf.math.zeta, given([2.5, 3.0, 4.0]), given([1.0, 2.0, 1.5]), tolerance=64)
add("polygamma", tf.math.polygamma, given([1.0, 2.0]), given([1.5, 2.0]), tolerance=128)
add("betainc", tf.math.betainc, positive(5), positive(5), x(5, low=0.1, high=0.9), tolerance=256)
for _name in ("equal", "not_equal"):
    add(_name, getattr(tf, _name), x(3, 37), x(3, 37), dtypes=(*_ALL, "bool"))
for _name in ("less", "less_equal", "greater", "greater_equal"):
    add(_name, getattr(tf, _name), x(3, 37), x(3, 37), dtypes=(*FLOATS, *SIGNED, *UNSIGNED))
add("approximate_equal", lambda a: tf.raw_ops.ApproximateEqual(x=a, y=a + 1e-6), x(3, 5))
for _name in ("logical_and", "logical_or"):
    add(_name, getattr(tf, _name), truth(3, 7), truth(3, 7))
add("logical_xor", tf.math.logical_xor, truth(3, 7), truth(3, 7))
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    add(_name, getattr(tf.bitwise, _name), x(3, 7), x(3, 7), dtypes=(*SIGNED, *UNSIGNED))
add("left_shift", tf.bitwise.left_shift, x(3, 7), positive(3, 7), dtypes=("int32", "uint8"))
add("right_shift", tf.bitwise.right_shift, x(3, 7), positive(3, 7), dtypes=("int32", "uint8"))

# Three operands and more.
add("clip_by_value", lambda a: tf.clip_by_value(a, -1, 1), x(3, 37), dtypes=("float32", "int32"))
add("clip_by_norm", lambda a: tf.clip_by_norm(a, 1.0), x(3, 37))
add("clip_by_global_norm", lambda a, b: tf.clip_by_global_norm([a, b], 1.0), x(3, 5), x(7))
add("global_norm", lambda a, b: tf.linalg.global_norm([a, b]), x(3, 5), x(7))
add("add_n", lambda a, b, c: tf.add_n([a, b, c]), x(3, 5), x(3, 5), x(3, 5), dtypes=NUMBERS)
add("lerp", lambda a, b: a + 0.3 * (b - a), x(3, 5), x(3, 5))
add("where_select", tf.where, truth(3, 7), x(3, 7), x(3, 7), dtypes=NUMBERS)
add("where_broadcast", tf.where, truth(3, 1), x(3, 7), x(1, 7), dtypes=NUMBERS)

# Reductions.
for _name in ("sum", "mean", "max", "min", "prod"):
    _reduce = getattr(tf, f"reduce_{_name}")
    add(
        f"reduce_{_name}_all", _reduce, x(3, 37), dtypes=("float32", "float64", "int32", "bfloat16")
    )
    add(f"reduce_{_name}_axis", lambda a, r=_reduce: r(a, axis=1), x(3, 37), dtypes=NUMBERS)
    add(f"reduce_{_name}_axes", lambda a, r=_reduce: r(a, axis=[0, 2], keepdims=True), x(3, 5, 7))
add("reduce_any", lambda a: tf.reduce_any(a, axis=0), truth(3, 7))
add("reduce_all", lambda a: tf.reduce_all(a, axis=1), truth(3, 7))
add("reduce_std", lambda a: tf.math.reduce_std(a, axis=1), x(3, 37), dtypes=WIDE)
add("reduce_variance", lambda a: tf.math.reduce_variance(a, axis=0), x(3, 37), dtypes=WIDE)
add("reduce_logsumexp", lambda a: tf.reduce_logsumexp(a, axis=1), x(3, 37), dtypes=WIDE)
add(
    "reduce_euclidean_norm", lambda a: tf.math.reduce_euclidean_norm(a, axis=1), x(3, 37), jit=False
)
add("reduce_empty", lambda a: tf.reduce_sum(a, axis=0), x(0, 5))
add("reduce_by_tensor", tf.reduce_sum, x(3, 5), given([0], "int32"))  # the axis is data: see jit
add("count_nonzero", tf.math.count_nonzero, x(3, 7), dtypes=("int32", "float32"))
add("argmax", lambda a: tf.argmax(a, axis=1), distinct(3, 37), dtypes=NUMBERS)
add("argmin", lambda a: tf.argmin(a, axis=0), distinct(3, 37), dtypes=NUMBERS)
add("argmax_int32", lambda a: tf.argmax(a, 1, tf.int32), distinct(3, 7))

# Scans.
add("cumsum", lambda a: tf.cumsum(a, axis=1), x(3, 37), dtypes=NUMBERS)
add("cumsum_reverse", lambda a: tf.cumsum(a, reverse=True, exclusive=True), x(3, 5), dtypes=NUMBERS)
add("cumprod", lambda a: tf.math.cumprod(a, axis=1), x(3, 7), dtypes=("float32", "int32"))
add("cumulative_logsumexp", lambda a: tf.math.cumulative_logsumexp(a, axis=1), x(3, 7))

# Segments and bins.
_IDS = given([0, 0, 1, 3, 3, 3], "int32")
_UNSORTED = given([3, 0, 1, 0, 3, -1], "int32")
for _name in ("sum", "mean", "max", "min", "prod"):
    _segment = getattr(tf.math, f"segment_{_name}")
    add(f"segment_{_name}", _segment, x(6, 5), _IDS, jit=False)
    _unsorted = getattr(tf.math, f"unsorted_segment_{_name}")
    add(
        f"unsorted_segment_{_name}",
        lambda a, i, s=_unsorted: s(a, i, num_segments=5),
        x(6, 5),
        _UNSORTED,
        dtypes=("float32", "float64"),
    )
add("bincount", lambda i: tf.math.bincount(i, minlength=8, maxlength=8), whole(40, high=8))
add("bincount_weights", lambda i, w: tf.math.bincount(i, w, 8, 8), whole(9, high=8), x(9))
add("histogram", lambda a: tf.histogram_fixed_width(a, [-2.0, 2.0], nbins=5), x(100), jit=False)
add("searchsorted", lambda s, v: tf.searchsorted(s, v), given([1.0, 2, 3, 4]), x(9, low=0, high=5))
add("in_top_k", lambda p, t: tf.math.in_top_k(t, p, 2), distinct(4, 7), whole(4, high=7))
add("top_k", lambda a: tf.math.top_k(a, 3), distinct(4, 17), dtypes=("float32", "int32"))
add("approx_max_k", lambda a: tf.math.approx_max_k(a, 4)[0], distinct(2, 64), jit=True)
add("confusion_matrix", lambda a, b: tf.math.confusion_matrix(a, b, 4), whole(20), whole(20))
add("is_strictly_increasing", tf.math.is_strictly_increasing, given([1.0, 2, 2]), jit=False)
add("l2_normalize", lambda a: tf.math.l2_normalize(a, axis=1), x(3, 37), dtypes=WIDE)
add("zero_fraction", tf.math.zero_fraction, given([0.0, 1, 0, 2]))
add("accumulate_n", lambda a, b: tf.math.accumulate_n([a, b]), x(3, 5), x(3, 5))
add("sobol", lambda: tf.math.sobol_sample(3, 8))
add("special_dawsn", tf.math.special.dawsn, x(3, 5), jit=False)
add("special_expint", tf.math.special.expint, positive(3, 5), jit=False)
