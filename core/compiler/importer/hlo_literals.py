"""LiteralProtos as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..formats import hlo_records
from ..formats.wire_format import each, unpacked_numbers, values
from ..ir.hlo import AnyShape, Shape

Array = np.ndarray[Any, Any]

_SHAPE: Final = 1
# From how many bytes on numbers are read by NumPy.
_MANY: Final = 256


def literal(data: bytes, shape: AnyShape, read_shape: Callable[[bytes], AnyShape]) -> Array:
    """The value of a constant of ``shape``; of a splat the one element, a scalar.

    Raises ValueError for a literal of another shape, and for one that is not written densely and row-major.
    """
    if not isinstance(shape, Shape) or shape.dtype.name not in hlo_records.LITERALS:
        raise ValueError(f"a literal of {shape}")
    number = hlo_records.LITERALS[shape.dtype.name]
    given = values(data, repeated=frozenset((number,)))
    if not given.keys() <= {_SHAPE, number} or read_shape(given[_SHAPE]) != shape:
        raise ValueError("a literal of another shape")
    if len(shape.dims) > 1:
        _check_row_major(given[_SHAPE], len(shape.dims))
    raw = _elements(given.get(number, b""), shape)
    size = shape.dtype.size
    if len(raw) != shape.elements * size:
        raise ValueError("a literal with another number of elements")
    if shape.dtype.kind == "pred" and raw.strip(b"\0\1"):
        raise ValueError("a truth value that is neither 0 nor 1")
    is_splat = bool(shape.dims) and shape.elements > 0 and raw == raw[:size] * shape.elements
    if is_splat:
        return np.frombuffer(raw[:size], shape.dtype.numpy).reshape(())
    return np.frombuffer(raw, shape.dtype.numpy).reshape(shape.dims)


def _check_row_major(shape: bytes, rank: int) -> None:
    layout = values(values(shape, repeated=frozenset((3, 6)))[5], repeated=frozenset((1,)))
    if unpacked_numbers(layout.get(1, b"")) != list(range(rank - 1, -1, -1)):
        raise ValueError("a literal that is not row-major")


def _elements(value: Any, shape: Shape) -> bytes:
    """The elements as they lie in memory."""
    dtype = shape.dtype
    if not (dtype.is_integer and dtype.bits >= 32):
        return b"".join(bytes((v,)) if isinstance(v, int) else v for v in each(value))
    if isinstance(value, bytes) and len(value) >= _MANY:
        return _unpacked_array(value).astype(dtype.numpy).tobytes()
    numbers = np.array(unpacked_numbers(value), np.int64)
    return numbers.astype(dtype.numpy).tobytes()


def _unpacked_array(data: bytes) -> Array:
    """Packed varints as numbers of 64 bits. Raises ValueError if the last does not end, or one is too long."""
    digits = np.frombuffer(data, np.uint8)
    last = digits < 128
    ends = np.flatnonzero(last)
    if not len(ends) or ends[-1] != len(digits) - 1:
        raise ValueError("a number that does not end")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise ValueError("a number that is too long")
    place = np.arange(len(digits)) - np.repeat(starts, lengths)
    parts = (digits & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, starts)
