"""Functions of the sums of short rows, such as powers of squared distances and logsumexp, beside XLA:CPU.

python -m benchmarks.short_rows                what ``own_loop`` and ``short_row`` of Costs.fusion were measured with
python -m benchmarks.short_rows power --rows 1000
python -m benchmarks.short_rows --clock cpu    of processor time, on machines that do other things too

Both run in one process, in turns. Figures are the minimum of a call, in microseconds, and the ratio to XLA:CPU (above
1: faster).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

os.environ.setdefault("TRIPONT_CACHE", "0")

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.small_matrices import measure

# Of rows between 1 and 2, along the last dimension.
FUNCTIONS: Final[dict[str, Callable[[jax.Array], jax.Array]]] = {
    "power": lambda x: (x * x).sum(-1) ** -1.5,
    "logsumexp": lambda x: jax.nn.logsumexp(x, -1),
    "sine": lambda x: jnp.sin((x * x).sum(-1)),
    "tanh": lambda x: jnp.tanh(x.mean(-1)),
    "norm": lambda x: jnp.sqrt((x * x).sum(-1)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(FUNCTIONS)}")
    parser.add_argument("--rows", type=int, nargs="*", default=[64, 1000, 20_000])
    parser.add_argument("--columns", type=int, nargs="*", default=[10, 64, 256, 512])
    parser.add_argument("--seconds", type=float, default=0.3, help="of measuring for each row")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, "
        f"{jax.devices('xpu')[0].device_kind}; us of {options.clock} time, minima"
    )
    numbers = np.random.default_rng(0)
    for name in options.names or FUNCTIONS:
        for dtype in (np.float32, np.float64):
            for rows in options.rows:
                for columns in options.columns:
                    x = (numbers.random((rows, columns)) + 1).astype(dtype)
                    steps = steps_of(FUNCTIONS[name], x)
                    least = measure(steps, clock, options.seconds)
                    ratio = least["XLA:CPU"] / least["ours"]
                    print(
                        f"{name:10} {np.dtype(dtype).name:8} {rows:6} x {columns:<4} {least['ours']:9.1f}   "
                        f"XLA:CPU {least['XLA:CPU']:9.1f}   {ratio:6.2f}x",
                        flush=True,
                    )
    return 0


def steps_of(
    function: Callable[[jax.Array], jax.Array], x: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """The steps of ours and of XLA:CPU."""
    compiled = jax.jit(function)
    steps: dict[str, Callable[[], Any]] = {}
    for name, platform in (("ours", "xpu"), ("XLA:CPU", "cpu")):
        placed = jax.device_put(x, jax.devices(platform)[0])
        steps[name] = lambda a=placed: jax.block_until_ready(compiled(a))
    return steps


if __name__ == "__main__":
    sys.exit(main())
