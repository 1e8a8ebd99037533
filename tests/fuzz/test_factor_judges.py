"""The judges of factorisations: right factors pass, and those that are wrong in one number do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import factor_judges as judges

RNG = np.random.default_rng(0)
TYPES = ["float32", "float64", "complex64", "complex128"]


def random(dtype, *dims):
    x = RNG.standard_normal(dims)
    return x + 1j * RNG.standard_normal(dims) if np.dtype(dtype).kind == "c" else x


def regular(dtype):
    return random(dtype, 3, 5, 5) + 6 * np.eye(5)


def eigh(dtype):
    x = random(dtype, 3, 5, 5)
    a = x + judges.adjoint(x)
    values, vectors = np.linalg.eigh(a)
    return judges.Eigh(a, [("swap",)], alone=False), [np.swapaxes(vectors, -1, -2), values]


def cholesky(dtype):
    x = random(dtype, 3, 5, 5)
    a = x @ judges.adjoint(x) + np.eye(5)
    return judges.Cholesky(a, [("flip", -1)], upper=False), [np.flip(np.linalg.cholesky(a), -1)]


def qr(dtype):
    a = random(dtype, 3, 7, 5)
    return judges.Qr(a, []), list(np.linalg.qr(a))


def svd(dtype):
    a = random(dtype, 3, 5, 7)
    return judges.Svd(a, [], alone=False), list(np.linalg.svd(a))


def solution(dtype):
    a, b = regular(dtype), random(dtype, 3, 5, 2)
    return judges.Solution(a, b, [("scale", 2.0)], left=True), [2 * np.linalg.solve(a, b)]


def inverse(dtype):
    a = regular(dtype)
    return judges.Inverse(a, [("roll", 1, -1)]), [np.roll(np.linalg.inv(a), 1, -1)]


def determinant(dtype):
    a = regular(dtype)
    return judges.Determinant(a, logarithm=False), [np.linalg.det(a)]


def logarithm(dtype):
    a = regular(dtype)
    return judges.Determinant(a, logarithm=True), list(np.linalg.slogdet(a))


def lu(dtype):
    """By elimination without a choice of rows: those of a column lie in falling order."""
    a = np.array([[4.0, 2, 1], [2, 5, 1], [1, 0.5, 6]])[None]
    packed = np.array([[4.0, 2, 1], [0.5, 4, 0.5], [0.25, 0, 5.75]])[None]
    order = np.arange(3)[None]
    return judges.Lu(a.astype(dtype), [], whole=True), [packed, order, order]


MAKERS = [cholesky, solution, inverse, determinant, logarithm, lu, qr, eigh, svd]


def results_of(maker, dtype):
    check, results = maker(dtype)
    real = np.dtype(dtype).type(0).real.dtype
    kinds = {"c": dtype, "f": real, "i": "int32"}
    return check, [r.astype(kinds[r.dtype.kind]) for r in results]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("maker", MAKERS)
def test_right_results_pass(maker, dtype):
    check, results = results_of(maker, dtype)
    assert check(results) == []


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("maker", MAKERS)
def test_one_wrong_number_is_seen(maker, dtype):
    """In the last matrix of the batch alone, by ten thousand roundings."""
    check, results = results_of(maker, dtype)
    for n, result in enumerate(results):
        if result.dtype.kind == "i":
            continue
        wrong = result.copy()
        part = wrong[-1] if wrong.ndim > 1 else wrong[-1:]
        place = np.unravel_index(np.abs(part).argmax(), part.shape)
        part[place] *= 1 + 1e4 * np.finfo(dtype).eps
        assert check([*results[:n], wrong, *results[n + 1 :]]), n


def test_matrices_without_an_answer_must_say_so():
    """And no other: a NaN belongs to its own matrix."""
    check, (factor,) = results_of(cholesky, "float64")
    check.a[1] = -np.eye(5)
    assert "not NaN" in str(check([factor]))
    factor[1] = np.nan
    assert check([factor]) == []
    factor[2, 0, 0] = np.nan
    assert "residual" in str(check([factor]))


@pytest.mark.parametrize("maker", [solution, inverse])
def test_systems_that_are_singular_or_nan_have_results_that_are_not_finite(maker):
    check, (x,) = results_of(maker, "float64")
    check.a[0, :, 2] = 0
    check.a[1, 3, 3] = np.nan
    assert "2 matrices without an answer" in str(check([x]))
    x[0, 1], x[1, 0] = np.inf, np.nan
    assert check([x]) == []


@pytest.mark.parametrize("maker", [solution, inverse])
def test_an_infinite_system_may_have_a_finite_result(maker):
    """By an infinite pivot all is divided to zeros, and other rows are not looked at."""
    check, (x,) = results_of(maker, "float64")
    check.a[1, 2, 0] = -np.inf
    assert np.isfinite(np.linalg.inv(check.a[1])).all()
    assert check([x]) == []


def test_steps_are_undone():
    steps = [("slice", 1, 3), ("swap",), ("conj",), ("roll", 1, -2), ("scale", 0.25), ("flip", -1)]
    x = RNG.standard_normal((2, 4, 3))
    before = judges.undone(steps, x)
    assert np.isnan(before).sum() == before.size - x.size
    after = before
    for step in steps:
        after = judges.applied(np, step, after)
    np.testing.assert_array_equal(after, x)
    moved = judges.undone([("last",)], x)
    np.testing.assert_array_equal(judges.applied(np, ("last",), moved), x)


def test_elimination():
    a = RNG.standard_normal((4, 6, 6))
    sign, size, sizes = judges._eliminated(a.astype(np.longdouble))
    expected = np.linalg.slogdet(a)
    np.testing.assert_array_equal(sign, expected[0])
    np.testing.assert_allclose(size.astype(float), expected[1])
    assert (sizes * (1 + 1e-12) >= np.abs(a)).all()
