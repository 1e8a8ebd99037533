"""Rows of few elements, put into the order of memory by shuffles."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tripont.core.compiler.codegen.kernels.short_rows import unweave, weave
from tripont.core.compiler.codegen.llvm_ir import Value, vector


class Shuffles:
    """A builder that has shuffles alone, and knows what is in each lane."""

    def __init__(self) -> None:
        self.lanes: list[list[object]] = []
        self.count = 0

    def value(self, lanes: list[object]) -> Value:
        self.lanes.append(lanes)
        return Value(vector("float", len(lanes)), f"%v{len(self.lanes)}", len(self.lanes))

    def of(self, value: Value) -> list[object]:
        return self.lanes[value.number - 1]

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        self.count += 1
        both = self.of(a) + self.of(b)
        return self.value([both[lane] for lane in mask])


def woven(elements: int, lanes: int) -> tuple[list[object], Shuffles]:
    """The lanes of the results, each (row, element), and the builder."""
    b = Shuffles()
    values = [b.value([(row, n) for row in range(lanes)]) for n in range(elements)]
    results = weave(b, values)  # type: ignore[arg-type]
    assert len(results) == elements
    return [lane for result in results for lane in b.of(result)], b


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64])
def test_rows_lie_one_after_the_other(lanes: int) -> None:
    for elements in range(2, 20):
        assert woven(elements, lanes)[0] == [(r, n) for r in range(lanes) for n in range(elements)]


@pytest.mark.parametrize(
    ("elements", "most"), [(2, 2), (3, 6), (4, 8), (8, 24), (10, 42), (16, 64)]
)
def test_shuffles_are_not_as_many_as_elements_times_results(elements: int, most: int) -> None:
    assert woven(elements, 16)[1].count <= most


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_rows_are_taken_apart(lanes: int) -> None:
    for elements in range(1, 25):
        b = Shuffles()
        flat: list[object] = [(row, n) for row in range(lanes) for n in range(elements)]
        vectors = [b.value(flat[n * lanes : (n + 1) * lanes]) for n in range(elements)]
        columns = unweave(b, vectors)  # type: ignore[arg-type]
        assert [b.of(c) for c in columns] == [[(row, n) for row in range(lanes)] for n in range(elements)]  # fmt: skip
        assert b.count <= 2 * elements * elements.bit_length()


def test_elements_that_are_the_same_value() -> None:
    b = Shuffles()
    x, y = (b.value([(row, name) for row in range(4)]) for name in "xy")
    results = weave(b, [x, x, y, x, x])  # type: ignore[arg-type]
    found = [lane for result in results for lane in b.of(result)]
    assert found == [(row, name) for row in range(4) for name in "xxyxx"]
