"""Which results are written over operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats.artifact import ALLOCATION_RESULT as RESULT
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.memory.inplace import in_place_operands
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen.kernels import test_fft as transforms
from tests.core.compiler.codegen.kernels.test_packed_dot import product, random
from tests.core.compiler.test_native import NativeSimulation


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


def scaled_sum(c: Instruction, w: Instruction) -> Instruction:
    """The product adds the operand itself."""
    return op("subtract", w, op("multiply", number(0.125, *c.dims), c))


def momentum(c: Instruction, w: Instruction) -> Instruction:
    """A fusion behind the product reads the operand twice."""
    return op("subtract", op("multiply", w, w), op("maximum", c, w))


@pytest.mark.parametrize("update", [scaled_sum, momentum])
@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize(("k", "pieces"), [(64, "one"), (5000, "several")])
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
def test_products_are_written_over_what_they_are_added_to(
    update: Callable[[Instruction, Instruction], Instruction],
    batch: int,
    k: int,
    pieces: str,
    level: str,
) -> None:
    """As weights are updated by gradients, where the last tiles have rows of others too: 67 is a prime number."""
    made = product((F32, F32), F32, 67, 192, k, batch=batch)
    w = hlo.parameter(2, made.shape)
    parameters = [*made.operands, w]
    values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
    got = []
    for aliases in ((), ((0, 2, False),)):
        before = module(parameters, update(made, w), input_output_aliases=aliases)
        after = pipeline.run(before, for_cpu(level, False), Dump())
        assert after.entry.results[0].opcode in ("packed-dot", "fusion")
        (config,) = filter(None, map(config_of, after.entry.instructions))
        assert 67 % config["rows"]
        assert 192 % config["width"] == 0
        found = buffers.assign(after)
        assert [a.aliased_parameter for a in found.allocations if a.kind == RESULT] == (
            [2] if aliases else [-1]
        )
        assert not any(found.moves.values())
        got += NativeSimulation(after, level).run([v.copy() for v in values])
    np.testing.assert_array_equal(*got)


def config_of(i: Instruction) -> dict[str, Any] | None:
    """The configuration of a packed product, or of that in a fusion."""
    if i.opcode == "fusion":
        return next(filter(None, map(config_of, i.called[0].instructions)), None)
    return i.attributes["config"] if i.opcode == "packed-dot" else None


def test_products_whose_tiles_share_columns_are_not_written_over_operands() -> None:
    made = product((F32, F32), F32, 87, 90, 83)
    w = hlo.parameter(2, made.shape)
    before = module([*made.operands, w], momentum(made, w), input_output_aliases=((0, 2, False),))
    after = pipeline.run(before, for_cpu("x86-64-v3", False), Dump())
    (made,) = after.entry.results
    assert config_of(made)
    assert in_place_operands(made) == [()]
