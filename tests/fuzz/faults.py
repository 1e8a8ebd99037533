"""Faults that are put into our compiler, to see that the fuzzers find them.

Each is of a class that compilers had: updates in place that read what they wrote (openxla/xla#49176), results in the
memory of what is still read, integers that wrap where they should saturate, sizes that depend on values.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.elements import conversion
from tripont.core.compiler.codegen.elements.elemental import clamp_coordinate
from tripont.core.compiler.codegen.generator import Generator
from tripont.core.compiler.codegen.kernels import depthwise, fft_tables
from tripont.core.compiler.codegen.kernels.shared_scales import SharedScales
from tripont.core.compiler.codegen.representation import register_type
from tripont.core.compiler.fusion import chain_plan
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Instruction, Shape
from tripont.core.compiler.ir.registry import OPS
from tripont.core.compiler.memory import buffers, inplace, liveness, stacks
from tripont.core.compiler.passes import (
    alternate_states,
    custom_calls,
    early_readers,
    sorted_gathers,
    while_loops,
)
from tripont.core.compiler.sizes import resolve


@contextmanager
def _edited(function: Any, old: str, new: str, **names: Any) -> Iterator[None]:
    """A function or method with ``new`` in the place of ``old``, which its text has once. ``new`` may use ``names``."""
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{function.__qualname__} has changed: {old!r}"
    made: dict[str, Any] = {}
    exec(compile(text.replace(old, new), __file__, "exec"), function.__globals__, made)
    usual = function.__code__  # which all who have imported the function call
    with mock.patch.dict(function.__globals__, names):
        function.__code__ = made[function.__name__].__code__
        try:
            yield
        finally:
            function.__code__ = usual


@contextmanager
def reads_elsewhere() -> Iterator[None]:
    """A kernel may write over an operand that it also reads at other indices."""
    with mock.patch.object(inplace, "_ELSEWHERE", inplace._FULL):
        yield


@contextmanager
def update_of_what_lives() -> Iterator[None]:
    """dynamic-update-slice and scatter write over their operand although it is read later."""
    usual = buffers._Sharing.join

    def join(self: Any, a: Any, b: Any, *, force: bool = False, donated: bool = False) -> bool:
        updates = any(inplace.must_share(v.instruction) for v in (*a.values, *b.values))
        free = not (a.read_only or b.read_only)
        return usual(self, a, b, force=force or (updates and free), donated=donated)

    with mock.patch.object(buffers._Sharing, "join", join):
        yield


@contextmanager
def donated_too_early() -> Iterator[None]:
    """A result takes a donated parameter's memory although the parameter is read later."""
    usual = buffers._Sharing.join

    def join(self: Any, a: Any, b: Any, *, force: bool = False, donated: bool = False) -> bool:
        return usual(self, a, b, force=force or donated, donated=donated)

    with mock.patch.object(buffers._Sharing, "join", join):
        yield


@contextmanager
def moves_in_any_order() -> Iterator[None]:
    """A loop's arrays change places one after another, so that one is overwritten before it was read."""

    def sequence(pairs: Any, *_: Any) -> list[Any]:
        return [buffers.Move(d, s) for d, s in pairs if d.group is not s.group]

    with mock.patch.object(buffers, "_sequence", sequence):
        yield


@contextmanager
def invariants_die_in_loops() -> Iterator[None]:
    """What every iteration of a loop reads may be overwritten after its last use in the loop's body."""
    with mock.patch.object(liveness.Liveness, "use_again"):
        yield


@contextmanager
def operand_at_two_places() -> Iterator[None]:
    """A kernel may write over an operand although it reads the same array, as another operand, at other indices."""
    with mock.patch.object(liveness, "comes_in_only_at", return_value=True):
        yield


@contextmanager
def integers_that_wrap() -> Iterator[None]:
    """Floats beyond an integer type's ends wrap around instead of saturating."""

    def wraps(g: Generator, value: Any, target: DType) -> Any:
        wide = llvm_ir.vector("i64", llvm_ir.lanes_of(value.type))
        name = f"llvm.fptosi.sat.{llvm_ir.mangle(wide)}.{llvm_ir.mangle(value.type)}"
        result = g.builder.call(wide, name, [value])
        register = llvm_ir.vector(register_type(target), llvm_ir.lanes_of(value.type))
        if register != wide:
            result = g.builder.cast("trunc", result, register)
        return conversion.wrap(g, result, target)

    with mock.patch.object(conversion, "_float_to_integer", wraps):
        yield


@contextmanager
def sizes_forgotten() -> Iterator[None]:
    """The elements behind an array's size, which are not there, come first when it is reversed."""
    wrong = replace(OPS["reverse"], sizes=resolve.same)
    with mock.patch.dict(OPS, reverse=wrong):
        yield


@contextmanager
def swapped_states_stay() -> Iterator[None]:
    """A conditional second step of a loop does not hand on the states that only change places."""
    with _edited(
        alternate_states._conditional_steps,
        "resolve(r) is not body.parameters[n]",
        "resolve(r) not in body.parameters",
    ):
        yield


@contextmanager
def conditions_that_call_are_counted() -> Iterator[None]:
    """A loop whose number of steps is known does not evaluate its condition although that calls back."""
    with _edited(
        while_loops.annotate_trip_counts,
        " or any(i.has_side_effect for i in instruction.called[0].instructions)",
        "",
    ):
        yield


@contextmanager
def conditions_are_asked_again() -> Iterator[None]:
    """A loop whose condition calls back takes several steps at a time, and asks once more after the answer was no."""
    with _edited(alternate_states._asks_outside, "if _trips(loop) >= 0:", "if True:"):
        yield


@contextmanager
def ends_meet_once() -> Iterator[None]:
    """A loop of a chain whose ends meet needs no planes beyond the ends of the loops that it reads."""
    with _edited(
        chain_plan._extend,
        "stage.wraps |= along.wraps or reader.wraps",
        "stage.wraps |= along.wraps",
    ):
        yield


@contextmanager
def tiles_reach_over_the_end() -> Iterator[None]:
    """A tile of a depthwise convolution that needs one place behind the end of a row takes the next row's first."""
    with _edited(depthwise._DepthwiseProduct.positions, "- length + 1)", "- length + 2)"):
        yield


@contextmanager
def starts_beyond_the_end() -> Iterator[None]:
    """Starts that are computed are not held back at the last place from which everything can be read."""
    with _edited(clamp_coordinate, '"smin", [low, top]', '"smax", [low, low]'):
        yield


def _without_last(i: Instruction) -> Instruction:
    """An array without the last place of its last dimension, if it has one."""
    dims = (*i.dims[:-1], max(i.dims[-1] - 1, 0))
    attributes = {"starts": (0,) * len(dims), "limits": dims, "strides": (1,) * len(dims)}
    return i.derive("slice", (i,), attributes, shape=Shape(i.dtype, dims))


@contextmanager
def last_pivot_forgotten() -> Iterator[None]:
    """The last exchange of rows of an LU factorisation is left out of its permutation."""
    with _edited(
        custom_calls._lu,
        "operands=[zero_based],",
        "operands=[_without_last(zero_based)],",
        _without_last=_without_last,
    ):
        yield


@contextmanager
def scale_of_the_group_before() -> Iterator[None]:
    """Neighbours that are summed together have one scale, although another group begins between them."""
    with _edited(SharedScales.part, "if self.group % p == 0", ""):
        yield


@contextmanager
def last_factor_of_primes() -> Iterator[None]:
    """The last result of each transform of a prime radix is multiplied by the factor of the one before it."""
    with _edited(
        fft_tables._factors,
        "np.arange(1, radix)",
        "np.minimum(np.arange(1, radix), radix - 1 - (radix in SUMMED_PRIMES))",
    ):
        yield


@contextmanager
def descending_as_ascending() -> Iterator[None]:
    """What is gathered at the places of a sort in reversed order comes in the sort's own order."""
    with _edited(
        sorted_gathers._handed_on,
        'if step.opcode in ("reverse", "slice"):',
        'if step.opcode == "slice":',
    ):
        yield


@contextmanager
def branches_overwrite_what_lives() -> Iterator[None]:
    """A branch of a conditional may write over an array although it is read behind the conditional."""
    with _edited(
        liveness.Liveness.end_scope,
        "value.end <= branches.ends[-1]",
        "value.end < FOREVER",
    ):
        yield


@contextmanager
def stacks_of_other_steps() -> Iterator[None]:
    """An output of a loop may lie over an input although a step reads another row than it writes."""
    with _edited(
        stacks.stacks_of,
        "if line is not None and line == other and",
        "if line is not None and other is not None and",
    ):
        yield


@contextmanager
def stacks_that_live() -> Iterator[None]:
    """An output of a loop may lie over an input that is read behind the loop."""
    with _edited(liveness.Liveness.end_stacks, "((s.input, v), s.end)", "((s.input, v), FOREVER)"):
        yield


@contextmanager
def readers_before_what_they_read() -> Iterator[None]:
    """What reads a large array last comes as early as its first operand lets it, and not all of them."""
    with _edited(
        early_readers._earlier, "_last(i.operands, places)", "_last(i.operands[:1], places)"
    ):
        yield


# The fault, the fuzzer that is to find it, and a program that has shown it: with that one the search begins.
FAULTS: Final[dict[str, tuple[Callable[[], Any], str, int]]] = {
    "reads_elsewhere": (reads_elsewhere, "updates", 141),
    "update_of_what_lives": (update_of_what_lives, "updates", 5),
    "donated_too_early": (donated_too_early, "updates", 18),
    "moves_in_any_order": (moves_in_any_order, "updates", 26),
    "invariants_die_in_loops": (invariants_die_in_loops, "updates", 38),
    "operand_at_two_places": (operand_at_two_places, "updates", 1),
    "sizes_forgotten": (sizes_forgotten, "bounded", 3),
    "integers_that_wrap": (integers_that_wrap, "floats", 41),
    "swapped_states_stay": (swapped_states_stay, "exchanges", 2_000_009),
    "conditions_that_call_are_counted": (conditions_that_call_are_counted, "callbacks", 2_000_000),
    "conditions_are_asked_again": (conditions_are_asked_again, "callbacks", 2_000_027),
    "ends_meet_once": (ends_meet_once, "stencils", 2_000_122),
    "tiles_reach_over_the_end": (tiles_reach_over_the_end, "convolutions", 2_000_085),
    "starts_beyond_the_end": (starts_beyond_the_end, "slices", 2_000_007),
    "last_pivot_forgotten": (last_pivot_forgotten, "factors", 2_000_112),
    "scale_of_the_group_before": (scale_of_the_group_before, "quantised", 2_000_114),
    "last_factor_of_primes": (last_factor_of_primes, "transforms", 2_000_006),
    "descending_as_ascending": (descending_as_ascending, "slices", 2_000_146),
    "branches_overwrite_what_lives": (branches_overwrite_what_lives, "exchanges", 2_000_003),
    "stacks_of_other_steps": (stacks_of_other_steps, "stacks", 2_001_143),
    "stacks_that_live": (stacks_that_live, "stacks", 2_000_015),
    "readers_before_what_they_read": (readers_before_what_they_read, "stacks", 2_000_027),
}
