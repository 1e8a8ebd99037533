"""The description of a compilation (``module.json`` of a dump): what ties its files together.

For every operation that runs (a fusion, a library call, a loop) it says which kernels compute it,
which lines of the user's program it comes from, where its arrays lie, and what it costs.
docs/dumps.md defines the fields; a change of their meaning is a new ``dump.SCHEMA_VERSION``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..formats.artifact import (
    ALLOCATION_KINDS,
    Conditional,
    Copy,
    Executable,
    Kernel,
    LibraryCall,
    Slice,
    Thunk,
    View,
    While,
)
from ..ir import cost
from ..ir.hlo import Computation, Instruction, Module
from ..ir.registry import OPS
from ..memory.buffers import Assignment
from ..memory.liveness import FOREVER, Value
from ..thunks.lowering import Lowered

Json = dict[str, Any]


def describe(executable: Executable, lowered: Lowered) -> Json:
    """All fields of the description but those that :class:`.dump.Dump` adds.

    ``executable``: made of ``lowered``, whose thunks are not linked yet.
    """
    module, assignment, calls = lowered.module, lowered.assignment, lowered.calls
    homes = dict(executed(module))
    thunks, thunk_of = describe_thunks(lowered, homes)
    callers: dict[str, list[str]] = defaultdict(list)
    for caller, callees in calls.items():
        for callee in callees:
            callers[callee].append(caller)
    return describe_executable(executable) | {
        "fingerprint": executable.fingerprint,
        "parameters": [
            {"name": p.name, "shape": str(p.shape), "source": source_of(p)}
            for p in module.entry.parameters
        ],
        "operations": [
            describe_operation(instruction, home, assignment, lowered, thunk_of, callers)
            for instruction, home in homes.items()
        ],
        "kernels": describe_kernels(lowered, homes, calls),
        "thunks": thunks,
    }


def describe_executable(executable: Executable) -> Json:
    """The fields that an executable tells by itself."""
    costs = executable.costs
    return {
        "name": executable.name,
        "complete": True,
        "tripont": executable.compiler_version,
        "target": executable.target,
        "triple": executable.triple,
        "cpu": executable.cpu,
        "cpu_features": list(executable.cpu_features),
        "costs": {
            "flops": costs.flops,
            "transcendentals": costs.transcendentals,
            "bytes_accessed": costs.bytes_accessed,
            "nanoseconds": costs.optimal_nanoseconds,
        },
        "results": [str(v.shape) for v in executable.results],
        "allocations": [
            {
                "kind": ALLOCATION_KINDS[a.kind],
                "index": a.index,
                "size": a.size,
                "aliased_parameter": a.aliased_parameter,
            }
            for a in executable.allocations
        ],
    }


def executed(module: Module) -> Iterator[tuple[Instruction, Computation]]:
    """Every instruction that does something when the program runs, and the computation it is in."""
    seen: set[Computation] = set()
    waiting = [module.entry]
    while waiting:
        computation = waiting.pop(0)
        if computation in seen:
            continue
        seen.add(computation)
        for instruction in computation.instructions:
            if OPS[instruction.opcode].runs_thunks:
                waiting += instruction.called
            if not OPS[instruction.opcode].is_alias:
                yield instruction, computation


def identity(instruction: Instruction, home: Computation) -> str:
    """A name that is unique in the module: ``computation/instruction``."""
    return f"{home.name}/{instruction.name}"


def source_of(instruction: Instruction) -> Json | None:
    m = instruction.metadata
    if m is None or not (m.op_name or m.source_file):
        return None
    return {"op_name": m.op_name, "file": m.source_file, "line": m.source_line}


def describe_operation(
    instruction: Instruction,
    home: Computation,
    assignment: Assignment,
    lowered: Lowered,
    thunk_of: Mapping[Instruction, int],
    callers: Mapping[str, Sequence[str]],
) -> Json:
    inner = inner_instructions(instruction)
    estimate = cost.of_operation(instruction)
    function = lowered.symbol_of(instruction)
    kernels = [function] if function else []
    for kernel in kernels:  # grows: kernels that call it, those that call these, ...
        kernels += [c for c in callers.get(kernel, ()) if c not in kernels]
    operands = [
        array(value, operand.name, assignment)
        for operand in instruction.operands
        if (value := assignment.values[operand][0]) is not None
    ]
    results = [
        array(value, instruction.name, assignment)
        for value in assignment.values[instruction]
        if value is not None
    ]
    called = instruction.called[0].name if instruction.opcode == "fusion" else ""
    return {
        "id": identity(instruction, home),
        "name": instruction.name,
        "computation": home.name,
        "opcode": instruction.opcode,
        "kind": str(instruction.attributes.get("kind", "")),
        "library_call": str(instruction.attributes.get("name", ""))
        if instruction.opcode == "library-call"
        else "",
        "fused_computation": called,
        "shape": str(instruction.shape),
        "kernels": kernels,
        "thunk": thunk_of.get(instruction, -1),
        "source": source_of(instruction),
        "sources": sources_of(inner),
        "instructions": len(inner),
        "operands": operands,
        "results": results,
        "flops": estimate.flops if estimate else None,
        "transcendentals": estimate.transcendentals if estimate else None,
        "bytes_read": sum(o["size"] for o in operands),
        "bytes_written": sum(r["size"] for r in results),
    }


def inner_instructions(instruction: Instruction) -> list[Instruction]:
    """What an operation computes: of a fusion, the instructions of its computation."""
    if instruction.opcode != "fusion":
        return [instruction]
    return [
        i
        for i in instruction.called[0].instructions
        if i.opcode not in ("parameter", "constant", "tuple", "get-tuple-element")
    ]


def sources_of(instructions: Sequence[Instruction]) -> list[Json]:
    """The lines of the user's program that the instructions come from, most frequent first."""
    counts: Counter[tuple[str, int]] = Counter()
    names: dict[tuple[str, int], list[str]] = defaultdict(list)
    for instruction in instructions:
        m = instruction.metadata
        if m is None or not m.source_file:
            continue
        place = (m.source_file, m.source_line)
        counts[place] += 1
        if m.op_name not in names[place]:
            names[place].append(m.op_name)
    return [
        {"file": file, "line": line, "instructions": count, "op_names": names[file, line][:8]}
        for (file, line), count in counts.most_common()
    ]


def array(value: Value, name: str, assignment: Assignment) -> Json:
    """An array in memory: shape, place, and between which instructions of the schedule it lives."""
    place = assignment.slice_of(value)
    return {
        "name": name,
        "shape": str(value.shape),
        "allocation": place.allocation,
        "offset": place.offset,
        "size": place.size,
        "alive": [value.start, value.end if value.end < FOREVER else None],
    }


def describe_kernels(
    lowered: Lowered,
    homes: Mapping[Instruction, Computation],
    calls: Mapping[str, list[str]],
) -> list[Json]:
    operations: dict[str, list[str]] = defaultdict(list)
    for instruction, number in lowered.functions.items():
        if instruction in homes:
            operations[lowered.symbols[number]].append(identity(instruction, homes[instruction]))
    names = dict.fromkeys([*lowered.symbols, *operations])
    return [{"name": n, "operations": operations[n], "calls": calls.get(n, [])} for n in names]


def _is_own(thunk: Thunk, instruction: Instruction, lowered: Lowered) -> bool:
    """Whether a thunk runs this instruction, and not several of which this is the first."""
    if not isinstance(thunk, Kernel):
        return True
    return lowered.functions.get(instruction, thunk.function) == thunk.function


def describe_thunks(
    lowered: Lowered, homes: Mapping[Instruction, Computation]
) -> tuple[list[Json], dict[Instruction, int]]:
    """The thunk sequence, numbered depth first as the runtime numbers it, and the thunk of each
    instruction that has one.
    """
    thunk_of: dict[Instruction, int] = {}
    count = 0

    def place(s: Slice) -> list[int]:
        return [s.allocation, s.offset, s.size]

    def visit(thunks: Sequence[Thunk]) -> list[Json]:
        nonlocal count
        described = []
        for thunk in thunks:
            entry: Json = {"number": count, "kind": "", "operation": None}
            count += 1
            described.append(entry)
            if thunk.debug >= 0:
                instruction = lowered.instructions[thunk.debug]
                if instruction in homes and _is_own(thunk, instruction, lowered):
                    entry["operation"] = identity(instruction, homes[instruction])
                    if not isinstance(thunk, Copy) or instruction.opcode == "copy":
                        thunk_of.setdefault(instruction, entry["number"])
            match thunk:
                case Kernel():
                    entry |= {
                        "kind": "kernel",
                        "kernel": lowered.symbols[thunk.function],
                        "arguments": [place(s) for s in thunk.arguments],
                        "work_count": thunk.work_count,
                        "grain": thunk.grain,
                        "cost_ns": thunk.cost_ns,
                    }
                case Copy():
                    arguments = [place(thunk.source), place(thunk.destination)]
                    entry |= {"kind": "copy", "arguments": arguments}
                case LibraryCall():
                    arrays = (*thunk.operands, *thunk.results)
                    entry |= {
                        "kind": "library-call",
                        "library_call": thunk.name,
                        "arguments": [place(o.slice) for o in arrays],
                        "cost_ns": thunk.cost_ns,
                    }
                case View():
                    slices = (thunk.source, *(s.index for s in thunk.strides), thunk.view)
                    entry |= {"kind": "view", "arguments": [place(s) for s in slices]}
                case While():
                    entry |= {"kind": "while", "trip_count": thunk.trip_count}
                    entry["condition"] = visit(thunk.condition)
                    entry["body"] = visit(thunk.body)
                case Conditional():
                    entry["kind"] = "conditional"
                    entry["branches"] = [visit(branch) for branch in thunk.branches]
            if not math.isfinite(entry.get("cost_ns", 0.0)):
                entry["cost_ns"] = None
        return described

    return visit(lowered.thunks), thunk_of
