"""The table of TensorFlow operations that are compared with the CPU device: what a row is, and how to compare.

The rows stand in ``cases_*.py``, one file a family. A row is a function of tensors and the arguments it is called with;
each of its dtypes is a case. Arguments are made from the case's name, so that every process makes the same ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
WIDE: Final = ("float32", "float64")
SIGNED: Final = ("int32", "int64", "int16", "int8")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
COMPLEX: Final = ("complex64", "complex128")
NUMBERS: Final = ("float32", "bfloat16", "int32", "int64")
ANY: Final = ("float32", "bfloat16", "int32", "int64", "uint8", "bool", "complex64")

Maker = Callable[[np.random.Generator, np.dtype], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One function with one dtype.

    ``tolerance`` is in units of the result dtype's epsilon, relative to the largest magnitude of a result. ``jit`` is
    false where XLA has no kernel (strings, sparse tensors), or where the shape of a result depends on values.
    """

    name: str
    function: Callable[..., Any]
    makers: tuple[Maker, ...]
    dtype: str
    tolerance: float
    jit: bool
    compare: bool
    like_xla: bool
    results: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None = None

    def arguments(self) -> list[np.ndarray]:
        """The arguments as NumPy arrays, the same in every process."""
        numbers = np.random.default_rng(zlib.crc32(self.name.encode()))
        dtype = ml_dtypes.bfloat16 if self.dtype == "bfloat16" else self.dtype
        return [maker(numbers, np.dtype(dtype)) for maker in self.makers]


@dataclass
class Table:
    """The cases of one family."""

    cases: list[Case] = field(default_factory=list)
    _first: list[Case] = field(default_factory=list)

    def first_dtypes(self) -> list[Case]:
        """One case of each row."""
        return list(self._first)

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *makers: Maker,
        dtypes: Sequence[str] = ("float32",),
        tolerance: float = 32,
        jit: bool = True,
        compare: bool = True,
        like_xla: bool = False,
        results: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]] | None = None,
    ) -> None:
        """A row: one case for each dtype.

        With ``compare`` false only the shapes and dtypes of results are compared (random numbers without a seed that
        the CPU device would share). With ``like_xla`` the CPU's own kernel means something else than XLA's, and the
        expected results are those of XLA on the CPU. ``results`` maps both sides' results to what is to be compared,
        where they are only determined up to something (the sign of an eigenvector).
        """
        for dtype in dtypes:
            row_starts = dtype == dtypes[0]
            full = f"{name}-{dtype}" if len(dtypes) > 1 else name
            if any(case.name == full for case in self.cases):
                raise ValueError(f"two cases are called {full}")
            case = Case(full, function, makers, dtype, tolerance, jit, compare, like_xla, results)
            self.cases.append(case)
            if row_starts:
                self._first.append(case)


# ------------------------------------------------------------------------------------------------ makers of arguments


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "c":
        return (values + 1j * np.roll(values.reshape(-1), 1).reshape(values.shape)).astype(dtype)
    return np.asarray(values).astype(dtype)


def x(*dims: int, low: float = -2, high: float = 2) -> Maker:
    """Uniform numbers of the case's dtype; integers from a wider range, and none below 0 for unsigned dtypes."""

    def make(numbers: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        if dtype.kind == "b":
            return numbers.uniform(size=dims) < 0.5
        if dtype.kind in "iu":
            least = 0 if dtype.kind == "u" else int(low * 4)
            return numbers.integers(least, int(high * 4) + 1, size=dims).astype(dtype)
        return _cast(numbers.uniform(low, high, size=dims), dtype)

    return make


def positive(*dims: int) -> Maker:
    """Numbers well away from 0: for divisors and logarithms."""

    def make(numbers: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        if dtype.kind in "iu":
            return numbers.integers(1, 9, size=dims).astype(dtype)
        return _cast(numbers.uniform(0.25, 3, size=dims), dtype)

    return make


def distinct(*dims: int) -> Maker:
    """Numbers no two of which are equal, in random order: for order statistics."""

    def make(numbers: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        values = numbers.permutation(int(np.prod(dims))).reshape(dims)
        return _cast(values - (0 if dtype.kind == "u" else values.size // 2), dtype)

    return make


def whole(*dims: int, low: int = 0, high: int = 4, dtype: str = "int32") -> Maker:
    """Integers in [low, high) of a dtype of their own: indices, counts."""

    def make(numbers: np.random.Generator, _: np.dtype) -> np.ndarray:
        return numbers.integers(low, high, size=dims).astype(dtype)

    return make


def truth(*dims: int) -> Maker:
    """Truth values."""
    return lambda numbers, _: numbers.uniform(size=dims) < 0.5


def given(values: Any, dtype: str | None = None) -> Maker:
    """These values, of their own dtype; with ``dtype`` None of the case's."""
    return lambda _, own: np.asarray(values).astype(dtype or own)


def definite(n: int, batch: tuple[int, ...] = ()) -> Maker:
    """Symmetric positive definite matrices with a condition number below 10."""

    def make(numbers: np.random.Generator, dtype: np.dtype) -> np.ndarray:
        a = numbers.uniform(-1, 1, size=(*batch, n, n))
        return _cast(a @ np.swapaxes(a, -1, -2) / n + np.eye(n), dtype)

    return make


# --------------------------------------------------------------------------------------------------------- comparing


def difference(actual: Any, expected: Any, tolerance: float) -> str:
    """What is wrong with a result, in one line; empty if nothing is."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if expected.dtype.kind in "biuOSU":
        wrong = actual != expected
        return (
            f"{int(wrong.sum())} of {wrong.size} elements differ: "
            f"{actual[wrong][:4]} instead of {expected[wrong][:4]}"
            if wrong.any()
            else ""
        )
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, e = actual.astype(wide), expected.astype(wide)
    component = expected.real.dtype
    epsilon = float(ml_dtypes.finfo(component).eps)
    finite = np.isfinite(e)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    scale = float(np.max(np.abs(e[finite]))) if finite.any() else 1.0
    far = np.where(same, 0, np.abs(a - e) / (epsilon * max(scale, 1e-30)))
    far = np.where(np.isnan(far), np.inf, far)
    worst = float(np.max(far)) if far.size else 0.0
    if worst <= tolerance:
        return ""
    place = int(np.argmax(far))
    return (
        f"{worst:.3g} epsilon off at {place}: {actual.reshape(-1)[place]!r}"
        f" instead of {expected.reshape(-1)[place]!r}"
    )
