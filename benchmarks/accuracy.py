"""Errors of the mathematical functions on each target, in units in the last place (ulps).

python -m benchmarks.accuracy                              a table in Markdown
python -m benchmarks.accuracy exp log --dtypes float32     those functions and dtypes only
python -m benchmarks.accuracy --targets host XLA:CPU       without a SYCL device

Every function is computed on host, on a SYCL device and by JAX's own CPU backend. float16 and bfloat16: all arguments
there are; float32 and float64: random bit patterns (so that every exponent comes, denormal numbers and NaN too) and the
ranges where functions bend, a million and more. The reference is NumPy or SciPy in a wider format; where there is none
(float64's special functions) it is mpmath, for some thousands of arguments.

An error is the distance to the true result in units in the last place of the format there, denormal numbers included;
infinite where one is NaN or infinite and the other is not. Where it is larger with denormal arguments and results than
without (XLA takes them for 0), that without follows in brackets. "differ" counts all results that are not the same bits
on host and sycl.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import ml_dtypes
import mpmath  # type: ignore[import-untyped]
import numpy as np
from scipy import special  # type: ignore[import-untyped]

from benchmarks.targets import TARGETS, environment

Array = np.ndarray[Any, Any]


class Function(NamedTuple):
    """A function of ``jax.lax`` and its reference. ``exact``: by mpmath, where ``reference`` takes no long double."""

    reference: Callable[..., Array]
    exact: Callable[..., Any] | None = None
    operands: int = 1


def _logistic(x: Array) -> Array:
    return np.asarray(np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))))


def _rsqrt(x: Array) -> Array:
    return np.asarray(np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(x)))


def _lgamma(x: Any) -> Any:
    """log |gamma x|: by the reflection formula for negative arguments."""
    if mpmath.isinf(x) or (x <= 0 and x == mpmath.floor(x)):
        return mpmath.inf
    if x > 0:
        return mpmath.loggamma(x)
    with mpmath.workprec(1200):
        return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.re(mpmath.loggamma(1 - x))


def _digamma(x: Any) -> Any:
    """NaN at its poles, as JAX defines it."""
    return mpmath.nan if x <= 0 and x == mpmath.floor(x) else mpmath.digamma(x)


def _erfc(x: Any) -> Any:
    return mpmath.erfc(x) if abs(x) < 100 else 1 - mpmath.sign(x)


def _bessel(order: int) -> Callable[..., Any]:
    """The modified Bessel function times exp(-|x|); by its asymptotic series for large arguments."""

    def value(x: Any) -> Any:
        a = abs(x)
        if a < 1e5:
            result = mpmath.besseli(order, a) * mpmath.exp(-a)
        elif mpmath.isinf(a):
            result = mpmath.mpf(0)
        else:
            m, term, series = 4 * order * order, mpmath.mpf(1), mpmath.mpf(1)
            for k in range(1, 12):
                term *= -(m - (2 * k - 1) ** 2) / (k * 8 * a)
                series += term
            result = series / mpmath.sqrt(2 * mpmath.pi * a)
        return -result if order and x < 0 else result

    return value


def _erf_inv(x: Any) -> Any:
    """Newton's iteration on erfc, beginning with SciPy's value."""
    if not abs(x) < 1:
        return x * mpmath.inf if abs(x) == 1 else mpmath.nan
    y = mpmath.mpf(float(special.erfinv(float(x))))
    for _ in range(3):
        error = (1 - abs(x) - mpmath.erfc(abs(y))) * (1 if y >= 0 else -1)
        y -= error * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
    return y


FUNCTIONS: Final[dict[str, Function]] = {
    "exp": Function(np.exp),
    "exp2": Function(np.exp2),
    "expm1": Function(np.expm1),
    "log": Function(np.log),
    "log1p": Function(np.log1p),
    "sin": Function(np.sin),
    "cos": Function(np.cos),
    "tan": Function(np.tan),
    "asin": Function(np.arcsin),
    "acos": Function(np.arccos),
    "atan": Function(np.arctan),
    "sinh": Function(np.sinh),
    "cosh": Function(np.cosh),
    "tanh": Function(np.tanh),
    "asinh": Function(np.arcsinh),
    "acosh": Function(np.arccosh),
    "atanh": Function(np.arctanh),
    "logistic": Function(_logistic),
    "sqrt": Function(np.sqrt),
    "rsqrt": Function(_rsqrt),
    "cbrt": Function(np.cbrt),
    "erf": Function(special.erf, mpmath.erf),
    "erfc": Function(special.erfc, _erfc),
    "erf_inv": Function(special.erfinv, _erf_inv),
    "lgamma": Function(lambda x: np.where(np.isinf(x), np.inf, special.gammaln(x)), _lgamma),
    "digamma": Function(lambda x: np.where(x == 0, np.nan, special.psi(x)), _digamma),
    "bessel_i0e": Function(special.i0e, _bessel(0)),
    "bessel_i1e": Function(special.i1e, _bessel(1)),
    "div": Function(np.divide, operands=2),
    "rem": Function(np.fmod, operands=2),
    "pow": Function(np.power, operands=2),
    "atan2": Function(np.arctan2, operands=2),
}
WIDER: Final[dict[str, Any]] = {
    "float16": np.float64,
    "bfloat16": np.float64,
    "float32": np.float64,
    "float64": np.longdouble,
}
BY_MPMATH: Final = 3000  # arguments that mpmath is asked for


def arguments(dtype: str, name: str) -> list[Array]:
    """Arguments of a function: the same in every process."""
    function = FUNCTIONS[name]
    rng = np.random.default_rng(7)
    if dtype.endswith("16") and function.operands == 1:
        return [np.arange(1 << 16, dtype=np.uint16).view(dtype)]
    count = {"float32": 1 << 20, "float64": 1 << 18}.get(dtype, 1 << 17)
    if dtype == "float64" and function.exact:
        count = BY_MPMATH
    bits: Any = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]
    patterns = [
        rng.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype)
        for _ in range(function.operands)
    ]
    ranges = [
        np.concatenate([rng.uniform(-r, r, count // 4) for r in (1.5, 20, 110)]).astype(dtype)
        for _ in range(function.operands)
    ]
    near_one = [
        (1 + rng.uniform(-1, 1, count // 8) * 2.0 ** rng.uniform(-20, 0, count // 8)).astype(dtype)
        for _ in range(function.operands)
    ]
    if name == "pow":
        ranges[0] = np.abs(ranges[0])
    return [np.concatenate(parts) for parts in zip(patterns, ranges, near_one, strict=True)]


def compute(platform: str, names: list[str], chosen: list[str], folder: Path) -> None:
    """What a child does: each function's results into a file."""
    import jax

    jax.config.update("jax_enable_x64", True)
    device = jax.devices(platform)[0]
    for dtype in chosen:
        for name in names:
            xs = jax.device_put(arguments(dtype, name), device)
            result = np.asarray(jax.jit(getattr(jax.lax, name))(*xs))
            np.save(folder / f"{name}.{dtype}.npy", result.view(f"u{result.dtype.itemsize}"))


def references(name: str, dtype: str) -> Array:
    """The true results in a wider format."""
    function, xs = FUNCTIONS[name], arguments(dtype, name)
    wide = WIDER[dtype]
    if dtype == "float64" and function.exact:
        with mpmath.workprec(140):
            values = [_by_mpmath(function.exact, float(x)) for x in xs[0]]
        return np.array(values, np.longdouble)
    with np.errstate(all="ignore"):
        return np.asarray(function.reference(*[x.astype(wide) for x in xs]))


def _by_mpmath(function: Callable[..., Any], x: float) -> np.longdouble:
    """The value of ``function``, rounded to long double through a sum of two doubles."""
    value = function(mpmath.mpf(x))
    high = float(value)
    low = float(value - high) if np.isfinite(high) else 0.0
    return np.longdouble(high) + np.longdouble(low)


def ulps(got: Array, exact: Array, only: Array | None = None) -> float:
    """The largest error, of the elements where ``only`` is true."""
    if only is not None:
        got, exact = got[only], exact[only]
    form = ml_dtypes.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        special_value = ~np.isfinite(rounded) | ~np.isfinite(got)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        # A result on the other side of the largest number is as near as one can be.
        edge = np.isinf(got) != np.isinf(rounded)
        smaller = np.minimum(np.abs(got), np.abs(rounded))
        same |= edge & (smaller == form.max) & (np.signbit(got) == np.signbit(rounded))
        if np.any(special_value & ~same):
            return float("inf")
        finite = ~special_value
        error = np.abs(got[finite].astype(exact.dtype) - exact[finite])
        _, exponent = np.frexp(exact[finite])
        exponent = np.maximum(exponent - 1, form.minexp) - form.nmant
        return float(np.max(error / np.ldexp(exact.dtype.type(1), exponent), initial=0.0))


def described(got: Array, exact: Array, xs: list[Array]) -> str:
    """The largest error, and that without denormal numbers if it is another."""
    tiny = float(ml_dtypes.finfo(got.dtype).smallest_normal)
    normal = (np.abs(exact) >= tiny) | (exact == 0) | np.isnan(exact)
    for x in xs:
        magnitude = np.abs(x.astype(exact.dtype))
        normal &= (magnitude >= tiny) | (magnitude == 0) | np.isnan(magnitude)
    everywhere, without = ulps(got, exact), ulps(got, exact, normal)
    return f"{everywhere:.4g}" + (f" ({without:.4g})" if without < everywhere else "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; all without")
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--dtypes", nargs="+", choices=list(WIDER), default=["float32", "float64"])
    parser.add_argument("--compute", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names, chosen = options.names or list(FUNCTIONS), options.dtypes
    if options.compute:
        compute(options.compute[0], names, chosen, Path(options.compute[1]))
        return 0
    with tempfile.TemporaryDirectory() as top:
        folders = {target: Path(top, str(n)) for n, target in enumerate(options.targets)}
        for target, folder in folders.items():
            folder.mkdir()
            command = [sys.executable, "-m", "benchmarks.accuracy", *names, "--dtypes", *chosen]
            command += ["--compute", TARGETS[target][1], str(folder)]
            subprocess.run(command, env=environment(target), check=True)
        compared = {"host", "sycl"} <= set(folders)
        columns = [*folders, *(["differ"] if compared else [])]
        print(f"| function | dtype | {' | '.join(columns)} |")
        print("|---" * (len(columns) + 2) + "|")
        for name in names:
            for dtype in chosen:
                xs, exact = arguments(dtype, name), references(name, dtype)
                results = {
                    t: np.load(f / f"{name}.{dtype}.npy").view(dtype) for t, f in folders.items()
                }
                cells = [described(result, exact, xs) for result in results.values()]
                if compared:
                    host, sycl = results["host"], results["sycl"]
                    differ = (host != sycl) & ~(np.isnan(host) & np.isnan(sycl))
                    cells.append(str(int(np.sum(differ))))
                print(f"| {name} | {dtype} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
