"""Numbers that turn out to stand for the same thing, such as the dimensions of arrays that are equal."""

from __future__ import annotations


class Classes:
    """The numbers from 0 on, each in a class of its own until it is joined with another one."""

    def __init__(self, count: int = 0) -> None:
        self._parent = list(range(count))

    def add(self, count: int) -> None:
        """``count`` numbers more."""
        self._parent += range(len(self._parent), len(self._parent) + count)

    def find(self, n: int) -> int:
        """The number that stands for the class of ``n``."""
        parent = self._parent
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    def join(self, a: int, b: int) -> None:
        """Make one class of those of ``a`` and ``b``; what stands for the second one stands for it."""
        self._parent[self.find(a)] = self.find(b)
