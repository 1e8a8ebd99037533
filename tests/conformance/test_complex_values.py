"""Complex functions where a part is 0, infinite, NaN, denormal or the largest number: NumPy's values (C99 Annex G).

The sign of a NaN never counts; that of a zero or an infinity beside one is left open by C99 where ``OPEN`` says so.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.conformance.device import compile_program, run
from tests.conformance.programs import function, tensor

Array = np.ndarray[Any, Any]
FORMATS = [("c64", np.complex64, np.complex128), ("c128", np.complex128, np.clongdouble)]


def expm1(z: Array) -> Array:
    """NumPy's, but for real numbers that of their real parts (NumPy says infinity * 0)."""
    result = np.expm1(z)
    axis = z.imag == 0
    result.real[axis], result.imag[axis] = np.expm1(z.real[axis]), z.imag[axis]
    return result


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exponential": np.exp,
    "exponential_minus_one": expm1,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "tan": np.tan,
    "sine": np.sin,
    "cosine": np.cos,
}
# Of these the signs beside NaN, and of the zero that e^-inf is without an angle, are anything.
OPEN = {"exponential", "sine", "cosine"}


def parts(dtype: Any) -> list[float]:
    form = np.finfo(dtype)
    least, large = float(form.smallest_subnormal), float(form.max)
    grown = math.log(large) + 0.2  # e to this is infinite, and its product with a sine is not
    ordinary = [0.0, 1.0, 0.5, 2.0, 1e-30, grown, 2 * grown]
    positive = [*ordinary, least, least * 1000, large / 2, large, np.inf]
    return [*positive, *(-p for p in positive), np.nan]


def grid(dtype: Any) -> Array:
    values = parts(dtype)
    z = np.empty(len(values) ** 2, dtype)
    z.real, z.imag = np.repeat(values, len(values)), np.tile(values, len(values))
    return z


@functools.cache
def program(op: str, dtype: str, count: int, operands: int) -> Any:
    t = tensor(dtype, count)
    names = ", ".join(f"%{i}" for i in range(operands))
    return compile_program(function([t] * operands, [t], f"%r = stablehlo.{op} {names} : {t}"))


def differing(got: Array, exact: Array, size: Array, open_signs: Array) -> Array:
    """Where a part differs in kind, in sign, or by more than 16 units in the last place of the number's ``size``."""
    form = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        unit = np.maximum(size * form.eps, form.smallest_subnormal)
        near = np.isfinite(got) & np.isfinite(exact) & (np.abs(got - exact) <= 16 * unit)
        sign = (np.signbit(got) == np.signbit(exact)) | (near & (exact != 0)) | open_signs
        same = near | (got == exact) | (np.isinf(got) & np.isinf(exact) & open_signs)
    return ~((np.isnan(got) & np.isnan(exact)) | (same & sign))


@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_values(op: str, name: str, dtype: Any, wider: Any) -> None:
    z = grid(dtype)
    (got,) = run(program(op, name, z.size, 1), [z])
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[op](z.astype(wider)).astype(dtype)
    either_nan = np.isnan(exact.real) | np.isnan(exact.imag)
    if op == "exponential":
        either_nan |= np.isneginf(z.real) & ~np.isfinite(z.imag)
    open_signs = either_nan & (op in OPEN)
    if op == "exponential_minus_one":  # the real part of e^iy - 1 is -y^2 / 2
        open_signs |= exact.real == 0
    size = np.abs(exact)
    wrong = differing(got.real, exact.real, size, open_signs)
    wrong |= differing(got.imag, exact.imag, size, open_signs)
    lines = [f"{z[i]}: {got[i]}, not {exact[i]}" for i in np.flatnonzero(wrong)[:10]]
    assert not lines, "\n".join([f"{wrong.sum()} of {z.size}:", *lines])


@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
def test_division_by_zero_and_infinity(name: str, dtype: Any, wider: Any) -> None:
    """C99 Annex G: not zero / 0 and infinite / finite are infinite, finite / infinite is zero; else as NumPy."""
    values = grid(dtype)
    x, y = np.repeat(values, values.size), np.tile(values, values.size)
    (got,) = run(program("divide", name, x.size, 2), [x, y])
    infinite_x, infinite_y = (
        np.isinf(x.real) | np.isinf(x.imag),
        np.isinf(y.real) | np.isinf(y.imag),
    )
    finite_x, finite_y = np.isfinite(x), np.isfinite(y)
    with_value = (np.abs(x.real) > 0) | (np.abs(x.imag) > 0)  # of a part that is not NaN
    is_infinite = np.isinf(got.real) | np.isinf(got.imag)
    assert is_infinite[(y == 0) & with_value].all()
    assert is_infinite[infinite_x & finite_y].all()
    assert (got == 0)[finite_x & infinite_y].all()
    ordinary = (np.abs(x) > 1e-20) & (np.abs(x) < 1e20) & (np.abs(y) > 1e-20) & (np.abs(y) < 1e20)
    exact = x[ordinary].astype(wider) / y[ordinary]
    error = np.abs(got[ordinary] - exact) / np.abs(exact)
    assert error.max() < 4 * np.finfo(dtype).eps


@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
def test_powers(name: str, dtype: Any, wider: Any) -> None:
    """Of sizes far from 1 and near it, turned many times: no digit is lost. Of 0 and infinity as defined."""
    random = np.random.default_rng(5)
    limit = 30 if name == "c64" else 250
    size = 10.0 ** np.concatenate([random.uniform(-limit, limit, 4000), random.normal(size=4000)])
    x = (size * np.exp(1j * random.uniform(-np.pi, np.pi, 8000))).astype(dtype)
    y = np.concatenate(
        [random.uniform(-1, 1, 4000) + 0j, random.normal(size=4000) + 9j * random.normal(size=4000)]
    ).astype(dtype)
    (got,) = run(program("power", name, 8000, 2), [x, y])
    exact = np.exp(y.astype(wider) * np.log(x.astype(wider)))
    form = np.finfo(dtype)
    assert np.all(
        np.abs(got - exact) <= 2.5 * np.maximum(form.eps * np.abs(exact), form.smallest_subnormal)
    )
    special = np.array([0, 0, 0, 2, np.inf, np.inf], dtype)
    exponent = np.array([0, 2, 0.5, 0, 1, 2], dtype)
    (got,) = run(program("power", name, 6, 2), [special, exponent])
    np.testing.assert_array_equal(got, np.array([1, 0, 0, 1, np.inf, np.inf], dtype))


@pytest.mark.parametrize(("name", "dtype", "wider"), FORMATS)
@pytest.mark.parametrize("op", ["log", "log_plus_one"])
def test_logarithms(op: str, name: str, dtype: Any, wider: Any) -> None:
    """Near the unit circle (of 1 + z) too, where the real part is what two squares leave of 1."""
    random = np.random.default_rng(6)
    angle, off = random.uniform(-np.pi, np.pi, 400), random.normal(size=400)
    near = np.exp(1j * angle) * (1 + off * 10.0 ** random.uniform(-7, 0, 400))
    far = np.exp(1j * angle) * 10.0 ** random.uniform(-6, 30, 400)
    z = np.concatenate([near - (op == "log_plus_one"), far]).astype(dtype)
    (got,) = run(program(op, name, z.size, 1), [z])
    shift = 1 if op == "log_plus_one" else 0
    size = []
    for x, y in zip(z.real, z.imag, strict=True):
        a, b = Fraction(float(x)) + shift, Fraction(float(y))
        square = a * a + b * b
        near_one = abs(square - 1) < 0.5
        size.append((math.log1p(square - 1) if near_one else math.log(square)) / 2)
    with np.errstate(all="ignore"):
        turn = np.arctan2(
            z.imag.astype(wider().real.dtype), z.real.astype(wider().real.dtype) + shift
        )
    form = np.finfo(dtype)
    for part, exact in ((got.real, np.array(size)), (got.imag, turn)):
        error = np.abs(part - exact) / np.spacing(np.abs(exact).astype(form.dtype))
        assert error.max() < 1.7  # the reference is rounded too
