"""What the readers of both formats make computations with: names, and instructions at the end of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.hlo import AnyShape, Computation, Instruction, Metadata, Shape, constant


class Names:
    """The names of a module's computations, of which each is given once."""

    def __init__(self) -> None:
        # Names that are taken -> the next number to try behind each.
        self._taken: dict[str, int] = {}

    def unique(self, base: str) -> str:
        """``base``, or ``base.N`` if the module has a computation of that name."""
        name = base
        while name in self._taken:
            name = f"{base}.{self._taken[base]}"
            self._taken[base] += 1
        self._taken[name] = 1
        return name


class Emitter:
    """The instructions of a block that is being read; ``metadata`` are those of the operation at hand."""

    __slots__ = ()

    instructions: list[Instruction]
    metadata: Metadata | None

    def emit(
        self,
        opcode: str,
        shape: AnyShape,
        operands: Sequence[Instruction] = (),
        attributes: dict[str, Any] | None = None,
        called: Sequence[Computation] = (),
    ) -> Instruction:
        """A new instruction at the end of the block, with the current operation's metadata."""
        instruction = Instruction(opcode, shape, operands, attributes, called, "", self.metadata)
        self.instructions.append(instruction)
        return instruction

    def constant(self, literal: Any, shape: Shape) -> Instruction:
        """``literal``, an array of ``shape`` or one number for every element."""
        if literal.shape == shape.dims:
            return self.emit("constant", shape, (), {"literal": literal})
        scalar = self.emit("constant", Shape(shape.dtype), (), {"literal": literal})
        return self.emit("broadcast", shape, (scalar,), {"dimensions": ()})

    def zeros(self, shape: Shape) -> Instruction:
        return self.constant(constant(0, shape.dtype).attributes["literal"], shape)
