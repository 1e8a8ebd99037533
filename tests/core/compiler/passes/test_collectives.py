"""Collectives: groups written out, all-reduces joined, and what cannot be is refused. (tests/pjrt runs them.)"""

from __future__ import annotations

from typing import Any

import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, Shape
from tripont.core.compiler.ir.verifier import verify
from tripont.core.compiler.passes.collectives import (
    arrange_collectives,
    match_collectives,
    participant_groups,
)
from tripont.core.compiler.targets.host import for_cpu

from ..builders import module, op, parameter


def body(opcode: str = "add") -> Computation:
    scalar = Shape(dtypes.F32)
    a, b = hlo.parameter(0, scalar, "a"), hlo.parameter(1, scalar, "b")
    return Computation.from_root(opcode, [a, b], Instruction(opcode, scalar, (a, b)))


ADD = body()


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
