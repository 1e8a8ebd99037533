"""Solvers of partial differential equations on grids, one step or many in a loop, beside XLA:CPU.

python -m benchmarks.solvers                      all of them, of 1024x1024
python -m benchmarks.solvers wave --sizes 64 128  what ``alternated`` of Costs.thunks was measured with
python -m benchmarks.solvers --clock cpu          of processor time, on machines that do other things too

Both run in one process, in turns. Figures are the minimum for a step, in milliseconds, the ratio to XLA:CPU (above 1:
faster), and the rate of reading each field of the state once and writing it once, which no solver can do without.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

os.environ.setdefault("TRIPONT_CACHE", "0")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.layer_scans import steps_of
from benchmarks.products import measure

State = tuple[jax.Array, ...]
_STEP: Final = 1e-3  # of time


def _along(u: jax.Array, axis: int) -> jax.Array:
    return 0.5 * (jnp.roll(u, -1, axis) - jnp.roll(u, 1, axis))


def _laplacian(u: jax.Array) -> jax.Array:
    around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
    return around - 4 * u


def _moved(state: State, by: float, rates: State) -> State:
    return tuple([x + by * rate for x, rate in zip(state, rates, strict=True)])


def diffusion(state: State) -> State:
    (u,) = state
    return (u + 0.1 * _laplacian(u),)


def wave(state: State) -> State:
    """By the leapfrog method."""
    now, before = state
    return 2 * now - before + 0.1 * _laplacian(now), now


def _reaction(state: State) -> State:
    """The rates of Gray and Scott's reaction."""
    u, v = state
    made = u * v * v
    return 0.16 * _laplacian(u) - made + 0.035 * (1 - u), 0.08 * _laplacian(v) + made - 0.1 * v


def _shallow(state: State) -> State:
    """The rates of shallow water."""
    h, u, v = state
    rate_h = -(_along(h * u, 0) + _along(h * v, 1))
    rate_u = 0.01 * _laplacian(u) - (u * _along(u, 0) + v * _along(u, 1) + 9.8 * _along(h, 0))
    rate_v = 0.01 * _laplacian(v) - (u * _along(v, 0) + v * _along(v, 1) + 9.8 * _along(h, 1))
    return rate_h, rate_u, rate_v


def maxwell(state: State) -> State:
    """Electric and magnetic fields in turns, on a staggered grid."""
    e, x, y = state
    x = x - 0.5 * (jnp.roll(e, -1, 1) - e)
    y = y + 0.5 * (jnp.roll(e, -1, 0) - e)
    return e + 0.5 * ((y - jnp.roll(y, 1, 0)) - (x - jnp.roll(x, 1, 1))), x, y


Rates = Callable[[State], State]


def euler(rates: Rates, state: State) -> State:
    return _moved(state, _STEP, rates(state))


def midpoint(rates: Rates, state: State) -> State:
    return _moved(state, _STEP, rates(_moved(state, _STEP / 2, rates(state))))


def runge_kutta(rates: Rates, state: State) -> State:
    k1 = rates(state)
    k2 = rates(_moved(state, _STEP / 2, k1))
    k3 = rates(_moved(state, _STEP / 2, k2))
    k4 = rates(_moved(state, _STEP, k3))
    together = [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
    return _moved(state, _STEP / 6, tuple(together))


# The step, and how many fields the state has.
PROGRAMS: Final[dict[str, tuple[Callable[[State], State], int]]] = {
    "diffusion": (diffusion, 1),
    "wave": (wave, 2),
    "maxwell": (maxwell, 3),
    "reaction-euler": (partial(euler, _reaction), 2),
    "reaction-midpoint": (partial(midpoint, _reaction), 2),
    "reaction-runge-kutta": (partial(runge_kutta, _reaction), 2),
    "shallow-euler": (partial(euler, _shallow), 3),
    "shallow-midpoint": (partial(midpoint, _shallow), 3),
    "shallow-runge-kutta": (partial(runge_kutta, _shallow), 3),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PROGRAMS)}")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1024], help="rows of the grid")
    parser.add_argument("--steps", type=int, nargs="*", default=[1, 20], help="in a call")
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring for each row")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--ours", action="store_true", help="without XLA:CPU")
    options = parser.parse_args()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, "
        f"{jax.devices('xpu')[0].device_kind}; ms of {options.clock} time a step, minima"
    )
    for name in options.names or PROGRAMS:
        step, fields = PROGRAMS[name]
        for size in options.sizes:
            chances = np.random.default_rng(0)
            state = [1 + 0.01 * chances.random((size, size), np.float32) for _ in range(fields)]
            for count in options.steps:

                def function(*state: jax.Array, count: int = count, step: Rates = step) -> State:
                    if count == 1:
                        return step(state)
                    after: State = lax.fori_loop(0, count, lambda _, s: step(s), state)
                    return after

                calls = steps_of(function, state)
                if options.ours:
                    del calls["XLA:CPU"]
                least = measure(calls, clock, options.seconds)
                ours = least["ours"] * 1e3 / count
                rate = 2 * sum(field.nbytes for field in state) / ours / 1e6
                theirs = ""
                if not options.ours:
                    other = least["XLA:CPU"] * 1e3 / count
                    theirs = f"  XLA:CPU {other:9.3f}  {other / ours:6.2f}"
                print(
                    f"{name:20} {size:5} {count:4} steps  {ours:9.3f}{theirs}  {rate:6.1f} GB/s",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
