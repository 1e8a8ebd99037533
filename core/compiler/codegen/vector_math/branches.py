"""Functions of a module that vector math calls, and branches that vectors take if an element wants it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..llvm_ir import Builder, Value, mangle
from .arithmetic import Arithmetic


def where_any(
    m: Arithmetic,
    condition: Value,
    x: Value | Sequence[Value],
    value: Value,
    name: str,
    compute: Callable[..., Value],
) -> Value:
    """``compute(m, *x)`` where the condition holds, else ``value``; computed only if it holds for an element at all.

    The branch is in a function that is always inlined, so that what is written here is straight-line code.
    """
    b, module = m.builder, m.builder.module
    arguments = [x] if isinstance(x, Value) else list(x)
    name = f"tripont.{name}.{mangle(m.type)}"
    if name not in module.functions:
        function_of(m, name, len(arguments), compute, "cold noinline")
        outer = Builder(
            module, f"{name}.where", [condition.type, *[m.type] * (1 + len(arguments))], m.type,
            linkage="internal", attributes=f"{m.target.function_attributes} alwaysinline",
        )  # fmt: skip
        wanted, other, *given = outer.arguments
        any_wanted = outer.any_lane(wanted)
        before, some, join = outer.block, outer.new_label("some"), outer.new_label("join")
        outer.branch_if(any_wanted, some, join)
        outer.start_block(some)
        chosen = outer.select(wanted, outer.call(m.type, name, given), other)
        outer.branch(join)
        outer.start_block(join)
        outer.ret(outer.phi([(other, before), (chosen, some)]))
        outer.finish()
    return b.call(m.type, f"{name}.where", [condition, value, *arguments])


def function_of(
    m: Arithmetic, name: str, count: int, compute: Callable[..., Value], attributes: str
) -> None:
    """Define ``name``: ``compute(m, *arguments)`` of ``count`` numbers of m's type."""
    inner = Builder(
        m.builder.module, name, [m.type] * count, m.type, linkage="internal",
        attributes=f"{m.target.function_attributes} {attributes}",
    )  # fmt: skip
    inner.ret(compute(Arithmetic(inner, m.target, m.type), *inner.arguments))
    inner.finish()
