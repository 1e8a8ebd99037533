"""Products and small triangular solves of pieces of matrices (tile_product.h)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont

RNG = np.random.default_rng(0)
TYPES = [np.float32, np.float64]
pytestmark = pytest.mark.skipif(
    not _tripont.testing.has_tile_product(), reason="the CPU has no vectors of 32 bytes"
)


def matrix(rows: int, columns: int, dtype: Any, order: Any) -> Any:
    return np.asarray(RNG.standard_normal((rows, columns)).astype(dtype), order=order)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("orders", ["CC", "CF", "FC", "FF"])
def test_products(orders: str, dtype: Any) -> None:
    """Whole pieces of rows (48) and columns (8, a slice of 128), less and more, and sums of one piece and two."""
    for m, n, k in [
        (1, 1, 1),
        (48, 8, 16),
        (47, 7, 17),
        (100, 140, 128),
        (49, 9, 131),
        (240, 96, 40),
    ]:
        a, b = matrix(m, k, dtype, orders[0]), matrix(k, n, dtype, orders[1])
        c = matrix(m, n, dtype, "F")
        want = c.astype(np.longdouble) - a.astype(np.longdouble) @ b
        # Every product and every sum is rounded once, at most.
        bound = (k + 2) * np.finfo(dtype).eps * (np.abs(c) + np.abs(a) @ np.abs(b))
        _tripont.testing.subtract_product(c, a, b)
        assert (np.abs(c - want) <= bound).all(), (m, n, k)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_product_does_not_depend_on_its_place(dtype: Any) -> None:
    a, b = matrix(200, 150, dtype, "F"), matrix(150, 300, dtype, "C")
    c = matrix(200, 300, dtype, "F")
    whole = c.copy(order="F")
    _tripont.testing.subtract_product(whole, a, b)
    for rows, columns in [(slice(3, 60), slice(5, 18)), (slice(50, 200), slice(1, 280))]:
        part = np.asfortranarray(c[rows, columns])
        _tripont.testing.subtract_product(part, a[rows], b[:, columns])
        assert (part == whole[rows, columns]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", "CF")
def test_small_systems(order: Any, dtype: Any) -> None:
    """The other triangle, and a unit diagonal, are not read: they hold NaN."""
    for n, sides, forward, unit in itertools.product(
        (1, 5, 16, 32), (1, 17, 96, 200), (0, 1), (0, 1)
    ):
        a = (RNG.standard_normal((n, n)) / n + 2 * np.eye(n)).astype(dtype)
        triangle = (np.tril if forward else np.triu)(
            np.ones((n, n)), -unit if forward else unit
        ) != 0
        solved = np.where(triangle, a, 0) + unit * np.eye(n)
        a = np.asarray(np.where(triangle, a, np.nan).astype(dtype), order=order)
        x = matrix(n, sides, dtype, order)
        right = x.astype(np.longdouble)
        _tripont.testing.solve_small(a, bool(forward), bool(unit), x)
        # Higham, Accuracy and Stability of Numerical Algorithms, theorem 8.5: the residual of a substitution.
        bound = (n + 2) * np.finfo(dtype).eps * (np.abs(solved) @ np.abs(x))
        assert (np.abs(solved.astype(np.longdouble) @ x - right) <= bound).all(), (
            n,
            sides,
            forward,
            unit,
        )
