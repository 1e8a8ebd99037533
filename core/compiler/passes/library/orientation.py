"""In which order of its dimensions a product is computed that is needed in two.

The gradient of ``x @ w.T`` with respect to ``w`` is the transpose of ``x.T @ g`` where a framework computes
that one, and gives back both. A gemm writes either at the same cost, but the update of ``w`` that reads the transpose
through the product is a loop over several arrays against the order of one of them, in tiles: that takes longer than
the same loop in order and a transpose that does nothing else.
"""

from __future__ import annotations

from ...hlo import Computation, Instruction
from .gemm import is_worthwhile


def orient_results(computation: Computation) -> Computation:
    """``computation`` with those products that are results, and are read transposed otherwise, made of their transpose.

    The one transpose of a dot (which becomes the way the gemm writes: :func:`.gemm.fold_result_transpose`) stays, and
    the result is a transpose of that.
    """
    root = computation.root
    if root.opcode != "tuple" or not any(o.opcode == "dot" for o in root.operands):
        return computation
    users = computation.users()
    results: dict[Instruction, Instruction] = {}  # dot -> the transpose of its transpose
    after: dict[Instruction, Instruction] = {}
    for dot in dict.fromkeys(root.operands):
        if dot.opcode != "dot" or not is_worthwhile(dot):
            continue
        readers = [u for u in users[dot] if u is not root]
        if [r.opcode for r in readers] != ["transpose"] or users[readers[0]] == [root]:
            continue
        (reader,) = readers
        order: tuple[int, ...] = reader.attributes["dimensions"]
        back = {"dimensions": tuple(order.index(d) for d in range(len(order)))}
        results[dot] = Instruction("transpose", dot.shape, (reader,), back, metadata=dot.metadata)
        after[reader] = results[dot]
    if not results:
        return computation
    new_root = root.replace(operands=[results.get(o, o) for o in root.operands])
    instructions: list[Instruction] = []
    for i in computation.instructions:
        if i is not root:
            instructions.append(i)
            if i in after:  # at once: what the gemm has written is in a cache near by
                instructions.append(after[i])
    return Computation(
        computation.name, computation.parameters, [*instructions, new_root], new_root
    )
