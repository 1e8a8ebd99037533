"""A program, its arguments, and the ways in which it is compiled, run and judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.reference import evaluate, stochastic

from tests.conformance import device, reference, reference_of_partitions
from tests.conformance.random_programs import (  # noqa: F401  (they enter their operations)
    arithmetic,
    collective,
    contraction,
    control,
    dynamic,
    in_place,
    indexing,
    inexact,
    movement,
    reduction,
)
from tests.conformance.random_programs.builder import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    OPERATIONS,
    Builder,
    Entry,
    Operation,
    bound,
)
from tests.conformance.values import generator, ordinary, scattered

# Modules may be imported in any order: a seed is one program all the same.
OPERATIONS.sort(key=lambda o: (o.__module__, o.__name__))

_SHAPES = [
    (3, 5),
    (17,),
    (2, 3, 4),
    (1, 9),
    (0, 3),
    (33,),
    (),
    (4, 1, 3),
    (8, 16),
    (70,),
    (2, 1, 2, 1, 3, 1, 2),
    (2, 0, 4),
]
_LARGE_SHAPES = [(64, 96), (33, 129), (5, 7, 65), (1000,), (128, 128), (3, 1025), (16384,), (300, 40), (2, 16, 16, 8), (9, 1, 700)]  # fmt: skip
_LARGE = 50
# Lengths around those of vectors, unrolled loops, blocks and rows.
_EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 47, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257, 511, 513, 1025, 2047, 4097)  # fmt: skip
_MOST_AT_EDGES = 4200
WIDE_FLOATS = (dtypes.F32, dtypes.F64)


@dataclass
class Program:
    """StableHLO text and what it takes; ``judged``: the text that the interpreter takes, empty if it is too slow."""

    text: str
    parameters: list[Entry]
    judged: str = ""
    exact: bool = True

    def arguments(self, device: int = 0) -> list[np.ndarray]:
        """Others on every device."""
        return [_argument(p, p.name + "'" * device, self.exact) for p in self.parameters]


def _argument(p: Entry, seed: str, exact: bool = True) -> np.ndarray:
    if not exact and (p.dtype.is_float or p.dtype.is_complex):
        return ordinary(p.dtype, p.dims, seed)
    if not p.dtype.is_float and not p.dtype.is_complex:
        return scattered(p.dtype, p.size, seed).reshape(p.dims)
    rng = generator(seed)
    limit = bound(p.dtype)
    values = rng.integers(-limit, limit + 1, p.size).astype(np.float64)
    if p.dtype.is_complex:
        values = values + 1j * rng.integers(-limit, limit + 1, p.size)
    elif p.dtype.bits > 8:
        values[rng.random(p.size) < 0.1] = -0.0
        for special in (np.inf, -np.inf, np.nan):
            values[rng.random(p.size) < 0.02] = special
    return values.astype(p.dtype.numpy).reshape(p.dims)


def program(
    chances: Random,
    length: int = 25,
    operations: Sequence[Operation] = OPERATIONS,
    large: bool = False,
    together: bool = False,
    exact: bool = True,
    dims: tuple[int, ...] | None = None,
) -> Program:
    """A program of at most ``length`` operations (and more in its regions) over some of the dtypes.

    ``large``: with arrays of thousands of elements, which run on several threads and in libraries. Their results are
    compared with NumPy's, which those of small ones show to be right. ``together``: for two devices, which exchange
    arrays. ``exact``: floats are small whole numbers; else they are any, and functions are among the operations
    (:mod:`.inexact`), so that results are right within a tolerance. ``dims``: the parameters' dimensions, which else are
    drawn.
    """
    families = [ALL, INTEGERS, FLOATS, (*FLOATS, *INTEGERS)]
    if not exact:
        families = [FLOATS, WIDE_FLOATS, (*WIDE_FLOATS, *COMPLEX), (*FLOATS, *INTEGERS)]
        operations = (*operations, *inexact.INEXACT)
    family = chances.choice(families)
    types = chances.sample(family, min(len(family), chances.randint(1, 4)))
    builder = Builder(chances, types, operations, _LARGE if large else 1, exact)
    parameters = []
    if dims is None:
        dims = builder.choose(_LARGE_SHAPES if large else _SHAPES)
    for n in range(builder.integer(1, 3)):
        entry = Entry(f"%p{n}", builder.choose(types), dims)
        parameters.append(entry)
        builder.values.append(entry)
    if together:
        collective.grow(builder, builder.integer(2, length))
    else:
        builder.grow(builder.integer(2, length))
    results = [builder.any() for _ in range(builder.integer(1, 4))]
    aliased: dict[int, int] = {}
    for n, p in enumerate(parameters):
        for m, r in enumerate(results):
            if p.type == r.type and m not in aliased.values() and builder.chance():
                aliased.setdefault(n, m)
    signature = ", ".join(
        f"{p.name}: {p.type}"
        + (f" {{tf.aliasing_output = {aliased[n]} : i32}}" if n in aliased else "")
        for n, p in enumerate(parameters)
    )
    types_ = ", ".join(r.type for r in results)
    body = "\n".join(builder.lines)
    names = ", ".join(r.name for r in results)
    functions = "".join(f + "\n" for f in builder.functions)
    text = f"{functions}func.func @main({signature}) -> ({types_}) {{\n{body}\nreturn {names} : {types_}\n}}\n"
    if large or not exact:
        return Program(text, parameters, exact=exact)
    judged = text
    for line, plain in builder.replacements:
        judged = judged.replace(line, plain)
    return Program(text, parameters, judged)


def dims_at_edges(chances: Random) -> tuple[int, ...]:
    """Up to three dimensions that are whole vectors and blocks of a kernel, or nearly."""
    dims: list[int] = []
    for _ in range(chances.randint(1, 3)):
        room = _MOST_AT_EDGES // math.prod(dims)
        dims.append(chances.choice([d for d in _EDGES if d <= room]))
    chances.shuffle(dims)
    return tuple(dims)


def differences(program: Program, as_hlo: bool = False) -> list[str]:
    """Where results are wrong: a line for each way and result; none if all is well."""
    text, arguments = program.text, program.arguments()
    executable = device.compile_program(text)
    module = read_program(text.encode(), "mlir")
    found = {"compiled": device.run(executable, arguments)}
    if as_hlo:
        found["as HLO"] = device.run(device.compile_program(device.as_hlo(text)), arguments)
    if not program.exact:
        expectation = stochastic.Expectation(module, arguments)
        return [
            f"{way}, {line}"
            for way, results in found.items()
            for line in expectation.differences(results)
        ]
    evaluated = evaluate.evaluate(module, arguments)
    expected = evaluated
    if program.judged:
        shapes = [v.shape for v in executable.results]
        expected = reference.interpret(program.judged, arguments, shapes)
        found["as it is read"] = evaluated
    return [
        f"{way}, {line}" for way, results in found.items() for line in unequal(results, expected)
    ]


def unequal(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> list[str]:
    """A line for each result that is not as expected, bit for bit."""
    return [
        f"result {n}: {a!r} instead of {e!r}"
        for n, (a, e) in enumerate(zip(results, expected, strict=True))
        if _bits(a) != _bits(e)
    ]


Run = Callable[[str, list[list[np.ndarray]]], list[list[np.ndarray]]]


def differences_together(program: Program, run: Run) -> list[str]:
    """Where results of two devices are wrong. ``run``: gives each device's results for each device's arguments."""
    arguments = [program.arguments(n) for n in range(2)]
    found = run(program.text, arguments)
    shapes = [Shape(dtypes.from_numpy(a.dtype), a.shape) for results in found for a in results]
    expected = reference_of_partitions.interpret(program.judged, arguments, shapes)
    lines = []
    for n, (a, e) in enumerate(zip([a for each in found for a in each], expected, strict=True)):
        if _bits(a) != _bits(e):
            device, result = divmod(n, len(found[0]))
            lines.append(f"device {device}, result {result}: {a!r} instead of {e!r}")
    return lines


def _bits(array: np.ndarray) -> bytes:
    """What two equal results have in common: all bits but those of NaN."""
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.is_complex:
        array = np.stack([array.real, array.imag], -1)
    if not dtype.is_float and not dtype.is_complex:  # the rest of a byte says nothing
        return array.astype(np.uint64 if dtype is dtypes.U64 else np.int64).tobytes()
    nan = np.isnan(array.astype(np.float64))
    return nan.tobytes() + np.where(nan, np.zeros_like(array), array).tobytes()
