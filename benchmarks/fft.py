"""Fourier transforms beside SciPy's (pocketfft), XLA:CPU's (DUCC) and PyTorch's (oneMKL).

python -m benchmarks.fft                      all shapes, one thread
python -m benchmarks.fft --threads 2          likewise, two threads
python -m benchmarks.fft prime 2d             those whose names contain one of the words
python -m benchmarks.fft --ours --torch       beside SciPy and PyTorch, without XLA:CPU
python -m benchmarks.fft --check              errors against NumPy in f64 (f32) or longdouble (f64), beside SciPy's
python -m benchmarks.fft --markdown           the rows of the table in docs/fft.md
python -m benchmarks.fft --clock cpu          processor time of the process, on machines that do other things too

All run in one process, in turns, on the same threads; times are minima of a call, and the ratio is that of the faster
one of the others (above 1: ours is faster). Compile times are those of a first call of each.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

# Of processor time that are counted at a time: Linux adds what another thread takes some milliseconds late.
PROCESSOR_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Transform:
    """``function``: its name in ``scipy.fft``. ``rank``: how many of the last dimensions are transformed.

    ``dims``: those of the array that is complex and whole (``fft``, ``ifft``) or real (``rfft``, ``irfft``). ``axis``:
    the transformed dimension, if it is one and not the last.
    """

    function: str
    dims: tuple[int, ...]
    dtype: str = "f32"
    rank: int = 1
    axis: int = -1

    @property
    def axes(self) -> tuple[int, ...]:
        return (self.axis,) if self.rank == 1 else tuple(range(-self.rank, 0))

    @property
    def name(self) -> str:
        kind = "prime-" if self.is_prime else ""
        rank = f"{self.rank}d-" if self.rank > 1 else ""
        strided = f"-axis{self.axis}" if self.axis != -1 else ""
        return f"{kind}{rank}{self.function}-{'x'.join(map(str, self.dims))}{strided}-{self.dtype}"

    @property
    def is_prime(self) -> bool:
        n = self.dims[self.axis]
        return self.rank == 1 and n > 13 and all(n % d for d in range(2, math.isqrt(n) + 1))

    def operand(self) -> np.ndarray:
        random = np.random.default_rng(0)
        real, cplx = ("float32", "complex64") if self.dtype == "f32" else ("float64", "complex128")
        if self.function == "rfft":
            return random.standard_normal(self.dims).astype(real)
        dims = list(self.dims)
        if self.function == "irfft":
            dims[self.axis] = dims[self.axis] // 2 + 1
        return (random.standard_normal(dims) + 1j * random.standard_normal(dims)).astype(cplx)

    def call(self, module: Any, **more: Any) -> Callable[[Any], Any]:
        """The function of ``scipy.fft``, ``numpy.fft``, ``jax.numpy.fft`` or ``torch.fft``."""
        one, several = ("dim", "dim") if module.__name__ == "torch.fft" else ("axis", "axes")
        if self.rank == 1:
            function = getattr(module, self.function)
            more[one] = self.axis
            if self.function == "irfft":
                more["n"] = self.dims[self.axis]
        else:
            function = getattr(module, self.function + "n")
            more[several] = self.axes
            if self.function == "irfft":
                more["s"] = self.dims[-self.rank :]
        return lambda x: function(x, **more)


TRANSFORMS: Final = (
    # One row.
    *(Transform("fft", (n,)) for n in (16, 64, 256, 360, 1000, 1024, 4096, 10000, 65536, 1 << 20)),
    *(Transform("fft", (n,), "f64") for n in (64, 1024, 1000, 16384)),
    *(Transform("rfft", (n,)) for n in (256, 1000, 4096, 44100, 1 << 18)),
    Transform("irfft", (4096,)),
    Transform("rfft", (1024,), "f64"),
    # Rows of all sizes.
    *(Transform("fft", (1 << 16 >> (n.bit_length() - 1), n)) for n in (2, 3, 5, 8, 12, 15, 16)),
    *(Transform("fft", (256, n)) for n in (32, 60, 100, 128, 243, 343, 360, 512, 1000, 1024, 1331)),
    Transform("fft", (1024, 1024)),
    Transform("fft", (64, 4096)),
    Transform("ifft", (256, 625)),
    *(Transform("fft", (256, n), "f64") for n in (16, 100, 360, 1024)),
    *(Transform("rfft", (256, n)) for n in (64, 81, 360, 512, 1000)),
    Transform("irfft", (256, 360)),
    Transform("rfft", (1000, 1000), "f64"),
    # Primes.
    *(Transform("fft", (256, n)) for n in (17, 31, 37, 101, 1009)),
    Transform("fft", (10007,)),
    Transform("fft", (64, 1009), "f64"),
    Transform("rfft", (64, 1013)),
    # Another dimension than the last.
    Transform("fft", (360, 256), axis=0),
    Transform("fft", (32, 64, 48), axis=1),
    *(
        Transform("fft", dims, axis=0)
        for dims in ((64, 2048), (2048, 64), (512, 512), (1024, 1024))
    ),
    *(Transform("fft", dims, "f64", axis=0) for dims in ((1000, 1000), (2048, 256))),
    Transform("ifft", (256, 256), "f64", axis=0),
    Transform("rfft", (360, 256), axis=0),
    Transform("rfft", (32, 64, 48), axis=1),
    *(Transform(function, (512, 512), axis=0) for function in ("rfft", "irfft")),
    Transform("rfft", (1024, 1024), "f64", axis=0),
    Transform("irfft", (1000, 1000), "f64", axis=0),
    # Two and three dimensions.
    Transform("fft", (256, 256), rank=2),
    Transform("rfft", (256, 256), rank=2),
    Transform("irfft", (256, 256), rank=2),
    Transform("rfft", (16, 360, 360), rank=2),
    Transform("irfft", (16, 360, 360), rank=2),
    Transform("rfft", (16, 256, 256), rank=2),
    Transform("irfft", (16, 256, 256), rank=2),
    Transform("fft", (64, 32, 32), rank=2),
    Transform("fft", (64, 64, 64), rank=3),
    Transform("rfft", (64, 64, 64), rank=3),
    Transform("fft", (100, 100, 100), rank=3),
    Transform("fft", (200, 200, 200), rank=3),
    Transform("rfft", (256, 256), "f64", rank=2),
)


def error(got: np.ndarray, want: np.ndarray) -> float:
    """The root mean square of the error, relative to that of the value."""
    difference = np.abs(np.asarray(got).astype(want.dtype) - want)
    return float(np.sqrt((difference**2).mean() / (np.abs(want) ** 2).mean()))


def interleave(
    steps: Sequence[Callable[[], Any]],
    seconds: float,
    clock: Callable[[], float],
    pause: float = 0.0,
    counted: float = 0.002,
) -> list[float]:
    """The least seconds of a call of each step; ``pause``: seconds in which the threads of the last one fall asleep;
    ``counted``: seconds that are counted at a time.
    """

    def timed(step: Callable[[], Any], repeats: int) -> float:
        start = clock()
        for _ in range(repeats):
            step()
        return (clock() - start) / repeats

    repeats = [max(1, int(counted / max(min(timed(s, 1) for _ in range(3)), 1e-7))) for s in steps]
    best = [math.inf] * len(steps)
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < 3:
        rounds += 1
        for n, step in enumerate(steps):
            time.sleep(pause)
            step()  # what the others evicted from the caches is not counted
            best[n] = min(best[n], timed(step, repeats[n]))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names; all transforms without")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=0.4, help="of measuring for each transform"
    )
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--check", action="store_true", help="errors instead of times")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--ours", action="store_true", help="without XLA:CPU")
    parser.add_argument("--torch", action="store_true", help="with PyTorch")
    options = parser.parse_args()
    from benchmarks.products import restrict

    os.environ.setdefault("TRIPONT_CACHE", "0")
    restrict("", options.threads)

    import jax
    import scipy.fft

    jax.config.update("jax_enable_x64", True)
    ours, theirs = jax.devices("xpu")[0], jax.devices("cpu")[0]
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    chosen = [t for t in TRANSFORMS if not options.names or any(w in t.name for w in options.names)]
    width = max(len(t.name) for t in chosen)
    logarithms = []
    for t in chosen:
        x = t.operand()
        steps, compiling, results = [], [], []
        for device in (ours,) if options.ours else (ours, theirs):
            argument = jax.device_put(x, device)
            compiled = jax.jit(t.call(jax.numpy.fft))
            start = time.perf_counter()
            results.append(np.asarray(compiled(argument)))
            compiling.append(1e3 * (time.perf_counter() - start))
            steps.append(lambda f=compiled, a=argument: jax.block_until_ready(f(a)))
        call = t.call(scipy.fft, workers=options.threads)
        steps.insert(1, lambda f=call, x=x: f(x))
        if options.torch:
            import torch

            torch.set_num_threads(options.threads)
            other, tensor = t.call(torch.fft), torch.from_numpy(x)
            steps.append(lambda f=other, x=tensor: f(x))
            results.append(other(tensor).numpy())
        if options.check:
            wide = x.astype(
                {"f4": "f8", "c8": "c16", "f8": "g", "c16": "G"}[x.dtype.str[1:]], copy=False
            )
            want = call(wide)
            figures = [error(r, want) for r in (results[0], call(x), *results[1:])]
            mark = "  <-" if figures[0] > figures[1] else ""
            print(f"{t.name:{width}}", *(f"{f:10.2e}" for f in figures), mark, flush=True)
            continue
        pause = 0.01 if options.torch and options.threads > 1 else 0.0
        counted = PROCESSOR_SECONDS if options.clock == "cpu" else 0.002
        best = interleave(steps, options.seconds, clock, pause, counted)
        ratio = min(best[1:]) / best[0]
        logarithms.append(math.log(ratio))
        times = [f"{1e6 * b:.1f}" for b in best]
        if options.markdown:
            print(f"| `{t.name}` | {' | '.join(times)} | {ratio:.2f} |", flush=True)
        else:
            compiled_in = " ".join(f"{c:6.0f}" for c in compiling)
            print(
                f"{t.name:{width}}",
                *(f"{s:>10}" for s in times),
                f"{ratio:7.2f}x   compile ms {compiled_in}",
                flush=True,
            )
    if logarithms:
        mean = math.exp(sum(logarithms) / len(logarithms))
        below = sum(v < math.log(0.95) for v in logarithms)
        print(f"{len(logarithms)} transforms, geometric mean {mean:.2f}, {below} below 0.95")
    return 0


if __name__ == "__main__":
    sys.exit(main())
