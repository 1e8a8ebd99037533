"""Random numbers of JAX beside XLA:CPU: bits and distributions of both generators, permutations and choices.

python -m benchmarks.random_numbers                     all
python -m benchmarks.random_numbers normal rbg          those whose names contain one of the words
python -m benchmarks.random_numbers --clock cpu         of processor time, on machines that do other things too

Bits, permutations and choices must be equal to XLA:CPU's, and floats within 4 ulps of theirs (normal numbers within
1e-5); a program for which they are not is named "different". Figures are the minimum of a call, in microseconds.
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

COUNT: Final = 1 << 20
SHORT: Final = 1 << 10

Draw = Callable[[Any], Any]

DRAWS: Final[dict[str, Draw]] = {
    "bits": lambda k: jax.random.bits(k, (COUNT,)),
    "bits of 8": lambda k: jax.random.bits(k, (COUNT,), "uint8"),
    "bits of 1,024": lambda k: jax.random.bits(k, (SHORT,)),
    "uniform": lambda k: jax.random.uniform(k, (COUNT,)),
    "uniform bf16": lambda k: jax.random.uniform(k, (COUNT,), jnp.bfloat16),
    "uniform of 1,024": lambda k: jax.random.uniform(k, (SHORT,)),
    "normal": lambda k: jax.random.normal(k, (COUNT,)),
    "normal of 1,024": lambda k: jax.random.normal(k, (SHORT,)),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (COUNT,)),
    "randint": lambda k: jax.random.randint(k, (COUNT,), 0, 1000),
    "exponential": lambda k: jax.random.exponential(k, (COUNT,)),
    "gumbel": lambda k: jax.random.gumbel(k, (COUNT,)),
    "truncated normal": lambda k: jax.random.truncated_normal(k, -2.0, 2.0, (COUNT,)),
    "categorical": lambda k: jax.random.categorical(k, jnp.zeros((1024, 1024))),
    "choice": lambda k: jax.random.choice(k, 1000, (COUNT // 8,)),
    "permutation": lambda k: jax.random.permutation(k, COUNT // 8),
    "split": lambda k: jax.random.key_data(jax.random.split(k, COUNT // 8)),
    "vmapped normal": lambda k: jax.vmap(lambda key: jax.random.normal(key, (64,)))(
        jax.random.split(k, COUNT // 64)
    ),
    "gamma": lambda k: jax.random.gamma(k, 2.0, (COUNT // 64,)),
}


def agrees(ours: np.ndarray, others: np.ndarray) -> bool:
    if ours.dtype.kind in "iub":
        return bool((ours == others).all())
    return bool(
        np.allclose(ours.astype(np.float64), others.astype(np.float64), rtol=1e-5, atol=1e-5)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names, or threefry2x32 or rbg")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring for each row")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    device = jax.devices("xpu")[0]
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, {device.device_kind}; "
        f"us of {options.clock} time, minima"
    )
    for generator in ("threefry2x32", "rbg"):
        for name, draw in DRAWS.items():
            title = f"{generator}: {name}"
            if options.names and not any(word in title for word in options.names):
                continue
            compiled = jax.jit(
                lambda data, draw=draw, generator=generator: draw(
                    jax.random.wrap_key_data(data, impl=generator)
                )
            )
            data = np.asarray(jax.random.key_data(jax.random.key(3, impl=generator)))
            steps: dict[str, Callable[[], Any]] = {}
            results: list[np.ndarray] = []
            for label, platform in (("ours", "xpu"), ("XLA:CPU", "cpu")):
                placed = jax.device_put(data, jax.devices(platform)[0])
                steps[label] = lambda a=placed, f=compiled: jax.block_until_ready(f(a))
                results.append(np.asarray(steps[label]()))
            least = measure(steps, clock, options.seconds)
            ours, others = least["ours"], least["XLA:CPU"]
            note = "" if agrees(*results) else "   different"
            print(
                f"{title:32} {ours:9.0f}   XLA:CPU {others:9.0f}   {others / ours:6.2f}x{note}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
