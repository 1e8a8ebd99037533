"""Reductions, windows, sorts and maps: every dtype, several operands at once, empty dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.reference.elementwise import total_order

from tests.conformance.programs import ALL, combine, dense, function, tensor
from tests.conformance.registry import case
from tests.conformance.values import ordinary, specials

F32, S32, PRED = dtypes.F32, dtypes.S32, dtypes.PRED


def _is_small(dtype: Any) -> bool:
    return dtype.is_float and dtype.bits <= 8


def reduce_text(
    op: str, dtype: Any, dims: tuple[int, ...], over: tuple[int, ...]
) -> tuple[str, str]:
    t, s = tensor(dtype, *dims), tensor(dtype)
    r = tensor(dtype, *[d for n, d in enumerate(dims) if n not in over])
    body = f'%r = "stablehlo.reduce"(%0, %1) <{{dimensions = {dense(over)}}}> ({combine(op, dtype)}) : ({t}, {s}) -> {r}'
    return function([t, s], [r], body), r


# ---------------------------------------------------------------------------------------------------- reduce

_INITIAL = {"add": 0, "multiply": 1, "maximum": -100, "minimum": 100, "and": -1, "or": 0, "xor": 0}


def _ops(dtype: Any) -> tuple[str, ...]:
    if dtype.kind == "pred":
        return ("and", "or", "xor", "add", "maximum")
    if dtype.is_integer:
        return ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
    return ("add", "multiply") if dtype.is_complex else ("add", "multiply", "maximum", "minimum")


def _initial(op: str, dtype: Any) -> np.ndarray:
    if dtype.kind == "pred":
        return np.array(op == "and")
    value = _INITIAL[op]
    if not dtype.is_signed and dtype.is_integer and value < 0:
        value = 0 if op == "maximum" else 2**dtype.bits - 1
    if dtype.is_integer and dtype.bits < 8:
        value = (
            max(-(2 ** (dtype.bits - 1)), min(2 ** (dtype.bits - 1) - 1, value))
            if dtype.is_signed
            else value % 2**dtype.bits
        )
    with np.errstate(all="ignore"):
        return np.array(value).astype(dtype.numpy)


for _dtype in ALL:
    if _is_small(_dtype):
        continue
    for _op in _ops(_dtype):
        for _dims, _over in (
            ((4, 35), (1,)),
            ((4, 35), (0,)),
            ((3, 5, 7), (0, 2)),
            ((65,), (0,)),
            ((0, 3), (0,)),
            ((3, 0), (0,)),
        ):
            _program, _ = reduce_text(_op, _dtype, _dims, _over)
            _exact = _op not in ("add", "multiply") or not (_dtype.is_float or _dtype.is_complex)
            _x = ordinary(_dtype, _dims)
            if _op == "multiply" and not _exact:
                _x = np.full(_dims, 1.01).astype(_dtype.numpy)
            # A sum in f32 of 16-bit numbers is rounded once; the interpreter rounds after each step.
            _judge = None
            if not _exact and _dtype.bits <= 16:
                _f = np.sum if _op == "add" else np.prod
                _judge = lambda a, i, f=_f, o=_over, t=_dtype: f(a.astype(np.float64), axis=o)
            case("reduce", f"{_op}{_dims}{_over}".replace(" ", ""), _dtype, _program, [_x, _initial(_op, _dtype)], judge=_judge,
                 limit=0 if _exact else 1 if _dtype.bits <= 16 else 40 if _op == "multiply" else 4,
                 scale=None if _exact or _op == "multiply" else lambda a, i, o=_over: 1 + np.abs(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)).sum(axis=o))  # fmt: skip

# NaN anywhere makes the maximum NaN; zeros of both signs.
for _dtype in (dtypes.F16, dtypes.BF16, F32, dtypes.F64):
    for _op in ("maximum", "minimum"):
        _x = np.array(
            [[1, np.nan, 2], [0.0, -0.0, -5 if _op == "maximum" else 5], [-np.inf, np.inf, 1]] * 7
        ).astype(_dtype.numpy)
        _program, _ = reduce_text(_op, _dtype, (21, 3), (1,))
        case(
            "reduce",
            f"{_op}_special",
            _dtype,
            _program,
            [_x, _initial(_op, _dtype)],
            zero_signs=False,
        )

# argmax: two operands and a body of several operations.
_a, _b, _f, _s = tensor(F32, 4, 9), tensor(S32, 4, 9), tensor(F32), tensor(S32)
_p = tensor(PRED)
_argmax = (
    f"{{\n^bb0(%a: {_f}, %b: {_s}, %c: {_f}, %d: {_s}):\n%g = stablehlo.compare GT, %a, %c : ({_f}, {_f}) -> {_p}\n"
    f"%n = stablehlo.compare NE, %a, %a : ({_f}, {_f}) -> {_p}\n%t = stablehlo.or %g, %n : {_p}\n"
    f"%e = stablehlo.compare EQ, %a, %c : ({_f}, {_f}) -> {_p}\n%l = stablehlo.compare LT, %b, %d : ({_s}, {_s}) -> {_p}\n"
    f"%m = stablehlo.and %e, %l : {_p}\n%w = stablehlo.or %t, %m : {_p}\n%x = stablehlo.select %t, %a, %c : {_p}, {_f}\n"
    f"%y = stablehlo.select %w, %b, %d : {_p}, {_s}\nstablehlo.return %x, %y : {_f}, {_s}\n}}"
)
for _axis, _out in ((1, 4), (0, 9)):
    _r, _q = tensor(F32, _out), tensor(S32, _out)
    _x = ordinary(F32, (4, 9))
    _x[1, 3] = np.nan
    _x[2, :] = 1
    case("reduce", f"argmax{_axis}", F32, function([_a, _b, _f, _s], [_r, _q],
         f'%r:2 = "stablehlo.reduce"(%0, %1, %2, %3) <{{dimensions = {dense([_axis])}}}> ({_argmax}) : ({_a}, {_b}, {_f}, {_s}) -> ({_r}, {_q})'),
         [_x, np.broadcast_to(np.arange(9, dtype=np.int32) if _axis else np.arange(4, dtype=np.int32)[:, None], (4, 9)).copy(),
          np.float32(-np.inf), np.int32(0)])  # fmt: skip

# --------------------------------------------------------------------------------------------------- reduce_window


def window_text(
    op: str,
    dtype: Any,
    dims: tuple[int, ...],
    window: Any,
    strides: Any,
    base: Any,
    dilations: Any,
    padding: Any,
) -> str:
    t, s = tensor(dtype, *dims), tensor(dtype)
    out = []
    for d, w, st, ba, di, (lo, hi) in zip(
        dims, window, strides, base, dilations, padding, strict=True
    ):
        size = lo + hi + (0 if d == 0 else (d - 1) * ba + 1)
        reach = (w - 1) * di + 1
        out.append(0 if size < reach else (size - reach) // st + 1)
    r = tensor(dtype, *out)
    pad = f"dense<{[list(p) for p in padding]}> : tensor<{len(dims)}x2xi64>"
    body = (
        f'%r = "stablehlo.reduce_window"(%0, %1) <{{window_dimensions = {dense(window)}, window_strides = {dense(strides)},'
        f" base_dilations = {dense(base)}, window_dilations = {dense(dilations)}, padding = {pad}}}> ({combine(op, dtype)})"
        f" : ({t}, {s}) -> {r}"
    )
    return function([t, s], [r], body)


_WINDOWS: dict[str, tuple[Any, ...]] = {
    "valid": ((9, 11), (3, 2), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    "strided": ((9, 11), (3, 2), (2, 3), (1, 1), (1, 1), ((1, 1), (0, 1))),
    "dilated": ((9, 11), (2, 3), (1, 1), (1, 2), (2, 2), ((0, 1), (2, 0))),
    "negative": ((9, 11), (2, 3), (1, 2), (1, 1), (1, 1), ((-1, -2), (1, -1))),
    "cumulative": ((5, 40), (1, 40), (1, 1), (1, 1), (1, 1), ((0, 0), (39, 0))),
    "empty": ((0, 4), (1, 2), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    "no_window": ((2, 4), (3, 2), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    "only_padding": ((0, 4), (2, 2), (1, 1), (1, 1), (1, 1), ((2, 1), (0, 0))),
}
for _dtype in (F32, S32, dtypes.F16, dtypes.BF16, dtypes.F64, dtypes.S64, dtypes.U8, dtypes.C64):
    for _label, _w in _WINDOWS.items():
        for _op in ("add",) if _dtype.is_complex else ("add", "maximum"):
            _exact = _op == "maximum" or _dtype.is_integer
            _judge = None
            if _dtype.bits == 16 and _op == "add" and _label == "cumulative":
                _judge = lambda a, i: np.cumsum(a.astype(np.float64), 1)
            case("reduce_window", f"{_op}_{_label}", _dtype, window_text(_op, _dtype, *_w), [ordinary(_dtype, _w[0]), _initial(_op, _dtype)],
                 judge=_judge, limit=0 if _exact else 4, scale=None if _exact else lambda a, i: np.float64(4) if a.shape[-1] < 40 else np.float64(32))  # fmt: skip
_r, _q = tensor(F32, 4, 8), tensor(S32, 4, 8)
case("reduce_window", "argmax", F32, function([_a, _b, _f, _s], [_r, _q],
     f'%r:2 = "stablehlo.reduce_window"(%0, %1, %2, %3) <{{window_dimensions = {dense([1, 2])}}}> ({_argmax}) : ({_a}, {_b}, {_f}, {_s}) -> ({_r}, {_q})'),
     [_x, np.arange(36, dtype=np.int32).reshape(4, 9), np.float32(-np.inf), np.int32(0)])  # fmt: skip

# --------------------------------------------------------------------------------------------- select_and_scatter

for _dtype in (F32, dtypes.F64, dtypes.F16, dtypes.BF16, S32):
    for _label, _dims, _window, _strides, _padding in (
        ("pooling", (8, 9), (2, 3), (2, 3), ((0, 0), (0, 0))),
        ("overlapping", (8, 9), (3, 3), (1, 2), ((0, 0), (0, 0))),
        ("padded", (8, 9), (3, 3), (2, 2), ((1, 1), (1, 1))),
    ):
        _t, _f1 = tensor(_dtype, *_dims), tensor(_dtype)
        _out = tuple(
            (d + sum(p) - w) // s + 1
            for d, w, s, p in zip(_dims, _window, _strides, _padding, strict=True)
        )
        _o = tensor(_dtype, *_out)
        _ge = f"{{\n^bb0(%a: {_f1}, %b: {_f1}):\n%c = stablehlo.compare GE, %a, %b : ({_f1}, {_f1}) -> {_p}\nstablehlo.return %c : {_p}\n}}"
        _body = (
            f'%r = "stablehlo.select_and_scatter"(%0, %1, %2) <{{window_dimensions = {dense(_window)}, window_strides = {dense(_strides)},'
            f" padding = dense<{[list(p) for p in _padding]}> : tensor<2x2xi64>}}> ({_ge}, {combine('add', _dtype)}) : ({_t}, {_o}, {_f1}) -> {_t}"
        )
        case("select_and_scatter", _label, _dtype, function([_t, _o, _f1], [_t], _body),
             [ordinary(_dtype, _dims), ordinary(_dtype, _out, "source"), np.zeros((), _dtype.numpy)],
             limit=0 if _dtype.is_integer else 2, scale=lambda *a: np.float64(4))  # fmt: skip

# ------------------------------------------------------------------------------------------------------ sort, top_k


def sort_text(
    dtype: Any, dims: tuple[int, ...], dimension: int, direction: str, kind: str, stable: bool
) -> str:
    t, s = tensor(dtype, *dims), tensor(dtype)
    comparator = f"{{\n^bb0(%a: {s}, %b: {s}):\n%c = stablehlo.compare {direction}, %a, %b, {kind} : ({s}, {s}) -> {_p}\nstablehlo.return %c : {_p}\n}}"
    body = f'%r = "stablehlo.sort"(%0) <{{dimension = {dimension} : i64, is_stable = {str(stable).lower()}}}> ({comparator}) : ({t}) -> {t}'
    return function([t], [t], body)


for _dtype in ALL:
    if _dtype.is_complex:
        continue
    _kind = "FLOAT" if _dtype.is_float else "SIGNED" if _dtype.is_signed else "UNSIGNED"
    for _dims, _dimension in (((3, 50), 1), ((50, 3), 0), ((0, 3), 0), ((2, 1), 1)):
        for _direction in ("LT", "GT"):
            case("sort", f"{_direction}{_dims}".replace(" ", ""), _dtype, sort_text(_dtype, _dims, _dimension, _direction, _kind, True),
                 [ordinary(_dtype, _dims)])  # fmt: skip
for _dtype in (dtypes.F16, dtypes.BF16, F32, dtypes.F64):
    _x = np.concatenate([specials(_dtype), -specials(_dtype)])
    case("sort", "total", _dtype, sort_text(_dtype, _x.shape, 0, "LT", "TOTALORDER", True), [_x],
         judge=lambda a: a[np.argsort(total_order(a), kind="stable")])  # fmt: skip
_x = np.array([3, 1, 3, 1, 2, 3], np.int32)
_t, _v = tensor(S32, 6), tensor(F32, 6)
_lt = (f"{{\n^bb0(%a: {_s}, %b: {_s}, %c: {_f}, %d: {_f}):\n%e = stablehlo.compare LT, %a, %b : ({_s}, {_s}) -> {_p}\n"
       f"stablehlo.return %e : {_p}\n}}")  # fmt: skip
case("sort", "pairs_stable", S32, function([_t, _v], [_t, _v],
     f'%r:2 = "stablehlo.sort"(%0, %1) <{{dimension = 0 : i64, is_stable = true}}> ({_lt}) : ({_t}, {_v}) -> ({_t}, {_v})'),
     [_x, np.arange(6, dtype=np.float32)])  # fmt: skip
for _dtype in (F32, S32, dtypes.U32, dtypes.S8, dtypes.F16, dtypes.BF16, dtypes.F64, dtypes.S64):
    for _k in (0, 1, 4, 17):
        _t, _r, _i = tensor(_dtype, 3, 17), tensor(_dtype, 3, _k), tensor(S32, 3, _k)
        case("chlo.top_k", f"{_k}", _dtype, function([_t], [_r, _i], f"%r:2 = chlo.top_k(%0, k = {_k}) : {_t} -> ({_r}, {_i})"),
             [ordinary(_dtype, (3, 17))], judge=lambda a, k=_k: _top(a, k))  # fmt: skip


def _top(a: Any, k: int) -> Any:
    order = np.argsort(-a.astype(np.float64), axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(a, order, -1), order.astype(np.int32)


# ------------------------------------------------------------------------------------------------------------- map

_t = tensor(F32, 4, 5)
case("map", "", F32, function([_t, _t], [_t],
     f'%r = "stablehlo.map"(%0, %1) <{{dimensions = {dense([0, 1])}}}> ({{\n^bb0(%a: {_f}, %b: {_f}):\n%c = stablehlo.multiply %a, %b : {_f}\n'
     f"%d = stablehlo.subtract %c, %a : {_f}\nstablehlo.return %d : {_f}\n}}) : ({_t}, {_t}) -> {_t}"),
     [ordinary(F32, (4, 5)), ordinary(F32, (4, 5), "b")], limit=2, scale=lambda a, b: np.float64(8))  # fmt: skip

# ---------------------------------------------------------------------------------------------------- batch_norm


def _normalise(x: Any, scale: Any, offset: Any, mean: Any, variance: Any, epsilon: float) -> Any:
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset


def _training(x: Any, scale: Any, offset: Any) -> Any:
    x, scale, offset = (a.astype(np.float64) for a in (x, scale, offset))
    mean, variance = x.mean((0, 1)), x.var((0, 1))
    return _normalise(x, scale, offset, mean, variance, float(np.float32(1e-3))), mean, variance


def _gradient(x: Any, scale: Any, mean: Any, variance: Any, dy: Any) -> Any:
    x, scale, mean, variance, dy = (a.astype(np.float64) for a in (x, scale, mean, variance, dy))
    inverse = 1 / np.sqrt(variance + float(np.float32(1e-3)))
    h = (x - mean) * inverse
    dx = scale * inverse * (dy - dy.mean((0, 1)) - h * (dy * h).mean((0, 1)))
    return dx, (dy * h).sum((0, 1)), dy.sum((0, 1))


for _dtype in (F32, dtypes.F64, dtypes.F16, dtypes.BF16):
    _t, _c = tensor(_dtype, 4, 5, 3), tensor(_dtype, 3)
    _x, _y = ordinary(_dtype, (4, 5, 3)), ordinary(_dtype, (4, 5, 3), "dy")
    _v3 = [ordinary(_dtype, (3,), n) for n in "abc"]
    _var = np.abs(_v3[2].astype(np.float64) + 1).astype(_dtype.numpy)
    _how = "<{epsilon = 0.001 : f32, feature_index = 2 : i64}>"
    _big = lambda *a: np.float64(16)
    case("batch_norm_training", "", _dtype, function([_t, _c, _c], [_t, _c, _c],
         f'%r:3 = "stablehlo.batch_norm_training"(%0, %1, %2) {_how} : ({_t}, {_c}, {_c}) -> ({_t}, {_c}, {_c})'), [_x, *_v3[:2]],
         judge=_training, limit=4, scale=_big)  # fmt: skip
    case("batch_norm_inference", "", _dtype, function([_t, _c, _c, _c, _c], [_t],
         f'%r = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) {_how} : ({_t}, {_c}, {_c}, {_c}, {_c}) -> {_t}'), [_x, *_v3, _var],
         judge=lambda *a: _normalise(*[v.astype(np.float64) for v in a], float(np.float32(1e-3))), limit=4, scale=_big)  # fmt: skip
    case("batch_norm_grad", "", _dtype, function([_t, _c, _c, _c, _t], [_t, _c, _c],
         f'%r:3 = "stablehlo.batch_norm_grad"(%0, %1, %2, %3, %4) {_how} : ({_t}, {_c}, {_c}, {_c}, {_t}) -> ({_t}, {_c}, {_c})'),
         [_x, _v3[0], _v3[1], _var, _y], judge=_gradient, limit=8, scale=_big)  # fmt: skip
