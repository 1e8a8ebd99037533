"""A row: arguments of a raw op whose definition does not say enough of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.scan.tensorflow_ways import WAYS

Tree = Any  # an array, a Stored, a Made or a list of them


@dataclass(frozen=True)
class Made:
    """An argument that a function of TensorFlow makes of arrays, as a list of tensors is made."""

    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Row:
    """``inputs``: in the order of the op's. ``function``: what is called in place of the op, with the inputs in order
    and attributes by their names. ``kept``: how many of the results are compared, where the others are free or nobody
    writes them.
    """

    inputs: Sequence[Tree]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    ways: Sequence[str] = WAYS
    kept: int | None = None


def row(*inputs: Tree, **attributes: Any) -> Row:
    """Inputs in the op's order, and attributes."""
    return Row(inputs, attributes)


def first_of(kept: int, *inputs: Tree, **attributes: Any) -> Row:
    """An op of whose results the first ``kept`` are compared."""
    return Row(inputs, attributes, kept=kept)


def by(function: Callable[..., Any], *inputs: Tree, **attributes: Any) -> Row:
    """A function in the place of the op."""
    return Row(inputs, attributes, function)


def drawn(*inputs: Tree, **attributes: Any) -> Row:
    """An op whose seed XLA ignores."""
    return Row(inputs, {"seed": 3, "seed2": 5, **attributes}, ways=("eager", "function"))


def ints(*values: Any) -> np.ndarray:
    """int32, one dimension more than the values have."""
    return np.array(values, np.int32)


def scalar(value: Any, dtype: Any = np.int32) -> np.ndarray:
    """A scalar."""
    return np.array(value, dtype)


def real(value: float) -> np.ndarray:
    """A scalar of float32."""
    return np.array(value, np.float32)
