"""Weights of [n, k] that a program transposes before it scales them are read where they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import (
    Computation,
    DotDimensionNumbers,
    Instruction,
    Shape,
    TupleShape,
)
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.turned_weights import turn_weights
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import compare, module, number, op, parameter
from tests.core.compiler.test_native import NativeSimulation

F32, BF16, S8, S4 = dtypes.F32, dtypes.BF16, dtypes.S8, dtypes.S4
# Terms are whole groups; neither is a multiple of a vector's columns.
COLUMNS, TERMS, GROUP = 413, 672, 32
NUMBERS = DotDimensionNumbers((1,), (0,))


def turned(i: Instruction, *order: int) -> Instruction:
    order = order or (1, 0)
    return op("transpose", i, dims=[i.dims[d] for d in order], dimensions=order)


def shaped(i: Instruction, *dims: int) -> Instruction:
    return op("reshape", i, dims=dims)


def spread(i: Instruction, dims: Sequence[int], *places: int) -> Instruction:
    return op("broadcast", i, dims=dims, dimensions=places)


def floats(i: Instruction, dtype: DType) -> Instruction:
    return op("convert", i, dtype=dtype)


def dot_of(x: Instruction, w: Instruction) -> Instruction:
    dims = (x.dims[0], w.dims[1])
    return op("dot", x, w, dims=dims, dimension_numbers=NUMBERS, precision=("DEFAULT",) * 2)


class Given:
    """The parameters: rows, stored weights [n, k], and scales for each channel and for each group of terms."""

    def __init__(
        self, rows: int, stored: DType, dtype: DType, n: int = COLUMNS, k: int = TERMS
    ) -> None:
        self.n, self.k = n, k
        self.x = parameter(0, rows, k, dtype=dtype)
        self.w = parameter(1, n, k, dtype=stored)
        self.scales = parameter(2, n, dtype=dtype)
        self.group_scales = parameter(3, n, k // GROUP, dtype=dtype)
        self.zeros = parameter(4, n, dtype=stored)

    @property
    def parameters(self) -> list[Instruction]:
        return [self.x, self.w, self.scales, self.group_scales, self.zeros]

    @property
    def dtype(self) -> DType:
        found: DType = self.x.dtype
        return found

    def by_columns(self, i: Instruction) -> Instruction:
        """A number for each channel, as a matrix [k, n]."""
        return spread(i, (self.k, self.n), 1)

    def repeated(self) -> Instruction:
        """The scales of the groups, each as often as it is used, as [k, n]."""
        scales = turned(self.group_scales)
        each = spread(scales, (self.k // GROUP, GROUP, self.n), 0, 2)
        return shaped(each, self.k, self.n)


def turned_floats(g: Given) -> Instruction:
    return op("multiply", turned(floats(g.w, g.dtype)), g.by_columns(g.scales))


def turned_codes(g: Given) -> Instruction:
    return op("multiply", floats(turned(g.w), g.dtype), g.by_columns(g.scales))


def divided(g: Given) -> Instruction:
    return op("divide", floats(turned(g.w), g.dtype), g.by_columns(g.scales))


def scales_first(g: Given) -> Instruction:
    return op("multiply", g.by_columns(g.scales), turned(floats(g.w, g.dtype)))


def with_zeros(g: Given) -> Instruction:
    codes = floats(turned(g.w), g.dtype)
    centred = op("subtract", codes, g.by_columns(floats(g.zeros, g.dtype)))
    return op("multiply", centred, g.by_columns(g.scales))


def unscaled(g: Given) -> Instruction:
    return floats(turned(g.w), g.dtype)


def repeated(g: Given) -> Instruction:
    return op("multiply", floats(turned(g.w), g.dtype), g.repeated())


def repeated_and_turned(g: Given) -> Instruction:
    dims = (g.n, g.k // GROUP, GROUP)
    each = shaped(spread(g.group_scales, dims, 0, 1), g.n, g.k)
    return op("multiply", turned(floats(g.w, g.dtype)), turned(each))


def in_groups(g: Given) -> Instruction:
    dims = (g.k // GROUP, GROUP, g.n)
    codes = floats(shaped(turned(g.w), *dims), g.dtype)
    scaled = op("multiply", codes, spread(turned(g.group_scales), dims, 0, 2))
    return shaped(scaled, g.k, g.n)


FORMS = [
    turned_floats,
    turned_codes,
    divided,
    scales_first,
    with_zeros,
    unscaled,
    repeated,
    repeated_and_turned,
    in_groups,
]
Form = Callable[[Given], Instruction]
of_forms = pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)


def values_of(g: Given) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    found = []
    for p in g.parameters:
        if p.dtype.is_integer:
            values = random.integers(-8, 8, p.dims)
        elif p is g.x:
            values = random.standard_normal(p.dims)
        else:
            values = random.uniform(0.25, 2.0, p.dims)
        found.append(values.astype(p.dtype.numpy))
    return found


def wanted_of(form: Form, values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The result in double precision, and the sums of the magnitudes of its terms."""
    x, w, scales, group_scales, zeros = (v.astype(np.float64) for v in values)
    if form is divided:
        w = w / scales[:, None]
    elif form is with_zeros:
        w = (w - zeros[:, None]) * scales[:, None]
    elif form in (repeated, repeated_and_turned, in_groups):
        w = w * np.repeat(group_scales, GROUP, axis=1)
    elif form is not unscaled:
        w = w * scales[:, None]
    return x @ w.T, np.abs(x) @ np.abs(w.T)


@pytest.mark.parametrize(
    ("cpu", "rows", "stored", "dtype"),
    [
        ("x86-64-v2", 1, S8, BF16),
        ("x86-64-v3", 3, S8, F32),
        ("x86-64-v4", 8, S4, BF16),
        ("host", 1, S8, BF16),
        ("x86-64-v2", 20, S4, F32),
        ("x86-64-v3", 20, S8, BF16),
        ("x86-64-v4", 9, S8, F32),
        ("host", 33, S8, BF16),
    ],
)
@of_forms
def test_forms(form: Form, cpu: str, rows: int, stored: DType, dtype: DType) -> None:
    """Nothing of the matrix's size is written, and the sums are those of double precision within their bound."""
    g = Given(rows, stored, dtype)
    before = module(g.parameters, dot_of(g.x, form(g)))
    after = pipeline.run(before, for_cpu(cpu, False), Dump())
    written = [i.opcode for i in after.entry.instructions if i.elements == g.n * g.k]
    assert written == ["parameter"]
    values = values_of(g)
    (got,) = NativeSimulation(after, cpu).run(values)
    wanted, magnitude = wanted_of(form, values)
    bound = (TERMS * 2.0**-24 + (2.0**-7 if dtype is BF16 else 0)) * magnitude
    assert (np.abs(got.astype(np.float64) - wanted) <= bound).all()


@of_forms
def test_infinite_scales(form: Form) -> None:
    g = Given(1, S8, F32)
    after = pipeline.run(module(g.parameters, dot_of(g.x, form(g))), for_cpu("host", False), Dump())
    values = values_of(g)
    values[2][5] = values[3][5, 3] = np.inf
    values[2][7] = values[3][7, 0] = np.nan
    (got,) = NativeSimulation(after, "host").run(values)
    with np.errstate(invalid="ignore"):
        wanted, _ = wanted_of(form, values)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    finite = ~np.isnan(wanted)
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=1e-3, atol=1e-2)


def test_heads() -> None:
    """A reshape that divides the columns of the transpose divides the rows of what lies in memory."""
    n, k = 8 * 48, TERMS
    g = Given(2, S8, F32, n, k)
    split = shaped(turned_floats(g), k, 8, 48)
    dot = op("dot", g.x, split, dims=(2, 8, 48), dimension_numbers=NUMBERS, precision=())
    after = pipeline.run(module(g.parameters, dot), for_cpu("host", False), Dump())
    assert [i.opcode for i in after.entry.instructions if i.elements == n * k] == ["parameter"]
    values = values_of(g)
    (got,) = NativeSimulation(after, "host").run(values)
    wanted, magnitude = wanted_of(turned_floats, values)
    assert (np.abs(got.reshape(2, n) - wanted) <= TERMS * 2.0**-24 * magnitude).all()


def test_a_matrix_on_the_left() -> None:
    g = Given(1, S8, F32)
    scaled = op("multiply", turned(floats(g.w, F32)), g.by_columns(g.scales))
    dot = op(
        "dot",
        scaled,
        shaped(g.x, TERMS),
        dims=(COLUMNS,),
        dimension_numbers=DotDimensionNumbers((0,), (0,)),
        precision=(),
    )
    after = pipeline.run(module(g.parameters, dot), for_cpu("host", False), Dump())
    written = [i.opcode for i in after.entry.instructions if i.elements == g.n * g.k]
    assert written == ["parameter"]
    values = values_of(g)
    (got,) = NativeSimulation(after, "host").run(values)
    wanted, magnitude = wanted_of(turned_floats, values)
    assert (np.abs(got - wanted[0]) <= TERMS * 2.0**-24 * magnitude[0]).all()


def unchanged(g: Given, matrix: Instruction) -> bool:
    before = module(g.parameters, dot_of(g.x, matrix))
    return turn_weights(before, for_cpu("x86-64-v3", False)) is before


def test_what_stays() -> None:
    """Many rows by what takes as much memory as the matrix; a matrix without a transpose, or with one behind it; and
    one that must be transposed either way.
    """
    many = Given(200, F32, F32)
    assert unchanged(many, turned_floats(many))
    fewer_bits = Given(200, S8, F32)
    assert not unchanged(fewer_bits, turned_floats(fewer_bits))
    g = Given(1, S8, F32)
    assert not unchanged(g, turned_floats(g))
    scaled = op("multiply", floats(g.w, F32), spread(g.scales, (g.n, g.k), 0))
    assert unchanged(g, turned(scaled))
    square = Given(1, S8, F32, TERMS, TERMS)
    codes = floats(square.w, F32)
    assert unchanged(square, op("multiply", codes, square.by_columns(square.scales)))
    assert unchanged(square, op("multiply", codes, turned(op("negate", codes))))


def test_reshapes_that_join_what_a_transpose_parted() -> None:
    """Such a matrix is no transpose of what lies in memory: it is computed as the program has it."""
    w = parameter(1, 24, 28, 32, dtype=S8)
    x = parameter(0, 1, 28 * 24, dtype=F32)
    joined = shaped(floats(turned(w, 1, 0, 2), F32), 28 * 24, 32)
    scaled = op("multiply", joined, number(0.5, 28 * 24, 32))
    after = pipeline.run(module([x, w], dot_of(x, scaled)), for_cpu("host", False), Dump())
    random = np.random.default_rng(0)
    values = [random.integers(-5, 6, p.dims).astype(p.dtype.numpy) for p in (x, w)]
    (got,) = NativeSimulation(after, "host").run(values)
    matrix = values[1].astype(np.float64).transpose(1, 0, 2).reshape(28 * 24, 32) * 0.5
    np.testing.assert_array_equal(got, values[0] @ matrix)


@pytest.mark.parametrize("is_turned", [False, True])
def test_each_instruction_is_looked_at_once(is_turned: bool) -> None:
    """Twenty-three squares of squares have eight million ways from the last one to the first."""
    rows, small = parameter(0, 1, TERMS), parameter(2, 3, 5)
    weights = parameter(1, COLUMNS, TERMS) if is_turned else parameter(1, TERMS, COLUMNS)
    powers = turned(weights) if is_turned else weights
    for _ in range(23):
        powers = op("multiply", powers, powers)
    program = module([rows, weights, small], dot_of(rows, powers), turned(small))
    assert turn_weights(program, for_cpu()).has("dot")


def test_weights_of_a_loop() -> None:
    """They are neither made nor transposed, in front of the loop or in it."""
    n = 512
    codes, scales = parameter(1, n, n, dtype=S8), parameter(2, n)
    shape = TupleShape((Shape(F32, (1, n)), codes.shape, scales.shape, Shape(dtypes.S32, ())))
    states = [hlo.parameter(index, each) for index, each in enumerate(shape.elements)]
    x, w, s, step = states
    scaled = op("multiply", floats(turned(w), F32), spread(s, (n, n), 1))
    following = op("add", step, number(1, dtype=dtypes.S32))
    root = Instruction("tuple", shape, (dot_of(x, scaled), w, s, following))
    body = Computation.from_root("body", states, root)
    before = [hlo.parameter(index, each) for index, each in enumerate(shape.elements)]
    goes_on = compare(before[3], number(3, dtype=dtypes.S32), "LT")
    condition = Computation.from_root("condition", before, goes_on)
    rows = parameter(0, 1, n)
    first = (rows, codes, scales, number(0, dtype=dtypes.S32))
    loop = Instruction("while", shape, first, {}, (condition, body))
    result = hlo.get_tuple_element(loop, 0)
    after = pipeline.run(module([rows, codes, scales], result), for_cpu("host", False), Dump())
    written = {
        i.opcode
        for c in after.computations()
        for i in c.instructions
        if isinstance(i.shape, Shape) and i.elements == n * n and "fus" not in c.name
    }
    assert written <= {"parameter", "get-tuple-element"}
