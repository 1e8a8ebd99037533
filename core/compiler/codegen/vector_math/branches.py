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
    """``compute(m, *x)`` where the condition holds, else ``value``; computed only if it holds for an element at all."""
    arguments = [x] if isinstance(x, Value) else list(x)
    name = f"tripont.{name}.{mangle(m.type)}"
    if name not in m.builder.module.functions:
        function_of(m, name, len(arguments), compute, "cold noinline")

    def chosen(m: Arithmetic, wanted: Value, other: Value, *given: Value) -> Value:
        return m.builder.select(wanted, m.builder.call(m.type, name, given), other)

    return if_any(
        m, condition, [value, *arguments], f"{name}.where", chosen, lambda _, other, *__: other
    )


def if_any(
    m: Arithmetic,
    condition: Value,
    arguments: Sequence[Value],
    name: str,
    some: Callable[..., Value],
    none: Callable[..., Value],
) -> Value:
    """``some(m, condition, *arguments)`` if the condition holds for an element at all, else ``none(m, *arguments)``.

    The branch is in a function that is always inlined, so that what is written here is straight-line code.
    """
    module = m.builder.module
    if name not in module.functions:
        outer = Builder(
            module, name, [condition.type, *[m.type] * len(arguments)], m.type,
            linkage="internal", attributes=f"{m.target.function_attributes} alwaysinline",
        )  # fmt: skip
        inner = Arithmetic(outer, m.target, m.type)
        wanted, *given = outer.arguments
        labels = outer.new_label("some"), outer.new_label("none")
        join = outer.new_label("join")
        outer.branch_if(outer.any_lane(wanted), *labels)
        values = []
        for label, compute, of in zip(labels, (some, none), (outer.arguments, given), strict=True):
            outer.start_block(label)
            value = compute(inner, *of)
            values.append((value, outer.block))
            outer.branch(join)
        outer.start_block(join)
        outer.ret(outer.phi(values))
        outer.finish()
    return m.builder.call(m.type, name, [condition, *arguments])


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
