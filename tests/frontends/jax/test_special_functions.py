"""Special functions on xpu against SciPy in double precision, in units of the last place.

JAX decomposes most into elementary functions and loops, so most of the error is the formulas' own: the bound is twice
what JAX's CPU backend has on the same arguments, or 16 units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as js
import numpy as np
import pytest
from scipy import special as reference

POSITIVE = np.geomspace(1e-3, 1e3, 60)
REAL = np.concatenate([-POSITIVE[POSITIVE < 30] + 0.013, POSITIVE])
UNIT = np.linspace(0.01, 0.99, 60)
A, X = (v.ravel() for v in np.meshgrid(np.geomspace(0.05, 50, 8), np.geomspace(0.01, 80, 8)))

# Name: arguments.
ARGUMENTS: dict[str, tuple[np.ndarray[Any, Any], ...]] = {
    "gammaln": (POSITIVE,),
    "digamma": (POSITIVE,),
    "zeta": (A + 1.1, X),
    "gammainc": (A, X),
    "gammaincc": (A, X),
    "betainc": (A, X[::-1], np.resize(UNIT, A.shape)),
    "i0e": (REAL,),
    "i1e": (REAL,),
    "erfinv": (2 * UNIT - 1,),
    "erfc": (REAL[np.abs(REAL) < 9],),
    "ndtri": (UNIT,),
    "log_ndtr": (REAL[np.abs(REAL) < 25],),
    "exp1": (POSITIVE[POSITIVE < 50],),
    "spence": (POSITIVE,),
}


# Functions that are operations of ours, computed in double: no more than the last rounding.
OURS = {"gammainc", "gammaincc", "betainc", "zeta"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values(name: str, xpu: Any, cpu: Any) -> None:
    function: Callable[..., Any] = jax.jit(getattr(js, name))
    arguments = [jnp.asarray(a, jnp.float32) for a in ARGUMENTS[name]]
    exact = getattr(reference, name)(*(np.asarray(a, np.float64) for a in arguments))
    got = np.asarray(function(*(jax.device_put(a, xpu) for a in arguments)), np.float64)
    on_cpu = np.asarray(function(*(jax.device_put(a, cpu) for a in arguments)), np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(on_cpu))
    counted = (np.abs(exact) > np.finfo(np.float32).tiny) & np.isfinite(on_cpu)
    unit = np.finfo(np.float32).eps * np.abs(exact[counted])
    error = np.abs(got - exact)[counted] / unit
    error_on_cpu = np.abs(on_cpu - exact)[counted] / unit
    assert error.max() <= (1.01 if name in OURS else max(16.0, 2 * error_on_cpu.max()))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_polygamma(order: int, xpu: Any) -> None:
    x = jax.device_put(POSITIVE.astype(np.float32), xpu)
    got = np.asarray(jax.jit(lambda v: js.polygamma(order, v))(x))
    np.testing.assert_allclose(got, reference.polygamma(order, np.asarray(x, float)), rtol=2e-6)


def test_gradients_of_the_incomplete_gamma_function(xpu: Any, cpu: Any) -> None:
    def gradient(device: Any) -> Any:
        function = jax.jit(jax.vmap(jax.grad(js.gammainc, argnums=(0, 1))))
        return function(*(jax.device_put(v.astype(np.float32), device) for v in (A, X)))

    for got, want in zip(gradient(xpu), gradient(cpu), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("sample", "mean", "variance"),
    [
        (lambda key: jax.random.gamma(key, 2.5, (20000,)), 2.5, 2.5),
        (lambda key: jax.random.poisson(key, 7.0, (20000,)), 7.0, 7.0),
        (lambda key: jax.random.binomial(key, 20, 0.3, (20000,)), 6.0, 4.2),
        (lambda key: jax.random.beta(key, 2.0, 3.0, (20000,)), 0.4, 0.04),
    ],
    ids=["gamma", "poisson", "binomial", "beta"],
)
def test_random_numbers(sample: Callable[..., Any], mean: float, variance: float, xpu: Any) -> None:
    """Means of samples are within five standard errors."""
    with jax.default_device(xpu):
        values = np.asarray(jax.jit(sample)(jax.random.key(0)), np.float64)
    assert abs(values.mean() - mean) < 5 * np.sqrt(variance / values.size)
    assert abs(values.var() / variance - 1) < 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incomplete_gamma_at_the_ends(dtype: Any, xpu: Any) -> None:
    """NaN where the limit depends on the way there, as in SciPy from 1.16 on and JAX from 0.11 on."""
    ends = (-1.0, 0.0, 1.0, np.inf, np.nan)
    a, x = (v.ravel().astype(dtype) for v in np.meshgrid(ends, ends))
    lower = np.full(a.shape, np.nan)
    lower[(a > 0) & (x == 0)] = 0
    lower[(a == np.inf) & (x >= 0) & (x < np.inf)] = 0
    lower[(a == 0) & (x > 0)] = 1
    lower[(a >= 0) & (a < np.inf) & (x == np.inf)] = 1
    inside = (a == 1) & (x == 1)
    lower[inside] = 1 - np.exp(-1)
    with jax.enable_x64(True), jax.default_device(xpu):
        for name, wanted in (("gammainc", lower), ("gammaincc", 1 - lower)):
            given = np.asarray(jax.jit(getattr(js, name))(a, x))
            np.testing.assert_allclose(given, wanted, rtol=4 * np.finfo(dtype).eps, err_msg=name)
