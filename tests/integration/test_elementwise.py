"""Elementwise operations: every function of jnp, lax and jax.nn that maps numbers to numbers."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import pytest
from jax import lax

from tests.integration.comparison import Config, check
from tests.integration.tolerances import Exact, Normwise, Ulps

# Bounds of a function: units in the last place by which either side may be off, added up. XLA's own measured maxima are
# exp 0.99, log 1.04, tanh 4.28, sin 0.56, pow 0.50; ours must be within the same, plus the rounding of the result.
EXACT = Exact()
ROUNDED = Ulps(1)  # correctly rounded on both sides, but one side may contract a product and a sum
EXP = Ulps(3)
LOG = Ulps(3)
TANH = Ulps(10)
SIN = Ulps(3, floor=2.0**-23 * 2)
POW = Ulps(4)
COMPOSED = Ulps(16)  # a few of the above, one after the other
N = "[3,131]"  # neither a multiple of a vector nor of the rows


def f32(
    name: str, function: Any, ranges: str = "", tolerance: Any = EXACT, arity: int = 1
) -> Config:
    return Config(f"{name}-f32", function, [f"f32{N}{ranges}"] * arity, tolerance)


FLOAT = [
    f32("abs", jnp.abs, ":-9..9!"),
    f32("neg", jnp.negative, ":-9..9!"),
    f32("sign", jnp.sign, ":-9..9!"),
    f32("floor", jnp.floor, ":-9..9!"),
    f32("ceil", jnp.ceil, ":-9..9!"),
    f32("trunc", jnp.trunc, ":-9..9!"),
    f32("round-half-even", jnp.round, ":-9..9!"),
    f32("round-half-away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), ":-9..9!"),
    f32("round-large", jnp.round, ":-1e9..1e9"),
    f32("sqrt", jnp.sqrt, ":0..9!", ROUNDED),
    f32("rsqrt", lax.rsqrt, ":0.01..9!", Ulps(3)),
    f32("cbrt", jnp.cbrt, ":-9..9!", Ulps(4)),
    f32("exp", jnp.exp, ":-87..88!", EXP),
    f32("exp-overflow", jnp.exp, ":88..120", EXP),
    f32(
        "exp2", jnp.exp2, ":-100..100!", Ulps(160)
    ),  # XLA: exp(x * log(2)), which loses |x| * log(2) / 2 ulps
    f32("expm1", jnp.expm1, ":-3..3!", Ulps(5)),
    f32("expm1-small", jnp.expm1, ":-1e-4..1e-4", Ulps(5)),
    f32("log", jnp.log, ":0.001..1000!", LOG),
    f32("log-near-one", jnp.log, ":0.9..1.1", Ulps(4)),
    f32("log1p", jnp.log1p, ":-0.9..3!", Ulps(5)),
    f32("log1p-small", jnp.log1p, ":-1e-4..1e-4", Ulps(5)),
    f32("log2", jnp.log2, ":0.01..100", Ulps(8, floor=2e-7)),
    f32("log10", jnp.log10, ":0.01..100", Ulps(8, floor=1e-7)),
    f32("tanh", jnp.tanh, ":-10..10!", TANH),
    f32("tanh-small", jnp.tanh, ":-1e-3..1e-3", TANH),
    f32("sin", jnp.sin, ":-10..10!", SIN),
    f32("sin-large", jnp.sin, ":-1e5..1e5", SIN),
    f32("cos", jnp.cos, ":-10..10!", SIN),
    f32("cos-huge", jnp.cos, ":-1e8..1e8", SIN),
    f32("tan", jnp.tan, ":-1.5..1.5!", Ulps(8)),
    f32("asin", jnp.arcsin, ":-1..1!", Ulps(8)),
    f32("acos", jnp.arccos, ":-1..1!", Ulps(8, floor=2.0**-22)),
    f32("atan", jnp.arctan, ":-9..9!", Ulps(8)),
    f32("sinh", jnp.sinh, ":-5..5!", Ulps(8)),
    f32("cosh", jnp.cosh, ":-5..5!", Ulps(8)),
    f32("asinh", jnp.arcsinh, ":-5..5!", Ulps(8)),
    f32("acosh", jnp.arccosh, ":1..5!", Ulps(16, floor=2.0**-20)),
    f32("atanh", jnp.arctanh, ":-0.99..0.99!", Ulps(8)),
    f32("logistic", jax.nn.sigmoid, ":-20..20!", Ulps(6)),
    f32("erf", special.erf, ":-4..4!", Ulps(8)),
    f32(
        "erfc", special.erfc, ":-3..3!", Ulps(64)
    ),  # ends in exp(-x*x), whose argument's rounding grows 9-fold
    f32("erf-inv", special.erfinv, ":-0.99..0.99", Ulps(16)),
    f32("lgamma", special.gammaln, ":0.1..20", Ulps(32, floor=2e-6)),
    f32("digamma", special.digamma, ":0.5..20", Ulps(32, floor=2e-6)),
    f32("is-finite", jnp.isfinite, ":-9..9!"),
    f32("is-nan", jnp.isnan, ":-9..9!"),
    f32("square", jnp.square, ":-9..9!"),
    f32("integer-pow", lambda x: x**5, ":-3..3!", Ulps(3)),
    f32("integer-pow-negative", lambda x: x**-3, ":0.1..3", Ulps(4)),
    f32("relu", jax.nn.relu, ":-9..9!"),
    f32("relu6", jax.nn.relu6, ":-9..9!"),
    f32("leaky-relu", jax.nn.leaky_relu, ":-9..9!"),
    f32("elu", jax.nn.elu, ":-9..9!", Ulps(5)),
    f32("gelu-tanh", jax.nn.gelu, ":-4..4", Ulps(16, floor=2e-6)),
    f32("gelu-erf", lambda x: jax.nn.gelu(x, approximate=False), ":-4..4", Ulps(64, floor=2e-6)),
    f32("silu", jax.nn.silu, ":-20..20!", Ulps(8)),
    f32("softplus", jax.nn.softplus, ":-20..20!", Ulps(8)),
    f32("log-sigmoid", jax.nn.log_sigmoid, ":-20..20!", Ulps(8)),
    f32("mish", jax.nn.mish, ":-10..10", Ulps(24)),
    f32("hard-swish", jax.nn.hard_swish, ":-9..9!", Ulps(3)),
    f32("reduce-precision", lambda x: lax.reduce_precision(x, 8, 7), ":-9..9!"),
    f32("nextafter", lambda x: jnp.nextafter(x, x + 1), ":0.5..9"),
    f32("clip", lambda x: jnp.clip(x, -1.0, 2.0), ":-9..9!"),
    f32("nan-to-num", jnp.nan_to_num, ":-9..9!"),
    f32("modf", lambda x: jnp.modf(x), ":-9..9"),
    f32("frexp", jnp.frexp, ":-9..9"),
    f32(
        "fused-chain",
        lambda x: jnp.sin(x) * jnp.exp(-x * x) + jnp.tanh(x) / (1 + x * x),
        ":-2..2",
        Normwise(32),
    ),
]

BINARY = [
    f32("add", jnp.add, ":-9..9!", EXACT, 2),
    f32("subtract", jnp.subtract, ":-9..9!", EXACT, 2),
    f32("multiply", jnp.multiply, ":-9..9!", EXACT, 2),
    f32("divide", jnp.divide, ":-9..9!", EXACT, 2),
    f32("maximum", jnp.maximum, ":-9..9!", EXACT, 2),
    f32("minimum", jnp.minimum, ":-9..9!", EXACT, 2),
    f32("remainder-lax", lax.rem, ":-9..9!", EXACT, 2),
    f32("remainder-jnp", jnp.remainder, ":-9..9", ROUNDED, 2),
    f32("floor-divide", jnp.floor_divide, ":1..9", EXACT, 2),
    f32("pow", jnp.power, ":0.1..4", POW, 2),
    f32("atan2", jnp.arctan2, ":-9..9!", Ulps(8), 2),
    f32("hypot", jnp.hypot, ":-9..9", Ulps(4), 2),
    f32("logaddexp", jnp.logaddexp, ":-9..9", Ulps(8, floor=2.0**-21), 2),
    f32("copysign", jnp.copysign, ":-9..9!", EXACT, 2),
    f32("equal", jnp.equal, ":-9..9!", EXACT, 2),
    f32("not-equal", jnp.not_equal, ":-9..9!", EXACT, 2),
    f32("less", jnp.less, ":-9..9!", EXACT, 2),
    f32("less-equal", jnp.less_equal, ":-9..9!", EXACT, 2),
    f32("greater", jnp.greater, ":-9..9!", EXACT, 2),
    f32("multiply-add", lambda a, b, c: a * b + c, ":-9..9", Normwise(4), 3),
    f32("select", lambda a, b, c: jnp.where(a > 0, b, c), ":-9..9!", EXACT, 3),
    f32("clamp-arrays", lambda a, b: lax.clamp(-jnp.abs(a), b, jnp.abs(a)), ":-9..9", EXACT, 2),
    Config("broadcast-add", lambda a, b: a + b, "f32[5,1,7] f32[3,1]"),
    Config("scalar-add", lambda a: a + 1, "f32[8]"),
    Config("pow-special", jnp.power, ["f32[40]:-2..2!", "f32[40]:-2..2!"], POW),
]


def integers(dtype: str) -> list[Config]:
    full = {"s8": ":-128..128", "u8": ":0..256", "s16": ":-32768..32768", "u16": ":0..65536"}.get(
        dtype, ""
    )
    if not full:
        full = ":-2000000000..2000000000" if dtype[0] == "s" else ":0..4000000000"
    a, nonzero, shift = f"{dtype}{N}{full}", f"{dtype}{N}:1..100", f"{dtype}{N}:0..{int(dtype[1:])}"
    return [
        Config(f"add-{dtype}", lambda x, y: x + y, [a, a]),
        Config(f"subtract-{dtype}", lambda x, y: x - y, [a, a]),
        Config(f"multiply-{dtype}", lambda x, y: x * y, [a, a]),
        Config(f"divide-{dtype}", lax.div, [a, nonzero]),
        Config(f"remainder-{dtype}", lax.rem, [a, nonzero]),
        Config(f"floor-divide-{dtype}", lambda x, y: x // y, [a, nonzero]),
        Config(f"divide-by-zero-{dtype}", lambda x, y: lax.div(x, y * 0), [a, nonzero]),
        Config(f"remainder-by-zero-{dtype}", lambda x, y: lax.rem(x, y * 0), [a, nonzero]),
        Config(f"bitwise-{dtype}", lambda x, y: ((x & y) | ~y) ^ (x | 3), [a, a]),
        Config(f"shift-left-{dtype}", lax.shift_left, [a, shift]),
        Config(f"shift-right-logical-{dtype}", lax.shift_right_logical, [a, shift]),
        Config(f"shift-right-arithmetic-{dtype}", lax.shift_right_arithmetic, [a, shift]),
        Config(f"shift-too-far-{dtype}", lambda x: lax.shift_right_logical(x, x * 0 + 99), [a]),
        Config(f"population-count-{dtype}", lax.population_count, [a]),
        Config(f"count-leading-zeros-{dtype}", lax.clz, [a]),
        Config(f"compare-{dtype}", lambda x, y: (x < y, x >= y, x == y), [a, a]),
        Config(f"min-max-{dtype}", lambda x, y: (jnp.minimum(x, y), jnp.maximum(x, y)), [a, a]),
        Config(f"abs-sign-{dtype}", lambda x: (jnp.abs(x), jnp.sign(x)), [a]),
        Config(f"integer-pow-{dtype}", lambda x: x**3, [a]),
    ]


INTEGER = [c for dtype in ("s8", "u8", "s16", "u16", "s32", "u32") for c in integers(dtype)] + [
    Config("pow-s32", lambda x, y: x**y, "s32[33]:-9..9 s32[33]:0..7"),
    Config("logical", lambda x, y: (x & y, x | y, x ^ y, ~x), "pred[3,33] pred[3,33]"),
    Config("select-pred", lambda p, x, y: jnp.where(p, x, y), "pred[3,33] s32[3,33] s32[3,33]"),
    Config("s64-multiply", lambda x, y: x * y, "s64[50] s64[50]", x64=True),
    Config("s64-shift", lambda x: (x << 40) >> 33, "s64[50]", x64=True),
    Config("u64-divide", lambda x, y: x // y, "u64[50] u64[50]:1..100", x64=True),
]

LOW_PRECISION = [
    Config(f"{name}-{dtype}", function, [f"{dtype}[3,77]{ranges}"] * arity, Ulps(ulps))
    for dtype in ("bf16", "f16")
    for name, function, ranges, arity, ulps in (
        ("add", jnp.add, ":-9..9!", 2, 0),
        ("multiply", jnp.multiply, ":-9..9!", 2, 0),
        ("divide", jnp.divide, ":1..9", 2, 1),
        # Computed in f32 on both sides: the results differ only where the f32 errors straddle a rounding boundary.
        ("exp", jnp.exp, ":-5..5", 1, 1),
        ("log", jnp.log, ":0.1..9", 1, 1),
        ("tanh", jnp.tanh, ":-3..3", 1, 1),
        ("sqrt", jnp.sqrt, ":0..9", 1, 1),
        ("rsqrt", lax.rsqrt, ":0.1..9", 1, 1),
        ("sin", jnp.sin, ":-3..3", 1, 2),
        ("logistic", jax.nn.sigmoid, ":-5..5", 1, 2),
        ("pow", jnp.power, ":0.5..2", 2, 1),
        ("maximum", jnp.maximum, ":-9..9!", 2, 0),
        ("compare", lambda a, b: (a < b, a == b), ":-9..9!", 2, 0),
        ("floor", jnp.floor, ":-9..9!", 1, 0),
        ("relu", jax.nn.relu, ":-9..9!", 1, 0),
        # Three or four operations, each rounded to the type by one side and perhaps not by the other.
        ("silu", jax.nn.silu, ":-5..5", 1, 4),
        ("multiply-add", lambda a, b: a * b + a, ":1..2", 2, 3),
    )
]

COMPLEX = [
    Config(f"{name}-c64", function, ["c64[3,33]"] * arity, Normwise(roundings))
    for name, function, arity, roundings in (
        ("add", jnp.add, 2, 1),
        ("multiply", jnp.multiply, 2, 4),
        ("divide", jnp.divide, 2, 8),
        ("abs", jnp.abs, 1, 4),
        ("conj", jnp.conj, 1, 0),
        ("real-imag", lambda x: (x.real, x.imag), 1, 0),
        ("exp", jnp.exp, 1, 16),
        ("log", jnp.log, 1, 16),
        ("sqrt", jnp.sqrt, 1, 16),
        ("tanh", jnp.tanh, 1, 64),
        ("sin", jnp.sin, 1, 16),
        ("cos", jnp.cos, 1, 16),
        ("angle", jnp.angle, 1, 8),
        ("pow", jnp.power, 2, 128),
        ("equal", lambda a, b: (a == b, a == a), 2, 0),
        ("make", lambda a: lax.complex(a.real, a.imag * 2), 1, 0),
    )
]

F64 = [
    Config(f"{name}-f64", function, ["f64[3,33]:0.1..3"] * arity, Ulps(ulps), x64=True)
    for name, function, arity, ulps in (
        ("add", jnp.add, 2, 0),
        ("divide", jnp.divide, 2, 0),
        ("exp", jnp.exp, 1, 3),
        ("log", jnp.log, 1, 4),
        ("tanh", jnp.tanh, 1, 10),
        ("sin", jnp.sin, 1, 4),
        ("sqrt", jnp.sqrt, 1, 0),
        ("pow", jnp.power, 2, 8),
        ("erf", special.erf, 1, 16),
    )
]


def conversions() -> list[Config]:
    dtypes = {
        "pred": bool,
        "s8": "int8",
        "u8": "uint8",
        "s16": "int16",
        "s32": "int32",
        "u32": "uint32",
    }
    dtypes |= {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
    configs = []
    for source in dtypes:
        for target_name, target in dtypes.items():
            ranges = "" if source == "pred" else ":0..100"
            configs.append(
                Config(
                    f"convert-{source}-{target_name}",
                    lambda x, target=target: x.astype(target),
                    [f"{source}[3,33]{ranges}"],
                )
            )
    return configs


CONVERSION = [
    *conversions(),
    Config("convert-f32-s32-saturates", lambda x: x.astype("int32"), "f32[40]:-1e12..1e12!"),
    Config("convert-f32-s8-negative", lambda x: x.astype("int8"), "f32[40]:-100..100"),
    Config("convert-f32-bf16-rounds", lambda x: x.astype("bfloat16"), "f32[4001]:-9..9!"),
    Config("convert-f32-f16-overflow", lambda x: x.astype("float16"), "f32[40]:-1e6..1e6!"),
    Config("convert-f16-f32-subnormal", lambda x: x.astype("float32"), "f16[40]:-1e-6..1e-6"),
    Config("bitcast-f32-s32", lambda x: lax.bitcast_convert_type(x, "int32"), "f32[3,33]"),
    Config("bitcast-s32-u8", lambda x: lax.bitcast_convert_type(x, "uint8"), "s32[3,33]"),
    Config("bitcast-u8-s32", lambda x: lax.bitcast_convert_type(x, "int32"), "u8[3,33,4]"),
    Config("bitcast-bf16-u16", lambda x: lax.bitcast_convert_type(x, "uint16"), "bf16[3,33]"),
]

SHAPES = [
    Config(
        f"shape-{'x'.join(map(str, dims)) or 'scalar'}",
        lambda x: x * 2 + 1,
        [f"f32{list(dims)}".replace(" ", "")],
    )
    for dims in (
        (),
        (1,),
        (0,),
        (3, 0, 2),
        (1, 1, 1),
        (15,),
        (16,),
        (17,),
        (100003,),
        (7, 9, 11, 13),
        (2,) * 8,
    )
]

ALL = FLOAT + BINARY + INTEGER + LOW_PRECISION + COMPLEX + F64 + CONVERSION + SHAPES


@pytest.mark.parametrize("config", ALL, ids=str)
def test_elementwise(config: Config, xpu: Any, cpu: Any) -> None:
    check(config, xpu, cpu)


def test_names_are_unique() -> None:
    names = [config.name for config in ALL]
    assert len(names) == len(set(names))


def test_exp_is_accurate(xpu: Any) -> None:
    """Against f64, not against another approximation: at most one unit in the last place."""
    import numpy as np

    x = np.linspace(-87, 88, 100_001, dtype=np.float32)
    expected = np.exp(x.astype(np.float64))
    actual = np.asarray(jax.jit(jnp.exp)(jax.device_put(x, xpu))).astype(np.float64)
    ulps = np.abs(actual - expected) / np.spacing(expected.astype(np.float32)).astype(np.float64)
    assert math.isfinite(ulps.max())
    assert ulps.max() <= 1.0
