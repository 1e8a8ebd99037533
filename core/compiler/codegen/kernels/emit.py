"""Kernels: a fusion (or an instruction that has an emitter of its own) becomes one function.

``emit_kernel`` asks the registry of ops for the emitter of the fusion's kind, or of the op. The ABI is in
:mod:`...formats.artifact`: ``void kernel(void* const* arguments, int64_t begin, int64_t end)``, the arguments being the
instruction's operand arrays in order and then its result arrays.

In-place use: a result may share its memory with an operand only where ``may_share`` says so.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...ir import errors, hlo
from ...ir.registry import FUSION_KINDS, OPS, kernel_of_kind
from ..llvm_ir import Builder, Module, Value, i64
from ..llvm_ir.choices import without_masks

if TYPE_CHECKING:
    from ...targets.target import Target
    from ..generator import Generator


@dataclass(slots=True)
class EmittedKernel:
    """A function of the module, and how to call it.

    ``work_count`` units of work; at most ``grain`` of them are not worth another thread; ``cost_ns`` estimates the time
    of all units on one core.
    """

    function: str
    work_count: int
    grain: int
    cost_ns: float


RECURSION_LIMIT: Final = 20_000


class Frame:
    """A kernel function being written: its builder, generator, operand and result arrays, and range of work.

    ``computation`` is the fused one, with dimensions merged (:mod:`.collapse`) unless ``collapsed`` is false.
    """

    def __init__(
        self,
        module: Module,
        target: Target,
        instruction: hlo.Instruction,
        name: str,
        *,
        collapsed: bool,
    ) -> None:
        from ..bits import as_bits
        from ..generator import Array, Generator
        from .collapse import collapse

        self.name = function_name(name)
        self.instruction = instruction
        self.computation = as_bits(computation_of(instruction), target.has_double)
        if collapsed:
            self.computation = collapse(self.computation)
        self.target = target
        self.builder = Builder(
            module,
            self.name,
            ["ptr", "i64", "i64"],
            attributes=target.function_attributes,
            parameter_attributes=["noalias readonly", "", ""],
            arrays=len(instruction.operands) + len(instruction.result_shapes),
        )
        self.generator: Generator = Generator(self.builder, target)
        arguments, self.begin, self.end = self.builder.arguments
        self.operands: list[Array] = []
        self.results: list[Array] = []
        operand_shapes = [o.shape for o in instruction.operands]
        for n, shape in enumerate([*operand_shapes, *instruction.result_shapes]):
            if not isinstance(shape, hlo.Shape):
                raise errors.of_instruction(
                    "INTERNAL", "a kernel takes and gives arrays only", instruction
                )
            pointer = self.builder.load("ptr", self.builder.gep("ptr", arguments, i64(n)), 8)
            self.generator.note(pointer)
            (self.operands if n < len(operand_shapes) else self.results).append(
                Array(pointer, shape)
            )
        for parameter in self.computation.parameters:
            pointer = self.operands[parameter.attributes["index"]].pointer
            shape = hlo.Shape(parameter.dtype, parameter.dims)
            self.generator.arrays[parameter] = Array(pointer, shape)
        if (
            isinstance(self.computation.root.shape, hlo.Shape)
            or self.computation.root.opcode == "tuple"
        ):
            results = zip(self.results, self.computation.results, strict=True)
            self.results = [Array(a.pointer, hlo.Shape(r.dtype, r.dims)) for a, r in results]

    def moves_at_least(self, size: int) -> bool:
        """Whether operands and results together take at least ``size`` bytes."""
        return sum(a.shape.bytes for a in (*self.operands, *self.results)) >= size

    def finish(self, units: int, cost_ns: float, fewest: int = 1) -> EmittedKernel:
        """The kernel, whose units take ``cost_ns`` together. Another thread is worth it for more than ``fewest``."""
        grain = int(self.target.costs.threads.grain * units / max(cost_ns, 1.0))
        return self._finish(units, max(fewest, grain), cost_ns)

    def finish_large(self, units: int, unit_ns: float) -> EmittedKernel:
        """The kernel, whose units take ``unit_ns`` each: so long that few of them are worth a thread."""
        costs = self.target.costs
        grain = int(costs.threads.unit / max(unit_ns, 1.0))
        if units * unit_ns > costs.threads.pair:  # two threads share it
            grain = min(grain, -(-units // 2))
        return self._finish(units, max(1, grain), costs.kernels.nest + units * unit_ns)

    def _finish(self, units: int, grain: int, cost_ns: float) -> EmittedKernel:
        if self.generator.streamed:
            self.target.fence_streams(self.builder)
        self.builder.ret()
        if self.target.is_x86 and self.target.costs.loops.slow_masks and units == 1:
            without_masks(self.builder)
        self.builder.finish()
        return EmittedKernel(self.name, units, grain, cost_ns)

    @property
    def zero(self) -> Value:
        return i64(0)


def computation_of(instruction: hlo.Instruction) -> hlo.Computation:
    """A fusion's computation; for any other instruction one that holds just it."""
    if instruction.opcode == "fusion":
        return instruction.called[0]
    parameters = [hlo.parameter(n, o.shape) for n, o in enumerate(instruction.operands)]
    return hlo.Computation.from_root(
        instruction.opcode, parameters, instruction.replace(operands=parameters)
    )


def function_name(name: str) -> str:
    """The name of the function of a kernel that is to be called ``name``."""
    return re.sub(r"[^A-Za-z0-9_.$]", "_", name)


Emitter = Callable[[Module, "Target", hlo.Instruction, str], EmittedKernel]


def emitter(*, collapsed: bool) -> Callable[[Callable[[Frame], EmittedKernel]], Emitter]:
    """Makes an emitter of a function that writes into a frame, with dimensions merged or not."""

    def decorate(write: Callable[[Frame], EmittedKernel]) -> Emitter:
        @functools.wraps(write)
        def emit(
            module: Module, target: Target, instruction: hlo.Instruction, name: str
        ) -> EmittedKernel:
            return write(Frame(module, target, instruction, name, collapsed=collapsed))

        return emit

    return decorate


def emit_kernel(
    module: Module, target: Target, instruction: hlo.Instruction, name: str
) -> EmittedKernel:
    """Write the kernel of ``instruction`` into ``module``; its function is called ``name`` (or nearly so).

    Raises CompileError UNIMPLEMENTED if there is no emitter for it or for something inside it.
    """
    # Element generators call each other along chains of slices and the like; Python's default limit is for mistakes.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    kind = instruction.attributes["kind"] if instruction.opcode == "fusion" else instruction.opcode
    if instruction.opcode == "fusion":
        write = kernel_of_kind(kind)
    else:
        op = OPS[kind]
        write = op.kernel or (FUSION_KINDS["loop"] if op.is_indexable else None)
    if write is None:
        what = f"{kind!r}"
        if kind == "custom-call":
            what = f"the custom call {instruction.attributes['custom_call_target']!r}"
        raise errors.of_instruction("UNIMPLEMENTED", f"no kernel for {what}", instruction)
    kernel: EmittedKernel = write(module, target, instruction, name)
    return kernel
