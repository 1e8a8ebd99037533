"""The shape of a language model of Llama's kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Llama:
    """A model of Llama's kind. ``heads`` of queries, ``shared`` heads of keys and values."""

    layers: int
    width: int
    heads: int
    shared: int
    wide: int
    tokens: int

    @property
    def head(self) -> int:
        return self.width // self.heads

    def matrices(self) -> list[tuple[int, int]]:
        """(terms, columns) of a layer's products, in their order."""
        few = self.shared * self.head
        square = (self.width, self.width)
        up = (self.width, self.wide)
        return [
            square,
            (self.width, few),
            (self.width, few),
            square,
            up,
            up,
            (self.wide, self.width),
        ]
