"""Products by quantised weights as users of JAX write them: bytes, 4-bit integers and words of several, with scales and
zero points for the whole matrix, for channels or for groups, by a few rows or more.

Every number of a dequantised matrix is a small multiple of a power of two, and so few numbers of the other operand are
not zero that every sum is one that its type holds: each result is known to the bit, whatever the order of a sum. Some
scales are infinite or NaN, as kernels that multiply sums by scales must not hide. What is nearly such a product is here
too: scales along the wrong dimension, codes that lie in words in other orders, matrices that are read twice.
"""

from __future__ import annotations

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
Given = Sequence[Array]

_ROWS: Final = [1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33]
_DEPTHS: Final = [16, 32, 64, 96, 128, 160, 256, 320, 384, 512, 768, 1024, 1056, 2048]
_COLUMNS: Final = [
    1, 3, 8, 16, 17, 31, 32, 33, 64, 65, 96, 100, 128, 192, 200, 256, 257, 384, 512, 768, 1024,
]  # fmt: skip
_ELEMENTS: Final = 400_000  # of a program's matrices at most
_LEAST: Final = 6_000
#: The largest whole number up to which a type has all of them.
_WHOLE: Final = {"float32": 1 << 22, "bfloat16": 1 << 8, "float16": 1 << 11}
_AWQ: Final = (0, 2, 4, 6, 1, 3, 5, 7)


class Codes(NamedTuple):
    """The integers of a matrix: their bits, and whether they have a sign."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return self.low + (1 << self.bits) - 1


class Weights:
    """A matrix [k, n] (or [n, k], ``transposed``), its arguments, and the function that dequantises it."""

    def __init__(self, program: Quantised, k: int, n: int, lead: tuple[int, ...] = ()) -> None:
        self.program, self.choose = program, program.choose
        self.k, self.n, self.lead = k, n, lead
        self.transposed = program.chance(0.5)
        self.dims = (*lead, n, k) if self.transposed else (*lead, k, n)
        self.axis = len(self.dims) - (1 if self.transposed else 2)  # the contracted dimension
        self.other = 2 * len(self.dims) - 3 - self.axis
        self.dtype = jnp.dtype(program.dtype)
        self.codes = Codes(self.choose(4, 4, 8, 8, 8, 2), program.chance(0.5))
        groups = [g for g in (8, 16, 32, 64, 128) if k % g == 0 and g < k]
        self.group = self.choose(*groups, k, k) if groups else k
        self.take = self.made()

    def numbers(self, dims: Sequence[int], low: int, high: int) -> np.ndarray:
        return self.program.rng.integers(low, high + 1, dims)

    # -------------------------------------------------------------------------------------------- the codes

    def made(self) -> Callable[[Given], Array]:
        """The function that dequantises the matrix."""
        kind = self.choose("plain", "plain", "plain", "packed", "packed", "packed", "float")
        if kind == "float":
            read = self.small_floats()
        else:
            read = self.packed() if kind == "packed" else self.plain()
        wide, offset, scaled = self.widened(read), self.offset(), self.scaled()
        return lambda given: scaled(offset(wide(given), given), given)

    def small_floats(self) -> Callable[[Given], Array]:
        dtype = self.choose("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16")
        self.codes = Codes(4, signed=True)  # -8 to 7 are numbers of each of them
        at = self.program.new(self.numbers(self.dims, -4, 4), dtype)
        return lambda given: given[at]

    def plain(self) -> Callable[[Given], Array]:
        """An array of integers of few bits, or of bytes that hold them."""
        name = f"{'' if self.codes.signed else 'u'}int{self.codes.bits}"
        if self.codes.bits < 8 and self.program.chance(0.4):
            name = name.replace(str(self.codes.bits), "8")
        at = self.program.new(self.numbers(self.dims, self.codes.low, self.codes.high), name)
        if self.program.chance(0.15):  # as it is made by a transpose
            order = list(range(len(self.dims)))
            order[-2:] = order[:-3:-1]
            x = self.program.arguments[at]
            self.program.arguments[at] = np.ascontiguousarray(np.swapaxes(x, -1, -2))
            return lambda given: jnp.transpose(given[at], order)
        return lambda given: given[at]

    def packed(self) -> Callable[[Given], Array]:
        """Words of several codes: along one of the dimensions, in one of the orders that people use."""
        bits = self.choose(4, 4, 4, 4, 2, 8)
        word = jnp.dtype(self.choose("int32", "int32", "uint32", "uint8", "int8"))
        count = word.itemsize * 8 // bits
        axis = self.choose(self.axis, self.axis, self.other)
        if count == 1 or self.dims[axis] % count:
            return self.plain()
        self.codes = Codes(bits, signed=False)
        order = _AWQ if count == 8 and self.program.chance(0.3) else tuple(range(count))
        codes = self.numbers(self.dims, 0, (1 << bits) - 1)
        halves = self.program.chance(
            0.2
        )  # neighbours lie in different words, as llama.cpp has them
        size = self.dims[axis]
        dims = list(self.dims)
        dims[axis : axis + 1] = [count, size // count] if halves else [size // count, count]
        inner = axis if halves else axis + 1
        parts = codes.reshape(dims)
        words = np.zeros([d for n, d in enumerate(dims) if n != inner], np.uint64)
        for place, code in enumerate(order):
            words |= np.take(parts, code, inner).astype(np.uint64) << np.uint64(place * bits)
        unsigned = np.dtype(f"uint{8 * word.itemsize}")
        at = self.program.new(words.astype(unsigned).view(word), str(word))
        back = [order.index(c) for c in range(count)]
        shifts, mask = np.asarray(back) * bits, (1 << bits) - 1
        shift = self.choose(jnp.right_shift, lax.shift_right_logical)
        way = self.choose("iota", "iota", "stack", "sign")
        signed = way == "sign" and word.kind == "i"
        if signed:
            self.codes = Codes(bits, signed=True)
        small = self.choose(None, "int8", "uint8", "int32")
        small = None if small == "uint8" and signed else small

        def unpacked(given: Given) -> Array:
            x = given[at]
            if way == "stack":
                pieces = [shift(x, jnp.asarray(s, word)) & jnp.asarray(mask, word) for s in shifts]
                y = jnp.stack(pieces, inner)
            else:
                of = [1] * len(dims)
                of[inner] = count
                by = jnp.asarray(shifts.reshape(of), word)
                if tuple(order) == tuple(range(count)):
                    by = lax.broadcasted_iota(word, of, inner) * jnp.asarray(bits, word)
                wide = jnp.broadcast_to(jnp.expand_dims(x, inner), dims)
                if signed:
                    top = jnp.asarray(8 * word.itemsize - bits, word)
                    y = jnp.right_shift(jnp.left_shift(wide, top - by), top)
                else:
                    y = shift(wide, jnp.broadcast_to(by, dims)) & jnp.asarray(mask, word)
            y = y.reshape(self.dims)
            return y if small is None else y.astype(small)

        return unpacked

    # ------------------------------------------------------------------------------- zero points and scales

    def of_groups(self, dims: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The dimensions of an array with a number for each group, of a channel or of all."""
        dims = list(dims or self.dims)
        dims[self.axis] = self.k // self.group
        return tuple(dims)

    def spread(self, x: Array) -> Array:
        """An array with a number for each group, for each element of the matrix, in one of the ways to write that."""
        if self.group == self.k:
            return jnp.broadcast_to(x, self.dims)
        if self.how == "repeat":
            return jnp.repeat(x, self.group, self.axis)
        dims = [
            *self.dims[: self.axis],
            self.k // self.group,
            self.group,
            *self.dims[self.axis + 1 :],
        ]
        return jnp.broadcast_to(jnp.expand_dims(x, self.axis + 1), dims).reshape(self.dims)

    def grouped(self, x: Array, s: Array, apply: Callable[[Array, Array], Array]) -> Array:
        """``apply`` to a matrix and an array with a number for each group."""
        if self.group == self.k or self.how != "reshape":
            return apply(x, self.spread(s))
        dims = [
            *self.dims[: self.axis],
            self.k // self.group,
            self.group,
            *self.dims[self.axis + 1 :],
        ]
        return apply(x.reshape(dims), jnp.expand_dims(s, self.axis + 1)).reshape(self.dims)

    @property
    def how(self) -> str:
        return ("reshape", "spread", "repeat")[(self.k + self.n + self.group) % 3]

    def widened(self, read: Callable[[Given], Array]) -> Callable[[Given], Array]:
        """The codes as integers in which a zero point can be subtracted, or as floats."""
        self.early = self.program.chance(0.3)
        first = self.choose("int8", "int32", "int16") if self.codes.bits < 8 else "int32"

        def wide(given: Given) -> Array:
            x = read(given)
            if self.early and not jnp.issubdtype(x.dtype, jnp.floating):
                return x.astype(first)
            return x.astype(self.dtype)

        return wide

    def offset(self) -> Callable[[Array, Given], Array]:
        """Zero points, subtracted from integers or from floats; codes less them have 9 bits at most."""
        kind = self.choose("none", "none", "constant", "groups", "groups", "whole")
        low, high = self.codes.low, self.codes.high
        if kind == "constant" or (kind == "none" and not self.codes.signed and self.early):
            middle = (low + high + 1) // 2 or 3
            return lambda x, given: x - jnp.asarray(middle, x.dtype)
        if kind == "none":
            return lambda x, given: x
        dims = self.of_groups() if kind == "groups" else ()
        dtype = (
            self.choose("int8", "int32", "float32") if high < 128 else self.choose("int32", "uint8")
        )
        at = self.program.new(self.numbers(dims, max(low, -100), min(high, 100)), dtype)
        adds = high < 128 and self.program.chance(0.2)

        def less(x: Array, given: Given) -> Array:
            zero = given[at].astype(x.dtype)
            if kind == "whole":
                return x + zero if adds else x - zero
            return self.grouped(x, zero, jnp.add if adds else jnp.subtract)

        return less

    def scaled(self) -> Callable[[Array, Given], Array]:
        """Scales: powers of two, so that nothing is rounded; for rows (the wrong dimension) too."""
        kind = self.choose(*["groups"] * 6, "whole", "none", "rows", "both")

        def to_float(x: Array) -> Array:
            return x.astype(self.dtype)

        if kind == "none":
            return lambda x, given: to_float(x)
        dims: tuple[int, ...] = ()
        if kind in ("groups", "both"):
            dims = self.of_groups()
        if kind == "rows":  # one for each number along k
            dims = tuple(1 if n == self.other else d for n, d in enumerate(self.dims))
        powers = 2.0 ** self.program.rng.integers(-1, 2, dims) * self.program.rng.choice(
            [-1, 1, 1], dims
        )
        at = self.program.new(powers, self.choose("float32", str(self.dtype)))
        if self.program.chance(0.15):
            self.program.spoil(at)
        divides = self.program.chance(0.25)
        whole = self.program.new(np.asarray(2.0), str(self.dtype)) if kind == "both" else None
        apply = jnp.divide if divides else jnp.multiply

        def scaled(x: Array, given: Given) -> Array:
            s, x = to_float(given[at]), to_float(x)
            if kind in ("whole", "rows"):
                return apply(x, s)
            if whole is not None:
                s = s * given[whole]
            return self.grouped(x, s, apply)

        return scaled


class Quantised:
    """A program with products by quantised weights, by the numbers that were drawn for it."""

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        self.dtype = self.choose("float32", "float32", "float32", "bfloat16", "bfloat16", "float16")
        # Sums of 16-bit operands that are made in f32 have room for more terms.
        self.result = self.dtype if self.chance(0.4) else "float32"
        self.arguments: list[np.ndarray] = []
        self.rows = self.choose(*_ROWS)

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def chance(self, share: float) -> bool:
        return self.chances.random() < share

    def new(self, values: np.ndarray, dtype: str) -> int:
        """The number of a new argument."""
        self.arguments.append(np.asarray(values).astype(jnp.dtype(dtype)))
        return len(self.arguments) - 1

    def spoil(self, at: int) -> None:
        """Put an infinity or a NaN into an argument of floats."""
        array = self.arguments[at]
        if array.size:
            array.reshape(-1)[self.rng.integers(array.size)] = self.rng.choice(
                [np.inf, -np.inf, np.nan]
            )

    def sizes(self, lead: int = 1) -> tuple[int, int]:
        """k and n of a matrix that is large enough to be read once, mostly."""
        k = self.choose(*_DEPTHS)
        least = _LEAST if self.chance(0.8) else 1
        fits = [n for n in _COLUMNS if least <= k * n * lead <= _ELEMENTS]
        return k, self.choose(*(fits or [64]))

    def activations(self, dims: tuple[int, ...]) -> Array:
        """Numbers of which so few are not zero that sums of products by them are exact.

        A number of a matrix is below 2 * 2 * 2**9 in size (codes less zero points, two scales), and a multiple of 1/4
        of it: eight times the units.
        """
        most = _WHOLE[self.result]
        if most >= 1 << 22:
            return self.rng.integers(-1, 2, dims)
        values = np.zeros(dims)
        places = np.argsort(self.rng.random(dims), -1)[..., :1]
        np.put_along_axis(values, places, self.rng.choice([-1, 1], places.shape), -1)
        return values

    def product(self, x: Array, w: Array, axis: int) -> Array:
        """``x`` [.., k] by a matrix that is contracted along ``axis``."""
        lead = list(range(w.ndim - 2))
        numbers = (([x.ndim - 1], [axis]), (lead, lead))
        return lax.dot_general(x, w, numbers, preferred_element_type=jnp.dtype(self.result))

    def once(self) -> Callable[..., Any]:
        """A product, or two of the same rows, with what is before and behind."""
        experts = self.choose(0, 0, 0, 0, 0, 0, 0, 2, 3)
        lead = (experts,) if experts else ()
        k, n = self.sizes(max(1, experts))
        matrices = [Weights(self, k, n, lead)]
        if self.chance(0.25):
            matrices.append(Weights(self, k, n, lead))
        x = self.new(self.activations((*lead, self.rows, k)), self.choose("float32", self.dtype))
        if self.chance(0.1):
            self.spoil(x)
        vector = not lead and self.rows == 1 and self.chance(0.3)
        swapped, behind, shared = self.chance(0.15), self.behind(n, lead), self.chance(0.1)

        def function(*given: Array) -> Any:
            rows = given[x].astype(self.dtype)
            if vector:
                rows = rows[0]
            made = [m.take(given) for m in matrices]
            if swapped and not vector and not lead:
                axes = [m.axis for m in matrices]
                found = [
                    lax.dot_general(
                        w,
                        rows,
                        (([a], [1]), ((), ())),
                        preferred_element_type=jnp.dtype(self.result),
                    ).T
                    for w, a in zip(made, axes, strict=True)
                ]
            else:
                found = [self.product(rows, w, m.axis) for w, m in zip(made, matrices, strict=True)]
            y = jnp.where(found[0] > 0, found[-1], 0) if len(found) > 1 else found[0]
            y = behind(y, given)
            return (y, made[0]) if shared else y

        return function

    def behind(self, n: int, lead: tuple[int, ...]) -> Callable[[Array, Given], Array]:
        """What is behind a product, which rounds nothing."""
        kind = self.choose("none", "none", "none", "maximum", "residual", "largest", "converted")
        at = (
            self.new(self.rng.integers(-1, 1, (self.rows, n)), self.result)
            if kind == "residual"
            else -1
        )

        def apply(y: Array, given: Given) -> Array:
            if kind == "maximum":
                return jnp.maximum(y, 0)
            if kind == "residual":
                return jnp.maximum(y, given[at][0] if y.ndim == 1 else given[at])
            if kind == "largest":
                return jnp.max(y, -1)
            if kind == "converted":
                return jnp.clip(jnp.nan_to_num(jnp.round(y)), -100, 100).astype(jnp.int8)
            return y

        return apply

    def layers(self) -> Callable[..., Any]:
        """Steps of a loop that each have their own matrix of a stack, and hand their rows on."""
        layers = self.choose(2, 3, 5)
        k = self.choose(*[d for d in _DEPTHS if d * d * layers <= _ELEMENTS])
        weights = Weights(self, k, k, (layers,))
        x = self.new(self.activations((self.rows, k)), self.dtype)
        rolled = self.chance(0.7)

        def step(rows: Array, w: Array) -> Array:
            y = lax.dot_general(
                rows,
                w,
                (([1], [weights.axis - 1]), ((), ())),
                preferred_element_type=jnp.dtype(self.result),
            )
            # One number for each row again, so that sums stay exact.
            place = jnp.argmax(jnp.abs(jnp.nan_to_num(y)), -1)
            return jax.nn.one_hot(place, k, dtype=self.dtype) * jnp.sign(y[:, :1]).astype(
                self.dtype
            )

        def function(*given: Array) -> Any:
            if rolled:
                matrices = weights.take(given)
                return lax.scan(lambda rows, w: (step(rows, w), rows), given[x], matrices)

            def body(i: Array, rows: Array) -> Array:
                return step(
                    rows, lax.dynamic_index_in_dim(weights.take(given), i, 0, keepdims=False)
                )

            return lax.fori_loop(0, layers, body, given[x])

        return function

    def integers(self) -> Callable[..., Any]:
        """Bytes by bytes: the sum of integers is scaled, and corrected for zero points."""
        k, n = self.sizes()
        transposed, types = (
            self.chance(0.5),
            self.choose(("int8", "int8"), ("uint8", "int8"), ("int8", "int4")),
        )
        dims = (n, k) if transposed else (k, n)
        low, high = (-8, 7) if types[1] == "int4" else (-128, 127)
        w = self.new(self.rng.integers(low, high + 1, dims), types[1])
        x = self.new(
            self.rng.integers(0 if types[0] == "uint8" else -128, 128, (self.rows, k)), types[0]
        )
        zero = self.new(self.rng.integers(-5, 6, ()), "int32")
        scale = self.new(2.0 ** self.rng.integers(-1, 2, (n,)), "float32")
        of_rows = self.new(2.0 ** self.rng.integers(-1, 2, (self.rows, 1)), "float32")
        corrected = self.chance(0.6)

        def function(*given: Array) -> Any:
            matrix = given[w].astype("int8") if types[1] == "int4" else given[w]
            y = lax.dot_general(
                given[x],
                matrix,
                (([1], [1 if transposed else 0]), ((), ())),
                preferred_element_type=jnp.int32,
            )
            if corrected:
                y = y - given[zero] * matrix.astype(jnp.int32).sum(1 if transposed else 0)
            return (
                jnp.clip(y, -(1 << 22), 1 << 22).astype(jnp.float32) * given[scale] * given[of_rows]
            )

        return function

    def rows_of(self) -> Callable[..., Any]:
        """Rows of a table, as embeddings are read."""
        k, n = self.sizes()
        weights = Weights(self, k, n)
        at = self.new(self.rng.integers(-2, weights.dims[0] + 2, (self.rows,)), "int32")
        return lambda *given: weights.take(given)[given[at]]


def make(seed: int) -> Case:
    """A function of quantised weights, as JAX lowers it."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    program = Quantised(seed)
    kind = program.choose(*[program.once] * 11, program.layers, program.integers, program.rows_of)
    function = kind()
    return Case(lowered(function, program.arguments, ()), program.arguments)
