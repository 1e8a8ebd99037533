"""The pass that replaces instructions by library calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...hlo import Computation, Instruction, Module
from .. import rewrite
from .convolution import match_convolution
from .gemm import fold_result_transpose, match_dot
from .options import LibraryOptions
from .other import match_cholesky, match_fft, match_topk, match_triangular_solve
from .sort import match_sort

Rule = Callable[[Instruction, "Uses", LibraryOptions], Instruction | None]
Uses = dict[Instruction, int]

RULES: Final[dict[str, Rule]] = {
    "cholesky": match_cholesky,
    "convolution": match_convolution,
    "dot": match_dot,
    "fft": match_fft,
    "sort": match_sort,
    "topk": match_topk,
    "transpose": fold_result_transpose,
    "triangular-solve": match_triangular_solve,
}

# What runs the computations it calls as sequences of thunks; other called computations are bodies inside one kernel.
_SEQUENCES: Final = frozenset(("while", "conditional", "call"))


def match_library(module: Module, options: LibraryOptions | None = None) -> Module:
    """``module`` with library calls where a rule of :data:`RULES` says so. ``options``: by default, of this machine."""
    options = options or LibraryOptions.of_host()
    sequences = {module.entry}
    for computation in reversed(module.computations()):  # callers first
        if computation in sequences:
            sequences.update(
                c for i in computation.instructions if i.opcode in _SEQUENCES for c in i.called
            )
    new: dict[Computation, Computation] = {}
    for computation in module.computations():
        if computation in sequences:
            new[computation] = _match(rewrite.with_called(computation, new), options)
    return rewrite.with_entry(module, new[module.entry])


def _match(computation: Computation, options: LibraryOptions) -> Computation:
    uses: Uses = dict.fromkeys(computation.instructions, 0)
    for instruction in computation.instructions:
        for operand in instruction.operands:
            uses[operand] += 1
    uses[computation.root] += 1
    originals = iter(computation.instructions)

    def rule(instruction: Instruction) -> Instruction | None:
        original = next(originals)  # sweep gives every instruction once, in order
        matched = RULES.get(instruction.opcode)
        result = matched(instruction, uses, options) if matched is not None else None
        uses[result or instruction] = uses[original]
        return result

    return rewrite.sweep(computation, rule, repeat=False)
