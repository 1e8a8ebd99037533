"""dot_general with any dimension numbers, and convolutions with all their options."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.integration.comparison import Config, check
from tests.integration.tolerances import Accumulated, Exact


def dot(name: str, dimension_numbers: Any, terms: int, *arguments: str, **options: Any) -> Config:
    function = functools.partial(lax.dot_general, dimension_numbers=dimension_numbers, **options)
    magnitude = functools.partial(lax.dot_general, dimension_numbers=dimension_numbers)
    return Config(f"dot-{name}", function, list(arguments), Accumulated(terms, magnitude))


MATMUL = (((1,), (0,)), ((), ()))
DOTS = [
    dot("small", MATMUL, 5, "f32[3,5]", "f32[5,7]"),
    dot("32", MATMUL, 32, "f32[32,32]", "f32[32,32]"),
    dot("odd", MATMUL, 63, "f32[31,63]", "f32[63,65]"),
    dot("large", MATMUL, 300, "f32[200,300]", "f32[300,250]"),
    dot("matrix-vector", (((1,), (0,)), ((), ())), 129, "f32[257,129]", "f32[129]"),
    dot("vector-matrix", (((0,), (0,)), ((), ())), 129, "f32[129]", "f32[129,257]"),
    dot("inner", (((0,), (0,)), ((), ())), 1001, "f32[1001]", "f32[1001]"),
    dot("outer", (((), ()), ((), ())), 1, "f32[33]", "f32[17]"),
    dot("transposed-lhs", (((0,), (0,)), ((), ())), 65, "f32[65,33]", "f32[65,17]"),
    dot("transposed-rhs", (((1,), (1,)), ((), ())), 65, "f32[33,65]", "f32[17,65]"),
    dot("batch", (((2,), (1,)), ((0,), (0,))), 9, "f32[4,7,9]", "f32[4,9,5]"),
    dot("batch-two", (((3,), (2,)), ((0, 1), (0, 1))), 9, "f32[2,3,7,9]", "f32[2,3,9,5]"),
    dot("batch-in-the-middle", (((2,), (0,)), ((1,), (1,))), 9, "f32[7,4,9]", "f32[9,4,5]"),
    dot("contract-two", (((1, 2), (0, 1)), ((), ())), 20, "f32[3,4,5]", "f32[4,5,6]"),
    dot("contract-two-swapped", (((1, 2), (1, 0)), ((), ())), 20, "f32[3,4,5]", "f32[5,4,6]"),
    dot("contract-zero", MATMUL, 1, "f32[3,0]", "f32[0,4]"),
    dot("empty-result", MATMUL, 4, "f32[0,4]", "f32[4,4]"),
    dot("bf16", MATMUL, 64, "bf16[33,64]", "bf16[64,17]"),
    dot("bf16-large", MATMUL, 256, "bf16[128,256]", "bf16[256,128]"),
    dot("bf16-to-f32", MATMUL, 64, "bf16[33,64]", "bf16[64,17]", preferred_element_type=jnp.float32),
    dot("f16", MATMUL, 64, "f16[33,64]", "f16[64,17]"),
    Config("dot-s8-to-s32", lambda a, b: lax.dot(a, b, preferred_element_type="int32"), "s8[33,64] s8[64,17]", Exact()),
    Config("dot-s32", jnp.dot, "s32[7,9] s32[9,5]", Exact()),
    Config("dot-u8", lambda a, b: lax.dot(a, b, preferred_element_type="uint32"), "u8[7,9] u8[9,5]", Exact()),
    Config("dot-pred", lambda a, b: jnp.dot(a, b), "pred[7,9] pred[9,5]", Exact()),
    Config("dot-c64", jnp.dot, "c64[7,9] c64[9,5]", Accumulated(36, jnp.dot)),
    Config("dot-bias-relu", lambda a, b, c: jax.nn.relu(a @ b + c), "f32[33,65] f32[65,17] f32[17]",
           Accumulated(66, lambda a, b, c: a @ b + c)),
    Config("dot-of-transposes", lambda a, b: (a.T @ b.T).T, "f32[33,65] f32[17,33]", Accumulated(33, lambda a, b: b @ a)),
    Config("einsum-attention", lambda q, k: jnp.einsum("bthd,bshd->bhts", q, k), "f32[2,9,3,8] f32[2,11,3,8]",
           Accumulated(8, lambda q, k: jnp.einsum("bthd,bshd->bhts", q, k))),
    Config("einsum-trilinear", lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c), "f32[5,6] f32[6,7] f32[7,8]",
           Accumulated(48, lambda a, b, c: a @ b @ c)),
]  # fmt: skip

NHWC = ("NHWC", "HWIO", "NHWC")
NCHW = ("NCHW", "OIHW", "NCHW")


def conv(name: str, lhs: str, rhs: str, terms: int, **options: Any) -> Config:
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": NHWC} | options
    function = functools.partial(lax.conv_general_dilated, **options)
    return Config(f"conv-{name}", function, [lhs, rhs], Accumulated(terms, function))


CONVOLUTIONS = [
    conv("same", "f32[2,9,11,3]", "f32[3,3,3,5]", 27),
    conv("valid", "f32[2,9,11,3]", "f32[3,3,3,5]", 27, padding="VALID"),
    conv("1x1", "f32[2,9,11,16]", "f32[1,1,16,8]", 16),
    conv("even-kernel", "f32[2,9,11,3]", "f32[2,4,3,5]", 24),
    conv("strided", "f32[2,9,11,3]", "f32[3,3,3,5]", 27, window_strides=(2, 3)),
    conv("padded", "f32[2,5,6,3]", "f32[3,3,3,5]", 27, padding=((1, 2), (3, 0))),
    conv("negative-padding", "f32[2,9,9,3]", "f32[3,3,3,5]", 27, padding=((-1, 2), (0, -2))),
    conv("dilated-kernel", "f32[2,9,11,3]", "f32[3,3,3,5]", 27, rhs_dilation=(2, 2)),
    conv("dilated-input", "f32[2,5,6,3]", "f32[3,3,3,5]", 27, lhs_dilation=(2, 2), padding=((1, 1), (1, 1))),
    conv("both-dilated", "f32[1,7,7,2]", "f32[3,3,2,4]", 18, lhs_dilation=(2, 1), rhs_dilation=(1, 3),
         padding=((2, 2), (3, 3))),
    conv("depthwise", "f32[2,9,11,8]", "f32[3,3,1,8]", 9, feature_group_count=8),
    conv("depthwise-multiplier", "f32[2,9,11,4]", "f32[3,3,1,8]", 9, feature_group_count=4),
    conv("grouped", "f32[2,9,11,8]", "f32[3,3,4,6]", 36, feature_group_count=2),
    conv("batch-grouped", "f32[6,7,7,4]", "f32[3,3,4,6]", 36, batch_group_count=2),
    conv("nchw", "f32[2,3,9,11]", "f32[5,3,3,3]", 27, dimension_numbers=NCHW),
    conv("mixed-layouts", "f32[3,9,11,2]", "f32[3,5,3,3]", 27, dimension_numbers=("CHWN", "IOHW", "NHWC")),
    conv("wide", "f32[2,14,14,32]", "f32[3,3,32,64]", 288),
    conv("bf16", "bf16[2,9,11,16]", "bf16[3,3,16,8]", 144),
    conv("f16", "f16[2,9,11,4]", "f16[3,3,4,8]", 36),
    conv("1d", "f32[2,19,3]", "f32[4,3,5]", 12, window_strides=(2,), dimension_numbers=("NWC", "WIO", "NWC")),
    conv("3d", "f32[1,5,6,7,3]", "f32[3,2,3,3,4]", 54, window_strides=(1, 2, 1),
         dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
    conv("0d", "f32[4,5]", "f32[5,6]", 5, window_strides=(), padding=(), dimension_numbers=("NC", "IO", "NC")),
    conv("window-larger-than-input", "f32[1,2,2,3]", "f32[5,5,3,2]", 75),
    Config("conv-bias-relu", lambda x, w, b: jax.nn.relu(
        lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC) + b),
        "f32[2,9,11,3] f32[3,3,3,8] f32[8]",
        Accumulated(28, lambda x, w, b: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC) + b)),
    Config("conv-transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), "f32[2,5,6,3] f32[3,3,3,4]",
           Accumulated(27, lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"))),
]  # fmt: skip


def gradients(config: Config) -> Config:
    """The same, with respect to both operands: kernels and inputs swap roles, and dilations become strides."""

    def function(lhs: Any, rhs: Any) -> Any:
        result, pullback = jax.vjp(config.function, lhs, rhs)
        return pullback(jnp.ones_like(result))

    magnitude = function

    class OfEach(Accumulated):
        def allowed(self, expected: Any, arguments: Any) -> Any:
            absolute = [abs(a) for a in arguments]
            pair = [m for m in magnitude(*absolute) if m.shape == expected.shape]
            return Accumulated(self.terms, lambda *_: pair[0]).allowed(expected, arguments)

    terms = max(jnp.size(config.make_arguments()[0]), jnp.size(config.make_arguments()[1]))
    return Config(
        f"{config.name}-gradient", function, config.arguments, OfEach(int(terms), function)
    )


GRADIENTS = [
    gradients(c)
    for c in CONVOLUTIONS
    if c.name.removeprefix("conv-")
    in {
        "same",
        "valid",
        "strided",
        "padded",
        "dilated-kernel",
        "depthwise",
        "grouped",
        "nchw",
        "1d",
        "3d",
        "1x1",
    }
]


def causal(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.tril(q @ k.T) @ v


# Queries, keys or numbers of each that are none: a part of nothing was divided by their number.
MASKED = [
    Config(
        f"masked-{m}-{n}-{d}", causal, [f"f32[{m},{d}]", f"f32[{n},{d}]", f"f32[{n},{d}]"], Exact()
    )
    for m, n, d in [(0, 0, 4), (0, 3, 4), (3, 0, 4), (3, 3, 0), (0, 0, 0)]
]

ALL = DOTS + CONVOLUTIONS + GRADIENTS + MASKED


@pytest.mark.parametrize("config", ALL, ids=str)
def test_dot_and_convolution(config: Config, xpu: Any, cpu: Any) -> None:
    check(config, xpu, cpu)


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e3m4", "float4_e2m1fn"]
)
@pytest.mark.parametrize(("groups", "each"), [(1, 16), (2, 8), (16, 1), (16, 2)])
@pytest.mark.parametrize("layout", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")])
def test_convolutions_of_short_floats(
    dtype: str, groups: int, each: int, layout: tuple[str, str, str], xpu: Any
) -> None:
    """Sums are taken in floats that LLVM has, and rounded once: those of small whole numbers are exact."""
    random_ = np.random.default_rng(0)
    sizes = {"N": 2, "H": 9, "W": 9, "C": 16, "I": 16 // groups, "O": groups * each}
    x = random_.choice([-1.0, 0.0, 1.0], [sizes[c] for c in layout[0]])
    sizes |= {"H": 3, "W": 3}
    w = random_.choice([-1.0, 0.0, 0.0, 1.0], [sizes[c] for c in layout[1]])
    convolve = functools.partial(
        lax.conv_general_dilated, window_strides=(1, 1), padding="SAME", dimension_numbers=layout,
        feature_group_count=groups,
    )  # fmt: skip
    with jax.default_device(xpu):
        got = jax.jit(convolve)(jnp.asarray(x, dtype), jnp.asarray(w, dtype))
        want = jax.jit(convolve)(jnp.asarray(x, "float32"), jnp.asarray(w, "float32"))
    wanted = np.asarray(want).astype(got.dtype)
    np.testing.assert_array_equal(np.asarray(got).astype(np.float32), wanted.astype(np.float32))
