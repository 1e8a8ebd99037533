"""Collectives begin early, are awaited late, and keep their memory in between. (tests/integration/hosts runs them.)"""

from __future__ import annotations

import pytest
from tripont.core.compiler.ir.hlo import (
    Computation,
    Instruction,
    Module,
    TupleShape,
    constant,
    get_tuple_element,
)
from tripont.core.compiler.ir.verifier import verify
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.passes import combine_all_reduces
from tripont.core.compiler.passes.collectives import arrange_collectives, match_collectives
from tripont.core.compiler.passes.overlap_collectives import MOST_AHEAD, overlap_collectives
from tripont.core.compiler.targets.host import for_cpu

from ..builders import PRED, body, op, parameter

SIZE = 1 << 20  # 4 MB: 0.4 ms of kernel, 4 ms on the wire
CALL = "library-call"
DONE = "collective-done"


def call(meeting: int, *operands: Instruction, name: str = "all-reduce") -> Instruction:
    shapes = tuple(o.shape for o in operands)
    shape = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    config = {"meeting": meeting, "channel": 0, "groups": (0, 1), "group_sizes": (2,)}
    return Instruction(CALL, shape, operands, {"name": name, "config": {**config, "cost_ns": 1.0}})


def order_of(m: Module) -> list[str]:
    """Each thunk: the opcode, with the number of its collective."""
    found = []
    for i in m.entry.instructions:
        if i.opcode == CALL:
            a = "begin" if i.attributes["config"].get("asynchronous") else "whole"
            found.append(f"{a} {i.attributes['config']['meeting']}")
        elif i.opcode == DONE:
            found.append(f"done {i.attributes['meeting']}")
        elif i.opcode not in ("parameter", "constant", "tuple", "get-tuple-element"):
            found.append(i.opcode)
    return found


def overlapped(m: Module) -> Module:
    result = overlap_collectives(m, for_cpu())
    verify(result)
    buffers.check_assignment(result, buffers.assign(result))
    return result


def in_order(parameters: list[Instruction], *instructions: Instruction, results: int) -> Module:
    """A scheduled module: instructions as they stand, of which the last ones are results."""
    last = instructions[-results:]
    root = Instruction("tuple", TupleShape(tuple(r.shape for r in last)), last)
    return Module("m", Computation("main", parameters, [*parameters, *instructions, root], root))


def test_other_work_goes_between_a_collective_and_its_reader() -> None:
    x, y = parameter(0, SIZE), parameter(1, SIZE)
    reduced = call(0, x)
    reader, other = op("negate", reduced), op("exponential", y)
    m = overlapped(in_order([x, y], reduced, reader, other, results=2))
    assert order_of(m) == ["begin 0", "exponential", "done 0", "negate"]


def test_a_collective_begins_as_soon_as_its_operand_is_there() -> None:
    x, y = parameter(0, SIZE), parameter(1, SIZE)
    first, other = op("negate", x), op("exponential", y)
    reduced = call(0, first)
    reader = op("negate", reduced)
    m = overlapped(in_order([x, y], first, other, reduced, reader, results=1))
    assert order_of(m) == ["negate", "begin 0", "exponential", "done 0", "negate"]


def test_with_nothing_beside_it_the_device_does_it_itself() -> None:
    x, y = parameter(0, SIZE), parameter(1, 4)
    reduced = call(0, x)
    small, reader = op("exponential", y), op("negate", reduced)
    m = overlapped(in_order([x, y], reduced, small, reader, results=2))
    assert order_of(m) == ["whole 0", "exponential", "negate"]


def test_work_is_put_off_for_no_longer_than_the_wire_is_busy() -> None:
    x, y = parameter(0, 1024), parameter(1, SIZE)
    reduced = call(0, x)  # 54 us
    reader = op("negate", reduced)
    more = [op("exponential", y)]
    for _ in range(3):
        more.append(op("exponential", more[-1]))
    m = overlapped(in_order([x, y], reduced, reader, *more, results=5))
    assert order_of(m)[:4] == ["begin 0", "exponential", "done 0", "negate"]


def test_collectives_keep_their_order() -> None:
    x, y = parameter(0, SIZE), parameter(1, SIZE)
    late = op("negate", x)
    first, second = call(0, late), call(1, y)
    readers = op("negate", first), op("negate", second)
    m = overlapped(in_order([x, y], late, first, second, *readers, results=2))
    begun = [o.split()[1] for o in order_of(m) if o.startswith(("begin", "whole"))]
    assert begun == ["0", "1"]


def test_few_collectives_run_ahead() -> None:
    """Parameters that are gathered layer by layer are not all in memory at once."""
    parameters = [parameter(n, SIZE) for n in range(9)]
    value, instructions = parameters[0], []
    for n, p in enumerate(parameters[1:]):
        gathered = call(n, p, name="all-gather")
        value = op("add", value, gathered)
        instructions += [gathered, value]
    m = overlapped(in_order(parameters, *instructions, results=1))
    alive, most = 0, 0
    for what in order_of(m):
        alive += what.startswith(("begin", "whole"))
        most = max(most, alive)
        alive -= what == "add"
    assert most <= MOST_AHEAD + 1


def test_memory_of_operand_and_result_is_in_use_until_the_end() -> None:
    """Neither is given to what runs in between, and one that dies is overwritten by its result."""
    x, y = parameter(0, SIZE), parameter(1, SIZE)
    gradient = op("negate", x)
    reduced = call(0, gradient)
    between = op("exponential", y)
    between = op("negate", between)
    reader = op("add", reduced, between)
    m = overlapped(
        in_order([x, y], gradient, reduced, between.operands[0], between, reader, results=1)
    )
    assert "begin 0" in order_of(m)
    assignment = buffers.assign(m)
    start = next(i for i in m.entry.instructions if i.opcode == CALL)
    operand = assignment.values[start.operands[0]][0]
    assert operand is not None
    (result,) = assignment.slices(start)
    assert assignment.slice_of(operand) == result


def test_an_operand_that_is_read_in_between_keeps_its_value() -> None:
    x = parameter(0, SIZE)
    gradient = op("negate", x)
    reduced = call(0, gradient)
    norm = op("multiply", gradient, gradient)
    reader = op("add", reduced, norm)
    m = overlapped(in_order([x], gradient, reduced, norm, reader, results=1))
    assert order_of(m) == ["negate", "begin 0", "multiply", "done 0", "add"]
    assignment = buffers.assign(m)
    start = next(i for i in m.entry.instructions if i.opcode == CALL)
    operand = assignment.values[start.operands[0]][0]
    assert operand is not None
    (result,) = assignment.slices(start)
    assert assignment.slice_of(operand) != result


def test_each_result_of_a_joined_collective_is_behind_its_end() -> None:
    x, y, z = (parameter(n, SIZE) for n in range(3))
    whole = call(0, x, y)
    first, second = get_tuple_element(whole, 0), get_tuple_element(whole, 1)
    readers = op("negate", first), op("negate", second)
    other = op("exponential", z)
    m = overlapped(in_order([x, y, z], whole, first, second, other, *readers, results=3))
    assert order_of(m) == ["begin 0", "exponential", "done 0", "negate", "negate"]
    for i in m.entry.instructions:
        if i.opcode == "get-tuple-element":
            assert i.operands[0].opcode == DONE


def test_gradients_are_joined_in_the_order_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four fit together: the first two, which are exchanged where the backward pass has computed them."""
    monkeypatch.setattr(combine_all_reduces, "TOGETHER_BYTES", 2 * 4 * SIZE)
    x = parameter(0, SIZE)
    add = body("add")
    values = [x]
    for _ in range(4):
        values.append(op("negate", values[-1]))
    attributes = {"replica_groups": (), "channel_id": 0, "use_global_device_ids": False}
    reduced = [op("all-reduce", v, called=(add,), **attributes) for v in values[1:]]
    m = in_order([x], *values[1:], *reduced, results=4)
    m.num_replicas = 2
    m = match_collectives(arrange_collectives(m), for_cpu())
    found = [i for i in m.entry.instructions if i.opcode == CALL]
    assert [list(i.operands) for i in found] == [values[1:3], values[3:]]
    assert order_of(m) == ["negate", "negate", "whole 0", "negate", "negate", "whole 1"]


def test_a_loop_with_a_collective_keeps_its_place_among_collectives() -> None:
    """The times of other work, which processes do not share, do not decide which comes first."""
    x, y, z = (parameter(n, SIZE) for n in range(3))
    state = parameter(0, SIZE)
    turn = Computation.from_root("turn", [state], call(0, state))
    again = Computation.from_root("again", [state], constant(False, PRED))
    inner = op("while", state, called=(again, turn))
    nest = Computation.from_root("nest", [state], inner)
    before = op("exponential", x)
    loop = op("while", before, called=(again, nest))
    reduced = call(1, y)
    reader = op("negate", z)
    m = overlap_collectives(
        in_order([x, y, z], before, loop, reduced, reader, results=3), for_cpu()
    )
    verify(m)
    found = [o for o in order_of(m) if o == "while" or o.endswith("1")]
    assert found[0] == "while"
    assert found[1] in ("begin 1", "whole 1")


def test_a_collective_comes_before_a_branch_that_holds_the_next() -> None:
    x, y, which = parameter(0, SIZE), parameter(1, SIZE), parameter(2, dtype=PRED)
    state = parameter(0, SIZE)
    meets = Computation.from_root("meets", [state], call(2, state))
    other = Computation.from_root("other", [state], op("negate", state))
    first = call(0, x)
    before = op("exponential", first)
    second = call(1, before)
    attributes = {"operand_counts": (1, 1)}
    branch = Instruction("conditional", y.shape, (which, y, y), attributes, (meets, other))
    instructions = first, before, second, branch
    m = overlap_collectives(in_order([x, y, which], *instructions, results=2), for_cpu())
    verify(m)
    assert order_of(m) == ["whole 0", "exponential", "begin 1", "conditional", "done 1"]


def test_what_is_reduced_is_computed_as_soon_as_it_can_be() -> None:
    """A partitioner puts all gradients of weights behind the backward pass: each goes to where its operand is."""
    x = parameter(0, SIZE)
    one = op("negate", x)
    two = op("negate", one)
    first, second = op("exponential", one), op("exponential", two)
    reduced = call(0, first), call(1, second)
    readers = op("sqrt", reduced[0]), op("sqrt", reduced[1]), op("cosine", two)
    m = overlapped(in_order([x], one, two, first, second, *reduced, *readers, results=3))
    assert order_of(m)[:5] == ["negate", "exponential", "begin 0", "negate", "exponential"]
