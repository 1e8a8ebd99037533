"""What the machine can do at best: bytes copied and operations computed in a second, measured beside the programs.

A limit is the fastest of several tries of code that does nothing else, on as many threads as the programs
have. Bandwidth depends on where the data is, so it is measured at several sizes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

COPY_BYTES: Final = (
    64 << 10,
    1 << 20,
    8 << 20,
    32 << 20,
    128 << 20,
)  # read and written, by all threads
PRODUCT: Final = 1536
TRIES: Final = 20


@dataclass(frozen=True)
class Limits:
    """``copied``: pairs of bytes that a program moves and bytes a second; ``flops``: element type -> operations
    a second.
    """

    copied: tuple[tuple[float, float], ...]
    flops: dict[str, float]

    def bandwidth(self, size: float) -> float:
        """Bytes a second of a program that moves ``size`` bytes; between two measured sizes the better one's."""
        nearer = 0.0
        for measured, rate in self.copied:
            if size == measured:
                return rate
            if size < measured:
                return max(nearer, rate)
            nearer = rate
        return nearer

    def filled(self, rates: dict[str, float]) -> Limits:
        """With the rates of other element types, and of these where something was faster than this module's tries."""
        units = self.flops.keys() | rates.keys()
        return Limits(
            self.copied, {u: max(self.flops.get(u, 0.0), rates.get(u, 0.0)) for u in sorted(units)}
        )

    def best(self, other: Limits) -> Limits:
        """The faster of two measurements: what disturbs a measurement makes it slower, never faster."""
        theirs = dict(other.copied)
        copied = tuple((size, max(rate, theirs.get(size, 0.0))) for size, rate in self.copied)
        return Limits(copied, {u: max(r, other.flops.get(u, 0.0)) for u, r in self.flops.items()})

    def least_seconds(self, size: float, flops: float, unit: str) -> float:
        """Below this no program that moves ``size`` bytes and computes ``flops`` can be; 0 where neither is known."""
        memory = size / self.bandwidth(size) if size else 0.0
        return max(memory, flops / self.flops.get(unit, math.inf) if flops else 0.0)


def fastest(step: Callable[[], Any], tries: int = TRIES) -> float:
    step()
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(threads: int) -> dict[str, Any]:
    """JSON of :class:`Limits`. NumPy has no fast products of integers and small floats: :meth:`Limits.filled`
    adds those.
    """
    copied = []
    with ThreadPoolExecutor(threads) as pool:
        for size in COPY_BYTES:
            part = size // 2 // threads
            pairs = [(np.ones(part, np.uint8), np.zeros(part, np.uint8)) for _ in range(threads)]
            repeats = max(1, (32 << 20) // size)

            def copy(pair: tuple[np.ndarray, np.ndarray], repeats: int = repeats) -> None:
                for _ in range(repeats):
                    np.copyto(pair[1], pair[0])

            seconds = fastest(lambda pairs=pairs, copy=copy: list(pool.map(copy, pairs)))
            copied.append((size, size * repeats / seconds))
    flops = {}
    for unit, dtype in (("f32", np.float32), ("f64", np.float64)):
        a = np.ones((PRODUCT, PRODUCT), dtype)
        flops[unit] = 2.0 * PRODUCT**3 / fastest(lambda a=a: a @ a)
    return {"copied": copied, "flops": flops}


def read(measured: dict[str, Any]) -> Limits:
    return Limits(
        tuple((float(s), float(r)) for s, r in measured["copied"]), dict(measured["flops"])
    )
