"""Products and convolutions as users of JAX write them, with what is before and behind them, and their gradients.

All numbers are small whole ones, and so few are not zero that every sum is one that its type holds: each result is
known to the bit, whatever the order of a sum. Some arguments have an infinity or a NaN, which must stay where it is.
Sizes lie around those of tiles, panels and blocks of every instruction set, so that each way to compute a product
meets its edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

_SIZES: Final = [
    1, 2, 3, 4, 7, 8, 13, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 63, 64, 65, 80, 96, 100, 127, 128, 129, 160, 192, 200,
    255, 256, 257, 300, 320, 384, 511, 512, 513, 768, 1000, 1024, 1025, 2048, 4096,
]  # fmt: skip
_FEATURES: Final = [1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 96, 128, 192, 256]
_PLACES: Final = [1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 28, 32, 40, 65, 130]
_MULTIPLICATIONS: Final = 30_000_000


class Numbers(NamedTuple):
    """A type of operands and results: the largest number that sums of whole ones may have."""

    dtype: str
    largest: int
    result: str = ""  # the type of a product's result where it is another


_NUMBERS: Final = [
    Numbers("bfloat16", 128),
    Numbers("bfloat16", 128),
    Numbers("bfloat16", 128),
    Numbers("bfloat16", 1 << 20, "float32"),
    Numbers("float32", 1 << 20),
    Numbers("float32", 1 << 20),
    Numbers("float64", 1 << 40),
    Numbers("float16", 1 << 10),
    Numbers("float16", 1 << 20, "float32"),
    Numbers("int8", 1 << 30, "int32"),
    Numbers("int8", 1 << 30, "int32"),
    Numbers("uint8", 1 << 30, "int32"),
    Numbers("int16", 1 << 30, "int32"),
    Numbers("int32", 1 << 30),
    Numbers("float8_e4m3fn", 1 << 10, "float32"),
]


class Values:
    """Arrays of arguments, as they are made. ``terms``: the length of the longest sum."""

    def __init__(self, numbers: Numbers, seed: int, terms: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.numbers = numbers
        self.arguments: list[np.ndarray] = []
        self.whole = numbers.largest >= 1 << 30
        self.spoilt = False
        # Sums of ``terms`` products of ones, of which this share is not zero, stay below the largest number: it is more
        # than eight times their standard deviation.
        self.share = min(1.0, (numbers.largest / 10) ** 2 / terms)

    def spoil(self, number: int) -> None:
        """Put an infinity or a NaN into an argument: what reads it without a right to becomes NaN."""
        array = self.arguments[number]
        if jnp.issubdtype(array.dtype, jnp.floating) and array.size:
            self.spoilt = True
            infinite = np.inf if "float8" not in str(array.dtype) else np.nan
            array.reshape(-1)[self.rng.integers(array.size)] = self.rng.choice(
                [infinite, -infinite, np.nan]
            )

    def __call__(self, shape: Sequence[int], dtype: str = "", *, few: bool = False) -> int:
        """The number of a new argument. ``few``: only the share of its elements is not zero."""
        dtype = dtype or self.numbers.dtype
        if self.whole and dtype in ("int8", "uint8"):  # the worst values too
            low, high = (-128, 128) if dtype == "int8" else (0, 256)
            values = self.rng.integers(low, high, shape)
        else:
            values = self.rng.integers(-1, 2, shape)
        if few:
            values = np.where(self.rng.random(shape) < self.share, values, 0)
        self.arguments.append(values.astype(jnp.dtype(dtype)))
        return len(self.arguments) - 1


def _size_near(chances: Random, wanted: float, sizes: Sequence[int] = _SIZES) -> int:
    """One of the sizes, not far from ``wanted``."""
    return chances.choice([s for s in sizes if wanted / 2 < s < wanted * 2] or [sizes[0]])


def _split(chances: Random, count: int) -> list[float]:
    """``count`` sizes whose product is a number of multiplications, of a thousand to :data:`_MULTIPLICATIONS`."""
    digits = chances.uniform(3, math.log10(_MULTIPLICATIONS))
    shares = [chances.random() + 0.1 for _ in range(count)]
    return [10 ** (digits * share / sum(shares)) for share in shares]


class Product(NamedTuple):
    """What computes a product of two arguments, their shapes, the lengths of its sums, and those of its gradients."""

    run: Callable[[Array, Array], Array]
    left: tuple[int, ...]
    right: tuple[int, ...]
    terms: int
    others: int


def dot(chances: Random, numbers: Numbers) -> Product:
    """A ``dot_general`` whose dimensions lie in any order."""
    groups = chances.choice([1, 1, 1, 2])
    batch = [chances.choice([2, 3, 4, 8])] * chances.choice([0, 0, 0, 1])
    m, n, k = (_size_near(chances, wanted) for wanted in _split(chances, 3))
    rows = [m] if groups == 1 else [max(1, m // 4), 4]
    depth = [k] if chances.random() < 0.85 else [max(1, k // 8), 8]
    left_order = _mixed(chances, len(batch) + len(rows) + len(depth))
    right_order = _mixed(chances, len(batch) + 1 + len(depth))
    places = range(len(batch)), range(len(batch), len(batch) + len(depth))
    left_places = [[left_order.index(p) for p in each] for each in places]
    right_places = [[right_order.index(p) for p in each] for each in places]
    left, right = [*batch, *depth, *rows], [*batch, *depth, n]
    numbers_of = ((left_places[1], right_places[1]), (left_places[0], right_places[0]))
    result = jnp.dtype(numbers.result) if numbers.result else None

    def run(x: Array, w: Array) -> Array:
        return lax.dot_general(x, w, numbers_of, preferred_element_type=result)

    return Product(
        run,
        tuple(left[p] for p in left_order),
        tuple(right[p] for p in right_order),
        math.prod(depth),
        max(math.prod(rows), n),
    )


def _mixed(chances: Random, count: int) -> list[int]:
    """An order of dimensions; often one that users have: the contracted ones first or last."""
    order = list(range(count))
    kind = chances.random()
    if kind < 0.4:
        order = order[1:] + order[:1]
    elif kind < 0.6:
        chances.shuffle(order)
    return order


_LAYOUTS: Final = {
    1: [("NWC", "WIO", "NWC"), ("NCW", "OIW", "NCW")],
    2: [("NHWC", "HWIO", "NHWC"), ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OHWI", "NHWC")],
    3: [("NDHWC", "DHWIO", "NDHWC"), ("NCDHW", "OIDHW", "NCDHW")],
}  # fmt: skip


def convolution(chances: Random, numbers: Numbers) -> Product:
    """A convolution of one to three dimensions: strided, dilated, transposed, in groups."""
    rank = chances.choice([1, 2, 2, 2, 3])
    window = [chances.choice([1, 1, 2, 3, 3, 5]) for _ in range(rank)]
    strides = [chances.choice([1, 1, 1, 2]) for _ in range(rank)]
    dilation = [chances.choice([1, 1, 1, 2]) for _ in range(rank)]
    spread = [chances.choice([1] * 7 + [2]) for _ in range(rank)]
    groups = chances.choice([1, 1, 1, 1, 2, 4, 0])
    wanted = _split(chances, 3 + rank)
    inputs, outputs = (_size_near(chances, w, _FEATURES) for w in wanted[:2])
    batch = _size_near(chances, wanted[2], [1, 2, 3, 4, 8, 16])
    places = [_size_near(chances, w, _PLACES) for w in wanted[3:]]
    if not groups:  # one for each feature
        groups, inputs, outputs = inputs, 1, chances.choice([1, 1, 2])
    padding: Any = chances.choice(["SAME", "VALID"])
    if chances.random() < 0.3 or max(spread) > 1:
        padding = [(chances.randint(0, w), chances.randint(0, w)) for w in window]
    layout = chances.choice(_LAYOUTS[rank])
    sizes = dict(zip("DHW"[3 - rank :], places, strict=True))
    windows = dict(zip("DHW"[3 - rank :], window, strict=True))
    left = {**sizes, "N": batch, "C": inputs * groups}
    right = {**windows, "I": inputs, "O": outputs * groups}
    result = jnp.dtype(numbers.result) if numbers.result else None

    def run(x: Array, w: Array) -> Array:
        return lax.conv_general_dilated(
            x, w, strides, padding, lhs_dilation=spread, rhs_dilation=dilation, dimension_numbers=layout,
            feature_group_count=groups, preferred_element_type=result,
        )  # fmt: skip

    return Product(
        run,
        tuple(left[c] for c in layout[0]),
        tuple(right[c] for c in layout[1]),
        inputs * math.prod(window),
        max(outputs * math.prod(window), batch * math.prod(places)),
    )


class Writer:
    """Writes a function around a product, and the arguments that it takes."""

    def __init__(self, chances: Random, numbers: Numbers, product: Product, values: Values) -> None:
        self.chances = chances
        self.numbers = numbers
        self.product = product
        self.values = values
        self.is_float = jnp.issubdtype(jnp.dtype(numbers.dtype), jnp.floating)

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def operand(self, shape: tuple[int, ...], *, few: bool) -> Callable[[Sequence[Array]], Array]:
        """A product's operand: an argument, or what is made of one while it is read."""
        dtype, kind = jnp.dtype(self.numbers.dtype), self.chances.random()
        if kind < 0.45 or not shape:
            plain = self.values(shape, few=few)
            return lambda given: given[plain]
        if kind < 0.6 and self.is_float:  # of another type: weights of bytes, activations in f32
            other = self.choose("int8", "float32", "bfloat16", "int4")
            x = self.values(shape, other, few=few)
            if self.chances.random() < 0.5:
                return lambda given: given[x].astype(dtype)
            dims = self.choose(shape[:-1] + (1,), (1,) * (len(shape) - 1) + shape[-1:])
            signs = self.values(dims)
            return lambda given: given[x].astype(dtype) * given[signs]
        if kind < 0.7:
            order = list(range(len(shape)))
            self.chances.shuffle(order)
            x = self.values([shape[p] for p in order], few=few)
            back = [order.index(p) for p in range(len(shape))]
            return lambda given: jnp.transpose(given[x], back)
        if kind < 0.8:
            at = self.chances.randrange(len(shape))
            longer = shape[:at] + (shape[at] + self.choose(1, 3, 16),) + shape[at + 1 :]
            x, begin = self.values(longer, few=few), self.choose(0, 1)
            return lambda given: lax.slice_in_dim(given[x], begin, begin + shape[at], axis=at)
        if kind < 0.9 and self.is_float:
            x = self.values(shape, few=few)
            return self.choose(
                lambda given: jnp.maximum(given[x], 0),
                lambda given: jnp.where(given[x] > 0, given[x], 0),
                lambda given: -given[x],
                lambda given: jnp.abs(given[x]),
            )
        if len(shape) > 1 and shape[0] > 1:
            x = self.values((shape[0] + 5, *shape[1:]), few=few)
            rows = self.values.rng.integers(0, shape[0] + 5, shape[0])
            return lambda given: given[x][rows]
        x = self.values((), few=False)
        return lambda given: jnp.broadcast_to(given[x] * few, shape)

    def behind(self, y: Array, extra: list[Callable[[], Array]]) -> Array:
        """One operation on a result whose numbers it leaves about as small as they are."""
        zero = jnp.zeros((), y.dtype)
        choices = [
            lambda: jnp.maximum(y, zero),
            lambda: jnp.abs(y),
            lambda: jnp.where(y > 2, y, zero),
            lambda: jnp.clip(y, -20, 20).astype(y.dtype),
            lambda: jnp.minimum(y, jnp.asarray(9, y.dtype)),
            lambda: zero - y,
            lambda: y.T if y.ndim == 2 else y,
            lambda: y[..., ::-1] if y.ndim else y,
            lambda: y[..., : max(1, y.shape[-1] // 2)] if y.ndim else y,
            lambda: jnp.max(y, -1) if y.ndim > 1 and y.shape[-1] else y,
            lambda: y.reshape(-1),
            lambda: self.masked(y) if y.ndim > 1 else y,
            lambda: self.masked(y) if y.ndim > 1 else y,
            *extra,
        ]
        return self.choose(*choices)()

    def masked(self, y: Array) -> Array:
        """A triangle, a band or some columns of a result, and another number in the rest."""
        row, column = (lax.broadcasted_iota("int32", y.shape, y.ndim - d) for d in (2, 1))
        distance = row - column + self.choose(-200, -33, -1, 0, 0, 1, 16, 100)
        inside = self.choose(
            distance >= 0,
            distance < 0,
            (distance >= 0) & (distance < self.choose(1, 20, 64)),
            (column >= self.choose(0, 30)) & (column < self.choose(40, 100)),
        )
        rest = jnp.asarray(self.choose(0, 1), y.dtype)
        return self.choose(jnp.where(inside, y, rest), jnp.where(inside, rest, y))

    def added(self, shape: tuple[int, ...], dtype: Any) -> Callable[[Sequence[Array]], Array]:
        """A bias or a residual of a product's result."""
        ones = (1,) * len(shape)
        dims = self.choose(shape, shape[-1:], ones[:-1] + shape[-1:], shape[:1] + ones[1:], ())
        x = self.values(dims, str(dtype))
        return lambda given: given[x]

    def epilogue(self, shape: tuple[int, ...], dtype: Any) -> Callable[..., list[Array]]:
        """What is behind a product, and what of it is returned."""
        count = self.choose(0, 0, 1, 2, 3, 4)
        several = self.chances.random() < 0.15
        added = [self.added(shape, dtype) for _ in range(min(count, 2))]
        other = self.choose(None, None, "float32", "bfloat16", "int32")
        other = None if self.values.spoilt else other
        seed = self.chances.random()

        def apply(y: Array, given: Sequence[Array]) -> list[Array]:
            again = Writer(Random(seed), self.numbers, self.product, self.values)
            first = y
            for number in range(count):
                extra: list[Callable[[], Array]] = []
                if number < len(added) and y.shape == shape and y.dtype == dtype:
                    term = added[number](given)
                    extra = [
                        lambda y=y, term=term: y + term,
                        lambda y=y, term=term: jnp.maximum(y, term),
                    ] * 5
                y = again.behind(y, extra)
            if other and self.numbers.largest <= 1 << 20:
                y = y.astype(other)
            return [y, first] if several else [y]

        return apply


def _loop(writer: Writer, values: Values) -> Callable[..., list[Array]]:
    """Steps that multiply by the same matrix; what they carry stays as small as it was."""
    chances = writer.chances
    rows, size, _ = (_size_near(chances, min(wanted, 600)) for wanted in _split(chances, 3))
    dtype = jnp.dtype(writer.numbers.dtype)
    x, w, bias = values((rows, size)), values((size, size), few=True), values((size,))
    result = jnp.dtype(writer.numbers.result or writer.numbers.dtype)
    stacks, transposed, steps = (
        chances.random() < 0.3,
        chances.random() < 0.3,
        chances.randint(2, 5),
    )

    def function(*given: Array) -> list[Array]:
        matrix = given[w].T if transposed else given[w]

        def step(state: Array, _: None) -> tuple[Array, Array | None]:
            y = jnp.matmul(state, matrix, preferred_element_type=result)
            y = jnp.clip(y + given[bias].astype(result), -1 if dtype != jnp.uint8 else 0, 1)
            return y.astype(dtype), y[..., :1] if stacks else None

        last, stacked = lax.scan(step, given[x], None, steps)
        return [last, stacked] if stacks else [last]

    return function


def once(
    writer: Writer, values: Values, product: Product, *, gradients: float = 0.4
) -> Callable[..., list[Array]]:
    """The product with what is before and behind it, or its gradients by its operands. ``gradients``: their share."""
    chances = writer.chances
    left, right = writer.operand(product.left, few=False), writer.operand(product.right, few=True)
    types = [
        jax.ShapeDtypeStruct(s, jnp.dtype(writer.numbers.dtype))
        for s in (product.left, product.right)
    ]
    made = jax.eval_shape(product.run, *types)
    if writer.is_float and chances.random() < gradients:
        towards = values(made.shape, str(made.dtype), few=True)
        which = chances.choice([(0,), (1,), (0, 1)])
        if chances.random() < 0.2:
            values.spoil(0)

        def of_operands(*given: Array) -> list[Array]:
            _, back = jax.vjp(product.run, left(given), right(given))
            found = back(given[towards])
            return [found[n] for n in which]

        return of_operands
    if writer.is_float and chances.random() < 0.2:
        values.spoil(0)
    behind = writer.epilogue(made.shape, made.dtype)
    return lambda *given: behind(product.run(left(given), right(given)), given)


def make(seed: int) -> Case:
    """A product or a convolution as JAX lowers it: once, in a loop, or its gradients."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances = Random(seed)
    numbers = chances.choice(_NUMBERS)
    kind = chances.choice([dot, dot, convolution])
    product = kind(chances, numbers)
    in_loop = kind is dot and chances.random() < 0.2
    values = Values(numbers, seed, max(_SIZES) if in_loop else max(product.terms, product.others))
    writer = Writer(chances, numbers, product, values)
    function = _loop(writer, values) if in_loop else once(writer, values, product)
    text = lowered(function, values.arguments, ())
    return Case(text, values.arguments)
