"""Collectives: groups written out, all-reduces joined, and what cannot be is refused. (tests/pjrt runs them.)"""

from __future__ import annotations

from typing import Any

import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, Shape
from tripont.core.compiler.ir.verifier import verify
from tripont.core.compiler.passes.collective_groups import participant_groups
from tripont.core.compiler.passes.collectives import arrange_collectives, match_collectives
from tripont.core.compiler.targets.host import for_cpu

from ..builders import module, op, parameter


def body(opcode: str = "add") -> Computation:
    scalar = Shape(dtypes.F32)
    a, b = hlo.parameter(0, scalar, "a"), hlo.parameter(1, scalar, "b")
    return Computation.from_root(opcode, [a, b], Instruction(opcode, scalar, (a, b)))


ADD = body()
EFFECT = {
    "backend_config": b"",
    "api_version": 1,
    "has_side_effect": True,
    "output_operand_aliases": (),
}


def all_reduce(
    x: Instruction, groups: Any = (), channel: int = 0, ids: bool = False
) -> Instruction:
    attributes = {"replica_groups": groups, "channel_id": channel, "use_global_device_ids": ids}
    return Instruction("all-reduce", x.shape, (x,), attributes, (ADD,))


def calls(m: Module) -> list[Instruction]:
    return [i for i in m.entry.instructions if i.opcode == "library-call"]


def run(m: Module) -> Module:
    m = match_collectives(arrange_collectives(m), for_cpu())
    verify(m)
    return m


@pytest.mark.parametrize(
    ("groups", "channel", "ids", "expected"),
    [
        ((), 0, False, ((0, 2, 4), (1, 3, 5))),
        (((2, 0), (1,)), 0, False, ((4, 0), (2,), (5, 1), (3,))),
        (((0, 1, 2),), 3, False, ((0, 2, 4, 1, 3, 5),)),
        (((0,), (1, 2)), 3, False, ((0, 1), (2, 4, 3, 5))),
        ((), 3, True, ((0, 1, 2, 3, 4, 5),)),
        (((5, 0, 1), (2, 3, 4)), 3, True, ((5, 0, 1), (2, 3, 4))),
    ],
)
def test_groups_of_three_replicas_of_two_partitions(
    groups: Any, channel: int, ids: bool, expected: Any
) -> None:
    x = parameter(0, 4)
    reduced = all_reduce(x, groups, channel, ids)
    m = module([x], reduced, num_replicas=3, num_partitions=2)
    assert participant_groups(reduced, m) == expected


def test_one_device_keeps_its_operand() -> None:
    x = parameter(0, 4)
    m = arrange_collectives(module([x], op("negate", all_reduce(x))))
    assert [i.opcode for i in m.entry.instructions] == ["parameter", "negate"]


def test_groups_of_one_keep_their_operands() -> None:
    x = parameter(0, 4)
    reduced = all_reduce(x, ((0,), (1,)))
    m = arrange_collectives(module([x], op("negate", reduced), num_replicas=2))
    assert [i.opcode for i in m.entry.instructions] == ["parameter", "negate"]


def test_all_reduces_that_do_not_wait_for_one_another_are_one() -> None:
    x, y = parameter(0, 4), parameter(1, 6)
    first, second = all_reduce(x), all_reduce(op("negate", y))
    after = all_reduce(op("negate", first))
    m = run(module([x, y], first, second, after, num_replicas=2))
    assert [len(c.operands) for c in calls(m)] == [2, 1]
    assert [c.attributes["config"]["meeting"] for c in calls(m)] == [0, 1]
    assert [c.attributes["config"]["members"] for c in calls(m)] == [(0, 1), (2,)]
    assert [c.attributes["config"]["operation"] for c in calls(m)] == ["add", "add"]


def test_members_have_the_numbers_of_the_program() -> None:
    """The processes of a job compare them: what each collective of the program is joined with depends on what waits."""
    x, state = parameter(0, 4), parameter(0, 4)
    turn = Computation.from_root("turn", [state], all_reduce(state))
    again = Computation.from_root("again", [state], hlo.constant(False, dtypes.PRED))
    found = []
    for waiting in (2, 1):
        loop = op("while", x, called=(again, turn))
        reduced = [all_reduce(loop)]
        operands = [op("negate", reduced[0] if n == waiting else loop) for n in (1, 2)]
        reduced += [all_reduce(o) for o in operands]
        instructions = [loop, reduced[0], operands[0], reduced[1], operands[1], reduced[2]]
        m = run(in_order([x], instructions, reduced))
        found.append([c.attributes["config"]["members"] for c in calls(m)])
        (loop,) = (i for i in m.entry.instructions if i.opcode == "while")
        (inner,) = (i for i in loop.called[1].instructions if i.opcode == "library-call")
        assert inner.attributes["config"]["members"] == (0,)
    assert found == [[(1, 2), (3,)], [(1, 3), (2,)]]


def test_an_operation_of_several_instructions_is_told_in_full() -> None:
    scalar = Shape(dtypes.F32)
    a, b = hlo.parameter(0, scalar, "a"), hlo.parameter(1, scalar, "b")
    total = Instruction("add", scalar, (a, b))
    root = Instruction("multiply", scalar, (total, hlo.constant(0.5, dtypes.F32)))
    x = parameter(0, 4)
    reduced = all_reduce(x).replace(called=(Computation.from_root("mean", [a, b], root),))
    (call,) = calls(run(module([x], reduced, num_replicas=2)))
    expected = "add(0,1) f32[], constant(0.5) f32[], multiply(2,3) f32[]"
    assert call.attributes["config"]["operation"] == expected


def test_operations_that_differ_in_an_attribute_have_different_texts() -> None:
    """Processes that compare the texts must not take a minimum for a maximum, nor the first operand for the second."""

    def text(body: Computation) -> str:
        reduced = all_reduce(parameter(0, 4)).replace(called=(body,))
        m = module([reduced.operands[0]], reduced, num_replicas=2)
        (call,) = calls(run(m))
        return call.attributes["config"]["operation"]

    def chosen(direction: str) -> Computation:
        scalar = Shape(dtypes.F32)
        a, b = hlo.parameter(0, scalar, "a"), hlo.parameter(1, scalar, "b")
        kind = {"direction": direction, "comparison_type": "FLOAT"}
        is_first = Instruction("compare", Shape(dtypes.PRED), (a, b), kind)
        root = Instruction("select", scalar, (is_first, a, b))
        return Computation.from_root("chosen", [a, b], root)

    def called(direction: str) -> Computation:
        scalar = Shape(dtypes.F32)
        a, b = hlo.parameter(0, scalar, "a"), hlo.parameter(1, scalar, "b")
        root = Instruction("map", scalar, (a, b), {"dimensions": ()}, (chosen(direction),))
        return Computation.from_root("called", [a, b], root)

    def operand(n: int) -> Computation:
        ab = [hlo.parameter(i, Shape(dtypes.F32), "ab"[i]) for i in range(2)]
        return Computation("operand", ab, ab, ab[n])

    smaller = "compare(0,1) pred[] comparison_type='FLOAT' direction='LT', select(2,0,1) f32[]"
    assert text(chosen("LT")) == smaller
    bodies = [make(d) for make in (chosen, called) for d in ("LT", "GT")]
    bodies += [operand(0), operand(1)]
    assert len({text(body) for body in bodies}) == len(bodies)


def in_order(
    parameters: list[Instruction], instructions: list[Instruction], results: list[Instruction]
) -> Module:
    """A module of two replicas, its instructions as they stand."""
    root = Instruction("tuple", hlo.TupleShape(tuple(r.shape for r in results)), results)
    entry = Computation("main", parameters, [*parameters, *instructions, root], root)
    return Module("m", entry, num_replicas=2)


@pytest.mark.parametrize("overlaps", [True, False])
@pytest.mark.parametrize("also_read", [(), (0,), (1, 2), (0, 1), (3,)])
def test_who_else_reads_a_gradient_does_not_change_what_is_reduced_with_it(
    also_read: tuple[int, ...], overlaps: bool
) -> None:
    """One process may return a gradient's absolute values too, and its collectives meet those of the others."""
    x = parameter(0, 1 << 19)  # 2 MB: two fit together
    backward = [x]
    for _ in range(4):
        backward.append(op("negate", backward[-1]))
    gradients = [op("exponential", b) for b in backward[1:]]
    read = [op("abs", gradients[n]) for n in also_read]
    reduced = [all_reduce(g) for g in gradients]
    m = in_order([x], [*backward[1:], *gradients, *read, *reduced], [*reduced, *read])
    m.overlaps = overlaps
    together = [gradients[:2], gradients[2:]] if overlaps else [gradients]
    found = calls(run(m))
    assert [list(c.operands) for c in found] == together
    assert [c.attributes["config"]["meeting"] for c in found] == list(range(len(together)))


@pytest.mark.parametrize(
    "size", [512, 1024]
)  # rows of 1 MB of which four fit together, and of 4 MB
@pytest.mark.parametrize("also_read", [(), (0,), (1, 2), (4,), (0, 1, 2, 3, 4)])
def test_gradients_that_are_computed_first_are_reduced_first(
    also_read: tuple[int, ...], size: int
) -> None:
    """A backward pass whose results are in the order of the layers: each is behind one product more than the next."""
    x, w = parameter(0, size, size), parameter(1, size, size)
    numbers = hlo.DotDimensionNumbers((1,), (0,), (), ())
    backward = [x]
    for _ in range(5):
        product = op(
            "dot", backward[-1], w, dims=(size, size), precision=(), dimension_numbers=numbers
        )
        backward.append(product)
    gradients = backward[:0:-1]
    read = [op("abs", gradients[n]) for n in also_read]
    reduced = [all_reduce(g) for g in gradients]
    m = in_order([x, w], [*backward[1:], *read, *reduced], [*reduced, *read])
    together = [gradients[:0:-1], gradients[:1]] if size == 512 else [[g] for g in gradients[::-1]]
    m = run(m)
    found = calls(m)
    assert [list(c.operands) for c in found] == together
    assert [c.attributes["config"]["meeting"] for c in found] == list(range(len(together)))
    # Each begins before the products that it does not wait for.
    order = m.entry.instructions
    assert order.index(found[0]) < order.index(gradients[0])


@pytest.mark.parametrize("also_read", [False, True])
def test_a_loop_with_a_collective_keeps_its_place_among_collectives(also_read: bool) -> None:
    x, y, z = (parameter(n, 4) for n in range(3))
    state = parameter(0, 4)
    turn = Computation.from_root("turn", [state], all_reduce(state))
    again = Computation.from_root("again", [state], hlo.constant(False, dtypes.PRED))
    early, initial = op("negate", z), op("negate", y)
    loop = op("while", initial, called=(again, turn))
    operand = op("exponential", early)
    read = [op("abs", operand)] if also_read else []
    reduced = [all_reduce(x), all_reduce(operand)]
    instructions = [early, initial, loop, operand, *read, *reduced]
    m = run(in_order([x, y, z], instructions, [*reduced, loop, *read]))
    found = [i.opcode for i in m.entry.instructions if i.opcode in ("while", "library-call")]
    assert found == ["while", "library-call"]


@pytest.mark.parametrize("reads_second", [False, True])
def test_side_effects_keep_their_order(reads_second: bool) -> None:
    """The first waits for an all-reduce, which could be joined with one that comes after the second."""

    def effect(name: str, operand: Instruction) -> Instruction:
        return op("custom-call", operand, **EFFECT, custom_call_target=name)

    x, y = parameter(0, 4), parameter(1, 4)
    first = all_reduce(x)
    effects = [effect("first", first), effect("second", y)]
    operand = op("negate", effects[1] if reads_second else y)
    second = all_reduce(operand)
    m = run(in_order([x, y], [first, *effects, operand, second], [second]))
    found = [i for i in m.entry.instructions if i.opcode == "custom-call"]
    assert [i.attributes["custom_call_target"] for i in found] == ["first", "second"]
    assert [len(c.operands) for c in calls(m)] == ([1, 1] if reads_second else [2])


def test_a_side_effect_on_one_device_does_not_change_what_is_joined() -> None:
    """An all-reduce that waits for a side effect comes after the all-reduces before it, printed or not."""
    x, y = parameter(0, 4), parameter(1, 4)
    found = []
    for printed in (False, True):
        first = all_reduce(x)
        prints = [op("custom-call", first, **EFFECT, custom_call_target="print")]
        second = op("custom-call", y, **EFFECT, custom_call_target="noise")
        reduced = [first, all_reduce(second), all_reduce(op("negate", x))]
        instructions = [first, *prints[: int(printed)], second, *reduced[1:]]
        instructions.insert(-1, reduced[2].operands[0])
        m = run(in_order([x, y], instructions, reduced))
        found.append([[o.opcode for o in c.operands] for c in calls(m)])
    assert found[0] == found[1] == [["parameter", "negate"], ["custom-call"]]


def test_all_reduces_of_other_groups_stay_apart() -> None:
    x = parameter(0, 4)
    pairs = all_reduce(x, ((0, 1), (2, 3))), all_reduce(x, ((0, 2), (1, 3)))
    m = run(module([x], *pairs, num_replicas=4))
    assert len(calls(m)) == 2


def test_permutation_meets_only_those_who_exchange() -> None:
    x = parameter(0, 4)
    attributes = {"source_target_pairs": ((0, 2), (2, 0)), "channel_id": 0}
    m = run(
        module([x], Instruction("collective-permute", x.shape, (x,), attributes), num_replicas=4)
    )
    config = calls(m)[0].attributes["config"]
    assert config["sources"] == (2, -1, 0, -1)
    assert (config["groups"], config["group_sizes"]) == ((0, 2, 1, 3), (2, 1, 1))


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        (((0, 1, 2),), "names replica 2, but the program has 2"),
        (((0,),), "do not hold each of the program's 2 devices once"),
        (((0, 1), (1,)), "do not hold each of the program's 2 devices once"),
    ],
)
def test_bad_groups(groups: Any, text: str) -> None:
    x = parameter(0, 4)
    with pytest.raises(CompileError, match=text) as caught:
        arrange_collectives(module([x], all_reduce(x, groups), num_replicas=2))
    assert caught.value.code == "INVALID_ARGUMENT"


def test_a_device_that_receives_twice() -> None:
    x = parameter(0, 4)
    attributes = {"source_target_pairs": ((0, 1), (1, 1)), "channel_id": 0}
    permute = Instruction("collective-permute", x.shape, (x,), attributes)
    with pytest.raises(CompileError, match="device 1 receives twice"):
        arrange_collectives(module([x], permute, num_replicas=2))


def transposed(x: Instruction, *order: int) -> Instruction:
    return op("transpose", x, dims=[x.dims[n] for n in order], dimensions=order)


def test_a_result_that_is_read_transposed_is_reduced_transposed() -> None:
    x = parameter(0, 4, 5, 6)
    reduced = all_reduce(op("negate", x))
    read = [transposed(reduced, 2, 0, 1), transposed(reduced, 2, 0, 1)]
    m = module([x], op("add", *read), num_replicas=2)
    m = arrange_collectives(m)
    verify(m)
    opcodes = ["parameter", "negate", "transpose", "all-reduce", "add"]
    assert [i.opcode for i in m.entry.instructions] == opcodes
    reduced = m.entry.instructions[3]
    assert reduced.dims == (6, 4, 5)
    assert reduced.operands[0].attributes["dimensions"] == (2, 0, 1)
    assert m.entry.root.operands == (reduced, reduced)


@pytest.mark.parametrize("what", ["returned", "read as it is", "read in two orders"])
def test_a_result_that_is_read_otherwise_too_is_reduced_as_it_is(what: str) -> None:
    x = parameter(0, 4, 4)
    reduced = all_reduce(x)
    turned = transposed(reduced, 1, 0)
    if what == "read in two orders":
        y = parameter(0, 4, 4, 4)
        reduced = all_reduce(y)
        turned, x = transposed(reduced, 1, 2, 0), y
        root = op("add", turned, transposed(reduced, 2, 0, 1))
    elif what == "read as it is":
        root = op("add", turned, reduced)
    else:
        shapes = hlo.TupleShape((turned.shape, reduced.shape))
        root = Instruction("tuple", shapes, (turned, reduced))
    m = module([x], root, num_replicas=2)
    assert arrange_collectives(m) is m


def test_the_entry_s_result_is_reduced_as_it_is() -> None:
    x = parameter(0, 4, 6)
    reduced = all_reduce(x)
    effect = transposed(reduced, 1, 0)
    m = Module("m", Computation("main", [x], [x, reduced, effect], reduced), num_replicas=2)
    assert [i.opcode for i in arrange_collectives(m).entry.instructions][:2] == [
        "parameter",
        "all-reduce",
    ]


def test_the_only_reader_is_the_result() -> None:
    x = parameter(0, 4, 6)
    m = arrange_collectives(module([x], transposed(all_reduce(x), 1, 0), num_replicas=2))
    verify(m)
    assert [i.opcode for i in m.entry.instructions] == ["parameter", "transpose", "all-reduce"]
    assert m.entry.root.dims == (6, 4)
