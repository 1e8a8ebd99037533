"""The passes, in order. Each is a function with one job, from a module to a module; what it does stands
at its definition. Those that decide by the machine are given the target too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast

from . import verifier
from .dump import Dump
from .fusion import fuse
from .hlo import Module
from .passes.collectives import arrange_collectives, match_collectives
from .passes.common_subexpressions import eliminate_common_subexpressions, share_computations
from .passes.custom_calls import lay_out_custom_calls, match_custom_calls
from .passes.dead_code import eliminate_dead_code
from .passes.decompose import decompose, remove_barriers
from .passes.excess_precision import round_each_operation
from .passes.extrema import order_extrema
from .passes.inline import inline_calls, unshare_control_flow
from .passes.library import match_library
from .passes.random import expand_random
from .passes.simplify import simplify
from .passes.split_reductions import split_reductions
from .passes.split_scans import split_scans
from .passes.while_loops import annotate_trip_counts, hoist_invariants, simplify_loops
from .targets.target import Target

ModulePass = Callable[[Module], Module]
TargetPass = Callable[[Module, Target], Module]
Pass = ModulePass | TargetPass

PASSES: tuple[Pass, ...] = (
    inline_calls,
    eliminate_dead_code,
    share_computations,
    arrange_collectives,
    lay_out_custom_calls,
    decompose,
    order_extrema,
    expand_random,
    simplify,
    eliminate_common_subexpressions,
    simplify_loops,
    hoist_invariants,
    simplify,  # what common subexpressions and loops have brought to light
    remove_barriers,
    match_collectives,
    match_custom_calls,
    match_library,
    split_scans,
    split_reductions,
    eliminate_dead_code,
    unshare_control_flow,
    annotate_trip_counts,
    fuse,
)


# Floats of at most 16 bits rounded after every operation: before library calls take in what follows them, and behind
# the rules that would take the conversions away.
EXACT_PASSES: tuple[Pass, ...] = (
    *PASSES[: PASSES.index(remove_barriers)],
    round_each_operation,
    *PASSES[PASSES.index(remove_barriers) :],
)


# The passes that are given the target.
TARGET_PASSES: Final[frozenset[Pass]] = frozenset((match_library,))


def apply(step: Pass, module: Module, target: Target) -> Module:
    """``module`` after one pass for ``target``."""
    if step in TARGET_PASSES:
        return cast(TargetPass, step)(module, target)
    return cast(ModulePass, step)(module)


def run(module: Module, target: Target, dump: Dump, passes: Iterable[Pass] = PASSES) -> Module:
    """``module`` after all passes for ``target``, scheduled: the order of instructions is the order of execution.

    With TRIPONT_VERIFY=1 (and always under pytest) the module is verified after each pass.
    """
    check = verifier.enabled()
    if check:
        module.assign_names()
        verifier.verify(module, "import")
    dump.module(module, "before_optimizations")
    steps = tuple(passes)
    names = ["pipeline-start", *(step.__name__ for step in steps), "pipeline-end"]
    dump.between_passes(module, 0, *names[:2], changed=True)
    for number, step in enumerate(steps, 1):
        before = module
        module = apply(step, module, target)
        changed = module is not before
        if check and changed:
            module.assign_names()
            verifier.verify(module, names[number])
        dump.between_passes(module, number, *names[number : number + 2], changed=changed)
    module.assign_names()
    dump.module(module, "after_optimizations")
    return module
