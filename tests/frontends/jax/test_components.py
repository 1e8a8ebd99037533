"""Arrays whose last dimension has few elements: places, quaternions, small matrices, colours.

Sizes are past those from which on the compiler takes such dimensions out of a program, and do not fill vectors. The
reference is NumPy in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

N = 203
Array = np.ndarray[Any, Any]


def places(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def differences(_: Any, x: Any, y: Any) -> Any:
    return x[:, None] - y[None]


def distances(xp: Any, x: Any, y: Any) -> Any:
    return xp.sqrt((differences(xp, x, y) ** 2).sum(-1))


def forces(xp: Any, x: Any, y: Any) -> Any:
    """Sums over both points of each pair, in a periodic box, of those that are near."""
    d = differences(xp, x, y)
    d = xp.mod(d + 1.0, 2.0) - 1.0
    r = (d * d).sum(-1, keepdims=True) + 0.1
    f = xp.where(r < 1.0, d / (r * xp.sqrt(r)), 0.0)
    return f.sum(1), f.sum(0), f.sum((0, 1)), f.max((1, 2)), f.min(-1).sum(0)


def normalised_cross(xp: Any, x: Any, y: Any) -> Any:
    z = xp.cross(x, y)
    return z / xp.linalg.norm(z, axis=-1, keepdims=True)


def quaternion_product(xp: Any, p: Any, q: Any) -> Any:
    a, b, c, d = (p[..., n] for n in range(4))
    e, f, g, h = (q[..., n] for n in range(4))
    parts = [
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    ]
    product = xp.stack(parts, -1)
    return product / xp.sqrt((product**2).sum(-1, keepdims=True)), product[:, ::-1]


def small_products(xp: Any, a: Any, x: Any) -> Any:
    c = xp.einsum("nki,nkj->nij", a, a)
    return xp.einsum("nij,nj->ni", c / (c[:, 0, 0] + c[:, 1, 1] + 1)[:, None, None], x), c


def softmax(xp: Any, x: Any, _: Any) -> Any:
    e = xp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def in_a_loop(xp: Any, x: Any, v: Any) -> Any:
    """Positions and velocities as states, which stay whole."""

    def step(_: Any, state: Any) -> Any:
        x, v = state
        d = differences(xp, x, x)
        r = (d**2).sum(-1) + 0.5
        v = v + 0.01 / N * (d / r[..., None]).sum(1)
        return x + 0.01 * v, v

    if xp is jnp:
        return jax.lax.fori_loop(0, 3, step, (x, v))
    for n in range(3):
        x, v = step(n, (x, v))
    return x, v


def nearly(xp: Any, x: Any, y: Any) -> Any:
    """What is not taken apart: positions of extremes, order, running sums, rows by number, merged dimensions."""
    r = distances(xp, x, y)
    d = differences(xp, x, y)
    return (
        xp.argmin(r, 1),
        xp.argmax(d, -1),
        xp.sort(x, -1),
        xp.cumsum(d, -1)[:, :, 1],
        x[xp.argmax(r, 1)] * 2.0,
        (d * 2.0).reshape(x.shape[0], -1).sum(1),
        xp.concatenate([x, y * 2.0, r[:, :1]], -1),
    )


@pytest.mark.parametrize(
    ("program", "shapes"),
    [
        (distances, ((N, 3), (N + 7, 3))),
        (distances, ((N, 2), (N, 2))),
        (distances, ((N, 4), (N, 4))),
        (distances, ((N, 5), (N, 5))),
        (forces, ((N, 3), (N, 3))),
        (normalised_cross, ((20 * N, 3), (20 * N, 3))),
        (quaternion_product, ((20 * N, 4), (20 * N, 4))),
        (small_products, ((20 * N, 3, 3), (20 * N, 3))),
        (small_products, ((20 * N, 2, 2), (20 * N, 2))),
        (softmax, ((20 * N, 4), (1,))),
        (softmax, ((20 * N, 3), (1,))),
        (in_a_loop, ((N, 3), (N, 3))),
        (nearly, ((N, 3), (N, 3))),
    ],
    ids=lambda v: v.__name__ if callable(v) else "x".join(map(str, v[0])),
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_programs(program: Callable[..., Any], shapes: Any, dtype: type) -> None:
    arguments = [places(*dims, seed=n).astype(dtype) for n, dims in enumerate(shapes)]
    with jax.enable_x64(dtype is np.float64), np.errstate(all="ignore"):
        got = jax.tree.leaves(jax.jit(lambda *a: program(jnp, *a))(*arguments))
        exact = jax.tree.leaves(program(np, *(a.astype(np.float64) for a in arguments)))
    for ours, reference in zip(got, exact, strict=True):
        if reference.dtype.kind == "i":
            np.testing.assert_array_equal(ours, reference)
            continue
        assert ours.dtype == dtype
        # A term has at most 32 roundings (the quotient by a root of a sum), and N terms may cancel each other.
        bound = 32 * N * np.finfo(dtype).eps * max(1.0, np.abs(reference).max())
        np.testing.assert_allclose(ours, reference, rtol=0, atol=bound)


def test_gradients_of_pairs() -> None:
    """Sums in the other directions, by what the gradient makes of differences, components and stacks."""

    def energy(x: Any, weights: Any) -> Any:
        r = (differences(jnp, x, x) ** 2).sum(-1) + 1.0
        mixed = jnp.stack([x[:, 1], x[:, 2] * x[:, 0], x[:, 0]], -1) * weights
        return jnp.sum(jnp.sqrt(r)) / N + jnp.sum(mixed**2)

    x, weights = places(N, 3), places(3, seed=1)
    got = jax.jit(jax.grad(energy, (0, 1)))(x, weights)
    y, w = x.astype(np.float64), weights.astype(np.float64)
    d = differences(np, y, y)
    exact = 2 * (d / np.sqrt((d**2).sum(-1) + 1.0)[..., None]).sum(1) / N
    mixed = np.stack([y[:, 1], y[:, 2] * y[:, 0], y[:, 0]], -1)
    m = 2 * mixed * w**2
    exact += np.stack([m[:, 2] + m[:, 1] * y[:, 2], m[:, 0], m[:, 1] * y[:, 0]], -1)
    np.testing.assert_allclose(got[0], exact, rtol=0, atol=1e-4 * np.abs(exact).max())
    np.testing.assert_allclose(got[1], 2 * w * (mixed**2).sum(0), rtol=1e-4)
