"""The drawn graphs: a computation of HLO text as nodes, edges and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from . import layout
from .hlo_text import TextComputation, TextInstruction

NODE_HEIGHT: Final = 44.0
_CHARACTER: Final = 7.0
_NARROWEST, _WIDEST = 84.0, 236.0
_LONGEST_LABEL: Final = 30

# Not drawn: their users are joined to what they read, or (constants) need no drawing.
_THROUGH: Final = frozenset(["get-tuple-element", "bitcast", "optimization-barrier"])
_HIDDEN: Final = frozenset(["constant"])


def draw_computation(
    computation: TextComputation, operations: Mapping[str, int], *, fused: bool
) -> dict[str, Any]:
    """What the page needs to draw a computation.

    ``operations``: the number of the operation of each ``computation/instruction``; ``fused``:
    whether it is the inside of a fusion, where constants and broadcasts of them say nothing either.
    """
    names = computation.by_name()
    hidden = _hidden(computation, fused)
    shown = [i for i in computation.instructions if i.name not in hidden]
    number = {i.name: n for n, i in enumerate(shown)}

    def behind(name: str) -> list[str]:
        """The drawn instructions that a name stands for."""
        while name in names and names[name].opcode in _THROUGH and names[name].operands:
            name = names[name].operands[0]
        return [name] if name in number else []

    edges: dict[tuple[int, int], None] = {}
    for instruction in shown:
        for operand in instruction.operands:
            for source in behind(operand):
                edges[number[source], number[instruction.name]] = None
    labels = [_label(i, computation) for i in shown]
    widths = [
        min(max(_NARROWEST, 24 + _CHARACTER * max(len(a), len(b) * 0.86)), _WIDEST)
        for a, b in labels
    ]
    sources = [number[i.name] for i in shown if i.opcode == "parameter"]
    drawing = layout.draw(widths, NODE_HEIGHT, list(edges), sources)
    nodes = [
        {
            "name": i.name,
            "label": label,
            "detail": detail,
            "kind": category(i),
            "x": round(drawing.x[n], 1),
            "y": round(drawing.y[n], 1),
            "w": round(widths[n], 1),
            "layer": drawing.layer[n],
            "operation": operations.get(f"{computation.name}/{i.name}", -1),
            "inside": [
                c for c in i.called if i.opcode in ("fusion", "while", "conditional", "call")
            ],
        }
        for n, (i, (label, detail)) in enumerate(zip(shown, labels, strict=True))
    ]
    return {
        "nodes": nodes,
        "edges": [
            [a, b, [[round(x, 1), round(y, 1)] for x, y in bends]]
            for (a, b), bends in zip(edges, drawing.bends, strict=True)
        ],
        "width": round(drawing.width, 1),
        "height": round(drawing.height, 1),
    }


def _hidden(computation: TextComputation, fused: bool) -> set[str]:
    hidden = {i.name for i in computation.instructions if i.opcode in _HIDDEN | _THROUGH}
    names = computation.by_name()
    if computation.root in names and names[computation.root].opcode not in _THROUGH:
        hidden.discard(computation.root)
    if fused:
        for i in computation.instructions:
            of_constant = i.operands and names[i.operands[0]].opcode in _HIDDEN
            if i.opcode == "broadcast" and of_constant and i.name != computation.root:
                hidden.add(i.name)
    return hidden


def _label(instruction: TextInstruction, computation: TextComputation) -> tuple[str, str]:
    """The two lines in a node."""
    if instruction.opcode == "tuple" and instruction.name == computation.root:
        return "results", _short(instruction.shape)
    if instruction.opcode == "parameter":
        name = instruction.op_name or instruction.name
        # Of a path into a tree of parameters the end says most.
        tail = name if len(name) <= _LONGEST_LABEL else "…" + name[1 - _LONGEST_LABEL :]
        return tail, _short(instruction.shape)
    if instruction.opcode in ("library-call", "custom-call"):
        return _short(instruction.library or instruction.opcode), _short(instruction.shape)
    if instruction.opcode == "fusion":
        return _short(instruction.name), _short(instruction.shape)
    return _short(instruction.opcode), _short(instruction.shape)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def category(instruction: TextInstruction) -> str:
    """What a node's colour says."""
    opcode = instruction.opcode
    if opcode == "fusion":
        return f"fusion {instruction.kind}".strip()
    if opcode in ("library-call", "custom-call"):
        return "library"
    if opcode in ("while", "conditional", "call"):
        return "control"
    if opcode in ("parameter", "tuple"):
        return "edge"
    return "plain"
