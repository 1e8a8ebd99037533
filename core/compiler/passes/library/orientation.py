"""Products that are results of a program in two orders of their dimensions.

The gradient of ``x @ w.T`` with respect to ``w`` is the transpose of ``x.T @ g`` where a framework computes
that one, and gives back both. A gemm writes either at the same cost, but the update of ``w`` that reads the transpose
through the product is a loop over several arrays against the order of one of them, in tiles: that takes longer than
the same loop in order. And one of the two results is hardly ever read, so it is a call of "transpose"
(core/runtime/library/transpose.cc), which the runtime makes when somebody reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.hlo import Computation, Instruction
from .call import library_call
from .gemm import is_gemm

if TYPE_CHECKING:
    from ...targets.target import Target


def orient_results(computation: Computation, target: Target) -> Computation:
    """``computation`` with those products that are results, and are read transposed otherwise, made of their transpose.

    The one transpose of a dot (which becomes the way the gemm writes: :func:`.gemm.fold_result_transpose`) stays, and
    the result is a transpose of that. Where the dot and its transpose are results and nothing else reads the transpose,
    that one is transposed of the other.
    """
    root = computation.root
    if root.opcode != "tuple" or not any(o.opcode == "dot" for o in root.operands):
        return computation
    users = computation.users()
    results: dict[Instruction, Instruction] = {}  # a result -> what it becomes
    after: dict[Instruction, Instruction] = {}
    for dot in dict.fromkeys(root.operands):
        if dot.opcode != "dot" or not is_gemm(dot, target):
            continue
        readers = [u for u in users[dot] if u is not root]
        if [r.opcode for r in readers] != ["transpose"]:
            continue
        (reader,) = readers
        order: tuple[int, ...] = reader.attributes["dimensions"]
        if users[reader] == [root]:
            results[reader] = after[dot] = _result(reader, target)
        else:
            back = {"dimensions": tuple(order.index(d) for d in range(len(order)))}
            other = dot.derive("transpose", (reader,), back)
            if root in users[reader]:
                other = _result(other, target)
            results[dot] = after[reader] = other
    if not results:
        return computation
    new_root = root.replace(operands=[results.get(o, o) for o in root.operands])
    instructions: list[Instruction] = []
    for i in computation.instructions:
        if i is not root and (i not in results or i.opcode == "dot"):
            instructions.append(i)
            if i in after:  # at once: what the gemm has written is in a cache near by
                instructions.append(after[i])
    return Computation(
        computation.name, computation.parameters, [*instructions, new_root], new_root
    )


def _result(transpose: Instruction, target: Target) -> Instruction:
    """The call in the place of a transpose of one result that is another result and nothing else."""
    config = {"permutation": transpose.attributes["dimensions"]}
    cost = target.costs.library.transposed_byte * transpose.shape.bytes  # type: ignore[union-attr]
    return library_call(transpose, "transpose", config, cost)
