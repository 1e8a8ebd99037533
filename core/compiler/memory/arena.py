"""The temporary arena: offsets for groups of values, by best fit along the time axis."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from operator import itemgetter

from ..formats.artifact import ALIGNMENT
from .liveness import Group


def place_in_arena(groups: Sequence[Group], allocation: int) -> int:
    """Give every group an offset in the arena; its size.

    Groups are placed in the order of time and against it, and the smaller arena is taken: a large group after small
    ones that went one by one finds no room between them, but they find room around it.
    """
    spans = [(g.start, g.end) for g in groups]
    sizes = [rounded(g.size) for g in groups]
    against = [(-end, -start) for start, end in spans]
    size, offsets = min(_placed(spans, sizes), _placed(against, sizes), key=itemgetter(0))
    for group, offset in zip(groups, offsets, strict=True):
        group.allocation = allocation
        group.offset = offset
    return size


def _placed(spans: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[int, list[int]]:
    """How large an arena is, and the offsets in it of what is alive in ``spans``, if placed from the first time on."""
    begun = sorted(range(len(spans)), key=lambda n: (spans[n][0], -sizes[n]))
    ending = sorted(begun, key=lambda n: spans[n][1])
    offsets = [0] * len(spans)
    free = FreeList()
    next_end = 0
    for number in begun:
        while spans[ending[next_end]][1] < spans[number][0]:
            done = ending[next_end]
            free.release(offsets[done], sizes[done])
            next_end += 1
        offsets[number] = free.take(sizes[number])
    return free.top, offsets


def rounded(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


class FreeList:
    """Free blocks of the arena: best fit, neighbours merged."""

    def __init__(self) -> None:
        self.top = 0
        self.by_size: list[tuple[int, int]] = []  # (size, offset)
        self.by_start: dict[int, int] = {}  # offset -> size
        self.by_end: dict[int, int] = {}  # end -> size

    def _insert(self, offset: int, size: int) -> None:
        bisect.insort(self.by_size, (size, offset))
        self.by_start[offset] = size
        self.by_end[offset + size] = size

    def _remove(self, offset: int, size: int) -> None:
        del self.by_size[bisect.bisect_left(self.by_size, (size, offset))]
        del self.by_start[offset]
        del self.by_end[offset + size]

    def take(self, size: int) -> int:
        at = bisect.bisect_left(self.by_size, (size, 0))
        if at < len(self.by_size):
            found, offset = self.by_size[at]
            self._remove(offset, found)
            if found > size:
                self._insert(offset + size, found - size)
            return offset
        last = self.by_end.get(self.top)
        if last is not None:  # grow the free block at the end
            offset = self.top - last
            self._remove(offset, last)
            self.top = offset + size
            return offset
        offset = self.top
        self.top += size
        return offset

    def release(self, offset: int, size: int) -> None:
        before = self.by_end.get(offset)
        if before is not None:
            self._remove(offset - before, before)
            offset -= before
            size += before
        after = self.by_start.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        self._insert(offset, size)
