"""Batches of small matrices beside XLA:CPU, PyTorch and NumPy.

python -m benchmarks.small_matrices                      all operations and orders, f32
python -m benchmarks.small_matrices cholesky qr          those whose names contain one of the words
python -m benchmarks.small_matrices --orders 3,8 --dtype float64
python -m benchmarks.small_matrices --clock cpu          of processor time, on machines that do other things too
python -m benchmarks.small_matrices --markdown           a table for docs/linear-algebra.md
python -m benchmarks.small_matrices --batch 1 --orders 2,4,8,16,32,64,128,300,1000    one matrix, against SciPy too

A batch has 10,000 matrices up to order 8 and 1,000 above. All run in one process, in turns; figures are the minimum
of a call (of processor time: of the mean of calls that take 20 ms together), in microseconds, and the ratio to the best
of the others (above 1: faster than all of them). PyTorch is left out, by name, where it is not installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

os.environ.setdefault("TRIPONT_CACHE", "0")

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

from benchmarks.products import measure

# Of processor time that are counted at a time: Linux adds what another thread takes some milliseconds late, so that the
# shortest call by itself would be one of which a thread's part is missing.
PROCESSOR_SECONDS: Final = 0.02
ORDERS: Final = (2, 3, 4, 8, 16, 32, 64)
Function = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """``inputs(random, batch, n)``; ``torch`` names a function of PyTorch, of tensors."""

    inputs: Callable[[np.random.Generator, int, int], tuple[np.ndarray, ...]]
    jax: Function
    numpy: Function | None
    torch: Callable[[Any], Function]


def general(random: np.random.Generator, batch: int, n: int) -> tuple[np.ndarray, ...]:
    return (random.standard_normal((batch, n, n)) + 2 * np.eye(n),)


def positive(random: np.random.Generator, batch: int, n: int) -> tuple[np.ndarray, ...]:
    (a,) = general(random, batch, n)
    return (a @ np.swapaxes(a, -1, -2) / n + np.eye(n),)


def symmetric(random: np.random.Generator, batch: int, n: int) -> tuple[np.ndarray, ...]:
    (a,) = general(random, batch, n)
    return (a + np.swapaxes(a, -1, -2),)


def factor_and_sides(random: np.random.Generator, batch: int, n: int) -> tuple[np.ndarray, ...]:
    (a,) = positive(random, batch, n)
    return np.linalg.cholesky(a), random.standard_normal((batch, n, 1))


def general_and_sides(random: np.random.Generator, batch: int, n: int) -> tuple[np.ndarray, ...]:
    return (*general(random, batch, n), random.standard_normal((batch, n, 1)))


def positive_and_sides(random: np.random.Generator, batch: int, n: int) -> tuple[np.ndarray, ...]:
    return (*positive(random, batch, n), random.standard_normal((batch, n, 1)))


def _cho_solve(a: Any, b: Any) -> Any:
    return jsp.linalg.cho_solve((jnp.linalg.cholesky(a), True), b)


OPERATIONS: Final = {
    "cholesky": Operation(
        positive, jnp.linalg.cholesky, np.linalg.cholesky, lambda t: t.linalg.cholesky
    ),
    "triangular_solve": Operation(
        factor_and_sides,
        lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        None,
        lambda t: lambda a, b: t.linalg.solve_triangular(a, b, upper=False),
    ),
    "cho_solve": Operation(
        positive_and_sides,
        _cho_solve,
        None,
        lambda t: lambda a, b: t.cholesky_solve(b, t.linalg.cholesky(a)),
    ),
    "lu": Operation(general, jax.lax.linalg.lu, None, lambda t: t.linalg.lu_factor),
    "solve": Operation(
        general_and_sides, jnp.linalg.solve, np.linalg.solve, lambda t: t.linalg.solve
    ),
    "inverse": Operation(general, jnp.linalg.inv, np.linalg.inv, lambda t: t.linalg.inv),
    "determinant": Operation(general, jnp.linalg.det, np.linalg.det, lambda t: t.linalg.det),
    "qr": Operation(general, jnp.linalg.qr, np.linalg.qr, lambda t: t.linalg.qr),
    "eigh": Operation(symmetric, jnp.linalg.eigh, np.linalg.eigh, lambda t: t.linalg.eigh),
    "eigvalsh": Operation(
        symmetric, jnp.linalg.eigvalsh, np.linalg.eigvalsh, lambda t: t.linalg.eigvalsh
    ),
    "svd": Operation(general, jnp.linalg.svd, lambda a: np.linalg.svd(a), lambda t: t.linalg.svd),
    "svdvals": Operation(
        general,
        lambda a: jnp.linalg.svd(a, compute_uv=False),
        lambda a: np.linalg.svd(a, compute_uv=False),
        lambda t: t.linalg.svdvals,
    ),
}


# SciPy's functions of one matrix.
SCIPY: Final[dict[str, Callable[[Any], Function]]] = {
    "cholesky": lambda s: lambda a: s.cholesky(a, lower=True),
    "triangular_solve": lambda s: lambda a, b: s.solve_triangular(a, b, lower=True),
    "cho_solve": lambda s: lambda a, b: s.cho_solve(s.cho_factor(a, lower=True), b),
    "lu": lambda s: s.lu_factor,
    "solve": lambda s: s.solve,
    "inverse": lambda s: s.inv,
    "determinant": lambda s: s.det,
    "qr": lambda s: lambda a: s.qr(a, mode="economic"),
    "eigh": lambda s: s.eigh,
    "eigvalsh": lambda s: s.eigvalsh,
    "svd": lambda s: s.svd,
    "svdvals": lambda s: s.svdvals,
}


def rivals(name: str, arguments: tuple[np.ndarray, ...]) -> dict[str, Callable[[], Any]]:
    """The steps of ours and of each of the others, ours first."""
    steps: dict[str, Callable[[], Any]] = {}
    operation = OPERATIONS[name]
    compiled = jax.jit(operation.jax)
    for platform, device in (("ours", jax.devices("xpu")[0]), ("XLA:CPU", jax.devices("cpu")[0])):
        placed = jax.device_put(arguments, device)
        steps[platform] = lambda a=placed: jax.block_until_ready(compiled(*a))
    if operation.numpy is not None:
        numpy = operation.numpy
        steps["NumPy"] = lambda: numpy(*arguments)
    if len(arguments[0]) == 1:
        import scipy.linalg

        alone = [a[0] for a in arguments]
        one = SCIPY[name](scipy.linalg)
        steps["SciPy"] = lambda: one(*alone)
    try:
        import torch
    except ImportError:
        return steps
    tensors = [torch.from_numpy(a) for a in arguments]
    function = operation.torch(torch)
    steps["PyTorch"] = lambda: function(*tensors)
    return steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names; all operations without")
    parser.add_argument("--orders", default=",".join(map(str, ORDERS)))
    parser.add_argument("--batch", type=int, default=0, help="matrices; by the order without")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring for each row")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", options.dtype == "float64")
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    counted = PROCESSOR_SECONDS if options.clock == "cpu" else 0.0
    device = jax.devices("xpu")[0]
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, {device.device_kind}; "
        f"{options.dtype}, us of {options.clock} time, minima"
    )
    if options.markdown:
        print("| operation | order | ours | best of the others | ratio |\n|---|---|---|---|---|")
    for name, operation in OPERATIONS.items():
        if options.names and not any(word in name for word in options.names):
            continue
        for n in map(int, options.orders.split(",")):
            batch = options.batch or (10_000 if n <= 8 else 1_000)
            inputs = operation.inputs(np.random.default_rng(n), batch, n)
            arguments = tuple(np.ascontiguousarray(x, options.dtype) for x in inputs)
            steps = rivals(name, arguments)
            least = {
                key: 1e6 * value
                for key, value in measure(
                    steps, clock, options.seconds / len(steps), counted
                ).items()
            }
            ours = least.pop("ours")
            best = min(least, key=lambda key: least[key])
            if options.markdown:
                print(
                    f"| {name} | {n} | {ours:,.0f} | {least[best]:,.0f} {best} | {least[best] / ours:.2f} |"
                )
            else:
                others = "  ".join(f"{key} {value:9.0f}" for key, value in least.items())
                print(
                    f"{name:17} {n:3} {ours:9.0f}   {others}   {least[best] / ours:6.2f}x",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
