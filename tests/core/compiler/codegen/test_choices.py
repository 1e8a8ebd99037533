"""Choices between single floats without mask registers (codegen/llvm_ir/choices.py)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.llvm_ir.choices import _PREDICATES, without_masks
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen import native

HERE = for_cpu()
NUMBERS = [0.0, -0.0, 1.0, -1.5, 2.0, np.inf, -np.inf, np.nan]
ORDERED = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def holds(predicate: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """LLVM's ``fcmp``."""
    unordered = np.isnan(x) | np.isnan(y)
    if predicate in ("ord", "uno"):
        return unordered if predicate == "uno" else ~unordered
    found = ORDERED[predicate[1:]](x, y)
    return np.where(unordered, predicate[0] == "u", found)


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"i{x.dtype.itemsize}")


@pytest.mark.skipif(
    not (HERE.is_x86 and HERE.has("avx")), reason="instructions of AVX run on x86-64 with AVX only"
)
@pytest.mark.parametrize("scalar", ["float", "double"])
@pytest.mark.parametrize("predicate", _PREDICATES)
def test_every_predicate(predicate: str, scalar: str) -> None:
    """Of equal numbers, zeros of both signs, infinities and NaN; the numbers compared are chosen from, and others."""
    x, y = np.array(
        list(itertools.product(NUMBERS, NUMBERS)), "f4" if scalar == "float" else "f8"
    ).T
    x, y = x.copy(), y.copy()
    expected = holds(predicate, x, y)
    for others in (False, True):

        def function(b, target, x, y, u, v, others=others):
            first, second = (u, v) if others else (x, y)
            chosen = b.select(b.fcmp(predicate, x, y), first, second)
            # Used before the function is rewritten.
            result = b.intrinsic("copysign", [b.intrinsic("fabs", [chosen]), chosen])
            without_masks(b)
            return result

        u, v = (x, y) if not others else (np.full_like(x, 3.0), np.full_like(x, -4.0))
        result = native.elementwise(function, scalar, 4, lanes=1)(x, y, u, v)
        np.testing.assert_array_equal(bits(result), bits(np.where(expected, u, v)))


def written(function) -> str:
    module = HERE.module()
    b = llvm_ir.Builder(module, "f", ["float", "float", "double", "<4 x float>"], "float")
    b.ret(function(b, *b.arguments))
    without_masks(b)
    b.finish()
    return str(module)


def test_minima_and_maxima_of_the_machine_stay() -> None:
    text = written(lambda b, x, y, d, v: b.select(b.fcmp("olt", x, y), x, y))
    assert "select" in text
    assert "sse" not in text
    text = written(lambda b, x, y, d, v: b.select(b.fcmp("ogt", x, y), y, x))
    assert "select" in text
    assert "sse" not in text


def test_choices_of_other_types_stay() -> None:
    def function(b, x, y, d, v):
        wide = b.select(b.fcmp("ole", d, d), x, y)  # the mask is of 64 bits, the floats are not
        vector = b.select(b.fcmp("ole", v, v), v, v)
        whole = b.select(b.icmp("eq", llvm_ir.i64(1), llvm_ir.i64(2)), wide, x)
        return b.select(b.fcmp("ole", x, whole), x, b.extract(vector, 0))

    text = written(function)
    assert text.count(" select ") == 3
    assert text.count("call <4 x float> @llvm.x86.sse41.blendvps") == 1
