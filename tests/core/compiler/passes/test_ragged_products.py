"""Products of groups of rows as loops over groups and blocks of rows."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, F32, S32, S64, U8
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import DotDimensionNumbers, Instruction, Module, Shape
from tripont.core.compiler.passes.decompose import decompose
from tripont.core.compiler.passes.ragged_products import _block
from tripont.core.compiler.reference.evaluate import evaluate

from tests.conformance import device
from tests.core.compiler.builders import module
from tests.fuzz import ways

INFINITY = float("inf")
# Sizes of groups, of 20 rows: all rows, without rows, with rows behind the last, more rows than there are, none at all.
SIZES = {
    "all": [7, 0, 13],
    "some": [0, 3, 0, 9],
    "the last row": [19, 1],
    "one group": [20],
    "too many": [11, 12, 5],
    "none": [0, 0],
    "more groups than rows": [1, 0] * 20 + [0],
}


def ragged(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    result: tuple[int, ...],
    numbers: DotDimensionNumbers,
    places: tuple[int, int],
    groups: int,
    dtype=F32,
    sizes=S32,
) -> Module:
    parameters = [
        hlo.parameter(0, Shape(dtype, lhs)),
        hlo.parameter(1, Shape(dtype, rhs)),
        hlo.parameter(2, Shape(sizes, (groups,))),
    ]
    attributes = {
        "dimension_numbers": numbers,
        "ragged": places[0],
        "group": places[1],
        "precision": ("DEFAULT", "DEFAULT"),
    }
    return module(
        parameters, Instruction("ragged-dot", Shape(dtype, result), parameters, attributes)
    )


def whole_numbers(seed: int, dims: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(np.float32)


def of_each_group(sizes, rows: int) -> list[slice]:
    ends = np.minimum(np.cumsum(sizes), rows)
    return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]


def compiled(before: Module, arguments: list[np.ndarray]) -> np.ndarray:
    """The result of our kernels: passes change a module's text, so that this comes last."""
    return device.run(compile_module(before, device.OPTIONS), arguments)[0]


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_rows(sizes) -> None:
    groups = len(sizes)
    lhs, rhs = whole_numbers(0, (20, 6)), whole_numbers(1, (groups, 6, 5))
    want = np.zeros((20, 5), np.float32)
    for n, rows in enumerate(of_each_group(sizes, 20)):
        want[rows] = lhs[rows] @ rhs[n]
    before = ragged(
        (20, 6), (groups, 6, 5), (20, 5), DotDimensionNumbers((1,), (1,)), (0, 0), groups
    )
    same_everywhere(before, [lhs, rhs, np.array(sizes, np.int32)], want)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_contracted_rows(sizes) -> None:
    groups = len(sizes)
    lhs, rhs = whole_numbers(0, (6, 20)), whole_numbers(1, (20, 5))
    want = np.array([lhs[:, rows] @ rhs[rows] for rows in of_each_group(sizes, 20)])
    before = ragged(
        (6, 20), (20, 5), (groups, 6, 5), DotDimensionNumbers((1,), (0,)), (1, -1), groups
    )
    same_everywhere(before, [lhs, rhs, np.array(sizes, np.int32)], want)


def same_everywhere(before: Module, arguments: list[np.ndarray], want: np.ndarray) -> None:
    """The evaluator's value, that of the loops, and what the kernels make: whole numbers, so to the bit."""
    np.testing.assert_array_equal(evaluate(before, arguments)[0], want)
    after = decompose(before)
    assert not after.has("ragged-dot")
    np.testing.assert_array_equal(evaluate(after, arguments)[0], want)
    np.testing.assert_array_equal(compiled(before, arguments), want)


def test_dimensions_in_any_order() -> None:
    """A batch, rows behind what is contracted, and the groups last: lhs [k, batch, rows], rhs [n, batch, k, groups]."""
    lhs, rhs, sizes = whole_numbers(0, (6, 2, 20)), whole_numbers(1, (5, 2, 6, 3)), [7, 0, 13]
    want = np.zeros((2, 20, 5), np.float32)
    for n, rows in enumerate(of_each_group(sizes, 20)):
        want[:, rows] = np.einsum("kbm,nbk->bmn", lhs[:, :, rows], rhs[..., n])
    numbers = DotDimensionNumbers((0,), (2,), (1,), (1,))
    before = ragged(lhs.shape, rhs.shape, want.shape, numbers, (2, 3), 3)
    same_everywhere(before, [lhs, rhs, np.array(sizes, np.int32)], want)


@pytest.mark.parametrize("dtype", [U8, S64], ids=str)
def test_types_of_sizes(dtype) -> None:
    """A size beyond the rows, which s32 or the type itself does not hold, is that of the rest."""
    lhs, rhs = whole_numbers(0, (300, 2)), whole_numbers(1, (2, 2, 3))
    largest = int(np.iinfo(dtype.numpy).max)
    want = np.concatenate([lhs[:9] @ rhs[0], lhs[9:][: min(largest, 291)] @ rhs[1]])
    want = np.concatenate([want, np.zeros((300 - len(want), 3), np.float32)])
    numbers = DotDimensionNumbers((1,), (1,))
    before = ragged(lhs.shape, rhs.shape, want.shape, numbers, (0, 0), 2, sizes=dtype)
    arguments = [lhs, rhs, np.array([9, largest], dtype.numpy)]
    np.testing.assert_array_equal(compiled(before, arguments), want)


def test_negative_sizes_are_none() -> None:
    lhs, rhs = whole_numbers(0, (20, 6)), whole_numbers(1, (3, 6, 5))
    numbers = DotDimensionNumbers((1,), (1,))
    before = ragged((20, 6), (3, 6, 5), (20, 5), numbers, (0, 0), 3)
    got = compiled(before, [lhs, rhs, np.array([-5, 20, -(2**31)], np.int32)])
    np.testing.assert_array_equal(got, lhs @ rhs[1])


@pytest.mark.parametrize("contracted", [False, True])
def test_infinities_of_another_group_stay_there(contracted: bool) -> None:
    """A block holds rows of other groups, and 0 times infinity is no number."""
    rows = whole_numbers(0, (20, 6))
    rows[7:] = INFINITY
    sizes = np.array([7, 13], np.int32)
    if contracted:
        numbers = DotDimensionNumbers((0,), (0,))
        before = ragged((20, 6), (20, 6), (2, 6, 6), numbers, (0, -1), 2)
        got = compiled(before, [rows, rows, sizes])
        np.testing.assert_array_equal(got[0], rows[:7].T @ rows[:7])
    else:
        matrices = np.abs(whole_numbers(1, (2, 6, 5))) + 1
        before = ragged((20, 6), (2, 6, 5), (20, 5), DotDimensionNumbers((1,), (1,)), (0, 0), 2)
        got = compiled(before, [rows, matrices, sizes])
        np.testing.assert_array_equal(got[:7], rows[:7] @ matrices[0])
        assert np.isinf(got[7:]).all()


def test_sums_of_short_floats_are_rounded_once() -> None:
    """4,096 ones in blocks of 128: bf16 would stay at 256."""
    ones = np.ones((4096, 2)).astype(BF16.numpy)
    numbers = DotDimensionNumbers((0,), (0,))
    before = ragged(ones.shape, ones.shape, (1, 2, 2), numbers, (0, -1), 1, BF16)
    got = compiled(before, [ones, ones, np.array([4096], np.int32)])
    np.testing.assert_array_equal(got.astype(np.float32), np.full((1, 2, 2), 4096))


@pytest.mark.parametrize(
    ("lhs", "rhs", "groups"),
    [((0, 6), (3, 6, 5), 3), ((20, 0), (3, 0, 5), 3), ((20, 6), (0, 6, 5), 0)],
)
def test_nothing_to_add_up(lhs, rhs, groups) -> None:
    numbers = DotDimensionNumbers((1,), (1,))
    before = ragged(lhs, rhs, (lhs[0], 5), numbers, (0, 0), groups)
    got = compiled(
        before, [np.ones(lhs, np.float32), np.ones(rhs, np.float32), np.zeros(groups, np.int32)]
    )
    np.testing.assert_array_equal(got, np.zeros((lhs[0], 5)))


def test_no_array_is_larger_than_operands_and_result() -> None:
    """JAX's way for other platforms has one of groups x rows x terms."""
    before = ragged((512, 64), (16, 64, 32), (512, 32), DotDimensionNumbers((1,), (1,)), (0, 0), 16)
    after = decompose(before)
    largest = max(
        shape.elements
        for computation in after.computations()
        for i in computation.instructions
        for shape in i.result_shapes
        if isinstance(shape, Shape)
    )
    assert largest == 512 * 64


@pytest.mark.parametrize(
    ("rows", "groups", "block"),
    [
        (1, 1, 1),
        (5, 9, 5),
        (16, 32, 8),
        (512, 8, 16),
        (2048, 16, 32),
        (4096, 2, 128),
        (100_000, 2, 128),
    ],
)
def test_blocks(rows: int, groups: int, block: int) -> None:
    assert _block(rows, groups) == block


@pytest.mark.parametrize(
    ("lists", "sizes", "says"),
    [
        ([[1], [1], [0], []], "3", "rhs has a dimension of groups where they are not contracted"),
        ([[1], [1], [0], [0]], "2", "rhs has 3 groups and not 2"),
        ([[1], [2], [0], [0]], "3", "paired dimensions have sizes"),
        ([[1], [1], [7], [0]], "3", "lhs has no such ragged dimension"),
        ([[1], [1], [0], [5]], "3", "rhs dimensions"),
        ([[1], [1], [0], [0]], "6x3", "groups whose sizes depend on another dimension"),
        ([[1], [1], [0, 0], [0]], "3", "groups whose sizes depend on another dimension"),
    ],
    ids=str,
)
def test_calls_that_are_wrong(lists, sizes: str, says: str) -> None:
    """As PyTorch/XLA writes them, which nobody has checked before."""
    names = ("lhs_contracting", "rhs_contracting", "lhs_ragged", "rhs_group")
    written = ", ".join(
        f"{name}_dimensions = array<i64{': ' * bool(list_)}{', '.join(map(str, list_))}>"
        for name, list_ in zip(names, lists, strict=True)
    )
    with pytest.raises(CompileError, match=says):
        ways.load(call_of(written, sizes), device.OPTIONS)


@pytest.mark.parametrize("written", ['"1"', "1.5 : f32", '["x"]', "{a = 1 : i64}"])
def test_dimensions_that_are_no_integers(written: str) -> None:
    with pytest.raises(CompileError, match="lhs_contracting_dimensions"):
        ways.load(call_of(f"lhs_contracting_dimensions = {written}", "3"), device.OPTIONS)


def call_of(attributes: str, sizes: str) -> str:
    target = f"tripont.ragged_dot$attributes{{{attributes}}}".replace('"', "\\22")
    types = f"tensor<6x4xf32>, %b: tensor<3x4x5xf32>, %c: tensor<{sizes}xi32>"
    return f"""func.func @main(%a: {types}) -> tensor<6x5xf32> {{
      %r = stablehlo.custom_call @"{target}"(%a, %b, %c)
        : ({types.replace("%b: ", "").replace("%c: ", "")}) -> tensor<6x5xf32>
      return %r : tensor<6x5xf32>
    }}"""
