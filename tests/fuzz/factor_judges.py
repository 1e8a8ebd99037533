"""What factorisations must be, whatever their signs and order: residuals in a higher precision, NaN where there is no
answer.

The bounds are those of LAPACK's own tests (LAPACK Working Note 41; ``dget01.f``, ``dqrt01.f``, ``dpot01.f``,
``dtrt02.f``, ``dstt21.f``, ``dbdt01.f``): a residual is divided by the norm of the matrix, its order and the type's
epsilon, and what is left must be below 30. In place of 30 a solution's residual may be the order, which is the bound of
substitution (Higham, "Accuracy and stability of numerical algorithms", theorem 8.5). Residuals of 32-bit results are
computed in 64 bits, those of 64-bit results in ``longdouble``.

Matrices with a NaN or an infinity, and singular ones where that matters, must have a result that is not finite, and
must not change those beside them in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = Any
Step = tuple[Any, ...]

# The threshold of LAPACK's tests.
_RATIO: Final = 30.0
# A function with one right answer: other evaluations of it, how far arguments are moved (times epsilon and the largest
# number of a matrix; a backward error of a few roundings of each row), and the distance that is allowed, times the
# farthest of these.
_EVALUATIONS: Final = 6
_MOVED: Final = 4.0
_SAFETY: Final = 8.0


def applied(xp: Any, step: Step, x: Array) -> Array:
    """A step without rounding; ``xp`` is the module of its arrays, NumPy or jax.numpy."""
    name, *values = step
    if name == "swap":
        return xp.swapaxes(x, -1, -2)
    if name == "conj":
        return xp.conj(x)
    if name == "flip":
        return xp.flip(x, values[0])
    if name == "scale":
        return x * xp.asarray(values[0], x.dtype)
    if name == "roll":
        return xp.roll(x, values[0], values[1])
    if name == "last":
        return xp.moveaxis(x, -1, 0)
    low, high = values  # of a slice: what is around each matrix
    rows, columns = x.shape[-2:]
    return x[..., low : rows - high, high : columns - low]


def undone(steps: Sequence[Step], x: np.ndarray) -> np.ndarray:
    """What becomes ``x`` by the steps. What a slice leaves out is NaN."""
    for name, *values in reversed(steps):
        if name == "scale":
            x = np.multiply(x, 1 / values[0])
        elif name == "roll":
            x = np.roll(x, -values[0], values[1])
        elif name == "last":
            x = np.moveaxis(x, 0, -1)
        elif name == "slice":
            low, high = values
            widths = [(0, 0)] * (x.ndim - 2) + [(low, high), (high, low)]
            x = np.pad(x, widths, constant_values=np.nan)
        else:
            x = applied(np, (name, *values), x)
    return x


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2).conj()


def _wide(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """``x`` in a higher precision than that of ``like``."""
    narrow = like.dtype in (np.float32, np.complex64)
    if x.dtype.kind == "c":
        return x.astype(np.complex128 if narrow else np.clongdouble)
    return x.astype(np.float64 if narrow else np.longdouble)


def _epsilon(x: np.ndarray) -> float:
    return float(np.finfo(x.dtype).eps)


def _norm(x: np.ndarray) -> np.ndarray:
    """The 1-norm of each matrix."""
    if 0 in x.shape[-2:]:
        return np.zeros(x.shape[:-2])
    return np.asarray(np.abs(x).sum(-2).max(-1))


def _finite(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(x).all((-1, -2)))


def _has_no_nan(x: np.ndarray) -> np.ndarray:
    """Of matrices with an infinity as well, which has an inverse without one where it is a pivot: 1 / inf is 0."""
    return ~np.isnan(x).any((-1, -2))


class _Found:
    """What is wrong with the results of a batch of matrices."""

    def __init__(self, answers: np.ndarray) -> None:
        """``answers``: for each matrix, whether it has an answer."""
        self.answers = np.asarray(answers)
        self.lines: list[str] = []

    def at_most(self, what: str, value: np.ndarray, bound: np.ndarray | float) -> None:
        """Of matrices that have an answer, ``value`` must be at most ``bound``; a NaN is not."""
        with np.errstate(all="ignore"):
            wrong = self.answers & ~(value <= bound)
        if wrong.any():
            place = tuple(int(p[0]) for p in np.nonzero(np.atleast_1d(wrong)))
            at = np.broadcast_to(np.asarray(bound, np.float64), wrong.shape)
            value, at = np.atleast_1d(value), np.atleast_1d(at)
            self.lines.append(
                f"result {what} of {int(wrong.sum())} of {wrong.size} matrices: {float(value[place]):.4g} for the one"
                f" at {place}, above {float(at[place]):.4g}"
            )

    def holds(self, what: str, right: np.ndarray) -> None:
        self.at_most(what, np.where(right, 0.0, 1.0), 0.5)

    def not_finite(self, *results: np.ndarray, answers: np.ndarray | None = None) -> None:
        """Of matrices without an answer, a result must say so."""
        answers = self.answers if answers is None else answers
        said = np.zeros(answers.shape, np.bool_)
        for r in results:
            said |= ~np.isfinite(r.reshape(*answers.shape, -1)).all(-1)
        silent = ~answers & ~said
        if silent.any():
            self.lines.append(
                f"result is finite for {int(silent.sum())} matrices without an answer"
            )


class Check:
    """Says of a program's results what is wrong with them, in lines that begin with ``result``."""

    def __call__(self, results: Sequence[np.ndarray]) -> list[str]:
        with np.errstate(all="ignore"):
            return self.found([np.asarray(r) for r in results])

    def found(self, results: list[np.ndarray]) -> list[str]:
        raise NotImplementedError


@dataclass(frozen=True)
class Cholesky(Check):
    """``a`` [..., n, n], hermitian by its lower triangle."""

    a: np.ndarray
    steps: list[Step]
    upper: bool

    def found(self, results: list[np.ndarray]) -> list[str]:
        (factor,) = (undone(self.steps, r) for r in results)
        factor = adjoint(factor) if self.upper else factor
        n, eps, a = factor.shape[-1], _epsilon(factor), _wide(self.a, factor)
        lower = np.tril(np.ones((n, n), np.bool_))
        read = np.where(lower, a, 0)
        diagonal = np.diagonal(read, axis1=-2, axis2=-1).real
        found = _Found(_finite(read) & (diagonal > 0).all(-1))
        full = read + adjoint(np.where(lower & ~np.eye(n, dtype=np.bool_), a, 0))
        made = _wide(factor, factor)
        found.at_most(
            "residual", _norm(full - made @ adjoint(made)), _RATIO * n * eps * _norm(full)
        )
        found.holds("triangle", (factor[..., ~lower] == 0).all(-1))
        found.holds("diagonal", (np.diagonal(factor, axis1=-2, axis2=-1).real > 0).all(-1))
        infinite = np.isinf(read).any((-1, -2)) & ~np.isnan(read).any((-1, -2))
        found.not_finite(factor)
        silent = ~found.answers & ~infinite & ~np.isnan(factor[..., lower]).all(-1)
        if silent.any():
            found.lines.append(
                f"result is not NaN for {int(silent.sum())} matrices that are not positive definite"
            )
        return found.lines


@dataclass(frozen=True)
class Solution(Check):
    """x with ``a`` x = ``b``, or x ``a`` = ``b`` if not ``left``."""

    a: np.ndarray
    b: np.ndarray
    steps: list[Step]
    left: bool

    def found(self, results: list[np.ndarray]) -> list[str]:
        (x,) = (undone(self.steps, r) for r in results)
        eps, n = _epsilon(x), self.a.shape[-1]
        a, b, x = (_wide(v, x) for v in (self.a, self.b, x))
        if not self.left:
            a, b, x = (np.swapaxes(v, -1, -2) for v in (a, b, x))
        is_triangle = not np.tril(a, -1).any() or not np.triu(a, 1).any()
        singular = (np.diagonal(a, axis1=-2, axis2=-1) == 0).any(-1) if is_triangle else False
        singular |= (a == 0).all(-2).any(-1)
        found = _Found(_finite(a) & ~singular)
        residual = np.abs(b - a @ x).sum(-2)
        bound = max(_RATIO, n) * eps * _norm(a)[..., None] * np.abs(x).sum(-2)
        worst = np.where(residual <= bound, 0, residual / bound).max(-1)
        found.at_most("residual over its bound", worst, 1.0)
        found.not_finite(x, answers=_has_no_nan(a) & ~singular)
        return found.lines


@dataclass(frozen=True)
class Inverse(Check):
    a: np.ndarray
    steps: list[Step]

    def found(self, results: list[np.ndarray]) -> list[str]:
        (x,) = (undone(self.steps, r) for r in results)
        eps, n = _epsilon(x), self.a.shape[-1]
        a, x = _wide(self.a, x), _wide(x, x)
        singular = (a == 0).all(-2).any(-1)
        found = _Found(_finite(a) & ~singular)
        found.at_most("residual", _norm(np.eye(n) - a @ x), _RATIO * n * eps * _norm(a) * _norm(x))
        found.not_finite(x, answers=_has_no_nan(a) & ~singular)
        return found.lines


@dataclass(frozen=True)
class Determinant(Check):
    """The determinant, or its sign and logarithm. The error of the factors L and U moves it by at most the trace of
    |a^-1| |L| |U|, times the order and epsilon (Higham, theorem 9.3, to the first order).
    """

    a: np.ndarray
    logarithm: bool

    def found(self, results: list[np.ndarray]) -> list[str]:
        eps, n = _epsilon(results[-1]), self.a.shape[-1]
        a = _wide(self.a, results[-1])
        zero = (a == 0).all(-1).any(-1)
        finite = _finite(a)
        regular = np.where((finite & ~zero)[..., None, None], a, np.eye(n, dtype=a.dtype))
        sign, logarithm, sizes = _eliminated(regular)
        inverse = np.abs(
            np.linalg.inv(regular.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
        )
        relative = (
            4 * n * eps * (1 + np.einsum("...ij,...ji->...", inverse, sizes.astype(np.float64)))
        )
        found = _Found(finite & ~zero)
        if self.logarithm:
            found.at_most("sign", np.abs(_wide(results[0], results[-1]) - sign), relative)
            bound = relative + _RATIO * eps * np.abs(logarithm)
            found.at_most("logarithm", np.abs(_wide(results[1], results[-1]) - logarithm), bound)
        else:
            right = sign * np.exp(logarithm)
            error = np.abs(_wide(results[0], results[-1]) - right)
            found.at_most("determinant", error, (relative + _RATIO * eps) * np.abs(right))
            # That of a singular matrix is as small as rounding makes it, which is nothing where a row is zero.
            found.holds("zero", True | zero)
            if (results[0][zero & finite] != 0).any():
                found.lines.append("result determinant of a matrix with a row of zeros is not zero")
        found.not_finite(*results, answers=finite)
        return found.lines


def _eliminated(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian elimination with partial pivoting: the determinants' signs and logarithms, and |L| |U| as ``a`` lies."""
    shape, n = a.shape, a.shape[-1]
    u = a.reshape(-1, n, n).copy()
    many = np.arange(len(u))
    lower = np.zeros_like(u)
    rows = np.tile(np.arange(n), (len(u), 1))
    sign, logarithm = np.ones(len(u), u.dtype), np.zeros(len(u), u.real.dtype)
    for k in range(n):
        pivot = k + np.abs(u[:, k:, k]).argmax(-1)
        for x in (u, lower, rows):
            x[many, k], x[many, pivot] = x[many, pivot].copy(), x[many, k].copy()
        sign = np.where(pivot != k, -sign, sign)
        size = np.abs(u[:, k, k])
        sign, logarithm = sign * (u[:, k, k] / size), logarithm + np.log(size)
        lower[:, k, k] = 1
        lower[:, k + 1 :, k] = u[:, k + 1 :, k] / u[:, k, None, k]
        u[:, k + 1 :] -= lower[:, k + 1 :, k, None] * u[:, k, None, :]
    sizes = np.empty_like(u.real)
    sizes[many[:, None], rows] = np.abs(lower) @ np.abs(np.triu(u))
    return sign.reshape(shape[:-2]), logarithm.reshape(shape[:-2]), sizes.reshape(shape)


@dataclass(frozen=True)
class Lu(Check):
    """Factors in one matrix with pivots and the rows' order, if ``whole``; P, L and U otherwise."""

    a: np.ndarray
    steps: list[Step]
    whole: bool

    def found(self, results: list[np.ndarray]) -> list[str]:
        found = _Found(_finite(self.a))
        rows, columns = self.a.shape[-2:]
        least = min(rows, columns)
        if self.whole:
            packed, pivots, order = undone(self.steps, results[0]), *results[1:]
            lower = np.tril(packed[..., :least], -1) + np.eye(rows, least, dtype=packed.dtype)
            upper = np.triu(packed[..., :least, :])
            expected = np.broadcast_to(np.arange(rows), order.shape).copy()
            for k in range(least):
                at = np.clip(pivots[..., k : k + 1], 0, rows - 1)
                there = np.take_along_axis(expected, at, -1)
                np.put_along_axis(expected, at, expected[..., k : k + 1].copy(), -1)
                expected[..., k] = there[..., 0]
            found.holds("order of the rows", (expected == order).all(-1))
            moved = np.take_along_axis(self.a, np.clip(order, 0, rows - 1)[..., None], -2)
        else:
            permutation, lower, upper = results
            packed = upper
            moved = np.swapaxes(permutation, -1, -2).astype(self.a.dtype) @ np.nan_to_num(self.a)
            ones = (np.sort(permutation, -1)[..., -1] == 1) & (permutation != 0).sum(-1) == 1
            found.holds("permutation", ones.all(-1))
            found.holds(
                "triangle", ~np.tril(upper, -1).any((-1, -2)) & ~np.triu(lower, 1).any((-1, -2))
            )
        eps = _epsilon(packed)
        moved, low, up = (_wide(x, packed) for x in (moved, lower, upper))
        bound = _RATIO * max(rows, columns) * eps * _norm(np.nan_to_num(self.a))
        found.at_most("residual", _norm(moved - low @ up), bound)
        # Pivots of complex matrices are those whose parts have the largest sum.
        most = 1 + 4 * eps if self.a.dtype.kind != "c" else 2**0.5 * (1 + 4 * eps)
        found.at_most("largest multiplier", np.abs(low).max((-1, -2)), most)
        found.not_finite(lower, upper)
        return found.lines


def _orthonormal(found: _Found, what: str, q: np.ndarray) -> None:
    eps, wide = _epsilon(q), _wide(q, q)
    away = _norm(np.eye(q.shape[-1]) - adjoint(wide) @ wide)
    found.at_most(f"{what}'s distance from orthonormal", away, _RATIO * max(q.shape[-2:]) * eps)


@dataclass(frozen=True)
class Qr(Check):
    """Q and R, or R alone."""

    a: np.ndarray
    steps: list[Step]

    def found(self, results: list[np.ndarray]) -> list[str]:
        undone_ = [undone(self.steps, r) for r in results]
        r = undone_[-1]
        found = _Found(_finite(self.a))
        eps, most = _epsilon(r), max(self.a.shape[-2:])
        a, wide = _wide(self.a, r), _wide(r, r)
        found.holds("triangle", ~np.tril(r, -1).any((-1, -2)))
        if len(undone_) == 2:
            q = undone_[0]
            found.at_most("residual", _norm(a - _wide(q, r) @ wide), _RATIO * most * eps * _norm(a))
            _orthonormal(found, "Q", q)
        else:
            bound = 2 * _RATIO * most * eps * _norm(a) * _norm(adjoint(a))
            found.at_most("residual", _norm(adjoint(a) @ a - adjoint(wide) @ wide), bound)
        found.not_finite(*undone_)
        return found.lines


@dataclass(frozen=True)
class Eigh(Check):
    """Eigenvectors and eigenvalues, or these ``alone``."""

    a: np.ndarray
    steps: list[Step]
    alone: bool

    def found(self, results: list[np.ndarray]) -> list[str]:
        values = results[-1]
        n, eps, found = self.a.shape[-1], _epsilon(values), _Found(_finite(self.a))
        clean = np.where(found.answers[..., None, None], self.a, 0)
        a = _wide(clean, values)
        bound = _RATIO * n * eps * _norm(a)
        found.holds("order of the values", (np.diff(values, axis=-1) >= 0).all(-1))
        right = np.linalg.eigvalsh(clean)
        more = n * float(np.finfo(np.float64).eps) * _RATIO * _norm(a)
        found.at_most("value's error", np.abs(values - right).max(-1), bound + more)
        if not self.alone:
            vectors = undone(self.steps, results[0])
            wide, w = _wide(vectors, values), _wide(values, values)
            found.at_most("residual", _norm(a @ wide - wide * w[..., None, :]), bound)
            _orthonormal(found, "vectors", vectors)
        found.not_finite(*results)
        return found.lines


@dataclass(frozen=True)
class Svd(Check):
    """U, the singular values and the adjoint of V, or the values ``alone``."""

    a: np.ndarray
    steps: list[Step]
    alone: bool

    def found(self, results: list[np.ndarray]) -> list[str]:
        values = results[0 if self.alone else 1]
        eps, most, least = _epsilon(values), max(self.a.shape[-2:]), min(self.a.shape[-2:])
        found = _Found(_finite(self.a))
        clean = np.where(found.answers[..., None, None], self.a, 0)
        a = _wide(clean, values)
        bound = _RATIO * most * eps * _norm(a)
        right = np.linalg.svd(clean, compute_uv=False)
        more = most * float(np.finfo(np.float64).eps) * _RATIO * _norm(a)
        found.at_most("value's error", np.abs(values - right).max(-1), bound + more)
        sinks = (np.diff(values, axis=-1) <= 0).all(-1) & (values >= 0).all(-1)
        found.holds("order of the values", sinks)
        if not self.alone:
            u, v = (undone(self.steps, r) for r in (results[0], results[2]))
            wide = _wide(u[..., :least], values) * _wide(values, values)[..., None, :]
            found.at_most("residual", _norm(a - wide @ _wide(v[..., :least, :], values)), bound)
            _orthonormal(found, "U", u)
            _orthonormal(found, "V", adjoint(v))
        found.not_finite(*results)
        return found.lines


@dataclass(frozen=True)
class OneAnswer(Check):
    """A function that has one right answer: JAX's CPU backend computes it in 64 bits, once as it stands and several
    times with arguments that are moved as far as a few roundings of their type move a matrix.
    """

    seed: int

    def found(self, results: list[np.ndarray]) -> list[str]:
        import jax

        from tests.fuzz import factor_functions

        function, arguments = factor_functions.reference(self.seed)
        # Optimised code would take longer to make than the other runs.
        run = jax.jit(function, compiler_options={"xla_backend_optimization_level": "0"})
        exact = [np.asarray(a) for a in jax.tree.leaves(run(*(_in_64_bits(a) for a in arguments)))]
        rng = np.random.default_rng(self.seed)
        spread = [np.zeros(e.shape) for e in exact]
        for _ in range(_EVALUATIONS):
            moved = jax.tree.leaves(run(*(_moved(rng, a) for a in arguments)))
            spread = [
                np.maximum(s, np.abs(m - e)) for s, m, e in zip(spread, moved, exact, strict=True)
            ]
        lines = []
        for number, (r, e, s) in enumerate(zip(results, exact, spread, strict=True)):
            # The largest of a matrix, or of a row of numbers: errors are normwise.
            axes = tuple(range(max(0, r.ndim - 2), r.ndim))
            scale = np.abs(e).max(axes, keepdims=True, initial=0) * _epsilon(r)
            tolerance = _SAFETY * (s.max(axes, keepdims=True, initial=0) + scale)
            wrong = ~(np.abs(r - e) <= tolerance)
            if wrong.any():
                place = tuple(int(p[0]) for p in np.nonzero(np.atleast_1d(wrong)))
                far = (np.abs(r - e) / tolerance).max()
                lines.append(
                    f"result {number}: {int(wrong.sum())} of {wrong.size} numbers, the first at {place}, up to"
                    f" {float(far):.3g} times as far off as they may be"
                )
        return lines


def _in_64_bits(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _moved(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    wide = _in_64_bits(x)
    axes = tuple(range(max(0, x.ndim - 2), x.ndim))
    size = np.abs(wide).max(axes, keepdims=True, initial=0) * _MOVED * _epsilon(x)
    noise = rng.uniform(-1, 1, x.shape)
    if x.dtype.kind == "c":
        noise = noise + 1j * rng.uniform(-1, 1, x.shape)
    return np.asarray(wide + size * noise)
