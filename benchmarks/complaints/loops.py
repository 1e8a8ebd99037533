"""Loops of many small operations: what became slower with XLA:CPU's thunk runtime (jaxlib 0.4.32)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..rivals.program import Registry

PROGRAMS = Registry("loops", __name__)


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


SIDE = 256


def differences(gradient: bool) -> Callable[..., Any]:
    """Second differences along three dimensions, by slices."""
    import jax
    import jax.numpy as jnp

    def laplacian(x: Any) -> Any:
        inner = (slice(1, -1),) * 3
        total = -6.0 * x[inner]
        for axis in range(3):
            for start, stop in ((0, -2), (2, None)):
                part = list(inner)
                part[axis] = slice(start, stop)
                total = total + x[tuple(part)]
        return total

    if gradient:
        return jax.grad(lambda x: 0.5 * jnp.sum(laplacian(x) ** 2))
    return laplacian


def differences_numpy() -> Callable[..., Any]:
    def laplacian(x: np.ndarray) -> np.ndarray:
        c = x[1:-1, 1:-1, 1:-1]
        return (
            x[:-2, 1:-1, 1:-1]
            + x[2:, 1:-1, 1:-1]
            + x[1:-1, :-2, 1:-1]
            + x[1:-1, 2:, 1:-1]
            + x[1:-1, 1:-1, :-2]
            + x[1:-1, 1:-1, 2:]
            - np.float32(6) * c
        )

    return laplacian


for gradient in (False, True):
    PROGRAMS.add(
        "finite_differences" + "_gradient" * gradient,
        f"second differences on {SIDE}^3 by slices"
        + (", gradient of their squares" if gradient else ""),
        lambda r: (normal(r, SIDE, SIDE, SIDE),),
        jax=lambda gradient=gradient: differences(gradient),
        **({} if gradient else {"numpy": differences_numpy}),
        bytes=8.0 * SIDE**3,
        flops=7.0 * SIDE**3 * (1 + 2 * gradient),
        terms=49 if gradient else 7,
        source="jax-ml/jax#37465",
    )

LEAVES, STEPS = 60, 614


def scalars() -> Callable[..., Any]:
    """The gradient of a scan whose carry is a tuple of scalars that act on their neighbours."""
    import jax
    import jax.numpy as jnp

    def loss(start: Any, rates: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            new = tuple(
                c + 0.01 * (jnp.tanh(carry[i - 1]) * rates[i] - c) for i, c in enumerate(carry)
            )
            return new, new[0]

        carry, outputs = jax.lax.scan(step, tuple(start), None, length=STEPS)
        return sum(c**2 for c in carry) + (outputs**2).sum()

    return jax.grad(loss, argnums=(0, 1))


PROGRAMS.add(
    "scan_scalars_gradient",
    f"gradient of a scan of {STEPS} steps over {LEAVES} scalars",
    lambda r: (normal(r, LEAVES), 1 + 0.1 * normal(r, LEAVES)),
    jax=scalars,
    terms=STEPS,
    flops=STEPS * LEAVES * 20.0,
    source="jax-ml/jax#40150",
)

INVENTORY = 50_000


def inventory() -> Callable[..., Any]:
    """An (s, S) inventory: every step writes one element of the path."""
    import jax
    import jax.numpy as jnp

    def path(demand: Any) -> Any:
        def step(t: Any, x: Any) -> Any:
            stock = x[t]
            filled = jnp.where(stock <= 10.0, 100.0, stock)
            return x.at[t + 1].set(jnp.maximum(filled - demand[t], 0.0))

        return jax.lax.fori_loop(0, INVENTORY, step, jnp.full(INVENTORY + 1, 50.0, demand.dtype))

    return path


def inventory_numpy() -> Callable[..., Any]:
    def path(demand: np.ndarray) -> np.ndarray:
        x, stock = [50.0], 50.0
        for d in demand.tolist():
            stock = max((100.0 if stock <= 10.0 else stock) - d, 0.0)
            x.append(stock)
        return np.float32(x)

    return path


PROGRAMS.add(
    "inventory_loop",
    f"{INVENTORY:,} steps, each writes one element of an array of as many",
    lambda r: (
        (r.integers(0, 256, INVENTORY) / 16).astype(np.float32),
    ),  # exact in every precision
    jax=inventory,
    numpy=inventory_numpy,
    bytes=8.0 * INVENTORY,
    terms=2,
    source="jax-ml/jax#40101",
)

BUFFER, WINDOW = 100_000, 8


def while_updates() -> Callable[..., Any]:
    """A while loop that reads the last window of a buffer and writes behind it."""
    import jax
    import jax.numpy as jnp

    def fill(start: Any) -> Any:
        buffer = jnp.zeros(BUFFER, start.dtype).at[:WINDOW].set(start)

        def step(state: Any) -> Any:
            at, array = state
            window = jax.lax.dynamic_slice(array, (at - WINDOW,), (WINDOW,))
            return at + 1, jax.lax.dynamic_update_slice(
                array, 0.5 * (window.mean(keepdims=True) + window[:1]), (at,)
            )

        return jax.lax.while_loop(lambda s: s[0] < 20_000, step, (WINDOW, buffer))[1]

    return fill


PROGRAMS.add(
    "while_update",
    f"20,000 steps of a while loop, each writes one element of {BUFFER:,}",
    lambda r: (r.uniform(0.5, 1, WINDOW).astype(np.float32) * 0.1,),
    jax=while_updates,
    terms=8,
    source="jax-ml/jax#31284",
)


def kalman() -> Callable[..., Any]:
    """A scan with 3x3 matrices of float64 in its carry, as tinygp's quasiseparable kernels have."""
    import jax
    import jax.numpy as jnp

    def loss(a: Any, q: Any, y: Any) -> Any:
        def step(carry: Any, value: Any) -> Any:
            mean, covariance = carry
            mean, covariance = a @ mean, a @ covariance @ a.T + q
            variance = covariance[0, 0] + 0.1
            gain = covariance[:, 0] / variance
            error = value - mean[0]
            return (
                mean + gain * error,
                covariance - jnp.outer(gain, covariance[0]),
            ), error**2 / variance + jnp.log(variance)

        return jax.lax.scan(step, (jnp.zeros(3, y.dtype), jnp.eye(3, dtype=y.dtype)), y)[1].sum()

    return jax.value_and_grad(loss, argnums=(0, 1))


def kalman_inputs(random: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
    a = np.array([[0.9, 0.1, 0], [-0.1, 0.9, 0.1], [0, -0.1, 0.8]])
    return tuple(np.asarray(v, dtype) for v in (a, 0.1 * np.eye(3), random.normal(size=2000)))


for bits in (32, 64):
    PROGRAMS.add(
        f"scan_3x3_f{bits}",
        f"Kalman filter of 2,000 steps with 3x3 matrices of float{bits}, and its gradient",
        lambda r, bits=bits: kalman_inputs(r, f"float{bits}"),
        jax=kalman,
        terms=2000,
        flops=2000 * 3 * 150.0,
        unit=f"f{bits}",
        x64=bits == 64,
        source="jax-ml/jax#36799",
    )


def riccati() -> Callable[..., Any]:
    """Model predictive control: gains by a backward recursion, a rollout, and the cost's gradient."""
    import jax
    import jax.numpy as jnp

    def cost(a: Any, b: Any, x0: Any) -> Any:
        q, r = jnp.eye(6, dtype=a.dtype), 0.1 * jnp.eye(2, dtype=a.dtype)

        def back(p: Any, _: Any) -> Any:
            gain = jnp.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
            return q + a.T @ p @ (a - b @ gain), gain

        _, gains = jax.lax.scan(back, q, None, length=100)

        def forward(x: Any, gain: Any) -> Any:
            u = -gain @ x
            return a @ x + b @ u, x @ x + 0.1 * u @ u

        return jax.lax.scan(forward, x0, gains, reverse=True)[1].sum()

    return jax.value_and_grad(cost, argnums=(0, 1))


PROGRAMS.add(
    "control",
    "linear quadratic control, 100 steps of 6 states and 2 inputs, cost and gradient",
    lambda r: (
        (0.9 * np.eye(6) + 0.05 * r.normal(size=(6, 6))).astype(np.float32),
        normal(r, 6, 2),
        normal(r, 6),
    ),
    jax=riccati,
    terms=600,
    source="jax-ml/jax#26021",
)


def orbits() -> Callable[..., Any]:
    """Three bodies by a symplectic integrator in float64; the gradient of transit times' stand-in by masses and
    start.
    """
    import jax
    import jax.numpy as jnp

    def loss(masses: Any, x: Any, v: Any) -> Any:
        def acceleration(x: Any) -> Any:
            apart = x[None] - x[:, None]
            cubed = (jnp.sum(apart**2, -1) + jnp.eye(3)) ** -1.5
            return jnp.sum(masses[None, :, None] * apart * cubed[..., None], 1)

        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v + 0.005 * acceleration(x)
            x = x + 0.01 * v
            v = v + 0.005 * acceleration(x)
            return (x, v), x[1, 0] - x[0, 0]

        return (jax.lax.scan(step, (x, v), None, length=1000)[1] ** 2).mean()

    return jax.value_and_grad(loss, argnums=(0, 1, 2))


PROGRAMS.add(
    "orbits_gradient",
    "three bodies, 1,000 steps in float64, gradient",
    lambda r: (
        np.array([1.0, 1e-3, 1e-3]),
        np.array([[0.0, 0, 0], [1, 0, 0], [0, 1.6, 0]]),
        np.array([[0.0, 0, 0], [0, 1, 0], [-0.79, 0, 0.01]]),
    ),
    jax=orbits,
    terms=10_000,
    flops=1000 * 3 * 150.0,
    unit="f64",
    x64=True,
    source="kemasuda/jnkepler#18",
)


def convolution_in_loop(steps: int) -> Callable[..., Any]:
    import jax

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
        )

    if steps == 1:
        return conv
    return lambda x, w: jax.lax.fori_loop(0, steps, lambda _, y: jax.numpy.tanh(conv(y, w)), x)


for steps in (1, 20):
    PROGRAMS.add(
        "convolution" + "_in_loop" * (steps > 1),
        "5x5 convolution of 8x16x64x64" + (f", {steps} times in a loop" if steps > 1 else ", once"),
        lambda r: (normal(r, 8, 16, 64, 64), 0.05 * normal(r, 16, 16, 5, 5)),
        jax=lambda steps=steps: convolution_in_loop(steps),
        terms=400 * steps,
        flops=2.0 * steps * 8 * 64 * 64 * 16 * 16 * 25,
        source="jax-ml/jax#12868",
    )
