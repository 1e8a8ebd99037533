"""LAPACK's calls with a result in the memory of the operand that the compiler lets it have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.memory import inplace

from .calls import run, shape_of

RNG = np.random.default_rng(3)
S32, F64 = dtypes.S32, dtypes.F64
UPPER, LOWER, LEFT, NO, VECTORS, SOME = (ord(letter) for letter in "ULLNVS")
# Batches that go many at a time, and matrices that threads share or LAPACK takes alone.
SIZES = [(40, 6), (3, 80), (1, 300)]


def case(name: str, batch: int, n: int) -> tuple[list[Any], list[Shape], dict[str, Any]]:
    """Operands, shapes of the results, attributes."""
    a = RNG.standard_normal((batch, n, n)) + n * np.eye(n)
    symmetric = a + np.swapaxes(a, 1, 2)
    b = RNG.standard_normal((batch, 5, n))
    diagonals = [RNG.standard_normal((batch, n)) + 4 * (i == 1) for i in range(3)]
    tau = 1 / (1 + RNG.random((batch, n)))

    def numbers(*dims: int) -> Shape:
        return Shape(F64, (batch, *dims))

    info, square, row, off = Shape(S32, (batch,)), numbers(n, n), numbers(n), numbers(n - 1)
    pivots = Shape(S32, (batch, n))
    solve = {"left_side": 1, "lower": 1, "unit_diagonal": 0, "transpose_a": b"NO_TRANSPOSE"}
    letters = {"side": LEFT, "uplo": LOWER, "trans_x": NO, "diag": NO}
    values = {"uplo": LOWER, "mode": VECTORS}
    found: dict[str, tuple[list[Any], list[Shape], dict[str, Any]]] = {
        "cholesky": ([symmetric], [square], {"lower": 0}),
        "cholesky-gradient": ([np.abs(a) + np.eye(n), symmetric], [square], {"symmetric": 1}),
        "gees": ([a], [square, square, row, row, info, info], {"mode": VECTORS, "sort": NO}),
        "gehrd": ([a], [square, off, info], {"low": 1, "high": n}),
        "geqp3": ([a, np.zeros((batch, n), np.int32)], [square, pivots, row], {}),
        "geqrf": ([a], [square, row], {}),
        "gesdd": ([a], [square, row, square, square, info], {"mode": SOME}),
        "gesvd": ([a], [square, row, square, square, info], {"mode": SOME}),
        "getrf": ([a], [square, pivots, info], {}),
        "gtsv": ([*diagonals, b], [row, row, row, numbers(5, n), info], {}),
        "orgqr": ([a, tau], [square], {}),
        "ormqr": ([a, tau, b], [numbers(5, n)], {"left": 1, "transpose": 0}),
        "potrf": ([symmetric], [square, info], {"uplo": UPPER}),
        "syevd": ([symmetric], [square, row, info], values),
        "sytrd": ([symmetric], [square, row, off, off, info], {"uplo": LOWER}),
        "triangular-solve": ([a, np.swapaxes(b, 1, 2).copy()], [numbers(n, 5)], solve),
        "tridiagonal-solve-perturbed": ([*diagonals, b], [numbers(5, n)], {}),
        "trsm": ([a, b], [numbers(5, n)], letters),
    }
    return found[name]


def places(name: str, operands: list[Any], results: list[Shape]) -> list[tuple[int, int]]:
    """The results that the compiler may put in the place of an operand, each with the operand."""
    parameters = [hlo.parameter(n, shape_of(x)) for n, x in enumerate(operands)]
    shape = results[0] if len(results) == 1 else hlo.TupleShape(tuple(results))
    call = hlo.Instruction("library-call", shape, parameters, {"name": name, "config": {}})
    return [(n, i) for n, found in enumerate(inplace.in_place_operands(call)) for i in found]


@pytest.mark.parametrize(("batch", "n"), SIZES)
@pytest.mark.parametrize("name", sorted(inplace.FACTORED))
def test_a_result_over_its_operand_is_the_same(device: Any, name: str, batch: int, n: int) -> None:
    operands, results, attributes = case(name, batch, n)
    found = places(name, operands, results)
    assert bool(found) == (n > 64 or name not in inplace.BEGIN_ANEW)
    apart = run(device, name, operands, results, attributes)
    over = run(device, name, operands, results, attributes, in_place=found)
    undefined = {"gesdd": (0,), "gesvd": (0,), "gtsv": (0, 1, 2)}.get(name, ())
    for n, (a, b) in enumerate(zip(apart, over, strict=True)):
        if n not in undefined:
            np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("bad", [0, 17])
def test_matrices_that_begin_anew_keep_their_operand(device: Any, bad: int) -> None:
    """Many at a time write before it is known that one of them does not go so."""
    operands, results, attributes = case("potrf", 40, 6)
    operands[0][bad, 3, 3] = -1.0
    assert places("potrf", operands, results) == []
    _, info = run(device, "potrf", operands, results, attributes)
    assert info[bad] == 4
    assert np.count_nonzero(info) == 1
