"""Laws: what holds from a stage of the pipeline on, beyond what makes any module valid (:mod:`.ir.verifier`).

Each law raises VerificationError (INTERNAL) for a module that breaks it; ``after`` names the pass that has just run.
They are checked under pytest and with TRIPONT_VERIFY=1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .ir.control_flow import executable_computations
from .ir.errors import internal
from .ir.hlo import AUTO_LAYOUT, Computation, Instruction, Module, TokenShape
from .ir.registry import OPS, kernel_of_kind
from .ir.verifier import VerificationError
from .memory.views import is_view
from .stages import Emitted

Law = Callable[[Module, str], None]


def entry_without_tokens(module: Module, after: str) -> None:
    """Parameters and results of the entry are not tokens."""
    for value in (*module.entry.parameters, *module.entry.results):
        if isinstance(value.shape, TokenShape):
            raise VerificationError(f"{value!r} of the entry is a token after {after}")


def known_layouts(module: Module, after: str) -> None:
    """The layouts of all parameters and results have been chosen."""
    if AUTO_LAYOUT in (*module.parameter_layouts, *module.result_layouts):
        raise VerificationError(f"a layout has not been chosen after {after}")


def without(*opcodes: str) -> Law:
    """The law that no instruction has one of ``opcodes``."""

    def law(module: Module, after: str) -> None:
        for instruction, computation in _instructions(module):
            if instruction.opcode in opcodes:
                raise VerificationError(_found(instruction, computation, after))

    return law


def control_flow_unshared(module: Module, after: str) -> None:
    """Every computation of a loop or branch has one caller: a value of its own memory each time."""
    called: set[Computation] = set()
    for computation in executable_computations(module):
        for instruction in computation.instructions:
            if instruction.opcode in ("while", "conditional"):
                for callee in instruction.called:
                    if callee in called:
                        problem = (
                            f"{callee.name} has a second caller, {instruction!r}, after {after}"
                        )
                        raise VerificationError(problem)
                    called.add(callee)


def runs_as_thunks(module: Module, after: str) -> None:
    """Everything that runs is an alias, a kernel that code generation knows, a call, a copy or control flow."""
    for computation in executable_computations(module):
        for instruction in computation.instructions:
            opcode = instruction.opcode
            op = OPS[opcode]
            known = op.is_alias or op.is_thunk or op.is_indexable
            if opcode == "fusion":
                known = (
                    is_view(instruction)
                    or kernel_of_kind(instruction.attributes["kind"]) is not None
                )
            if not (known or op.kernel):
                raise VerificationError(_found(instruction, computation, after))


def all_written(emitted: Emitted) -> None:
    """Every function that a thunk calls has been written."""
    for wanted, symbol in zip(emitted.lowered.wanted, emitted.lowered.symbols, strict=False):
        if not symbol:
            raise internal(
                f"the function {wanted.name} was not written", op=wanted.instruction.opcode
            )


def _instructions(module: Module) -> Iterator[tuple[Instruction, Computation]]:
    for computation in module.computations():
        for instruction in computation.instructions:
            yield instruction, computation


def _found(instruction: Instruction, computation: Computation, after: str) -> str:
    return (
        f"{instruction!r} stands in {computation.name} after {after}, where its opcode has no place"
    )
