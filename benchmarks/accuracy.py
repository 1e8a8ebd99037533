"""Errors of the mathematical functions on each target, in units in the last place (ulps).

python -m benchmarks.accuracy             a table in Markdown
python -m benchmarks.accuracy exp log     those functions only

Every function is computed on host, on a SYCL device and by JAX's own CPU backend, for a million float32 and a quarter
of a million float64 arguments: random bit patterns (so that every exponent comes), and the ranges where functions bend.
The reference is NumPy (SciPy for erf and erfc) in the next wider format; for erf and erfc of float64 there is none that
is wider, so what is shown there is partly the reference's own error. Errors are those of normal numbers and results
(XLA takes denormal ones for 0); "differ" counts all results that are not the same bits on host and sycl.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy import special  # type: ignore[import-untyped]

from benchmarks.targets import TARGETS, environment

Array = np.ndarray[Any, Any]

# name: (the function of jax.lax or jax.numpy, its reference)
UNARY: Final[dict[str, tuple[str, Callable[[Array], Array]]]] = {
    "exp": ("lax.exp", np.exp),
    "exp2": ("lax.exp2", np.exp2),
    "expm1": ("lax.expm1", np.expm1),
    "log": ("lax.log", np.log),
    "log1p": ("lax.log1p", np.log1p),
    "sin": ("lax.sin", np.sin),
    "cos": ("lax.cos", np.cos),
    "tan": ("lax.tan", np.tan),
    "atan": ("lax.atan", np.arctan),
    "sinh": ("lax.sinh", np.sinh),
    "cosh": ("lax.cosh", np.cosh),
    "tanh": ("lax.tanh", np.tanh),
    "logistic": ("lax.logistic", lambda x: 1 / (1 + np.exp(-x))),
    "sqrt": ("lax.sqrt", np.sqrt),
    "rsqrt": ("lax.rsqrt", lambda x: 1 / np.sqrt(x)),
    "cbrt": ("lax.cbrt", np.cbrt),
    "erf": ("lax.erf", lambda x: special.erf(x.astype(np.float64))),
    "erfc": ("lax.erfc", lambda x: special.erfc(x.astype(np.float64))),
}
BINARY: Final[dict[str, tuple[str, Callable[[Array, Array], Array]]]] = {
    "div": ("lax.div", np.divide),
    "pow": ("lax.pow", np.power),
    "atan2": ("lax.atan2", np.arctan2),
}
WIDER: Final = {"float32": np.float64, "float64": np.longdouble}


def arguments(dtype: str, operands: int) -> list[Array]:
    """Arguments of a function: the same in every process."""
    rng = np.random.default_rng(7)
    count = (1 << 20) if dtype == "float32" else (1 << 18)
    bits: Any = np.uint32 if dtype == "float32" else np.uint64
    patterns = [
        rng.integers(0, np.iinfo(bits).max, count, bits).view(dtype) for _ in range(operands)
    ]
    ranges = [
        np.concatenate([rng.uniform(-r, r, count // 4) for r in (1.5, 20, 110)]).astype(dtype)
        for _ in range(operands)
    ]
    if operands == 2:
        ranges[0] = np.abs(ranges[0])
    return [np.concatenate(pair) for pair in zip(patterns, ranges, strict=True)]


def compute(platform: str, names: list[str], folder: Path) -> None:
    """What a child does: each function's results into a file."""
    import jax

    jax.config.update("jax_enable_x64", True)
    device = jax.devices(platform)[0]
    for dtype in WIDER:
        for name, (function, _) in (UNARY | BINARY).items():
            if name in names:
                xs = jax.device_put(arguments(dtype, 2 if name in BINARY else 1), device)
                result = jax.jit(getattr(jax.lax, function.removeprefix("lax.")))(*xs)
                np.save(folder / f"{name}.{dtype}.npy", np.asarray(result))


def ulps(got: Array, exact: Array, xs: list[Array]) -> float:
    """The largest error. Infinite if one is NaN or infinite and the other is not. ``xs``: the arguments."""
    tiny = np.finfo(got.dtype).tiny
    normal = (np.abs(exact) >= tiny) | (exact == 0) | np.isnan(exact)
    for x in xs:
        normal &= (np.abs(x) >= tiny) | (x == 0) | np.isnan(x)
    got, exact = got[normal], exact[normal]
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        special_value = ~np.isfinite(rounded) | ~np.isfinite(got)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        # A result on the other side of the largest number is as near as one can be.
        edge = np.isinf(got) != np.isinf(rounded)
        largest = np.finfo(got.dtype).max
        same |= edge & (np.minimum(np.abs(got), np.abs(rounded)) == largest)
        if np.any(special_value & ~same):
            return float("inf")
        finite = ~special_value
        errors = np.abs(got[finite].astype(exact.dtype) - exact[finite])
        return float(np.max(errors / np.spacing(np.abs(rounded[finite])).astype(exact.dtype)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; all without")
    parser.add_argument("--compute", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or [*UNARY, *BINARY]
    if options.compute:
        compute(options.compute[0], names, Path(options.compute[1]))
        return 0
    with tempfile.TemporaryDirectory() as top:
        folders = {target: Path(top, str(n)) for n, target in enumerate(TARGETS)}
        for target, folder in folders.items():
            folder.mkdir()
            command = [sys.executable, "-m", "benchmarks.accuracy", *names]
            command += ["--compute", TARGETS[target][1], str(folder)]
            subprocess.run(command, env=environment(target), check=True)
        print(f"| function | dtype | {' | '.join(folders)} | differ |")
        print("|---" * (len(folders) + 3) + "|")
        for name, (_, reference) in (UNARY | BINARY).items():
            for dtype, wider in WIDER.items() if name in names else ():
                with np.errstate(all="ignore"):
                    xs = [x.astype(wider) for x in arguments(dtype, 2 if name in BINARY else 1)]
                    exact = reference(*xs)
                results = {t: np.load(f / f"{name}.{dtype}.npy") for t, f in folders.items()}
                errors = [f"{ulps(result, exact, xs):.2f}" for result in results.values()]
                host, sycl = results["host"], results["sycl"]
                differ = np.sum((host != sycl) & ~(np.isnan(host) & np.isnan(sycl)))
                print(f"| {name} | {dtype} | {' | '.join(errors)} | {differ} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
