"""Which results are written over operands."""

from __future__ import annotations

import pytest
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.memory.inplace import in_place_operands

from tests.core.compiler.codegen.kernels import test_fft as transforms


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("lengths", [(18, 48, 16), (19, 5, 7), (33, 24, 30)])
def test_a_dimension_is_transformed_in_its_place(kind: str, lengths: tuple[int, ...]) -> None:
    """The outer dimension, where no group of vectors reads what another one has written."""
    x = transforms.operand(kind, (), lengths, False, 4)
    (got,), _, after = transforms.run([(kind, lengths, x)], "x86-64-v3")
    transforms.check(got, kind, lengths, x)
    (outer,) = (
        i
        for i in after.entry.instructions
        if i.opcode == "fft-pass" and i.attributes["config"]["n"] == lengths[0]
    )
    columns = lengths[2] if "R" not in kind else lengths[2] // 2 + 1
    in_place = lengths[1] * columns % outer.attributes["config"]["lanes"] == 0
    assert in_place_operands(outer) == [(0,) if in_place else ()]
    assignment = buffers.assign(after)
    if kind in ("FFT", "RFFT"):  # whose operand is not the program's
        one, other = (assignment.slices(i)[0] for i in (outer.operands[0], outer))
        assert (one == other) == in_place


def test_numbers_that_are_read_turned_are_not_written_over() -> None:
    """The second pass over a long row reads its columns and writes its rows."""
    x = transforms.operand("FFT", (1,), (1 << 15,), False, 0)
    first, second = (
        i
        for i in transforms.run([("FFT", (1 << 15,), x)])[2].entry.instructions
        if i.opcode == "fft-pass"
    )
    assert in_place_operands(first) == [(0,)]
    assert in_place_operands(second) == [()]


def test_rows_in_one_kernel_are_written_over() -> None:
    """A second transform of the rows that the first one gave: both halves of a row are one unit."""
    x = transforms.operand("FFT", (20,), (6000,), False, 0)
    (one,) = (
        i
        for i in transforms.run([("FFT", (6000,), x)])[2].entry.instructions
        if i.opcode == "fft-pass"
    )
    assert in_place_operands(one) == [(0,)]


@pytest.mark.parametrize(("rows", "in_place"), [(64, True), (65, False)])
def test_rows_of_prime_length_are_written_over(rows: int, in_place: bool) -> None:
    """Where no group of them has a row of another one. There are enough of them for any width of vectors."""
    x = transforms.operand("FFT", (rows,), (211,), False, 0)
    (one,) = (
        i
        for i in transforms.run([("FFT", (211,), x)])[2].entry.instructions
        if i.opcode == "fft-pass"
    )
    assert "pass" in one.attributes["config"]
    assert in_place_operands(one) == [(0,) if in_place else ()]
