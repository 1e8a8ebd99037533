"""Loops over the layers of a network, whose weights are stacked, beside XLA:CPU.

python -m benchmarks.layer_scans                 what ``smallest_view`` of Costs.thunks was measured with
python -m benchmarks.layer_scans f32 gradient --rows 1 16
python -m benchmarks.layer_scans --clock cpu     of processor time, on machines that do other things too

Both run in one process, in turns. Figures are the minimum of a call, in microseconds for each layer, and the ratio to
XLA:CPU (above 1: faster).
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
from jax import lax

from benchmarks.small_matrices import measure

HEADS: Final = 8
POSITIONS: Final = 1024  # of a cache


def layers(x: jax.Array, weights: jax.Array) -> jax.Array:
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


def dequantised(x: jax.Array, weights: jax.Array, scales: jax.Array) -> jax.Array:
    def step(x: jax.Array, layer: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        w, scale = layer
        return jnp.tanh((x @ w.astype(x.dtype)) * scale), None

    return lax.scan(step, x, (weights, scales))[0]


def gradient(x: jax.Array, weights: jax.Array) -> jax.Array:
    return jax.grad(lambda w: jnp.sum(layers(x, w) ** 2))(weights)


def decode(x: jax.Array, weights: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A row of each layer's keys is written, and all of them are read, as a language model does for a word."""

    def step(
        state: tuple[jax.Array, jax.Array, jax.Array], w: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], None]:
        x, keys, i = state
        row = (x @ w)[0].reshape(1, HEADS, 1, -1)
        keys = lax.dynamic_update_slice(keys, row, (i, 0, POSITIONS // 2, 0))
        scores = jax.nn.softmax(jnp.einsum("hd,htd->ht", row[0, :, 0], keys[i]))
        return (x + jnp.einsum("ht,htd->hd", scores, keys[i]).reshape(x.shape), keys, i + 1), None

    return lax.scan(step, (x, keys, jnp.int32(0)), weights)[0][:2]


def f32(rows: int, layers_: int, k: int) -> tuple[Callable[..., Any], list[Any]]:
    return layers, [_random(rows, k), _random(layers_, k, k)]


def bf16(rows: int, layers_: int, k: int) -> tuple[Callable[..., Any], list[Any]]:
    return layers, [a.astype(jnp.bfloat16) for a in (_random(rows, k), _random(layers_, k, k))]


def s8(rows: int, layers_: int, k: int) -> tuple[Callable[..., Any], list[Any]]:
    weights = np.random.default_rng(1).integers(-127, 128, (layers_, k, k), np.int8)
    return dequantised, [_random(rows, k), weights, _random(layers_, k) / 127]


def gradients(rows: int, layers_: int, k: int) -> tuple[Callable[..., Any], list[Any]]:
    return gradient, [_random(rows, k), _random(layers_, k, k)]


def cache(rows: int, layers_: int, k: int) -> tuple[Callable[..., Any], list[Any]]:
    keys = _random(layers_, HEADS, POSITIONS, k // HEADS)
    return decode, [_random(1, k), _random(layers_, k, k), keys]


def _random(*dims: int) -> Any:
    return np.random.default_rng(0).standard_normal(dims, np.float32) / np.float32(dims[-1] ** 0.5)


PROGRAMS: Final = {f.__name__: f for f in (f32, bf16, s8, gradients, cache)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PROGRAMS)}")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 16, 512])
    parser.add_argument("--size", type=int, nargs="*", default=[1024], help="of a layer's matrix")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring for each row")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    print(
        f"JAX {jax.__version__}, {len(os.sched_getaffinity(0))} threads, "
        f"{jax.devices('xpu')[0].device_kind}; us of {options.clock} time a layer, minima"
    )
    for name in options.names or PROGRAMS:
        for size in options.size:
            for rows in options.rows[:1] if name == "cache" else options.rows:
                function, arguments = PROGRAMS[name](rows, options.layers, size)
                least = measure(steps_of(function, arguments), clock, options.seconds)
                ours, theirs = (least[n] * 1e6 / options.layers for n in ("ours", "XLA:CPU"))
                print(
                    f"{name:10} {rows:4} x {size}  {ours:9.1f}  XLA:CPU {theirs:9.1f}"
                    f"  {theirs / ours:6.2f}",
                    flush=True,
                )
    return 0


def steps_of(function: Callable[..., Any], arguments: list[Any]) -> dict[str, Callable[[], object]]:
    """A call of the function on each device."""

    def on(platform: str) -> Callable[[], object]:
        placed = jax.device_put(arguments, jax.devices(platform)[0])
        compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(*placed))

    return {"ours": on("xpu"), "XLA:CPU": on("cpu")}


if __name__ == "__main__":
    sys.exit(main())
