"""Comparators of sorts, as functions that the runtime's sort calls: ``uint8_t comparator(void* const* pairs)``.

``pairs[2 i]`` and ``pairs[2 i + 1]`` point to the two elements of operand i; the result is 1 if the first
stands before the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir import errors, hlo
from .elements import conversion
from .elements.elemental import inline
from .generator import Array, Generator
from .llvm_ir import Builder, Module, Value, i64

if TYPE_CHECKING:
    from ..targets.target import Target


def emit_comparator(module: Module, target: Target, instruction: hlo.Instruction, name: str) -> str:
    """Write the comparator that ``instruction`` (a sort, or a library call of one) calls; the function's name.

    Its computation takes scalars (a0, b0, a1, b1, ...) and gives a pred. Raises CompileError INTERNAL if it does not.
    """
    body = instruction.called[0]
    results = body.results
    if len(results) != 1 or results[0].dims or results[0].dtype.kind != "pred":
        raise errors.of_instruction(
            "INTERNAL", "a sort's comparator does not give a pred", instruction
        )
    builder = Builder(
        module,
        name,
        ["ptr"],
        "i8",
        attributes=target.function_attributes,
        parameter_attributes=["readonly"],
    )
    g = Generator(builder, target)
    arguments = []
    for n, parameter in enumerate(body.parameters):
        if not isinstance(parameter.shape, hlo.Shape) or parameter.dims:
            raise errors.of_instruction(
                "INTERNAL", "a sort's comparator takes something else than scalars", instruction
            )
        pointer = builder.load("ptr", builder.gep("ptr", builder.arguments[0], i64(n)), 8)
        arguments.append(g.load(Array(pointer, parameter.shape), ()))
    (result,) = inline(g, body, arguments)
    assert isinstance(result, Value)
    builder.ret(conversion.to_memory(g, result, results[0].dtype))
    builder.finish()
    return name
