"""The text of a function, growing one operation at a time over values of every dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final, NamedTuple

from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance.programs import combine, dense, tensor

INTEGERS: Final = (
    dtypes.S8,
    dtypes.U8,
    dtypes.S16,
    dtypes.U16,
    dtypes.S32,
    dtypes.U32,
    dtypes.S64,
    dtypes.U64,
    dtypes.S4,
    dtypes.U4,
    dtypes.S2,
    dtypes.U2,
)
# Floats with infinities and NaN, whose whole numbers up to 8 are exact.
FLOATS: Final = (dtypes.F32, dtypes.F64, dtypes.F16, dtypes.BF16)
SMALL_FLOATS: Final = (
    dtypes.F8E4M3FN,
    dtypes.F8E5M2,
    dtypes.F8E4M3,
    dtypes.F8E3M4,
    dtypes.F8E4M3B11FNUZ,
    dtypes.F8E4M3FNUZ,
    dtypes.F8E5M2FNUZ,
    dtypes.F4E2M1FN,
)
COMPLEX: Final = (dtypes.C64, dtypes.C128)
ALL: Final = (dtypes.PRED, *INTEGERS, *FLOATS, *SMALL_FLOATS, *COMPLEX)

# The most elements that a value has, that an operation takes which looks at each several times, and the most of these
# looks; times :attr:`Builder.scale`. The interpreter takes elements one by one.
_MOST: Final = 400
_FEW: Final = 200
_LOOKS: Final = 3000


class Entry(NamedTuple):
    """A value of the program."""

    name: str
    dtype: DType
    dims: tuple[int, ...]

    @property
    def type(self) -> str:
        return tensor(self.dtype, *self.dims)

    @property
    def size(self) -> int:
        return math.prod(self.dims)


Operation = Callable[["Builder"], None]
OPERATIONS: Final[list[Operation]] = []


def operation(times: int = 1) -> Callable[[Operation], Operation]:
    """Enter a function that adds an operation to a program (or gives up) among those drawn from, ``times`` times."""

    def enter(function: Operation) -> Operation:
        OPERATIONS.extend([function] * times)
        return function

    return enter


def bound(dtype: DType) -> int:
    """The size of the numbers that a float or complex dtype is kept to."""
    return 3 if dtype.bits <= 8 else 8


class Builder:
    """A function's text, chosen by ``chances``. ``values``: what operations may take; ``functions``: others that it calls.

    ``replacements``: lines that say the same, for the interpreter. ``exact``: whether floats are kept to small whole
    numbers, so that there is one right answer.
    """

    def __init__(
        self,
        chances: Random,
        types: Sequence[DType],
        operations: Sequence[Operation] = OPERATIONS,
        scale: int = 1,
        exact: bool = True,
    ) -> None:
        self.exact = exact
        self._chances = chances
        self._operations = operations
        self.scale = scale
        self.types = tuple(types)
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.replacements: list[tuple[str, str]] = []
        self.values: list[Entry] = []
        self.count = 0
        self.depth = 0

    # ---------------------------------------------------------------------------------------------- chance

    def choose(self, options: Iterable[Any]) -> Any:
        return self._chances.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        return self._chances.randint(low, max(low, high))

    def chance(self) -> bool:
        return self.integer(0, 1) == 1

    def fits(self, size: int) -> bool:
        """Whether a value may have so many elements."""
        return size <= _MOST * self.scale

    def is_small(self, size: int) -> bool:
        """Whether an operation may look at each of so many elements several times."""
        return size <= _FEW * self.scale

    def is_quick(self, looks: int) -> bool:
        """Whether an operation may look at elements so many times."""
        return looks <= _LOOKS * self.scale

    def some(self, options: Iterable[Any]) -> list[Any]:
        return [o for o in options if self.chance()]

    def shuffled(self, options: Iterable[Any]) -> list[Any]:
        shuffled = list(options)
        self._chances.shuffle(shuffled)
        return shuffled

    # ------------------------------------------------------------------------------------------------ text

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str, dtype: DType, dims: Iterable[int], keep: bool = False) -> Entry:
        """Add an operation with one result; ``keep``: others may take it."""
        entry = Entry(self.fresh(), dtype, tuple(dims))
        self.lines.append(f"{entry.name} = {text}")
        if keep:
            self.values.append(entry)
        return entry

    def keep(self, entry: Entry) -> Entry:
        """Let other operations take a value, floats once they are tame."""
        entry = self.tame(entry)
        self.values.append(entry)
        return entry

    def constant(self, dtype: DType, value: float) -> Entry:
        text = f"{int(value)}"
        if dtype.is_float:
            text = f"{value!r}" if value % 1 else f"{value:.1f}"
        elif dtype.is_complex:
            text = f"({value:.1f}, 0.0)"
        elif dtype.kind == "pred":
            text = "true" if value else "false"
        return self.emit(f"stablehlo.constant dense<{text}> : {tensor(dtype)}", dtype, ())

    def full(self, dtype: DType, dims: Iterable[int], value: float) -> Entry:
        """A constant broadcast to ``dims``."""
        dims = tuple(dims)
        one = self.constant(dtype, value)
        target = tensor(dtype, *dims)
        return self.emit(
            f"stablehlo.broadcast_in_dim {one.name}, dims = [] : ({one.type}) -> {target}",
            dtype,
            dims,
        )

    def unary(self, op: str, a: Entry, dtype: DType | None = None) -> Entry:
        """``op`` of one operand, of the operand's dtype or another."""
        if dtype is None:
            return self.emit(f"stablehlo.{op} {a.name} : {a.type}", a.dtype, a.dims)
        target = tensor(dtype, *a.dims)
        return self.emit(f"stablehlo.{op} {a.name} : ({a.type}) -> {target}", dtype, a.dims)

    def binary(self, op: str, a: Entry, b: Entry) -> Entry:
        return self.emit(f"stablehlo.{op} {a.name}, {b.name} : {a.type}", a.dtype, a.dims)

    def compare(self, direction: str, a: Entry, b: Entry) -> Entry:
        mask = tensor(dtypes.PRED, *a.dims)
        return self.emit(
            f"stablehlo.compare {direction}, {a.name}, {b.name} : ({a.type}, {b.type}) -> {mask}",
            dtypes.PRED,
            a.dims,
        )

    def select(self, mask: Entry, a: Entry, b: Entry) -> Entry:
        return self.emit(
            f"stablehlo.select {mask.name}, {a.name}, {b.name} : {mask.type}, {a.type}",
            a.dtype,
            a.dims,
        )

    def reshape(self, a: Entry, dims: Iterable[int]) -> Entry:
        dims = tuple(dims)
        target = tensor(a.dtype, *dims)
        return self.emit(f"stablehlo.reshape {a.name} : ({a.type}) -> {target}", a.dtype, dims)

    def reduce(self, op: str, a: Entry, over: Sequence[int], initial: float) -> Entry:
        first = self.constant(a.dtype, initial)
        dims = [d for n, d in enumerate(a.dims) if n not in over]
        return self.emit(
            f'"stablehlo.reduce"({a.name}, {first.name}) <{{dimensions = {dense(over)}}}> ({combine(op, a.dtype)})'
            f" : ({a.type}, {first.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )

    # ---------------------------------------------------------------------------------------------- values

    def pick(self, wanted: Callable[[Entry], bool] = lambda _: True) -> Entry | None:
        """A value that fits, rather one of the last; None if there is none."""
        fitting = [v for v in self.values if wanted(v)]
        return fitting[-1 - self.integer(0, min(5, len(fitting) - 1))] if fitting else None

    def any(self) -> Entry:
        """A value, rather one of the last."""
        return self.values[-1 - self.integer(0, min(5, len(self.values) - 1))]

    def like(self, entry: Entry) -> Entry:
        """Another value of the same dtype and dimensions, made from one if there is none."""
        same = [v for v in self.values if v.dtype is entry.dtype and v.dims == entry.dims]
        if len(same) > 1:
            return self.choose(same)
        return self.fit(self.choose(self.values), entry.dtype, entry.dims)

    def fit(self, a: Entry, dtype: DType, dims: Iterable[int]) -> Entry:
        """The elements of ``a`` as an array of any dtype and dimensions, cut off or filled up with ones."""
        dims = tuple(dims)
        if a.dims != dims:
            a = self.reshape(a, (a.size,))
            count = math.prod(dims)
            if a.size != count:
                value = self.constant(a.dtype, 1)
                target = tensor(a.dtype, count)
                a = self.emit(
                    f"stablehlo.pad {a.name}, {value.name}, low = [0], high = [{count - a.size}],"
                    f" interior = [0] : ({a.type}, {value.type}) -> {target}",
                    a.dtype,
                    (count,),
                )
            a = self.reshape(a, dims)
        return self.convert(a, dtype)

    def tame(self, a: Entry) -> Entry:
        """Floats brought back to small whole numbers; everything else as it is. NaN and infinities may stay."""
        if a.dtype.is_complex:
            parts = [self.tame(self.unary(op, a, a.dtype.component)) for op in ("real", "imag")]
            return self.emit(
                f"stablehlo.complex {parts[0].name}, {parts[1].name} : {a.type}", a.dtype, a.dims
            )
        if not a.dtype.is_float:
            return a
        limit = bound(a.dtype)
        if not self.exact and self.chance():
            return a
        if a.dtype.bits > 8 and self.exact and self.chance():
            return self.binary("remainder", a, self.full(a.dtype, a.dims, limit))
        low, high = self.constant(a.dtype, -limit), self.constant(a.dtype, limit)
        kinds = f"({low.type}, {a.type}, {high.type}) -> {a.type}"
        return self.emit(
            f"stablehlo.clamp {low.name}, {a.name}, {high.name} : {kinds}", a.dtype, a.dims
        )

    def convert(self, a: Entry, dtype: DType) -> Entry:
        """Between any two dtypes, without what the specification leaves open (NaN or a negative number as unsigned)."""
        if a.dtype is dtype:
            return a
        if a.dtype.is_complex and not dtype.is_complex and dtype.kind != "pred":
            a = self.unary("real", a, a.dtype.component)
        if a.dtype.is_float and (dtype.is_integer or (dtype.is_float and dtype.bits <= 8)):
            a = self._within(a, dtype)
        elif a.dtype.is_integer and (dtype.is_float or dtype.is_complex):
            few = self.full(a.dtype, a.dims, 1 if a.dtype.bits < 4 else 3)
            a = self.binary("and", a, few)
        if a.dtype is dtype:
            return a
        return self.unary("convert", a, dtype)

    def finite(self, a: Entry) -> Entry:
        """Floats with ones in the place of infinities and NaN, complex numbers' parts too; other dtypes as they are."""
        if a.dtype.is_complex:
            parts = [self.finite(self.unary(op, a, a.dtype.component)) for op in ("real", "imag")]
            return self.emit(
                f"stablehlo.complex {parts[0].name}, {parts[1].name} : {a.type}", a.dtype, a.dims
            )
        if not a.dtype.is_float or a.dtype.bits <= 8:
            return a
        return self.select(self.is_finite(a), a, self.full(a.dtype, a.dims, 1))

    def is_finite(self, a: Entry) -> Entry:
        mask = tensor(dtypes.PRED, *a.dims)
        return self.emit(
            f"stablehlo.is_finite {a.name} : ({a.type}) -> {mask}", dtypes.PRED, a.dims
        )

    def _within(self, a: Entry, dtype: DType) -> Entry:
        """Floats that every number of ``dtype`` can hold."""
        a = self.finite(a)
        high = 3 if dtype.is_float or dtype.bits > 2 else 1
        low = -high if dtype.is_float or dtype.is_signed else 0
        ends = [self.constant(a.dtype, v) for v in (low, high)]
        kinds = f"({ends[0].type}, {a.type}, {ends[1].type}) -> {a.type}"
        return self.emit(
            f"stablehlo.clamp {ends[0].name}, {a.name}, {ends[1].name} : {kinds}", a.dtype, a.dims
        )

    def index(self, limit: int = 15) -> Entry:
        """A scalar s32 in [0, limit] (limit: a power of two less 1) from some value, so that it is not known early."""
        a = self.any()
        if a.dtype.is_complex:
            a = self.unary("real", a, a.dtype.component)
        op = "xor" if a.dtype.is_integer else "maximum"
        total = self.reduce(op, a, range(len(a.dims)), 0) if a.dims else a
        wide = self.convert(total, dtypes.S32)
        return self.binary("and", wide, self.constant(dtypes.S32, limit))

    def reverse_twice(self, a: Entry) -> Entry:
        """A copy that the interpreter makes indeed."""
        every = list(range(len(a.dims)))
        for _ in range(2):
            text = f"stablehlo.reverse {a.name}, dims = {every} : {a.type}"
            a = self.emit(text, a.dtype, a.dims)
        return a

    def indices(self, dims: Iterable[int], limit: int, beyond: bool) -> Entry:
        """s32 numbers of given dimensions, spread over [0, limit); ``beyond``: some may be out of bounds."""
        dims = tuple(dims)
        count = math.prod(dims)
        flat = self.emit(f"stablehlo.iota dim = 0 : {tensor('s32', count)}", dtypes.S32, (count,))
        factor, shift = self.integer(1, 13), self.integer(0, 12)
        flat = self.binary("multiply", flat, self.full(dtypes.S32, (count,), factor))
        start = self.index()
        spread = self.emit(
            f"stablehlo.broadcast_in_dim {start.name}, dims = [] : ({start.type}) -> {flat.type}",
            dtypes.S32,
            (count,),
        )
        flat = self.binary("add", flat, spread)
        flat = self.binary("add", flat, self.full(dtypes.S32, (count,), shift))
        width = limit + (3 if beyond and self.chance() else 0)
        flat = self.binary("remainder", flat, self.full(dtypes.S32, (count,), max(width, 1)))
        if beyond and self.chance():
            flat = self.binary("subtract", flat, self.full(dtypes.S32, (count,), 1))
        return self.reshape(flat, dims)

    @contextmanager
    def region(self, *parameters: Entry, outer: bool = True) -> Iterator[list[str]]:
        """The lines of a region with these parameters; what is made inside is not seen outside."""
        lines, values = self.lines, self.values
        self.lines, self.values = [], [*(values if outer else ()), *parameters]
        self.depth += 1
        try:
            yield self.lines
        finally:
            self.lines, self.values = lines, values
            self.depth -= 1

    @contextmanager
    def drawing_from(self, operations: Sequence[Operation]) -> Iterator[None]:
        """Inside, operations are drawn from another list."""
        usual, self._operations = self._operations, operations
        try:
            yield
        finally:
            self._operations = usual

    def grow(self, count: int) -> None:
        """Add ``count`` operations (some give up)."""
        for _ in range(count):
            self.choose(self._operations)(self)
