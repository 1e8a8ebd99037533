"""Fusion: what becomes one kernel, and that values stay whatever is fused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tripont.core import _tripont
from tripont.core.compiler import pipeline
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.fusion.clusters import MOST_SHORT_ROW_CODE
from tripont.core.compiler.fusion.fuse import fuse
from tripont.core.compiler.ir import hlo, verifier
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.passes.common_subexpressions import eliminate_common_subexpressions
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import (
    S32,
    arguments,
    body,
    compare,
    module,
    number,
    op,
    parameter,
    reduce,
)
from tests.core.compiler.simulate import Simulation


def fused(*args) -> Module:
    """The module of these parameters and results after fusion, checked against the one before."""
    before = module(*args)
    before.assign_names()
    verifier.verify(before)
    after = fuse(before, for_cpu())
    after.assign_names()
    verifier.verify(after, "fuse")
    values = arguments(before)
    expected = evaluate(before, values)
    for actual in (evaluate(after, values), Simulation(after).run(values)):
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    return after


def kinds(module_: Module) -> list[str]:
    """The kernels in order: kinds of fusions, and opcodes of what is not fused."""
    aliases = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
    return [
        i.attributes["kind"] if i.opcode == "fusion" else i.opcode
        for i in module_.entry.instructions
        if i.opcode not in aliases
    ]


def transpose(x, *order):
    return op("transpose", x, dims=[x.dims[d] for d in order], dimensions=tuple(order))


def dot(a, b):
    numbers = hlo.DotDimensionNumbers((1,), (0,))
    return op(
        "dot",
        a,
        b,
        dims=(a.dims[0], b.dims[1]),
        dimension_numbers=numbers,
        precision=("DEFAULT",) * 2,
    )


def test_chain_is_one_loop() -> None:
    x, y = parameter(0, 9), parameter(1, 9)
    assert kinds(fused([x, y], op("tanh", op("add", op("multiply", x, number(2, 9)), y)))) == [
        "loop"
    ]


def test_several_results_are_one_loop() -> None:
    x = parameter(0, 9)
    e = op("exponential", x)
    assert kinds(fused([x], e, op("negate", e), op("add", e, x))) == ["loop"]


def test_siblings_that_read_the_same_are_one_loop() -> None:
    x = parameter(0, 9)
    assert kinds(fused([x], op("exponential", x), op("tanh", x))) == ["loop"]


def test_expensive_value_is_not_computed_per_row() -> None:
    x, y = parameter(0, 64), parameter(1, 32, 64)
    after = fused([x, y], op("add", hlo.broadcast(op("exponential", x), (32, 64), (1,)), y))
    assert kinds(after) == ["loop", "loop"]


def test_cheap_value_is_computed_per_row() -> None:
    x, y = parameter(0, 64), parameter(1, 32, 64)
    after = fused([x, y], op("add", hlo.broadcast(op("negate", x), (32, 64), (1,)), y))
    assert kinds(after) == ["loop"]


def test_expensive_value_of_two_kernels_is_stored_once() -> None:
    x, w = parameter(0, 8, 8), parameter(1, 8, 8)
    e = op("exponential", x)
    first = dot(e, w)
    after = fused([x, w], first, op("multiply", e, dot(first, w)))
    assert [k for k in kinds(after) if k != "dot"] == ["loop", "loop"]


def test_cheap_value_of_two_kernels_is_computed_twice() -> None:
    x, w, bias = parameter(0, 8, 8), parameter(1, 8, 8), parameter(2, 8)
    h = op("add", dot(x, w), hlo.broadcast(bias, (8, 8), (1,)))
    out = dot(op("tanh", h), w)
    after = fused([x, w, bias], out, op("multiply", h, out))
    stored = [
        i
        for i in after.entry.instructions
        if i.opcode == "fusion" and isinstance(i.shape, hlo.TupleShape)
    ]
    assert not stored  # h itself is never written


def test_value_that_is_copied_here_and_stored_there() -> None:
    """One reader computes a cheap value itself, another reads it: what it is made of serves both."""
    x, w = parameter(0, 8), parameter(1, 8, 8)
    total = reduce(w, (1,))
    positive = compare(total, hlo.broadcast(number(0.5), (8,)), "GT")
    kept = op("select", positive, total, op("negate", total), dtype=total.dtype)
    product = dot(hlo.broadcast(kept, (8, 8), (0,)), w)
    wide = hlo.broadcast(op("select", positive, x, total, dtype=x.dtype), (8, 8), (1,))
    fused([x, w], op("add", product, wide), positive)


def test_reduction_with_producer_and_epilogue() -> None:
    x = parameter(0, 16, 8)
    mean = op("multiply", reduce(op("exponential", x), (0,)), number(1 / 16, 8))
    assert kinds(fused([x], mean)) == ["reduce"]


def test_reductions_of_one_operand_are_one_kernel() -> None:
    x = parameter(0, 16, 8)
    assert kinds(fused([x], reduce(x, (0,)), reduce(op("multiply", x, x), (0,)))) == ["reduce"]


def test_reduction_that_starts_from_another_of_its_operand() -> None:
    x = parameter(0, 64)
    total = reduce(x, (0,))
    again = op("reduce", x, op("negate", total), dims=[], dimensions=(0,), called=[body("maximum")])
    assert kinds(fused([x], total, again)) == ["reduce", "reduce"]
    assert kinds(fused([x], again)) == ["reduce", "reduce"]


def test_reduction_writes_its_operand_too() -> None:
    x, w = parameter(0, 16, 8), parameter(1, 8, 8)
    y = op("exponential", x)
    after = fused([x, w], reduce(y, (0,)), dot(y, w))
    assert kinds(after) == ["reduce", "dot"]


def softmax(x):
    top = reduce(x, (1,), "maximum", -np.inf)
    e = op("exponential", op("subtract", x, hlo.broadcast(top, x.dims, (0,))))
    return op("divide", e, hlo.broadcast(reduce(e, (1,)), x.dims, (0,)))


def test_softmax_is_one_row_kernel() -> None:
    x = parameter(0, 6, 20)
    assert kinds(fused([x], softmax(x))) == ["row"]


def test_layer_norm_is_one_row_kernel() -> None:
    x, gamma = parameter(0, 6, 20), parameter(1, 20)
    mean = op("multiply", reduce(x, (1,)), number(1 / 20, 6))
    centred = op("subtract", x, hlo.broadcast(mean, x.dims, (0,)))
    variance = op("multiply", reduce(op("multiply", centred, centred), (1,)), number(1 / 20, 6))
    inverse = op("rsqrt", op("add", variance, number(1e-5, 6)))
    y = op("multiply", centred, hlo.broadcast(inverse, x.dims, (0,)))
    y = op("multiply", y, hlo.broadcast(gamma, x.dims, (1,)))
    assert kinds(fused([x, gamma], y, mean, inverse)) == ["row"]


def test_reduction_that_flows_back_elsewhere_is_no_row() -> None:
    x = parameter(0, 6, 20)
    total = reduce(x, (0,))
    after = fused([x], op("subtract", x, hlo.broadcast(total, x.dims, (1,))))
    assert kinds(after) == ["reduce", "loop"]


def test_long_rows_are_not_row_kernels() -> None:
    x = parameter(0, 1, 40_000)
    assert "row" not in kinds(fused([x], softmax(x)))


def function_of_sums(opcode: str, *dims: int) -> list[str]:
    """The kernels of a function of the sums along the last dimension."""
    x = parameter(0, *dims)
    total = reduce(x, (len(dims) - 1,))
    return kinds(fused([x], op(opcode, *([total] * (2 if opcode == "power" else 1)))))


def test_functions_of_short_rows_are_loops_of_their_own() -> None:
    """The sums come one by one; the functions go in vectors."""
    assert function_of_sums("log", 100, 20) == ["reduce", "loop"]
    assert function_of_sums("log", 3, 20) == ["reduce"]  # too few for another kernel
    assert function_of_sums("log", 100, 1000) == ["reduce"]  # next to nothing beside the sum
    assert function_of_sums("sqrt", 100, 20) == ["reduce"]  # one instruction
    assert function_of_sums("power", 20) == ["reduce"]  # a single one
    assert function_of_sums("log", 10, 100, 3) == ["reduce"]  # its vectors run along the results


def joined(size: int, pieces: int, *opcodes: str) -> list[str]:
    """The kernels of functions of quotients, each of an array of its own, that become elements of short rows."""
    parameters, columns = [], []
    for n in range(pieces):
        parameters.append(parameter(n, size))
        value = op("divide", parameters[-1], number(255, size))
        for opcode in opcodes:
            value = op(opcode, value)
        columns.append(op("reshape", op("negate", value), dims=(size, 1)))
    root = op("concatenate", *columns, dims=(size, pieces), dimension=1)
    return kinds(fused(parameters, root))


def test_pieces_of_short_rows_are_computed_where_they_are_joined() -> None:
    """Each of them is one element of a row, and no other: nothing is computed twice."""
    for size, pieces in ((400, 3), (64, 2), (100, 4)):
        assert joined(size, pieces) == ["loop"]
    # Rows that are longer, or fewer than a vector has lanes, are computed along the row.
    assert len(joined(400, 5)) > 1
    assert len(joined(20, 3)) > 1
    # The code of heavy functions is not written once for each element of a row.
    assert len(joined(400, 4, "tan", "tan", "tan", "tan")) > 1


@pytest.mark.parametrize("rounds", [1, 15, 30])
def test_long_code_of_pieces_is_cut_before_it_is_computed_for_all_elements(rounds: int) -> None:
    """A loop takes of its pieces what it computes column by column; the rest goes into loops of the columns."""
    size, pieces = 400, 3
    parameters = [parameter(n, size) for n in range(pieces)]
    long, *others = parameters
    for n in range(rounds):
        long = op("add", op("negate", long), number(n, size))
    columns = [
        op("reshape", op("sine", op("sine", value)), dims=(size, 1)) for value in (long, *others)
    ]
    root = op("concatenate", *columns, dims=(size, pieces), dimension=1)
    *first, last = [i for i in fused(parameters, root).entry.instructions if i.opcode == "fusion"]
    assert [i.dims for i in first] == [(size,)] * (rounds > 1)
    code = sum(map(for_cpu().costs.weight, last.called[0].instructions))
    assert code * pieces <= MOST_SHORT_ROW_CODE
    # It takes as much as there is room for: an addition and its constant would be too much.
    assert not first or (code + 2) * pieces > MOST_SHORT_ROW_CODE


def test_functions_of_sums_down_columns_stay_with_them() -> None:
    x = parameter(0, 20, 100)
    assert kinds(fused([x], op("log", reduce(x, (0,))))) == ["reduce"]


def test_variadic_reduction() -> None:
    values, numbers = parameter(0, 4, 9), parameter(1, 4, 9, dtype=S32)
    a, i, b, j = parameter(0), parameter(1, dtype=S32), parameter(2), parameter(3, dtype=S32)
    better = compare(a, b, "GT")
    picked = [op("select", better, p, q, dtype=p.dtype) for p, q in ((a, b), (i, j))]
    shape = hlo.TupleShape((a.shape, i.shape))
    best = hlo.Computation.from_root("best", [a, i, b, j], Instruction("tuple", shape, picked))
    result = hlo.TupleShape((hlo.Shape(a.dtype, (4,)), hlo.Shape(S32, (4,))))
    operands = [op("negate", values), numbers, number(-np.inf), number(0, dtype=S32)]
    both = Instruction("reduce", result, operands, {"dimensions": (1,)}, [best])
    after = fused([values, numbers], hlo.get_tuple_element(both, 1), hlo.get_tuple_element(both, 0))
    assert kinds(after) == ["reduce"]


def test_transpose_kind() -> None:
    x, y = parameter(0, 64, 32), parameter(1, 32, 64)
    assert kinds(fused([x, y], op("add", transpose(x, 1, 0), y))) == ["transpose"]


def test_update_in_place_takes_its_producers() -> None:
    x, i = parameter(0, 100), parameter(1, dtype=S32)
    old = op("dynamic-slice", x, i, dims=(4,), slice_sizes=(4,))
    new = op("dynamic-update-slice", x, op("exponential", old), i)
    assert kinds(fused([x, i], new)) == ["dynamic-update-slice"]


def test_update_does_not_read_its_target_elsewhere() -> None:
    x, i, j = parameter(0, 100), parameter(1, dtype=S32), parameter(2, dtype=S32)
    other = op("dynamic-slice", x, j, dims=(4,), slice_sizes=(4,))
    after = fused([x, i, j], op("dynamic-update-slice", x, op("exponential", other), i))
    assert kinds(after) == ["loop", "dynamic-update-slice"]


@pytest.mark.parametrize("is_computed", [True, False])
def test_a_scalar_that_is_updated_is_in_memory(is_computed: bool) -> None:
    """Without indices an update writes all of it; a scalar has no memory while it is written into code."""
    x = parameter(0)
    target = op("exponential", x) if is_computed else number(8.0)
    after = fused([x], op("negate", op("dynamic-update-slice", target, op("sqrt", x))))
    for fusion in (i for i in after.entry.instructions if i.opcode == "fusion"):
        roots = [i for i in fusion.called[0].instructions if i.opcode == "dynamic-update-slice"]
        assert all(i.operands[0].opcode == "parameter" for i in roots)


def test_a_stencil_is_computed_before_it_is_written() -> None:
    """Not each of the arrays that it is computed from is copied, of what the update is about to overwrite."""
    x = parameter(0, 20, 30)
    one = hlo.constant(1, S32)

    def moved(row: int, column: int) -> Instruction:
        starts = (1 + row, 1 + column)
        limits = (starts[0] + 18, starts[1] + 28)
        return op("slice", x, dims=(18, 28), starts=starts, limits=limits, strides=(1, 1))

    beside = op("add", moved(0, -1), moved(0, 1))
    middle = moved(0, 0)
    around = op("add", op("add", moved(-1, 0), moved(1, 0)), beside)
    new = op("add", op("subtract", around, middle), op("multiply", middle, middle))
    after = fused([x], op("dynamic-update-slice", x, new, one, one))
    assert kinds(after) == ["loop", "dynamic-update-slice"]
    (loop,) = [i for i in after.entry.instructions if i.opcode == "fusion"][:1]
    assert loop.shape.dims == (18, 28)


def test_an_update_takes_what_reads_one_row_of_its_target() -> None:
    x, y = parameter(0, 20, 30), parameter(1, 18, 28)
    one = hlo.constant(1, S32)
    row = op("slice", x, dims=(1, 28), starts=(0, 1), limits=(1, 29), strides=(1, 1))
    rows = op("broadcast", op("reshape", row, dims=(28,)), dims=(18, 28), dimensions=(1,))
    new = op("dynamic-update-slice", x, op("exponential", op("add", y, rows)), one, one)
    (update,) = [i for i in fused([x, y], new).entry.instructions if i.opcode == "fusion"][-1:]
    assert "exponential" in [i.opcode for i in update.called[0].instructions]


def test_slices_do_not_multiply() -> None:
    """Every level reads two slices of the level above: fused naively this is 2^12 loads."""
    x = parameter(0, 1 << 13)
    level = x
    for _ in range(12):
        n = level.dims[0] // 2
        pieces = [
            op("slice", level, dims=(n,), starts=(s,), limits=(s + n,), strides=(1,))
            for s in (0, n)
        ]
        level = op("add", *pieces)
    after = fused([x], level)
    assert 3 <= len(kinds(after)) <= 12


def test_places_that_several_gathers_read_are_computed_once() -> None:
    """Linear interpolation: four gathers read combinations of the same four places."""
    image, y, x = parameter(0, 8, 8), parameter(1, 8, 8), parameter(2, 8, 8)

    def place(value: Instruction, step: int) -> Instruction:
        at = op("add", op("convert", op("floor", value), dtype=S32), number(step, 8, 8, dtype=S32))
        limited = op(
            "minimum", op("maximum", at, number(0, 8, 8, dtype=S32)), number(7, 8, 8, dtype=S32)
        )
        return op("reshape", limited, dims=(8, 8, 1))

    numbers = hlo.GatherDimensionNumbers((), (0, 1), (0, 1), 2)
    total = number(0, 8, 8)
    for down in (0, 1):
        for right in (0, 1):
            places = op("concatenate", place(y, down), place(x, right), dims=(8, 8, 2), dimension=2)
            weight = op(
                "multiply", op("subtract", y, op("floor", y)), op("subtract", x, op("floor", x))
            )
            taken = op("gather", image, places, dims=(8, 8), dtype=image.shape.dtype,
                       dimension_numbers=numbers, slice_sizes=(1, 1), indices_are_sorted=False)  # fmt: skip
            total = op("add", total, op("multiply", weight, taken))
    deduplicated = eliminate_common_subexpressions(module([image, y, x], total))
    assert kinds(fused(list(deduplicated.entry.parameters), deduplicated.entry.root)) == ["loop"]


def test_a_scalar_in_all_places_is_never_stored() -> None:
    x, scalar = parameter(0, 64), parameter(1)
    everywhere = hlo.broadcast(scalar, (64,))
    total = x
    for start in range(8):  # each slice reads it at another index
        piece = op(
            "slice", everywhere, dims=(32,), starts=(start,), limits=(start + 32,), strides=(1,)
        )
        total = op("add", total, op("concatenate", piece, piece, dims=(64,), dimension=0))
    assert kinds(fused([x, scalar], total)) == ["loop"]


def test_equal_fusions_are_one_computation() -> None:
    x, y, w = parameter(0, 8, 8), parameter(1, 8, 8), parameter(2, 8, 8)
    parts = [op("tanh", op("add", dot(v, w), number(1, 8, 8))) for v in (x, y)]
    after = fused([x, y, w], dot(parts[0], parts[1]))
    fusions = [i for i in after.entry.instructions if i.opcode == "fusion"]
    assert len(fusions) == 2
    assert fusions[0].called[0] is fusions[1].called[0]


def test_fusions_are_bounded() -> None:
    x = parameter(0, 8)
    top = x
    for n in range(1500):
        top = op(["add", "multiply", "maximum"][n % 3], top, x)
    after = fuse(module([x], top), for_cpu())
    assert all(
        len(i.called[0].instructions) <= 260
        for i in after.entry.instructions
        if i.opcode == "fusion"
    )


def test_results_that_are_parameters_or_equal() -> None:
    x = parameter(0, 5)
    e = op("exponential", x)
    assert kinds(fused([x], x, e, e, number(3.0))) == ["loop"]


@pytest.mark.parametrize("dims", [(0, 4), (1,), (1, 1)])
def test_odd_shapes(dims) -> None:
    x = parameter(0, *dims)
    fused([x], reduce(op("exponential", x), tuple(range(len(dims)))), op("negate", x))


def loop(x: Instruction, y: Instruction, swap: bool) -> Instruction:
    """Three iterations of (a, b) -> (tanh(a + b), b) or -> (b, a * b); the first state."""
    i, a, b = parameter(0, dtype=S32), parameter(1, *x.dims), parameter(2, *x.dims)
    condition = hlo.Computation.from_root("c", [i, a, b], compare(i, number(3, dtype=S32), "LT"))
    i, a, b = parameter(0, dtype=S32), parameter(1, *x.dims), parameter(2, *x.dims)
    following = [op("add", i, number(1, dtype=S32))]
    following += [b, op("multiply", a, b)] if swap else [op("tanh", op("add", a, b)), b]
    shape = hlo.TupleShape(tuple(f.shape for f in following))
    body = hlo.Computation.from_root("b", [i, a, b], Instruction("tuple", shape, following))
    start = [number(0, dtype=S32), x, y]
    return hlo.get_tuple_element(Instruction("while", shape, start, called=[condition, body]), 1)


def scatter_row(x: Instruction, row: Instruction, index: Instruction) -> Instruction:
    """Add ``row`` to one row of ``x``."""
    a, b = parameter(0), parameter(1)
    add = hlo.Computation.from_root("add_scalars", [a, b], op("add", a, b))
    numbers = hlo.ScatterDimensionNumbers((0,), (0,), (0,), 0)
    attributes = {
        "dimension_numbers": numbers,
        "indices_are_sorted": False,
        "unique_indices": False,
    }
    indices = op("reshape", index, dims=(1,))
    return Instruction("scatter", x.shape, [x, indices, row], attributes, [add])


@st.composite
def programs(draw) -> Module:
    """Random programs of elementwise instructions, broadcasts, reductions, transposes, slices,
    updates and dots.
    """
    n, k = draw(st.sampled_from([(3, 5), (4, 4), (2, 7)]))
    parameters = [
        parameter(0, n, k),
        parameter(1, n, k),
        parameter(2, n),
        parameter(3, k),
        parameter(4, dtype=S32),
    ]
    values = parameters[:4]

    def pick(dims):
        candidates = [v for v in values if v.dims == dims]
        return candidates[draw(st.integers(0, len(candidates) - 1))]

    for _ in range(draw(st.integers(3, 24))):
        choice = draw(
            st.sampled_from(
                [
                    "unary",
                    "binary",
                    "rows",
                    "columns",
                    "reduce_rows",
                    "reduce_columns",
                    "square",
                    "update",
                    "slice",
                    "max",
                    "select",
                    "shift",
                    "splat",
                    "total",
                    "loop",
                    "scatter",
                ]
            )
        )
        dims = draw(st.sampled_from([(n, k), (n, k), (n,), (k,)]))
        if choice == "unary":
            new = op(draw(st.sampled_from(["tanh", "negate", "logistic", "abs"])), pick(dims))
        elif choice == "binary":
            new = op(draw(st.sampled_from(["add", "multiply", "subtract"])), pick(dims), pick(dims))
        elif choice == "rows":
            new = op("subtract", pick((n, k)), hlo.broadcast(pick((n,)), (n, k), (0,)))
        elif choice == "columns":
            new = op("add", pick((n, k)), hlo.broadcast(pick((k,)), (n, k), (1,)))
        elif choice == "reduce_rows":
            new = reduce(pick((n, k)), (1,))
        elif choice == "reduce_columns":
            new = reduce(pick((n, k)), (0,))
        elif choice == "max":
            new = reduce(pick((n, k)), (1,), "maximum", -np.inf)
        elif choice == "select":
            a, b = pick(dims), pick(dims)
            new = op("select", compare(a, b, "GT"), pick(dims), a, dtype=a.dtype)
        elif choice == "shift":
            a = pick((n, k))
            rest = op("slice", a, dims=(n - 1, k), starts=(1, 0), limits=(n, k), strides=(1, 1))
            first = op(
                "slice", pick((n, k)), dims=(1, k), starts=(0, 0), limits=(1, k), strides=(1, 1)
            )
            new = op("concatenate", rest, first, dims=(n, k), dimension=0)
        elif choice == "splat":
            new = op("maximum", pick(dims), number(0.25, *dims))
        elif choice == "total":
            total = op("tanh", reduce(pick((n, k)), (0, 1)))
            new = op("subtract", pick(dims), hlo.broadcast(total, dims))
        elif choice == "loop":
            new = loop(pick((n, k)), pick((n, k)), draw(st.booleans()))
        elif choice == "scatter":
            new = scatter_row(pick((n, k)), pick((k,)), parameters[4])
        elif choice == "square":
            new = op("tanh", dot(dot(pick((n, k)), transpose(pick((n, k)), 1, 0)), pick((n, k))))
        elif choice == "update":
            zero = number(0, dtype=S32)
            update = op(
                "slice", pick((n, k)), dims=(1, k), starts=(1, 0), limits=(2, k), strides=(1, 1)
            )
            new = op("dynamic-update-slice", pick((n, k)), update, parameters[4], zero)
        else:
            new = op(
                "slice", pick((n, k)), dims=(1, k), starts=(0, 0), limits=(1, k), strides=(1, 1)
            )
            new = op("reshape", new, dims=(k,))
        values.append(new)
    count = draw(st.integers(1, 4))
    results = [values[-1 - draw(st.integers(0, min(8, len(values) - 1)))] for _ in range(count)]
    aliases = []
    for r, result in enumerate(results):
        for p in parameters:
            free = p.attributes["index"] not in [a[1] for a in aliases]
            if result.shape == p.shape and free and draw(st.booleans()):
                aliases.append((r, p.attributes["index"], draw(st.booleans())))
                break
    return module(parameters, *results, input_output_aliases=tuple(aliases))


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(programs())
def test_random_programs(before: Module) -> None:
    values = arguments(before)
    expected = evaluate(before, values)
    after = pipeline.run(before, for_cpu(), pipeline.Dump())
    actual = Simulation(after).run(values)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def _scatter(x: Instruction, places: Instruction, updates: Instruction) -> Instruction:
    numbers = hlo.ScatterDimensionNumbers((), (0,), (0,), 1)
    return op(
        "scatter", x, places, updates, dimension_numbers=numbers, indices_are_sorted=False,
        unique_indices=False, called=[body("add", x.dtype)],
    )  # fmt: skip


def test_what_a_scatter_of_elements_needs_is_computed_on_the_way() -> None:
    x, ids, y = parameter(0, 9), parameter(1, 40, 1, dtype=S32), parameter(2, 40)
    places = op("add", ids, number(-1, 40, 1, dtype=S32))
    after = fused([x, ids, y], _scatter(x, places, op("multiply", y, y)))
    assert kinds(after) == ["scatter"]


def test_a_scatter_does_not_compute_from_what_it_changes() -> None:
    x, ids = parameter(0, 40), parameter(1, 40, 1, dtype=S32)
    after = fused([x, ids], _scatter(x, ids, op("multiply", x, x)))
    assert kinds(after) == ["loop", "scatter"]


def test_a_scatter_of_what_it_changes_is_no_fusion() -> None:
    """As an operand at two places, the array is copied before the kernel overwrites it."""
    x, ids = parameter(0, 40), parameter(1, 40, 1, dtype=S32)
    after = fused([x, ids], _scatter(x, ids, x))
    assert [i.opcode for i in after.entry.instructions] == ["parameter", "parameter", "scatter"]


_ROWS = hlo.ScatterDimensionNumbers((1,), (0,), (0,), 1)


def _scatter_rows(
    x: Instruction,
    places: Instruction,
    updates: Instruction,
    numbers: hlo.ScatterDimensionNumbers = _ROWS,
    unique: bool = False,
) -> Instruction:
    return op(
        "scatter", x, places, updates, dimension_numbers=numbers, indices_are_sorted=False,
        unique_indices=unique, called=[body("add")],
    )  # fmt: skip


def test_what_a_scatter_of_rows_needs_is_computed_on_the_way() -> None:
    x, ids, y = parameter(0, 9, 5), parameter(1, 40, 1, dtype=S32), parameter(2, 40, 5)
    places = op("add", ids, number(-1, 40, 1, dtype=S32))
    rows = _scatter_rows(x, places, op("negate", y))
    assert kinds(fused([x, ids, y], rows)) == ["scatter"]


def test_a_scatter_of_rows_computes_from_a_scalar_that_is_transposed() -> None:
    """Where no pass has taken such a transpose away."""
    x, ids, y = parameter(0, 9, 5), parameter(1, 40, 1, dtype=S32), parameter(2)
    updates = hlo.broadcast(op("transpose", op("negate", y), dimensions=()), (40, 5))
    assert kinds(fused([x, ids, y], _scatter_rows(x, ids, updates))) == ["scatter"]


def test_a_scatter_of_windows_is_not_fused() -> None:
    """Almost rows: a part of each, rows at unique places, and columns."""
    x, ids = parameter(0, 9, 5), parameter(1, 40, 1, dtype=S32)
    short, rows, columns = parameter(2, 40, 4), parameter(2, 40, 5), parameter(2, 9, 40)
    by_column = hlo.ScatterDimensionNumbers((0,), (1,), (1,), 1)
    for updates, fields in (
        (short, {}),
        (rows, {"unique": True}),
        (columns, {"numbers": by_column}),
    ):
        scatter = _scatter_rows(x, ids, op("negate", updates), **fields)
        assert kinds(fused([x, ids, updates], scatter)) == ["loop", "scatter"]


def test_a_scatter_of_rows_does_not_compute_from_what_it_changes() -> None:
    x, ids = parameter(0, 40, 5), parameter(1, 40, 1, dtype=S32)
    after = fused([x, ids], _scatter_rows(x, ids, op("multiply", x, x)))
    assert kinds(after) == ["loop", "scatter"]


def test_a_transpose_is_made_in_tiles_before_a_scatter_of_rows() -> None:
    x, ids, y = parameter(0, 9, 32), parameter(1, 40, 1, dtype=S32), parameter(2, 32, 40)
    turned = op("transpose", y, dims=(40, 32), dimensions=(1, 0))
    after = fused([x, ids, y], _scatter_rows(x, ids, op("negate", turned)))
    assert kinds(after) == ["transpose", "scatter"]


@pytest.mark.parametrize(
    ("pieces", "order", "expected"),
    [
        (3, (0, 2, 1), ["loop", "loop"]),  # the pieces' dimension becomes the last one
        (2, (0, 2, 1), ["loop"]),
        (3, (1, 0, 2), ["loop"]),
    ],
)
def test_a_vector_does_not_compute_many_pieces(pieces: int, order, expected: list[str]) -> None:
    x = parameter(0, 4, 5, 3)
    parts = [op("negate", x), op("abs", x), op("floor", x)][:pieces]
    joined = op("concatenate", *parts, dims=(4, 5 * pieces, 3), dimension=1)
    flat = op("reshape", op("abs", joined), dims=(2, 2, 5 * pieces, 3))
    shape = [joined.dims[d] for d in order]
    turned = op("transpose", op("reshape", flat, dims=joined.dims), dims=shape, dimensions=order)
    assert kinds(fused([x], op("negate", turned))) == expected


def test_what_is_free_is_computed_in_a_full_kernel_too() -> None:
    """Broadcasts of scalars would be arrays in memory beside a kernel that has as many members as it may have."""
    x = y = parameter(0, 100)
    numbers = [number(n, 100) for n in range(8)]
    for n in range(300):
        y = op("maximum" if n % 2 else "add", numbers[n % 8], y)
    after = fused([x], y)
    fusions = [i for i in after.entry.instructions if i.opcode == "fusion"]
    assert len(fusions) > 1
    assert not any(i.called[0].root.opcode == "broadcast" for i in fusions)


def test_a_value_read_in_reverse_does_not_become_a_result_of_its_reader() -> None:
    """Its reader computes the sum at the mirrored index; as a result it would stand at the reader's own index too."""
    text = b"""func.func @main(%x: tensor<3x5xi32>) -> (tensor<5xi32>, tensor<5xi32>, tensor<5xi32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.reduce(%x init: %z) applies stablehlo.xor across dimensions = [0]
    : (tensor<3x5xi32>, tensor<i32>) -> tensor<5xi32>
  %s = stablehlo.add %r, %r : tensor<5xi32>
  %v = stablehlo.reverse %s, dims = [0] : tensor<5xi32>
  %y = stablehlo.multiply %v, %r : tensor<5xi32>
  return %s, %v, %y : tensor<5xi32>, tensor<5xi32>, tensor<5xi32>
}"""
    x = np.arange(15, dtype=np.int32).reshape(3, 5) ** 2
    device = _tripont.Client({"device": "host", "num_devices": 1}).devices[0]
    loaded = _tripont.Executable.load(compile_program(text, "mlir", b"", {}))
    r = np.bitwise_xor.reduce(x, 0)
    for got, want in zip(
        loaded.run(device, [x]), (2 * r, 2 * r[::-1], 2 * r[::-1] * r), strict=True
    ):
        np.testing.assert_array_equal(got, want)
