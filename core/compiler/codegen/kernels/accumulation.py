"""Long accumulations in blocks, so that their rounding errors do not grow with their length.

A running sum of n terms may lose n roundings, and does for terms of one sign and size. Here a loop that carries
accumulators becomes loops inside of each other: the innermost one takes ``BLOCK`` terms into fresh accumulators, the
next one takes ``BLOCKS`` such blocks into its own, and so on. Every term then goes through BLOCK + BLOCKS * levels
additions at most, where BLOCK * BLOCKS ** levels is about the number of terms: |error| <= (BLOCK + BLOCKS * levels) *
eps / 2 * sum(|terms|), like the bound of pairwise summation. What is added for it is one operation in ``BLOCK``, and a
third of that for the blocks. Few blocks at a time because four equal sums come to the nearest number nearly always,
while the roundings of 16 have one sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...ir import hlo
from ..generator import Generator
from ..llvm_ir import Value, i64

LONGEST: Final = 16  # terms that one accumulator takes one after the other without blocks
BLOCK: Final = 16  # terms of a block
BLOCKS: Final = 4  # blocks of a larger block

Accumulators = list[Value]
Body = Callable[[Value, Accumulators], Accumulators]
Fresh = Callable[[], Accumulators]
Merge = Callable[[Accumulators, Accumulators], Accumulators]

# Operations on numbers that do not round, as they stand in the bodies of reductions.
_EXACT: Final = frozenset(
    [
        "abs",
        "and",
        "clamp",
        "compare",
        "constant",
        "convert",
        "copy",
        "maximum",
        "minimum",
        "negate",
        "not",
        "or",
    ]
    + ["parameter", "select", "sign", "tuple", "xor"]
)


def rounds(bodies: Iterable[hlo.Computation]) -> bool:
    """Whether one of the bodies of reductions may round, as sums of floats do and maxima do not."""
    return any(
        isinstance(i.shape, hlo.Shape)
        and (i.dtype.is_float or i.dtype.is_complex)
        and i.opcode not in _EXACT
        for body in bodies
        for i in body.instructions
    )


def accumulate(
    g: Generator,
    start: Value,
    stop: Value,
    step: int,
    trips: int,
    accumulators: Sequence[Value],
    body: Body,
    fresh: Fresh,
    merge: Merge,
    *,
    terms: int = 1,
    block: int = BLOCK,
    longest: int = LONGEST,
) -> Accumulators:
    """The accumulators after ``body(i, accumulators)`` for i = start, start + step, ... below stop, in blocks if there
    are many.

    ``trips``: how often the body runs, at most. ``terms``: how many terms each accumulator takes in the body.
    ``fresh()`` gives accumulators that hold nothing, and ``merge(a, b)`` puts two sets together, a's terms first.
    """
    if trips * terms <= longest or trips <= 1:
        with g.loop(start, stop, step, accumulators) as (i, carried, results):
            carried[:] = body(i, list(carried))
        return list(results)
    size = max(1, block // terms)

    def take_block(first: Value, into: Accumulators) -> Accumulators:
        if size == 1:  # the body's terms are a block
            return merge(into, body(first, fresh()))
        last = g.builder.intrinsic("smin", [g.add(first, i64(step * size)), stop])
        g.note(last)
        with g.loop(first, last, step, fresh()) as (i, carried, results):
            carried[:] = body(i, list(carried))
        return merge(into, list(results))

    return accumulate(
        g, start, stop, step * size, -(-trips // size), accumulators, take_block, fresh, merge,
        block=BLOCKS, longest=min(longest, BLOCKS),
    )  # fmt: skip
