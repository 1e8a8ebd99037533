"""Uniformly quantized tensors, and those of the older ops: rounded as on the CPU device."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from .cases import Table, whole, x

TABLE: Final = Table()
op: Final = tf.raw_ops
_LEAST: Final = -(2**31)
_MOST: Final = 2**31 - 1


def add(name: str, function: Any, *makers: Any, **options: Any) -> None:
    TABLE.add(name, function, *makers, **options)


def _range(prefix: str, least: int, most: int) -> dict[str, int]:
    return {f"{prefix}quantization_min_val": least, f"{prefix}quantization_max_val": most}


_SMALL: Final = _range("", -128, 127)


def _quantized(a: Any) -> Any:
    return op.UniformQuantize(input=a, scales=0.05, zero_points=3, Tout=tf.qint8, **_SMALL)


def _wide(a: Any) -> Any:
    return tf.bitcast(tf.cast(tf.bitcast(_quantized(a), tf.int8), tf.int32), tf.qint32)


def _sides(*names: str) -> dict[str, Any]:
    return {f"{n}_scales": 0.05 for n in names} | {f"{n}_zero_points": 3 for n in names}


add("UniformQuantize", lambda a: tf.bitcast(_quantized(a), tf.int8), x(3, 4))
add(
    "UniformQuantize_axis",
    lambda a: tf.bitcast(
        op.UniformQuantize(
            input=a,
            scales=tf.constant([0.05, 0.1, 0.2, 0.03]),
            zero_points=tf.constant([3, 0, -1, 4]),
            Tout=tf.qint8,
            quantization_axis=1,
            **_SMALL,
        ),
        tf.int8,
    ),
    x(3, 4),
)
add(
    "UniformDequantize",
    lambda a: op.UniformDequantize(
        input=tf.bitcast(a, tf.qint8), scales=0.05, zero_points=3, Tout=tf.float32, **_SMALL
    ),
    whole(3, 4, low=-128, high=128, dtype="int8"),
)
add(
    "UniformRequantize",
    lambda a: tf.bitcast(
        op.UniformRequantize(
            input=_quantized(a),
            input_scales=0.05,
            input_zero_points=3,
            output_scales=0.1,
            output_zero_points=-2,
            Tout=tf.qint8,
            **_range("input_", -128, 127),
            **_range("output_", -128, 127),
        ),
        tf.int8,
    ),
    x(3, 4),
    jit=False,
)
add(
    "UniformQuantizedAdd",
    lambda a, b: tf.bitcast(
        op.UniformQuantizedAdd(
            lhs=_wide(a),
            rhs=_wide(b),
            output_scales=0.13,
            output_zero_points=-7,
            **_sides("lhs", "rhs"),
            **_range("lhs_", _LEAST, _MOST),
            **_range("rhs_", _LEAST, _MOST),
            **_range("output_", _LEAST, _MOST),
        ),
        tf.int32,
    ),
    x(3, 4),
    x(3, 4),
    jit=False,
)
add(
    "UniformQuantizedDot",
    lambda a, b: tf.bitcast(
        op.UniformQuantizedDot(
            lhs=_quantized(a),
            rhs=_quantized(b),
            Tout=tf.qint32,
            **_sides("lhs", "rhs", "output"),
            **_range("lhs_", -128, 127),
            **_range("rhs_", -128, 127),
            **_range("output_", _LEAST, _MOST),
        ),
        tf.int32,
    ),
    x(3, 4),
    x(4, 5),
    jit=False,
)
add(
    "UniformQuantizedDotHybrid",
    lambda a, b: op.UniformQuantizedDotHybrid(
        lhs=a, rhs=_quantized(b), Tout=tf.float32, **_sides("rhs"), **_range("rhs_", -128, 127)
    ),
    x(3, 4),
    x(4, 5),
    jit=False,
)
add(
    "UniformQuantizedConvolution",
    lambda a, b: tf.bitcast(
        op.UniformQuantizedConvolution(
            lhs=_quantized(a),
            rhs=_quantized(b),
            Tout=tf.qint32,
            padding="VALID",
            dimension_numbers="",
            **_sides("lhs", "rhs", "output"),
            **_range("lhs_", -128, 127),
            **_range("rhs_", -128, 127),
            **_range("output_", _LEAST, _MOST),
        ),
        tf.int32,
    ),
    x(1, 2, 4, 5),
    x(3, 2, 2, 2),
    jit=False,
)
add(
    "UniformQuantizedClipByValue",
    lambda a: tf.bitcast(
        op.UniformQuantizedClipByValue(
            operand=_wide(a),
            min=tf.bitcast(tf.constant(-5), tf.qint32),
            max=tf.bitcast(tf.constant(7), tf.qint32),
            scales=0.05,
            zero_points=3,
            **_range("", _LEAST, _MOST),
        ),
        tf.int32,
    ),
    x(3, 4),
)
add(
    "QuantizeV2",
    lambda a: tf.bitcast(
        op.QuantizeV2(input=a, min_range=-2.0, max_range=2.0, T=tf.qint8, mode="SCALED")[0], tf.int8
    ),
    x(3, 4),
    jit=False,
)
add(
    "QuantizedMatMul",
    lambda a, b: tf.bitcast(
        op.QuantizedMatMul(
            a=tf.bitcast(a, tf.quint8),
            b=tf.bitcast(b, tf.quint8),
            min_a=-3.0,
            max_a=3.0,
            min_b=-3.0,
            max_b=3.0,
        )[0],
        tf.int32,
    ),
    whole(3, 4, high=256, dtype="uint8"),
    whole(4, 5, high=256, dtype="uint8"),
    jit=False,
)
