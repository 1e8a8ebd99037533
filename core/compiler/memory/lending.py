"""Temporaries in the memory of results that are not written yet.

A result has its memory for the whole of an execution, but holds nothing until the program writes it. Until
then the memory is lent to temporaries, the largest at the time at which most is alive first: only these make
the arena smaller. The last of several such times comes first, because what is alive when the result is
written must stay in the arena, and what was alive before it can go.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..formats.artifact import ALIGNMENT
from .arena import rounded
from .liveness import Group

MOST_LOANS: Final = 1024
# Temporaries below this part of what is alive at the fullest time are not worth a look.
LEAST_PART: Final = 1024


@dataclass(slots=True)
class Loan:
    """``group``, which is alive from ``start`` to ``end``, lies in the memory of ``lender`` from ``offset`` on."""

    group: Group
    lender: Group
    offset: int
    start: int
    end: int


@dataclass(slots=True)
class _Lender:
    group: Group
    start: int
    # Where each loan lies, and when: (offset, end of its bytes, start, end), in the order of offsets.
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)

    def lend(self, group: Group, start: int, end: int) -> Loan | None:
        """The first gap that is free as long as ``group`` is alive, from ``start`` to ``end``, before the result is."""
        offset, size = 0, group.size
        for low, high, since, until in self.taken:
            if until < start or end < since:
                continue
            if offset + size <= low:
                break
            if high > offset:
                offset = high
        if offset + size > self.group.size:
            return None
        bisect.insort(self.taken, (offset, offset + rounded(size), start, end))
        return Loan(group, self.group, offset, start, end)


def lend(groups: Sequence[Group], lenders: Sequence[Group]) -> list[Loan]:
    """Which of the ``groups`` of temporaries may lie in which result's memory. Nothing is moved yet."""
    # Smaller ones first: a temporary takes the least that has room for it.
    places = [
        _Lender(g, g.start) for g in sorted(lenders, key=lambda g: g.size) if g.size >= ALIGNMENT
    ]
    if not places:
        return []
    rooms = [p.group.size for p in places]
    sizes = np.array([rounded(g.size) for g in groups], np.int64)
    starts = np.array([g.start for g in groups], np.int64)
    last = int(starts.max(initial=0))  # after this only less is alive
    ends = np.array([min(g.end, last) for g in groups], np.int64)
    changes = np.zeros(last + 2, np.int64)
    np.add.at(changes, starts, sizes)
    np.subtract.at(changes, ends + 1, sizes)
    alive = np.cumsum(changes)
    possible = ends < max(p.start for p in places)
    loans: list[Loan] = []
    while len(loans) < MOST_LOANS:
        fullest = last + 1 - int(alive[::-1].argmax())
        large = sizes * LEAST_PART > alive[fullest]
        (now,) = np.nonzero(possible & large & (starts <= fullest) & (ends >= fullest))
        before = len(loans)
        for number in now[np.argsort(-sizes[now], kind="stable")]:
            possible[number] = False
            loan = _first_loan(groups[number], places, rooms)
            if loan is None:
                continue
            loans.append(loan)
            alive[starts[number] : ends[number] + 1] -= sizes[number]
            if len(loans) == MOST_LOANS or last + 1 - int(alive[::-1].argmax()) != fullest:
                break
        if len(loans) == before:
            break
    return loans


def _first_loan(group: Group, places: Sequence[_Lender], rooms: Sequence[int]) -> Loan | None:
    """The loan of the first place with room for ``group``. ``rooms``: the sizes of the places, which go up."""
    start, end = group.start, group.end
    for place in itertools.islice(places, bisect.bisect_left(rooms, group.size), None):
        if end < place.start:
            loan = place.lend(group, start, end)
            if loan is not None:
                return loan
    return None
