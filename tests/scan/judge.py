"""Whether results of a device are as good as those of the framework's CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import ml_dtypes
import numpy as np

# How far off a result may be: as many times what the CPU's own result is off from float64, and as many roundings of the
# array's largest number. A sum of this many numbers, in another order, is off by half of the roundings at most.
_TIMES: Final = 4.0
_ROUNDINGS: Final = 64.0
# As many of an element that is judged by itself and has 16 bits or fewer: it is computed in float32.
_SHORT_ROUNDINGS: Final = 4.0
_SHOWN: Final = 3

Array = np.ndarray


@dataclass(frozen=True)
class Outcome:
    """What a call gave: arrays, or an error."""

    results: Sequence[Array] = ()
    error: str = ""


def differences(
    actual: Outcome,
    cpu: Outcome,
    precise: Outcome | None = None,
    each: bool = False,
    bits: bool = False,
    others: Sequence[Outcome] = (),
) -> str:
    """How ``actual`` differs from ``cpu``; empty if it does not. ``precise``: the same call in float64. ``each``: an
    element may be off by what the CPU's own element is off, and not by what any of the array is. ``bits``: every
    element has the CPU's bits, unless both are NaN. ``others``: what the framework gives in other ways; an element that
    is as one of theirs is right.

    An error on both sides is no difference: the words of an error are the device's own.
    """
    if actual.error:
        refused = cpu.error or any(other.error for other in others)
        return "" if refused else f"refuses: {actual.error}"
    if cpu.error:
        took = [other for other in others if not other.error]
        if not took:
            return f"accepts what the CPU refuses: {cpu.error}"
        return differences(actual, took[0], None, each, bits, took[1:])
    if len(actual.results) != len(cpu.results):
        return f"gives {len(actual.results)} results instead of {len(cpu.results)}"
    right = [o for o in (cpu, *others) if len(o.results) == len(cpu.results)]
    exact: Sequence[Array | None] = [None] * len(cpu.results)
    if precise is not None and not precise.error and len(precise.results) == len(cpu.results):
        exact = precise.results
    found = (
        _difference(a, [o.results[n] for o in right], exact[n], each, bits)
        for n, a in enumerate(actual.results)
    )
    return "; ".join(f"result {n}: {what}" for n, what in enumerate(found) if what)


def _difference(
    actual: Array, right: Sequence[Array], exact: Array | None, each: bool, bits: bool
) -> str:
    alike = [r for r in right if r.dtype == actual.dtype and r.shape == actual.shape]
    if not alike:
        cpu = right[0]
        return f"{actual.dtype}{list(actual.shape)} instead of {cpu.dtype}{list(cpu.shape)}"
    if not actual.size:
        return ""
    wrong = [_wrong(actual, r, exact, each, bits) for r in alike]
    return _shown(actual, alike[0], np.logical_and.reduce(wrong))


def _wrong(actual: Array, cpu: Array, exact: Array | None, each: bool, bits: bool) -> Array:
    """Which elements differ."""
    if not _is_inexact(cpu.dtype):
        return np.asarray(actual != cpu)
    if bits:
        return _differ_in_bits(actual, cpu)
    if exact is not None and (exact.shape != cpu.shape or not _is_inexact(exact.dtype)):
        exact = None
    eps = float(ml_dtypes.finfo(_real(cpu.dtype)).eps)
    a, e = _wide(actual), _wide(cpu)
    t = e if exact is None else _wide(exact)
    with np.errstate(all="ignore"):
        finite = np.isfinite(e) & np.isfinite(t)
        scale, own = np.where(finite, np.abs(e), 0.0), np.where(finite, np.abs(e - t), 0.0)
        if not each:
            scale, own = scale.max(), own.max()
        roundings = _SHORT_ROUNDINGS if each and cpu.dtype.itemsize <= 2 else _ROUNDINGS
        allowed = _TIMES * own + roundings * eps * scale
        wrong = ~((np.abs(a - e) <= allowed) | (a == e) | (np.isnan(a) & np.isnan(e)))
        if exact is not None:  # what float64 says is right, whatever the CPU says
            rounded = _wide(exact.astype(cpu.dtype))  # which may be infinite
            wrong &= ~((np.abs(a - t) <= allowed) | (a == rounded) | (np.isnan(a) & np.isnan(t)))
    return np.asarray(wrong)


def _shown(actual: Array, cpu: Array, wrong: Array) -> str:
    if not wrong.any():
        return ""
    places = [tuple(int(i) for i in place) for place in np.argwhere(wrong)[:_SHOWN]]
    rows = ", ".join(f"{actual[p]} instead of {cpu[p]} at {list(p)}" for p in places)
    return f"{int(wrong.sum())} of {wrong.size} differ: {rows}"


def _differ_in_bits(actual: Array, cpu: Array) -> Array:
    if cpu.dtype.kind == "c":
        real = _differ_in_bits(actual.real, cpu.real)
        return np.asarray(real | _differ_in_bits(actual.imag, cpu.imag))
    word = f"u{cpu.dtype.itemsize}"
    same = np.ascontiguousarray(actual).view(word) == np.ascontiguousarray(cpu).view(word)
    return np.asarray(~(same.reshape(cpu.shape) | (np.isnan(actual) & np.isnan(cpu))))


def _is_inexact(dtype: np.dtype) -> bool:
    # NumPy does not count the types of ml_dtypes, of which one is of kind "f" and others are of "V".
    return bool(np.issubdtype(dtype, np.inexact)) or (dtype.kind in "fV" and "float" in dtype.name)


def _real(dtype: np.dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
