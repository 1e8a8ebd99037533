"""What a valid HLO module is, written down once.

:func:`verify` checks the structure (operands before users, unique names, parameters numbered as they stand, called
computations with the right parameters and results) and, for every instruction, operand count, attributes, and that its
shape is the one that its operands and attributes imply. :func:`verify_program` applies this to every program that is
read: code generators index arrays by the shapes that the module holds, so an instruction whose shape does not follow
from its operands would read and write memory that belongs to others. After every pass the verifier runs in tests and
with ``TRIPONT_VERIFY=1`` only, because a wrong pass is a mistake of the compiler, which the tests must find.

The rules themselves stand with the ops (:mod:`..ops`).
"""

from __future__ import annotations

import os
import sys

from .errors import CompileError, describe, invalid_argument
from .hlo import Computation, Instruction, Module
from .registry import Absent, find
from .shape_rules import InvalidInstruction


class VerificationError(CompileError):
    """A module is not valid: a mistake of the reader or of a pass."""

    def __init__(self, message: str) -> None:
        super().__init__("INTERNAL", message)


def enabled() -> bool:
    """Whether passes should verify what they made: under pytest, or with TRIPONT_VERIFY=1 (0 turns it off)."""
    setting = os.environ.get("TRIPONT_VERIFY", "")
    return setting not in ("", "0") or (setting != "0" and "pytest" in sys.modules)


def verify_program(module: Module) -> None:
    """Raise :class:`CompileError` INVALID_ARGUMENT, naming the operation, its shapes and its source line, if a program
    that has just been read is not valid.

    MLIR has verified each operation by then, but does not tie every result's shape to the operands: custom calls,
    operations whose shapes are operands, and what the reader makes of them are checked here.
    """
    try:
        verify(module)
    except VerificationError as error:
        raise invalid_argument(f"the program is not valid: {error}") from error


def verify(module: Module, after: str = "") -> None:
    """Raise :class:`VerificationError` if ``module`` is not valid; ``after`` names the pass that made it."""
    context = f" after {after}" if after else ""
    names: set[str] = set()
    for computation in module.computations():
        if computation.name in names:
            raise VerificationError(f"two computations are named {computation.name}{context}")
        names.add(computation.name)
        _verify_computation(computation, context)
    _verify_signature(module, context)


def _verify_signature(module: Module, context: str) -> None:
    parameters, results = module.entry.parameters, module.entry.results
    aliased: set[int] = set()
    for i, j, _ in module.input_output_aliases:
        if not (0 <= i < len(results) and 0 <= j < len(parameters)):
            raise VerificationError(
                f"alias of result {i} and parameter {j}, which do not both exist{context}"
            )
        if i in aliased:
            raise VerificationError(f"result {i} has two aliases{context}")
        aliased.add(i)
    for name, kinds, count in (
        ("parameter", module.parameter_memory_kinds, len(parameters)),
        ("result", module.result_memory_kinds, len(results)),
    ):
        if kinds and len(kinds) != count:
            raise VerificationError(
                f"{len(kinds)} {name} memory kinds for {count} {name}s{context}"
            )


def _verify_computation(computation: Computation, context: str) -> None:
    where = f" in computation {computation.name}{context}"
    defined: set[Instruction] = set()
    names: set[str] = set()
    for instruction in computation.instructions:
        if instruction in defined:
            raise VerificationError(f"{instruction!r} is listed twice{where}")
        for operand in instruction.operands:
            if operand not in defined:
                raise VerificationError(
                    f"{instruction!r} uses {operand!r}, which does not stand before it{where}"
                )
        if instruction.name:
            if instruction.name in names:
                raise VerificationError(f"two instructions are named {instruction.name}{where}")
            names.add(instruction.name)
        defined.add(instruction)
        _verify_instruction(instruction, where)
    for index, parameter in enumerate(computation.parameters):
        if parameter not in defined or parameter.opcode != "parameter":
            raise VerificationError(f"parameter {parameter!r} is not among the instructions{where}")
        if parameter.attributes["index"] != index:
            number = parameter.attributes["index"]
            raise VerificationError(
                f"parameter {parameter!r} has index {number}, but stands at {index}{where}"
            )
    count = sum(i.opcode == "parameter" for i in computation.instructions)
    if count != len(computation.parameters):
        raise VerificationError(
            f"{count} parameter instructions, {len(computation.parameters)} parameters{where}"
        )
    if computation.root not in defined:
        raise VerificationError(f"root {computation.root!r} is not among the instructions{where}")


def _verify_instruction(instruction: Instruction, where: str) -> None:
    opcode = instruction.opcode
    op = find(opcode)
    if op is None:
        raise VerificationError(f"{instruction!r} has an opcode that does not exist{where}")
    if op.operands >= 0 and len(instruction.operands) != op.operands:
        raise VerificationError(
            f"{instruction!r} has {len(instruction.operands)} operands, {opcode} takes {op.operands}{where}"
        )
    for name in op.attributes:
        if name not in instruction.attributes:
            raise VerificationError(f"{instruction!r} lacks the attribute {name}{where}")
    called = len(instruction.called)
    if op.called >= 0 and called != op.called and opcode != "custom-call":
        raise VerificationError(
            f"{instruction!r} calls {called} computations, {opcode} calls {op.called}{where}"
        )
    try:
        if op.check is not None:
            op.check(instruction)
        rule = op.shape
        expected = instruction.shape if isinstance(rule, Absent) else rule(instruction)
    except InvalidInstruction as error:
        raise VerificationError(_about(instruction, str(error)) + where) from None
    except (
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        ZeroDivisionError,
    ) as error:
        problem = f"operands or attributes do not fit: {type(error).__name__}: {error}"
        raise VerificationError(_about(instruction, problem) + where) from error
    if expected != instruction.shape:
        problem = (
            f"has the shape {instruction.shape}, but its operands and attributes imply {expected}"
        )
        raise VerificationError(_about(instruction, problem) + where)


def _about(instruction: Instruction, problem: str) -> str:
    name = instruction.opcode
    if instruction.name:
        name = f"%{instruction.name} = {name}"
    return describe(
        problem,
        name,
        [o.shape for o in instruction.operands],
        instruction.shape,
        instruction.metadata,
    )
