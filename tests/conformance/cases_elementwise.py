"""Elementwise operations on every dtype they take, over each dtype's whole range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance import values
from tests.conformance.programs import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    WIDE_FLOATS,
    function,
    tensor,
)
from tests.conformance.registry import case

Array = np.ndarray


# ------------------------------------------------------------------------------------------ judges in higher precision


def _wide(dtype: DType) -> Any:
    if dtype.is_complex:
        return np.complex128 if dtype.bits == 64 else np.clongdouble
    return np.longdouble if dtype.bits == 64 else np.float64


def wide(f: Callable[..., Any], dtype: DType, rounded: bool = False) -> Callable[..., Array]:
    """``f`` in a wider type, rounded once. ``rounded``: NumPy rounds it correctly in f64 itself."""

    def judge(*arguments: Array) -> Array:
        with np.errstate(all="ignore"):
            if rounded and dtype is dtypes.F64:
                return np.asarray(f(*arguments))
            return np.asarray(f(*[a.astype(_wide(dtype)) for a in arguments])).astype(dtype.numpy)

    return judge


def _vector(f: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(f, otypes=[np.float64])


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(x))


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole), x)


def _sign(x: Array) -> Array:
    return np.where(np.isnan(x) | (x == 0), x, np.sign(x))


# op -> (function, ulps allowed beyond the rounded true result: f16/bf16/small, f32, f64)
UNARY_FLOAT: dict[str, tuple[Callable[..., Any], float, float, float]] = {
    "abs": (np.abs, 0, 0, 0),
    "negate": (np.negative, 0, 0, 0),
    "sign": (_sign, 0, 0, 0),
    "ceil": (np.ceil, 0, 0, 0),
    "floor": (np.floor, 0, 0, 0),
    "round_nearest_even": (np.rint, 0, 0, 0),
    "round_nearest_afz": (_round_away, 0, 0, 0),
    "sqrt": (np.sqrt, 0, 0, 0),
    "rsqrt": (_rsqrt, 1, 2, 2),
    "cbrt": (np.cbrt, 1, 2, 2),
    "exponential": (np.exp, 1, 2, 2),
    "exponential_minus_one": (np.expm1, 1, 3, 3),
    "log": (np.log, 1, 2, 2),
    "log_plus_one": (np.log1p, 1, 3, 3),
    "logistic": (_logistic, 1, 3, 3),
    "tanh": (np.tanh, 1, 3, 3),
    "sine": (np.sin, 1, 2, 2),
    "cosine": (np.cos, 1, 2, 2),
    "tan": (np.tan, 1, 4, 4),
}


def _limit(limits: tuple[float, float, float], dtype: DType) -> float:
    return limits[2] if dtype.bits == 64 else limits[1] if dtype.bits == 32 else limits[0]


def unary_program(op: str, dtype: DType, count: int, result: DType | None = None) -> str:
    a, r = tensor(dtype, count), tensor(result or dtype, count)
    kind = a if a == r else f"({a}) -> {r}"
    return function([a], [r], f"%r = {op} %0 : {kind}")


for _op, (_f, *_limits) in UNARY_FLOAT.items():
    for _dtype in FLOATS:
        if _dtype.name == "f8e8m0fnu" and _op == "negate":
            continue
        _x = values.unary(_dtype)
        case(
            _op,
            "",
            _dtype,
            unary_program(f"stablehlo.{_op}", _dtype, len(_x)),
            [_x],
            judge=wide(_f, _dtype, rounded=not any(_limits)),
            limit=_limit(tuple(_limits), _dtype),
            zero_signs=_dtype.bits >= 16,
        )

CHLO_FLOAT: dict[str, tuple[Callable[..., Any], float, float]] = {
    "erf": (_vector(math.erf), 2, 4),
    # In HLO it is 1 - erf below 1, where units of the result are a quarter of those of erf.
    "erfc": (_vector(math.erfc), 10, 16),
    "lgamma": (_vector(lambda x: math.lgamma(x) if 0 < x < 1e300 else math.inf), 32, 64),
    "acos": (np.arccos, 4, 4),
    "acosh": (np.arccosh, 4, 4),
    "asin": (np.arcsin, 4, 4),
    "asinh": (np.arcsinh, 4, 4),
    "atan": (np.arctan, 4, 4),
    "atanh": (np.arctanh, 4, 4),
    "cosh": (np.cosh, 8, 8),
    "sinh": (np.sinh, 8, 8),
    "square": (np.square, 0, 0),
    "tan": (np.tan, 4, 4),
}
for _op, (_f, _l32, _l64) in CHLO_FLOAT.items():
    for _dtype in (dtypes.F32, dtypes.F64):
        _x = values.generator(_op).uniform(0.01, 0.99, 300).astype(_dtype.numpy)
        _x = _x + 1 if _op in ("acosh", "lgamma") else _x
        case(
            f"chlo.{_op}",
            "",
            _dtype,
            function(
                [tensor(_dtype, 300)],
                [tensor(_dtype, 300)],
                f"%r = chlo.{_op} %0 : {tensor(_dtype, 300)} -> {tensor(_dtype, 300)}",
            ),
            [_x],
            judge=wide(_f, _dtype),
            limit=_l32 if _dtype.bits == 32 else _l64,
            scale=(lambda x: np.maximum(np.abs(x), 1)) if _op == "lgamma" else None,
        )

# ---------------------------------------------------------------------------------------------------------- integers


def exact(f: Callable[[int, int], int], dtype: DType) -> Callable[..., Array]:
    """``f`` on Python's integers, the result reduced to the dtype's width."""

    def judge(*arguments: Array) -> Array:
        lists = [[int(v) for v in a.reshape(-1)] for a in arguments]
        return wrap([f(*v) for v in zip(*lists, strict=True)], dtype).reshape(arguments[0].shape)

    return judge


def wrap(numbers: list[int], dtype: DType) -> Array:
    """Integers modulo two to the width."""
    bits = dtype.bits
    reduced = [n & ((1 << bits) - 1) for n in numbers]
    if dtype.is_signed:
        reduced = [n - (1 << bits) if n >> (bits - 1) else n for n in reduced]
    if dtype.bits < 8:
        return np.array(reduced, np.int64).astype(dtype.numpy)
    return np.array(reduced, object).astype(dtype.numpy)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _divide(a: int, b: int) -> int:
    return -1 if b == 0 else _truncated(a, b)


def _remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _truncated(a, b)


def _power(dtype: DType) -> Callable[[int, int], int]:
    def power(a: int, b: int) -> int:
        if b < 0:
            return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0) if a else -1
        return pow(a, b, 1 << dtype.bits)

    return power


def _unsigned(n: int, dtype: DType) -> int:
    return n & ((1 << dtype.bits) - 1)


def integer_binary(dtype: DType) -> dict[str, Callable[[int, int], int]]:
    width = dtype.bits

    def amount(b: int) -> int:
        return _unsigned(b, dtype)

    return {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": _divide,
        "remainder": _remainder,
        "power": _power(dtype),
        "maximum": max,
        "minimum": min,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "shift_left": lambda a, b: a << amount(b) if amount(b) < width else 0,
        "shift_right_logical": lambda a, b: (
            _unsigned(a, dtype) >> amount(b) if amount(b) < width else 0
        ),
        "shift_right_arithmetic": lambda a, b: (
            wrap_one(a, dtype) >> min(amount(b), width - 1)
            if amount(b) < width or wrap_one(a, dtype) < 0
            else 0
        ),
    }


def wrap_one(n: int, dtype: DType) -> int:
    """The bits of ``n`` as a signed number."""
    n = _unsigned(n, dtype)
    return n - (1 << dtype.bits) if n >> (dtype.bits - 1) else n


def binary_program(op: str, dtype: DType, count: int) -> str:
    t = tensor(dtype, count)
    return function([t, t], [t], f"%r = {op} %0, %1 : {t}")


for _dtype in INTEGERS:
    _x, _y = values.binary(_dtype, 600)
    for _op, _f in integer_binary(_dtype).items():
        _n = len(_x)
        if _op == "power":  # 0 to a negative power has no value in integers
            _keep = (_x.astype(object) != 0) | (_y.astype(object) >= 0)
        else:
            _keep = np.ones(_n, bool)
        _a, _b = _x[_keep], _y[_keep]
        case(
            _op,
            "",
            _dtype,
            binary_program(f"stablehlo.{_op}", _dtype, len(_a)),
            [_a, _b],
            judge=exact(_f, _dtype),
        )
        if _op in (
            "divide",
            "remainder",
            "shift_left",
            "shift_right_logical",
            "shift_right_arithmetic",
            "multiply",
        ):
            # Against a constant, which passes turn into other operations.
            for _constant in {
                0,
                1,
                3,
                -1 if _dtype.is_signed else 2,
                _dtype.bits,
                int(ml_dtypes.iinfo(_dtype.numpy).min),
            }:
                if (
                    not int(ml_dtypes.iinfo(_dtype.numpy).min)
                    <= _constant
                    <= int(ml_dtypes.iinfo(_dtype.numpy).max)
                ):
                    continue
                _t = tensor(_dtype, _n)
                case(
                    _op,
                    f"by{_constant}",
                    _dtype,
                    function(
                        [_t],
                        [_t],
                        f"%c = stablehlo.constant dense<{_constant}> : {_t}\n%r = stablehlo.{_op} %0, %c : {_t}",
                    ),
                    [_x],
                    judge=(lambda x, f=_f, d=_dtype, c=_constant: exact(lambda a: f(a, c), d)(x)),
                )
    _x = values.unary(_dtype, 300)
    for _op, _g in {
        "abs": abs,
        "negate": lambda a: -a,
        "sign": lambda a: (a > 0) - (a < 0),
        "not": lambda a: ~a,
        "popcnt": lambda a, d=_dtype: _unsigned(a, d).bit_count(),
        "count_leading_zeros": lambda a, d=_dtype: d.bits - _unsigned(a, d).bit_length(),
    }.items():
        if _op in ("abs", "sign") and not _dtype.is_signed:
            continue
        case(
            _op,
            "",
            _dtype,
            unary_program(f"stablehlo.{_op}", _dtype, len(_x)),
            [_x],
            judge=exact(_g, _dtype),
        )

# chlo.mulhi: the upper half of the product.
for _dtype in (
    dtypes.S8,
    dtypes.U8,
    dtypes.S16,
    dtypes.U16,
    dtypes.S32,
    dtypes.U32,
    dtypes.S64,
    dtypes.U64,
):
    _x, _y = values.binary(_dtype, 300)
    _t = tensor(_dtype, len(_x))
    case("chlo.mulhi", "", _dtype, function([_t, _t], [_t], f"%r = chlo.mulhi %0, %1 : {_t}, {_t} -> {_t}"), [_x, _y],
         judge=exact(lambda a, b, d=_dtype: (a * b) >> d.bits, _dtype))  # fmt: skip

_x, _y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
for _op, _f in {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "add": np.logical_or,
    "multiply": np.logical_and,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
}.items():
    case(
        _op, "", dtypes.PRED, binary_program(f"stablehlo.{_op}", dtypes.PRED, 4), [_x, _y], judge=_f
    )
case(
    "not",
    "",
    dtypes.PRED,
    unary_program("stablehlo.not", dtypes.PRED, 4),
    [_x],
    judge=np.logical_not,
)

# ------------------------------------------------------------------------------------------------- floats, two operands


def _maximum(a: Array, b: Array) -> Array:
    return np.where(
        np.isnan(a) | np.isnan(b),
        np.nan,
        np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b)),
    )


def _minimum(a: Array, b: Array) -> Array:
    return np.where(
        np.isnan(a) | np.isnan(b),
        np.nan,
        np.where(a == b, np.where(np.signbit(b), b, a), np.minimum(a, b)),
    )


BINARY_FLOAT: dict[str, tuple[Callable[..., Any], float, float, float]] = {
    "add": (np.add, 0, 0, 0),
    "subtract": (np.subtract, 0, 0, 0),
    "multiply": (np.multiply, 0, 0, 0),
    "divide": (np.divide, 0, 0, 0),
    "remainder": (np.fmod, 0, 0, 0),
    "maximum": (_maximum, 0, 0, 0),
    "minimum": (_minimum, 0, 0, 0),
    "power": (np.power, 1, 3, 3),
    "atan2": (np.arctan2, 1, 4, 4),
}
for _op, (_f, *_limits) in BINARY_FLOAT.items():
    for _dtype in FLOATS:
        _x, _y = values.binary(_dtype, 600)
        case(
            _op,
            "",
            _dtype,
            binary_program(f"stablehlo.{_op}", _dtype, len(_x)),
            [_x, _y],
            judge=wide(_f, _dtype, rounded=not any(_limits)),
            limit=_limit(tuple(_limits), _dtype),
            zero_signs=_dtype.bits >= 16,
        )
for _dtype in WIDE_FLOATS:
    _x, _y = values.binary(_dtype, 300)
    _t = tensor(_dtype, len(_x))

    def _next_after(a: Array, b: Array, dtype: DType = _dtype) -> Array:
        return np.nextafter(a, b)

    case("chlo.next_after", "", _dtype, function([_t, _t], [_t], f"%r = chlo.next_after %0, %1 : {_t}, {_t} -> {_t}"), [_x, _y],
         judge=_next_after, zero_signs=False)  # fmt: skip

# --------------------------------------------------------------------------------------------------------- comparisons

_COMPARE = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _total_keys(a: Array) -> Array:
    """Integers in the order of totalOrder: -NaN < -inf < ... < -0 < 0 < ... < NaN."""
    bits = a.view(f"i{a.dtype.itemsize}").astype(object)
    return np.array(
        [int(b) if b >= 0 else -(int(b) + (1 << (8 * a.dtype.itemsize - 1))) - 1 for b in bits],
        object,
    )


for _direction, _f in _COMPARE.items():
    for _dtype in ALL:
        if _dtype.is_complex and _direction not in ("EQ", "NE"):
            continue
        _x, _y = values.binary(_dtype, 300)
        _t, _p = tensor(_dtype, len(_x)), tensor("pred", len(_x))
        _kind = (
            "FLOAT"
            if _dtype.is_float or _dtype.is_complex
            else "SIGNED"
            if _dtype.is_signed
            else "UNSIGNED"
        )
        _body = f"%r = stablehlo.compare {_direction}, %0, %1, {{}} : ({_t}, {_t}) -> {_p}"
        _judge = (lambda a, b, f=_f: f(a.astype(np.float64), b.astype(np.float64))) if _dtype.is_float else (
            (lambda a, b, f=_f: f(a.astype(np.int64), b.astype(np.int64))) if _dtype.bits < 8 else _f)  # fmt: skip
        case(
            "compare",
            f"{_direction}",
            _dtype,
            function([_t, _t], [_p], _body.format(_kind)),
            [_x, _y],
            judge=_judge,
        )
        if _dtype in WIDE_FLOATS:
            _x = np.concatenate([_x, -_x[:3]])
            _y = np.concatenate([_y, _y[:3]])
            _nan = np.array([np.nan, -np.float64("nan"), 1.0], np.float64).astype(_dtype.numpy)
            _x[:3] = _nan
            _t, _p = tensor(_dtype, len(_x)), tensor("pred", len(_x))
            _body = (
                f"%r = stablehlo.compare {_direction}, %0, %1, TOTALORDER : ({_t}, {_t}) -> {_p}"
            )
            case("compare", f"{_direction}_total", _dtype, function([_t, _t], [_p], _body), [_x, _y],
                 judge=lambda a, b, f=_f: f(_total_keys(a), _total_keys(b)).astype(bool))  # fmt: skip

for _dtype in FLOATS:
    _x = values.unary(_dtype, 300)
    case("is_finite", "", _dtype, unary_program("stablehlo.is_finite", _dtype, len(_x), dtypes.PRED), [_x],
         judge=lambda a: np.isfinite(a.astype(np.float64)))  # fmt: skip
for _op, _f in {"is_inf": np.isinf, "is_pos_inf": np.isposinf, "is_neg_inf": np.isneginf}.items():
    for _dtype in (dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64):
        _x = values.unary(_dtype, 30)
        _t, _p = tensor(_dtype, len(_x)), tensor("pred", len(_x))
        case(f"chlo.{_op}", "", _dtype, function([_t], [_p], f"%r = chlo.{_op} %0 : {_t} -> {_p}"), [_x],
             judge=lambda a, f=_f: f(a.astype(np.float64)))  # fmt: skip

# --------------------------------------------------------------------------------------------------- select and clamp

for _dtype in ALL:
    _x, _y = values.binary(_dtype, 100)
    _n = len(_x)
    _t, _p = tensor(_dtype, _n), tensor("pred", _n)
    _mask = values.generator("mask").random(_n) < 0.5
    case("select", "", _dtype, function([_p, _t, _t], [_t], f"%r = stablehlo.select %0, %1, %2 : {_p}, {_t}"), [_mask, _x, _y],
         judge=np.where)  # fmt: skip
    case("select", "scalar", _dtype,
         function([tensor("pred"), _t, _t], [_t], f"%r = stablehlo.select %0, %1, %2 : {tensor('pred')}, {_t}"),
         [np.array(False), _x, _y], judge=lambda p, a, b: b)  # fmt: skip
    if _dtype.is_complex or _dtype.kind == "pred":
        continue
    _low, _high = (
        np.array(v).astype(_dtype.numpy) for v in ((1, 3) if not _dtype.is_signed else (-1, 1))
    )
    _s = tensor(_dtype)
    _as = (lambda a: a.astype(np.float64)) if _dtype.is_float else (lambda a: a.astype(object))

    def _clamp(low: Array, x: Array, high: Array, as_: Any = _as, d: DType = _dtype) -> Array:
        a = as_(x)
        clamped = np.minimum(np.maximum(as_(low), a), as_(high))
        return (
            clamped.astype(d.numpy)
            if d.bits >= 8 or d.is_float
            else clamped.astype(np.int64).astype(d.numpy)
        )

    case("clamp", "scalar", _dtype,
         function([_s, _t, _s], [_t], f"%r = stablehlo.clamp %0, %1, %2 : ({_s}, {_t}, {_s}) -> {_t}"),
         [_low, _x, _high], judge=_clamp, zero_signs=False)  # fmt: skip
    case("clamp", "", _dtype, function([_t, _t, _t], [_t], f"%r = stablehlo.clamp %0, %1, %2 : {_t}"),
         [np.full(_n, _low), _x, np.full(_n, _high)], judge=_clamp, zero_signs=False)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- conversions


def saturate(a: Array, source: DType, target: DType) -> Array:
    """XLA's conversions: floats to integers saturate (NaN gives 0), integers wrap, complex drops the imaginary part."""
    with np.errstate(all="ignore"):
        if source.is_complex and not target.is_complex:
            a, source = a.real, source.component
        if target.kind == "pred":
            return (a.astype(np.float64) if source.is_float else a.astype(object)) != 0
        if target.is_integer and source.is_float:
            info = ml_dtypes.iinfo(target.numpy)
            low, high = int(info.min), int(info.max)
            numbers = [
                0 if v != v else max(low, min(high, int(max(-1e30, min(1e30, v)))))
                for v in a.astype(np.float64)
            ]
            return wrap(numbers, target)
        if target.is_integer:
            return wrap([int(v) for v in a.astype(object)], target)
        if source.is_integer and target.is_float and target.bits < 64:
            # Rounded once; ml_dtypes goes through f32.
            if target.bits >= 32:
                return a.astype(target.numpy)
            return a.astype(np.float32).astype(target.numpy)
        if (
            "f8e8m0fnu" in (source.name, target.name) and source.is_float and target.bits < 16
        ) or source.kind == "pred":
            return a.astype(np.float32).astype(target.numpy)  # ml_dtypes has no direct way
        if source.bits < 8 and source.is_integer:
            return a.astype(np.int64).astype(target.numpy)
        return a.astype(target.numpy)


for _source in ALL:
    for _target in ALL:
        _x = values.unary(_source, 200)
        if _source is dtypes.F64 and _target is dtypes.F8E8M0FNU:
            _x = _x[
                ~(np.abs(_x) < 2.0**-126) | (_x == 0)
            ]  # ml_dtypes and the interpreter disagree on underflow
        _a, _r = tensor(_source, len(_x)), tensor(_target, len(_x))
        case(
            "convert",
            f"to_{_target.name}",
            _source,
            function([_a], [_r], f"%r = stablehlo.convert %0 : ({_a}) -> {_r}"),
            [_x],
            judge=lambda a, s=_source, t=_target: saturate(a, s, t),
            zero_signs=_target.bits >= 16,
        )

for _source in ALL:
    for _target in ALL:
        if (
            _source.bits == _target.bits
            and _source.bits >= 8
            and not _source.is_complex
            and not _target.is_complex
        ):
            _x = values.unary(_source, 100)
            _a, _r = tensor(_source, len(_x)), tensor(_target, len(_x))
            case("bitcast_convert", f"to_{_target.name}", _source,
                 function([_a], [_r], f"%r = stablehlo.bitcast_convert %0 : ({_a}) -> {_r}"), [_x],
                 judge=lambda a, t=_target: a.view(t.numpy))  # fmt: skip
for _source, _target in (
    (dtypes.U8, dtypes.U32),
    (dtypes.U32, dtypes.F64),
    (dtypes.S16, dtypes.S64),
    (dtypes.F16, dtypes.F32),
):
    _k = _target.bits // _source.bits
    _x = values.ordinary(_source, (3, 4 * _k)).reshape(3, 4, _k)
    _a, _r = tensor(_source, 3, 4, _k), tensor(_target, 3, 4)
    case("bitcast_convert", f"wider_{_target.name}", _source,
         function([_a], [_r], f"%r = stablehlo.bitcast_convert %0 : ({_a}) -> {_r}"), [_x],
         judge=lambda a, t=_target: a.view(t.numpy)[..., 0])  # fmt: skip
    _y = _x.view(_target.numpy)[..., 0].copy()
    case("bitcast_convert", f"narrower_{_source.name}", _target,
         function([_r], [_a], f"%r = stablehlo.bitcast_convert %0 : ({_r}) -> {_a}"), [_y],
         judge=lambda a, t=_source: a[..., None].view(t.numpy))  # fmt: skip
_x = np.random.default_rng(5).integers(0, 256, (5, 12, 16), np.uint8)
for _a, _r in ((dtypes.C128, dtypes.C64), (dtypes.C64, dtypes.C128)):  # NaNs keep their bits
    _from, _to = (tensor(t, 5, 12, *((2,) if t is dtypes.C64 else ())) for t in (_a, _r))
    case("bitcast_convert", f"to_{_r.name}", _a,
         function([_from], [_to], f"%r = stablehlo.bitcast_convert %0 : ({_from}) -> {_to}"),
         [_x.view(_a.numpy).reshape(5, 12, *((2,) if _a is dtypes.C64 else ()))],
         judge=lambda a, t=_r: a.reshape(5, 12, -1).view(t.numpy).reshape(5, 12, *((2,) if t is dtypes.C64 else ())))  # fmt: skip


def regroup(a: Any, source: dtypes.DType, target: dtypes.DType, dims: tuple[int, ...]) -> Any:
    """The bits of ``a``, first element lowest, cut into elements of ``target``: by Python's integers."""
    total = 0
    for n, element in enumerate(a.ravel()):
        code = int.from_bytes(element.tobytes(), "little") & ((1 << source.bits) - 1)
        total |= code << n * source.bits
    codes = []
    for n in range(a.size * source.bits // target.bits):
        code = total >> n * target.bits & ((1 << target.bits) - 1)
        if target.is_signed and not target.is_float and code >> (target.bits - 1):
            code += (1 << 8 * target.size) - (1 << target.bits)
        codes.append(code.to_bytes(target.size, "little"))
    return np.frombuffer(b"".join(codes), target.numpy).reshape(dims)


for _part, _whole in (
    (dtypes.S4, dtypes.S8),
    (dtypes.U4, dtypes.F16),
    (dtypes.S4, dtypes.F32),
    (dtypes.S2, dtypes.U8),
    (dtypes.U2, dtypes.S4),
    (dtypes.F4E2M1FN, dtypes.U8),
    (dtypes.F4E2M1FN, dtypes.BF16),
    (dtypes.U4, dtypes.F8E4M3FN),
    (dtypes.BF16, dtypes.S32),  # NaNs keep their bits
    (dtypes.F16, dtypes.U64),
):
    _k = _whole.bits // _part.bits
    _bytes = np.random.default_rng(7).integers(0, 256, 60 * _whole.size, np.uint8)
    _y = _bytes.view(_whole.numpy).reshape(5, 12)
    _x = regroup(_y, _whole, _part, (5, 12, _k))
    _a, _r = tensor(_part, 5, 12, _k), tensor(_whole, 5, 12)
    for _from, _to, _value, _result in ((_a, _r, _x, _y), (_r, _a, _y, _x)):
        _kind = "joins" if _value is _x else "cuts"
        case("bitcast_convert", f"{_kind}_{_part.name}_{_whole.name}", _part,
             function([_from], [_to], f"%r = stablehlo.bitcast_convert %0 : ({_from}) -> {_to}"), [_value],
             judge=lambda a, r=_result: r)  # fmt: skip
for _source, _target in ((dtypes.S4, dtypes.F4E2M1FN), (dtypes.F4E2M1FN, dtypes.U4)):
    _x = regroup(np.arange(256, dtype=np.uint8), dtypes.U8, _source, (512,))
    _a, _r = tensor(_source, 512), tensor(_target, 512)
    case("bitcast_convert", f"to_{_target.name}", _source,
         function([_a], [_r], f"%r = stablehlo.bitcast_convert %0 : ({_a}) -> {_r}"), [_x],
         judge=lambda a, s=_source, t=_target: regroup(a, s, t, (512,)))  # fmt: skip

for _dtype in WIDE_FLOATS:
    for _e, _m in ((5, 10), (8, 7), (4, 3), (5, 2), (2, 1), (11, 52), (8, 23), (3, 0), (1, 4)):
        _x = values.unary(_dtype, 300)
        _t = tensor(_dtype, len(_x))
        case("reduce_precision", f"e{_e}m{_m}", _dtype,
             function([_t], [_t], f"%r = stablehlo.reduce_precision %0, format = e{_e}m{_m} : {_t}"), [_x])  # fmt: skip

# -------------------------------------------------------------------------------------------------------------- complex

for _dtype in COMPLEX:
    _x = values.unary(_dtype, 300)
    _y = np.concatenate([values.scattered(_dtype, len(_x), "other")])
    _t, _c = tensor(_dtype, len(_x)), tensor(_dtype.component, len(_x))
    for _op, _f, _l in (
        ("add", np.add, 0.5), ("subtract", np.subtract, 0.5), ("multiply", np.multiply, 2), ("divide", np.divide, 6), ("power", np.power, 200),
    ):  # fmt: skip
        case(
            _op,
            "",
            _dtype,
            binary_program(f"stablehlo.{_op}", _dtype, len(_x)),
            [_x, _y],
            judge=wide(_f, _dtype),
            limit=_l,
        )
    case("atan2", "", _dtype, binary_program("stablehlo.atan2", _dtype, 300), [_y[:300] + 2, _x[-300:] + 3], limit=64,
         judge=wide(lambda y, x: -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)), _dtype))  # fmt: skip
    for _op, _g in (("maximum", np.maximum), ("minimum", np.minimum)):
        case(
            _op, "", _dtype, binary_program(f"stablehlo.{_op}", _dtype, len(_x)), [_x, _y], judge=_g
        )
    for _op, _f, _l in (
        ("negate", np.negative, 0), ("exponential", np.exp, 4), ("exponential_minus_one", np.expm1, 8), ("log", np.log, 4),
        ("log_plus_one", np.log1p, 8), ("logistic", _logistic, 8), ("sqrt", np.sqrt, 4), ("rsqrt", lambda z: 1 / np.sqrt(z), 6),
        ("cosine", np.cos, 4), ("sine", np.sin, 4), ("tan", np.tan, 8), ("tanh", np.tanh, 8),
        ("sign", lambda z: np.where(z == 0, z, z / np.abs(z)), 3),
    ):  # fmt: skip
        _z = values.scattered(_dtype, 300, _op)
        case(
            _op,
            "",
            _dtype,
            unary_program(f"stablehlo.{_op}", _dtype, 300),
            [_z],
            judge=wide(_f, _dtype),
            limit=_l,
        )
    _cbrt = values.scattered(_dtype, 300, "cbrt")
    case(
        "cbrt",
        "",
        _dtype,
        unary_program("stablehlo.cbrt", _dtype, 300),
        [_cbrt],
        judge=wide(lambda z: z ** (np.longdouble(1) / 3), _dtype),
        limit=16,
    )
    case(
        "abs",
        "",
        _dtype,
        unary_program("stablehlo.abs", _dtype, len(_x), _dtype.component),
        [_x],
        judge=lambda z, d=_dtype: np.abs(z.astype(_wide(d))),
        limit=2,
    )
    case(
        "real",
        "",
        _dtype,
        unary_program("stablehlo.real", _dtype, len(_x), _dtype.component),
        [_x],
        judge=np.real,
    )
    case(
        "imag",
        "",
        _dtype,
        unary_program("stablehlo.imag", _dtype, len(_x), _dtype.component),
        [_x],
        judge=np.imag,
    )
    case(
        "chlo.conj",
        "",
        _dtype,
        function([_t], [_t], f"%r = chlo.conj %0 : {_t} -> {_t}"),
        [_x],
        judge=np.conj,
    )
    _a, _b = values.binary(_dtype.component, 100)
    case("complex", "", _dtype,
         function([tensor(_dtype.component, len(_a))] * 2, [tensor(_dtype, len(_a))], f"%r = stablehlo.complex %0, %1 : {tensor(_dtype, len(_a))}"),
         [_a, _b], judge=lambda a, b, d=_dtype: np.stack([a, b], -1).view(d.numpy)[..., 0])  # fmt: skip
for _dtype in WIDE_FLOATS[2:]:
    _x = values.unary(_dtype, 10)
    case(
        "real",
        "of_real",
        _dtype,
        unary_program("stablehlo.real", _dtype, len(_x)),
        [_x],
        judge=lambda a: a,
    )
    case(
        "imag",
        "of_real",
        _dtype,
        unary_program("stablehlo.imag", _dtype, len(_x)),
        [_x],
        judge=np.zeros_like,
    )

# chlo's binary operations that broadcast.
_SIGNATURE = {"complex": "c64", "compare": "pred"}
for _op in [
    "add",
    "atan2",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "power",
    "remainder",
    "subtract",
    "complex",
    "compare",
    "polygamma",
    "zeta",
    "next_after",
]:
    _a = np.abs(values.ordinary(dtypes.F32, (3, 4), _op)) + 2
    _b = np.abs(values.ordinary(dtypes.F32, (4,), _op)) + 2
    _t, _u, _r = tensor("f32", 3, 4), tensor("f32", 4), tensor(_SIGNATURE.get(_op, "f32"), 3, 4)
    _how = {"compare": " {comparison_direction = #chlo<comparison_direction LT>}"}.get(_op, "")
    _scipy: dict[str, Any] = {
        "add": np.add, "atan2": np.arctan2, "divide": np.divide, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply,
        "power": np.power, "remainder": np.fmod, "subtract": np.subtract, "complex": lambda a, b: a + 1j * b, "compare": np.less,
        "next_after": np.nextafter,
        "zeta": lambda a, b: _hurwitz(a, b), "polygamma": lambda a, b: _polygamma(np.round(a), b),
    }  # fmt: skip
    if _op == "polygamma":
        _a = np.round(_a)
    case(f"chlo.broadcast_{_op}", "", "f32",
         function([_t, _u], [_r], f"%r = chlo.broadcast_{_op} %0, %1{_how} : ({_t}, {_u}) -> {_r}"), [_a, _b], judge=_scipy[_op],
         limit=64 if _op in ("zeta", "polygamma") else 4 if _op in ("power", "atan2") else 0)  # fmt: skip
    if _op in ("zeta", "polygamma"):
        case(f"chlo.{_op}", "", "f32", function([_t, _t], [_t], f"%r = chlo.{_op} %0, %1 : {_t}, {_t} -> {_t}"),
             [_a, np.tile(_b, (3, 1))], judge=_scipy[_op], limit=64)  # fmt: skip
for _op, _f in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift,
                "shift_right_arithmetic": np.right_shift, "shift_right_logical": np.right_shift}.items():  # fmt: skip
    _a, _b = np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(4, dtype=np.int32)
    _t, _u = tensor("s32", 3, 4), tensor("s32", 4)
    case(
        f"chlo.broadcast_{_op}",
        "",
        "s32",
        function([_t, _u], [_t], f"%r = chlo.broadcast_{_op} %0, %1 : ({_t}, {_u}) -> {_t}"),
        [_a, _b],
        judge=_f,
    )
_t, _p = tensor("f32", 4), tensor("pred", 4)
case("chlo.broadcast_select", "", "f32",
     function([_p, _t, tensor("f32")], [_t], f"%r = chlo.broadcast_select %0, %1, %2 : ({_p}, {_t}, {tensor('f32')}) -> {_t}"),
     [np.array([1, 0, 1, 0], bool), np.arange(4, dtype=np.float32), np.float32(9)], judge=np.where)  # fmt: skip
case("chlo.constant_like", "", "f32",
     function([_t], [_t], f'%r = "chlo.constant_like"(%0) {{value = 3.5 : f32}} : ({_t}) -> {_t}'), [np.zeros(4, np.float32)],
     judge=lambda a: np.full(4, 3.5))  # fmt: skip
case("chlo.constant", "", "f32", function([], [_t], f"%r = chlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : {_t}"), [],
     judge=lambda: np.arange(1, 5))  # fmt: skip


def _hurwitz(s: Array, q: Array) -> Array:
    """The Hurwitz zeta function by Euler-Maclaurin after 30 terms."""
    s, q = s.astype(np.float64), np.broadcast_to(q.astype(np.float64), s.shape)
    n = 30
    total = sum((q + k) ** -s for k in range(n))
    a = q + n
    total = total + a ** (1 - s) / (s - 1) + 0.5 * a**-s + s * a ** (-s - 1) / 12
    return total - s * (s + 1) * (s + 2) * a ** (-s - 3) / 720


def _polygamma(n: Array, x: Array) -> Array:
    factorial = np.vectorize(lambda v: math.gamma(v + 1))(n)
    return np.where(n % 2 == 0, -1.0, 1.0) * factorial * _hurwitz(n.astype(np.float64) + 1, x)


def _digamma(x: float) -> float:
    total = 0.0
    while x < 30:
        total -= 1 / x
        x += 1
    return total + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def _bessel_i1e(x: float) -> float:
    return math.exp(-x) * sum(
        (x / 2) ** (2 * k + 1) / (math.factorial(k) * math.factorial(k + 1)) for k in range(40)
    )


def _erf_inv(y: float) -> float:
    x = 0.0
    for _ in range(60):
        x -= (math.erf(x) - y) / (2 / math.sqrt(math.pi) * math.exp(-x * x))
    return x


for _op, _g, _range in (
    ("digamma", _digamma, (2.0, 9.0)),
    ("bessel_i1e", _bessel_i1e, (0.1, 5.0)),
    ("erf_inv", _erf_inv, (0.05, 0.9)),
):
    for _dtype in (dtypes.F32, dtypes.F64):
        _x = values.generator(_op).uniform(*_range, 200).astype(_dtype.numpy)
        _t = tensor(_dtype, 200)
        case(f"chlo.{_op}", "", _dtype, function([_t], [_t], f"%r = chlo.{_op} %0 : {_t} -> {_t}"), [_x],
             judge=lambda x, g=_g: _vector(g)(x.astype(np.float64)), limit=16 if _dtype.bits == 32 else 256)  # fmt: skip
