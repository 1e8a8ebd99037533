"""a * b + c in one instruction, with one rounding, as LLVM makes of it for the host (and XLA for CPUs).

Operations that allow it are marked ``contract``; SPIR-V has no such mark, and the devices' compilers leave alone
what it has as two instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from ...codegen import llvm_ir

_NAME: Final = re.compile(r"%[\w.]+")
_OPERATION: Final = re.compile(r"  (%\w+) = (fmul|fadd|fsub) contract (<\d+ x \w+>|\w+) (.+)$")


def contract(
    lines: Sequence[str], split: Callable[[str], list[str]], declare: Callable[[str, str], None]
) -> list[str]:
    """The lines of a function with products that only one sum or difference uses made part of it.

    ``split`` takes operands apart; ``declare(name, type)`` is told of the function that is called instead.
    """
    if not any(" = fmul contract " in line for line in lines):
        return list(lines)
    uses = Counter(name for line in lines for name in _NAME.findall(line))
    products: dict[str, tuple[int, list[str]]] = {}
    result: list[str | None] = []
    fresh = 0
    for line in lines:
        match = _OPERATION.match(line) if " = f" in line else None
        if match is None:
            result.append(line)
            continue
        name, opcode, type_, text = match.groups()
        operands = split(text)
        if opcode == "fmul":
            if uses[name] == 2:  # here and in one other place
                products[name] = (len(result), operands)
            result.append(line)
            continue
        which = next((n for n in (0, 1) if operands[n] in products), None)
        if which is None:
            result.append(line)
            continue
        at, (a, b) = products.pop(operands[which])
        result[at] = None
        c = operands[1 - which]
        if opcode == "fsub":
            negated = f"%negated{fresh}"
            fresh += 1
            result.append(f"  {negated} = fneg {type_} {c if which == 0 else a}")
            a, c = (a, negated) if which == 0 else (negated, c)
        function = f"llvm.fma.{llvm_ir.mangle(type_)}"
        declare(function, type_)
        result.append(f"  {name} = call {type_} @{function}({type_} {a}, {type_} {b}, {type_} {c})")
    return [line for line in result if line is not None]
