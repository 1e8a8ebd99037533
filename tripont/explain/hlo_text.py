"""Reading HLO text, ours and XLA's: just enough to list and draw what is in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_HEAD: Final = re.compile(r"^(ENTRY )?%?([\w.-]+)[^=]*\{$")
_INSTRUCTION: Final = re.compile(
    r"^\s+(ROOT )?%?([\w.-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([\w-]+)\("
)
_NAME: Final = re.compile(r"%([\w.-]+)")
_CALLED: Final = re.compile(
    r"(?:calls|to_apply|condition|body|comparator|select|scatter|true_computation|false_computation)"
    r"=%?([\w.-]+)"
)
_CALLED_LIST: Final = re.compile(r"(?:branch_computations|called_computations|calls)=\{([^}]*)\}")
_KIND: Final = re.compile(r", kind=k?([\w-]+)")
_LIBRARY: Final = re.compile(r', (?:name|custom_call_target)="([^"]*)"')
_INDEX: Final = re.compile(r", index=(\d+)")
_OP_NAME: Final = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_SOURCE: Final = re.compile(r'source_file="((?:[^"\\]|\\.)*)" source_line=(\d+)')


@dataclass(slots=True)
class TextInstruction:
    """One line of a computation. ``called``: names of computations; ``line``: from 0, in the text."""

    name: str
    shape: str
    opcode: str
    operands: list[str]
    called: list[str]
    line: int
    kind: str = ""
    library: str = ""
    index: int = 0  # of a get-tuple-element or parameter
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0


@dataclass(slots=True)
class TextComputation:
    """``first`` and ``last``: its lines in the text, from 0, both included."""

    name: str
    entry: bool
    first: int
    last: int = 0
    instructions: list[TextInstruction] = field(default_factory=list)
    root: str = ""

    def by_name(self) -> dict[str, TextInstruction]:
        return {i.name: i for i in self.instructions}


def read_hlo(text: str) -> dict[str, TextComputation]:
    """All computations by name. Text that is not HLO gives an empty result."""
    computations: dict[str, TextComputation] = {}
    current: TextComputation | None = None
    for number, line in enumerate(text.split("\n")):
        if current is None:
            head = _HEAD.match(line)
            if head is not None and not line.startswith("HloModule"):
                current = TextComputation(head[2], bool(head[1]), number)
        elif line.startswith("}"):
            current.last = number
            computations[current.name] = current
            current = None
        elif match := _INSTRUCTION.match(line):
            current.instructions.append(_instruction(line, match, number))
            if match[1]:
                current.root = match[2]
    return computations


def _instruction(line: str, match: re.Match[str], number: int) -> TextInstruction:
    opcode = match[4]
    end = _closing(line, match.end())
    inside, rest = line[match.end() : end], line[end:]
    instruction = TextInstruction(
        name=match[2],
        shape=_without_layout(match[3]),
        opcode=opcode,
        operands=_NAME.findall(inside) if opcode != "constant" else [],
        called=_CALLED.findall(rest),
        line=number,
    )
    for names in _CALLED_LIST.findall(rest):
        instruction.called += [n.strip().lstrip("%") for n in names.split(",") if n.strip()]
    if found := _KIND.search(rest):
        instruction.kind = found[1].lower()
    if opcode in ("library-call", "custom-call") and (found := _LIBRARY.search(rest)):
        instruction.library = found[1]
    if opcode == "get-tuple-element" and (found := _INDEX.search(rest)):
        instruction.index = int(found[1])
    if opcode == "parameter" and inside.isdigit():
        instruction.index = int(inside)
    if found := _OP_NAME.search(rest):
        instruction.op_name = found[1]
    if found := _SOURCE.search(rest):
        instruction.source_file, instruction.source_line = found[1], int(found[2])
    return instruction


def _closing(line: str, start: int) -> int:
    """Where the parenthesis that was opened before ``start`` closes."""
    depth = 1
    for at in range(start, len(line)):
        if line[at] == "(":
            depth += 1
        elif line[at] == ")":
            depth -= 1
            if depth == 0:
                return at
    return len(line)


def _without_layout(shape: str) -> str:
    return re.sub(r"\{[\d,]*\}|/\*index=\d+\*/", "", shape)
