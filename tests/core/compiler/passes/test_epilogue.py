"""What comes after a gemm and becomes part of it, as programs and as numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler.memory.inplace import in_place_operands

from .test_library import calls, config, instructions, matched

F32 = np.float32
SQUARE = ((128, 128), F32)
VECTOR = ((128,), F32)


def epilogue(function: Any, *arguments: Any) -> tuple[float, str]:
    c = config(matched(function, *arguments))
    return c.get("alpha", 1.0), c.get("epilogue", "")


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda a, b, c: a @ b + c, (1.0, "add")),
        (lambda a, b, c: c + a @ b, (1.0, "add")),
        (lambda a, b, c: c - a @ b, (-1.0, "add")),
        (lambda a, b, c: c - 0.5 * (a @ b), (-0.5, "add")),
        (lambda a, b, c: 2 * (a @ b) + c, (2.0, "add")),
        (lambda a, b, c: (a @ b) * 0.25, (0.25, "")),
        (lambda a, b, c: a @ b + a, (1.0, "add")),
        (lambda a, b, c: (a @ b).T + c, (1.0, "add")),
        (lambda a, b, c: a @ b + jnp.tanh(c), (1.0, "")),  # c is not in memory
        (lambda a, b, c: a @ b - c, (1.0, "")),
    ],
)
def test_add(function, want):
    assert epilogue(function, SQUARE, SQUARE, SQUARE) == want


def test_a_sum_of_products_is_accumulated():
    module = matched(lambda a, b, c: a @ b + b @ c, SQUARE, SQUARE, SQUARE)
    assert calls(module) == ["gemm", "gemm"]
    assert not instructions(module, "add")


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda a, b, v: a @ b + v, "bias"),
        (lambda a, b, v: (a @ b + v).reshape(128, 4, 32), "bias"),
        (lambda a, b, v: jnp.tanh(a @ b + v), ""),  # the addition fuses with what reads it
        (lambda a, b, v: a @ b + v[:, None], ""),
    ],
)
def test_bias(function, want):
    assert epilogue(function, SQUARE, SQUARE, VECTOR) == (1.0, want)


def test_a_product_with_other_users_stays():
    def function(a, b, c):
        product = a @ b
        return product, product + c

    assert epilogue(function, SQUARE, SQUARE, SQUARE) == (1.0, "")


def test_only_f32():
    half = ((128, 128), jnp.bfloat16)
    assert epilogue(lambda a, b, c: a @ b + c, half, half, half) == (1.0, "")


def test_in_place():
    (call,) = instructions(
        matched(lambda a, b, c: a @ b + c, SQUARE, SQUARE, SQUARE), "library-call"
    )
    assert in_place_operands(call) == [(2,)]
    # Not over an operand of the product itself.
    (call,) = instructions(matched(lambda a, b: a @ b + a, SQUARE, SQUARE), "library-call")
    assert in_place_operands(call) == [()]


@pytest.mark.parametrize("size", [160, 256])  # generated, and a gemm
@pytest.mark.parametrize("donate", [(), (2,)])
@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: c - 0.1 * (a @ b),
        lambda a, b, c: (a @ b).T + c,
        lambda a, b, c: a @ b + b @ c + c @ a,
        lambda a, b, c: c + a @ c,
        lambda a, b, c: jax.lax.fori_loop(0, 3, lambda i, x: x - 0.01 * (a @ b), c),
        lambda a, b, c: (a @ b + c[0]).reshape(len(a), 4, -1),
    ],
)
def test_numbers(xpu, function, donate, size):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((size, size)).astype(F32) for _ in range(3))
    compiled = jax.jit(function, donate_argnums=donate)
    with jax.default_device(jax.devices("cpu")[0]):
        want = np.asarray(jax.jit(function)(a, b, c))
    got = np.asarray(compiled(*(jax.device_put(x, xpu) for x in (a, b, c))))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
