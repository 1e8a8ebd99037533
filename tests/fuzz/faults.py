"""Faults that are put into our compiler, to see that the fuzzers find them.

Each is of a class that compilers had: updates in place that read what they wrote (openxla/xla#49176), results in the
memory of what is still read, integers that wrap where they should saturate, sizes that depend on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.elements import conversion
from tripont.core.compiler.codegen.generator import Generator
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.registry import OPS
from tripont.core.compiler.memory import buffers, inplace, liveness
from tripont.core.compiler.sizes import resolve


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
        register = llvm_ir.vector(conversion.register_type(target), llvm_ir.lanes_of(value.type))
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
}
