"""What JAX cannot lower for xpu is known, and says so in words."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special  # type: ignore[import-untyped]
from jax.interpreters import mlir
from tripont.core.compiler.reference import gamma as evaluate_gamma
from tripont.frontends.jax import PLATFORM, compat, lowerings

# Only for platforms other than a CPU: kernels of NVIDIA's libraries and of TPUs, and collectives. Some are there only
# after the module that has them was imported, by another test or a library.
OF_OTHERS = {
    "cudnn_fusion",
    "dot_product_attention_bwd",
    "dot_product_attention_fp8_bwd",
    "dot_product_attention_fp8_fwd",
    "dot_product_attention_fwd",
    "pbroadcast_dynamic",
    "pbroadcast_start",
    "tpu_custom_call",
}


def test_every_missing_primitive_is_explained(xpu: Any) -> None:
    """A primitive that a new JAX has no portable lowering for must be entered in the list."""
    lowerings.register(PLATFORM)  # for the modules that were imported after JAX had started
    missing = compat.primitives_without_lowering(PLATFORM)
    assert set(missing) <= OF_OTHERS, "add these to frontends/jax/lowerings.py"


@pytest.mark.skipif(
    jax.__version_info__ >= (0, 12), reason="JAX 0.12 lowers scaled_matmul everywhere"
)
def test_the_error_says_what_to_do(xpu: Any) -> None:
    lhs, scales = np.ones((1, 32, 64), jnp.float8_e4m3fn), np.ones((1, 32, 2), jnp.float8_e8m0fnu)
    assert "scaled_matmul" in lowerings.MISSING
    with jax.default_device(xpu), pytest.raises(NotImplementedError) as caught:
        jax.jit(jax.nn.scaled_matmul)(lhs, lhs, scales, scales)
    message = str(caught.value)
    assert "scaled_matmul" in message
    assert "float8_e4m3fn[1,32,64]" in message
    assert "jax.default_device" in message


# Name: (reference, arguments, largest error in units in the last place). Expanded as JAX does it, they are 64 ulps off
# and more.
DIRECT: dict[str, tuple[Any, Any, float]] = {
    "exp2": (np.exp2, np.linspace(-149, 127.9, 4001), 1.1),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), np.linspace(-103, 90, 4001), 2.5),
    "erf_inv": (scipy.special.erfinv, np.tanh(np.linspace(-8.3, 8.3, 4001)), 3.2),
    "erfc": (np.vectorize(math.erfc), np.linspace(-4, 10, 4001), 4.4),
    "lgamma": (np.vectorize(evaluate_gamma.lgamma), np.linspace(-6.0013, 12, 999), 1.9),
    "digamma": (np.vectorize(evaluate_gamma.digamma), np.linspace(-6.0013, 12, 999), 2.6),
}


@pytest.mark.parametrize("name", DIRECT)
def test_functions_that_are_not_expanded(name: str, xpu: Any) -> None:
    """Over their whole range, denormal results too; with gradients, vmap and complex numbers."""
    reference, arguments, bound = DIRECT[name]
    x = arguments.astype(np.float32)
    function = getattr(jax.lax, name)
    got = np.asarray(jax.jit(function)(jax.device_put(x, xpu)), np.float64)
    exact = reference(x.astype(np.float64))
    _, exponent = np.frexp(exact)
    unit = np.ldexp(1.0, np.maximum(exponent - 24, -149))
    assert (np.abs(got - exact) / unit).max() <= bound
    with jax.default_device(xpu):
        slope = jax.jit(jax.vmap(jax.grad(function)))(x[:5] / 100)
        step = (function(x[:5] / 100 + 1e-3) - function(x[:5] / 100 - 1e-3)) / 2e-3
        np.testing.assert_allclose(slope, step, rtol=1e-2)
        if name in ("exp2", "logistic"):
            z = jax.jit(function)(np.complex64(0.5 + 0.25j))
            np.testing.assert_allclose(z, reference(np.complex128(0.5 + 0.25j)), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", lowerings.OF_COMPLEX)
def test_functions_of_complex_numbers_are_ours(name: str, dtype: Any, xpu: Any) -> None:
    """C99's signs of zeros, values of infinities and digits of small numbers, which the client's expansions lack."""
    z = np.array(
        # -2 - 0j is this number from Python 3.14 on only.
        [
            complex(-2, -0.0),
            -2 + 0j,
            1e-9 + 1e-9j,
            complex(-0.0, 3),
            complex(math.inf, 0),
            89 + 1e-3j,
        ]
    )
    function = getattr(jax.lax, name)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        x = z.astype(dtype)
        got = np.asarray(jax.jit(function)(jax.device_put(x, xpu)))
        wide = x.astype(np.clongdouble)
        others = {
            # NumPy's quotient by inf + 0i is +0i; by finite numbers, and here, it is -0i.
            "rsqrt": lambda z: np.where(np.isposinf(z.real), np.conj(1 / z), 1 / np.sqrt(z)),
            "logistic": lambda z: 1 / (1 + np.exp(-z)),
        }
        # Of conjugate numbers each of these functions has conjugate values. NumPy's quotients lose that for -0i.
        below = np.signbit(wide.imag)
        wide = np.where(below, np.conj(wide), wide)
        exact = (others.get(name) or getattr(np, name))(wide)
        if name == "log1p":  # NumPy's is log(1 + z)
            exact = np.where(np.abs(wide) < 1e-8, wide - wide * wide / 2, exact)
        exact = np.where(below, np.conj(exact), exact).astype(dtype)
        slope = jax.jit(jax.vmap(jax.grad(function, holomorphic=True)))(x[:3])
    assert got.dtype == dtype
    for part in ("real", "imag"):
        mine, theirs = getattr(got, part), getattr(exact, part)
        limit = np.where(np.isfinite(theirs), 5 * np.finfo(dtype).eps * np.abs(theirs), 0)
        right = (
            (mine == theirs)
            | np.isclose(mine, theirs, 0, limit)
            | np.isnan(theirs) & np.isnan(mine)
        )
        right &= (np.signbit(mine) == np.signbit(theirs)) | np.isnan(theirs)
        assert right.all(), (part, mine, theirs)
    assert np.isfinite(slope).all()


def test_rules_of_other_packages_are_registered_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's function is replaced by one that follows the CPU's rules: it takes the same arguments."""
    primitive = jax.extend.core.Primitive("tripont_test_registration")
    # The rule ends with the test: test_known_gaps.py compares all rules of the process.
    rules = mlir._platform_specific_lowerings
    monkeypatch.setitem(rules, "cpu", dict(rules["cpu"]))
    mlir.register_lowering(primitive, lambda context, x: [x], "cpu", True, cacheable=False)
    with pytest.raises(NotImplementedError, match="unknown platform"):
        mlir.register_lowering(prim=primitive, rule=None, platform="no_such_platform")


@pytest.mark.parametrize("name", lowerings.COMPOSITES)
def test_half_precision_is_not_expanded_either(name: str) -> None:
    """Expanded, bfloat16's functions round at each step."""
    primitive, _ = compat.portable_lowering(name)
    count = {"igamma": 2, "igammac": 2, "igamma_grad_a": 2, "zeta": 2, "polygamma": 2}.get(name, 1)
    count = 3 if name == "regularized_incomplete_beta" else count
    operands = [jax.ShapeDtypeStruct((3,), jnp.bfloat16)] * count
    text = jax.jit(primitive.bind).trace(*operands).lower(lowering_platforms=(PLATFORM,)).as_text()
    assert f'"{lowerings.COMPOSITES[name]}"' in text
