"""Which parameters a program takes from its caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..formats.artifact import Value
from ..ir.hlo import Module


def donated_parameters(
    module: Module, parameters: Sequence[Value], results: Sequence[Value]
) -> tuple[int, ...]:
    """Numbers of the parameters whose memory the program may keep, in order.

    Those that a result is tied to (``input_output_aliases``), and of the others that the caller offers
    (``buffer_donors``) as many as there are other results of the same size in the same kind of memory: an
    array whose memory no result can take stays its owner's, as with XLA.
    """
    tied_results = {i for i, _, _ in module.input_output_aliases}
    free = Counter(_place(value) for i, value in enumerate(results) if i not in tied_results)
    donated = {j for _, j, _ in module.input_output_aliases}
    for j in sorted(set(module.buffer_donors) - donated):
        place = _place(parameters[j])
        if free[place]:
            free[place] -= 1
            donated.add(j)
    return tuple(sorted(donated))


def _place(value: Value) -> tuple[int, str]:
    return value.shape.bytes, value.memory_kind
