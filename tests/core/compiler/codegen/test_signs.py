"""Signs of zeros that LLVM would lose (codegen/llvm_ir/signs.py)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.llvm_ir.signs import hidden_conversions
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.conformance import device
from tests.core.compiler.codegen import native
from tests.core.compiler.codegen.harness import runnable

HERE = for_cpu()
NUMBERS = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 6e-8, -6e-8]
LEVELS = ["host", "x86-64-v2", "x86-64-v3", "x86-64-v4"] if HERE.is_x86 else ["host"]
ZERO_OR_CONVERSION = {
    "zero, if it holds": lambda b, c, zero, x: b.select(c, zero, x),
    "the conversion, if it holds": lambda b, c, zero, x: b.select(c, x, zero),
    "negated": lambda b, c, zero, x: b.select(b.binary("xor", c, llvm_ir.integer(c.type, 1)), x, zero),
    "nested": lambda b, c, zero, x: b.select(c, b.select(c, zero, x), x),
    "nested in both": lambda b, c, zero, x: b.select(
        c, b.select(c, zero, llvm_ir.floating(x.type, 5.0)), b.select(c, llvm_ir.floating(x.type, 5.0), x)
    ),
    "zero of an integer": lambda b, c, zero, x: b.select(
        c, b.cast("sitofp", b.select(c, _i32(c, 0), _i32(c, 5)), x.type), x
    ),
}  # fmt: skip


def _i32(like: llvm_ir.Value, number: int) -> llvm_ir.Value:
    return llvm_ir.integer(llvm_ir.vector("i32", llvm_ir.lanes_of(like.type)), number)


def bits(x: np.ndarray) -> np.ndarray:
    """All bits but those of NaN."""
    return np.where(np.isnan(x), np.nan, x).astype(x.dtype).view(f"i{x.dtype.itemsize}")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("how", ZERO_OR_CONVERSION)
@pytest.mark.parametrize("predicate", ["ogt", "olt", "ugt", "ult", "oge", "ole", "uge", "ule"])
def test_zero_or_a_number_made_narrower(predicate: str, how: str, lanes: int) -> None:
    """The results are those of the same choice between numbers that are not converted, which LLVM leaves alone."""
    choose = ZERO_OR_CONVERSION[how]

    def function(b, target, x, *, converts):
        narrow = llvm_ir.vector("float", lanes)
        compared = b.fcmp(predicate, x, llvm_ir.zero(x.type))
        x = b.cast("fptrunc", x, narrow) if converts else x
        chosen = choose(b, compared, llvm_ir.zero(x.type), x)
        return b.cast("fpext", chosen, llvm_ir.vector("double", lanes)) if converts else chosen

    x = np.array(NUMBERS).astype(np.float32).astype(np.float64)
    found, expected = (
        native.elementwise(
            lambda *a, c=converts: function(*a, converts=c), "double", 1, lanes=lanes
        )(x)
        for converts in (True, False)
    )
    np.testing.assert_array_equal(bits(found), bits(expected))


def program(compared: str, converted: str, direction: str) -> str:
    """where(x > 0, x', where(x > 0, 0, x')) and where(x > 0, 0, x') of a conversion x' of x."""
    c, t = f"tensor<{len(NUMBERS)}x{compared}>", f"tensor<{len(NUMBERS)}x{converted}>"
    mask = f"tensor<{len(NUMBERS)}xi1>"
    return f"""func.func @main(%x: {c}) -> ({t}, {t}) {{
%z = stablehlo.constant dense<0.0> : {c}
%zero = stablehlo.constant dense<0.0> : {t}
%m = stablehlo.compare {direction}, %x, %z : ({c}, {c}) -> {mask}
%y = stablehlo.convert %x : ({c}) -> {t}
%first = stablehlo.select %m, %zero, %y : {mask}, {t}
%second = stablehlo.select %m, %y, %first : {mask}, {t}
return %second, %first : {t}, {t}
}}"""


@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize(
    ("compared", "converted"),
    [*itertools.product(["f16", "bf16", "f32", "f64"], repeat=2), ("f8E5M2", "f16")],
)
def test_programs(compared: str, converted: str, cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit as the evaluator has them."""
    runnable(cpu)
    monkeypatch.setitem(device.OPTIONS, "cpu", cpu)
    for direction in ("GT", "LT", "GE", "LE"):
        text = program(compared, converted, direction)
        module = read_program(text.encode(), "mlir")
        x = np.array(NUMBERS).astype(module.entry.parameters[0].dtype.numpy)
        expected = evaluate(module, [x])
        found = device.run(device.compile_program(text), [x])
        for a, e in zip(found, expected, strict=True):
            np.testing.assert_array_equal(bits(a.astype(np.float64)), bits(e.astype(np.float64)))


@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("elements", [1, 9])
def test_remainders_of_doubles_as_halves(
    elements: int, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM computes them without a function for it."""
    runnable(cpu)
    monkeypatch.setitem(device.OPTIONS, "cpu", cpu)
    d, f, h = (f"tensor<{elements}x{t}>" for t in ("f64", "f32", "f16"))
    text = f"""func.func @main(%x: {d}) -> {h} {{
%y = stablehlo.convert %x : ({d}) -> {f}
%eight = stablehlo.constant dense<8.0> : {f}
%r = stablehlo.remainder %y, %eight : {f}
%h = stablehlo.convert %r : ({f}) -> {h}
return %h : {h}
}}"""
    x = np.linspace(-17.25, 9.5, elements)
    expected = evaluate(read_program(text.encode(), "mlir"), [x])
    found = device.run(device.compile_program(text), [x])
    np.testing.assert_array_equal(bits(found[0]), bits(expected[0]))


def chosen(write) -> int:
    """How many conversions of a function LLVM is not to see."""
    module = llvm_ir.Module()
    b = llvm_ir.Builder(module, "f", ["half", "half", "float", "i1"], "float")
    b.ret(write(b, *b.arguments))
    return len(hidden_conversions(b.function))


def test_what_no_comparison_of_floats_chooses_is_seen() -> None:
    """LLVM takes the conversions away, so that choices between numbers of two bytes are made without them."""

    def of_two(b, x, y, z, c):
        x, y = (b.cast("fpext", v, "float") for v in (x, y))
        return b.select(b.fcmp("ogt", x, y), x, y)

    assert chosen(of_two) == 0
    assert chosen(lambda b, x, y, z, c: b.select(c, z, b.cast("fpext", x, "float"))) == 0
    assert chosen(lambda b, x, y, z, c: b.cast("fpext", x, "float")) == 0


def test_what_a_comparison_of_floats_chooses_is_not() -> None:
    def write(b, x, y, z, c):
        x = b.cast("fpext", x, "float")
        either = b.binary("or", c, b.fcmp("ogt", z, llvm_ir.zero("float")))
        return b.select(either, llvm_ir.zero("float"), x)

    assert chosen(write) == 1
