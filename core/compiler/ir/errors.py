"""Errors of the compiler, as the user will read them.

Every failure that a program can cause is a :class:`CompileError` with one of the status codes of the PJRT C API and a
message that names the operation, its shapes and dtypes, and the user's source line as far as they are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tripont.core.schema import status_codes

if TYPE_CHECKING:
    from .hlo import Instruction, Metadata

STATUS_CODES: Final = {
    name: number for number, name in enumerate(status_codes.STATUS_CODES) if number
}


class CompileError(Exception):
    """A program could not be compiled.

    ``code`` is a key of :data:`STATUS_CODES`; ``str()`` gives the message alone (the code travels separately).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code if code in STATUS_CODES else "INTERNAL"
        self.message = message

    @property
    def status(self) -> int:
        """The code as the number that the PJRT C API uses."""
        return STATUS_CODES[self.code]

    def __str__(self) -> str:
        return self.message


def invalid_argument(
    message: str,
    *,
    op: str = "",
    shapes: Iterable[object] = (),
    result: object = None,
    metadata: Metadata | None = None,
) -> CompileError:
    """The program is wrong: an INVALID_ARGUMENT error to raise."""
    return CompileError("INVALID_ARGUMENT", describe(message, op, shapes, result, metadata))


def unimplemented(
    message: str,
    *,
    op: str = "",
    shapes: Iterable[object] = (),
    result: object = None,
    metadata: Metadata | None = None,
) -> CompileError:
    """The program is right, but we cannot compile it: an UNIMPLEMENTED error to raise."""
    return CompileError("UNIMPLEMENTED", describe(message, op, shapes, result, metadata))


def resource_exhausted(
    message: str, *, op: str = "", metadata: Metadata | None = None
) -> CompileError:
    """The program needs more memory than there is: a RESOURCE_EXHAUSTED error to raise."""
    return CompileError("RESOURCE_EXHAUSTED", describe(message, op, (), None, metadata))


def internal(message: str, *, op: str = "", metadata: Metadata | None = None) -> CompileError:
    """A mistake of ours: an INTERNAL error to raise."""
    return CompileError("INTERNAL", describe(message, op, (), None, metadata))


def of_instruction(code: str, message: str, instruction: Instruction) -> CompileError:
    """An error about ``instruction``: with its opcode, name, operand and result shapes and source line."""
    name = instruction.opcode + (f" %{instruction.name}" if instruction.name else "")
    shapes = [o.shape for o in instruction.operands]
    return CompileError(
        code, describe(message, name, shapes, instruction.shape, instruction.metadata)
    )


def describe(
    message: str,
    op: str = "",
    shapes: Iterable[object] = (),
    result: object = None,
    metadata: Metadata | None = None,
) -> str:
    """One line: ``op(f32[2], f32[3]) -> f32[2]: message (jit(f)/add at model.py:12)``."""
    signature = ""
    if op:
        operands = ", ".join(map(str, shapes))
        signature = f"{op}({operands})" if operands or result is not None else op
        if result is not None:
            signature += f" -> {result}"
        signature += ": "
    place = str(metadata) if metadata is not None else ""
    return f"{signature}{message}" + (f" ({place})" if place else "")
