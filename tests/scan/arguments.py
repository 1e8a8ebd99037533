"""Arguments of the scans: drawn by a fixed seed, and other ones made of them that a function may refuse or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

_LARGE: Final = 2**31 - 1
# In the place of a whole number that is an attribute.
_NUMBERS: Final = (0, -1, 1, 7, -_LARGE - 1, _LARGE)
_SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -1e-40, 1.0)


def _rng(shape: Sequence[int], seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, len(shape), *shape])


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """float32, of a normal distribution."""
    return _rng(shape, seed).normal(size=shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 between 0.1 and 2."""
    return _rng(shape, seed).uniform(0.1, 2.0, size=shape).astype(np.float32)


def unit(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 between 0.05 and 0.95."""
    return _rng(shape, seed).uniform(0.05, 0.95, size=shape).astype(np.float32)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """complex64 whose parts are of a normal distribution."""
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)).astype(np.complex64)


def integers(*shape: int, most: int = 4, seed: int = 0) -> np.ndarray:
    """int32 from 0 to ``most - 1``."""
    return _rng(shape, seed).integers(0, most, size=shape).astype(np.int32)


def definite(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 matrices that are symmetric and positive definite."""
    a = normal(*shape, seed=seed)
    return np.asarray(a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1]), np.float32)


def special(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with arrays of floats that begin with zeros, infinities, NaN, the format's ends and a denormal."""

    def replaced(a: Any) -> Any:
        if not isinstance(a, np.ndarray) or a.dtype.kind not in "fc":
            return a
        with np.errstate(all="ignore"):
            return np.resize(
                np.concatenate([_SPECIAL, a.ravel()[len(_SPECIAL) :]]), a.shape
            ).astype(a.dtype)

    return [replaced(a) for a in arguments]


def emptied(arguments: Sequence[Any], size: int) -> list[Any]:
    """The arguments with no elements along each dimension of ``size``."""

    def cut(a: Any) -> Any:
        if isinstance(a, np.ndarray):
            return a[tuple(slice(0 if n == size else None) for n in a.shape)]
        return a

    return [cut(a) for a in arguments]


def changed(arguments: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """With a name each, arguments of which one is another: an array without elements, of another rank, or with another
    size; indices and numbers that are negative, zero, or as large as can be.
    """
    for place, argument in enumerate(arguments):
        for what, other in others(argument):
            yield f"{place} {what}", [*arguments[:place], other, *arguments[place + 1 :]]


def others(argument: Any) -> Iterator[tuple[str, Any]]:
    """With a name each, what a function may be given in the place of an argument."""
    if isinstance(argument, np.ndarray):
        for axis in range(argument.ndim):
            yield f"empty along {axis}", argument[(slice(None),) * axis + (slice(0),)]
            if argument.shape[axis] > 1:
                yield f"one along {axis}", argument[(slice(None),) * axis + (slice(1),)]
        yield "of one rank more", argument[None]
        if argument.ndim:
            yield "of one rank less", argument[0] if len(argument) else argument.reshape(-1)
            if argument.size:
                yield "scalar", argument.reshape(-1)[:1].reshape(())
        if argument.dtype.kind == "i":
            for number in (-1, _LARGE, -_LARGE - 1):
                if np.iinfo(argument.dtype).min <= number <= np.iinfo(argument.dtype).max:
                    yield f"of {number}", np.full_like(argument, number)
    elif isinstance(argument, bool) or argument is None or isinstance(argument, str):
        return
    elif isinstance(argument, int):
        for number in _NUMBERS:
            if number != argument:
                yield f"is {number}", number
    elif isinstance(argument, (list, tuple)) and argument and isinstance(argument[0], int):
        for number in _NUMBERS:
            yield f"first is {number}", type(argument)([number, *argument[1:]])
        yield "is none", type(argument)()
        yield "is longer", type(argument)([*argument, argument[-1]])
    elif isinstance(argument, float):
        for real in (np.nan, np.inf, -1.0, 0.0):
            yield f"is {real}", real


def in_type(arguments: Sequence[Any], dtype: Any) -> list[Any]:
    """The arguments with arrays of real floats in another type."""
    return [
        a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
        for a in arguments
    ]
