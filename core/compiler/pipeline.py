"""The whole compiler as a list: :data:`STAGES`, from a program's bytes to an artifact's.

A stage is a function with one job from one kind of value to the next. In the middle stand the passes, from
:class:`.ir.hlo.Module` to :class:`.ir.hlo.Module`; what each does stands at its definition. A stage may have a law,
which holds for its result and, between passes, for that of every later one. Laws are checked under pytest and with
TRIPONT_VERIFY=1. Dumps hold what each stage made, and how long it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from . import laws, stages, wings
from .formats.artifact import Executable
from .fusion.fuse import fuse
from .ir import verifier
from .ir.hlo import Module
from .memory import buffers
from .observe import pass_checks
from .observe.dump import Dump
from .passes.alternate_states import alternate_states
from .passes.chain_loops import chain_loops
from .passes.collectives import arrange_collectives, match_collectives
from .passes.common_subexpressions import eliminate_common_subexpressions, share_computations
from .passes.components import split_components
from .passes.custom_calls import lay_out_custom_calls, match_custom_calls
from .passes.dead_code import eliminate_dead_code
from .passes.decompose import decompose, remove_barriers
from .passes.delay_updates import delay_updates
from .passes.derived_stacks import derive_stacks
from .passes.early_readers import read_early
from .passes.entry_layouts import entry_layouts
from .passes.estimate_costs import estimate_costs
from .passes.excess_precision import round_each_operation
from .passes.extrema import order_extrema
from .passes.fuse_loops import fuse_loops
from .passes.inline import inline_calls, unshare_control_flow
from .passes.joined_pads import join_pads
from .passes.known_branches import take_known_branches
from .passes.late_outputs import compute_outputs_late
from .passes.late_products import multiply_late
from .passes.library import match_library
from .passes.limit_masks import mask_by_limits
from .passes.loop_places import settle_places
from .passes.merged_groups import merge_groups
from .passes.overlap_collectives import overlap_collectives
from .passes.overwritten import forget_overwritten
from .passes.random import expand_random
from .passes.scattered_transposes import gather_transposes, turn_blocks
from .passes.simplify import simplify
from .passes.sorted_gathers import gather_by_sorting
from .passes.split_reductions import split_reductions
from .passes.split_scans import split_scans
from .passes.split_scatters import split_scatters
from .passes.stacked_reductions import unstack_reductions
from .passes.tokens import tokens_as_arrays
from .passes.turned_weights import turn_weights
from .passes.views import view_slices
from .passes.while_loops import (
    annotate_trip_counts,
    hoist_invariants,
    hoist_packing,
    simplify_loops,
)
from .stages import Context, Emitted, Generated, Program, Scheduled
from .targets.target import Target
from .thunks.lowering import Lowered

ModulePass = Callable[[Module], Module]
TargetPass = Callable[[Module, Target], Module]
Pass = ModulePass | TargetPass

# The passes of wings, and their laws.
_WINGS: Final = tuple(wings.parts("passes"))

# What the program means, in fewer words: arrays that are dense, row-major, and of sizes known now.
PREPARATION: Final[tuple[Pass, ...]] = (
    tokens_as_arrays,
    *(step for wing in _WINGS for step in wing.PREPARATION),
    entry_layouts,
    estimate_costs,
)

# The same program made faster, and cut into what kernels and libraries compute.
OPTIMISATION: Final[tuple[Pass, ...]] = (
    inline_calls,
    take_known_branches,
    eliminate_dead_code,
    share_computations,
    arrange_collectives,
    lay_out_custom_calls,
    decompose,
    order_extrema,
    expand_random,
    simplify,
    mask_by_limits,
    eliminate_common_subexpressions,
    turn_weights,
    multiply_late,
    derive_stacks,
    simplify_loops,
    hoist_invariants,
    take_known_branches,  # of loops, to which the selector was given
    unstack_reductions,
    simplify,  # what common subexpressions and loops have brought to light
    gather_by_sorting,
    round_each_operation,  # behind the rules that would take the conversions away
    remove_barriers,
    match_collectives,
    match_custom_calls,
    match_library,
    hoist_packing,
    join_pads,
    split_scans,
    split_scatters,
    merge_groups,
    split_reductions,
    gather_transposes,
    eliminate_dead_code,
    unshare_control_flow,
    annotate_trip_counts,
    settle_places,
    compute_outputs_late,
    forget_overwritten,
    fuse_loops,
    split_components,
    turn_blocks,
    fuse,
    chain_loops,
    delay_updates,
    read_early,
    overlap_collectives,
    view_slices,
    alternate_states,
)

PASSES: Final[tuple[Pass, ...]] = (*PREPARATION, *OPTIMISATION)

# The passes that are given the target.
TARGET_PASSES: Final[frozenset[Pass]] = frozenset(
    (
        turn_weights,
        multiply_late,
        hoist_invariants,
        match_collectives,
        match_custom_calls,
        match_library,
        hoist_packing,
        split_scans,
        split_scatters,
        merge_groups,
        split_reductions,
        gather_transposes,
        compute_outputs_late,
        fuse_loops,
        split_components,
        turn_blocks,
        fuse,
        chain_loops,
        overlap_collectives,
        view_slices,
        alternate_states,
    )
)

# What holds from a pass on.
LAWS: Final[dict[Pass, laws.Law]] = {
    tokens_as_arrays: laws.entry_without_tokens,
    entry_layouts: laws.known_layouts,
    remove_barriers: laws.without("optimization-barrier"),
    unshare_control_flow: laws.control_flow_unshared,
    fuse: laws.runs_as_thunks,
    **{step: law for wing in _WINGS for step, law in wing.LAWS.items()},
}


@dataclass(frozen=True)
class Stage:
    """A step from a value of type ``takes`` to one of type ``gives``.

    ``law`` raises CompileError (INTERNAL) for a value that no compilation may give; ``files`` gives what to dump: the
    end of a file's name, and its content.
    """

    run: Callable[[Any, Context], Any]
    takes: type
    gives: type
    law: Callable[[Any], None] | None = None
    files: Callable[[Any, Context], Iterable[tuple[str, str | bytes]]] | None = None

    @property
    def name(self) -> str:
        return self.run.__name__


def check_program(module: Module, context: Context) -> Module:
    """``module``, if it is valid: always checked, since programs come from anywhere. Raises CompileError."""
    verifier.verify_program(module)
    return module


def optimise(module: Module, context: Context) -> Module:
    """``module`` after :data:`PASSES`."""
    return run(module, context.target, context.dump, PASSES)


READING: Final[tuple[Stage, ...]] = (Stage(stages.read, Program, Module),)

COMPILING: Final[tuple[Stage, ...]] = (
    Stage(check_program, Module, Module),
    Stage(optimise, Module, Module),
    Stage(
        stages.assign_buffers,
        Module,
        Scheduled,
        law=lambda scheduled: buffers.check_assignment(scheduled.module, scheduled.assignment),
        files=stages.files_of_assignment,
    ),
    Stage(stages.lower, Scheduled, Lowered),
    Stage(stages.emit, Lowered, Emitted, law=laws.all_written, files=stages.files_of_code),
    Stage(stages.generate, Emitted, Generated, files=stages.files_of_image),
    Stage(stages.link, Generated, Executable),
)

WRITING: Final[tuple[Stage, ...]] = (
    Stage(stages.write, Executable, bytes, files=stages.files_of_artifact),
)

STAGES: Final[tuple[Stage, ...]] = (*READING, *COMPILING, *WRITING)


def run_stages(value: Any, context: Context, steps: Sequence[Stage] = STAGES) -> Any:
    """``value`` after all of ``steps``. Raises CompileError."""
    check = verifier.enabled()
    for stage in steps:
        start = time.perf_counter_ns()
        value = stage.run(value, context)
        context.dump.stage(stage.name, (time.perf_counter_ns() - start) / 1e6)
        if check and stage.law is not None:
            stage.law(value)
        if context.dump.enabled and stage.files is not None:
            for suffix, content in stage.files(value, context):
                context.dump.write(suffix, content)
    context.dump.finish()
    return value


def apply(step: Pass, module: Module, target: Target) -> Module:
    """``module`` after one pass for ``target``."""
    if step in TARGET_PASSES:
        return cast(TargetPass, step)(module, target)
    return cast(ModulePass, step)(module)


def named(steps: Iterable[Pass], target: Target) -> list[tuple[str, ModulePass]]:
    """Each pass with its name, as a function of the module alone."""
    return [(step.__name__, partial(apply, step, target=target)) for step in steps]


def run(module: Module, target: Target, dump: Dump, passes: Iterable[Pass] = PASSES) -> Module:
    """``module`` after all passes for ``target``, scheduled: the order of instructions is the order of execution.

    With TRIPONT_VERIFY=1 (and always under pytest) the module is verified after each pass. With TRIPONT_CHECK_PASSES=1
    a run of its own checks that no pass changes what the module computes (:mod:`.observe.pass_checks`).
    """
    check = verifier.enabled()
    if check:
        module.assign_names()
        verifier.verify(module, "import")
    steps = tuple(passes)
    if pass_checks.enabled():
        pass_checks.verify(module, named(steps, target))
    dump.module(module, "before_optimizations")
    names = ["pipeline-start", *(step.__name__ for step in steps), "pipeline-end"]
    dump.between_passes(module, 0, *names[:2], changed=True)
    holding: list[laws.Law] = []
    for number, step in enumerate(steps, 1):
        before = module
        start = time.perf_counter_ns()
        module = apply(step, module, target)
        milliseconds = (time.perf_counter_ns() - start) / 1e6
        changed = module is not before
        if check:
            if step in LAWS:
                holding.append(LAWS[step])
            if changed:
                module.assign_names()
                verifier.verify(module, names[number])
            for law in holding:
                law(module, names[number])
        dump.between_passes(
            module, number, *names[number : number + 2], changed=changed, milliseconds=milliseconds
        )
    module.assign_names()
    dump.module(module, "after_optimizations")
    return module
