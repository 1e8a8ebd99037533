"""Every element type in operations that say nothing of it: control flow, calls, collectives, dynamic shapes, and chlo's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Shape

from tests.conformance import reference
from tests.conformance.cases_elementwise import CHLO_FLOAT, wide
from tests.conformance.programs import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    WIDE_FLOATS,
    combine,
    function,
    tensor,
)
from tests.conformance.registry import case
from tests.conformance.values import generator, ordinary

_s, _p, _flag = tensor("s32"), tensor("pred"), tensor("pred", 3)
_COUNTED = f"""%zero = stablehlo.constant dense<0> : {_s}
%one = stablehlo.constant dense<1> : {_s}
%three = stablehlo.constant dense<3> : {_s}
"""
_ALONE = "replica_groups = dense<[[0]]> : tensor<1x1xi64>"


def _constant(name: str, *values: int) -> str:
    return f"%{name} = stablehlo.constant dense<{list(values)}> : {tensor('s64', len(values))}\n"


def _number(dtype: DType, value: int) -> str:
    if dtype.kind == "pred":
        return "true" if value else "false"
    if dtype.is_complex:
        return f"({value}.0, 0.0)"
    return f"{value}.0" if dtype.is_float else str(value)


# ------------------------------------------------------------------------------- one array: op -> (program, result)

Judge = Callable[..., Any]


def _moving(t: str, e: str, dtype: DType) -> dict[str, tuple[str, str, Judge]]:
    """Operations on an array of 3 by 4, called ``%0``: text, type of the result, and NumPy's."""
    reduction = "or" if dtype.kind == "pred" else "add"
    k, quarter = dtype.name, tensor(dtype, 4)
    body = combine(reduction, dtype)
    same = lambda a: a
    one = f"({t}) -> {t}"
    return {
        "while": (_COUNTED + f"""%r0:2 = stablehlo.while(%i = %zero, %x = %0) : {_s}, {t} cond {{
  %c = stablehlo.compare LT, %i, %three : ({_s}, {_s}) -> {_p}
  stablehlo.return %c : {_p}
}} do {{
  %j = stablehlo.add %i, %one : {_s}
  %y = stablehlo.reverse %x, dims = [0, 1] : {t}
  stablehlo.return %j, %y : {_s}, {t}
}}
%r = stablehlo.reverse %r0#1, dims = [0] : {t}""", t, lambda a: a[:, ::-1]),
        "if": (f"""%c = stablehlo.constant dense<false> : {_p}
%b = stablehlo.optimization_barrier %c : {_p}
%r = "stablehlo.if"(%b) ({{
  stablehlo.return %0 : {t}
}}, {{
  %y = stablehlo.reverse %0, dims = [1] : {t}
  stablehlo.return %y : {t}
}}) : ({_p}) -> {t}""", t, lambda a: a[:, ::-1]),
        "case": (_COUNTED + f"""%b = stablehlo.optimization_barrier %three : {_s}
%r = "stablehlo.case"(%b) ({{
  stablehlo.return %0 : {t}
}}, {{
  %y = stablehlo.reverse %0, dims = [1] : {t}
  stablehlo.return %y : {t}
}}) : ({_s}) -> {t}""", t, lambda a: a[:, ::-1]),
        "optimization_barrier": (f"%r = stablehlo.optimization_barrier %0 : {t}", t, same),
        "tuple": (f"%u = stablehlo.tuple %0, %0 : tuple<{t}, {t}>\n"
                  f"%r = stablehlo.get_tuple_element %u[0] : (tuple<{t}, {t}>) -> {t}", t, same),
        "get_tuple_element": (f"%v = stablehlo.reverse %0, dims = [0] : {t}\n%u = stablehlo.tuple %0, %v : tuple<{t}, {t}>\n"
                              f"%r = stablehlo.get_tuple_element %u[1] : (tuple<{t}, {t}>) -> {t}", t, lambda a: a[::-1]),
        "all_reduce": (f'%r = "stablehlo.all_reduce"(%0) <{{{_ALONE}}}> ({body}) : {one}', t, same),
        "all_gather": (f'%r = "stablehlo.all_gather"(%0) <{{all_gather_dim = 0 : i64, {_ALONE}}}> : {one}', t, same),
        "all_to_all": (f'%r = "stablehlo.all_to_all"(%0) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64,'
                       f" {_ALONE}}}> : {one}", t, same),
        "reduce_scatter": (f'%r = "stablehlo.reduce_scatter"(%0) <{{scatter_dimension = 0 : i64, {_ALONE}}}> ({body}) : {one}', t, same),
        "collective_permute": (f'%r = "stablehlo.collective_permute"(%0) <{{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}}> : {one}',
                               t, same),
        "collective_broadcast": (f'%r = "stablehlo.collective_broadcast"(%0) <{{{_ALONE}}}> : {one}', t, same),
        "cross-replica-sum": (f'%r = "stablehlo.cross-replica-sum"(%0) <{{{_ALONE}}}> : {one}', t, same),
        "custom_call": (f"%r = stablehlo.custom_call @Sharding(%0) : {one}", t, same),
        "dynamic_broadcast_in_dim": (_constant("d", 2, 3, 4) + f"%r = stablehlo.dynamic_broadcast_in_dim %0, %d, dims = [1, 2] : ({t},"
                                     f" {tensor('s64', 3)}) -> {tensor(k, 2, 3, 4)}", tensor(k, 2, 3, 4), lambda a: np.stack([a, a])),
        "dynamic_reshape": (_constant("d", 2, 6) + f"%r = stablehlo.dynamic_reshape %0, %d : ({t}, {tensor('s64', 2)}) -> {tensor(k, 2, 6)}",
                            tensor(k, 2, 6), lambda a: a.reshape(2, 6)),
        "dynamic_pad": (_constant("l", 1, 0) + _constant("h", 0, -1) + _constant("n", 0, 0) + f"%v = stablehlo.constant dense<{_number(dtype, 1)}> : {e}\n"
                        f"%r = stablehlo.dynamic_pad %0, %v, %l, %h, %n : ({t}, {e}, {', '.join([tensor('s64', 2)] * 3)})"
                        f" -> {tensor(k, 4, 3)}", tensor(k, 4, 3),
                        lambda a: np.concatenate([np.ones((1, 3), a.dtype), a[:, :3]])),
        "real_dynamic_slice": (_constant("l", 1, 0) + _constant("h", 3, 4) + _constant("n", 1, 2) + f"%r = stablehlo.real_dynamic_slice %0, %l, %h, %n"
                               f" : ({t}, {', '.join([tensor('s64', 2)] * 3)}) -> {tensor(k, 2, 2)}", tensor(k, 2, 2), lambda a: a[1:3, ::2]),
        "dynamic_gather": (_constant("d", 1, 4) + _constant("n", 2, 0, 1) + '%r = "stablehlo.dynamic_gather"(%0, %n, %d) <{dimension_numbers ='
                           " #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}>"
                           f" : ({t}, {tensor('s64', 3)}, {tensor('s64', 2)}) -> {t}", t, lambda a: a[[2, 0, 1]]),
        "torch_index_select": (_constant("n", 2, 2) + f'%r = "stablehlo.torch_index_select"(%0, %n) <{{dim = 1 : i64, batch_dims = 0 : i64}}>'
                               f" : ({t}, {tensor('s64', 2)}) -> {tensor(k, 3, 2)}", tensor(k, 3, 2), lambda a: a[:, [2, 2]]),
        "get_dimension_size": (f"%r = stablehlo.get_dimension_size %0, dim = 1 : ({t}) -> {_s}", _s, lambda a: np.int32(4)),
        "map": (f'%r = "stablehlo.map"(%0, %0) <{{dimensions = array<i64: 0, 1>}}> ({combine("or" if dtype.kind == "pred" else "maximum" if not dtype.is_complex else "multiply", dtype)})'
                f" : ({t}, {t}) -> {t}", t, (lambda a: a * a) if dtype.is_complex else same),
        "chlo.constant_like": (f'%r = "chlo.constant_like"(%0) {{value = {_number(dtype, 1)} : {e[7:-1]}}} : ({t}) -> {t}', t, np.ones_like),
        "chlo.constant": (f"%r = chlo.constant dense<{_number(dtype, 1)}> : {quarter}", quarter, lambda a: np.ones(4, a.dtype)),
        "chlo.broadcast_select": (f"%c = stablehlo.constant dense<[true, false, true, false]> : {tensor('pred', 4)}\n%v = stablehlo.reverse %0, dims = [0] : {t}\n"
                                  f"%r = chlo.broadcast_select %c, %0, %v : ({tensor('pred', 4)}, {t}, {t}) -> {t}", t,
                                  lambda a: np.where([True, False, True, False], a, a[::-1])),
    }  # fmt: skip


for _dtype in ALL:
    _t, _e = tensor(_dtype, 3, 4), tensor(_dtype)
    _x = ordinary(_dtype, (3, 4))
    for _op, (_text, _result, _judge) in _moving(_t, _e, _dtype).items():
        if _op == "chlo.constant_like" and (_dtype.is_complex or _dtype.kind == "pred"):
            continue  # its attribute is a number
        case(_op, "types", _dtype, function([_t], [_result], _text), [_x], judge=_judge,
             limit=2 if _op == "map" and _dtype.is_complex else 0)  # fmt: skip
    for _call, _how in (
        ("func.call", "func.call @f(%0)"),
        ("composite", 'stablehlo.composite "mine.f" %0 {decomposition = @f}'),
    ):
        case(_call, "types", _dtype,
             f"func.func private @f(%a: {_t}) -> {_t} {{\n%b = stablehlo.reverse %a, dims = [0] : {_t}\nreturn %b : {_t}\n}}\n"
             f"func.func @main(%0: {_t}) -> {_t} {{\n%r = {_how} : ({_t}) -> {_t}\nreturn %r : {_t} }}\n",
             [_x], judge=lambda a: a[::-1])  # fmt: skip

# ---------------------------------------------------------------------------------------------- numbers

for _dtype in (*INTEGERS, *FLOATS, *COMPLEX):
    if _dtype.name == "f8e8m0fnu":  # has no zero
        continue
    _t = tensor(_dtype, 2, 3)
    case("dynamic_iota", "types", _dtype, function([], [_t], _constant("d", 2, 3) + f"%r = stablehlo.dynamic_iota %d, dim = 0 : ({tensor('s64', 2)}) -> {_t}"),
         [], judge=lambda: np.array([[0] * 3, [1] * 3]))  # fmt: skip

# Small whole numbers, whose products and sums are exact in every type that has so many digits.
for _dtype in (*INTEGERS, *WIDE_FLOATS, *COMPLEX):
    if _dtype.bits < 8:
        continue
    _a = generator(f"a{_dtype.name}").integers(0, 4, (3, 4)).astype(_dtype.numpy)
    _b = generator(f"b{_dtype.name}").integers(0, 4, (4, 5)).astype(_dtype.numpy)
    _l, _r, _o, _c = (tensor(_dtype, *d) for d in ((3, 4), (4, 5), (3, 5), (4,)))
    case("dot", "types", _dtype, function([_l, _r], [_o], f"%r = stablehlo.dot %0, %1 : ({_l}, {_r}) -> {_o}"), [_a, _b],
         judge=lambda a, b: a @ b if a.dtype.kind in "iufc" else a.astype(np.float32) @ b.astype(np.float32))  # fmt: skip
    case("einsum", "types", _dtype, function([_l, _r], [_o], f'%r = stablehlo.einsum %0, %1, config = "ij,jk->ik" : ({_l}, {_r}) -> {_o}'),
         [_a, _b], judge=lambda a, b: a @ b if a.dtype.kind in "iufc" else a.astype(np.float32) @ b.astype(np.float32))  # fmt: skip
    case("unary_einsum", "types", _dtype, function([_l], [_c], f'%r = "stablehlo.unary_einsum"(%0) <{{einsum_config = "ij->j"}}> : ({_l}) -> {_c}'),
         [_a], judge=lambda a: a.astype(np.complex128 if a.dtype.kind == "c" else np.float64).sum(0))  # fmt: skip

# ---------------------------------------------------------------------------------------------- chlo, broadcasting


def _by_interpreter(op: str, left: DType, dtype: DType, extra: str) -> Any:
    """What the reference interpreter says of StableHLO's operation on operands that are broadcast first."""
    t, u = tensor(left, 3, 4), tensor(left, 4)
    r = tensor(dtype, 3, 4)
    kind = f"({t}, {t}) -> {r}" if op in ("compare", "complex") else t
    text = function(
        [t, u],
        [r],
        f"%b = stablehlo.broadcast_in_dim %1, dims = [1] : ({u}) -> {t}\n%r = stablehlo.{op} {extra}%0, %b : {kind}",
    )
    return lambda *arguments: reference.interpret(text, arguments, [Shape(dtype, (3, 4))])


_REAL = (*INTEGERS, *(d for d in FLOATS if d.name != "f8e8m0fnu"))
_BITS = (dtypes.PRED, *INTEGERS)
_BROADCAST: dict[str, tuple[DType, ...]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "compare"), (*_REAL, *COMPLEX)),
    **dict.fromkeys(("maximum", "minimum", "divide", "remainder"), _REAL),
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    **dict.fromkeys(("shift_left", "shift_right_arithmetic", "shift_right_logical"), INTEGERS),
    "complex": (dtypes.F32, dtypes.F64),
}
for _op, _types in _BROADCAST.items():
    for _dtype in _types:
        _result = _dtype
        if _op == "compare":
            _result = dtypes.PRED
        elif _op == "complex":
            _result = dtypes.C64 if _dtype is dtypes.F32 else dtypes.C128
        _how = {"compare": " {comparison_direction = #chlo<comparison_direction EQ>}"}.get(_op, "")
        _t, _u, _r = tensor(_dtype, 3, 4), tensor(_dtype, 4), tensor(_result, 3, 4)
        _x, _y = ordinary(_dtype, (3, 4), "x"), ordinary(_dtype, (4,), "y")
        if _op in (
            "divide",
            "remainder",
        ):  # the interpreter ends the process at zero, and at the smallest number by -1
            _y = np.where(_y.astype(np.float64) <= 0, np.ones((), _dtype.numpy), _y)
        case(f"chlo.broadcast_{_op}", "types", _dtype, function([_t, _u], [_r], f"%r = chlo.broadcast_{_op} %0, %1{_how} : ({_t}, {_u}) -> {_r}"),
             [_x, _y], judge=_by_interpreter(_op, _dtype, _result, "EQ, " if _op == "compare" else ""),
             limit=1 if (_dtype.is_float and _dtype.bits <= 16) or _dtype.is_complex else 0)  # fmt: skip

# chlo's functions of short floats: computed in f32 and rounded.
for _op, (_f, *_) in CHLO_FLOAT.items():
    for _dtype in FLOATS:
        if _dtype.bits > 16 or _dtype.name == "f8e8m0fnu":
            continue
        _x = generator(_op).uniform(0.01, 0.99, 300).astype(_dtype.numpy)
        _x = (_x + 1).astype(_dtype.numpy) if _op in ("acosh", "lgamma") else _x
        _t = tensor(_dtype, 300)
        case(f"chlo.{_op}", "", _dtype, function([_t], [_t], f"%r = chlo.{_op} %0 : {_t} -> {_t}"), [_x],
             judge=wide(_f, _dtype), limit=1)  # fmt: skip
