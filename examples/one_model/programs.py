"""What became of a program, read from tripont's dump: counts, and its pieces in a form that can be compared."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAME = re.compile(r"%[\w.-]+")
_SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?(%[\w.-]+) = (\S+) ([\w-]+)\((.*?)\)(.*)")


@dataclass(frozen=True)
class Program:
    """``pieces``: how often each fusion and library call is there, by what it computes."""

    name: str
    received: int
    instructions: int
    fusions: int
    library_calls: int
    kernels: int
    nanoseconds: float
    pieces: Counter[str]


def dumped(folder: Path) -> set[Path]:
    """The descriptions of the programs that were compiled until now."""
    return set(folder.glob("module_*.module.json"))


def largest(descriptions: set[Path]) -> Program:
    """The program with the most instructions: beside the model's there are small ones that move and convert arrays."""
    programs = [read(path) for path in descriptions]
    return max(programs, key=lambda program: program.instructions)


def read(path: Path) -> Program:
    """The program that a module.json describes (docs/dumps.md)."""
    module = json.loads(path.read_text())
    text = {stage: (path.parent / name) for stage, name in module["files"].items()}
    hlo = text["after_optimizations.txt"].read_text()
    computations = _computations(hlo)
    operations = module["operations"]
    pieces = Counter(_piece(operation, computations) for operation in operations)
    opcodes = Counter(operation["opcode"] for operation in operations)
    return Program(
        module["name"],
        _count(text["before_optimizations.txt"].read_text()),
        _count(hlo),
        opcodes["fusion"],
        opcodes["library-call"],
        len(module["kernels"]),
        module["costs"]["nanoseconds"],
        pieces,
    )


def _count(hlo: str) -> int:
    """Instructions in HLO text: the lines that define a name."""
    return sum(1 for line in hlo.splitlines() if re.match(r"\s+(ROOT )?%[\w.-]+ = ", line))


def _computations(hlo: str) -> dict[str, str]:
    """The bodies of the computations by name."""
    found: dict[str, list[str]] = {}
    body: list[str] = []
    for line in hlo.splitlines():
        head = re.match(r"(?:ENTRY )?%?([\w.-]+) .*\{$", line)
        if head and not line.startswith(" "):
            body = found.setdefault(head[1], [])
        else:
            body.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def _piece(operation: dict[str, Any], computations: dict[str, str]) -> str:
    """What an operation computes: its arithmetic as one expression, on arrays of how many elements.

    Left out is what frameworks write differently for the same thing: names, the order of instructions and of the
    operands of commutative ones, and how elements are divided into dimensions (``[4,32,64]`` or ``[128,64]``).
    """
    kind = operation.get("kind") or operation.get("library_call") or ""
    sizes = [_size(array["shape"]) for array in (*operation["operands"], *operation["results"])]
    body = computations.get(operation.get("fused_computation") or "", "")
    return " ".join([operation["opcode"], kind, *sorted(sizes), _expression(body, computations)])


def _size(shape: str) -> str:
    """``f32[4,32]`` as ``f32*128``."""
    return _SHAPE.sub(lambda m: f"{m[1]}*{math.prod(int(d) for d in m[2].split(',') if d)}", shape)


def _expression(body: str, computations: dict[str, str]) -> str:
    """The root of a computation as an expression; what is used more than once is written out each time, as a hash."""
    known: dict[str, str] = {}
    text = ""
    for line in body.splitlines():
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        name, shape, opcode, operands, rest = found.groups()
        if opcode in ("parameter", "constant"):
            text = f"{_size(shape)}" + (f" {operands}" if opcode == "constant" else "")
        elif opcode in ("reshape", "bitcast"):
            text = known[operands.strip()]
        else:
            inner = [known[operand] for operand in _NAME.findall(operands)]
            if opcode in ("add", "multiply", "maximum", "minimum", "and", "or"):
                inner.sort()
            direction = re.search(r"direction=\w+", rest)
            called = re.search(r"to_apply=%?([\w.-]+)", rest)
            text = " ".join([opcode, _size(shape), direction[0] if direction else "", *inner])
            if called:
                text += _expression(computations.get(called[1], ""), computations)
            text = hashlib.sha256(text.encode()).hexdigest()[:16]
        known[name] = text
    return text
