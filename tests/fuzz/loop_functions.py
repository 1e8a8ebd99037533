"""Loops as users of JAX write them: states that are handed on, kept, swapped and written into arrays.

All numbers are small whole ones, so each result is known to the bit. Lengths lie around those of vectors, and of what a
kernel keeps in registers or on the stack; there are few kinds of arithmetic, and many ways for a value to be read
before, after or instead of the one that replaces it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

_SIZES: Final = [1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 100, 130, 257, 1000]
_STEPS: Final = [1, 2, 3, 5, 8, 17, 33]
_DTYPES: Final = ["float32", "float32", "float64", "int32", "bfloat16", "int16"]
_LARGEST: Final = 64  # sums of a few of these are whole numbers of every dtype
_BATCHES: Final = [2, 3, 8, 17]


def bounded(x: Array) -> Array:
    return jnp.clip(x, -_LARGEST, _LARGEST)


def _write_sometimes(array: Array, to: Array, other: Array, value: Array) -> Array:
    return lax.cond(value.sum() > 2, lambda: array.at[to].set(value), lambda: array)


# An array of which row ``to`` becomes something else, from a value and another row.
_WRITES: Final[list[Callable[[Array, Array, Array, Array], Array]]] = [
    lambda array, to, other, value: array.at[to].set(value),
    lambda array, to, other, value: array.at[to].set(bounded(value + other)),
    lambda array, to, other, value: array.at[to].set(other),
    lambda array, to, other, value: array.at[to].max(value, mode="clip"),
    lambda array, to, other, value: array.at[to].set(bounded(array[to] - value)),
    lambda array, to, other, value: lax.dynamic_update_index_in_dim(array, value - 1, to, 0),
    lambda array, to, other, value: jnp.where(jnp.max(other) > 3, array - 1, array),
    _write_sometimes,
]


class Step:
    """What one step does. Every step is traced once, so ``chances`` may be drawn from while it is."""

    def __init__(self, chances: Random, number: Array, rows: int) -> None:
        self.chances = chances
        self.number = number
        self.rows = rows  # of the arrays that are written row by row

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def place(self) -> Array:
        """A row: that of the step, one near it, one that other steps have too; some are outside."""
        i, last = self.number, self.rows - 1
        return self.choose(
            i,
            i,
            i + 1,
            i - 1,
            last - i,
            2 * i,
            i // 2,
            i * 5 % self.rows,
            self.chances.randint(0, last),
        )

    def mixed(self, values: list[Array]) -> Array:
        """A value of the shape and the dtype of the first one, from several of ``values``."""
        x = values[0]
        for _ in range(self.chances.randint(0, 3)):
            other = self.choose(*values)
            if other.shape != x.shape:
                other = other.max() if other.shape else other
            other = other.astype(x.dtype)
            x = self.choose(
                lambda x, y: x + y,
                lambda x, y: x - y,
                lambda x, y: jnp.where(y > 0, x, y),
                jnp.maximum,
                lambda x, y: jnp.where(x > y, x - 3, x + 2),
                lambda x, y: jnp.abs(x) - 1 + 0 * y,
                lambda x, y: jnp.roll(x, 1, -1) + y if x.ndim else x,
                lambda x, y: x[::-1] - y if x.ndim else y - x,
                lambda x, y: (
                    jnp.minimum(x, jnp.sum(x[..., :4], -1, keepdims=True)) if x.ndim else x
                ),
            )(x, other)
        return bounded(x).astype(values[0].dtype)

    def following(self, states: list[Array], row: Array | None) -> list[Array]:
        """The states after the step: new values, others' former ones, and some that stay."""
        new = list(states)
        for n, state in enumerate(states):
            alike = [s for s in states if s.shape == state.shape and s.dtype == state.dtype]
            others = self.choose(states, new, [s for s in states if s is not state] or states)
            if row is not None:
                others = [*others, row]
            kind = self.chances.random()
            if kind < 0.15:
                continue
            if kind < 0.35:
                new[n] = self.choose(*alike)
            elif kind < 0.55:  # not of what it was
                new[n] = self.mixed([jnp.zeros_like(state), *others])
            else:
                new[n] = self.mixed([state, *others])
        return new

    def written(self, array: Array, states: list[Array]) -> Array:
        """``array`` with some of its rows replaced, by values or by other rows of its own."""
        for _ in range(self.chances.randint(1, 2)):
            value = self.mixed([jnp.zeros(array.shape[1:], array.dtype), *states])
            array = self.choose(*_WRITES)(array, self.place(), array[self.place()], value)
        return bounded(array)

    def outputs(self, former: list[Array], new: list[Array], row: Array | None) -> list[Array]:
        """What a scan stacks: states before and after, what is made of them, its rows."""
        choices = [*former, *new, new[0] - former[0], former[-1].sum(), new[0].max()]
        choices += [] if row is None else [row, row[0] if row.ndim else row]
        return [self.choose(*choices) for _ in range(self.chances.randint(1, 3))]


def loop(chances: Random, steps: int) -> Callable[..., Any]:
    """A loop of states, an array whose rows it writes, and rows that it reads."""
    kind = chances.choice(["scan", "scan", "scan", "fori", "while", "until", "nested"])
    reverse, reads, late = chances.random() < 0.3, chances.random() < 0.6, chances.randint(0, 1)
    writes = kind != "scan" or chances.random() < 0.3
    skipped = late if steps > 1 else 0  # XLA:CPU takes no step of two to an end of one
    seed = chances.random()

    def one(i: Array, states: list[Array], array: Array, row: Array | None) -> tuple[Any, ...]:
        step = Step(Random(seed), i, array.shape[0])
        new = step.following(states, row)
        array = step.written(array, step.choose(states, new)) if writes else array
        return new, array, step.outputs(states, new, row)

    def scan(states: list[Array], array: Array, rows: Array) -> Any:
        def body(carry: Any, row: Array | None) -> Any:
            i, states, array = carry
            new, array, made = one(i, states, array, row)
            return (i + 1, new, array), made

        start = (jnp.int32(0), states, array)
        return lax.scan(body, start, rows if reads else None, steps, reverse=reverse)

    def fori(states: list[Array], array: Array, rows: Array) -> Any:
        def body(i: Array, carry: Any) -> Any:
            return one(i, *carry, rows[i] if reads else None)[:2]

        return lax.fori_loop(late, steps, body, (states, array))

    def until(states: list[Array], array: Array, rows: Array) -> Any:
        def unfinished(carry: Any) -> Array:
            i, states, _ = carry
            return (i < steps) & ((kind == "while") | (states[0].sum() < 40))

        def body(carry: Any) -> Any:
            i, states, array = carry
            return i + 1 + skipped, *one(i, states, array, rows[i] if reads else None)[:2]

        return lax.while_loop(unfinished, body, (jnp.int32(0), states, array))

    def nested(states: list[Array], array: Array, rows: Array) -> Any:
        def outer(i: Array, carry: Any) -> Any:
            states, array = carry
            if late:
                array = array.at[i].set(bounded(array[i] + states[0].max().astype(array.dtype)))

            def inner(j: Array, carry: Any) -> Any:
                return one(i + j, *carry, None)[:2]

            return lax.fori_loop(i if reverse else 0, min(steps, 4), inner, (states, array))

        return lax.fori_loop(0, min(steps, 5), outer, (states, array))

    return {"scan": scan, "fori": fori, "nested": nested}.get(kind, until)


def make(seed: int) -> Case:
    """A loop as JAX lowers it, of one system or a batch of them."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances, rng = Random(seed), np.random.default_rng(seed)
    size, steps = chances.choice(_SIZES), chances.choice(_STEPS)
    dims = chances.choice([(size,), (size,), (size,), (size, 3), (2, size), (size, 17)])
    batch = chances.choice([(), (), (chances.choice(_BATCHES),)])
    dtype = jnp.dtype(chances.choice(_DTYPES))
    rows = steps + chances.choice([0, 0, 1, 3])
    shapes = [
        dims if n == 0 or chances.random() < 0.8 else () for n in range(chances.randint(1, 4))
    ]
    shapes += [(rows, *chances.choice([(), dims[-1:], dims])), (steps, *chances.choice([dims, ()]))]
    arguments = [rng.integers(-9, 10, (*batch, *shape)).astype(dtype) for shape in shapes]
    run = loop(chances, steps)

    def function(*given: Array) -> Any:
        return run(list(given[:-2]), *given[-2:])

    donated = tuple(range(len(arguments))) if seed % 3 == 0 else ()
    text = lowered(jax.vmap(function) if batch else function, arguments, donated)
    return Case(text, arguments, xla=True)
