"""Slices, updates, gathers and scatters whose places are given at run time, as users of JAX write them: in all of its
modes, by indices of every type that lie inside, outside and at the ends of what the type holds.

They stand alone, one behind the other, in loops whose counters are the places, in batches, and in gradients; what is
updated is donated or kept. All numbers are small whole ones, so every bit of a result is known: where indices are the
same, only operations are used whose order does not matter, or updates that are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any
Given = Sequence[Array]
Step = Callable[[Array, Given], Array]

_SIZES: Final = [
    1,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    33,
    64,
    100,
    126,
    127,
    128,
    129,
    255,
    256,
    257,
    300,
]
_ELEMENTS: Final = 20_000  # of an array at most
_DTYPES: Final = [
    "float32", "float32", "float32", "int32", "int8", "uint8", "bfloat16", "float16", "float64", "int64", "uint32",
    "bool", "complex64", "int16",
]  # fmt: skip
_INDICES: Final = ["int32", "int32", "int32", "int64", "uint32", "int8", "uint8", "int16", "uint64"]
_READS: Final = ["clip", "fill", "promise_in_bounds", "wrap"]
_WRITES: Final = ["clip", "drop", "fill", "promise_in_bounds"]
_LARGEST: Final = 8


def bounded(x: Array) -> Array:
    """Numbers that every dtype has, and sums of a few of them; of complex ones the real part is bounded."""
    if x.dtype == jnp.bool_:
        return x
    if jnp.iscomplexobj(x):
        return x.real.clip(-_LARGEST, _LARGEST) + 1j * x.imag.clip(-_LARGEST, _LARGEST)
    return jnp.clip(x, 0 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else -_LARGEST, _LARGEST)


def _absolute(x: Array) -> Array:
    return jnp.abs(x).astype(x.dtype)


class Slices:
    """A function of arrays and places, by the numbers that are drawn for it."""

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        self.dtype = jnp.dtype(self.choose(*_DTYPES))
        self.arguments: list[np.ndarray] = []
        self.is_bool = self.dtype == jnp.bool_
        self.sums_alone = (
            False  # JAX has gradients of updates that add or write, and not of all others
        )

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def chance(self, share: float) -> bool:
        return self.chances.random() < share

    # ------------------------------------------------------------------------------------------------- arguments

    def dims(self) -> tuple[int, ...]:
        rank, room, dims = self.choose(1, 1, 2, 2, 3, 4), _ELEMENTS, []
        for _ in range(rank):
            dims.append(self.chances.choice([s for s in _SIZES if s <= max(1, room)]))
            room //= dims[-1]
        self.chances.shuffle(dims)
        return tuple(dims)

    def numbers(self, dims: Sequence[int]) -> np.ndarray:
        low = 0 if self.is_bool or jnp.issubdtype(self.dtype, jnp.unsignedinteger) else -4
        values = self.rng.integers(low, 2 if self.is_bool else 5, dims)
        return np.asarray(values).astype(self.dtype)

    def new(self, values: np.ndarray) -> int:
        self.arguments.append(values)
        return len(self.arguments) - 1

    def places(
        self, dims: Sequence[int], size: int, dtype: str = "", *, window: int = 1
    ) -> np.ndarray:
        """Indices into a dimension of ``size``: inside of it, around its ends, and at those of their type."""
        kind = jnp.iinfo(dtype or self.choose(*_INDICES))
        low, high = int(kind.min), int(kind.max)
        around = [
            0,
            1,
            -1,
            -2,
            size - 1,
            size,
            size + 1,
            size - window,
            size - window + 1,
            -size,
            -size - 1,
            1 - size,
            2 * size,
            -3 * size,
        ]
        ends = [
            low,
            low + 1,
            high,
            high - 1,
            high // 2,
            high // 2 + 1,
            low // 2,
            127,
            128,
            255,
            256,
            (1 << 31) - 1,
            1 << 31,
            -(1 << 31),
            (1 << 32) - 1,
            1 << 32,
            1 << 33,
        ]
        share = self.choose(0.0, 0.1, 0.3, 0.6)
        inside = [int(v) for v in self.rng.integers(0, max(1, size), math.prod(dims))]
        drawn = [
            v
            if self.chances.random() >= share
            else self.chances.choice(self.choose(around, around, ends))
            for v in inside
        ]
        held = [v if low <= v <= high else self.chances.choice([0, low, high]) for v in drawn]
        return np.array(held, kind.dtype).reshape(tuple(dims))

    def wide_enough(self, size: int) -> str:
        """A type of indices that holds ``size``: JAX adds it to negative indices in brackets."""
        return str(self.chances.choice([i for i in _INDICES if jnp.iinfo(i).max >= size]))

    def starts(self, dims: Sequence[int], windows: Sequence[int]) -> list[int]:
        """Arguments that are the places of a slice, one for each dimension, of one type (or several)."""
        dtype = self.choose(*_INDICES)
        found = []
        for size, window in zip(dims, windows, strict=True):
            found.append(self.new(self.places((), size, dtype, window=window)))
        return found

    def windows(self, dims: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.choose(1, d, max(1, d // 2), self.chances.randint(1, d)) for d in dims)

    # ---------------------------------------------------------------------------------------------------- steps

    def slice(self, dims: tuple[int, ...]) -> Step:
        windows = self.windows(dims)
        starts = self.starts(dims, windows)
        if self.chance(0.3):
            axis = self.chances.randrange(len(dims))
            return lambda x, given: lax.dynamic_slice_in_dim(
                x, given[starts[axis]], windows[axis], axis
            )
        if self.chance(0.15):
            axis = self.chances.randrange(len(dims))
            return lambda x, given: lax.dynamic_index_in_dim(
                x, given[starts[axis]], axis, keepdims=False
            )
        return lambda x, given: lax.dynamic_slice(x, [given[s] for s in starts], windows)

    def update(self, dims: tuple[int, ...]) -> Step:
        """A slice that is written: another array, or one of the array's own slices, moved."""
        windows = self.windows(dims)
        starts = self.starts(dims, windows)
        if self.chance(0.35):
            others = self.starts(dims, windows)
            return lambda x, given: lax.dynamic_update_slice(
                x, lax.dynamic_slice(x, [given[s] for s in others], windows), [given[s] for s in starts]
            )  # fmt: skip
        update = self.new(self.numbers(windows))
        return lambda x, given: lax.dynamic_update_slice(
            x, given[update], [given[s] for s in starts]
        )

    def index(self, dims: tuple[int, ...]) -> Callable[[Given], Any]:
        """What stands in the brackets behind an array: arrays of places, slices and numbers."""
        count = self.chances.randint(1, min(len(dims), 3))
        axes = self.chances.sample(range(len(dims)), count)
        shape = self.choose((), (3,), (1,), (self.choose(4, 7, 16, 33),), (2, 3), (5, 1))
        parts: list[Any] = []
        for axis, size in enumerate(dims):
            if axis in axes:
                own = shape if self.chance(0.8) else (1,) * len(shape)
                parts.append(self.new(self.places(own, size, self.wide_enough(size))))
            elif self.chance(0.2) and size > 1:
                begin = self.chances.randrange(size)
                parts.append(slice(begin, None, self.choose(1, 1, 2)))
            else:
                parts.append(slice(None))
        return lambda given: tuple(given[p] if isinstance(p, int) else p for p in parts)

    def fill(self) -> Any:
        return self.choose(None, None, 0, 1, 3 if not self.is_bool else 1)

    def read(self, dims: tuple[int, ...]) -> Step:
        index, mode, fill = self.index(dims), self.choose(*_READS[:3]), self.fill()
        if mode != "fill" or (fill is None and self.is_bool):
            fill = None
        return lambda x, given: x.at[index(given)].get(mode=mode, fill_value=fill)

    def take(self, dims: tuple[int, ...]) -> Step:
        axis = self.chances.randrange(len(dims))
        mode = self.choose("clip", "fill", "wrap")
        if self.chance(0.3):
            shape = [self.choose(d, 1) for d in dims]
            shape[axis] = self.choose(1, 3, 9)
            along = self.new(self.places(shape, dims[axis], self.wide_enough(dims[axis])))
            mode = self.choose("clip", "fill", "promise_in_bounds")
            return lambda x, given: jnp.take_along_axis(x, given[along], axis, mode=mode)
        shape = self.choose((), (3,), (17,), (2, 5))
        places = self.new(self.places(shape, dims[axis], self.wide_enough(dims[axis])))
        return lambda x, given: jnp.take(x, given[places], axis, mode=mode)

    def ordered(self, dims: tuple[int, ...]) -> Step:
        """The array or another one in the order of a sort of one of them, of which some places may be left out."""
        axis, other = self.chances.randrange(len(dims)), self.new(self.numbers(dims))
        keys, values = self.choose((0, 0), (0, 0), (0, 1), (1, 0))
        mode = self.choose("clip", "fill", "promise_in_bounds")
        descends, turns, reads_places = self.chance(0.2), self.chance(0.4), self.chance(0.2)
        end = self.choose(dims[axis], dims[axis], max(1, dims[axis] // 2))
        by = self.choose(1, 1, 2)

        def step(x: Array, given: Given) -> Array:
            arrays = (x, given[other])
            places = jnp.argsort(arrays[keys].real, axis, descending=descends)
            if turns:
                places = jnp.flip(places, axis)
            places = lax.slice_in_dim(places, 0, end, by, axis)
            found = jnp.take_along_axis(arrays[values], places, axis, mode=mode)
            return jnp.where(places % 2 == 0, found, 0).astype(x.dtype) if reads_places else found

        return step

    def write(self, dims: tuple[int, ...]) -> Step:
        index, mode = self.index(dims), self.choose(*_WRITES)
        shapes = jax.eval_shape(
            lambda x, *given: x[index(given)],
            jax.ShapeDtypeStruct(dims, self.dtype), *self.arguments,
        ).shape  # fmt: skip
        name = self.choose("set", "add", "add", "min", "max", "multiply", "apply")
        if self.sums_alone:
            name = self.choose("set", "add")
        elif self.is_bool:
            name = self.choose("set", "min", "max")
        elif jnp.issubdtype(self.dtype, jnp.complexfloating) and name in ("min", "max"):
            name = "add"
        if name == "apply":
            return lambda x, given: x.at[index(given)].apply(_absolute, mode=mode)
        if name in ("set", "multiply"):  # whose order would show if values differed
            signed = not self.is_bool and not jnp.issubdtype(self.dtype, jnp.unsignedinteger)
            value = (3 if name == "set" else -1) if signed else 1
            return lambda x, given: getattr(x.at[index(given)], name)(
                jnp.asarray(value, x.dtype), mode=mode
            )
        own = shapes if self.chance(0.7) else shapes[1:]
        update = self.new(self.numbers(own))
        return lambda x, given: getattr(x.at[index(given)], name)(given[update], mode=mode)

    # ------------------------------------------------------------------------- gathers and scatters as they are

    def mode(self) -> Any:
        modes = lax.GatherScatterMode
        return self.choose(modes.CLIP, modes.FILL_OR_DROP, modes.PROMISE_IN_BOUNDS)

    def numbers_of(self, dims: tuple[int, ...]) -> tuple[Any, ...]:
        """The dimension numbers of a gather: dimensions that are indexed, collapsed and shared with the indices."""
        rank = len(dims)
        indexed = sorted(self.chances.sample(range(rank), self.chances.randint(1, rank)))
        shared = []
        if self.chance(0.3) and rank > len(indexed):
            shared = [self.chances.choice([d for d in range(rank) if d not in indexed])]
        windows = list(self.windows(dims))
        collapsed = [d for d in range(rank) if d not in shared and self.chance(0.5)]
        for d in (*collapsed, *shared):
            windows[d] = 1
        batch = [dims[d] for d in shared] + [
            self.choose(1, 2, 3, 7, 16) for _ in range(self.choose(0, 1, 1, 2))
        ]
        order = self.chances.sample(indexed, len(indexed))  # of the numbers of an index
        dtype = self.choose(*_INDICES)
        columns = [self.places(batch, dims[d], dtype, window=windows[d]) for d in order]
        places = self.new(np.stack(columns, -1))
        kept = rank - len(collapsed) - len(shared)
        offsets = sorted(self.chances.sample(range(kept + len(batch)), kept))
        return windows, collapsed, shared, batch, order, places, offsets

    def gather(self, dims: tuple[int, ...]) -> Step:
        windows, collapsed, shared, _, order, places, offsets = self.numbers_of(dims)
        numbers = lax.GatherDimensionNumbers(
            tuple(offsets), tuple(collapsed), tuple(order), tuple(shared), tuple(range(len(shared)))
        )
        mode, fill = self.mode(), None if self.is_bool else self.choose(None, 0, 2)
        fill = fill if mode == lax.GatherScatterMode.FILL_OR_DROP else None
        return lambda x, given: lax.gather(
            x, given[places], numbers, tuple(windows), mode=mode, fill_value=fill
        )

    def scatter(self, dims: tuple[int, ...]) -> Step:
        windows, collapsed, shared, batch, order, places, offsets = self.numbers_of(dims)
        numbers = lax.ScatterDimensionNumbers(
            tuple(offsets), tuple(collapsed), tuple(order), tuple(shared), tuple(range(len(shared)))
        )
        kept = [windows[d] for d in range(len(dims)) if d not in collapsed and d not in shared]
        rest, shape = list(batch), []
        for place in range(len(batch) + len(kept)):
            shape.append((kept if place in offsets else rest).pop(0))
        kinds = [lax.scatter_add, lax.scatter_min, lax.scatter_max]
        if self.is_bool:
            kinds = kinds[1:]
        elif self.sums_alone or jnp.iscomplexobj(np.zeros((), self.dtype)):
            kinds = kinds[:1]
        function, mode = self.chances.choice(kinds), self.mode()
        if self.chance(0.25):  # the same update everywhere
            return lambda x, given: lax.scatter(
                x, given[places], jnp.full(shape, 1, x.dtype), numbers, mode=mode
            )
        update = self.new(self.numbers(shape))
        return lambda x, given: function(x, given[places], given[update], numbers, mode=mode)

    # ------------------------------------------------------------------------------------------------- functions

    def step(self, dims: tuple[int, ...], *, keeps: bool) -> Step:
        """One operation on an array of ``dims``. ``keeps``: its result has these dimensions, too."""
        writes = [self.update, self.write, self.write, self.scatter]
        reads = [self.slice, self.read, self.read, self.take, self.gather, self.ordered]
        made: Step = self.chances.choice(writes if keeps else reads)(dims)
        return made

    def chain(self, dims: tuple[int, ...]) -> Callable[..., Any]:
        """Updates of an array, and reads of what there was and what there is."""
        x = self.new(self.numbers(dims))
        updates = [self.step(dims, keeps=True) for _ in range(self.choose(0, 1, 1, 2, 3))]
        reads = [self.step(dims, keeps=False) for _ in range(self.choose(0, 1, 1, 2))]
        if not updates and not reads:
            updates = [self.step(dims, keeps=True)]
        early = self.chance(0.3)
        before = self.choose(None, None, lambda a: jnp.flip(a, 0), lambda a: bounded(a + a))
        before = None if self.is_bool else before

        def function(*given: Array) -> Any:
            array, results = given[x], []
            if before is not None:
                array = before(array)
            for number, update in enumerate(updates):
                if early and number < len(reads):
                    results.append(reads[number](array, given))
                array = update(array, given)
                if number + 1 < len(updates):
                    array = bounded(array)
            results += [read(array, given) for read in reads[len(results) :]]
            return (array, *results) if updates else tuple(results)

        return function

    def loop(self, dims: tuple[int, ...]) -> Callable[..., Any]:
        """The same in each step of a loop; places move with the counter, past the ends of the array and their type."""
        x = self.new(self.numbers(dims))
        updates = [self.step(dims, keeps=True) for _ in range(self.choose(1, 1, 2))]
        read = self.step(dims, keeps=False) if self.chance(0.5) else None
        steps, by = self.choose(1, 2, 3, 5, 9), self.choose(0, 1, 1, -1, 7, 64)
        are_places = [
            jnp.issubdtype(a.dtype, jnp.integer) and n > x for n, a in enumerate(self.arguments)
        ]
        kind = self.choose("scan", "fori", "while")

        def moved(given: Given, i: Array) -> list[Array]:
            return [
                g + (i * by).astype(g.dtype) if place and g.dtype != self.dtype else g
                for g, place in zip(given, are_places, strict=True)
            ]

        def one(i: Array, array: Array, given: Given) -> tuple[Array, Array]:
            now = moved(given, i)
            seen = read(array, now) if read is not None else array.reshape(-1)[:1]
            for update in updates:
                array = bounded(update(array, now))
            return array, seen

        def function(*given: Array) -> Any:
            if kind == "scan":
                return lax.scan(lambda a, i: one(i, a, given), given[x], jnp.arange(steps))
            _, like = jax.eval_shape(lambda a: one(jnp.int32(0), a, given), given[x])
            begin = (given[x], jnp.zeros(like.shape, like.dtype))
            if kind == "fori":
                return lax.fori_loop(0, steps, lambda i, carry: one(i, carry[0], given), begin)
            return lax.while_loop(
                lambda carry: carry[0] < steps,
                lambda carry: (carry[0] + 1, *one(carry[0], carry[1], given)),
                (jnp.int32(0), *begin),
            )

        return function

    def batch(self, dims: tuple[int, ...]) -> Callable[..., Any]:
        """A chain for each of a few arrays or places, or both."""
        function = self.chain(dims)
        count = self.choose(1, 2, 3, 5)
        axes = [0 if self.chance(0.7) else None for _ in self.arguments]
        if not any(a == 0 for a in axes):
            axes[0] = 0
        for number, axis in enumerate(axes):
            if axis == 0:
                a = self.arguments[number]
                several = [
                    a,
                    *(
                        self.rng.permutation(a.reshape(-1)).reshape(a.shape)
                        for _ in range(count - 1)
                    ),
                ]
                self.arguments[number] = np.stack(several)
        return jax.vmap(function, in_axes=axes)

    def gradient(self, dims: tuple[int, ...]) -> Callable[..., Any]:
        """Of reads by what is read, and of updates by the array: scatters and gathers in the same modes."""
        self.sums_alone = True
        x = self.new(self.numbers(dims))
        step = self.step(dims, keeps=self.chance(0.4))
        made = jax.eval_shape(lambda *given: step(given[x], given), *self.arguments)
        towards = self.new(self.numbers(made.shape))

        def function(*given: Array) -> Array:
            _, back = jax.vjp(lambda a: step(a, given), given[x])
            return back(given[towards])[0]

        return function


def make(seed: int) -> Case:
    """A function with places of run time as JAX lowers it."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    slices = Slices(seed)
    dims = slices.dims()
    kinds = [slices.chain, slices.chain, slices.loop, slices.batch]
    if jnp.issubdtype(slices.dtype, jnp.floating):
        kinds.append(slices.gradient)
    function = slices.chances.choice(kinds)(dims)
    donated = tuple(range(len(slices.arguments))) if seed % 2 == 0 else ()
    return Case(lowered(function, slices.arguments, donated), slices.arguments, xla=True)
