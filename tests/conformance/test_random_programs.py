"""Random programs of integers, which have one right answer: the interpreter's, bit for bit.

Long chains over shared values with several results, so that fusions, buffers and loops meet in ways that nobody thought
of. The module as it is read is evaluated too, in NumPy: where that is right and the executable is wrong, it is the
passes or the code. (tests/core/compiler/test_fusion.py generates programs of floats, for the passes alone.)
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tripont.core.compiler import dtypes, evaluate
from tripont.core.compiler.dtypes import DType
from tripont.core.compiler.importer.program import read_program

from tests.conformance import device, reference
from tests.conformance.programs import combine, dense, tensor
from tests.conformance.values import scattered

_DTYPES = (
    dtypes.S8,
    dtypes.U8,
    dtypes.S16,
    dtypes.S32,
    dtypes.U32,
    dtypes.S64,
    dtypes.U64,
    dtypes.S4,
    dtypes.U2,
)
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor", "shift_left", "shift_right_logical",
           "shift_right_arithmetic")  # fmt: skip
_UNARY = ("negate", "not", "popcnt", "count_leading_zeros")
_FULL = os.environ.get("TRIPONT_CONFORMANCE") == "full"


class Entry(NamedTuple):
    """A value of the program."""

    name: str
    dtype: DType
    dims: tuple[int, ...]

    @property
    def type(self) -> str:
        return tensor(self.dtype, *self.dims)


class Builder:
    """A function's text, growing one operation at a time."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.values: list[Entry] = []
        self.count = 0

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str, dtype: DType, dims: tuple[int, ...], keep: bool = True) -> Entry:
        entry = Entry(self.fresh(), dtype, dims)
        self.lines.append(f"{entry.name} = {text}")
        if keep:
            self.values.append(entry)
        return entry

    def constant(self, dtype: DType, value: int) -> Entry:
        return self.emit(
            f"stablehlo.constant dense<{value}> : {tensor(dtype)}", dtype, (), keep=False
        )

    def pick(self) -> Entry:
        """A value, rather one of the last."""
        return self.values[-1 - self.draw(st.integers(0, min(5, len(self.values) - 1)))]

    def like(self, entry: Entry) -> Entry:
        """Another value of the same dtype and dimensions, made from one if there is none."""
        same = [v for v in self.values if v.dtype is entry.dtype and v.dims == entry.dims]
        if len(same) > 1 or not self.values:
            return self.choose(same)
        other = self.choose([v for v in self.values if v.dims == entry.dims])
        if other.dtype is entry.dtype:
            return other
        return self.convert(other, entry.dtype)

    def convert(self, value: Entry, dtype: DType) -> Entry:
        target = tensor(dtype, *value.dims)
        return self.emit(
            f"stablehlo.convert {value.name} : ({value.type}) -> {target}", dtype, value.dims
        )

    def small_indices(self, a: Entry, limit: int) -> Entry:
        """The elements of a vector as s32 numbers, some of them outside [0, limit), in a column."""
        wide = self.convert(a, dtypes.S32)
        mask = self.constant(dtypes.S32, 2 * limit + 3)
        masks = self.emit(
            f"stablehlo.broadcast_in_dim {mask.name}, dims = [] : ({mask.type}) -> {wide.type}",
            dtypes.S32,
            wide.dims,
            False,
        )
        few = self.emit(
            f"stablehlo.and {wide.name}, {masks.name} : {wide.type}", dtypes.S32, wide.dims, False
        )
        column = (*a.dims, 1)
        return self.emit(
            f"stablehlo.reshape {few.name} : ({few.type}) -> {tensor('s32', *column)}",
            dtypes.S32,
            column,
            False,
        )

    # ------------------------------------------------------------------------------------------- operations

    def binary(self) -> None:
        a = self.pick()
        b = self.like(a)
        self.emit(
            f"stablehlo.{self.choose(_BINARY)} {a.name}, {b.name} : {a.type}", a.dtype, a.dims
        )

    def unary(self) -> None:
        a = self.pick()
        self.emit(f"stablehlo.{self.choose(_UNARY)} {a.name} : {a.type}", a.dtype, a.dims)

    def change_type(self) -> None:
        self.convert(self.pick(), self.choose(_DTYPES))

    def select(self) -> None:
        a = self.pick()
        b, c = self.like(a), self.like(a)
        mask = tensor("pred", *a.dims)
        direction = self.choose(["LT", "EQ", "GE"])
        p = self.emit(
            f"stablehlo.compare {direction}, {a.name}, {b.name} : ({a.type}, {b.type}) -> {mask}",
            dtypes.PRED,
            a.dims,
            False,
        )
        self.emit(
            f"stablehlo.select {p.name}, {c.name}, {a.name} : {mask}, {a.type}", a.dtype, a.dims
        )

    def clamp(self) -> None:
        a = self.pick()
        low, high = self.like(a), self.like(a)
        self.emit(f"stablehlo.clamp {low.name}, {a.name}, {high.name} : {a.type}", a.dtype, a.dims)

    def divide(self) -> None:
        """By an odd number: the interpreter ends the process at zero."""
        a = self.pick()
        b = self.like(a)
        one = self.constant(a.dtype, 1)
        ones = self.emit(
            f"stablehlo.broadcast_in_dim {one.name}, dims = [] : ({one.type}) -> {a.type}",
            a.dtype,
            a.dims,
            False,
        )
        odd = self.emit(f"stablehlo.or {b.name}, {ones.name} : {a.type}", a.dtype, a.dims, False)
        if a.dtype.is_signed:  # nor the smallest number by -1
            odd = self.emit(
                f"stablehlo.maximum {odd.name}, {ones.name} : {a.type}", a.dtype, a.dims, False
            )
        op = self.choose(["divide", "remainder"])
        self.emit(f"stablehlo.{op} {a.name}, {odd.name} : {a.type}", a.dtype, a.dims)

    def iota(self) -> None:
        a = self.pick()
        if not a.dims or max(a.dims) > 2 ** (a.dtype.bits - a.dtype.is_signed):
            return
        d = self.draw(st.integers(0, len(a.dims) - 1))
        self.emit(f"stablehlo.iota dim = {d} : {a.type}", a.dtype, a.dims)

    def dot(self) -> None:
        """Two values over one dimension; the interpreter ends the process if one is empty."""
        a = self.pick()
        if not a.dims or 0 in a.dims or int(np.prod(a.dims)) > 200:
            return
        b = self.like(a)
        d = self.draw(st.integers(0, len(a.dims) - 1))
        batch = [n for n in range(len(a.dims)) if n != d and self.draw(st.booleans())]
        rest = [a.dims[n] for n in range(len(a.dims)) if n != d and n not in batch]
        dims = (*[a.dims[n] for n in batch], *rest, *rest)
        if int(np.prod(dims, dtype=int)) > 400 or len(dims) > 4:
            return
        batching = f"batching_dims = {batch} x {batch}, " if batch else ""
        self.emit(f"stablehlo.dot_general {a.name}, {b.name}, {batching}contracting_dims = [{d}] x [{d}]"
                  f" : ({a.type}, {b.type}) -> {tensor(a.dtype, *dims)}", a.dtype, dims)  # fmt: skip

    def gather(self) -> None:
        a = self.pick()
        if not a.dims or 0 in a.dims:
            return
        indices = [v for v in self.values if len(v.dims) == 1 and v.dims[0] <= 33]
        if not indices:
            return
        at = self.small_indices(self.choose(indices), a.dims[0])
        dims = (at.dims[0], *a.dims[1:])
        sizes = dense([1, *a.dims[1:]])
        self.emit(f'"stablehlo.gather"({a.name}, {at.name}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {list(range(1, len(dims)))},'
                  f" collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = {sizes}}}>"
                  f" : ({a.type}, {at.type}) -> {tensor(a.dtype, *dims)}", a.dtype, dims)  # fmt: skip

    def largest(self) -> None:
        """The largest element along a dimension and its place: a reduction of two operands."""
        a = self.pick()
        if not a.dims:
            return
        d = self.draw(st.integers(0, len(a.dims) - 1))
        numbers = (dtypes.S32, a.dims)
        place = self.emit(
            f"stablehlo.iota dim = {d} : {tensor('s32', *a.dims)}", *numbers, keep=False
        )
        low = 0 if not a.dtype.is_signed else -(2 ** (a.dtype.bits - 1))
        first, none = self.constant(a.dtype, low), self.constant(dtypes.S32, 2**31 - 1)
        s, i, p = tensor(a.dtype), tensor("s32"), tensor("pred")
        body = (f"{{\n^bb0(%a: {s}, %b: {i}, %c: {s}, %d: {i}):\n%g = stablehlo.compare GT, %a, %c : ({s}, {s}) -> {p}\n"
                f"%e = stablehlo.compare EQ, %a, %c : ({s}, {s}) -> {p}\n%l = stablehlo.compare LT, %b, %d : ({i}, {i}) -> {p}\n"
                f"%m = stablehlo.and %e, %l : {p}\n%w = stablehlo.or %g, %m : {p}\n%x = stablehlo.select %w, %a, %c : {p}, {s}\n"
                f"%y = stablehlo.select %w, %b, %d : {p}, {i}\nstablehlo.return %x, %y : {s}, {i}\n}}")  # fmt: skip
        dims = (*a.dims[:d], *a.dims[d + 1 :])
        kept, places = tensor(a.dtype, *dims), tensor("s32", *dims)
        name = self.fresh()
        self.lines.append(f'{name}:2 = "stablehlo.reduce"({a.name}, {place.name}, {first.name}, {none.name}) <{{dimensions = {dense([d])}}}> ({body})'
                          f" : ({a.type}, {place.type}, {s}, {i}) -> ({kept}, {places})")  # fmt: skip
        self.values += [Entry(f"{name}#0", a.dtype, dims), Entry(f"{name}#1", dtypes.S32, dims)]

    def cumulative(self) -> None:
        a = self.pick()
        if not a.dims or 0 in a.dims:
            return
        initial = self.constant(a.dtype, 0)
        window = (1,) * (len(a.dims) - 1) + (a.dims[-1],)
        pad = [[0, 0]] * (len(a.dims) - 1) + [[a.dims[-1] - 1, 0]]
        if self.draw(st.booleans()):
            pad[-1].reverse()
        self.emit(f'"stablehlo.reduce_window"({a.name}, {initial.name}) <{{window_dimensions = {dense(window)}, padding = dense<{pad}> :'
                  f" tensor<{len(a.dims)}x2xi64>}}> ({combine('add', a.dtype)}) : ({a.type}, {initial.type}) -> {a.type}", a.dtype, a.dims)  # fmt: skip

    def truth(self) -> None:
        """Comparisons combined as truth values, and made numbers again."""
        a = self.pick()
        b, c = self.like(a), self.like(a)
        mask = tensor("pred", *a.dims)
        flags = [
            self.emit(
                f"stablehlo.compare {self.choose(['LT', 'EQ', 'NE', 'GE'])}, {x.name}, {y.name} : ({a.type}, {a.type}) -> {mask}",
                dtypes.PRED,
                a.dims,
                False,
            )
            for x, y in ((a, b), (b, c))
        ]
        op = self.choose(["and", "or", "xor", "maximum", "minimum"])
        both = self.emit(
            f"stablehlo.{op} {flags[0].name}, {flags[1].name} : {mask}", dtypes.PRED, a.dims, False
        )
        self.convert(both, self.choose(_DTYPES))

    def transpose(self) -> None:
        a = self.pick()
        order = self.draw(st.permutations(range(len(a.dims))))
        dims = tuple(a.dims[n] for n in order)
        self.emit(
            f"stablehlo.transpose {a.name}, dims = {list(order)} : ({a.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )

    def flatten(self) -> None:
        a = self.pick()
        dims = (int(np.prod(a.dims, dtype=int)),)
        self.emit(
            f"stablehlo.reshape {a.name} : ({a.type}) -> {tensor(a.dtype, *dims)}", a.dtype, dims
        )

    def slice(self) -> None:
        a = self.pick()
        bounds, dims = [], []
        for d in a.dims:
            start = self.draw(st.integers(0, d))
            stride = self.draw(st.integers(1, 3))
            bounds.append(f"{start}:{d}:{stride}")
            dims.append(-(-(d - start) // stride))
        self.emit(
            f"stablehlo.slice {a.name} [{', '.join(bounds)}] : ({a.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            tuple(dims),
        )

    def pad(self) -> None:
        a = self.pick()
        low = [self.draw(st.integers(-1, 2)) for _ in a.dims]
        high = [self.draw(st.integers(-1, 2)) for _ in a.dims]
        inner = [self.draw(st.integers(0, 1)) for _ in a.dims]
        dims = tuple(
            d + max(0, d - 1) * i + lo + hi
            for d, lo, hi, i in zip(a.dims, low, high, inner, strict=True)
        )
        if any(d < 0 or d > 40 for d in dims):
            return
        value = self.constant(a.dtype, 1)
        self.emit(f"stablehlo.pad {a.name}, {value.name}, low = {low}, high = {high}, interior = {inner}"
                  f" : ({a.type}, {value.type}) -> {tensor(a.dtype, *dims)}", a.dtype, dims)  # fmt: skip

    def reverse(self) -> None:
        a = self.pick()
        which = [n for n in range(len(a.dims)) if self.draw(st.booleans())]
        self.emit(f"stablehlo.reverse {a.name}, dims = {which} : {a.type}", a.dtype, a.dims)

    def concatenate(self) -> None:
        a = self.pick()
        if not a.dims or a.dims[0] > 20:
            return
        b = self.like(a)
        dims = (2 * a.dims[0], *a.dims[1:])
        self.emit(
            f"stablehlo.concatenate {a.name}, {b.name}, dim = 0 : ({a.type}, {b.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )

    def broadcast(self) -> None:
        a = self.pick()
        if len(a.dims) > 2 or np.prod(a.dims, dtype=int) > 100:
            return
        dims = (self.draw(st.integers(1, 4)), *a.dims)
        self.emit(f"stablehlo.broadcast_in_dim {a.name}, dims = {list(range(1, len(dims)))} : ({a.type}) -> {tensor(a.dtype, *dims)}",
                  a.dtype, dims)  # fmt: skip

    def reduce(self) -> None:
        a = self.pick()
        over = [n for n in range(len(a.dims)) if self.draw(st.booleans())]
        op = self.choose(["add", "maximum", "minimum", "or", "xor", "multiply"])
        initial = self.constant(a.dtype, 1)
        dims = tuple(d for n, d in enumerate(a.dims) if n not in over)
        result = tensor(a.dtype, *dims)
        self.emit(f'"stablehlo.reduce"({a.name}, {initial.name}) <{{dimensions = {dense(over)}}}> ({combine(op, a.dtype)})'
                  f" : ({a.type}, {initial.type}) -> {result}", a.dtype, dims)  # fmt: skip

    def window(self) -> None:
        a = self.pick()
        if not a.dims or a.dims[-1] < 2:
            return
        initial = self.constant(a.dtype, 0)
        window = (1,) * (len(a.dims) - 1) + (2,)
        dims = (*a.dims[:-1], a.dims[-1] - 1)
        op = self.choose(["add", "maximum"])
        self.emit(f'"stablehlo.reduce_window"({a.name}, {initial.name}) <{{window_dimensions = {dense(window)}}}> ({combine(op, a.dtype)})'
                  f" : ({a.type}, {initial.type}) -> {tensor(a.dtype, *dims)}", a.dtype, dims)  # fmt: skip

    def index(self) -> Entry:
        """A scalar s32 from somewhere, often out of bounds."""
        a = self.pick()
        initial = self.constant(a.dtype, 0)
        over = dense(range(len(a.dims)))
        total = self.emit(f'"stablehlo.reduce"({a.name}, {initial.name}) <{{dimensions = {over}}}> ({combine("xor", a.dtype)})'
                          f" : ({a.type}, {initial.type}) -> {initial.type}", a.dtype, (), False)  # fmt: skip
        wide = self.emit(
            f"stablehlo.convert {total.name} : ({total.type}) -> tensor<i32>", dtypes.S32, (), False
        )
        few = self.constant(dtypes.S32, 15)
        return self.emit(
            f"stablehlo.and {wide.name}, {few.name} : tensor<i32>", dtypes.S32, (), False
        )

    def dynamic_slice(self) -> None:
        a = self.pick()
        sizes = [self.draw(st.integers(min(1, d), d)) for d in a.dims]
        starts = [self.index().name for _ in a.dims]
        types = ", ".join([a.type] + ["tensor<i32>"] * len(starts))
        self.emit(f"stablehlo.dynamic_slice {', '.join([a.name, *starts])}, sizes = {sizes} : ({types}) -> {tensor(a.dtype, *sizes)}",
                  a.dtype, tuple(sizes))  # fmt: skip

    def update(self) -> None:
        a = self.pick()
        if not a.dims or 0 in a.dims:
            return
        limits = ", ".join(f"0:{d if n else 1}" for n, d in enumerate(a.dims))
        b = self.like(a)
        row = (1, *a.dims[1:])
        u = self.emit(
            f"stablehlo.slice {b.name} [{limits}] : ({b.type}) -> {tensor(a.dtype, *row)}",
            a.dtype,
            row,
            False,
        )
        zero = self.constant(dtypes.S32, 0)
        starts = [self.index().name] + [zero.name] * (len(a.dims) - 1)
        types = ", ".join([a.type, u.type] + ["tensor<i32>"] * len(starts))
        self.emit(
            f"stablehlo.dynamic_update_slice {', '.join([a.name, u.name, *starts])} : ({types}) -> {a.type}",
            a.dtype,
            a.dims,
        )

    def scatter(self) -> None:
        a = self.pick()
        if len(a.dims) != 1:
            return
        i = self.like(a)
        wide = self.convert(i, dtypes.S32)
        column = (*wide.dims, 1)
        at = self.emit(
            f"stablehlo.reshape {wide.name} : ({wide.type}) -> {tensor('s32', *column)}",
            dtypes.S32,
            column,
            False,
        )
        op = self.choose(["add", "maximum", "xor"])
        u = self.like(a)
        # The interpreter scatters into its operand, which other operations may use: it gets one of its own.
        a = self.emit(f"stablehlo.or {a.name}, {a.name} : {a.type}", a.dtype, a.dims, False)
        self.emit(f'"stablehlo.scatter"({a.name}, {at.name}, {u.name}) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],'
                  f" scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}>"
                  f" ({combine(op, a.dtype)}) : ({a.type}, {at.type}, {u.type}) -> {a.type}", a.dtype, a.dims)  # fmt: skip

    def sort(self) -> None:
        a = self.pick()
        if not a.dims:
            return
        s, p = tensor(a.dtype), tensor("pred")
        comparator = f"{{\n^bb0(%a: {s}, %b: {s}):\n%c = stablehlo.compare LT, %a, %b : ({s}, {s}) -> {p}\nstablehlo.return %c : {p}\n}}"
        dimension = self.draw(st.integers(0, len(a.dims) - 1))
        self.emit(f'"stablehlo.sort"({a.name}) <{{dimension = {dimension} : i64, is_stable = true}}> ({comparator}) : ({a.type}) -> {a.type}',
                  a.dtype, a.dims)  # fmt: skip

    def loop(self) -> None:
        a = self.pick()
        b = self.like(a)
        zero, limit, one = (
            self.constant(dtypes.S32, n) for n in (0, self.draw(st.integers(0, 4)), 1)
        )
        first, second = self.choose(_BINARY[:8]), self.choose(_BINARY[:8])
        outside = self.like(a)
        swap = self.draw(st.booleans())
        name, s, p = self.fresh(), "tensor<i32>", tensor("pred")
        states = f"{name}y, {name}z" if not swap else f"{name}z, {name}y"
        self.lines.append(f"""{name}:3 = stablehlo.while({name}i = {zero.name}, {name}a = {a.name}, {name}b = {b.name}) : {s}, {a.type}, {a.type} cond {{
%c = stablehlo.compare LT, {name}i, {limit.name} : ({s}, {s}) -> {p}
stablehlo.return %c : {p}
}} do {{
{name}n = stablehlo.add {name}i, {one.name} : {s}
{name}y = stablehlo.{first} {name}a, {outside.name} : {a.type}
{name}z = stablehlo.{second} {name}b, {name}a : {a.type}
stablehlo.return {name}n, {states} : {s}, {a.type}, {a.type}
}}""")
        self.values += [Entry(f"{name}#{n}", a.dtype, a.dims) for n in (1, 2)]

    def branch(self) -> None:
        a = self.pick()
        b = self.like(a)
        i = self.index()
        op = self.choose(_BINARY[:8])
        name = self.fresh()
        self.lines.append(f"""{name} = "stablehlo.case"({i.name}) ({{
stablehlo.return {a.name} : {a.type}
}}, {{
%c = stablehlo.{op} {a.name}, {b.name} : {a.type}
stablehlo.return %c : {a.type}
}}, {{
stablehlo.return {b.name} : {a.type}
}}) : (tensor<i32>) -> {a.type}""")
        self.values.append(Entry(name, a.dtype, a.dims))


_OPERATIONS = [
    "binary",
    "binary",
    "binary",
    "unary",
    "change_type",
    "select",
    "transpose",
    "flatten",
    "slice",
    "pad",
    "reverse",
    "concatenate",
    "broadcast",
    "reduce",
    "window",
    "dynamic_slice",
    "update",
    "scatter",
    "sort",
    "loop",
    "branch",
    "clamp",
    "divide",
    "iota",
    "dot",
    "gather",
    "largest",
    "cumulative",
    "truth",
]


@st.composite
def programs(draw: Any) -> tuple[str, list[Entry], list[Entry]]:
    """A program's text, its parameters and its results."""
    builder = Builder(draw)
    parameters = []
    dims = draw(st.sampled_from([(3, 5), (17,), (2, 3, 4), (1, 9), (0, 3), (33,)]))
    for n in range(draw(st.integers(1, 3))):
        entry = Entry(f"%p{n}", builder.choose(_DTYPES), dims)
        parameters.append(entry)
        builder.values.append(entry)
    for _ in range(draw(st.integers(2, 25))):
        getattr(builder, builder.choose(_OPERATIONS))()
    results = [builder.pick() for _ in range(draw(st.integers(1, 4)))]
    signature = ", ".join(f"{p.name}: {p.type}" for p in parameters)
    types = ", ".join(r.type for r in results)
    body = "\n".join(builder.lines)
    names = ", ".join(r.name for r in results)
    return (
        f"func.func @main({signature}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}\n",
        parameters,
        results,
    )


@settings(
    max_examples=1000 if _FULL else 150,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_random_programs(drawn: tuple[str, list[Entry], list[Entry]]) -> None:
    text, parameters, _ = drawn
    count = [int(np.prod(p.dims, dtype=int)) for p in parameters]
    arguments = [
        scattered(p.dtype, n, p.name).reshape(p.dims)
        for p, n in zip(parameters, count, strict=True)
    ]
    executable = device.compile_program(text)
    expected = reference.interpret(text, arguments, [v.shape for v in executable.results])
    read = evaluate.evaluate(read_program(text.encode(), "mlir"), arguments)
    actual = device.run(executable, arguments)
    for what, results in (("as it is read", read), ("compiled", actual)):
        for a, e in zip(results, expected, strict=True):
            np.testing.assert_array_equal(
                a.astype(np.int64), e.astype(np.int64), err_msg=f"{what}: {text}"
            )
