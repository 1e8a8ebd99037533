"""What programs of TensorFlow, PyTorch/XLA and XLA's own dumps have and StableHLO text has not: HLO text.

XLA's parser makes the HloModuleProto that is read. The operations are called ``hlo.`` and their opcode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from tripont.core.compiler.ir import dtypes

from tests.conformance.registry import case
from tests.conformance.values import ordinary

F32, S8, S32 = dtypes.F32, dtypes.S8, dtypes.S32
_x, _y = ordinary(F32, (5,)), ordinary(F32, (5,), "y")
_SUM = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }"
_ALONE = "replica_groups={{0}}"


def add(
    opcode: str,
    variant: str,
    entry: str,
    arguments: Any,
    judge: Any = None,
    called: str = "",
    **more: Any,
) -> None:
    """A configuration; ``entry`` holds the instructions of the entry computation, one a line, the root last."""
    *rest, root = [line.strip() for line in entry.strip().splitlines()]
    dtype = more.pop("dtype", F32)
    text = f"HloModule m\n{called}\nENTRY main {{\n" + "\n".join([*rest, f"ROOT {root}"]) + "\n}\n"
    case(f"hlo.{opcode}", variant, dtype, text, arguments, judge=judge, **more)


_PARAMETER = "x = f32[5] parameter(0)\n"

# ------------------------------------------------------------------------------------------------- elementwise

_unit = np.linspace(-0.99, 0.99, 301, dtype=np.float32)
for _name, _judge, _values in (
    ("acos", np.arccos, _unit),
    ("acosh", np.arccosh, np.linspace(1, 50, 301, dtype=np.float32)),
    ("asin", np.arcsin, _unit),
    ("asinh", np.arcsinh, 20 * _unit),
    ("atanh", np.arctanh, _unit),
    ("cosh", np.cosh, 20 * _unit),
    ("sinh", np.sinh, 20 * _unit),
    ("erf", scipy.special.erf, 3 * _unit),
    ("tan", np.tan, 20 * _unit),
):
    # XLA's expansion of the hyperbolic functions, exp(x + log 0.5), magnifies the rounding of the sum.
    add(_name, "", f"x = f32[301] parameter(0)\nr = f32[301] {_name}(x)", [_values],
        judge=lambda a, f=_judge: f(a.astype(np.float64)), limit=10 if _name in ("cosh", "sinh") else 4)  # fmt: skip
add("mulhi", "", "x = s32[5] parameter(0)\ny = s32[5] parameter(1)\nr = s32[5] mulhi(x, y)",
    [np.array([2**31 - 1, -(2**31), -1, 1 << 20, 7], np.int32), np.array([2**31 - 1, -(2**31), 1, -(1 << 20), 9], np.int32)],
    judge=lambda a, b: a.astype(np.int64) * b >> 32, dtype=S32)  # fmt: skip


def _stochastic(x: Any, random: Any) -> Any:
    whole = np.floor(np.abs(x.astype(np.float64)))
    fraction = np.abs(x.astype(np.float64)) - whole
    rounded = np.sign(x) * (whole + (random < fraction * 2.0 ** (8 * random.dtype.itemsize)))
    return np.clip(np.nan_to_num(rounded), -128, 127)


for _bits in (16, 32):
    _values = np.array([0, 0.25, -0.25, 1.75, -3.5, 126.5, 127.5, -128.5, 1e9, -np.inf, np.nan, 2])
    _random = np.linspace(0, 2**_bits - 1, 6).astype(f"u{_bits // 8}")
    _number, _drawn = np.repeat(_values, 6).astype(np.float32), np.tile(_random, 12)
    if _bits == 16:
        import ml_dtypes

        _number = _number.astype(ml_dtypes.bfloat16)
    _type = "f32" if _bits == 32 else "bf16"
    add("stochastic-convert", f"u{_bits}",
        f"x = {_type}[72] parameter(0)\ny = u{_bits}[72] parameter(1)\nr = s8[72] stochastic-convert(x, y)",
        [_number, _drawn], judge=_stochastic, dtype=S8)  # fmt: skip

# ---------------------------------------------------------------------------------------- quantization (torch_xla)


def _quantization(scale: Any, zero_point: Any, axis: int = -1) -> str:
    dimension = f"quantization_dimension={axis}," if axis >= 0 else ""
    return (
        f"{{{dimension}scale=[{','.join(map(str, scale))}],zero_point=[{','.join(map(str, zero_point))}],"
        "storage_type=i8,expressed_type=f32,storage_min=-128,storage_max=127}"
    )


def _call(target: str, config: str) -> str:
    return (
        f'custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI, backend_config={config}'
    )


def _quantize(x: Any, scale: Any, zero_point: Any) -> Any:
    scaled = x / np.asarray(scale, np.float32) + np.asarray(zero_point, np.float32)
    return np.round(np.clip(scaled, -128, 127))


def _dequantize(x: Any, scale: Any, zero_point: Any) -> Any:
    return (x.astype(np.float32) - np.asarray(zero_point, np.float32)) * np.asarray(
        scale, np.float32
    )


_wide = np.array([[0, 0.2, 1e9], [-1e9, 50.9, -51.2], [0.6, -0.25, 1.0]], np.float32)
_stored = np.array([[-128, 127, 0], [1, -1, 5], [2, 3, 100]], np.int8)
for _label, _scale, _zero, _axis in (
    ("tensor", [0.4], [2], -1),
    ("channel", [0.4, 1.0, 0.25], [2, -100, 0], 1),
):
    _config = _quantization(_scale, _zero, _axis)
    add("uniform_quantize", _label,
        f"x = f32[3,3] parameter(0)\nr = s8[3,3] custom-call(x), {_call('mhlo.uniform_quantize', _config)}",
        [_wide], judge=lambda a, s=_scale, z=_zero: _quantize(a, s, z), dtype=S8)  # fmt: skip
    add("uniform_dequantize", _label,
        f"x = s8[3,3] parameter(0)\nr = f32[3,3] custom-call(x), {_call('mhlo.uniform_dequantize', _config)}",
        [_stored], judge=lambda a, s=_scale, z=_zero: _dequantize(a, s, z))  # fmt: skip

# --------------------------------------------------------------------------------------------- started and awaited

add("async-start", "", _PARAMETER + """s = ((f32[5]), f32[5], s32[]) async-start(x), calls=w
u = ((f32[5]), f32[5], s32[]) async-update(s)
r = f32[5] async-done(u)""", [_x], judge=lambda a: a + a, called="w { a = f32[5] parameter(0)\n ROOT b = f32[5] add(a, a) }")  # fmt: skip
add("copy-start", "", _PARAMETER + "s = (f32[5], f32[5], u32[]) copy-start(x)\nr = f32[5] copy-done(s)",
    [_x], judge=lambda a: a)  # fmt: skip
_pair = "(f32[5], f32[5])"
for _opcode, _shape, _given in (
    ("all-reduce", "f32[5]", f"{_ALONE}, to_apply=add"),
    ("all-gather", _pair, f"{_ALONE}, dimensions={{0}}"),
    ("collective-permute", _pair, "source_target_pairs={{0,0}}"),
    ("reduce-scatter", "((f32[5]), f32[5])", f"dimensions={{0}}, {_ALONE}, to_apply=add"),
    ("all-to-all", "((f32[5]), f32[5])", f"dimensions={{0}}, {_ALONE}"),
):
    add(f"{_opcode}-start", "", _PARAMETER + f"s = {_shape} {_opcode}-start(x), {_given}\nr = f32[5] {_opcode}-done(s)",
        [_x], judge=lambda a: a, called=_SUM)  # fmt: skip
add("all-reduce-start", "several", _PARAMETER + f"""y = f32[5] parameter(1)
s = {_pair} all-reduce-start(x, y), {_ALONE}, to_apply=add
r = {_pair} all-reduce-done(s)""", [_x, _y], judge=lambda a, b: (a, b), called=_SUM)  # fmt: skip

# ------------------------------------------------------------------------------------------- tuples, and what is fused

_double = "w { a = f32[5] parameter(0)\n ROOT b = f32[5] add(a, a) }"
add(
    "fusion",
    "",
    _PARAMETER + "r = f32[5] fusion(x), kind=kLoop, calls=w",
    [_x],
    judge=lambda a: a + a,
    called=_double,
)
add("bitcast", "", _PARAMETER + "r = f32[5,1] bitcast(x)", [_x], judge=lambda a: a[:, None])
add(
    "copy",
    "layout",
    "x = f32[2,3]{0,1} parameter(0)\nr = f32[2,3]{1,0} copy(x)",
    [ordinary(F32, (2, 3))],
    judge=lambda a: a,
)
add("domain", "", _PARAMETER + 'r = f32[5] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={maximal device=0}}',
    [_x], judge=lambda a: a)  # fmt: skip
add(
    "add-dependency",
    "",
    _PARAMETER + "t = token[] after-all()\nr = f32[5] add-dependency(x, t)",
    [_x],
    judge=lambda a: a,
)
add("opt-barrier", "", _PARAMETER + f"t = {_pair} tuple(x, x)\no = {_pair} opt-barrier(t)\nr = f32[5] get-tuple-element(o), index=1",
    [_x], judge=lambda a: a)  # fmt: skip
add("all-to-all", "tuple", _PARAMETER + f"s = (f32[5]) all-to-all(x), {_ALONE}\nr = f32[5] get-tuple-element(s), index=0",
    [_x], judge=lambda a: a)  # fmt: skip
for _flag in (False, True):
    add("conditional", f"pred_{_flag}", _PARAMETER + "p = pred[] parameter(1)\n"
        "r = f32[5] conditional(p, x, x), true_computation=w, false_computation=v", [_x, np.array(_flag)],
        judge=lambda a, p: a + a if p else -a,
        called=_double + "\nv { a = f32[5] parameter(0)\n ROOT b = f32[5] negate(a) }")  # fmt: skip
add("while", "tuple", _PARAMETER + """i = s32[] constant(0)
t = (s32[], f32[5]) tuple(i, x)
w = (s32[], f32[5]) while(t), condition=c, body=b
r = f32[5] get-tuple-element(w), index=1""", [_x], judge=lambda a: 8 * a, called="""c { t = (s32[], f32[5]) parameter(0)
i = s32[] get-tuple-element(t), index=0
n = s32[] constant(3)
ROOT l = pred[] compare(i, n), direction=LT }
b { t = (s32[], f32[5]) parameter(0)
i = s32[] get-tuple-element(t), index=0
o = s32[] constant(1)
j = s32[] add(i, o)
x = f32[5] get-tuple-element(t), index=1
y = f32[5] add(x, x)
ROOT r = (s32[], f32[5]) tuple(j, y) }""")  # fmt: skip
add("topk", "", _PARAMETER + "r = (f32[2], s32[2]) topk(x), k=2, largest=true", [_x],
    judge=lambda a: (np.sort(a)[:-3:-1], np.argsort(a)[:-3:-1].astype(np.int32)))  # fmt: skip
add(
    "dynamic-reshape",
    "whole",
    _PARAMETER + "s = s32[] constant(5)\nr = f32[5] dynamic-reshape(x, s)",
    [_x],
    judge=lambda a: a,
)
# The state of each call is another one; that of the second is no less than the first's.
add("rng-get-and-update-state", "", """s = u64[2] rng-get-and-update-state(), delta=3
t = u64[2] rng-get-and-update-state(), delta=3
r = pred[2] compare(s, t), direction=NE""", [], judge=lambda: np.array([False, True]), dtype="u64")  # fmt: skip

_SHORTER = (
    _PARAMETER + "s = s32[] parameter(1)\ny = f32[<=5] set-dimension-size(x, s), dimensions={0}\n"
)
add(
    "set-dimension-size",
    "",
    _SHORTER + "r = f32[<=5] negate(y)",
    [_x, np.int32(3)],
    judge=lambda a, s: -a[:s],
)
add(
    "get-dimension-size",
    "",
    _SHORTER + "r = s32[] get-dimension-size(y), dimensions={0}",
    [_x, np.int32(3)],
    judge=lambda a, s: s,
)
add(
    "dynamic-reshape",
    "shorter",
    _SHORTER + "o = s32[] constant(1)\nr = f32[<=5,1] dynamic-reshape(y, s, o)",
    [_x, np.int32(4)],
    judge=lambda a, s: a[:s, None],
)

# ---------------------------------------------------------------------------------------------------------- refused

add("scaled-dot", "", """x = f8e4m3fn[3,64] parameter(0)
y = f8e4m3fn[64,3] parameter(1)
sx = f8e8m0fnu[3,2] parameter(2)
sy = f8e8m0fnu[2,3] parameter(3)
r = f32[3,3] scaled-dot(x, y, sx, sy), lhs_contracting_dims={1}, rhs_contracting_dims={0}""", [], refused="mhlo.unknown")  # fmt: skip
add("ragged-all-to-all", "", _PARAMETER + """o = f32[5] parameter(1)
a = s64[1] parameter(2)
b = s64[1] parameter(3)
c = s64[1] parameter(4)
d = s64[1] parameter(5)
r = f32[5] ragged-all-to-all(x, o, a, b, c, d), replica_groups={{0}}""",
    [_x, _y, *[np.zeros(1, np.int64)] * 4], refused="ragged_all_to_all")  # fmt: skip
_token = "t = token[] after-all()\n"
_host = "channel_id=1, is_host_transfer=true"
add("infeed", "", _token + "r = (f32[5], token[]) infeed(t)", [], refused="stablehlo.infeed")
add("outfeed", "", _PARAMETER + _token + "o = token[] outfeed(x, t), outfeed_shape=f32[5]\nr = f32[5] add(x, x)", [_x],
    refused="stablehlo.outfeed")  # fmt: skip
add("send", "", _PARAMETER + _token + f"""s = (f32[5], u32[], token[]) send(x, t), {_host}
d = token[] send-done(s), {_host}
r = f32[5] add(x, x)""", [_x], refused="stablehlo.send")  # fmt: skip
add("recv", "", _token + f"""s = (f32[5], u32[], token[]) recv(t), {_host}
d = (f32[5], token[]) recv-done(s), {_host}
r = f32[5] get-tuple-element(d), index=0""", [], refused="stablehlo.recv")  # fmt: skip
