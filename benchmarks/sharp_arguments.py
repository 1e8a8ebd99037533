"""Times of elementary functions by the size of their arguments: where denormal numbers cost, and how much.

python -m benchmarks.sharp_arguments              the table of docs/cpus.md
python -m benchmarks.sharp_arguments gelu mish    functions by words in their names

Arguments are s * x with x normal, for several s. tripont and JAX's own CPU backend take turns in one process on one
core; a figure is the least processor time of a call, in ns an element, tripont's / XLA:CPU's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

Function = Callable[[Any], Any]

SCALES: Final = (1, 10, 50, 100)
COUNT: Final = 8192
SECONDS: Final = 0.5


def functions() -> dict[str, Function]:
    import jax
    import jax.numpy as jnp

    def rows(function: Function) -> Function:
        return lambda x: function(x.reshape(-1, 256))

    def gradient(function: Function) -> Function:
        return jax.grad(lambda x: function(x).sum())

    def weighted(x: Any) -> Any:
        return jax.nn.softmax(x) * jnp.arange(256.0)

    def exact_gelu(x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    return {
        "`softmax`, rows of 256": rows(jax.nn.softmax),
        "`sigmoid`": jax.nn.sigmoid,
        "`silu`": jax.nn.silu,
        "`gelu`, exact": exact_gelu,
        "`mish`": jax.nn.mish,
        "`softplus`": jax.nn.softplus,
        "`log_sigmoid`": jax.nn.log_sigmoid,
        "`logaddexp`": lambda x: jnp.logaddexp(x, x[::-1]),
        "gradient of `softmax`": gradient(rows(weighted)),
        "gradient of `sigmoid`": gradient(jax.nn.sigmoid),
        "gradient of `gelu`, exact": gradient(exact_gelu),
        "gradient of `norm.pdf`": gradient(jax.scipy.stats.norm.pdf),
    }


def _run(function: Function, argument: Any) -> None:
    function(argument).block_until_ready()


def measure(function: Function, x: Any) -> list[float]:
    """The least time of a call by each device."""
    import jax

    calls = []
    for device in ("xpu", "cpu"):
        argument = jax.device_put(x, jax.devices(device)[0])
        call = partial(_run, jax.jit(function), argument)
        call()
        calls.append(call)
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            for _ in range(4):
                start = time.process_time_ns()
                call()
                best[i] = min(best[i], time.process_time_ns() - start)
    return best


def main(words: list[str]) -> None:
    x = np.random.default_rng(0).standard_normal(COUNT)
    print("| function |" + "".join(f" of {s} x |" for s in SCALES).replace(" 1 x", " x"))
    print("|---|" + "---|" * len(SCALES))
    for name, function in functions().items():
        if words and not any(word in name for word in words):
            continue
        cells = []
        for scale in SCALES:
            ours, theirs = measure(function, (scale * x).astype(np.float32))
            cells.append(f"{ours / COUNT:.2f} / {theirs / COUNT:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    # Before JAX counts the cores.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    main(sys.argv[1:])
