"""The pass that replaces instructions by library calls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ...ir.hlo import Computation, Instruction, Module, Shape
from ...ir.registry import OPS
from .. import rewrite
from ..invariants import invariants_of
from .attention import fuse_attention
from .cholesky_gradient import fuse_cholesky_gradients
from .context import Context
from .masked import masked_products
from .orientation import orient_results
from .packed import generate_product
from .packed_epilogue import fuse_epilogues
from .strided_fft import fold_transposes
from .triangles import order_solves

if TYPE_CHECKING:
    from ...targets.target import Target


def match_library(module: Module, target: Target) -> Module:
    """``module`` with library calls where the rule of an op says so for ``target``."""
    sequences = {module.entry}
    for computation in reversed(module.computations()):  # callers first
        if computation in sequences:
            sequences.update(
                c for i in computation.instructions if OPS[i.opcode].runs_thunks for c in i.called
            )
    bodies = {i.called[1] for c in sequences for i in c.instructions if i.opcode == "while"}
    given_bytes = _given_bytes(module.entry)
    new: dict[Computation, Computation] = {}
    fusions: dict[Hashable, Computation] = {}
    for computation in module.computations():
        if computation in sequences:
            called = rewrite.with_called(computation, new)
            called = fuse_attention(called, target, fusions, module.exact)
            new[computation] = _match(
                called, target, fusions, given_bytes, is_body=computation in bodies
            )
    return rewrite.with_entry(module, new[module.entry])


def _given_bytes(entry: Computation) -> int:
    """Bytes of the parameters and constants of ``entry``."""
    given = (i for i in entry.instructions if i.opcode in ("parameter", "constant"))
    return sum(i.shape.bytes for i in given if isinstance(i.shape, Shape))


def _match(
    computation: Computation,
    target: Target,
    fusions: dict[Hashable, Computation],
    given_bytes: int,
    *,
    is_body: bool,
) -> Computation:
    """``given_bytes``: as in :class:`.Context`. ``is_body``: whether a loop repeats the computation."""
    computation = order_solves(fuse_cholesky_gradients(computation, target))
    computation = fold_transposes(orient_results(computation, target), target)
    uses = dict.fromkeys(computation.instructions, 0)
    fusible: set[Instruction] = set()  # those that a user could be fused with
    for instruction in reversed(computation.instructions):
        for operand in instruction.operands:
            uses[operand] += 1
        is_barrier = OPS[instruction.opcode].reads_memory
        if not is_barrier and not (instruction.opcode == "reshape" and instruction not in fusible):
            fusible.update(instruction.operands)
    uses[computation.root] += 1
    context = Context(target, uses, fusions, given_bytes)
    masked = masked_products(computation)
    originals = iter(computation.instructions)

    def rule(instruction: Instruction) -> Instruction | None:
        original = next(originals)  # sweep gives every instruction once, in order
        context.is_materialized = original not in fusible
        context.is_masked = original in masked
        matched = OPS[instruction.opcode].library
        result = matched(instruction, context) if matched is not None else None
        uses[result or instruction] = uses[original]
        return result

    computation = rewrite.sweep(computation, rule, repeat=False)
    kept = invariants_of(computation) if is_body else frozenset()
    written = _written_for(computation)
    calls = iter(computation.instructions)

    def generate(instruction: Instruction) -> Instruction | None:
        shared = next(calls) in written
        return generate_product(instruction, target, fusions, kept, shared=shared)

    computation = rewrite.sweep(computation, generate, repeat=False)
    return fuse_epilogues(computation, target, fusions)


def _written_for(computation: Computation) -> set[Instruction]:
    """The calls whose rhs is in memory for another call too."""
    readers: dict[Instruction, int] = {}
    for i in computation.instructions:
        if i.opcode == "library-call" or OPS[i.opcode].reads_memory:
            for operand in set(i.operands):
                readers[operand] = readers.get(operand, 0) + 1
    return {
        i
        for i in computation.instructions
        if i.opcode == "library-call" and len(i.operands) > 1 and readers.get(i.operands[1], 0) > 1
    }
