"""Edges of attributes and shapes that the tables of the other modules leave out, one operation after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes

from tests.conformance.cases_control import by_xla
from tests.conformance.programs import ALL, combine, dense, function, tensor
from tests.conformance.registry import case
from tests.conformance.values import ordinary

F32, F64, S32, PRED, C64 = dtypes.F32, dtypes.F64, dtypes.S32, dtypes.PRED, dtypes.C64
_f, _s, _p = tensor(F32), tensor(S32), tensor(PRED)
_v = tensor(F32, 5)
_x, _y = ordinary(F32, (5,)), ordinary(F32, (5,), "y")

# ------------------------------------------------------------------------------------------------ elementwise

for _dims in ((), (0,), (2, 0, 3), (1, 1, 1)):
    _t, _b = tensor(F32, *_dims), tensor(PRED, *_dims)
    _label = "x".join(map(str, _dims)) or "rank0"
    _a, _c = ordinary(F32, _dims), ordinary(F32, _dims, "c")
    case(
        "add",
        _label,
        F32,
        function([_t, _t], [_t], f"%r = stablehlo.add %0, %1 : {_t}"),
        [_a, _c],
        judge=np.add,
    )
    case(
        "floor",
        _label,
        F32,
        function([_t], [_t], f"%r = stablehlo.floor %0 : {_t}"),
        [_a],
        judge=np.floor,
    )
    case("select", _label, F32, function([_b, _t, _t], [_t], f"%r = stablehlo.select %0, %1, %2 : {_b}, {_t}"),
         [ordinary(PRED, _dims), _a, _c], judge=np.where)  # fmt: skip
    case("compare", _label, F32, function([_t, _t], [_b], f"%r = stablehlo.compare LT, %0, %1 : ({_t}, {_t}) -> {_b}"), [_a, _c],
         judge=np.less)  # fmt: skip
# What the result's accuracy is asked to be: ours is the same for all.
_t = tensor(F32, 5)
for _op in (
    "exponential",
    "exponential_minus_one",
    "log",
    "log_plus_one",
    "logistic",
    "tanh",
    "cosine",
    "sine",
    "tan",
    "rsqrt",
    "cbrt",
    "sqrt",
):
    for _label, _accuracy in (
        ("highest", "mode = #stablehlo.result_accuracy_mode<HIGHEST>"),
        (
            "tolerance",
            "atol = 1.0e-05, rtol = 1.0e-05, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>",
        ),
    ):
        case(_op, f"accuracy_{_label}", F32,
             function([_t], [_t], f'%r = "stablehlo.{_op}"(%0) {{result_accuracy = #stablehlo.result_accuracy<{_accuracy}>}} : ({_t}) -> {_t}'),
             [np.abs(_x) + 0.1], limit=4)  # fmt: skip
for _dtype, _accuracy, _refused in (
    (F32, "atol = 0.0, rtol = 0.0, ulps = 0", "is within 3 ulps"),
    (F32, "atol = 1.0e-30, rtol = 1.0e-09, ulps = 2", "is within 3 ulps"),
    (F32, "atol = 1.0e-06, rtol = 0.0, ulps = 0", ""),  # results are at most 1
    (dtypes.F16, "atol = 0.0, rtol = 0.0, ulps = 1", ""),
    (dtypes.F16, "atol = 0.0, rtol = 0.0, ulps = 0", "is within 1 ulps"),
    (C64, "atol = 1.0e-06, rtol = 0.0, ulps = 0", "is within 4 ulps"),
):
    _t = tensor(_dtype, *_x.shape)
    case("tanh", f"within_{_accuracy.replace(' ', '')}", _dtype,
         function([_t], [_t], f'%r = "stablehlo.tanh"(%0) {{result_accuracy = #stablehlo.result_accuracy<{_accuracy}, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}} : ({_t}) -> {_t}'),
         [_x.astype(_dtype.numpy)], limit=4, refused=_refused)  # fmt: skip
_parts = np.array([0, 1, 1j, 2 - 0j, -2j, complex(-0.0, 0), complex(0, np.nan)], np.complex64)
_t, _r = tensor(C64, len(_parts)), tensor(PRED, len(_parts))
case("convert", "imaginary_to_pred", C64, function([_t], [_r], f"%r = stablehlo.convert %0 : ({_t}) -> {_r}"), [_parts])  # fmt: skip
# A magnitude whose square overflows, or underflows.
_big = np.array(
    [3e30 + 4e30j, 3e-30 + 4e-30j, -3e38 + 1j, 1e-45j, np.inf + np.nan * 1j, 0j], np.complex64
)
_t, _r = tensor(C64, 6), tensor(F32, 6)
case(
    "abs",
    "extreme",
    C64,
    function([_t], [_r], f"%r = stablehlo.abs %0 : ({_t}) -> {_r}"),
    [_big],
    judge=np.abs,
    limit=2,
)
_low, _high = np.float32([1, 2, np.nan, 0, -1]), np.float32([3, 1, 2, np.nan, 1])
case("clamp", "crossed_and_nan", F32, function([_v] * 3, [_v], f"%r = stablehlo.clamp %0, %1, %2 : {_v}"),
     [_low, np.float32([np.nan, 5, 1, 1, -7]), _high],
     judge=lambda a, x, b: np.minimum(np.maximum(x, a), b))  # fmt: skip

# ------------------------------------------------------------------------------------- shapes that refinement finds

_m = tensor(F32, 2, 3)
_a = ordinary(F32, (2, 3))
_any = "tensor<?x?xf32>"


def _constant(name: str, *numbers: int) -> str:
    return f"%{name} = stablehlo.constant dense<{list(numbers)}> : tensor<{len(numbers)}xi32>\n"


def _pair(n: int) -> str:
    return tensor(S32, n)


def add_refined(op: str, text: str, arguments: Any, judge: Any, limit: float = 0) -> None:
    """``text`` gives ``%d`` of a type without sizes, which are then found from constants."""
    types = [tensor(dtypes.from_numpy(np.asarray(a).dtype), *np.shape(a)) for a in arguments]
    result = tensor(F32, *np.shape(judge(*arguments)))
    shape = _constant("size", *np.shape(judge(*arguments)))
    body = (
        f"{shape}{text}%r = stablehlo.dynamic_reshape %d, %size : ({_any}, {_pair(2)}) -> {result}"
    )
    case(
        op,
        "unknown_type",
        F32,
        function(types, [result], body),
        arguments,
        judge=judge,
        limit=limit,
    )


add_refined("dynamic_broadcast_in_dim", _constant("s", 4, 5)
            + f"%d = stablehlo.dynamic_broadcast_in_dim %0, %s, dims = [1] : ({_v}, {_pair(2)}) -> {_any}\n", [_x],
            lambda a: np.stack([a] * 4))  # fmt: skip
add_refined("dynamic_iota", _constant("s", 3, 2) + f"%d = stablehlo.dynamic_iota %s, dim = 1 : ({_pair(2)}) -> {_any}\n", [],
            lambda: np.tile(np.arange(2), (3, 1)))  # fmt: skip
add_refined("dynamic_pad", _constant("l", 1, 0) + _constant("h", 0, 2) + _constant("n", 0, 0)
            + f"%d = stablehlo.dynamic_pad %0, %1, %l, %h, %n : ({_m}, {_f}, {_pair(2)}, {_pair(2)}, {_pair(2)}) -> {_any}\n",
            [_a, np.float32(9)], lambda a, v: np.pad(a, ((1, 0), (0, 2)), constant_values=v))  # fmt: skip
add_refined("real_dynamic_slice", _constant("l", 0, 1) + _constant("h", 2, 3) + _constant("n", 1, 1)
            + f"%d = stablehlo.real_dynamic_slice %0, %l, %h, %n : ({_m}, {_pair(2)}, {_pair(2)}, {_pair(2)}) -> {_any}\n", [_a],
            lambda a: a[:, 1:])  # fmt: skip
add_refined("dynamic_gather", _constant("s", 1, 3)
            + '%d = "stablehlo.dynamic_gather"(%0, %1, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],'
            + f" start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false}}> : ({_m}, {_pair(3)}, {_pair(2)}) -> {_any}\n",
            [_a, np.array([1, 0, 7], np.int32)], lambda a, i: a[np.clip(i, 0, 1)])  # fmt: skip
_unknown = "tensor<?x3xf32>"
case("get_dimension_size", "unknown_type", F32, function([_m], [_s], _constant("s", 2, 3)
     + f"%d = stablehlo.dynamic_reshape %0, %s : ({_m}, {_pair(2)}) -> {_unknown}\n"
     + f"%r = stablehlo.get_dimension_size %d, dim = 0 : ({_unknown}) -> {_s}"), [_a], judge=lambda a: np.int32(2))  # fmt: skip
case("dynamic_reshape", "from_argument", F32, function([_m, _pair(2)], ["tensor<?x?xf32>"],
     f"%r = stablehlo.dynamic_reshape %0, %1 : ({_m}, {_pair(2)}) -> {_any}"), [_a, np.array([3, 2], np.int32)],
     refused="known only at run time")  # fmt: skip
_e, _i = tensor(F32, 0, 3), tensor(S32)
case("dynamic_slice", "no_size", F32, function([_m, _i, _i], [_e], f"%r = stablehlo.dynamic_slice %0, %1, %2, sizes = [0, 3] : ({_m}, {_i}, {_i}) -> {_e}"),
     [_a, np.int32(1), np.int32(0)], judge=lambda a, i, j: a[:0])  # fmt: skip
case("dynamic_update_slice", "no_size", F32, function([_m, _e, _i, _i], [_m], f"%r = stablehlo.dynamic_update_slice %0, %1, %2, %3 : ({_m}, {_e}, {_i}, {_i}) -> {_m}"),
     [_a, _a[:0], np.int32(1), np.int32(0)], judge=lambda a, u, i, j: a)  # fmt: skip

# ------------------------------------------------------------------------------------------- reductions and sorts

for _dtype in ALL:
    if not _dtype.is_float or _dtype.bits > 8:
        continue
    _t, _o, _r = tensor(_dtype, 4, 9), tensor(_dtype), tensor(_dtype, 4)
    _values = ordinary(_dtype, (4, 9))
    for _op, _judge in (("add", np.sum), ("maximum", np.max), ("minimum", np.min)):
        # Summed in a wider type and rounded once.
        _first = _values.reshape(-1)[:1][0] if _op != "add" else _dtype.numpy.type(0)
        if _dtype.name == "f8e8m0fnu":  # has no zero
            _first = _dtype.numpy.type(1)
        case("reduce", f"{_op}_small", _dtype,
             function([_t, _o], [_r], f'%r = "stablehlo.reduce"(%0, %1) <{{dimensions = {dense([1])}}}> ({combine(_op, _dtype)}) : ({_t}, {_o}) -> {_r}'),
             [_values, np.array(_first)], limit=1, zero_signs=False,
             judge=lambda a, i, f=_judge: f(np.concatenate([a.astype(np.float64), np.full((4, 1), float(i))], 1), axis=1))  # fmt: skip
_t = tensor(F32, 3, 4)
for _label, _over, _to in (("no_dimension", (), (3, 4)), ("every_dimension", (0, 1), ())):
    _r = tensor(F32, *_to)
    case("reduce", _label, F32,
         function([_t, _f], [_r], f'%r = "stablehlo.reduce"(%0, %1) <{{dimensions = {dense(_over)}}}> ({combine("add", F32)}) : ({_t}, {_f}) -> {_r}'),
         [ordinary(F32, (3, 4)), np.float32(2)], judge=lambda a, i, o=_over: a.astype(float).sum(o) + i if o else a + i, limit=4,
         scale=lambda a, i: np.float64(16))  # fmt: skip
# Three results at once, of three types, with a body that is no operation of its own.
_u, _w = tensor(S32, 3, 4), tensor(F64, 3, 4)
_d = tensor(F64)
_body = (f"{{\n^bb0(%a: {_f}, %b: {_s}, %c: {_d}, %d: {_f}, %e: {_s}, %f: {_d}):\n%g = stablehlo.maximum %a, %d : {_f}\n"
         f"%h = stablehlo.add %b, %e : {_s}\n%i = stablehlo.multiply %c, %f : {_d}\nstablehlo.return %g, %h, %i : {_f}, {_s}, {_d}\n}}")  # fmt: skip
case("reduce", "three_types", F32, function([_t, _u, _w, _f, _s, _d], [tensor(F32, 3), tensor(S32, 3), tensor(F64, 3)],
     f'%r:3 = "stablehlo.reduce"(%0, %1, %2, %3, %4, %5) <{{dimensions = {dense([1])}}}> ({_body}) : ({_t}, {_u}, {_w}, {_f}, {_s}, {_d}) -> '
     f"({tensor(F32, 3)}, {tensor(S32, 3)}, {tensor(F64, 3)})"),
     [ordinary(F32, (3, 4)), ordinary(S32, (3, 4)), ordinary(F64, (3, 4)), np.float32(-9), np.int32(0), np.float64(1)], limit=4)  # fmt: skip
case("reduce", "captures", F32, function([_t, _f], [tensor(F32, 3)],
     f'%r = "stablehlo.reduce"(%0, %1) <{{dimensions = {dense([1])}}}> ({{\n^bb0(%a: {_f}, %b: {_f}):\n%c = stablehlo.add %a, %b : {_f}\n'
     f"%d = stablehlo.multiply %c, %1 : {_f}\nstablehlo.return %d : {_f}\n}}) : ({_t}, {_f}) -> {tensor(F32, 3)}"),
     [ordinary(F32, (3, 4)), np.float32(1)], refused="which only while, if and case may do")  # fmt: skip
# Nothing to reduce, from nothing in another shape: code that never runs, but is written.
_w, _e, _n = (
    tensor(S32, *d)
    for d in ((1, 1, 1, 1, 3, 1, 4, 2), (0, 1, 0, 0, 1, 0, 0, 1), (3, 3, 0, 4, 7, 3, 9, 3))
)
_c, _r = tensor(F32, 3, 3, 0, 4, 7, 3, 9, 3), (tensor(S32, 3, 7, 3), tensor(F32, 3, 7, 3))
case("reduce", "nothing_reshaped", S32, function([_w, _s, _f], _r,
     f"%p = stablehlo.slice %0 [0:0, 0:1, 1:1, 0:0, 1:3:3, 0:0, 3:3, 1:2] : ({_w}) -> {_e}\n"
     f"%q = stablehlo.reshape %p : ({_e}) -> {_n}\n%c = stablehlo.convert %q : ({_n}) -> {_c}\n"
     "%d = stablehlo.pad %0, %1, low = [1, 0, -1, 2, 2, 0, 2, 0], high = [1, 2, 0, 1, 0, 2, 0, 0], interior = [1, 2, 0, 2, 1, 1, 1, 1]"
     f" : ({_w}, {_s}) -> {_n}\n"
     f'%r:2 = "stablehlo.reduce"(%d, %c, %1, %2) <{{dimensions = {dense([0, 3, 6, 2, 7])}}}> ({{\n^bb0(%a: {_s}, %b: {_f}, %e: {_s}, %f: {_f}):\n'
     f"%g = stablehlo.multiply %a, %e : {_s}\n%h = stablehlo.add %b, %f : {_f}\nstablehlo.return %g, %h : {_s}, {_f}\n}})"
     f" : ({_n}, {_c}, {_s}, {_f}) -> ({', '.join(_r)})"),
     [ordinary(S32, (1, 1, 1, 1, 3, 1, 4, 2)), np.int32(1), np.float32(0)])  # fmt: skip
# Initial values that are not neutral count once, whatever the operation and however many accumulators there are.
for _shape, _over in (((5,), [0]), ((3, 40), [1]), ((40, 3), [0]), ((7, 9, 11), [0, 2])):
    _n = tensor(S32, *_shape)
    _r = tensor(S32, *[d for n, d in enumerate(_shape) if n not in _over])
    _given = ordinary(S32, _shape) | 1
    case("reduce", f"initial_of_two{_shape}".replace(" ", ""), S32, function([_n, _s, _s], [_r, _r],
         f'%r:2 = "stablehlo.reduce"(%0, %0, %1, %2) <{{dimensions = {dense(_over)}}}> ({{\n^bb0(%a: {_s}, %b: {_s}, %e: {_s}, %f: {_s}):\n'
         f"%g = stablehlo.multiply %a, %e : {_s}\n%h = stablehlo.add %b, %f : {_s}\nstablehlo.return %g, %h : {_s}, {_s}\n}})"
         f" : ({_n}, {_n}, {_s}, {_s}) -> ({_r}, {_r})"), [_given, np.int32(3), np.int32(7)])  # fmt: skip
    case("reduce", f"initial_of_two_steps{_shape}".replace(" ", ""), S32, function([_n], [_r],
         f'%i = stablehlo.constant dense<3> : {_s}\n%r = "stablehlo.reduce"(%0, %i) <{{dimensions = {dense(_over)}}}> ({{\n^bb0(%a: {_s}, %b: {_s}):\n'
         f"%m = stablehlo.constant dense<255> : {_s}\n%c = stablehlo.add %a, %b : {_s}\n%d = stablehlo.and %c, %m : {_s}\nstablehlo.return %d : {_s}\n}})"
         f" : ({_n}, {_s}) -> {_r}"), [_given])  # fmt: skip
_lt = (f"{{\n^bb0(%a: {_s}, %b: {_s}, %c: {_f}, %d: {_f}, %e: {_p}, %f: {_p}):\n%g = stablehlo.compare GT, %c, %d : ({_f}, {_f}) -> {_p}\n"
       f"stablehlo.return %g : {_p}\n}}")  # fmt: skip
_k, _n, _q = tensor(S32, 2, 6), tensor(F32, 2, 6), tensor(PRED, 2, 6)
case("sort", "three_operands_by_the_second", F32, function([_k, _n, _q], [_k, _n, _q],
     f'%r:3 = "stablehlo.sort"(%0, %1, %2) <{{dimension = -1 : i64, is_stable = true}}> ({_lt}) : ({_k}, {_n}, {_q}) -> ({_k}, {_n}, {_q})'),
     [ordinary(S32, (2, 6)), np.float32([[1, 2, 1, 3, 2, 0], [0, -0.0, 5, 5, 1, 1]]), ordinary(PRED, (2, 6))])  # fmt: skip
_t, _b = tensor(PRED, 6, 5), tensor(PRED)
case("reduce_window", "and", PRED, function([_t, _b], [tensor(PRED, 5, 4)],
     f'%r = "stablehlo.reduce_window"(%0, %1) <{{window_dimensions = {dense([2, 2])}}}> ({combine("and", PRED)}) : ({_t}, {_b}) -> {tensor(PRED, 5, 4)}'),
     [ordinary(PRED, (6, 5)), np.array(True)])  # fmt: skip

# ------------------------------------------------------------------------------------------------- control flow

_token = "%t = stablehlo.create_token : !stablehlo.token\n"
_T = "!stablehlo.token"
case("while", "carries_a_token", F32, function([_s, _v], [_v], _token + f"""
%w:3 = stablehlo.while(%i = %0, %x = %1, %k = %t) : {_s}, {_v}, {_T} cond {{
  %z = stablehlo.constant dense<0> : {_s}
  %c = stablehlo.compare GT, %i, %z : ({_s}, {_s}) -> {_p}
  stablehlo.return %c : {_p}
}} do {{
  %one = stablehlo.constant dense<1> : {_s}
  %j = stablehlo.subtract %i, %one : {_s}
  %d = stablehlo.add %x, %x : {_v}
  %l = stablehlo.after_all %k : {_T}
  stablehlo.return %j, %d, %l : {_s}, {_v}, {_T}
}}
%r = stablehlo.add %w#1, %w#1 : {_v}"""), [np.int32(3), _x], judge=lambda n, x: 16 * x)  # fmt: skip
case("if", "gives_a_token", F32, function([_p, _v], [_v], _token + f"""
%w:2 = "stablehlo.if"(%0) ({{
  %a = stablehlo.add %1, %1 : {_v}
  stablehlo.return %a, %t : {_v}, {_T}
}}, {{
  %u = stablehlo.create_token : {_T}
  stablehlo.return %1, %u : {_v}, {_T}
}}) : (pred) -> ({_v}, {_T})
%r = stablehlo.add %w#0, %1 : {_v}""".replace("(pred)", f"({_p})")), [np.array(True), _x], judge=lambda p, x: 3 * x)  # fmt: skip
case("case", "one_branch", F32, function([_s, _v], [_v], f"""
%r = "stablehlo.case"(%0) ({{
  %a = stablehlo.add %1, %1 : {_v}
  stablehlo.return %a : {_v}
}}) : ({_s}) -> {_v}"""), [np.int32(5), _x], judge=lambda i, x: 2 * x)  # fmt: skip
case("while", "captures_inside_if", F32, function([_s, _v, _v], [_v], f"""
%w:2 = stablehlo.while(%i = %0, %x = %1) : {_s}, {_v} cond {{
  %z = stablehlo.constant dense<0> : {_s}
  %c = stablehlo.compare GT, %i, %z : ({_s}, {_s}) -> {_p}
  stablehlo.return %c : {_p}
}} do {{
  %one = stablehlo.constant dense<1> : {_s}
  %j = stablehlo.subtract %i, %one : {_s}
  %e = stablehlo.compare EQ, %j, %one : ({_s}, {_s}) -> {_p}
  %d = "stablehlo.if"(%e) ({{
    %a = stablehlo.add %x, %2 : {_v}
    stablehlo.return %a : {_v}
  }}, {{
    %b = "stablehlo.case"(%0) ({{
      stablehlo.return %2 : {_v}
    }}, {{
      %m = stablehlo.multiply %x, %2 : {_v}
      stablehlo.return %m : {_v}
    }}) : ({_s}) -> {_v}
    stablehlo.return %b : {_v}
  }}) : ({_p}) -> {_v}
  stablehlo.return %j, %d : {_s}, {_v}
}}
%r = stablehlo.negate %w#1 : {_v}"""), [np.int32(3), _x, _y])  # fmt: skip
case("optimization_barrier", "nothing", F32, function([_v], [_v], f'"stablehlo.optimization_barrier"() : () -> ()\n'
    f"%r = stablehlo.negate %0 : {_v}"), [_x],
     judge=np.negative)  # fmt: skip
_nested = f"tuple<tuple<{_v}>, {_v}>"
case("tuple", "nested", F32, function([_v], [_v], f"%i = stablehlo.tuple %0 : tuple<{_v}>\n%t = stablehlo.tuple %i, %0 : {_nested}\n"
     f"%r = stablehlo.get_tuple_element %t[1] : ({_nested}) -> {_v}"), [_x], refused="nested tuple")  # fmt: skip
case("composite", "attributes", F32, f"""
func.func private @body(%a: {_v}) -> ({_v}, {_v}) {{
  %b = stablehlo.add %a, %a : {_v}
  return %b, %a : {_v}, {_v}
}}
func.func @main(%0: {_v}) -> ({_v}, {_v}) {{
  %1:2 = stablehlo.composite "mine.both" %0 {{composite_attributes = {{n = 3 : i32, s = "x"}}, decomposition = @body, version = 2 : i32}} : ({_v}) -> ({_v}, {_v})
  return %1#0, %1#1 : {_v}, {_v}
}}""", [_x], judge=lambda a: (2 * a, a))  # fmt: skip

# -------------------------------------------------------------------------------------------------- random bits

for _algorithm in ("THREE_FRY", "PHILOX", "DEFAULT"):
    for _words in (2,) if _algorithm == "THREE_FRY" else (2, 3):
        for _dtype in (dtypes.U8, dtypes.U16, dtypes.U32, dtypes.U64):
            for _dims in ((), (1,), (0,), (5,), (3, 5, 7), (1001,)):
                _t, _k = tensor(_dtype, *_dims), tensor("u64", _words)
                _program = function(
                    [_k],
                    [_k, _t],
                    f"%r:2 = stablehlo.rng_bit_generator %0, algorithm = {_algorithm} : ({_k}) -> ({_k}, {_t})",
                )
                case("rng_bit_generator", f"{_algorithm}{_words}_{'x'.join(map(str, _dims))}", _dtype, _program,
                     [np.array([0x123456789ABCDEF, 2**64 - 2, 7][:_words], np.uint64)], judge=by_xla(_program))  # fmt: skip
_flags = tensor(PRED, 64)
for _dtype in (dtypes.F16, dtypes.BF16, F64, dtypes.S8, S32, dtypes.U32, dtypes.S64):
    _t, _o = tensor(_dtype, 64), tensor(_dtype)
    case("rng", "uniform_between", _dtype, function([_o, _o], [_flags], f"""%s = stablehlo.constant dense<64> : tensor<1xi64>
%n = stablehlo.rng %0, %1, %s, distribution = UNIFORM : ({_o}, {_o}, tensor<1xi64>) -> {_t}
%a = stablehlo.broadcast_in_dim %0, dims = [] : ({_o}) -> {_t}
%b = stablehlo.broadcast_in_dim %1, dims = [] : ({_o}) -> {_t}
%l = stablehlo.compare GE, %n, %a : ({_t}, {_t}) -> {_flags}
%h = stablehlo.compare LT, %n, %b : ({_t}, {_t}) -> {_flags}
%r = stablehlo.and %l, %h : {_flags}"""), [_dtype.numpy.type(2), _dtype.numpy.type(100)], judge=lambda *_: np.ones(64, bool))  # fmt: skip

# ------------------------------------------------------------------------------- dots, convolutions, linear algebra

_l, _r, _o = tensor(F32, 5, 7), tensor(F32, 7, 6), tensor(F32, 5, 6)
_matrices = [ordinary(F32, (5, 7)), ordinary(F32, (7, 6))]
_ALGORITHMS = {
    "f16": ("f16", "f16", 1), "f16_f32": ("f16", "f32", 1), "bf16_f32": ("bf16", "f32", 1), "bf16_f32_x3": ("bf16", "f32", 3),
    "bf16_f32_x6": ("bf16", "f32", 6), "tf32_f32": ("tf32", "f32", 1), "tf32_f32_x3": ("tf32", "f32", 3), "f32": ("f32", "f32", 1),
}  # fmt: skip
for _label, (_type, _sum, _primitives) in _ALGORITHMS.items():
    _algorithm = (
        f"algorithm = <lhs_precision_type = {_type}, rhs_precision_type = {_type}, accumulation_type = {_sum}, lhs_component_count = 1,"
        f" rhs_component_count = 1, num_primitive_operations = {_primitives}, allow_imprecise_accumulation = false>"
    )
    case("dot_general", f"algorithm_{_label}", F32, function([_l, _r], [_o],
         f"%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], {_algorithm} : ({_l}, {_r}) -> {_o}"), _matrices,
         judge=lambda a, b: a.astype(float) @ b, limit=2**17 if _primitives == 1 and _type != "f32" else 2**9 if _primitives == 3 else 8,
         scale=lambda a, b: np.abs(a) @ np.abs(b))  # fmt: skip
for _precision in ("DEFAULT", "HIGH", "HIGHEST"):
    case("dot_general", f"precision_{_precision}", F32, function([_l, _r], [_o],
         f"%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [{_precision}, {_precision}] : ({_l}, {_r}) -> {_o}"),
         _matrices, judge=lambda a, b: a.astype(float) @ b, limit=4, scale=lambda a, b: np.abs(a) @ np.abs(b))  # fmt: skip


def add_convolution(
    label: str,
    dims: tuple[Any, ...],
    numbers: str,
    judge: Any,
    dtype: Any = F32,
    result: Any = F32,
    more: str = "",
) -> None:
    x, k, o = dims
    tx, tk, to = tensor(dtype, *x), tensor(dtype, *k), tensor(result, *o)
    attributes = f"dimension_numbers = #stablehlo.conv<{numbers}>, feature_group_count = 1 : i64, batch_group_count = 1 : i64{more}"
    case("convolution", label, dtype, function([tx, tk], [to], f'%r = "stablehlo.convolution"(%0, %1) <{{{attributes}}}> : ({tx}, {tk}) -> {to}'),
         [ordinary(dtype, x), ordinary(dtype, k, "kernel")], judge=judge, limit=8, scale=lambda a, b: np.float64(32))  # fmt: skip


def _slide(x: Any, k: Any, spatial: int) -> Any:
    """[b, ..., f] with [..., i, o], nothing padded."""
    x, k = x.astype(float), k.astype(float)
    windows = np.lib.stride_tricks.sliding_window_view(
        x, k.shape[:spatial], tuple(range(1, 1 + spatial))
    )
    letters = "xyz"[:spatial]
    return np.einsum(f"b{letters.upper()}f{letters},{letters}fo->b{letters.upper()}o", windows, k)


add_convolution(
    "no_space", ((4, 3), (3, 6), (4, 6)), "[b, f]x[i, o]->[b, f]", lambda x, k: x.astype(float) @ k
)
add_convolution(
    "one_dimension",
    ((2, 9, 3), (4, 3, 5), (2, 6, 5)),
    "[b, 0, f]x[0, i, o]->[b, 0, f]",
    lambda x, k: _slide(x, k, 1),
)
add_convolution("three_dimensions", ((2, 5, 4, 6, 2), (2, 2, 3, 2, 3), (2, 4, 3, 4, 3)), "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]",
                lambda x, k: _slide(x, k, 3))  # fmt: skip
add_convolution("features_first", ((2, 3, 6, 7), (4, 3, 3, 2), (2, 4, 4, 6)), "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
                lambda x, k: np.moveaxis(_slide(np.moveaxis(x, 1, -1), k.transpose(2, 3, 1, 0), 2), -1, 1))  # fmt: skip
add_convolution("odd_layout", ((7, 2, 3, 6), (3, 4, 2, 3), (4, 4, 2, 6)), "[1, b, f, 0]x[i, o, 1, 0]->[0, f, b, 1]",
                lambda x, k: _slide(x.transpose(1, 3, 0, 2), k.transpose(3, 2, 0, 1), 2).transpose(1, 3, 0, 2))  # fmt: skip
add_convolution(
    "larger_window",
    ((2, 2, 3), (4, 3, 5), (2, 0, 5)),
    "[b, 0, f]x[0, i, o]->[b, 0, f]",
    lambda x, k: np.zeros((2, 0, 5)),
)
add_convolution("wider_result", ((2, 9, 3), (4, 3, 5), (2, 6, 5)), "[b, 0, f]x[0, i, o]->[b, 0, f]", lambda x, k: _slide(x, k, 1),
                dtype=dtypes.BF16)  # fmt: skip

for _dtype in (F32, dtypes.C128):
    _t = tensor(_dtype, 2, 3, 2, 2)
    _b = ordinary(_dtype, (2, 3, 2, 2)) / 8 + 2 * np.eye(2)
    _b = ((_b + np.swapaxes(_b, -1, -2).conj()) / 2).astype(_dtype.numpy)
    case("cholesky", "batches", _dtype, function([_t], [_t], f"%r = stablehlo.cholesky %0, lower = true : {_t}"), [_b],
         judge=np.linalg.cholesky, limit=16, scale=lambda a: np.float64(2))  # fmt: skip
_t = tensor(F32, 2, 2)  # the specification leaves the result open: ours is what JAX makes of it
case("cholesky", "not_positive", F32, function([_t], [_t], f"%r = stablehlo.cholesky %0, lower = true : {_t}"), [np.float32([[1, 2], [2, 1]])],
     judge=lambda a: np.where(np.tri(2) > 0, np.nan, 0))  # fmt: skip
_te, _tb = tensor(F32, 2, 0, 0), tensor(F32, 2, 0, 3)
case("triangular_solve", "empty", F32, function([_te, _tb], [_tb],
     f'%r = "stablehlo.triangular_solve"(%0, %1) <{{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({_te}, {_tb}) -> {_tb}'),
     [np.zeros((2, 0, 0), np.float32), np.zeros((2, 0, 3), np.float32)], judge=lambda a, b: b)  # fmt: skip
for _kind, _length, _in, _out, _judge in (
    (
        "FFT",
        (4, 3, 5),
        (C64, (2, 4, 3, 5)),
        (C64, (2, 4, 3, 5)),
        lambda a: np.fft.fftn(a, axes=(1, 2, 3)),
    ),
    ("IFFT", (3, 5), (C64, (2, 3, 5)), (C64, (2, 3, 5)), np.fft.ifft2),
    ("RFFT", (3, 6), (F32, (2, 3, 6)), (C64, (2, 3, 4)), np.fft.rfft2),
    (
        "RFFT",
        (4, 3, 5),
        (F32, (2, 4, 3, 5)),
        (C64, (2, 4, 3, 3)),
        lambda a: np.fft.rfftn(a, axes=(1, 2, 3)),
    ),
    ("IRFFT", (3, 5), (C64, (2, 3, 3)), (F32, (2, 3, 5)), lambda a: np.fft.irfft2(a, (3, 5))),
    ("FFT", (1009,), (C64, (1009,)), (C64, (1009,)), np.fft.fft),
    ("IRFFT", (2187,), (C64, (1094,)), (F32, (2187,)), lambda a: np.fft.irfft(a, 2187)),
):
    _ti, _to = tensor(_in[0], *_in[1]), tensor(_out[0], *_out[1])
    case("fft", f"{_kind}{_length}".replace(" ", ""), C64, function([_ti], [_to], f"%r = stablehlo.fft %0, type = {_kind}, length = {list(_length)} : ({_ti}) -> {_to}"),
         [ordinary(*_in)], judge=_judge, limit=16, scale=lambda a: np.float64(1 + np.abs(a).sum()))  # fmt: skip
for _feature, _dims in ((0, (3, 4)), (1, (2, 3, 4, 5))):
    _t, _c = tensor(F32, *_dims), tensor(F32, 3)
    _axes = tuple(n for n in range(len(_dims)) if n != _feature)

    def _training(
        x: Any, scale: Any, offset: Any, axes: Any = _axes, feature: int = _feature
    ) -> Any:
        x = x.astype(float)
        mean, variance = x.mean(axes), x.var(axes)
        wide = [np.expand_dims(v.astype(float), axes) for v in (mean, variance, scale, offset)]
        return (x - wide[0]) / np.sqrt(wide[1] + 1e-3) * wide[2] + wide[3], mean, variance

    case("batch_norm_training", f"feature{_feature}", F32, function([_t, _c, _c], [_t, _c, _c],
         f'%r:3 = "stablehlo.batch_norm_training"(%0, %1, %2) <{{epsilon = 0.001 : f32, feature_index = {_feature} : i64}}> : ({_t}, {_c}, {_c}) -> ({_t}, {_c}, {_c})'),
         [ordinary(F32, _dims), ordinary(F32, (3,)), ordinary(F32, (3,), "b")], judge=_training, limit=4,
         scale=lambda *a: np.float64(16))  # fmt: skip

# ---------------------------------------------------------------------------------------------- types without support

for _other, _refusal in (("tf32", "tf32 is not supported"),):
    _t = f"tensor<5x{_other}>"
    case("convert", f"from_{_other}", F32, f"func.func @main(%0: {_t}) -> {_v} {{ %r = stablehlo.convert %0 : ({_t}) -> {_v}\nreturn %r : {_v} }}",
         [_x], refused=_refusal)  # fmt: skip
