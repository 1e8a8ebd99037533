"""Collectives and who takes part in them: the groups of participants that meet in one instruction.

The devices of a program are its participants, numbered ``replica * num_partitions + partition``.
"""

from __future__ import annotations

from typing import Final

from ..ir.errors import of_instruction
from ..ir.hlo import Computation, Instruction, Module
from ..ir.patterns import is_collective_call

Groups = tuple[tuple[int, ...], ...]

MEETINGS: Final = frozenset(
    (
        "all-reduce",
        "all-gather",
        "all-to-all",
        "reduce-scatter",
        "collective-permute",
        "collective-broadcast",
    )
)


def participant_groups(i: Instruction, module: Module) -> Groups:
    """The groups of participants that meet in ``i``, each in the order of its members.

    What the numbers in ``replica_groups`` are depends on the opcode, the channel and ``use_global_device_ids``, as
    StableHLO's specification says (cross_replica, cross_partition, cross_replica_and_partition, flattened_ids).
    """
    replicas, partitions = module.num_replicas, module.num_partitions
    given: Groups = i.attributes["replica_groups"]
    has_channel = i.attributes["channel_id"] > 0

    def all_of(count: int) -> Groups:
        return given or (tuple(range(count)),)

    def check(groups: Groups, count: int, what: str) -> Groups:
        for number in (n for group in groups for n in group):
            if not 0 <= number < count:
                message = f"a group names {what} {number}, but the program has {count}"
                raise of_instruction("INVALID_ARGUMENT", message, i)
        return groups

    if i.attributes.get("use_global_device_ids", False):
        return check(all_of(replicas * partitions), replicas * partitions, "device")
    if i.opcode in ("all-to-all", "collective-broadcast") and has_channel:
        return tuple(
            tuple(replica * partitions + n for n in group)
            for replica in range(replicas)
            for group in check(all_of(partitions), partitions, "partition")
        )
    groups = check(all_of(replicas), replicas, "replica")
    if has_channel and i.opcode not in ("all-to-all", "collective-broadcast"):
        return tuple(
            tuple(n * partitions + partition for partition in range(partitions) for n in group)
            for group in groups
        )
    return tuple(
        tuple(n * partitions + partition for n in group)
        for partition in range(partitions)
        for group in groups
    )


def complete_groups(i: Instruction, module: Module) -> Groups:
    """The groups of ``i``, in which every participant must be once."""
    groups = participant_groups(i, module)
    members = sorted(n for group in groups for n in group)
    if members != list(range(module.num_replicas * module.num_partitions)):
        message = (
            f"the groups {groups} do not hold each of the program's"
            f" {module.num_replicas * module.num_partitions} devices once"
        )
        raise of_instruction("INVALID_ARGUMENT", message, i)
    return groups


def permuted_sources(i: Instruction, module: Module) -> list[int]:
    """For each participant the one whose operand it gets, or -1."""
    replicas, partitions = module.num_replicas, module.num_partitions
    sources = [-1] * (replicas * partitions)

    def send(source: int, target: int) -> None:
        if sources[target] >= 0:
            raise of_instruction("INVALID_ARGUMENT", f"device {target} receives twice", i)
        sources[target] = source

    if i.opcode == "collective-broadcast":
        for group in participant_groups(i, module):
            for target in group:
                send(group[0], target)
        return sources
    across_partitions = i.attributes["channel_id"] > 0
    count = partitions if across_partitions else replicas
    for source, target in i.attributes["source_target_pairs"]:
        if not (0 <= source < count and 0 <= target < count):
            message = f"the pair ({source}, {target}) names a device that the program does not have"
            raise of_instruction("INVALID_ARGUMENT", message, i)
        for other in range(replicas if across_partitions else partitions):
            if across_partitions:
                send(other * partitions + source, other * partitions + target)
            else:
                send(source * partitions + other, target * partitions + other)
    return sources


def connected(sources: list[int]) -> Groups:
    """Participants that exchange anything with one another, directly or not; each in one group."""
    leader = list(range(len(sources)))

    def find(n: int) -> int:
        while leader[n] != n:
            n = leader[n]
        return n

    for target, source in enumerate(sources):
        if source >= 0:
            a, b = find(source), find(target)
            leader[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for n in range(len(sources)):
        groups.setdefault(find(n), []).append(n)
    return tuple(map(tuple, groups.values()))


def meets_others(instruction: Instruction) -> bool:
    """Whether an instruction is a collective, or one is in what it calls, at any depth."""
    stack = [instruction]
    seen: set[Computation] = set()
    while stack:
        i = stack.pop()
        if i.opcode in MEETINGS:
            return True
        if is_collective_call(i):
            return True
        for computation in i.called:
            if computation not in seen:
                seen.add(computation)
                stack += computation.instructions
    return False
