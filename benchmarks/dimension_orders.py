"""Programs whose small or wrong dimension lies last, and loops of small bodies over long vectors, beside XLA:CPU.

python -m benchmarks.dimension_orders                     all of them
python -m benchmarks.dimension_orders lorenz quaternion   those whose names contain one of the words
python -m benchmarks.dimension_orders --check             compare the results too
python -m benchmarks.dimension_orders --json out.json

Both devices run in one process, in turns, on the same threads. Figures are the minimum and the median of a call, and
the ratio of the minima (above 1: faster than XLA:CPU). diffrax is left out, by name, where it is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

os.environ.setdefault("TRIPONT_CACHE", "0")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.harness import interleave

SYSTEMS: Final = 4096


@dataclass(frozen=True)
class Program:
    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]


def uniform(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, dims).astype(np.float32)


def normal(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


# ------------------------------------------------------------------------------------------- systems of few states


def lorenz(y: Any, rho: Any = 28.0) -> Any:
    a, b, c = y
    return jnp.array([10.0 * (b - a), a * (rho - c) - b, a * b - 8.0 / 3.0 * c])


def runge_kutta(f: Callable[[Any], Any], y: Any, dt: float) -> Any:
    k1 = f(y)
    k2 = f(y + dt / 2 * k1)
    k3 = f(y + dt / 2 * k2)
    k4 = f(y + dt * k3)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def lorenz_fori() -> Program:
    """[4096, 3] by 500 steps of Runge and Kutta in a fori_loop under vmap."""

    def solve(y: Any) -> Any:
        return lax.fori_loop(0, 500, lambda _, y: runge_kutta(lorenz, y, 0.01), y)

    return Program(jax.vmap(solve), (uniform(SYSTEMS, 3),))


def lorenz_parameters() -> Program:
    """As lorenz_fori, with a parameter for each system."""

    def solve(y: Any, rho: Any) -> Any:
        def step(_: Any, y: Any) -> Any:
            return runge_kutta(lambda y: lorenz(y, rho), y, 0.01)

        return lax.fori_loop(0, 500, step, y)

    return Program(jax.vmap(solve), (uniform(SYSTEMS, 3), 28 * uniform(SYSTEMS, seed=1)))


def lorenz_scan() -> Program:
    """As lorenz_fori, but a scan that saves every state: [4096, 100, 3]."""

    def solve(y: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            y = runge_kutta(lorenz, y, 0.01)
            return y, y

        return lax.scan(step, y, None, length=100)[1]

    return Program(jax.vmap(solve), (uniform(SYSTEMS, 3),))


def lorenz_batch_last() -> Program:
    """Written by hand as [3, 4096]: what lorenz_fori could reach."""

    def solve(y: Any) -> Any:
        return lax.fori_loop(0, 500, lambda _, y: runge_kutta(lorenz, y, 0.01), y)

    return Program(solve, (uniform(3, SYSTEMS),))


def lorenz_adaptive() -> Program:
    """A while loop with a step size for each system, chosen by the difference of two orders, under vmap."""

    def solve(y: Any) -> Any:
        def unfinished(carry: Any) -> Any:
            return carry[1] < 1.0

        def step(carry: Any) -> Any:
            y, t, dt = carry
            k1 = lorenz(y)
            k2 = lorenz(y + dt * k1)
            error = jnp.sqrt(jnp.sum((dt / 2 * (k2 - k1)) ** 2)) + 1e-10
            accepted = error < 1e-3
            y = jnp.where(accepted, y + dt / 2 * (k1 + k2), y)
            t = jnp.where(accepted, t + dt, t)
            return (
                y,
                t,
                jnp.minimum(dt * jnp.clip(0.9 * jnp.sqrt(1e-3 / error), 0.2, 5.0), 1.0 - t + 1e-6),
            )

        return lax.while_loop(unfinished, step, (y, 0.0, 0.01))[0]

    return Program(jax.vmap(solve), (uniform(SYSTEMS, 3),))


def diffrax_adaptive() -> Program:
    """diffrax: Tsit5 with an adaptive step for each of 1024 systems."""
    import diffrax

    def solve(y: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: lorenz(y)),
            diffrax.Tsit5(),
            0.0,
            2.0,
            0.01,
            y,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
            max_steps=4096,
        ).ys[0]

    return Program(jax.vmap(solve), (uniform(1024, 3),))


def bodies() -> Program:
    """Four bodies in the plane, [2048, 4, 2], by leapfrog: differences of pairs, sums over small dimensions."""

    def acceleration(x: Any) -> Any:
        d = x[None] - x[:, None]
        r = jnp.sum(d * d, -1, keepdims=True) + 0.01
        return jnp.sum(d / (r * jnp.sqrt(r)), 1)

    def solve(x: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, v = state
            v = v + 0.005 * acceleration(x)
            return x + 0.01 * v, v + 0.005 * acceleration(x)

        return lax.fori_loop(0, 100, step, (x, v))

    return Program(jax.vmap(solve), (normal(2048, 4, 2), normal(2048, 4, 2, seed=1)))


# ---------------------------------------------------------------------------------------------- stacks of components


def quaternions() -> Program:
    """Products of quaternions [65536, 4], stacked on the last axis, one after the other."""

    def multiply(p: Any, q: Any) -> Any:
        a, b, c, d = (p[..., n] for n in range(4))
        e, f, g, h = (q[..., n] for n in range(4))
        return jnp.stack(
            [
                a * e - b * f - c * g - d * h,
                a * f + b * e + c * h - d * g,
                a * g - b * h + c * e + d * f,
                a * h + b * g - c * f + d * e,
            ],
            -1,
        )

    def chain(p: Any, q: Any) -> Any:
        for _ in range(4):
            p = multiply(p, q)
            p = p / jnp.linalg.norm(p, axis=-1, keepdims=True)
        return p

    return Program(chain, (normal(65536, 4), normal(65536, 4, seed=1)))


def rotations() -> Program:
    """Quaternions integrated in a loop: a state [16384, 4] by angular velocities [16384, 3]."""

    def turn(q: Any, w: Any) -> Any:
        def step(_: Any, q: Any) -> Any:
            a, b, c, d = q
            x, y, z = w
            q = q + 0.005 * jnp.stack(
                [
                    -b * x - c * y - d * z,
                    a * x + c * z - d * y,
                    a * y - b * z + d * x,
                    a * z + b * y - c * x,
                ]
            )
            return q / jnp.sqrt(jnp.sum(q * q))

        return lax.fori_loop(0, 100, step, q)

    return Program(jax.vmap(turn), (normal(16384, 4), normal(16384, 3, seed=1)))


# --------------------------------------------------------------------------------------------- places and pairs of them


def pair_forces() -> Program:
    """Gradient of the energy of 1024 particles, all pairs, in a periodic box: [1024, 1024, 3]."""

    def energy(x: Any) -> Any:
        d = x[:, None] - x[None]
        d = jnp.mod(d + 4.0, 8.0) - 4.0
        r = jnp.sum(d * d, -1) + jnp.eye(x.shape[0])
        return jnp.sum(jnp.where(r < 4.0, r**-6 - r**-3, 0.0))

    return Program(jax.grad(energy), (8 * uniform(1024, 3),))


def distances() -> Program:
    """A kernel density: 4096 places by 2048 others."""

    def density(x: Any, y: Any) -> Any:
        return jnp.exp(-jnp.sum((x[:, None] - y[None]) ** 2, -1)).sum(1)

    return Program(density, (normal(4096, 3), normal(2048, 3, seed=1)))


def cross_products() -> Program:
    """A hundred thousand cross products, normalised."""

    def cross(x: Any, y: Any) -> Any:
        z = jnp.cross(x, y)
        return z / jnp.linalg.norm(z, axis=-1, keepdims=True)

    return Program(cross, (normal(100_000, 3), normal(100_000, 3, seed=1)))


def small_matrices() -> Program:
    """[65536, 3, 3] by its transpose, and by [65536, 3]."""

    def strain(f: Any, x: Any) -> Any:
        c = jnp.einsum("nki,nkj->nij", f, f)
        trace = jnp.trace(c, axis1=1, axis2=2)
        return jnp.einsum("nij,nj->ni", c / trace[:, None, None], x)

    return Program(strain, (normal(65536, 3, 3), normal(65536, 3, seed=1)))


def softmax_of_four() -> Program:
    """Softmax over the last of [262144, 4]."""
    return Program(lambda x: jax.nn.softmax(x, -1), (normal(262144, 4),))


def colours() -> Program:
    """[8, 224, 224, 3]: bytes to normalised floats."""

    def normalise(x: Any, mean: Any, scale: Any) -> Any:
        return (x.astype(jnp.float32) / 255 - mean) * scale

    bytes_ = np.random.default_rng(0).integers(0, 256, (8, 224, 224, 3)).astype(np.uint8)
    return Program(normalise, (bytes_, uniform(3), uniform(3, seed=1)))


def luminance() -> Program:
    """[8, 224, 224, 3]: gamma, weighted sum over colours, and contrast of each colour to it."""

    def contrast(x: Any, weights: Any) -> Any:
        linear = x**2.2
        light = jnp.sum(linear * weights, -1, keepdims=True)
        return jnp.tanh(linear / (light + 0.1))

    return Program(contrast, (uniform(8, 224, 224, 3), uniform(3, seed=1)))


def qubits() -> Program:
    """The state of 20 qubits, f32[2, 2, ...], in another order, random and the same each time."""
    order = tuple(int(n) for n in np.random.default_rng(0).permutation(20))
    return Program(lambda x: jnp.transpose(x.reshape((2,) * 20), order), (normal(1 << 20),))


# ------------------------------------------------------------------------------------- channels and heads in the middle


def channels() -> Program:
    """NCHW [16, 64, 56, 56]: bias, norm over channels through NHWC and back, gelu, twice."""

    def layer(x: Any, bias: Any, scale: Any) -> Any:
        x = jnp.transpose(x + bias[:, None, None], (0, 2, 3, 1))
        mean = x.mean(-1, keepdims=True)
        variance = x.var(-1, keepdims=True)
        x = (x - mean) * lax.rsqrt(variance + 1e-6) * scale
        return jnp.transpose(jax.nn.gelu(x), (0, 3, 1, 2))

    def chain(x: Any, bias: Any, scale: Any) -> Any:
        return layer(layer(x, bias, scale), bias, scale)

    return Program(chain, (normal(16, 64, 56, 56), normal(64, seed=1), normal(64, seed=2)))


def heads() -> Program:
    """[4, 512, 8, 64]: heads before positions, norm and rotary positions for each, and back."""

    def rotate(x: Any, angles: Any) -> Any:
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate(
            [a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)],
            -1,
        )

    def chain(x: Any, angles: Any) -> Any:
        x = x.reshape(4, 512, 8, 64)
        x = jnp.transpose(x, (0, 2, 1, 3))
        x = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
        x = rotate(x, angles)
        return jnp.transpose(x, (0, 2, 1, 3)).reshape(4, 512, 512)

    return Program(chain, (normal(4, 512, 512), normal(512, 32, seed=1)))


def group_norm() -> Program:
    """[2, 32, 32, 320], as in a diffusion model: 32 groups of 10 features, and silu."""

    def normalise(x: Any, scale: Any, bias: Any) -> Any:
        parts = x.reshape(*x.shape[:-1], 32, -1)
        rest = parts - parts.mean((1, 2, 4), keepdims=True)
        factor = lax.rsqrt((rest**2).mean((1, 2, 4), keepdims=True) + 1e-5)
        return jax.nn.silu((rest * factor).reshape(x.shape) * scale + bias)

    return Program(normalise, (normal(2, 32, 32, 320), normal(320, seed=1), normal(320, seed=2)))


def group_norm_gradient() -> Program:
    """The gradients of group_norm."""
    program = group_norm()

    def loss(*arguments: Any) -> Any:
        return (program.function(*arguments) ** 2).sum()

    return Program(jax.grad(loss, (0, 1, 2)), program.arguments)


# --------------------------------------------------------------------------------- small bodies over long vectors


def logistic_map() -> Program:
    """200 steps of an elementwise map over a million elements."""

    def solve(x: Any, r: Any) -> Any:
        return lax.fori_loop(0, 200, lambda _, x: r * x * (1 - x), x)

    return Program(solve, (uniform(1 << 20) / 2, 3 * uniform(1 << 20, seed=1) / 1.5))


def mandelbrot() -> Program:
    """Escape times of [1024, 1024] points in 50 steps: three states, all elementwise."""

    def solve(re: Any, im: Any) -> Any:
        def step(n: Any, state: Any) -> Any:
            x, y, count = state
            inside = x * x + y * y < 4
            count = jnp.where(inside, n, count)
            x, y = jnp.where(inside, x * x - y * y + re, x), jnp.where(inside, 2 * x * y + im, y)
            return x, y, count

        start = jnp.zeros_like(re)
        return lax.fori_loop(0, 50, step, (start, start, jnp.zeros(re.shape, jnp.int32)))[2]

    return Program(solve, (3 * uniform(1024, 1024) - 3.5, 2 * uniform(1024, 1024, seed=1) - 2))


def heat() -> Program:
    """500 steps of the heat equation on 32768 points: neighbours are read, so blocks do not run ahead."""

    def solve(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))

        return lax.fori_loop(0, 500, step, u)

    return Program(solve, (uniform(32768),))


PROGRAMS: Final[dict[str, Callable[[], Program]]] = {
    f.__name__: f
    for f in (
        *(
            lorenz_fori,
            lorenz_parameters,
            lorenz_scan,
            lorenz_batch_last,
            lorenz_adaptive,
            diffrax_adaptive,
        ),
        *(bodies, quaternions, rotations, pair_forces, distances, cross_products, small_matrices),
        *(
            softmax_of_four,
            colours,
            luminance,
            qubits,
            channels,
            heads,
            group_norm,
            group_norm_gradient,
            logistic_map,
            mandelbrot,
            heat,
        ),
    )
}


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference of two results, relative to the largest number of the second."""
    worst = 0.0
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        worst = max(worst, float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names; all programs without")
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring for each program")
    parser.add_argument("--check", action="store_true", help="compare the results")
    parser.add_argument("--json", default="", help="file for the figures")
    options = parser.parse_args()
    ours, theirs = jax.devices("xpu")[0], jax.devices("cpu")[0]
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, {ours.device_kind}; ms, minimum / median"
    )
    figures: dict[str, dict[str, float]] = {}
    for name, make in PROGRAMS.items():
        if options.names and not any(word in name for word in options.names):
            continue
        try:
            program = make()
        except ImportError as error:
            print(f"{name:20} left out: {error}")
            continue
        steps, results = [], []
        for device in (ours, theirs):
            arguments = jax.device_put(program.arguments, device)
            compiled = jax.jit(program.function)
            results.append(compiled(*arguments))
            steps.append(lambda f=compiled, a=arguments: jax.block_until_ready(f(*a)))
        a, b = interleave(steps, options.seconds)
        ratio = min(b) / min(a)
        note = f"  difference {difference(*results):.1e}" if options.check else ""
        print(
            f"{name:20} {1e3 * min(a):9.3f} / {1e3 * statistics.median(a):9.3f}"
            f"   XLA:CPU {1e3 * min(b):9.3f} / {1e3 * statistics.median(b):9.3f}   {ratio:6.2f}x{note}",
            flush=True,
        )
        figures[name] = {"ours": min(a), "xla_cpu": min(b), "ratio": ratio}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
