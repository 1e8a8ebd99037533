"""Sums of pads that do not overlap are concatenations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module
from tripont.core.compiler.ir.moves import pad
from tripont.core.compiler.passes.joined_pads import join_pads
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import module, number, op, opcodes, parameter

SPECIAL = np.float32([-0.0, 0.0, np.inf, -np.inf, np.nan, -1.5, 1e-45, 3.4e38])


def padded(piece: Instruction, before: int, size: int, zero: float = 0.0) -> Instruction:
    """``piece`` at the place ``before`` of the first of its dimensions, of which there are ``size``."""
    rest = [0] * (len(piece.dims) - 1)
    behind = size - before - piece.dims[0]
    return pad(piece, number(zero, dtype=piece.dtype), [before, *rest], [behind, *rest])


def total(terms: Sequence[Instruction]) -> Instruction:
    first, *others = terms
    for term in others:
        first = op("add", first, term)
    return first


def joins(before: Module, arguments: list[np.ndarray]) -> Computation:
    """The entry after the pass, which gives the same bits."""
    after = join_pads(before)
    with np.errstate(all="ignore"):
        values = [evaluate(m, arguments) for m in (before, after)]
    for a, b in zip(*values, strict=True):
        np.testing.assert_array_equal(a, b)
        for part in (np.real, np.imag) if a.dtype.kind == "c" else (np.asarray,):
            there = ~np.isnan(part(a))
            np.testing.assert_array_equal(np.signbit(part(a)[there]), np.signbit(part(b)[there]))
    return after.entry


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("places", [(0, 1, 2), (2, 0, 1), (5, 1), (0, 7)])
def test_pieces_and_gaps(places: tuple[int, ...], others: int) -> None:
    """In any order, with zeros between them, and signs of zeros as they were."""
    pieces = [parameter(n, 1) for n in range(len(places))]
    rest = [parameter(len(pieces), 8)] * others
    terms = [padded(x, place, 8) for x, place in zip(pieces, places, strict=True)]
    before = module([*pieces, *rest], total([*rest, *terms]))
    for value in SPECIAL:
        given = [np.float32([value])] * len(pieces) + [SPECIAL] * others
        entry = joins(before, given)
        assert "concatenate" in opcodes(entry)
        assert "pad" not in opcodes(entry)


@pytest.mark.parametrize("dtype", [dtypes.S32, dtypes.BF16, dtypes.C64])
def test_element_types(dtype: DType) -> None:
    pieces = [parameter(n, 2, 3, dtype=dtype) for n in range(2)]
    before = module(pieces, total([padded(x, 2 * n, 4) for n, x in enumerate(pieces)]))
    given = [np.arange(6).reshape(2, 3).astype(dtype.numpy) for _ in pieces]
    entry = joins(before, given)
    assert opcodes(entry).count("concatenate") == 1
    assert opcodes(entry).count("add") == (0 if dtype.is_integer else 1)


def test_a_sum_of_sums_is_one_concatenation() -> None:
    x = [parameter(n, 1) for n in range(4)]
    a, b, c, d = (padded(piece, n, 4) for n, piece in enumerate(x))
    before = module(x, op("add", op("add", a, c), op("add", d, b)))
    entry = joins(before, [np.float32([n]) for n in range(4)])
    (joined,) = (i for i in entry.instructions if i.opcode == "concatenate")
    assert list(joined.operands) == x


def test_what_somebody_else_reads_stays_a_sum() -> None:
    """It is computed once, and is a term of the next one."""
    x = [parameter(n, 1) for n in range(4)]
    terms = [padded(piece, n, 4) for n, piece in enumerate(x)]
    part = total(terms[:2])
    before = module(x, op("negate", part), total([part, *terms[2:]]))
    entry = joins(before, [np.float32([n]) for n in range(4)])
    pieces = [len(i.operands) for i in entry.instructions if i.opcode == "concatenate"]
    assert pieces == [3, 3]  # two of each, and a zero


@pytest.mark.parametrize(
    "kind", ["overlap", "negative zero", "interior", "dimensions", "two", "one"]
)
def test_other_sums_stay(kind: str) -> None:
    x, y, z = parameter(0, 2, 2), parameter(1, 2, 2), parameter(2, 4, 2)
    first, second = padded(x, 0, 4), padded(y, 2, 4)
    if kind == "overlap":
        second = padded(y, 1, 4)
    elif kind == "negative zero":
        second = padded(y, 2, 4, -0.0)
    elif kind == "interior":
        second = pad(y, number(0.0), [1, 0], [0, 0], [1, 0])
    elif kind == "dimensions":
        z = parameter(2, 4, 4)
        first = pad(x, number(0.0), [0, 0], [2, 2])
        second = pad(y, number(0.0), [2, 2], [0, 0])
    sums = [first, second]
    if kind == "two":
        sums = [op("add", z, first), op("add", op("negate", z), second)]
    elif kind == "one":
        sums = [z, first]
    before = module([x, y, z], total(sums))
    assert join_pads(before) is before


def test_of_many_pieces_there_are_several_concatenations() -> None:
    count = 300
    x = [parameter(n, 1) for n in range(count)]
    before = module(x, total([padded(piece, n, count) for n, piece in enumerate(x)]))
    entry = joins(before, [np.float32([n]) for n in range(count)])
    assert opcodes(entry).count("concatenate") == 2


def test_the_pipeline_joins_them() -> None:
    assert join_pads in pipeline.OPTIMISATION
