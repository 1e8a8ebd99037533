"""How far rounding may move the results of a module: stochastic arithmetic on the reference evaluator.

Two programs that mean the same may round at other places: sums in another order, an extended type in the middle, a
function with another approximation. :class:`Expectation` evaluates a module once as it stands, and several times with
every rounded value moved at random by as much as the rounding of that operation may move it (J. Vignes, "A stochastic
arithmetic for reliable scientific computation", 1993). The largest distance to the first evaluation, times
:data:`SAFETY`, is the tolerance of an element. Exact results (sums of small whole numbers, for instance) are not moved,
so that a program of whole numbers has no tolerance. Where an integer, a truth value, or whether a number is finite
depends on the rounding, an element is free. Whether two rounded numbers are equal is drawn where their difference had
both signs: equal numbers lie between, and random ones nearly never meet (:class:`_Ties`). In the same way it is drawn
whether an exponent near a whole number is that number: a power of a negative number is NaN otherwise. The sign of a NaN
that arithmetic gives is not specified either (IEEE 754, 6.3), and decides where a sort by the total order puts that
NaN, so it is drawn anew. So is what a complex product makes of an infinity or NaN and the zero of a real or imaginary
factor, which a product with the other part alone does not have. Whether a weight that is not finite meets the padding
of a convolution is drawn, and whether a number beyond its type of at most 16 bits is infinite: kernels keep it in f32.

The steps of a reduction are moved by what another order of n terms loses as a rule, which grows with the root of n, and
a sum of array elements by no more than any order can lose: n roundings of the sum of their sizes. Floats of at most 16
bits are summed in f32 by every kernel (codegen/representation.py), so they are rounded where partial sums are stored,
which is less often than here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.errors import CompileError
from ..ir.hlo import Computation, Instruction, Module, Shape
from ..ir.patterns import binary_body
from ..ir.registry import OPS, ROUNDED, SUMMED, Absent
from . import evaluate

Array = np.ndarray[Any, Any]

# Another evaluation may be farther off than the farthest of several random ones: tolerance over largest distance.
SAFETY: Final = 8.0
# Units in the last place of a result that are always allowed, where it is not exact.
ULPS: Final = 8.0
# Evaluations with moved values, and as many as there are before a result is called wrong.
TRIES: Final = 8
TRIES_TO_CONFIRM: Final = 48
# How near a whole number an exponent lies that rounding may make one.
_NEARLY_WHOLE: Final = 0.25
# The wider type in which floats of at most 16 bits are summed.
_EPS_OF_WIDER_SUMS: Final = 2.0**-23


class TooLongError(CompileError):
    """An evaluation took more operations than it may."""

    def __init__(self) -> None:
        super().__init__("DEADLINE_EXCEEDED", "the evaluation takes too many operations")


class _Budget:
    """Counts instructions and elements, so that a loop without an end is given up."""

    def __init__(self, instructions: int, elements: int) -> None:
        self.instructions, self.elements = instructions, elements

    def __call__(
        self, instruction: Instruction, operands: Sequence[Array], results: list[Array]
    ) -> list[Array]:
        self.instructions -= 1
        self.elements -= sum(r.size for r in results) + sum(o.size for o in operands)
        if self.instructions < 0 or self.elements < 0:
            raise TooLongError
        return results


class _Ties:
    """The tests for equality of floats (a power has one: whether its exponent is whole), and what the tries saw of the
    differences of their operands.

    Where a difference was above zero in one try and below it in another, rounding decides whether it is zero. An array
    holds for each part of an element (a complex number has two) whether it was seen above zero, and below.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[Instruction, int], Array] = {}
        self._executions: Counter[Instruction] = Counter()

    def begin(self) -> None:
        """A new try: executions of an instruction are counted from zero."""
        self._executions.clear()

    def may_be_equal(self, instruction: Instruction, operands: Sequence[Array]) -> Array:
        """Where the operands may be equal or not, and are not always equal. Notes the operands."""
        key = (instruction, self._executions[instruction])
        self._executions[instruction] += 1
        a, b = (_widened(o) for o in operands)
        parts = [a - b] if a.dtype.kind != "c" else [a.real - b.real, a.imag - b.imag]
        seen = np.stack([[d > 0, d < 0] for d in parts])
        before = self._seen.get(key)
        # Tries of which one left a loop earlier may have other shapes.
        if before is not None and before.shape == seen.shape:
            seen |= before
        self._seen[key] = seen
        crosses = np.all(seen, axis=1)
        is_zero = np.stack([d == 0 for d in parts])
        return np.asarray(np.all(crosses | is_zero, axis=0) & np.any(crosses, axis=0))


class _Perturbation(_Budget):
    """Moves results that were rounded, and draws which numbers are equal that may be."""

    def __init__(
        self,
        rng: np.random.Generator,
        amplitudes: dict[Instruction, float],
        steps: frozenset[Instruction],
        budget: tuple[int, int],
        ties: _Ties,
        exact_quotients: bool,
    ) -> None:
        super().__init__(*budget)
        self.rng, self.amplitudes, self.steps = rng, amplitudes, steps
        self.ties, self.exact_quotients = ties, exact_quotients

    def __call__(
        self, instruction: Instruction, operands: Sequence[Array], results: list[Array]
    ) -> list[Array]:
        super().__call__(instruction, operands, results)
        if instruction.opcode == "compare" and _is_inexact(operands[0]):
            return [self._drawn(instruction, operands, results[0])]
        if instruction.opcode == "power" and results[0].dtype.kind != "c":
            results = [self._of_whole_exponents(instruction, operands, results[0])]
        if instruction.opcode == "convolution" and _is_inexact(operands[1]):
            results = [self._without_padding(instruction, operands, results[0])]
        ulps = self.amplitudes.get(instruction)
        if ulps is None:
            return results
        with np.errstate(all="ignore"):
            if instruction.called:
                return [_kept_near(instruction, operands, results[0], ulps)]
            return [self._moved(instruction, operands, r, ulps) for r in results]

    def _drawn(self, instruction: Instruction, operands: Sequence[Array], result: Array) -> Array:
        if instruction.attributes["direction"] not in ("EQ", "NE"):
            return result
        with np.errstate(all="ignore"):
            free = self.ties.may_be_equal(instruction, operands)
        return np.where(free, self._coins(result.shape), result)

    def _of_whole_exponents(
        self, instruction: Instruction, operands: Sequence[Array], result: Array
    ) -> Array:
        """The powers ``result``, with some of the NaN replaced whose exponents rounding could make whole numbers."""
        base, exponent = operands
        if not _is_inexact(exponent):
            return result
        with np.errstate(all="ignore"):
            whole = np.rint(_widened(exponent))
            free = self.ties.may_be_equal(instruction, [exponent, whole])
            free &= np.isnan(result) & (np.abs(_widened(exponent) - whole) < _NEARLY_WHOLE)
        if not free.any():
            return result
        with evaluate.observed(None):
            (of_whole,) = evaluate.evaluate_instruction(
                instruction, [base, whole.astype(exponent.dtype)]
            )
        return np.where(free & self._coins(result.shape), of_whole, result)

    def _without_padding(
        self, instruction: Instruction, operands: Sequence[Array], result: Array
    ) -> Array:
        """A convolution where weights that are not finite may meet padding without a product of the two."""
        values, weights = operands
        finite = np.isfinite(_widened(weights))
        if finite.all():
            return result
        with evaluate.observed(None), np.errstate(all="ignore"):
            of_finite, of_others = (
                evaluate.evaluate_instruction(instruction, [x.astype(x.dtype), w.astype(w.dtype)])[
                    0
                ]
                for x, w in (
                    (values, np.where(finite, weights, weights.dtype.type(0))),
                    (np.ones_like(values), (~finite).astype(weights.dtype)),
                )
            )
        free = of_others == 0
        return np.where(free & self._coins(result.shape), of_finite, result).astype(result.dtype)

    def _coins(self, shape: tuple[int, ...]) -> Array:
        """Truth values: in a third of the cases all true, in a third all false. Code treats the elements of an array
        alike as a rule, which coins that are thrown one by one would hardly ever do.
        """
        sides = self.rng.integers(3)
        return self.rng.random(shape) < (0.0, 0.5, 1.0)[sides]

    def _moved(
        self, instruction: Instruction, operands: Sequence[Array], result: Array, ulps: float
    ) -> Array:
        dtype = dtypes.from_numpy(result.dtype)
        if not (dtype.is_float or dtype.is_complex) or not result.size:
            return result
        size: Array = np.abs(result)
        eps = float(ml_dtypes.finfo(dtype.component.numpy).eps)
        unit = ulps * eps
        if OPS[instruction.opcode].error == SUMMED:
            # Infinite terms, that a convolution has left out, move nothing.
            sizes = _sum_of_sizes(instruction, operands, result)
            sizes = np.where(np.isfinite(sizes), sizes, 0)
            if instruction.opcode in ("dot", "convolution") and dtype.is_float and dtype.bits <= 16:
                # Summed in f32 and rounded once.
                size = size + sizes * (ulps * _EPS_OF_WIDER_SUMS / eps)
                unit = eps
            else:
                size = np.maximum(size, sizes)
        # A step of a sum: in another order its terms meet others, and what is exact here is rounded.
        is_step = instruction.opcode == "add" and instruction in self.steps
        if is_step:
            size = np.maximum(size, np.maximum(*map(np.abs, operands)))
        shape = result.shape
        if dtype.is_complex:
            if instruction.opcode == "multiply" and not np.isfinite(result).all():
                with np.errstate(all="ignore"):
                    other = _of_one_part(*operands)
                result = np.where(self._coins(shape), other, result)
            noise = self.rng.uniform(-1, 1, shape) + 1j * self.rng.uniform(-1, 1, shape)
            size = np.where(np.isfinite(size), size, 0.0)  # an infinity stays, and a NaN
            return np.asarray(result + size * noise * unit).astype(result.dtype)
        wide = np.float64 if dtype.bits < 64 else np.longdouble
        distance = np.multiply(size.astype(wide), self.rng.uniform(-1, 1, shape) * unit)
        moved = result.astype(wide) + distance
        exact = _exact(instruction, operands, result)
        if instruction.opcode == "divide" and not self.exact_quotients:
            exact &= _is_power_of_two(operands[1])
        if is_step:
            exact &= np.logical_and(*[np.rint(o) == o for o in operands])
        moved = np.where(exact, result.astype(wide), moved)
        # An infinity stays, and a NaN but for its sign.
        signs = np.where(self._coins(shape), -1.0, 1.0).astype(wide)
        rest = np.where(np.isnan(result), np.copysign(wide(np.nan), signs), result.astype(wide))
        if dtype.bits <= 16:
            beyond = _is_beyond(instruction, operands, result) & self._coins(shape)
            large = np.copysign(wide(ml_dtypes.finfo(result.dtype).max), rest)
            rest = np.where(beyond, large, rest)
        return np.where(np.isfinite(result), moved, rest).astype(result.dtype)


def _sum_of_sizes(instruction: Instruction, operands: Sequence[Array], result: Array) -> Array:
    """The sum of the absolute values of a sum's terms."""
    if instruction.opcode in ("dot", "convolution"):
        sizes = [
            np.abs(o.astype(np.complex128 if o.dtype.kind == "c" else np.float64)) for o in operands
        ]
        with evaluate.observed(None):
            return np.abs(evaluate.evaluate_instruction(instruction, sizes)[0])
    # A transform or a solution: as large as the largest element of its row or matrix.
    axes = (-2, -1)[-min(2, result.ndim) :]
    if instruction.opcode.startswith("batch-norm"):
        axes = tuple(range(result.ndim))
    return np.broadcast_to(np.max(np.abs(result), axis=axes, keepdims=True), result.shape)


def _exact(instruction: Instruction, operands: Sequence[Array], result: Array) -> Array:
    """Where a result is what exact arithmetic gives."""
    opcode = instruction.opcode
    wide: Any = np.longdouble if result.dtype == np.float64 else np.float64
    given = [np.asarray(o).astype(wide) for o in operands if o.dtype.kind != "c"]
    exact: Array | None = None
    if len(given) < len(operands):
        return np.zeros(result.shape, np.bool_)
    if opcode == "add":
        exact = given[0] + given[1]
    elif opcode == "subtract":
        exact = given[0] - given[1]
    elif opcode == "multiply":
        exact = given[0] * given[1]
    elif opcode == "divide":
        quotient = given[0] / given[1]
        exact = np.where(quotient * given[1] == given[0], quotient, np.nan)
    elif opcode == "sqrt":
        root = np.sqrt(given[0])
        exact = np.where(root * root == given[0], root, np.nan)
    elif opcode in ("convert", "reduce-precision"):
        exact = given[0]
    elif opcode == "dot" and all(np.all(g == np.rint(g)) for g in given):
        exact = _sum_of_sizes(instruction, operands, result)
        exact = np.where(exact * 2 < 1 / float(ml_dtypes.finfo(result.dtype).eps), result, np.nan)
    if exact is None:
        return np.zeros(result.shape, np.bool_)
    return np.asarray(np.broadcast_to(exact, result.shape) == result.astype(wide))


def _is_beyond(instruction: Instruction, operands: Sequence[Array], result: Array) -> Array:
    """Where a result is infinite for its narrow type alone: a kernel may keep it in f32, where it is a number."""
    infinite = np.isinf(result)
    op = OPS[instruction.opcode]
    if not infinite.any() or not op.elementwise or isinstance(op.evaluate, Absent):
        return np.zeros(result.shape, np.bool_)
    wide = [o.astype(np.float32) if _is_inexact(o) else o for o in operands]
    with np.errstate(all="ignore"):
        kept = wide[0] if instruction.opcode == "convert" else op.evaluate(instruction, *wide)
    return np.asarray(infinite & np.isfinite(np.asarray(kept, np.float64)))


def _of_one_part(a: Array, b: Array) -> Array:
    """The complex product a * b where one factor is real or imaginary, one of its parts being zero, and the other
    is not finite: what a program gives that multiplies by the part alone. Elsewhere a * b.
    """
    made = np.array(a * b)
    for x, y in ((a, b), (b, a)):
        x, y = np.broadcast_arrays(x, y)
        special = ~np.isfinite(x)
        is_real, is_imaginary = (y.imag == 0) & (y.real != 0), (y.real == 0) & (y.imag != 0)
        for where, real, imaginary in (
            (special & is_real, x.real * y.real, x.imag * y.real),
            (special & is_imaginary, -(x.imag * y.imag), x.real * y.imag),
        ):
            made.real[where], made.imag[where] = real[where], imaginary[where]
    return made


def _is_power_of_two(a: Array) -> Array:
    """Where the reciprocal of a number is exact."""
    return np.asarray(np.abs(np.frexp(_widened(a))[0]) == 0.5)


def _is_sum(i: Instruction) -> bool:
    """Whether an instruction adds up array elements, and does nothing else."""
    return (
        i.opcode in ("reduce", "reduce-window")
        and isinstance(i.shape, Shape)
        and i.dtype.is_float
        and len(i.operands) == 2
        and binary_body(i.called[0]) == "add"
    )


def _kept_near(i: Instruction, operands: Sequence[Array], moved: Array, roundings: float) -> Array:
    """The sum ``moved``, no farther from that of ``operands`` than ``roundings`` of the sum of their sizes are.

    The distance is multiplied by :data:`SAFETY` at the end. One unit in the last place is always allowed: less would be
    lost in a narrow type.
    """
    with evaluate.observed(None):
        (plain,) = evaluate.evaluate_instruction(i, operands)
        (sizes,) = evaluate.evaluate_instruction(i, [np.abs(o) for o in operands])
    wide = np.float64 if i.dtype.bits < 64 else np.longdouble
    eps = float(ml_dtypes.finfo(i.dtype.numpy).eps)
    plain = plain.astype(wide)
    bound = np.multiply(sizes.astype(wide), roundings * eps / SAFETY)
    most = np.maximum(bound, eps * np.abs(plain))
    near = np.clip(moved.astype(wide), plain - most, plain + most)
    return np.where(np.isfinite(near), near, moved.astype(wide)).astype(moved.dtype)


def _amplitudes(module: Module) -> tuple[dict[Instruction, float], frozenset[Instruction]]:
    """For each instruction that rounds, by how many units in the last place, and for each sum (:func:`_is_sum`) by how
    many roundings of the sum of its terms' sizes it may be off; and the steps of reductions.
    """
    found: dict[Instruction, float] = {}
    steps: set[Instruction] = set()

    def visit(computation: Computation, growth: float, is_step: bool) -> None:
        for i in computation.instructions:
            count = _terms(i)
            # The terms that meet in the evaluation one after the other: reductions are made in pairs (an initial value
            # comes in last), updates and products one by one.
            folded = i.opcode in ("reduce", "reduce-window")
            depth = math.ceil(math.log2(count)) + 1 if folded else count
            for called in i.called:
                visit(called, max(growth, math.sqrt(count / depth)), is_step or count > 1)
            if _is_sum(i):
                found[i] = count
                if i.dtype.bits <= 16:
                    eps = float(ml_dtypes.finfo(i.dtype.numpy).eps)
                    found[i] = min(count, depth + count * _EPS_OF_WIDER_SUMS / eps)
            error = OPS[i.opcode].error
            if error is None:
                continue
            if error == ROUNDED:
                is_narrow = isinstance(i.shape, Shape) and i.dtype.is_float and i.dtype.bits <= 16
                ulps = 1.0 if is_narrow else growth
                if is_step:
                    steps.add(i)
            elif error == SUMMED:
                ulps = 2 * math.sqrt(count)
            else:
                ulps = float(error)
            found[i] = max(ulps, found.get(i, 0.0))

    visit(module.entry, 1.0, False)
    return found, frozenset(steps)


def _terms(i: Instruction) -> float:
    """How many terms a sum has: added one after another, its error grows with the root of their number."""
    if i.opcode == "reduce":
        return float(max(1, math.prod(i.operands[0].dims[d] for d in i.attributes["dimensions"])))
    if i.opcode in ("reduce-window", "select-and-scatter"):
        return float(max(1, math.prod(w.size for w in i.attributes["window"])))
    if i.opcode == "scatter":
        return float(max(1, math.prod(i.operands[-1].dims)))
    if i.opcode == "dot":
        d = i.attributes["dimension_numbers"]
        return float(max(1, math.prod(i.operands[0].dims[n] for n in d.lhs_contracting)))
    if i.opcode == "convolution":
        return float(max(1, math.prod(i.operands[1].dims)))
    if i.opcode.startswith("batch-norm"):
        return float(max(1, math.prod(i.operands[0].dims)))
    if i.opcode in ("fft", "cholesky", "triangular-solve"):
        return float(max(1, i.operands[0].dims[-1])) ** 2
    return 1.0


class Expectation:
    """What a module gives on some arguments, and for each element how far another program that means the same may be
    off.

    ``budget``: the most instructions and elements of one evaluation. ``exact_quotients``: whether quotients are
    rounded once; otherwise they may be products with the rounded reciprocal of the divisor. Raises CompileError
    (UNIMPLEMENTED) for operations that have no reference evaluation, and :class:`TooLongError`.
    """

    def __init__(
        self,
        module: Module,
        arguments: Sequence[Array],
        seed: int = 0,
        budget: tuple[int, int] = (200_000, 300_000_000),
        *,
        exact_quotients: bool = True,
    ) -> None:
        self._module, self._arguments, self._seed, self._budget = module, arguments, seed, budget
        self._exact_quotients, self._ties = exact_quotients, _Ties()
        self.results = evaluate_within(module, arguments, budget)
        # The largest distance of as many evaluations as were made.
        self._distances = [np.zeros(r.shape) for r in self.results]
        self._tries = 0

    def differences(self, results: Sequence[Array]) -> list[str]:
        """A line for each result that is off.

        Tries are made as they are needed: none for results that are as good as equal, and more than :data:`TRIES` where
        some element may hang on a rounding that none of these moved.
        """
        wrong = self._differences(results)
        for tries in (TRIES, TRIES_TO_CONFIRM):
            if wrong:
                self._try(tries)
                wrong = self._differences(results)
        return wrong

    def tolerances(self) -> list[Array]:
        """For each element, how far off it may be: infinite where it may be anything, 0 or infinite for integers."""
        self._try(TRIES)
        return [_tolerance(d, r) for d, r in zip(self._distances, self.results, strict=True)]

    def _try(self, tries: int) -> None:
        amplitudes, steps = _amplitudes(self._module)
        while amplitudes and self._tries < tries:
            rng = np.random.default_rng((self._seed, self._tries))
            self._ties.begin()
            perturbation = _Perturbation(
                rng, amplitudes, steps, self._budget, self._ties, self._exact_quotients
            )
            with evaluate.observed(perturbation):
                moved = evaluate.evaluate(self._module, self._arguments)
            self._distances = [
                np.maximum(d, _distance(a, b))
                for d, a, b in zip(self._distances, moved, self.results, strict=True)
            ]
            self._tries += 1

    def _differences(self, results: Sequence[Array]) -> list[str]:
        lines = []
        for n, (actual, expected, distance) in enumerate(
            zip(results, self.results, self._distances, strict=True)
        ):
            if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
                lines.append(
                    f"result {n}: {actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
                )
                continue
            tolerance = _tolerance(distance, expected)
            wrong = ~(_distance(actual, expected) <= tolerance)
            if wrong.any():
                at = tuple(int(k) for k in np.argwhere(wrong)[0])
                lines.append(
                    f"result {n}: {int(wrong.sum())} of {wrong.size} elements, at {at} {actual[at]!r} instead of"
                    f" {expected[at]!r} (tolerance {float(tolerance[at]):.3g})"
                )
        return lines


def evaluate_within(
    module: Module, arguments: Sequence[Array], budget: tuple[int, int] = (400_000, 600_000_000)
) -> list[Array]:
    """The results of ``module``. Raises :class:`TooLongError` if that takes more than ``budget``."""
    with evaluate.observed(_Budget(*budget)):
        return evaluate.evaluate(module, arguments)


def _is_inexact(array: Array) -> bool:
    dtype = dtypes.from_numpy(array.dtype)
    return dtype.is_float or dtype.is_complex


def _widened(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _same(a: Array, b: Array) -> Array:
    """Where two arrays hold the same: NaN is NaN, and 0 is -0."""
    if not _is_inexact(a):
        return np.asarray(a == b)
    a, b = _widened(a), _widened(b)
    if a.dtype.kind == "c":
        return _same(a.real, b.real) & _same(a.imag, b.imag)
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def _distance(a: Array, b: Array) -> Array:
    """How far elements are from each other; infinite for integers that differ, and where only one is finite."""
    same = _same(a, b)
    if not _is_inexact(a):
        return np.where(same, 0.0, np.inf)
    with np.errstate(all="ignore"):
        far = np.abs(_widened(a) - _widened(b))
    return np.where(same, 0.0, np.where(np.isnan(far), np.inf, far))


def _tolerance(distance: Array, result: Array) -> Array:
    if not _is_inexact(result):
        return np.asarray(distance)
    info = ml_dtypes.finfo(dtypes.from_numpy(result.dtype).component.numpy)
    size = np.abs(_widened(result))
    last_places = ULPS * float(info.eps) * np.where(np.isfinite(size), size, 0.0)
    # Numbers below the smallest normal one may be rounded to zero on the way.
    least = ULPS * float(info.smallest_normal)
    return np.asarray(SAFETY * distance + last_places + least)


def random_arguments(shapes: Iterable[object], seed: int, special: bool = False) -> list[Array]:
    """Arrays for parameters of these shapes: numbers of the size of one, small integers, and coin flips.

    ``special``: with zeros of both signs, infinities, NaN and the ends of integers' ranges among the elements.
    """
    rng = np.random.default_rng(seed)
    arrays = []
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise CompileError("UNIMPLEMENTED", f"no random arguments of shape {shape}")
        arrays.append(_random_array(shape.dtype, shape.dims, rng, special))
    return arrays


def _random_array(
    dtype: DType, dims: tuple[int, ...], rng: np.random.Generator, special: bool
) -> Array:
    if dtype.kind == "pred":
        return np.asarray(rng.random(dims) < 0.5)
    special = special and bool(dims)
    if dtype.is_integer:
        info = ml_dtypes.iinfo(dtype.numpy)
        low, high = max(-3, int(info.min)), min(9, int(info.max))
        values = np.asarray(rng.integers(low, high + 1, dims)).astype(object)
        ends: list[Any] = [int(info.min), int(info.max)]
    else:
        values = np.asarray(rng.standard_normal(dims) * np.exp2(rng.integers(-2, 3, dims)))
        if dtype.is_complex:
            values = values + 1j * np.asarray(rng.standard_normal(dims))
        if dtype.name == "f8e8m0fnu":
            values = np.abs(values)
        ends = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]
    values = np.asarray(values)
    if special:
        for end in ends:
            values[rng.random(dims) < 0.05] = end
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


__all__ = [
    "SAFETY",
    "ULPS",
    "Expectation",
    "TooLongError",
    "evaluate_within",
    "random_arguments",
]
