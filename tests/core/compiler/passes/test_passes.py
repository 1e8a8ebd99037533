"""The other passes, one by one: what they change, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import hlo, verifier
from tripont.core.compiler.ir.dtypes import C64
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, TupleShape
from tripont.core.compiler.passes import while_loops
from tripont.core.compiler.passes.common_subexpressions import (
    eliminate_common_subexpressions,
    share_computations,
)
from tripont.core.compiler.passes.dead_code import eliminate_dead_code
from tripont.core.compiler.passes.decompose import decompose, remove_barriers
from tripont.core.compiler.passes.extrema import order_extrema
from tripont.core.compiler.passes.inline import inline_calls, unshare_control_flow
from tripont.core.compiler.passes.split_reductions import split_reductions
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.target import Target

from tests.core.compiler import programs
from tests.core.compiler.builders import (
    S32,
    arguments,
    compare,
    module,
    number,
    op,
    opcodes,
    parameter,
    reduce,
)


def check(step, before: Module, tolerance: float = 0.0, target: Target | None = None) -> Module:
    """Run a pass, for ``target`` if it takes one; the result is valid and gives the same values."""
    before.assign_names()
    verifier.verify(before)
    after = step(before) if target is None else step(before, target)
    after.assign_names()
    verifier.verify(after, step.__name__)
    values = arguments(before)
    for a, b in zip(evaluate(before, values), evaluate(after, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    return after


def call(callee: Computation, *operands: Instruction) -> Instruction:
    return Instruction("call", callee.root.shape, operands, called=[callee])


def test_inline_nested_calls() -> None:
    a = parameter(0, 4)
    inner = Computation.from_root("inner", [a], op("exponential", a))
    b = parameter(0, 4)
    outer = Computation.from_root(
        "outer", [b], op("add", call(inner, b), call(inner, op("negate", b)))
    )
    x = parameter(0, 4)
    after = check(inline_calls, module([x], call(outer, x)))
    assert "call" not in opcodes(after.entry)
    assert opcodes(after.entry).count("exponential") == 2


def test_inline_makes_each_instruction_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep the calls nest."""
    a = parameter(0, 4)
    callee = Computation.from_root("f", [a], op("exponential", a))
    for n in range(3000):
        a = parameter(0, 4)
        callee = Computation.from_root(f"f{n}", [a], op("negate", call(callee, a)))
    x = parameter(0, 4)
    made, replace = [], Instruction.replace
    monkeypatch.setattr(
        Instruction, "replace", lambda i, **changes: made.append(i) or replace(i, **changes)
    )
    after = inline_calls(module([x], call(callee, x))).entry
    assert opcodes(after) == ["exponential", *["negate"] * 3000]
    assert len(made) <= 3001


def test_inline_keeps_what_loops_call() -> None:
    """A function that has a loop, called twice: the loop's body is inlined too, and stays a computation."""
    a = parameter(0, dtype=S32)
    step = Computation.from_root(
        "step", [a], op("add", op("maximum", a, number(1, dtype=S32)), op("abs", a))
    )
    i = parameter(0, dtype=S32)
    body = Computation.from_root("body", [i], call(step, i))
    j = parameter(0, dtype=S32)
    condition = Computation.from_root("condition", [j], compare(j, number(100, dtype=S32), "LT"))
    k = parameter(0, dtype=S32)
    loop = Instruction("while", k.shape, [k], called=[condition, body])
    function = Computation.from_root("function", [k], loop)
    x = parameter(0, dtype=S32)
    twice = call(function, op("negate", call(function, x)))
    after = check(inline_calls, module([x], twice))
    assert opcodes(after.entry).count("while") == 2
    assert all("call" not in opcodes(c) for c in after.computations())


def test_inline_several_results() -> None:
    a = parameter(0, 4)
    shape = TupleShape((a.shape, a.shape))
    pair = Computation.from_root(
        "pair", [a], Instruction("tuple", shape, [op("exponential", a), a])
    )
    x = parameter(0, 4)
    two = call(pair, x)
    after = check(
        inline_calls, module([x], hlo.get_tuple_element(two, 0), hlo.get_tuple_element(two, 1))
    )
    assert opcodes(after.entry) == ["exponential", "tuple"]


def test_inline_call_as_root() -> None:
    a = parameter(0, 4)
    shape = TupleShape((a.shape, a.shape))
    pair = Computation.from_root(
        "pair", [a], Instruction("tuple", shape, [op("exponential", a), a])
    )
    x = parameter(0, 4)
    before = Module("test", Computation.from_root("main", [x], call(pair, x)))
    assert opcodes(inline_calls(before).entry) == ["exponential", "tuple"]


def test_unshare_gives_every_loop_its_own_body() -> None:
    loop = counting_loop(3)
    x = parameter(0, dtype=S32)
    before = module([x], loop(loop(x)))
    loops = [i for i in before.entry.instructions if i.opcode == "while"]
    assert loops[0].called[1] is loops[1].called[1]
    after = unshare_control_flow(before)
    loops = [i for i in after.entry.instructions if i.opcode == "while"]
    assert loops[0].called[1] is not loops[1].called[1]
    assert loops[0].called[0] is not loops[1].called[0]


def counting_loop(limit: int):
    """while (i < limit) i += 1, as a function from the start."""
    c = parameter(0, dtype=S32)
    condition = Computation.from_root("condition", [c], compare(c, number(limit, dtype=S32), "LT"))
    b = parameter(0, dtype=S32)
    following = op("add", b, number(1, dtype=S32))
    step = Computation.from_root("step", [b], following)
    return lambda start: Instruction("while", b.shape, [start], called=[condition, step])


def test_common_subexpressions() -> None:
    x = parameter(0, 4)
    y = op("add", op("exponential", x), op("exponential", x))
    after = check(eliminate_common_subexpressions, module([x], y))
    assert opcodes(after.entry) == ["exponential", "add"]


def test_equal_constants_and_bodies_are_one() -> None:
    x = parameter(0, 4, 5)
    before = module([x], op("add", reduce(x, (1,)), reduce(x, (1,))))
    after = check(eliminate_common_subexpressions, check(share_computations, before))
    assert opcodes(after.entry) == ["reduce", "add"]


def test_different_literals_of_equal_bytes_stay_apart() -> None:
    zero, negative_zero = number(0.0), number(-0.0)
    x = parameter(0)
    after = eliminate_common_subexpressions(
        module([x], op("divide", x, zero), op("divide", x, negative_zero))
    )
    assert opcodes(after.entry).count("divide") == 2


def test_dead_code_keeps_side_effects() -> None:
    x = parameter(0, 4)
    effect = Instruction(
        "custom-call",
        x.shape,
        [x],
        {
            "custom_call_target": "print",
            "backend_config": b"",
            "api_version": 4,
            "has_side_effect": True,
            "output_operand_aliases": (),
        },
    )
    dead = op("exponential", x)
    main = Computation("main", [x], [x, dead, effect], x)
    after = eliminate_dead_code(Module("test", main))
    assert opcodes(after.entry) == ["custom-call"]


def test_batch_norm() -> None:
    x, scale, offset = parameter(0, 4, 3, 5), parameter(1, 3), parameter(2, 3)
    shape = TupleShape((x.shape, scale.shape, scale.shape))
    attributes = {"epsilon": 1e-3, "feature_index": 1}
    norm = Instruction("batch-norm-training", shape, [x, scale, offset], attributes)
    before = module([x, scale, offset], *(hlo.get_tuple_element(norm, n) for n in range(3)))
    after = decompose(before)
    after.assign_names()
    verifier.verify(after)
    values = arguments(before)
    out, mean, variance = evaluate(after, values)
    np.testing.assert_allclose(mean, values[0].mean((0, 2)), atol=1e-5)
    np.testing.assert_allclose(variance, values[0].var((0, 2)), atol=1e-5)
    spread = (slice(None), None)
    expected = (values[0] - mean[spread]) / np.sqrt(variance[spread] + 1e-3)
    expected = expected * values[1][spread] + values[2][spread]
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_sums_of_batch_norms_have_one_body() -> None:
    x, scale, offset = parameter(0, 4, 3), parameter(1, 3), parameter(2, 3)
    shape = TupleShape((x.shape, scale.shape, scale.shape))
    attributes = {"epsilon": 1e-3, "feature_index": 1}
    inner: Instruction = x
    for _ in range(5):
        norm = Instruction("batch-norm-training", shape, [inner, scale, offset], attributes)
        inner = hlo.get_tuple_element(norm, 0)
    after = check(decompose, module([x, scale, offset], inner), 1e-5)
    sums = [i for i in after.entry.instructions if i.opcode == "reduce"]
    assert len(sums) == 10
    assert len({i.called for i in sums}) == 1


def test_decompose_leaves_no_extrema_to_order() -> None:
    """A position of the largest number beside a batch normalisation: everything is made anew once."""
    a, b = parameter(0), parameter(2)
    i, j = parameter(1, dtype=S32), parameter(3, dtype=S32)
    taken = compare(a, b, "GE")
    place = op("select", taken, i, j, dtype=S32)
    place = op("select", compare(a, b, "EQ"), op("minimum", i, j), place, dtype=S32)
    pair = TupleShape((a.shape, i.shape))
    largest = Instruction("tuple", pair, (op("select", taken, a, b, dtype=a.dtype), place))
    body = Computation.from_root("argmax", [a, i, b, j], largest)
    x, scale, offset = parameter(0, 4, 3), parameter(1, 3), parameter(2, 3)
    shape = TupleShape((x.shape, scale.shape, scale.shape))
    attributes = {"epsilon": 1e-3, "feature_index": 1}
    norm = Instruction("batch-norm-training", shape, [x, scale, offset], attributes)
    y = hlo.get_tuple_element(norm, 0)
    places = op("iota", dims=(4, 3), dtype=S32, dimension=0)
    inputs = (y, places, number(-np.inf), number(0, dtype=S32))
    position = Instruction(
        "reduce",
        TupleShape((scale.shape, hlo.Shape(S32, (3,)))),
        inputs,
        {"dimensions": (0,)},
        [body],
    )
    after = decompose(module([x, scale, offset], hlo.get_tuple_element(position, 1)))
    assert after is order_extrema(after)
    assert any(len(c.parameters) == 4 and c is not body for c in after.computations())


def test_map_becomes_array_operations() -> None:
    a, b = parameter(0), parameter(1)
    scalar = Computation.from_root("scalar", [a, b], op("add", op("multiply", a, b), number(1)))
    x, y = parameter(0, 3, 2), parameter(1, 3, 2)
    after = decompose(module([x, y], op("map", x, y, dimensions=(0, 1), called=[scalar])))
    assert opcodes(after.entry) == ["broadcast", "multiply", "add"]


def test_barriers_go() -> None:
    x = parameter(0, 4)
    shape = TupleShape((x.shape, x.shape))
    barrier = Instruction("optimization-barrier", shape, [x, op("negate", x)])
    y = op("add", hlo.get_tuple_element(barrier, 0), hlo.get_tuple_element(barrier, 1))
    after = check(remove_barriers, module([x], y))
    assert opcodes(after.entry) == ["negate", "add"]


def test_large_reduction_is_split() -> None:
    for dims, dimensions in (
        ((1 << 18,), (0,)),
        ((262_147,), (0,)),
        ((512, 1000), (0, 1)),
        ((200_000, 3), (0,)),
        ((3, 8, 70_000), (1, 2)),
    ):
        for opcode, initial in (("add", 0.0), ("maximum", -np.inf), ("minimum", np.inf)):
            x = parameter(0, *dims)
            after = check(
                split_reductions,
                module([x], reduce(x, dimensions, opcode, initial)),
                1e-2,
                for_cpu(),
            )
            assert opcodes(after.entry).count("reduce") == 2, dims


def test_small_or_unknown_reductions_stay() -> None:
    x = parameter(0, 1 << 18)
    a, b = parameter(0), parameter(1)
    odd = Computation.from_root("odd", [a, b], op("add", op("multiply", a, number(0.5)), b))
    unknown = op("reduce", x, number(0), dims=(), dimensions=(0,), called=[odd])
    assert opcodes(split_reductions(module([x], unknown), for_cpu()).entry) == ["reduce"]
    y = parameter(0, 64, 4096)
    assert opcodes(split_reductions(module([y], reduce(y, (1,))), for_cpu()).entry) == ["reduce"]


def test_trip_counts() -> None:
    for start, limit, step, direction, expected in (
        (0, 10, 1, "LT", 10),
        (0, 10, 3, "LT", 4),
        (0, 10, 1, "LE", 11),
        (10, 0, -2, "GT", 5),
        (0, 9, 3, "NE", 3),
        (0, 10, 3, "NE", -1),
        (5, 5, 1, "LT", 0),
        (0, 10, -1, "LT", -1),
        (0, 2**31 - 1, 2, "LT", -1),  # would wrap
    ):
        c = parameter(0, dtype=S32)
        condition = Computation.from_root("c", [c], compare(c, number(limit, dtype=S32), direction))
        b = parameter(0, dtype=S32)
        following = op("add", b, number(step, dtype=S32))
        step_ = Computation.from_root("b", [b], following)
        loop = Instruction("while", b.shape, [number(start, dtype=S32)], called=[condition, step_])
        assert while_loops.known_trip_count(loop) == expected, (start, limit, step, direction)


def loop_program(name: str) -> Module:
    before = inline_calls(read_program(programs.stablehlo(name), "mlir"))
    before.assign_names()
    return before


def states(module_: Module) -> int:
    return next(len(i.operands) for i in module_.entry.instructions if i.opcode == "while")


def test_unused_states_go() -> None:
    i, x, unused = (parameter(n, dtype=S32) for n in range(3))
    condition = Computation.from_root("c", [i, x, unused], compare(i, number(4, dtype=S32), "LT"))
    i, x, unused = (parameter(n, dtype=S32) for n in range(3))
    one = number(1, dtype=S32)
    new = [op("add", i, one), op("multiply", x, i), op("add", unused, x)]
    shape = TupleShape(tuple(n.shape for n in new))
    step = Computation.from_root("b", [i, x, unused], Instruction("tuple", shape, new))
    a, b = parameter(0, dtype=S32), parameter(1, dtype=S32)
    loop = Instruction("while", shape, [number(0, dtype=S32), a, b], called=[condition, step])
    after = check(while_loops.simplify_loops, module([a, b], hlo.get_tuple_element(loop, 1)))
    assert states(after) == 2


def test_constant_states_become_constants() -> None:
    i, n = parameter(0, dtype=S32), parameter(1, dtype=S32)
    condition = Computation.from_root("c", [i, n], compare(i, n, "LT"))
    i, n = parameter(0, dtype=S32), parameter(1, dtype=S32)
    shape = TupleShape((i.shape, n.shape))
    step = Computation.from_root(
        "b", [i, n], Instruction("tuple", shape, [op("add", i, number(1, dtype=S32)), n])
    )
    loop = Instruction(
        "while", shape, [number(0, dtype=S32), number(7, dtype=S32)], called=[condition, step]
    )
    before = module([], hlo.get_tuple_element(loop, 0), hlo.get_tuple_element(loop, 1))
    after = check(while_loops.simplify_loops, before)
    assert states(after) == 1
    annotated = while_loops.annotate_trip_counts(after)
    assert (
        next(i for i in annotated.entry.instructions if i.opcode == "while").attributes[
            "trip_count"
        ]
        == 7
    )


@pytest.mark.parametrize("calls_back", [False, True])
def test_conditions_that_call_back_are_not_counted(calls_back: bool) -> None:
    """A loop with a trip count never evaluates its condition, so a callback in it would never be called."""
    i, outside = parameter(0, dtype=S32), parameter(0, dtype=S32)
    attributes = {
        "custom_call_target": "note",
        "backend_config": b"",
        "api_version": 4,
        "has_side_effect": calls_back,
        "output_operand_aliases": (),
    }
    call = Instruction("custom-call", i.shape, [i], attributes)
    bound = number(7, dtype=S32)
    holds = compare(i, bound, "LT")
    condition = Computation("c", [i], [i, call, bound, holds], holds)
    i = parameter(0, dtype=S32)
    step = Computation.from_root("b", [i], op("add", i, number(1, dtype=S32)))
    loop = Instruction("while", i.shape, [number(0, dtype=S32)], called=[condition, step])
    annotated = while_loops.annotate_trip_counts(module([outside], loop))
    (after,) = annotated.all_of("while")
    assert ("trip_count" not in after.attributes) is calls_back


def test_equal_counters_are_one() -> None:
    def states_of() -> list[Instruction]:
        return [parameter(0, dtype=S32), parameter(1, dtype=S32), parameter(2, dtype=S32)]

    i, j, x = states_of()
    condition = Computation.from_root("c", [i, j, x], compare(j, number(4, dtype=S32), "LT"))
    i, j, x = states_of()
    one = number(1, dtype=S32)
    new = [
        op("add", i, one),
        op("add", number(1, dtype=S32), j),
        op("add", x, op("multiply", i, j)),
    ]
    shape = TupleShape(tuple(n.shape for n in new))
    step = Computation.from_root("b", [i, j, x], Instruction("tuple", shape, new))
    a = parameter(0, dtype=S32)
    zero = [number(0, dtype=S32), number(0, dtype=S32)]
    loop = Instruction("while", shape, [*zero, a], called=[condition, step])
    results = [hlo.get_tuple_element(loop, n) for n in range(3)]
    after = check(while_loops.simplify_loops, module([a], *results))
    assert states(after) == 2


def invariant_loop() -> tuple[Computation, Computation]:
    """Condition and body of a loop of 3 steps that computes the same in each: (i, w, x)."""
    i, w, x = parameter(0, dtype=S32), parameter(1, 4, 4), parameter(2, 4)
    condition = Computation.from_root("c", [i, w, x], compare(i, number(3, dtype=S32), "LT"))
    i, w, x = parameter(0, dtype=S32), parameter(1, 4, 4), parameter(2, 4)
    scaled = op("exponential", reduce(w, (1,)))
    new = [op("add", i, number(1, dtype=S32)), w, op("multiply", x, scaled)]
    shape = TupleShape(tuple(n.shape for n in new))
    return condition, Computation.from_root("b", [i, w, x], Instruction("tuple", shape, new))


def hoist_invariants(before: Module) -> Module:
    return while_loops.hoist_invariants(before, for_cpu())


def test_invariant_work_is_hoisted() -> None:
    condition, step = invariant_loop()
    a, b = parameter(0, 4, 4), parameter(1, 4)
    start = [number(0, dtype=S32), a, b]
    loop = Instruction("while", step.root.shape, start, called=[condition, step])
    after = check(hoist_invariants, module([a, b], hlo.get_tuple_element(loop, 2)))
    assert "exponential" in opcodes(after.entry)
    loop = next(i for i in after.entry.instructions if i.opcode == "while")
    assert "exponential" not in opcodes(loop.called[1])
    assert states(after) == 4


@pytest.mark.parametrize("reader", ["multiply", "dot"])
def test_complex_numbers_of_real_ones_are_made_where_elements_are_read(reader: str) -> None:
    """In memory they would take twice as much. A product reads them from memory either way."""
    n, w, z = parameter(0, dtype=S32), parameter(1, 4, 4), parameter(2, 4, 4, dtype=C64)
    wide = op("convert", w, dtype=C64)
    if reader == "dot":
        numbers = hlo.DotDimensionNumbers((1,), (0,))
        new = op("dot", z, wide, dimension_numbers=numbers)
    else:
        new = op("multiply", z, wide)
    results = op("add", n, number(1, dtype=S32)), w, new
    shape = TupleShape(tuple(r.shape for r in results))
    step = Computation.from_root("step", [n, w, z], Instruction("tuple", shape, results))
    m, *others = (parameter(k, *p.dims, dtype=p.dtype) for k, p in enumerate((n, w, z)))
    condition = Computation.from_root(
        "condition", [m, *others], compare(m, number(3, dtype=S32), "LT")
    )
    a, b = parameter(0, 4, 4), parameter(1, 4, 4, dtype=C64)
    start = [number(0, dtype=S32), a, b]
    loop = Instruction("while", shape, start, called=[condition, step])
    after = hoist_invariants(module([a, b], hlo.get_tuple_element(loop, 2)))
    assert opcodes(after.entry).count("convert") == (reader == "dot")


def test_loops_of_one_body_share_nothing_after_hoisting() -> None:
    condition, step = invariant_loop()
    a, b = parameter(0, 4, 4), parameter(1, 4)
    first = Instruction(
        "while", step.root.shape, [number(0, dtype=S32), a, b], called=[condition, step]
    )
    between = [number(0, dtype=S32), a, hlo.get_tuple_element(first, 2)]
    second = Instruction("while", step.root.shape, between, called=[condition, step])
    before = module([a, b], hlo.get_tuple_element(second, 2))
    after = check(lambda m: unshare_control_flow(hoist_invariants(m)), before)
    placed = [i for c in after.computations() for i in c.instructions]
    assert len(placed) == len(set(placed))


def test_loops_of_jax_programs_stay_right() -> None:
    for name in ("lstm_gradient", "nested_loop", "power_iteration", "rotate_loop"):
        before = loop_program(name)
        values = programs.arguments_of(name)
        expected = evaluate(before, values)
        after = hoist_invariants(while_loops.simplify_loops(before))
        after.assign_names()
        verifier.verify(after)
        for a, b in zip(evaluate(after, values), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_passes_do_not_recurse() -> None:
    x: Instruction = parameter(0, 8)
    top = x
    for n in range(20_000):
        top = op("negate" if n % 3 else "exponential", top)
    before = module([x], top)
    after = pipeline.run(before, for_cpu(), pipeline.Dump())
    assert len(after.entry.instructions) < 400
