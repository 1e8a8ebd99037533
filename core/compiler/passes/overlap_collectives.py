"""Collectives that run while the program computes.

A collective takes its time on the wire, and little of the CPU's. :func:`overlap_collectives` reorders a scheduled
module so that each collective begins as soon as its operands are there, and what reads its result comes behind other
work that does not wait for it. Where enough work stands in between, the collective becomes asynchronous: the call
begins it on a thread of the device's own, and a ``collective-done`` before the first reader waits for it.

The new order is that of a simulation, in which the device computes one instruction after the other, and the wire
moves one collective after the other: an instruction that waits for the wire lets the next one that does not go first.
So nothing is put off for longer than the wire is busy, and little more memory is in use than before. Collectives keep
their order, which all processes of a job must share.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..ir import cost
from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape
from ..ir.patterns import is_collective_call
from ..ir.registry import OPS
from ..memory.inplace import in_place_operands, must_share, without_bitcasts
from .collective_groups import meets_others
from .combine_all_reduces import eager_places
from .rewrite import map_computations

if TYPE_CHECKING:
    from ..targets.costs import Costs
    from ..targets.target import Target

# Collectives that begin before their place in the program's own order hold memory for results: this many at most.
MOST_AHEAD: Final = 2


def overlap_collectives(module: Module, target: Target) -> Module:
    """``module``, which is fused and scheduled, with its collectives beside its other work."""
    if not module.overlaps:
        return module
    computations = executable_computations(module)
    return map_computations(module, lambda c: _overlap_in(c, target.costs), computations)


def _reduces(i: Instruction) -> bool:
    return is_collective_call(i) and i.attributes["name"] in ("all-reduce", "reduce-scatter")


def _overlap_in(computation: Computation, costs: Costs) -> Computation:
    if not any(is_collective_call(i) for i in computation.instructions):
        return computation
    order = _simulated_order(computation.instructions, costs)
    return _with_asynchronous(computation, order, costs)


def _time_of(instruction: Instruction, costs: Costs) -> float:
    """What an instruction takes on one core, in ns, roughly."""
    op = OPS[instruction.opcode]
    if op.is_alias or instruction.opcode in ("parameter", "constant"):
        return 0.0
    if op.runs_thunks or instruction.opcode == "custom-call":
        return costs.wire.unknown_work
    if instruction.opcode == "library-call":
        return float(instruction.attributes["config"].get("cost_ns", 0.0))
    estimate = cost.of_operation(instruction)
    flops = estimate.flops if estimate else 0.0
    return max(_bytes_of(instruction) / costs.library.byte_rate, flops / costs.library.other_flops)


def _bytes_of(instruction: Instruction) -> int:
    shapes = [*(o.shape for o in instruction.operands), *instruction.result_shapes]
    return sum(s.bytes for s in shapes if isinstance(s, Shape))


def _wire_time(collective: Instruction, costs: Costs) -> float:
    size = sum(o.shape.bytes for o in collective.operands if isinstance(o.shape, Shape))
    return costs.wire.message + size / costs.wire.byte_rate


def _predecessors(instructions: Sequence[Instruction]) -> list[set[int]]:
    """For each instruction the places of those that must come before it: its operands; for collectives (and loops and
    branches that hold some) and side effects the one before; for an update in place what reads the array as it was.
    """
    place = {i: n for n, i in enumerate(instructions)}
    before: list[set[int]] = []
    readers: dict[Instruction, list[int]] = {}  # of an array's memory, by its first name
    origin: dict[Instruction, Instruction] = {}
    last_collective = last_effect = -1
    for n, i in enumerate(instructions):
        needed = {place[o] for o in i.operands}
        if meets_others(i):
            if last_collective >= 0:
                needed.add(last_collective)
            last_collective = n
        if i.has_side_effect:
            if last_effect >= 0:
                needed.add(last_effect)
            last_effect = n
        if i.opcode == "bitcast":
            origin[i] = origin.get(i.operands[0], without_bitcasts(i))
        else:
            if must_share(i):
                for found in in_place_operands(i):
                    for position in found:
                        target = i.operands[position]
                        needed.update(readers.get(origin.get(target, target), ()))
            for o in i.operands:
                readers.setdefault(origin.get(o, o), []).append(n)
        needed.discard(n)
        before.append(needed)
    return before


def _simulated_order(instructions: Sequence[Instruction], costs: Costs) -> list[Instruction]:
    before = _predecessors(instructions)
    after: list[list[int]] = [[] for _ in instructions]
    for n, needed in enumerate(before):
        for m in needed:
            after[m].append(n)
    missing = [len(needed) for needed in before]
    places = eager_places(instructions, _reduces)
    key = [(places[i], n) for n, i in enumerate(instructions)]
    # The wire's time of the latest collective that an instruction waits for, by any way.
    arrives = [0.0] * len(instructions)
    now = wire = 0.0
    ready: list[tuple[float, int]] = []  # heap of places: nothing to wait for
    waiting: list[tuple[float, int]] = []  # heap: (when, place) of what waits for the wire alone
    collectives: list[int] = []  # heap: collectives whose operands are there
    flying: list[float] = []  # when collectives that are ahead of their place arrive
    order: list[Instruction] = []
    scheduled = [False] * len(instructions)
    head = 0

    def release(n: int) -> None:
        if is_collective_call(instructions[n]):
            heapq.heappush(collectives, n)
        elif arrives[n] > now:
            heapq.heappush(waiting, (arrives[n], n))
        else:
            heapq.heappush(ready, key[n])

    def schedule(n: int, done: float, to_others: float) -> None:
        order.append(instructions[n])
        scheduled[n] = True
        for m in after[n]:
            in_order_only = instructions[n] not in instructions[m].operands
            arrives[m] = max(arrives[m], to_others if in_order_only else done)
            missing[m] -= 1
            if missing[m] == 0:
                release(m)

    for n, count in enumerate(missing):
        if count == 0:
            release(n)
    while len(order) < len(instructions):
        while head < len(instructions) and scheduled[head]:
            head += 1
        flying = [time for time in flying if time > now]
        if collectives:
            n = collectives[0]
            in_place = n <= head
            if in_place or len(flying) < MOST_AHEAD:
                heapq.heappop(collectives)
                begin = max(now, wire, arrives[n])
                wire = begin + _wire_time(instructions[n], costs)
                if not in_place:
                    flying.append(wire)
                # The next collective may begin at once: the device does them one after the other.
                schedule(n, wire, now)
                continue
        while waiting and waiting[0][0] <= now:
            heapq.heappush(ready, key[heapq.heappop(waiting)[1]])
        if not ready:  # the device waits for the wire
            now = min([time for time, _ in waiting[:1]] + flying)
            continue
        _, n = heapq.heappop(ready)
        now += _time_of(instructions[n], costs)
        schedule(n, now, now)
    return order


def _with_asynchronous(
    computation: Computation, order: Sequence[Instruction], costs: Costs
) -> Computation:
    """``computation`` in ``order``, with a ``collective-done`` for every collective that has enough to run beside."""
    # From the front: how much work there is before each place.
    work = [0.0]
    for i in order:
        work.append(work[-1] + (0.0 if is_collective_call(i) else _time_of(i, costs)))
    place = {i: n for n, i in enumerate(order)}
    first_use: dict[Instruction, int] = {}
    for n, i in enumerate(order):
        if i.opcode in ("get-tuple-element", "bitcast"):
            continue  # reads nothing
        for o in i.operands:
            while True:
                first_use.setdefault(o, n)
                if o.opcode not in ("get-tuple-element", "bitcast"):
                    break
                o = o.operands[0]
    dones: dict[int, list[Instruction]] = {}  # by the place before which they stand
    asynchronous = set()
    for i in order:
        if not is_collective_call(i):
            continue
        use = first_use.get(i, len(order))
        if i is computation.root or use == len(order):
            continue
        if work[use] - work[place[i]] >= costs.wire.least_overlap:
            asynchronous.add(i)
            dones.setdefault(use, []).append(i)
    if not asynchronous and all(
        a is b for a, b in zip(order, computation.instructions, strict=True)
    ):
        return computation
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    waits: dict[Instruction, Instruction] = {}

    def place_done(start: Instruction) -> None:
        call = mapped[start]
        done = start.derive(
            "collective-done", (call,), {"meeting": start.attributes["config"]["meeting"]}
        )
        waits[start] = done
        output.append(done)

    late: dict[Instruction, list[Instruction]] = {}  # views of a result that is not there yet

    def emit(i: Instruction) -> None:
        operands = [waits.get(o) or mapped[o] for o in i.operands]
        if i in asynchronous:
            attributes = dict(i.attributes)
            attributes["config"] = {**attributes["config"], "asynchronous": 1}
            mapped[i] = i.replace(operands=operands, attributes=attributes)
        else:
            mapped[i] = i.with_operands(operands)
        output.append(mapped[i])

    behind: dict[Instruction, Instruction] = {}  # a view, and the collective it is of
    for n, i in enumerate(order):
        for start in dones.get(n, ()):
            place_done(start)
            for view in late.pop(start, ()):
                emit(view)
        if i.opcode in ("get-tuple-element", "bitcast"):
            source = i.operands[0]
            start = behind.get(source, source)
            if start in asynchronous and start not in waits:
                behind[i] = start
                late.setdefault(start, []).append(i)
                continue
        emit(i)
    root = waits.get(computation.root) or mapped[computation.root]
    return Computation(computation.name, computation.parameters, output, root)
