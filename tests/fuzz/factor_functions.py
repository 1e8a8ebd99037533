"""Factorisations, solves, inverses and determinants of matrices and batches, as users of JAX write them: behind and
before transposes, slices and other exact steps, in loops and batches, and their gradients.

A factorisation has more than one right answer, so results are judged by what they must be, in a higher precision
(:mod:`.factor_judges`): the factors' product is the matrix, their columns are orthonormal. What is around a
factorisation is exact and can be undone. What has one right answer, as gradients have, is compared with the same
function in 64 bits. Arrays hold NaN wherever a factorisation must not read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import linalg as scipy_linalg

from tests.fuzz import factor_judges as judges
from tests.fuzz.factor_judges import Check, Step, undone
from tests.fuzz.judge import Case

Array = Any

_SMALL: Final = [*range(1, 17)]
_MIDDLE: Final = [17, 24, 31, 32, 33, 47, 63, 64, 65]
_LARGE: Final = [96, 100, 127, 128, 129, 160, 200, 255, 256, 257, 300]
_BATCHES: Final = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257, 1000, 3000]
_NUMBERS: Final = 160_000  # of all matrices
_TYPES: Final = ["float32", "float32", "float64", "complex64", "complex128"]
# Whose rules JAX writes the program by: LAPACK's routines, or StableHLO's operations and XLA's names, which there are
# for all but eigenvalues and singular values.
_PLATFORMS: Final = ["cpu", "tpu"]
_OF_LAPACK: Final = ("eigh", "svd", "values", "singular")
_GRID: Final = (
    2.0**-12
)  # of which numbers are multiples, so that sums and differences of them are exact


def lowered(function: Callable[..., Any], arguments: list[np.ndarray], platform: str) -> str:
    """The program of a function as JAX lowers it for ``platform``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jax.jit(function, keep_unused=True).trace(*arguments)
        return traced.lower(lowering_platforms=(platform,)).as_text()  # type: ignore[no-any-return]


class Factors:
    """A function of matrices, and what its results must be, by the numbers that are drawn for it."""

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        self.dtype = np.dtype(self.choose(*_TYPES))
        self.is_complex = self.dtype.kind == "c"
        self.arguments: list[np.ndarray] = []
        kind = self.choose("small", "small", "middle", "large")
        self.order = int(
            self.chances.choice({"small": _SMALL, "middle": _MIDDLE, "large": _LARGE}[kind])
        )
        most = max(
            1,
            min(
                3000 if kind == "small" else 40 if kind == "middle" else 2,
                _NUMBERS // self.order**2,
            ),
        )
        count = self.chances.choice([b for b in _BATCHES if b <= most])
        self.batch: tuple[int, ...] = () if count == 1 and self.chance(0.6) else (count,)
        self.kind = ""

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def chance(self, share: float) -> bool:
        return self.chances.random() < share

    # ------------------------------------------------------------------------------------------------- matrices

    def normal(self, *dims: int) -> np.ndarray:
        """Random numbers that are multiples of 2^-12, in 64 bits."""
        values = self.rng.standard_normal((*self.batch, *dims))
        if self.is_complex:
            values = values + 1j * self.rng.standard_normal((*self.batch, *dims))
        return self.on_grid(values)

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        return np.round(values / _GRID) * _GRID

    def matrix(self, rows: int, columns: int) -> np.ndarray:
        """Any matrix: random, of whole numbers, graded, of low rank, or with one number in the diagonal."""
        kind = self.choose("normal", "normal", "whole", "graded", "low rank", "diagonal")
        x = self.normal(rows, columns)
        if kind == "whole":
            return np.round(x)
        if kind == "graded":
            return (
                x
                * 2.0 ** self.rng.integers(-12, 13, (rows, 1))
                * 2.0 ** self.rng.integers(-3, 4, columns)
            )
        if kind == "low rank" and min(rows, columns) > 1:
            x[..., -1, :] = x[..., 0, :]
            x[..., :, 0] = 0
        if kind == "diagonal":
            return np.zeros_like(x) + np.eye(rows, columns) * self.choose(0, 1, 3)
        return x

    def regular(self, order: int) -> np.ndarray:
        """A matrix that is far from singular: random, with a larger diagonal and rows in another order."""
        x = self.normal(order, order) + np.eye(order) * self.choose(2, 4) * max(
            1, round(order**0.5)
        )
        if self.chance(0.3):
            x = x * 2.0 ** self.rng.integers(-5, 6, (order, 1))
        return x[..., self.rng.permutation(order), :]

    def hermitian(self, order: int) -> np.ndarray:
        x = self.matrix(order, order)
        return self.on_grid((x + judges.adjoint(x)) / 2)

    def positive(self, order: int) -> np.ndarray:
        x = self.normal(order, order)
        shift = self.choose(1, 1, 0.0625, 2.0**-8) * np.eye(order)
        x = self.on_grid(x @ judges.adjoint(x) / order + shift)
        if self.chance(0.3):  # graded
            scales = 2.0 ** self.rng.integers(-6, 7, order)
            x = x * scales[:, None] * scales
        return x

    def spoil(
        self, x: np.ndarray, singular: Callable[[np.ndarray], None], *, read: str = "all"
    ) -> None:
        """Make some matrices singular, and put a NaN or an infinity into some, where it is read."""
        if not self.chance(0.25):
            return
        several = x.reshape(-1, *x.shape[-2:])
        for _ in range(self.choose(1, 1, 2)):
            place = self.chances.randrange(len(several))
            if self.chance(0.5):
                singular(several[place])
            else:
                row, column = (self.chances.randrange(d) for d in x.shape[-2:])
                if (read == "lower") == (row < column) and read != "all":
                    row, column = column, row
                several[place][row, column] = self.choose(np.nan, np.inf, -np.inf)

    # ------------------------------------------------------------------------------------- what is around them

    def steps(self, *, before: bool) -> list[Step]:
        found: list[Step] = []
        for _ in range(self.choose(0, 0, 1, 1, 2)):
            kind = self.choose(
                "swap", "flip", "scale", "roll", "last", "conj", *(["slice"] * 2 * before)
            )
            if kind == "flip":
                found.append((kind, self.choose(-1, -2)))
            elif kind == "scale":
                found.append((kind, self.choose(-1.0, 2.0, 0.25, -0.5)))
            elif kind == "roll":
                found.append((kind, self.choose(1, -1, 3), self.choose(-1, -2)))
            elif kind == "slice":
                found.append((kind, self.choose(0, 1, 3), self.choose(0, 1, 5)))
            elif kind in ("swap", "conj") or self.batch:
                found.append((kind,))
        return found

    def given(self, x: np.ndarray, *, turned: float = 0.0) -> Callable[[Sequence[Array]], Array]:
        """``x`` as an argument, or what is made of one or two without rounding. ``turned``: the share of those whose
        last step is a transpose.
        """
        steps = self.steps(before=True)
        if self.chance(turned):
            steps.append(("swap",))
        argument = undone(steps, x).astype(self.dtype)
        other = None
        if (
            self.chance(0.2)
            and np.isfinite(argument).all()
            and np.abs(argument).max(initial=0) < 64
        ):
            part = np.round(self.rng.standard_normal(argument.shape) * 4).astype(self.dtype)
            if not ((argument - part) + part != argument).any():
                self.arguments.append(part)
                other, argument = len(self.arguments) - 1, argument - part
        self.arguments.append(argument)
        own = len(self.arguments) - 1

        def take(given: Sequence[Array]) -> Array:
            found = given[own] if other is None else given[own] + given[other]
            for step in steps:
                found = judges.applied(jnp, step, found)
            return found

        return take

    def many(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` of matrices for all of a batch: as it stands, mapped, or in a loop."""
        if not self.batch:
            return function
        way = self.choose("whole", "whole", "map", "loop", "scan")
        if self.batch[0] > 300 and way in ("loop", "scan"):
            way = "map"
        if way == "map":
            return jax.vmap(function)
        if way == "scan":
            return lambda *a: lax.scan(lambda _, x: (None, function(*x)), None, a)[1]
        if way == "loop":

            def loop(*a: Array) -> Any:
                like = jax.eval_shape(jax.vmap(function), *a)
                begin = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)

                def step(i: Array, found: Any) -> Any:
                    made = function(*(lax.dynamic_index_in_dim(x, i, keepdims=False) for x in a))
                    return jax.tree.map(lambda f, m: f.at[i].set(m), found, made)

                return lax.fori_loop(0, self.batch[0], step, begin)

            return loop
        return function

    def behind(self) -> tuple[Callable[[Array], Array], list[Step]]:
        """Exact steps behind a result of matrices, and the same for the judge."""
        steps = self.steps(before=False)

        def apply(x: Array) -> Array:
            for step in steps:
                x = judges.applied(jnp, step, x)
            return x

        return apply, steps

    # ------------------------------------------------------------------------------------------- the operations

    def cholesky(self) -> tuple[Any, Check]:
        n = self.order
        a = self.positive(n)

        def indefinite(x: np.ndarray) -> None:
            x[self.chances.randrange(n)] = 0
            x[np.arange(n), np.arange(n)] = -self.chances.choice([0, 1])

        portable, upper = self.chance(0.5), self.chance(0.4)
        self.spoil(a, indefinite, read="lower")
        read = a.copy()
        if portable:  # only the lower triangle is read
            upper = False
            a[..., *np.triu_indices(n, 1)] = np.nan
            function = lambda x: lax.linalg.cholesky(x, symmetrize_input=False)
        else:
            read = np.tril(a) + judges.adjoint(np.tril(a, -1))
            a = read.copy()
            function = lambda x: jnp.linalg.cholesky(x, upper=upper)
        take, (apply, steps) = self.given(a), self.behind()
        run = self.many(function)
        return lambda *g: apply(run(take(g))), judges.Cholesky(read, steps, upper)

    def triangular(self) -> tuple[Any, Check]:
        n, sides = self.order, self.choose(1, 1, 2, 3, 8, 17, self.order)
        lower, left, unit, transpose = (self.chance(0.5) for _ in range(4))
        conjugate = transpose and self.is_complex and self.chance(0.7)
        a = self.normal(n, n) / max(1, round(n**0.5))
        a = self.on_grid(a) + np.eye(n) * self.choose(1, 2)
        a[..., np.arange(n), np.arange(n)] += np.sign(a[..., np.arange(n), np.arange(n)].real)
        triangle = np.tril if lower else np.triu
        place = self.chances.randrange(n)

        def singular(x: np.ndarray) -> None:
            x[place, place] = 0

        if not unit:
            self.spoil(a, singular, read="lower" if lower else "upper")
        read = triangle(a, (-1 if lower else 1) if unit else 0)
        a = np.where(triangle(np.ones((n, n)), (-1 if lower else 1) if unit else 0) > 0, a, np.nan)
        read = read + np.eye(n) * unit
        b = self.normal(*((n, sides) if left else (sides, n)))
        take, right, (apply, steps) = self.given(a, turned=0.4), self.given(b), self.behind()

        def function(x: Array, y: Array) -> Array:
            return lax.linalg.triangular_solve(
                x, y, left_side=left, lower=lower, transpose_a=transpose, conjugate_a=conjugate,
                unit_diagonal=unit,
            )  # fmt: skip

        operator = np.swapaxes(read, -1, -2) if transpose else read
        operator = operator.conj() if conjugate else operator
        run = self.many(function)
        return (
            lambda *g: apply(run(take(g), right(g))),
            judges.Solution(operator, b, steps, left),
        )

    def solve(self) -> tuple[Any, Check]:
        n, sides = self.order, self.choose(1, 1, 2, 5, 16)
        a, b = self.regular(n), self.normal(n, sides)
        column = self.chances.randrange(n)

        def singular(x: np.ndarray) -> None:
            x[:, column] = 0

        self.spoil(a, singular)
        take, right, (apply, steps) = self.given(a), self.given(b), self.behind()
        run = self.many(jnp.linalg.solve)
        return lambda *g: apply(run(take(g), right(g))), judges.Solution(a, b, steps, True)

    def inverse(self) -> tuple[Any, Check]:
        a = self.regular(self.order)
        column = self.chances.randrange(self.order)

        def singular(x: np.ndarray) -> None:
            x[:, column] = 0

        self.spoil(a, singular)
        take, (apply, steps) = self.given(a), self.behind()
        run = self.many(jnp.linalg.inv)
        return lambda *g: apply(run(take(g))), judges.Inverse(a, steps)

    def determinant(self) -> tuple[Any, Check]:
        a = self.regular(min(self.order, 65))

        def singular(x: np.ndarray) -> None:
            x[-1] = 0

        self.spoil(a, singular)
        take, logarithm = self.given(a), self.chance(0.5) or self.order > 24
        run = self.many(jnp.linalg.slogdet if logarithm else jnp.linalg.det)
        return lambda *g: run(take(g)), judges.Determinant(a, logarithm)

    def sides(self) -> tuple[int, int]:
        """Rows and columns of any matrix."""
        other = max(1, round(self.order * self.choose(0.3, 0.5, 0.9)))
        return self.choose((self.order, self.order), (self.order, other), (other, self.order))

    def lu(self) -> tuple[Any, Check]:
        a = self.matrix(*self.sides())

        def singular(x: np.ndarray) -> None:
            x[:, 0] = 0

        self.spoil(a, singular)
        take, (apply, steps) = self.given(a), self.behind()
        if self.chance(0.3):
            run = jax.vmap(scipy_linalg.lu) if self.batch else scipy_linalg.lu
            return lambda *g: run(take(g)), judges.Lu(a, [], whole=False)
        run = self.many(lax.linalg.lu)

        def function(*g: Array) -> Any:
            factors, pivots, order = run(take(g))
            return apply(factors), pivots, order

        return function, judges.Lu(a, steps, whole=True)

    def qr(self) -> tuple[Any, Check]:
        rows, columns = self.sides()
        a = self.matrix(rows, columns)
        self.spoil(a, lambda x: None)
        take, (apply, steps) = self.given(a), self.behind()
        kind = self.choose("reduced", "reduced", "complete", "r", "reflectors")

        def reflectors(x: Array) -> tuple[Array, Array]:
            turned, taus = jnp.linalg.qr(x, mode="raw")
            packed = jnp.swapaxes(turned, -1, -2)
            q = lax.linalg.householder_product(packed[..., : min(rows, columns)], taus)
            return q, jnp.triu(packed[..., : min(rows, columns), :])

        function: Any = {
            "reduced": jnp.linalg.qr,
            "complete": lambda x: jnp.linalg.qr(x, mode="complete"),
            "r": lambda x: (jnp.linalg.qr(x, mode="r"),),
            "reflectors": reflectors,
        }[kind]
        run = self.many(lambda x: tuple(function(x)))
        return lambda *g: [apply(r) for r in run(take(g))], judges.Qr(a, steps)

    def eigh(self) -> tuple[Any, Check]:
        n = self.order if self.order <= 129 else 129
        a = self.hermitian(n)
        self.spoil(a, lambda x: None, read="lower")
        lower = self.chance(0.5)
        read = np.tril(a) + judges.adjoint(np.tril(a, -1))
        diagonal = np.arange(n)
        read[..., diagonal, diagonal] = read[..., diagonal, diagonal].real
        a = read.copy()
        a[..., *(np.triu_indices(n, 1) if lower else np.tril_indices(n, -1))] = np.nan
        take, (apply, steps) = self.given(a), self.behind()
        if self.chance(0.3):
            run = self.many(lambda x: lax.linalg.eigh(x, lower=lower, symmetrize_input=False)[1])
            return lambda *g: run(take(g)), judges.Eigh(read, [], alone=True)
        run = self.many(lambda x: tuple(lax.linalg.eigh(x, lower=lower, symmetrize_input=False)))

        def function(*g: Array) -> Any:
            vectors, values = run(take(g))
            return apply(vectors), values

        return function, judges.Eigh(read, steps, alone=False)

    def svd(self) -> tuple[Any, Check]:
        self.order = min(self.order, 129)
        a = self.matrix(*self.sides())
        self.spoil(a, lambda x: None)
        take, (apply, steps) = self.given(a), self.behind()
        if self.chance(0.3):
            run = self.many(lambda x: jnp.linalg.svd(x, compute_uv=False))
            return lambda *g: run(take(g)), judges.Svd(a, [], alone=True)
        full = self.chance(0.4)
        run = self.many(lambda x: tuple(jnp.linalg.svd(x, full_matrices=full)))

        def function(*g: Array) -> Any:
            u, values, v = run(take(g))
            return apply(u), values, apply(v)

        return function, judges.Svd(a, steps, alone=False)

    # ------------------------------------------------------------------- functions that have one right answer

    def smooth(self) -> Callable[..., Array]:
        """Arguments and a function of them that does not depend on the signs and the order of factors."""
        n = min(self.order, 65)
        kind = self.choose(
            "cholesky", "factor", "log determinant", "solve", "cho_solve", "inverse", "slogdet", "values", "singular",
            "triangular", "r", "likelihood",
        )  # fmt: skip
        self.arguments = []

        def new(values: np.ndarray) -> int:
            self.arguments.append(values.astype(self.dtype))
            return len(self.arguments) - 1

        if kind in ("cholesky", "factor", "log determinant", "cho_solve", "values", "likelihood"):
            a = new(self.well_conditioned(n, positive=True))
        else:
            a = new(self.well_conditioned(n, positive=False))
        b = new(self.normal(n, self.choose(1, 2, 5)))

        def log_determinant(x: Array) -> Array:
            return jnp.log(jnp.diagonal(jnp.linalg.cholesky(x), axis1=-2, axis2=-1).real).sum(-1)

        def likelihood(x: Array, y: Array) -> Array:
            half = scipy_linalg.solve_triangular(jnp.linalg.cholesky(x), y, lower=True)
            return log_determinant(x) + (half * half.conj()).real.sum((-1, -2))

        functions: dict[str, Callable[..., Array]] = {
            "cholesky": lambda x, y: jnp.linalg.cholesky(x),
            "factor": lambda x, y: jnp.linalg.cholesky(x) @ y,
            "log determinant": lambda x, y: log_determinant(x),
            "solve": jnp.linalg.solve,
            "cho_solve": lambda x, y: scipy_linalg.cho_solve((jnp.linalg.cholesky(x), True), y),
            "inverse": lambda x, y: jnp.linalg.inv(x),
            "slogdet": lambda x, y: jnp.linalg.slogdet(x)[1],
            "values": lambda x, y: jnp.linalg.eigvalsh(x),
            "singular": lambda x, y: jnp.linalg.svd(x, compute_uv=False),
            "triangular": lambda x, y: scipy_linalg.solve_triangular(x, y, lower=False),
            "r": lambda x, y: jnp.abs(jnp.linalg.qr(x)[1]),
            "likelihood": likelihood,
        }
        function = self.many(functions[kind])
        self.kind = kind
        return lambda *g: function(g[a], g[b])

    def well_conditioned(self, order: int, *, positive: bool) -> np.ndarray:
        """A matrix with singular values of 1 to 10 that are apart."""
        x, y = self.rng.standard_normal((2, *self.batch, order, order))
        if self.is_complex:
            x = x + 1j * self.rng.standard_normal(x.shape)
        q, other = np.linalg.qr(x)[0], np.linalg.qr(y)[0]
        values = 1 + 7 * (np.arange(order) + self.rng.uniform(0.0, 0.2, order)) / max(1, order - 1)
        made = (q * values) @ judges.adjoint(q if positive else other)
        return np.asarray((made + judges.adjoint(made)) / 2 if positive else made)

    def one_answer(self) -> Callable[..., Any]:
        """A function of :meth:`smooth`, or its gradient."""
        function = self.smooth()
        if self.chance(0.25):
            return function
        made = jax.eval_shape(function, *self.arguments)
        weights = self.rng.standard_normal(made.shape)
        towards = weights.astype(made.dtype)
        if jnp.iscomplexobj(towards):
            towards = (towards + 1j * self.rng.standard_normal(made.shape)).astype(made.dtype)
        self.arguments.append(towards)

        def gradient(x: Array, y: Array, w: Array) -> Array:
            _, back = jax.vjp(function, x, y)
            return back(w)[0]

        return gradient


def _operation(factors: Factors) -> tuple[Any, Check] | None:
    """A factorisation and its check; None for a function that has one right answer."""
    kinds = [
        factors.cholesky, factors.triangular, factors.triangular, factors.solve, factors.inverse, factors.determinant,
        factors.lu, factors.qr, factors.eigh, factors.svd, None, None, None,
    ]  # fmt: skip
    chosen = factors.chances.choice(kinds)
    if chosen is None:
        return None
    factors.kind = chosen.__name__
    return chosen()  # type: ignore[no-any-return]


def reference(seed: int) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """The function of a seed that has one right answer, and its arguments."""
    factors = Factors(seed)
    factors.chances.choice(_PLATFORMS)
    if _operation(factors) is not None:
        raise ValueError(f"the program of seed {seed} has more than one right answer")
    return factors.one_answer(), factors.arguments


def make(seed: int) -> Case:
    """A function of matrices as JAX lowers it, with its judge."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    factors = Factors(seed)
    platform = factors.chances.choice(_PLATFORMS)
    made = _operation(factors)
    if made is None:
        function, check = factors.one_answer(), judges.OneAnswer(seed)
    else:
        function, check = made
    platform = "cpu" if factors.kind in _OF_LAPACK else platform
    text = lowered(function, factors.arguments, platform)
    return Case(text, factors.arguments, exact=False, own=check)
