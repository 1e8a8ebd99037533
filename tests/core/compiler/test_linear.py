"""The compiler's own work grows as programs do: counted as calls of functions, not as time."""

from __future__ import annotations

import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.stages import Context, Program
from tripont.core.compiler.targets import host

from tests.core.compiler.counting import count_calls

SMALL, LARGE = 400, 1600


def chain(count: int) -> str:
    """One operation after another."""
    kind = "tensor<1000xf32>"
    lines, value = [f"func.func public @main(%x: {kind}) -> {kind} {{"], "%x"
    for n in range(count):
        if n % 7 == 6:
            lines.append(f"%v{n} = stablehlo.add {value}, %x : {kind}")
        else:
            name = ("sine", "cosine", "tanh", "abs", "negate", "floor")[n % 6]
            lines.append(f"%v{n} = stablehlo.{name} {value} : {kind}")
        value = f"%v{n}"
    return "\n".join([*lines, f"return {value} : {kind} }}"])


def kernels(count: int) -> str:
    """Products that nothing fuses."""
    kind = "tensor<64x64xf32>"
    lines, value = [f"func.func public @main(%x: {kind}) -> {kind} {{"], "%x"
    for n in range(count // 3):
        lines.append(f"%a{n} = stablehlo.sine {value} : {kind}")
        lines.append(
            f"%d{n} = stablehlo.dot_general %a{n}, %x, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}"
        )
        lines.append(f"%v{n} = stablehlo.multiply %d{n}, {value} : {kind}")
        value = f"%v{n}"
    return "\n".join([*lines, f"return {value} : {kind} }}"])


def products(count: int) -> str:
    """Products with epilogues, each a fusion of its own far down in the program."""
    kind = "tensor<128x128xf32>"
    lines, value = [f"func.func public @main(%x: {kind}) -> {kind} {{"], "%x"
    for n in range(count // 4):
        lines.append(
            f"%d{n} = stablehlo.dot_general {value}, %x, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}"
        )
        lines.append(f"%t{n} = stablehlo.tanh %d{n} : {kind}")
        lines.append(f"%a{n} = stablehlo.add %t{n}, {value} : {kind}")
        lines.append(f"%v{n} = stablehlo.abs %a{n} : {kind}")
        value = f"%v{n}"
    return "\n".join([*lines, f"return {value} : {kind} }}"])


def residuals(count: int) -> str:
    """Products of a sum that grows from one to the next."""
    kind = "tensor<128x128xf32>"
    lines, value = [f"func.func public @main(%x: {kind}) -> {kind} {{"], "%x"
    for n in range(count // 3):
        lines.append(
            f"%d{n} = stablehlo.dot_general {value}, {value}, contracting_dims = [1] x [1] : ({kind}, {kind}) -> {kind}"
        )
        lines.append(f"%t{n} = stablehlo.tanh %d{n} : {kind}")
        lines.append(f"%v{n} = stablehlo.add {value}, %t{n} : {kind}")
        value = f"%v{n}"
    return "\n".join([*lines, f"return {value} : {kind} }}"])


def calls(count: int) -> str:
    """A function that calls the next, and so on."""
    kind, functions = "tensor<100xf32>", count // 8
    lines = []
    for n in range(functions):
        lines.append(f"func.func private @f{n}(%x: {kind}) -> {kind} {{")
        value = "%x"
        for step in range(7):
            lines.append(
                f"%v{step} = stablehlo.{('sine', 'negate', 'abs')[step % 3]} {value} : {kind}"
            )
            value = f"%v{step}"
        if n + 1 < functions:
            lines.append(f"%r = call @f{n + 1}({value}) : ({kind}) -> {kind}")
            value = "%r"
        lines.append(f"return {value} : {kind} }}")
    lines.append(f"func.func public @main(%x: {kind}) -> {kind} {{")
    lines.append(f"%0 = call @f0(%x) : ({kind}) -> {kind}\nreturn %0 : {kind} }}")
    return "\n".join(lines)


def wide(count: int) -> str:
    """Values that all live until a tree of maxima takes them."""
    kind = "tensor<256xf32>"
    lines = [f"func.func public @main(%x: {kind}) -> {kind} {{"]
    values = ["%x", "%x", "%x"]
    for n in range(count // 2):
        lines.append(f"%v{n} = stablehlo.add {values[-1]}, {values[-3]} : {kind}")
        values.append(f"%v{n}")
    number = 0
    while len(values) > 1:
        pairs = list(zip(values[::2], values[1::2], strict=False))
        rest = values[len(pairs) * 2 :]
        values = []
        for a, b in pairs:
            lines.append(f"%t{number} = stablehlo.maximum {a}, {b} : {kind}")
            values.append(f"%t{number}")
            number += 1
        values += rest
    return "\n".join([*lines, f"return {values[0]} : {kind} }}"])


def work(text: str) -> int:
    """Calls of Python's and of built-in functions, from the program's bytes to its thunks."""
    names = [stage.name for stage in pipeline.STAGES]
    before_code = pipeline.STAGES[: names.index("emit")]
    context = Context(host.for_cpu("x86-64-v3"))
    program = Program(f"module @m {{ {text} }}".encode(), "mlir")
    return count_calls(lambda: pipeline.run_stages(program, context, before_code))


@pytest.mark.parametrize("make", [chain, kernels, products, residuals, calls, wide])
def test_four_times_the_program_is_four_times_the_work(make, monkeypatch):
    monkeypatch.setattr(pipeline.verifier, "enabled", lambda: False)  # as users have it
    work(make(8))  # imports
    assert work(make(LARGE)) <= 4.4 * work(make(SMALL))


def test_a_pass_that_looks_at_all_pairs_is_found(monkeypatch):
    def pairs(module):
        instructions = module.entry.instructions
        for a in instructions:
            for b in instructions:
                id((a, b))
        return module

    monkeypatch.setattr(pipeline.verifier, "enabled", lambda: False)
    monkeypatch.setattr(pipeline, "PASSES", (pairs, *pipeline.PASSES))
    assert work(chain(LARGE)) > 4.4 * work(chain(SMALL))
