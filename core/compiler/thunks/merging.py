"""Kernel merging: small kernels that stand next to each other in one launch.

Calling a kernel on the host costs nanoseconds; launching one on a device costs microseconds, which a program of small
arrays would spend its time with. Kernels that are not worth a second thread are made one function that runs them one
after the other (:mod:`..codegen.sequence`, as a small loop's body is): on a CPU device by one work-item, on a GPU by
one work-group with barriers between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..formats.artifact import Conditional, Copy, Kernel, Slice, Thunk, While

LONGEST_RUN: Final = 48  # thunks in one launch
# Their code, as the caller measures it (Lowering: vector instructions, roughly). The time a device's compiler takes
# grows much faster than the length of a function: a minute where the same kernels one by one take seconds.
MOST_CODE: Final = 400.0
MOST_SLICES: Final = 60  # its arguments
LARGEST_COPY: Final = 1 << 16  # bytes


def merge(
    thunks: Sequence[Thunk],
    longest_ns: float,
    as_kernel: Callable[[list[Thunk]], Kernel],
    code_of: Callable[[Kernel], float],
) -> list[Thunk]:
    """``thunks`` with runs of kernels and copies that take at most ``longest_ns`` each made one kernel.

    ``as_kernel`` writes the function of a run, ``code_of`` says how long that of a kernel is. Bodies
    of loops and branches of conditionals are merged too.
    """
    result: list[Thunk] = []
    run: list[Thunk] = []
    slices: set[Slice] = set()
    code = 0.0

    def close() -> None:
        nonlocal code
        if len(run) > 1 and any(isinstance(t, Kernel) for t in run):
            result.append(as_kernel(list(run)))
        else:
            result.extend(run)
        run.clear()
        slices.clear()
        code = 0.0

    for thunk in thunks:
        if isinstance(thunk, While):
            thunk.condition = tuple(merge(thunk.condition, longest_ns, as_kernel, code_of))
            thunk.body = tuple(merge(thunk.body, longest_ns, as_kernel, code_of))
        elif isinstance(thunk, Conditional):
            thunk.branches = tuple(
                tuple(merge(b, longest_ns, as_kernel, code_of)) for b in thunk.branches
            )
        touched = _slices(thunk, longest_ns)
        if touched is None:
            close()
            result.append(thunk)
            continue
        length = code_of(thunk) if isinstance(thunk, Kernel) else 0.0
        full = len(run) == LONGEST_RUN or len(slices | touched) > MOST_SLICES
        if full or code + length > MOST_CODE:
            close()
        run.append(thunk)
        code += length
        slices |= touched
    close()
    return result


def _slices(thunk: Thunk, longest_ns: float) -> set[Slice] | None:
    """The slices of a thunk that may become part of a run; None for one that may not."""
    if isinstance(thunk, Kernel) and thunk.cost_ns <= longest_ns:
        return set(thunk.arguments)
    if isinstance(thunk, Copy) and thunk.source.size <= LARGEST_COPY:
        return {thunk.source, thunk.destination}
    return None
