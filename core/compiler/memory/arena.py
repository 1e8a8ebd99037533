"""The temporary arena: offsets for groups of values, by best fit along the time axis."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from ..formats.artifact import ALIGNMENT
from .liveness import Group


def place_in_arena(groups: Sequence[Group], allocation: int) -> int:
    """Give every group an offset in the arena; its size."""
    events = sorted(groups, key=lambda g: (g.start, -g.size))
    ending = sorted(((g.end, n) for n, g in enumerate(events)))
    free = FreeList()
    next_end = 0
    for group in events:
        while next_end < len(ending) and ending[next_end][0] < group.start:
            done = events[ending[next_end][1]]
            free.release(done.offset, rounded(done.size))
            next_end += 1
        group.allocation = allocation
        group.offset = free.take(rounded(group.size))
    return free.top


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
