"""Groups of features that become one dimension, where sums over positions and a group's members are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tripont.core.compiler.fusion.fuse import fuse
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.passes.merged_groups import merge_groups

from tests.core.compiler.builders import module, number, op, opcodes, parameter, priced, reduce

from .test_passes import check

# Small programs are merged too, whatever is spread.
EAGER = priced(components={"least": 8, "members": 64, "spread": 1.0})
N, H, W, GROUPS, MEMBERS = 2, 4, 5, 3, 6
IMAGE = (N, H, W, GROUPS * MEMBERS)
PARTS = (N, H, W, GROUPS, MEMBERS)


def spread(x: Instruction, dims: tuple[int, ...], *dimensions: int) -> Instruction:
    return hlo.broadcast(x, dims, dimensions)


def reshape(x: Instruction, *dims: int) -> Instruction:
    return op("reshape", x, dims=dims)


def normalised(x: Instruction) -> tuple[Instruction, Instruction]:
    """``x`` of IMAGE in groups, less its mean and with the variance 1; and the sums of squares."""
    parts = reshape(x, *PARTS)
    mean = op("multiply", reduce(parts, [1, 2, 4]), number(1 / (H * W * MEMBERS), N, GROUPS))
    rest = op("subtract", parts, spread(mean, PARTS, 0, 3))
    squares = reduce(op("multiply", rest, rest), [1, 2, 4])
    factor = op("rsqrt", op("add", squares, number(0.5, N, GROUPS)))
    return op("multiply", rest, spread(factor, PARTS, 0, 3)), squares


def group_norm() -> Module:
    x, scale = parameter(0, *IMAGE), parameter(1, IMAGE[-1])
    y = reshape(normalised(x)[0], *IMAGE)
    return module([x, scale], op("multiply", y, spread(scale, IMAGE, 3)))


def one_image() -> Module:
    """The sums are of an array without the dimension of one image."""
    x = parameter(0, 1, *IMAGE[1:])
    parts = reshape(x, 1, *PARTS[1:])
    total = reduce(reshape(op("multiply", parts, parts), *PARTS[1:]), [0, 1, 3])
    return module([x], reshape(op("divide", parts, spread(total, parts.dims, 3)), *x.dims))


def gradient() -> Module:
    """Sums of products, over other dimensions too; and an array with groups as a result."""
    x, g = parameter(0, *IMAGE), parameter(1, *PARTS)
    y, squares = normalised(x)
    both = op("multiply", y, g)
    back = op("add", both, spread(reduce(both, [1, 2, 4]), PARTS, 0, 3))
    return module(
        [x, g], back, squares, reduce(both, [0, 1, 2]), reduce(both, [1]), reduce(both, [0, 3, 4]),
        reduce(both, [1, 3]), reshape(back, N * H, W * GROUPS, MEMBERS),
    )  # fmt: skip


def scaled() -> Module:
    """Arrays that differ by group and member, by member alone, by neither, and a scalar's choice."""
    x = parameter(0, *IMAGE)
    scale, bias, row = parameter(1, GROUPS, MEMBERS), parameter(2, MEMBERS), parameter(3, N, W)
    y = op("multiply", normalised(x)[0], spread(scale, PARTS, 3, 4))
    y = op("add", op("add", y, spread(bias, PARTS, 4)), spread(row, PARTS, 0, 2))
    y = op("add", y, number(2.0, *PARTS))
    return module([x, scale, bias, row], reshape(y, *IMAGE), reduce(y, [1, 4], "maximum", -9))


PROGRAMS = [group_norm, one_image, gradient, scaled]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_programs_compute_stays_and_no_loop_has_members(program: Callable[[], Module]) -> None:
    after = check(merge_groups, program(), 1e-5, EAGER)
    for i in after.entry.instructions:
        if i.is_elementwise:
            assert i.dims[-1:] != (MEMBERS,), i


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_spread_over_members_lies_in_memory(program: Callable[[], Module]) -> None:
    """A loop over positions would divide an index for each element that it reads of it."""
    target = priced(components={"least": 8, "members": 64, "spread": 1.0}, fusion={"repeated": 4.0})
    after = fuse(merge_groups(program(), target), target)
    for i in after.entry.instructions:
        if i.opcode == "fusion":
            body = [b for b in i.called[0].instructions if isinstance(b.shape, hlo.Shape)]
            repeats = [b for b in body if b.opcode == "broadcast" and b.dims[-2:] == PARTS[-2:]]
            assert not repeats or max(b.elements for b in body) < N * H * W * MEMBERS


def _of(dims: tuple[int, ...], dimensions: list[int], **fields: object) -> Module:
    x = parameter(0, *dims, **fields)  # type: ignore[arg-type]
    y = op("multiply", x, x)
    return module([x], reduce(y, dimensions))


@pytest.mark.parametrize(
    ("dims", "dimensions"),
    [
        (PARTS, [4]),  # rows that lie beside one another
        (PARTS, [3, 4]),
        (PARTS, [1, 2]),
        ((N, 1, 1, GROUPS, MEMBERS), [1, 2, 4]),
        ((N, H, W, GROUPS, 65), [1, 2, 4]),  # long rows
        ((N, H, W, 1, MEMBERS), [1, 2, 4]),
        ((MEMBERS,), [0]),
    ],
)
def test_other_sums_stay(dims: tuple[int, ...], dimensions: list[int]) -> None:
    before = _of(dims, dimensions)
    assert merge_groups(before, EAGER) is before


def test_groups_with_other_readers_stay() -> None:
    x = parameter(0, *PARTS)
    y = op("multiply", x, x)
    total = reduce(y, [1, 2, 4])
    turned = op("transpose", y, dims=(*PARTS[:3], MEMBERS, GROUPS), dimensions=(0, 1, 2, 4, 3))
    before = module([x], total, turned)
    assert merge_groups(before, EAGER) is before


def test_what_is_nearly_as_large_is_not_spread() -> None:
    target = priced(components={"least": 8, "members": 64, "spread": 8.0})
    x, each = parameter(0, *PARTS), parameter(1, N, H, W, GROUPS)
    y = op("multiply", x, spread(each, PARTS, 0, 1, 2, 3))
    before = module([x, each], reduce(y, [1, 2, 4]))
    assert merge_groups(before, target) is before


def test_sums_of_short_floats_are_not_rounded_twice() -> None:
    x = parameter(0, *PARTS, dtype=BF16)
    before = module([x], reduce(x, [1, 2, 4]))
    assert merge_groups(before, EAGER) is before


def test_a_start_counts_once() -> None:
    x = parameter(0, *PARTS)
    after = check(merge_groups, module([x], reduce(x, [1, 2, 4], "add", 7.0)), 1e-5, EAGER)
    assert opcodes(after.entry).count("reduce") == 2
