"""Kernels that this process has written, by what they compute: a program that has one again takes its text.

PyTorch/XLA's programs repeat what the program before had, token by token, and so do the parts of a notebook. The text
that is taken is the text that would be written: a kernel's key is all that its emitter goes by (the instruction, its
operands' shapes, the target, and how much effort code gets at this place of the module). The
instructions that compute the operands are not in the key, and no emitter looks at them. Text is kept compressed,
and that of functions which many kernels call once: a process may compile thousands of small programs.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ...fusion.fused import attributes_key
from ...ir import hlo
from .. import effort
from ..llvm_ir import Closed, Module
from ..llvm_ir.instructions import Function
from .emit import EmittedKernel, emit_kernel, function_name

if TYPE_CHECKING:
    from ...targets.target import Target

# Bytes to keep; what was used longest ago goes first.
LIMIT: Final = 32 << 20
# Bytes of a kernel beside its text, about: its key, and what is known of its function.
_BESIDE: Final = 6 << 10
# With more the table of helpers begins anew. Kernels that are kept have theirs.
_MOST_HELPERS: Final = 2048
_FASTEST: Final = 1  # of zlib's levels: 13 us for 5 KB


@dataclass(frozen=True, slots=True)
class _Written:
    """A kernel as it was written. ``code`` is without the text of the kernel's own function, which is ``text``,
    compressed; ``size``: characters of all.
    """

    kernel: EmittedKernel
    code: Closed
    text: bytes
    size: int

    @classmethod
    def of(cls, kernel: EmittedKernel, code: Closed) -> _Written:
        *helpers, own = code.functions
        if len(_helpers) > _MOST_HELPERS:
            _helpers.clear()
        shared = [_helpers.setdefault((h.name, h.attributes, h.body), h) for h in helpers]
        without = replace(code, functions=(*shared, replace(own, body="")))
        return cls(kernel, without, zlib.compress(own.body.encode(), _FASTEST), code.size)

    def complete(self) -> Closed:
        """The code with all texts."""
        *helpers, own = self.code.functions
        text = zlib.decompress(self.text).decode()
        return replace(self.code, functions=(*helpers, replace(own, body=text)))


# The functions that kernels call, such as a sine's, by name, attributes and text. Many kernels have the same.
_helpers: dict[tuple[str, str, str], Function] = {}
_kept: OrderedDict[Hashable, _Written] = OrderedDict()
_size = 0
_written = 0


def count() -> int:
    """How many kernels :func:`kernel` has written, and not taken."""
    return _written


def clear() -> None:
    """Forget everything."""
    global _size
    _kept.clear()
    _helpers.clear()
    _size = 0


def kernel(
    module: Module, target: Target, instruction: hlo.Instruction, name: str
) -> EmittedKernel:
    """What :func:`.emit.emit_kernel` does, or the same kernel as it was written for another program."""
    global _written
    if module.keeps_instructions:  # to be rewritten: they are not kept here
        return emit_kernel(module, target, instruction, name)
    key = (target.identity, effort.is_careful(module), effort.has_many(module), _key(instruction))
    known = _kept.get(key)
    if known is not None and effort.same_after(module, known.size, len(known.code.functions)):
        _kept.move_to_end(key)
        taken = replace(known.kernel, function=function_name(name))
        module.take(known.complete(), taken.function)
        return taken
    size, functions = module.size, len(module.functions)
    emitted = emit_kernel(module, target, instruction, name)
    _written += 1
    # Effort that changed while the kernel was written may have changed the rest of it.
    if known is None and effort.same_after(
        module, size - module.size, functions - len(module.functions)
    ):
        _keep(key, _Written.of(emitted, module.closed(emitted.function)))
    return emitted


def _keep(key: Hashable, written: _Written) -> None:
    global _size
    _kept[key] = written
    _size += len(written.text) + _BESIDE
    while _size > LIMIT:
        _, oldest = _kept.popitem(last=False)
        _size -= len(oldest.text) + _BESIDE


def _key(instruction: hlo.Instruction) -> Hashable:
    """Equal for instructions whose kernels are the same."""
    operands = instruction.operands
    return (
        instruction.opcode,
        instruction.shape,
        tuple([o.shape for o in operands]),
        tuple([operands.index(o) for o in operands]),
        attributes_key(instruction),
    )
