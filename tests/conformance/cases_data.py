"""Data movement: every dtype, empty shapes, negative padding, indices out of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import ALL, WIDE_INTEGERS, combine, dense, function, tensor
from tests.conformance.registry import case
from tests.conformance.values import ordinary

F32, S32 = dtypes.F32, dtypes.S32


def _listed(values: Any) -> str:
    return f"[{', '.join(map(str, values))}]"


# ------------------------------------------------------------------------------------------ shapes

for _dtype in ALL:
    for _dims, _permutation in (((2, 3, 5), (2, 0, 1)), ((33, 17), (1, 0)), ((2, 0, 3), (1, 2, 0))):
        _t, _r = tensor(_dtype, *_dims), tensor(_dtype, *[_dims[p] for p in _permutation])
        case("transpose", "x".join(map(str, _dims)), _dtype,
             function([_t], [_r], f"%r = stablehlo.transpose %0, dims = {_listed(_permutation)} : ({_t}) -> {_r}"),
             [ordinary(_dtype, _dims)], judge=lambda a, p=_permutation: np.transpose(a, p))  # fmt: skip
    for _from, _to in (((6, 4), (3, 8)), ((1,), ()), ((0, 3), (5, 0))):
        _t, _r = tensor(_dtype, *_from), tensor(_dtype, *_to)
        case("reshape", f"{_from}to{_to}".replace(" ", ""), _dtype,
             function([_t], [_r], f"%r = stablehlo.reshape %0 : ({_t}) -> {_r}"), [ordinary(_dtype, _from)],
             judge=lambda a, d=_to: a.reshape(d))  # fmt: skip
    for _from, _to, _where in (
        ((3,), (2, 3, 4), (1,)),
        ((1, 4), (2, 3, 4), (1, 2)),
        ((), (5,), ()),
        ((2, 3), (3, 2), (1, 0)),
        ((1,), (0,), (0,)),
    ):
        _t, _r = tensor(_dtype, *_from), tensor(_dtype, *_to)
        case("broadcast_in_dim", f"{_from}to{_to}".replace(" ", ""), _dtype,
             function([_t], [_r], f"%r = stablehlo.broadcast_in_dim %0, dims = {_listed(_where)} : ({_t}) -> {_r}"),
             [ordinary(_dtype, _from)])  # fmt: skip
    _t, _r = tensor(_dtype, 3), tensor(_dtype, 2, 3)
    case("broadcast", "", _dtype, function([_t], [_r], f"%r = stablehlo.broadcast %0, sizes = [2] : ({_t}) -> {_r}"),
         [ordinary(_dtype, (3,))], judge=lambda a: np.stack([a, a]))  # fmt: skip
    _t = tensor(_dtype, 7, 6)
    for _starts, _limits, _strides in (
        ((0, 1), (7, 6), (1, 2)),
        ((2, 3), (2, 6), (1, 1)),
        ((6, 0), (7, 6), (3, 5)),
    ):
        _s = tuple(slice(*v) for v in zip(_starts, _limits, _strides, strict=True))
        _r = tensor(_dtype, *np.zeros((7, 6))[_s].shape)
        _bounds = _listed(
            f"{a}:{b}:{c}" for a, b, c in zip(_starts, _limits, _strides, strict=True)
        )
        case("slice", str(_starts).replace(" ", ""), _dtype,
             function([_t], [_r], f"%r = stablehlo.slice %0 {_bounds} : ({_t}) -> {_r}"), [ordinary(_dtype, (7, 6))],
             judge=lambda a, s=_s: a[s])  # fmt: skip
    for _low, _high, _interior in (
        ((1, 2), (0, 3), (0, 0)),
        ((-1, 2), (-2, -1), (0, 2)),
        ((-4, 0), (-3, 0), (0, 1)),
        ((2, -1), (0, -6), (3, 0)),
    ):
        _d = tuple(
            n + lo + hi + max(0, n - 1) * i
            for n, lo, hi, i in zip((7, 6), _low, _high, _interior, strict=True)
        )
        if min(_d) < 0:
            continue
        _r = tensor(_dtype, *_d)
        case("pad", f"{_low}{_high}{_interior}".replace(" ", ""), _dtype,
             function([_t, tensor(_dtype)], [_r],
                      f"%r = stablehlo.pad %0, %1, low = {_listed(_low)}, high = {_listed(_high)}, interior = {_listed(_interior)}"
                      f" : ({_t}, {tensor(_dtype)}) -> {_r}"),
             [ordinary(_dtype, (7, 6)), ordinary(_dtype, (), "padding")])  # fmt: skip
    _e, _r = tensor(_dtype, 0, 6), tensor(_dtype, 2, 6)
    case("pad", "empty", _dtype,
         function([_e, tensor(_dtype)], [_r], f"%r = stablehlo.pad %0, %1, low = [1, 0], high = [1, 0], interior = [2, 0] : ({_e}, {tensor(_dtype)}) -> {_r}"),
         [ordinary(_dtype, (0, 6)), ordinary(_dtype, ())], judge=lambda a, v: np.full((2, 6), v))  # fmt: skip
    _u, _r = tensor(_dtype, 7, 0), tensor(_dtype, 7, 8)
    _w = tensor(_dtype, 7, 2)
    case("concatenate", "with_empty", _dtype,
         function([_t, _u, _w], [_r], f"%r = stablehlo.concatenate %0, %1, %2, dim = 1 : ({_t}, {_u}, {_w}) -> {_r}"),
         [ordinary(_dtype, (7, 6)), ordinary(_dtype, (7, 0)), ordinary(_dtype, (7, 2))],
         judge=lambda *a: np.concatenate(a, 1))  # fmt: skip
    case("reverse", "", _dtype, function([_t], [_t], f"%r = stablehlo.reverse %0, dims = [0, 1] : {_t}"), [ordinary(_dtype, (7, 6))],
         judge=lambda a: a[::-1, ::-1])  # fmt: skip
    if _dtype.kind != "pred":
        _count = min(2 ** max(_dtype.bits - 1, 1), 300) if _dtype.is_integer else 5
        for _dimension in (0, 1):
            _dims = (_count, 3) if _dimension == 0 else (3, _count)
            _r = tensor(_dtype, *_dims)
            _iota = np.arange(_count).astype(np.float32 if not _dtype.is_integer else np.int64)
            if "e8m0" in _dtype.name or "f4" in _dtype.name:
                continue
            case("iota", f"{_dimension}", _dtype, function([], [_r], f"%r = stablehlo.iota dim = {_dimension} : {_r}"), [],
                 judge=lambda d=_dims, k=_dimension, v=_iota, t=_dtype: np.broadcast_to(v[:, None] if k == 0 else v, d).astype(t.numpy))  # fmt: skip
    # A constant of every dtype, as MLIR prints the bits.
    _x = ordinary(_dtype, (2, 3))
    _data = np.packbits(_x.reshape(-1), bitorder="little") if _dtype.kind == "pred" else _x
    if _dtype.kind != "pred":
        _r = tensor(_dtype, 2, 3)
        case("constant", "", _dtype, function([], [_r], f'%r = stablehlo.constant dense<"0x{_x.tobytes().hex().upper()}"> : {_r}'), [],
             judge=lambda a=_x: a)  # fmt: skip
case("constant", "", "pred", function([], [tensor("pred", 3)], f"%r = stablehlo.constant dense<[true, false, true]> : {tensor('pred', 3)}"), [],
     judge=lambda: np.array([True, False, True]))  # fmt: skip
for _name, _dtype in (("iota", F32),):
    _r = tensor(_dtype, 0, 3)
    case(
        _name,
        "empty",
        _dtype,
        function([], [_r], f"%r = stablehlo.iota dim = 0 : {_r}"),
        [],
        judge=lambda: np.zeros((0, 3)),
    )

# ---------------------------------------------------------------------------------- indices from values

_INDICES = {"inside": 2, "below": -3, "above": 100}
for _index in WIDE_INTEGERS:
    for _label, _at in _INDICES.items():
        if _at < 0 and not _index.is_signed:
            _at = 2**_index.bits - 1
        _t, _r, _i = tensor(F32, 7, 6), tensor(F32, 3, 4), tensor(_index)
        _at_array, _zero = np.array(_at).astype(_index.numpy), np.zeros((), _index.numpy)
        _x, _u = ordinary(F32, (7, 6)), ordinary(F32, (3, 4), "u")
        _start = int(np.clip(_at, 0, 4))
        case("dynamic_slice", f"{_label}_{_index.name}", F32,
             function([_t, _i, _i], [_r], f"%r = stablehlo.dynamic_slice %0, %1, %2, sizes = [3, 4] : ({_t}, {_i}, {_i}) -> {_r}"),
             [_x, _at_array, _zero], judge=lambda a, i, j, s=_start: a[s : s + 3, 0:4])  # fmt: skip

        def _updated(a: Any, u: Any, i: Any, j: Any, s: int = _start) -> Any:
            a = a.copy()
            a[s : s + 3, 0:4] = u
            return a

        case("dynamic_update_slice", f"{_label}_{_index.name}", F32,
             function([_t, _r, _i, _i], [_t], f"%r = stablehlo.dynamic_update_slice %0, %1, %2, %3 : ({_t}, {_r}, {_i}, {_i}) -> {_t}"),
             [_x, _u, _at_array, _zero], judge=_updated)  # fmt: skip
for _dtype in ALL:
    _t, _r, _i = tensor(_dtype, 7, 6), tensor(_dtype, 3, 4), tensor(S32)
    case("dynamic_slice", "", _dtype,
         function([_t, _i, _i], [_r], f"%r = stablehlo.dynamic_slice %0, %1, %2, sizes = [3, 4] : ({_t}, {_i}, {_i}) -> {_r}"),
         [ordinary(_dtype, (7, 6)), np.int32(1), np.int32(9)], judge=lambda a, i, j: a[1:4, 2:6])  # fmt: skip
    case("dynamic_update_slice", "", _dtype,
         function([_t, _r, _i, _i], [_t], f"%r = stablehlo.dynamic_update_slice %0, %1, %2, %3 : ({_t}, {_r}, {_i}, {_i}) -> {_t}"),
         [ordinary(_dtype, (7, 6)), ordinary(_dtype, (3, 4), "u"), np.int32(1), np.int32(9)])  # fmt: skip

# ------------------------------------------------------------------------------------------ gather and scatter

_GATHER = (
    '%r = "stablehlo.gather"(%0, %1) <{{dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = {sorted},'
    " slice_sizes = {sizes}}}> : ({a}, {i}) -> {r}"
)


def add_gather(variant: str, dtype: Any, index: Any, operand: tuple[int, ...], indices: Any, result: tuple[int, ...], numbers: str,
               sizes: tuple[int, ...], is_sorted: bool = False) -> None:  # fmt: skip
    indices = np.asarray(indices).astype(index.numpy)
    a, i, r = tensor(dtype, *operand), tensor(index, *indices.shape), tensor(dtype, *result)
    body = _GATHER.format(
        numbers=numbers, sizes=dense(sizes), a=a, i=i, r=r, sorted="true" if is_sorted else "false"
    )
    case("gather", variant, dtype, function([a, i], [r], body), [ordinary(dtype, operand), indices])


_ROWS = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
for _dtype in ALL:
    add_gather("rows", _dtype, S32, (9, 4), [[3], [-2], [8], [99], [0]], (5, 4), _ROWS, (1, 4))
for _index in WIDE_INTEGERS:
    _numbers = [[3], [127], [8], [-1 if _index.is_signed else 126], [0]]
    add_gather(f"rows_{_index.name}", F32, _index, (9, 4), _numbers, (5, 4), _ROWS, (1, 4))
add_gather("windows", F32, S32, (9, 8), [[3, 1], [-2, 7], [8, 8]], (3, 2, 3),
           "offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1", (2, 3))  # fmt: skip
add_gather("map_swapped", F32, S32, (9, 8), [[3, 1], [-2, 7], [8, 8]], (2, 3, 3),
           "offset_dims = [0, 2], start_index_map = [1, 0], index_vector_dim = 1", (2, 3))  # fmt: skip
add_gather("vector_dim_0", F32, S32, (9, 8), [[3, 1, 5], [2, 7, 0]], (3,),
           "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 0", (1, 1))  # fmt: skip
add_gather("implied_vector", F32, S32, (9, 8), [3, 1, 5], (3, 8),
           "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1", (1, 8))  # fmt: skip
add_gather("batching", F32, S32, (3, 9, 4), [[[3], [1]], [[-1], [8]], [[20], [0]]], (3, 2, 4),
           "offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],"
           " start_index_map = [1], index_vector_dim = 2", (1, 1, 4))  # fmt: skip
add_gather("no_indices", F32, S32, (9, 4), np.zeros((0, 1)), (0, 4), _ROWS, (1, 4))
add_gather("no_slice", F32, S32, (9, 4), [[3], [1]], (2, 0), _ROWS, (1, 0))
add_gather("sorted", F32, S32, (9, 4), [[0], [3], [8]], (3, 4), _ROWS, (1, 4), is_sorted=True)

_SCATTER = (
    '%r = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, indices_are_sorted = false,'
    " unique_indices = {unique}}}> ({region}) : ({a}, {i}, {u}) -> {a}"
)


def _set(dtype: Any) -> str:
    t = tensor(dtype)
    return f"{{\n^bb0(%a: {t}, %b: {t}):\nstablehlo.return %b : {t}\n}}"


def add_scatter(variant: str, dtype: Any, index: Any, operand: tuple[int, ...], indices: Any, updates: tuple[int, ...], numbers: str,
                op: str = "add", unique: bool = False, judge: Any = None) -> None:  # fmt: skip
    indices = np.asarray(indices).astype(index.numpy)
    a, i, u = tensor(dtype, *operand), tensor(index, *indices.shape), tensor(dtype, *updates)
    region = _set(dtype) if op == "set" else combine(op, dtype)
    body = _SCATTER.format(
        numbers=numbers, region=region, a=a, i=i, u=u, unique="true" if unique else "false"
    )
    exact = op in ("set", "maximum", "minimum") or dtype.is_integer or dtype.kind == "pred"
    case("scatter", variant, dtype, function([a, i, u], [a], body),
         [ordinary(dtype, operand), indices, ordinary(dtype, updates, "u")],
         judge=judge, limit=0 if exact else 2 if dtype.bits >= 32 else 1,
         scale=None if exact else lambda x, i, u: np.float64(4))  # fmt: skip


_SCATTER_ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
_AT = [[3], [-2], [8], [99], [3]]
for _dtype in ALL:
    add_scatter(
        "set", _dtype, S32, (9, 4), [[3], [-2], [8], [99], [0]], (5, 4), _SCATTER_ROWS, "set", True
    )
    if _dtype.bits >= 16 or _dtype.is_integer or _dtype.kind == "pred":
        add_scatter("add", _dtype, S32, (9, 4), _AT, (5, 4), _SCATTER_ROWS)
    if not _dtype.is_complex and (_dtype.bits >= 16 or _dtype.is_integer):
        add_scatter("maximum", _dtype, S32, (9, 4), _AT, (5, 4), _SCATTER_ROWS, "maximum")
        add_scatter(
            "multiply",
            _dtype,
            S32,
            (9, 4),
            [[3], [-2], [8], [99], [0]],
            (5, 4),
            _SCATTER_ROWS,
            "multiply",
        )
for _index in WIDE_INTEGERS:
    _numbers = [[3], [127], [8], [-1 if _index.is_signed else 126], [3]]
    add_scatter(f"index_{_index.name}", F32, _index, (9, 4), _numbers, (5, 4), _SCATTER_ROWS)


def _whole_windows(a: Any, indices: Any, updates: Any) -> Any:
    """XLA leaves out an update whose window does not fit; the interpreter only the part that is outside."""
    a = a.copy()
    for (i, j), u in zip(indices, updates, strict=True):
        if 0 <= i <= a.shape[0] - 2 and 0 <= j <= a.shape[1] - 3:
            a[i : i + 2, j : j + 3] += u
    return a


add_scatter("windows", F32, S32, (9, 8), [[3, 1], [-1, 7], [8, 6], [2, 2]], (4, 2, 3),
            "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1", judge=_whole_windows)  # fmt: skip
add_scatter("batching", F32, S32, (3, 9, 4), [[[3], [1]], [[-1], [8]], [[20], [0]]], (3, 2, 4),
            "update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],"
            " scatter_dims_to_operand_dims = [1], index_vector_dim = 2")  # fmt: skip
add_scatter("no_updates", F32, S32, (9, 4), np.zeros((0, 1)), (0, 4), _SCATTER_ROWS)
add_scatter("into_empty", F32, S32, (0, 4), [[0], [1]], (2, 4), _SCATTER_ROWS)
add_scatter(
    "scalar_index",
    F32,
    S32,
    (9,),
    [4],
    (),
    "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0",
)
_a, _i, _u = tensor(F32, 9), tensor(S32, 5, 1), tensor(F32, 5)
_b, _v = tensor(S32, 9), tensor(S32, 5)
_f, _s = tensor(F32), tensor(S32)
case("scatter", "variadic", F32, function([_a, _b, _i, _u, _v], [_a, _b],
     f'%r:2 = "stablehlo.scatter"(%0, %1, %2, %3, %4) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],'
     f" scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{\n"
     f"^bb0(%a: {_f}, %b: {_s}, %c: {_f}, %d: {_s}):\n%e = stablehlo.maximum %a, %c : {_f}\n%f = stablehlo.add %b, %d : {_s}\n"
     f"stablehlo.return %e, %f : {_f}, {_s}\n}}) : ({_a}, {_b}, {_i}, {_u}, {_v}) -> ({_a}, {_b})"),
     [ordinary(F32, (9,)), ordinary(S32, (9,)), np.array(_AT, np.int32), ordinary(F32, (5,)), ordinary(S32, (5,), "v")])  # fmt: skip

# ------------------------------------------------------------------------------- shapes from values that are constants

_x = ordinary(F32, (2, 3))
_t = tensor(F32, 2, 3)
_c = lambda name, *v: f"%{name} = stablehlo.constant dense<{list(v)}> : tensor<{len(v)}xi32>\n"
_i = lambda n: tensor(S32, n)
_r = tensor(F32, 4, 2, 3)
case("dynamic_broadcast_in_dim", "", F32, function([_t], [_r], _c("s", 4, 2, 3)
     + f"%r = stablehlo.dynamic_broadcast_in_dim %0, %s, dims = [1, 2] : ({_t}, {_i(3)}) -> {_r}"), [_x], judge=lambda a: np.stack([a] * 4))  # fmt: skip
_r = tensor(F32, 3, 2)
case("dynamic_reshape", "", F32, function([_t], [_r], _c("s", 3, 2) + f"%r = stablehlo.dynamic_reshape %0, %s : ({_t}, {_i(2)}) -> {_r}"), [_x],
     judge=lambda a: a.reshape(3, 2))  # fmt: skip
case("dynamic_reshape", "unknown_type", F32, function([_t], [_r], _c("s", 3, 2)
     + f"%d = stablehlo.dynamic_reshape %0, %s : ({_t}, {_i(2)}) -> tensor<?x?xf32>\n%e = stablehlo.add %d, %d : tensor<?x?xf32>\n"
     + f"%r = stablehlo.dynamic_reshape %e, %s : (tensor<?x?xf32>, {_i(2)}) -> {_r}"), [_x], judge=lambda a: 2 * a.reshape(3, 2))  # fmt: skip
case("dynamic_iota", "", F32, function([], [_r], _c("s", 3, 2) + f"%r = stablehlo.dynamic_iota %s, dim = 0 : ({_i(2)}) -> {_r}"), [],
     judge=lambda: np.repeat(np.arange(3), 2).reshape(3, 2))  # fmt: skip
_r = tensor(F32, 3, 6)
case("dynamic_pad", "", F32, function([_t, tensor(F32)], [_r], _c("l", 1, 0) + _c("h", 0, -1) + _c("n", 0, 2)
     + f"%r = stablehlo.dynamic_pad %0, %1, %l, %h, %n : ({_t}, {tensor(F32)}, {_i(2)}, {_i(2)}, {_i(2)}) -> {_r}"),
     [_x, np.float32(9)], judge=lambda a, v: np.vstack([np.full((1, 6), v), np.stack([a[:, 0], [v, v], [v, v], a[:, 1], [v, v], [v, v]], 1)]))  # fmt: skip
_r = tensor(F32, 2, 2)
case("real_dynamic_slice", "", F32, function([_t], [_r], _c("l", 0, 0) + _c("h", 2, 3) + _c("n", 1, 2)
     + f"%r = stablehlo.real_dynamic_slice %0, %l, %h, %n : ({_t}, {_i(2)}, {_i(2)}, {_i(2)}) -> {_r}"), [_x], judge=lambda a: a[:, ::2])  # fmt: skip
_r = tensor(F32, 3, 3)
case("dynamic_gather", "", F32, function([_t, _i(3)], [_r], _c("s", 1, 3)
     + f'%r = "stablehlo.dynamic_gather"(%0, %1, %s) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],'
     f" start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false}}> : ({_t}, {_i(3)}, {_i(2)}) -> {_r}"),
     [_x, np.array([1, 0, 7], np.int32)], judge=lambda a, i: a[np.clip(i, 0, 1)])  # fmt: skip
case("get_dimension_size", "", F32, function([_t], [tensor(S32)], f"%r = stablehlo.get_dimension_size %0, dim = 1 : ({_t}) -> {tensor(S32)}"), [_x],
     judge=lambda a: np.int32(3))  # fmt: skip
case("set_dimension_size", "whole", F32, function([_t], [_t], "%s = stablehlo.constant dense<3> : tensor<i32>\n"
     + f"%r = stablehlo.set_dimension_size %0, %s, dim = 1 : ({_t}, tensor<i32>) -> {_t}"), [_x], judge=lambda a: a)  # fmt: skip
case("set_dimension_size", "shorter", F32, function([_t], ["tensor<2x?xf32, #stablehlo.bounds<?, 3>>"], "%s = stablehlo.constant dense<2> : tensor<i32>\n"
     + f"%r = stablehlo.set_dimension_size %0, %s, dim = 1 : ({_t}, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>"), [_x],
     judge=lambda a: a[:, :2])  # fmt: skip
for _dim, _batch, _is, _rs in (
    (0, 0, (4,), (4, 3)),
    (1, 0, (2, 2), (2, 2, 2)),
    (1, 1, (2, 2), (2, 2)),
):
    _ti, _tr = tensor(S32, *_is), tensor(F32, *_rs)
    _index = ordinary(S32, _is) % 2
    case("torch_index_select", f"{_dim}{_batch}", F32,
         function([_t, _ti], [_tr], f'%r = "stablehlo.torch_index_select"(%0, %1) <{{dim = {_dim} : i64, batch_dims = {_batch} : i64}}> : ({_t}, {_ti}) -> {_tr}'),
         [_x, _index], judge=lambda a, i, d=_dim, b=_batch: np.take_along_axis(a, i, 1) if b else np.take(a, i, d))  # fmt: skip
