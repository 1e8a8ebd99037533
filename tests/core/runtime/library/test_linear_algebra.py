"""Library calls "cholesky" and "triangular-solve"."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tripont.core.compiler import dtypes
from tripont.core.compiler.hlo import Shape

from ..conftest import status
from .calls import load, run, shape_of

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
# Smaller than, equal to and larger than the blocks that the algorithms work in.
SIZES = [1, 2, 5, 16, 17, 64, 65, 130]
RNG = np.random.default_rng(0)


def matrices(n, dtype):
    x = RNG.standard_normal((2, n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal((2, n, n))
    return x


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


def tolerance(dtype):
    return 1e-4 if dtype in (np.float32, np.complex64) else 1e-12


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [0, 1])
def test_cholesky(device, dtype, lower):
    for n in SIZES:
        x = matrices(n, dtype)
        a = (x @ adjoint(x) + n * np.eye(n)).astype(dtype)
        triangle = (np.tril if lower else np.triu)(a)
        (got,) = run(device, "cholesky", [triangle], [shape_of(a)], {"lower": lower})
        want = np.linalg.cholesky(a.astype(np.complex128))
        want = want if lower else adjoint(want)
        assert np.abs(got - want).max() <= tolerance(dtype) * np.abs(want).max(), n


@pytest.mark.parametrize("n", [2, 100])
def test_not_positive_definite_gives_nans(device, n):
    a = np.stack([np.eye(n), -np.eye(n)]).astype(np.float32)
    (got,) = run(device, "cholesky", [a], [shape_of(a)], {"lower": 1})
    np.testing.assert_array_equal(got[0], np.eye(n))
    assert np.isnan(got[1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(device, dtype, transpose):
    for n in SIZES:
        base = matrices(n, dtype) / n + 2 * np.eye(n)
        for left, lower, unit in itertools.product((0, 1), repeat=3):
            # The other triangle, and a unit diagonal, must not be read: they hold NaN.
            a = (np.tril if lower else np.triu)(base).astype(dtype)
            solved = a.astype(np.complex128)
            poisoned = np.where(
                (np.tril if lower else np.triu)(np.ones((n, n))) == 0, np.nan, a
            ).astype(dtype)
            if unit:
                solved[:, np.arange(n), np.arange(n)] = 1
                poisoned[:, np.arange(n), np.arange(n)] = np.nan
            if transpose == "TRANSPOSE":
                solved = solved.swapaxes(-1, -2)
            elif transpose == "ADJOINT":
                solved = adjoint(solved)
            b = RNG.standard_normal((2, n, 7) if left else (2, 7, n)).astype(dtype)
            if left:
                want = np.linalg.solve(solved, b)
            else:
                want = np.linalg.solve(solved.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
            config = {
                "left_side": left,
                "lower": lower,
                "unit_diagonal": unit,
                "transpose_a": transpose,
            }
            (got,) = run(device, "triangular-solve", [poisoned, b], [shape_of(b)], config)
            error = np.abs(got - want).max() / np.abs(want).max()
            assert error <= tolerance(dtype), (n, left, lower, unit)


def test_shapes_are_checked():
    a, b = np.zeros((3, 3), np.float32), np.zeros((4, 2), np.float32)
    config = {"left_side": 1, "lower": 1, "unit_diagonal": 0, "transpose_a": "NO_TRANSPOSE"}
    code, message = status(lambda: load("triangular-solve", [a, b], [shape_of(b)], config))
    assert code == "INVALID_ARGUMENT"
    assert "f32[3,3]" in message
    code, message = status(lambda: load("cholesky", [b], [shape_of(b)], {"lower": 1}))
    assert code == "INVALID_ARGUMENT"
    code, message = status(
        lambda: load("cholesky", [a.astype(np.int32)], [Shape(dtypes.S32, (3, 3))], {"lower": 1})
    )
    assert code == "UNIMPLEMENTED"
    assert "s32" in message
