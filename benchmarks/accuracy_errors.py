"""Errors of the mathematical functions in units in the last place, for :mod:`benchmarks.accuracy` and its page."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import mpmath  # type: ignore[import-untyped]
import numpy as np

from benchmarks.accuracy_references import COMPLEX, FUNCTIONS, Array, complex_arguments
from benchmarks.targets import TARGETS, environment

WIDER: Final[dict[str, Any]] = {
    "float16": np.float64,
    "bfloat16": np.float64,
    "float32": np.float64,
    "float64": np.longdouble,
}
PARTS: Final = {"complex64": "float32", "complex128": "float64"}
BY_MPMATH: Final = 3000  # arguments that mpmath is asked for
OF_SEVERAL: Final = 600  # and those of functions of several, each of which takes long

Results = dict[str, Array]  # by target


def names_of(dtype: str, chosen: list[str]) -> list[str]:
    """The functions that there are for a dtype. (Of half precision those of one argument and the ordinary ones.)"""
    functions = COMPLEX if dtype in PARTS else FUNCTIONS
    names = [name for name in functions if not chosen or name in chosen]
    if dtype.endswith("16"):
        names = [name for name in names if FUNCTIONS[name].reference is not None]
    return names


def arguments(dtype: str, name: str) -> list[Array]:
    """Arguments of a function: the same in every process."""
    rng = np.random.default_rng(7)
    if dtype in PARTS:
        return complex_arguments(name, dtype, rng, 300)
    function = FUNCTIONS[name]
    if function.arguments is not None:
        return [a.astype(dtype) for a in function.arguments(rng, OF_SEVERAL)]
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
    edges = _edges(dtype, function.operands)
    if name == "pow":
        ranges[0] = np.abs(ranges[0])
    return [np.concatenate(parts) for parts in zip(patterns, ranges, near_one, edges, strict=True)]


def _edges(dtype: str, operands: int) -> list[Array]:
    """Zeros, infinities, the ends of the range; whole numbers, halves, multiples of pi/2 and their neighbours."""
    form = ml_dtypes.finfo(dtype)
    ends = [0.0, np.inf, np.nan, form.smallest_subnormal, form.smallest_normal, form.max, 1.0, 2.0]
    points = np.array([float(v) for v in ends])
    if operands == 1:
        counted = np.arange(1, 60)
        points = np.concatenate([points, counted, counted - 0.5, counted * np.pi / 2])
    middle = np.concatenate([points, -points]).astype(dtype)
    if operands == 2:
        grid = list(itertools.product(middle, middle))
        return [np.array([pair[k] for pair in grid], dtype) for k in range(2)]
    up, down = (np.nextafter(middle, np.array(end, dtype)) for end in (np.inf, -np.inf))
    return [np.concatenate([middle, up, down])]


def compute(platform: str, names: list[str], chosen: list[str], folder: Path) -> None:
    """What a child does: each function's results into a file."""
    import jax
    import jax.scipy.special

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    device = jax.devices(platform)[0]
    for dtype in chosen:
        for name in names_of(dtype, names):
            xs = jax.device_put(arguments(dtype, name), device)
            function = getattr(jax.lax, name, None) or getattr(jax.scipy.special, name)
            np.save(
                folder / f"{name}.{dtype}.npy", np.asarray(jax.jit(function)(*xs)).view(np.uint8)
            )


def references(name: str, dtype: str) -> Array:
    """The true results in a wider format."""
    xs = arguments(dtype, name)
    function = COMPLEX[name] if dtype in PARTS else FUNCTIONS[name]
    with np.errstate(all="ignore"):
        if name == "nextafter":
            return np.asarray(np.nextafter(*xs)).astype(WIDER[dtype])
        if function.reference is not None and not (dtype == "float64" and function.exact):
            return np.asarray(function.reference(*[x.astype(WIDER[dtype]) for x in xs]))
    assert function.exact is not None
    with mpmath.workprec(140):
        values = [_rounded(function.exact, *v) for v in zip(*xs, strict=True)]
    return np.array(values, np.clongdouble if dtype in PARTS else np.longdouble)


def _rounded(function: Callable[..., Any], *xs: Any) -> Any:
    """The value of ``function`` by mpmath as long double, a complex number if the arguments are; NaN at a pole."""
    is_complex = np.iscomplexobj(xs[0])
    try:
        value = function(*[mpmath.mpmathify(x.item() if is_complex else float(x)) for x in xs])
    except ZeroDivisionError:
        value = mpmath.nan
    if not is_complex:
        return _long(value)
    number = np.zeros((), np.clongdouble)
    number.real, number.imag = _long(value.real), _long(value.imag)
    return number[()]


def _long(value: Any) -> np.longdouble:
    """A number of mpmath's through a sum of two doubles."""
    high = float(value)
    low = float(value - high) if np.isfinite(high) else 0.0
    return np.longdouble(high) + np.longdouble(low)


def ulps(got: Array, exact: Array, only: Array | None = None, size: Array | None = None) -> float:
    """The largest error where ``only`` is true, in units of the last place of ``size`` (or ``exact``)."""
    size = exact if size is None else size
    if only is not None:
        got, exact, size = got[only], exact[only], size[only]
    form = ml_dtypes.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        special_value = ~np.isfinite(rounded) | ~np.isfinite(got)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        # A result on the other side of the largest number is as near as one can be.
        edge = np.isinf(got) != np.isinf(rounded)
        smaller = np.minimum(np.abs(got), np.abs(rounded))
        same |= edge & (smaller >= form.max * 0.999) & (np.signbit(got) == np.signbit(rounded))
        if np.any(special_value & ~same):
            return float("inf")
        finite = ~special_value
        error = np.abs(got[finite].astype(exact.dtype) - exact[finite])
        _, exponent = np.frexp(size[finite])
        exponent = np.maximum(exponent - 1, form.minexp) - form.nmant
        return float(np.max(error / np.ldexp(exact.dtype.type(1), exponent), initial=0.0))


def described(got: Array, exact: Array, xs: list[Array]) -> str:
    """The largest error, and that without denormal numbers if it is another. Complex: of the number, and of a part."""
    if np.iscomplexobj(exact):
        return _described_complex(got, exact)
    tiny = float(ml_dtypes.finfo(got.dtype).smallest_normal)
    with np.errstate(all="ignore"):
        normal = (np.abs(exact) >= tiny) | (exact == 0) | np.isnan(exact)
        for x in xs:
            magnitude = np.abs(x.astype(exact.dtype))
            normal &= (magnitude >= tiny) | (magnitude == 0) | np.isnan(magnitude)
    everywhere, without = ulps(got, exact), ulps(got, exact, normal)
    return _text(everywhere) + (f" ({_text(without)})" if without < everywhere else "")


def _described_complex(got: Array, exact: Array) -> str:
    # Where both parts of a product are infinite or NaN, which is not settled.
    settled = np.isfinite(exact.real.astype(got.real.dtype)) & np.isfinite(
        exact.imag.astype(got.real.dtype)
    )
    size = np.maximum(np.abs(exact.real), np.abs(exact.imag))
    parts = [(got.real, exact.real)]
    if np.iscomplexobj(got):
        parts.append((got.imag, exact.imag))
    whole = max(ulps(g, e, settled, size) for g, e in parts)
    each = max(ulps(g, e, settled) for g, e in parts)
    return f"{_text(whole)} ({_text(each)})"


def _text(error: float) -> str:
    return f"{error:.3g}" if error >= 1e-3 or error == 0 else "0"


def measured(targets: list[str], names: list[str], dtypes: list[str], top: str) -> dict[str, Path]:
    """Have a process for each target compute everything; the folders of the results."""
    folders = {target: Path(top, str(n)) for n, target in enumerate(targets)}
    for target, folder in folders.items():
        folder.mkdir()
        command = [sys.executable, "-m", "benchmarks.accuracy", *names, "--dtypes", *dtypes]
        command += ["--compute", TARGETS[target][1], str(folder)]
        subprocess.run(command, env=environment(target), check=True)
    return folders


def row(folders: dict[str, Path], name: str, dtype: str) -> tuple[list[str], Results]:
    """The errors of one function on each target, and the results."""
    xs, exact = arguments(dtype, name), references(name, dtype)
    form = np.dtype(PARTS.get(dtype, dtype) if name == "abs" else dtype)
    results = {t: np.load(f / f"{name}.{dtype}.npy").view(form) for t, f in folders.items()}
    return [described(result, exact, xs) for result in results.values()], results
