"""Control flow, tuples, tokens, random bits, and operations between devices on one device."""

from __future__ import annotations

from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import ALL, combine, function, tensor
from tests.conformance.registry import case
from tests.conformance.values import ordinary

F32, S32, PRED = dtypes.F32, dtypes.S32, dtypes.PRED
_p, _s, _f, _v = tensor(PRED), tensor(S32), tensor(F32), tensor(F32, 5)
_x, _y = ordinary(F32, (5,)), ordinary(F32, (5,), "y")

# ------------------------------------------------------------------------------------------------------ while

for _n in (0, 1, 7):
    case("while", f"{_n}_times", F32, function([_s, _v], [_s, _v], f"""
%one = stablehlo.constant dense<1> : {_s}
%zero = stablehlo.constant dense<0> : {_s}
%r:2 = stablehlo.while(%i = %zero, %x = %1) : {_s}, {_v} cond {{
  %c = stablehlo.compare LT, %i, %0 : ({_s}, {_s}) -> {_p}
  stablehlo.return %c : {_p}
}} do {{
  %j = stablehlo.add %i, %one : {_s}
  %d = stablehlo.add %x, %1 : {_v}
  stablehlo.return %j, %d : {_s}, {_v}
}}"""), [np.int32(_n), _x])  # fmt: skip
case("while", "swap", F32, function([_v, _v], [_v, _v], f"""
%n = stablehlo.constant dense<3> : {_s}
%one = stablehlo.constant dense<1> : {_s}
%w:3 = stablehlo.while(%i = %n, %x = %0, %y = %1) : {_s}, {_v}, {_v} cond {{
  %z = stablehlo.constant dense<0> : {_s}
  %c = stablehlo.compare NE, %i, %z : ({_s}, {_s}) -> {_p}
  stablehlo.return %c : {_p}
}} do {{
  %j = stablehlo.subtract %i, %one : {_s}
  stablehlo.return %j, %y, %x : {_s}, {_v}, {_v}
}}
%r:2 = stablehlo.optimization_barrier %w#1, %w#2 : {_v}, {_v}"""), [_x, _y], judge=lambda x, y: (y, x))  # fmt: skip
case("while", "nested", S32, function([_s], [_s], f"""
%zero = stablehlo.constant dense<0> : {_s}
%one = stablehlo.constant dense<1> : {_s}
%w:2 = stablehlo.while(%i = %zero, %t = %zero) : {_s}, {_s} cond {{
  %c = stablehlo.compare LT, %i, %0 : ({_s}, {_s}) -> {_p}
  stablehlo.return %c : {_p}
}} do {{
  %k:2 = stablehlo.while(%j = %zero, %u = %t) : {_s}, {_s} cond {{
    %c = stablehlo.compare LT, %j, %i : ({_s}, {_s}) -> {_p}
    stablehlo.return %c : {_p}
  }} do {{
    %a = stablehlo.add %u, %j : {_s}
    %b = stablehlo.add %j, %one : {_s}
    stablehlo.return %b, %a : {_s}, {_s}
  }}
  %n = stablehlo.add %i, %one : {_s}
  stablehlo.return %n, %k#1 : {_s}, {_s}
}}
%r = stablehlo.add %w#1, %zero : {_s}"""), [np.int32(9)])  # fmt: skip

# -------------------------------------------------------------------------------------------------- conditionals

for _flag in (True, False):
    case("if", f"{_flag}", F32, function([_p, _v, _v], [_v], f"""
%r = "stablehlo.if"(%0) ({{
  %a = stablehlo.add %1, %2 : {_v}
  stablehlo.return %a : {_v}
}}, {{
  stablehlo.return %1 : {_v}
}}) : ({_p}) -> {_v}"""), [np.array(_flag), _x, _y])  # fmt: skip
for _branch in (-1, 0, 1, 2, 9):
    case("case", f"branch{_branch}", F32, function([_s, _v, _v], [_v, _f], f"""
%k = stablehlo.constant dense<7.0> : {_f}
%r:2 = "stablehlo.case"(%0) ({{
  stablehlo.return %1, %k : {_v}, {_f}
}}, {{
  %a = stablehlo.add %1, %2 : {_v}
  stablehlo.return %a, %k : {_v}, {_f}
}}, {{
  %z = stablehlo.constant dense<1.0> : {_f}
  stablehlo.return %2, %z : {_v}, {_f}
}}) : ({_s}) -> ({_v}, {_f})"""), [np.int32(_branch), _x, _y])  # fmt: skip

# -------------------------------------------------------------------------------- calls, tuples, tokens, barriers

case("func.call", "", F32, f"""
func.func private @twice(%a: {_v}) -> {_v} {{
  %b = stablehlo.add %a, %a : {_v}
  return %b : {_v}
}}
func.func @main(%0: {_v}) -> {_v} {{
  %1 = func.call @twice(%0) : ({_v}) -> {_v}
  %2 = func.call @twice(%1) : ({_v}) -> {_v}
  return %2 : {_v}
}}""", [_x], judge=lambda a: 4 * a)  # fmt: skip
case("composite", "", F32, f"""
func.func private @body(%a: {_v}) -> {_v} {{
  %b = stablehlo.add %a, %a : {_v}
  return %b : {_v}
}}
func.func @main(%0: {_v}) -> {_v} {{
  %1 = stablehlo.composite "mine.twice" %0 {{decomposition = @body}} : ({_v}) -> {_v}
  return %1 : {_v}
}}""", [_x], judge=lambda a: 2 * a)  # fmt: skip
case("tuple", "", F32, function([_v, _f], [_v], f"%t = stablehlo.tuple %0, %1 : tuple<{_v}, {_f}>\n"
     f"%r = stablehlo.get_tuple_element %t[0] : (tuple<{_v}, {_f}>) -> {_v}"), [_x, np.float32(1)], judge=lambda a, b: a)  # fmt: skip
case("get_tuple_element", "", F32, function([_v, _f], [_f], f"%t = stablehlo.tuple %0, %1 : tuple<{_v}, {_f}>\n"
     f"%r = stablehlo.get_tuple_element %t[1] : (tuple<{_v}, {_f}>) -> {_f}"), [_x, np.float32(1)], judge=lambda a, b: b)  # fmt: skip
case("optimization_barrier", "", F32, function([_v, _v], [_v, _v], f"%r:2 = stablehlo.optimization_barrier %0, %1 : {_v}, {_v}"), [_x, _y],
     judge=lambda a, b: (a, b))  # fmt: skip
for _op in ("after_all", "create_token"):
    _token = (
        "stablehlo.after_all %t, %t : !stablehlo.token"
        if _op == "after_all"
        else "stablehlo.create_token : !stablehlo.token"
    )
    case(_op, "", F32, function([_v], [_v], f"%t = stablehlo.create_token : !stablehlo.token\n%u = {_token}\n%r = stablehlo.add %0, %0 : {_v}"), [_x],
         judge=lambda a: 2 * a)  # fmt: skip
case(
    "return",
    "argument_twice",
    F32,
    f"func.func @main(%0: {_v}) -> ({_v}, {_v}) {{ return %0, %0 : {_v}, {_v} }}",
    [_x],
    judge=lambda a: (a, a),
)
for _dtype in ALL:
    _t = tensor(_dtype, 5)
    case(
        "return",
        "argument",
        _dtype,
        f"func.func @main(%0: {_t}) -> {_t} {{ return %0 : {_t} }}",
        [ordinary(_dtype, (5,))],
        judge=lambda a: a,
    )
case(
    "custom_call",
    "Sharding",
    F32,
    function([_v], [_v], f"%r = stablehlo.custom_call @Sharding(%0) : ({_v}) -> {_v}"),
    [_x],
    judge=lambda a: a,
)
case("custom_call", "unknown", F32, function([_v], [_v], f"%r = stablehlo.custom_call @nobody_has_this(%0) : ({_v}) -> {_v}"), [_x],
     refused="nobody_has_this")  # fmt: skip

# ---------------------------------------------------------------------------------------------------- random bits


def by_xla(program: str) -> Any:
    """A judge: XLA's own CPU backend, where bits are to be XLA's."""

    def judge(*arguments: np.ndarray) -> list[np.ndarray]:
        import jax
        from jax._src.lib import xla_client

        device = jax.devices("cpu")[0]
        compiled = device.client.compile_and_load(
            program, xla_client.DeviceList((device,)), xla_client.CompileOptions()
        )
        with jax.enable_x64(True):
            given = [jax.device_put(a, device) for a in arguments]
            return [np.asarray(r) for r in compiled.execute(given)]

    return judge


for _algorithm, _words in (("THREE_FRY", 2), ("PHILOX", 2), ("DEFAULT", 2)):
    for _dtype in (dtypes.U8, dtypes.U16, dtypes.U32, dtypes.U64):
        _t, _k = tensor(_dtype, 4, 7), tensor("u64", _words)
        _program = function(
            [_k],
            [_k, _t],
            f"%r:2 = stablehlo.rng_bit_generator %0, algorithm = {_algorithm} : ({_k}) -> ({_k}, {_t})",
        )
        case("rng_bit_generator", f"{_algorithm}{_words}", _dtype, _program,
             [np.array([0x123456789ABCDEF, 42, 7][:_words], np.uint64)], judge=by_xla(_program))  # fmt: skip


# No execution draws the numbers of another: what is compared is whether they lie where they should.
_draw, _flags = tensor(F32, 4), tensor("i1", 4)
_within = {"UNIFORM": ("GE", "LT"), "NORMAL": ("GT", "LT")}  # of infinities: any finite number
for _name, (_low, _high) in _within.items():
    _limits = (np.float32(2), np.float32(3)) if _name == "UNIFORM" else (-np.inf, np.inf)
    case("rng", _name.lower(), F32,
         function([_f] * 4, [_flags], f"""%s = stablehlo.constant dense<4> : tensor<1xi64>
%n = stablehlo.rng %0, %1, %s, distribution = {_name} : ({_f}, {_f}, tensor<1xi64>) -> {_draw}
%a = stablehlo.broadcast_in_dim %2, dims = [] : ({_f}) -> {_draw}
%b = stablehlo.broadcast_in_dim %3, dims = [] : ({_f}) -> {_draw}
%l = stablehlo.compare {_low}, %n, %a : ({_draw}, {_draw}) -> {_flags}
%h = stablehlo.compare {_high}, %n, %b : ({_draw}, {_draw}) -> {_flags}
%r = stablehlo.and %l, %h : {_flags}"""),
         [np.float32(2), np.float32(3), *(np.float32(v) for v in _limits)],
         judge=lambda *_: np.ones(4, bool))  # fmt: skip

# ------------------------------------------------------------------------------------------ one device among its own

_alone = "replica_groups = dense<[[0]]> : tensor<1x1xi64>"
for _op in ("partition_id", "replica_id"):
    case(
        _op,
        "",
        "u32",
        function([], [tensor("u32")], f"%r = stablehlo.{_op} : {tensor('u32')}"),
        [],
        judge=lambda: np.uint32(0),
    )
_same = lambda a: a
_one = f"({_v}) -> {_v}"
for _op, _text in {
    "all_reduce": f'"stablehlo.all_reduce"(%0) <{{{_alone}}}> ({combine("add", F32)}) : {_one}',
    "all_gather": f'"stablehlo.all_gather"(%0) <{{all_gather_dim = 0 : i64, {_alone}}}> : {_one}',
    "all_to_all": f'"stablehlo.all_to_all"(%0) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, {_alone}}}> : {_one}',
    "reduce_scatter": f'"stablehlo.reduce_scatter"(%0) <{{scatter_dimension = 0 : i64, {_alone}}}> ({combine("add", F32)}) : {_one}',
    "collective_permute": f'"stablehlo.collective_permute"(%0) <{{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}}> : {_one}',
    "collective_broadcast": f'"stablehlo.collective_broadcast"(%0) <{{{_alone}}}> : {_one}',
    "cross-replica-sum": f'"stablehlo.cross-replica-sum"(%0) <{{{_alone}}}> : {_one}',
}.items():
    case(_op, "alone", F32, function([_v], [_v], f"%r = {_text}"), [_x], judge=_same)
case("collective_permute", "no_source", F32, function([_v], [_v],
     f'%r = "stablehlo.collective_permute"(%0) <{{source_target_pairs = dense<> : tensor<0x2xi64>}}> : {_one}'), [_x], judge=np.zeros_like)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- refused

_token = "%t = stablehlo.create_token : !stablehlo.token\n"
case("infeed", "", F32, function([], [_v], _token + f'%q:2 = "stablehlo.infeed"(%t) <{{infeed_config = ""}}> : (!stablehlo.token) -> ({_v}, !stablehlo.token)\n'
     f"%r = stablehlo.add %q#0, %q#0 : {_v}"), [], refused="stablehlo.infeed")  # fmt: skip
case("outfeed", "", F32, function([_v], [_v], _token + f'%q = "stablehlo.outfeed"(%0, %t) <{{outfeed_config = ""}}> : ({_v}, !stablehlo.token) -> !stablehlo.token\n'
     f"%r = stablehlo.add %0, %0 : {_v}"), [_x], refused="stablehlo.outfeed")  # fmt: skip
_channel = (
    "channel_handle = #stablehlo.channel_handle<handle = 1, type = {}>, is_host_transfer = true"
)
case("send", "", F32, function([_v], [_v], _token + f'%q = "stablehlo.send"(%0, %t) <{{{_channel.format(2)}}}> : ({_v}, !stablehlo.token) -> !stablehlo.token\n'
     f"%r = stablehlo.add %0, %0 : {_v}"), [_x], refused="stablehlo.send")  # fmt: skip
case("recv", "", F32, function([], [_v], _token + f'%q:2 = "stablehlo.recv"(%t) <{{{_channel.format(3)}}}> : (!stablehlo.token) -> ({_v}, !stablehlo.token)\n'
     f"%r = stablehlo.add %q#0, %q#0 : {_v}"), [], refused="stablehlo.recv")  # fmt: skip

# ---------------------------------------------------------------------------------------------- chlo's larger ones

_g, _l, _k, _o = tensor(S32, 3), tensor(F32, 6, 4), tensor(F32, 3, 4, 5), tensor(F32, 6, 5)


def _ragged(a: Any, b: Any, groups: Any) -> Any:
    result, start = np.zeros((6, 5)), 0
    for n, size in enumerate(groups):
        result[start : start + size] = a[start : start + size].astype(float) @ b[n]
        start += size
    return result


case("chlo.ragged_dot", "", F32, function([_l, _k, _g], [_o],
     '%r = "chlo.ragged_dot"(%0, %1, %2) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1],'
     " rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>, precision_config = []}"
     f" : ({_l}, {_k}, {_g}) -> {_o}"), [ordinary(F32, (6, 4)), ordinary(F32, (3, 4, 5)), np.array([2, 1, 3], np.int32)],
     judge=_ragged, limit=8, scale=lambda *a: np.float64(8))  # fmt: skip
_scan = f"^bb0(%x: {_f}, %y: {_f}):\n%z = stablehlo.add %x, %y : {_f}\nstablehlo.return %z, %z : {_f}, {_f}\n"
for _attribute, _turn in (("", lambda a: a), (", is_reverse = true", np.flip)):
    case("chlo.scan", "reverse" if _attribute else "", F32, function([_v, _f], [_v, _f],
         f'%r:2 = "chlo.scan"(%0, %1) <{{dimension = 0 : i64{_attribute}, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}}> ({{\n'
         f"{_scan}}}) : ({_v}, {_f}) -> ({_v}, {_f})"), [_x, np.float32(1)],
         judge=lambda a, i, turn=_turn: (i + turn(np.cumsum(turn(a).astype(float))), i + a.astype(float).sum()), limit=4, scale=lambda a, i: np.float64(8))  # fmt: skip
