"""Loops whose large states change places: such loops take two steps at a time, so that they copy less.

States swap and rotate, stay, are written in place, or become what was read around each place of others. Loops have a
known or an unknown number of steps, or end when data says so; they stand in one another, one behind the other and in
batches, and steps have branches. Some states begin with the same argument, or with one that is donated to the result
of another state; some steps draw random bits. All numbers are small whole ones.
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
from tests.fuzz.stencil_functions import bounded, stage

Array = Any
States = tuple[Array, ...]

# Arrays around the 16 KB from which on a copy is worth two steps at a time (Costs.thunks.alternated), arrays of 64 KB
# and more, of whose loops chains are made, and small ones.
_SHAPES: Final = [
    (64, 64), (64, 64), (63, 65), (32, 129), (4096,), (4097,), (16, 16, 17), (2, 2050), (300, 16), (50, 90),
    *[(64, 260), (64, 270), (33, 700), (20, 900)] * 2, (130, 200), (16, 33, 65), (128, 128), (9, 30, 64),
    (17,), (9, 33), (1, 1),
]  # fmt: skip
_OF_BATCHES: Final = [(64, 64), (33, 65), (1030,), (8, 8), (5,)]
_DTYPES: Final = [
    *["float32"] * 4, "float64", "int32", "int16", "bfloat16", "complex64", "uint8",
]  # fmt: skip
_KINDS: Final = ["known", "known", "unknown", "unknown", "until", "until", "scan", "flagged"]
_STEPS: Final = [0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 9]
_LONGEST_ROW: Final = 300  # that is sorted, summed up or multiplied


def _whole(x: Array) -> Array:
    """Small numbers of every dtype, without negative zeros."""
    x = bounded(x)
    return jnp.where(x == 0, jnp.zeros_like(x), x)


class Step:
    """What a step does, by the numbers of ``seed``: the same however often it is traced."""

    def __init__(self, seed: int, number: Array) -> None:
        self.chances = Random(seed)
        self.number = number  # of the step, an int32

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def chance(self, share: float) -> bool:
        return self.chances.random() < share

    def read_around(self, values: list[Array]) -> Array:
        """What no kernel writes over what it reads: other places of a value, all of a row, or products."""
        x = self.choose(*values)
        axis = self.chances.randrange(x.ndim)
        size = x.shape[axis]
        ways: list[Callable[[], Array]] = [lambda: stage(self.chances, values)] * 4
        ways += [lambda: jnp.flip(x, axis), lambda: jnp.flip(x)]
        ways.append(lambda: jnp.take(x, (jnp.arange(size) * 3 + self.number) % size, axis))
        if x.ndim > 1 and x.shape[-1] == x.shape[-2]:
            ways += [lambda: jnp.swapaxes(x, -1, -2)] * 3
        if size <= _LONGEST_ROW and not jnp.iscomplexobj(x):
            ways.append(lambda: jnp.sort(x, axis))
            ways.append(lambda: lax.cummax(x, axis))
            ways.append(lambda: x - x.max(axis, keepdims=True))
        if x.ndim > 1 and 1 < x.shape[-1] <= _LONGEST_ROW and x.dtype.kind not in "uc":
            ways.append(lambda: x @ jnp.roll(jnp.eye(x.shape[-1], dtype=x.dtype), 1, 0))
        return _whole(self.choose(*ways)())

    def in_place(self, x: Array, values: list[Array]) -> Array:
        """``x`` with some of its places written over, also by others of its own."""
        other = self.choose(*values)
        rows = x.shape[0]
        at = self.number * self.choose(1, 1, 2, 5) % rows
        part = lax.slice_in_dim(self.choose(x, other), 0, max(1, rows // 2), axis=0)
        ways: list[Callable[[], Array]] = [
            lambda: x.at[at].set(other[rows - 1 - at]),
            lambda: x.at[at].set(_whole(x[at - 1] + other[at])),
            lambda: lax.dynamic_update_slice_in_dim(x, part, self.number, 0),
            lambda: _whole(x.at[jnp.arange(min(rows, 5)) * 2 % rows].add(1)),
        ]
        return self.choose(*ways)()

    def elementwise(self, x: Array, values: list[Array]) -> Array:
        y = self.choose(*values)
        ways = [lambda: x + y, lambda: x - y, lambda: jnp.where(x == y, x + 1, y), lambda: x + 1]
        return _whole(self.choose(*ways)())

    def random(self, x: Array) -> Array:
        """``x`` with bits that are drawn anew in each step."""
        key = jax.random.fold_in(jax.random.key(self.chances.randrange(99)), self.number)
        return _whole(x + (jax.random.bits(key, x.shape, "uint8") % 3).astype(x.dtype))

    def changed(self, states: list[Array], draws: bool) -> list[Array]:
        """The states after a step: former ones at other places, and new ones of former and of new ones."""
        new = list(states)
        count = len(states)
        if self.chance(0.4):  # fields of a solver, of which each is made of the others
            for n in self.chances.sample(range(count), count):
                new[n] = _whole(stage(self.chances, self.choose(states, new, [*states, *new])))
            return self.choose(new, new, [new[-1], *states[:-1]], [states[-1], *new[:-1]])
        order = self.choose(
            [*range(1, count), 0],  # all rotate
            [count - 1, *range(count - 1)],
            self.chances.sample(range(count), count),
            [self.chances.randrange(count) for _ in states],  # one is kept twice
        )
        for n in self.chances.sample(range(count), count):
            values = self.choose(states, states, new, [*states, *new])
            kind = self.chances.random()
            if kind < 0.4:
                new[n] = states[order[n]]
            elif kind < 0.7:
                new[n] = self.read_around(values)
            elif kind < 0.8:
                new[n] = self.in_place(self.choose(states[n], states[order[n]]), values)
            elif kind < 0.9:
                new[n] = self.elementwise(states[n], values)
        if draws:
            new[0] = self.random(new[0])
        return new

    def following(self, states: States, draws: bool) -> States:
        """The same, where some of it may depend on the number of the step or on data."""
        if not self.chance(0.2):
            return tuple(self.changed(list(states), draws))
        seed = self.chances.getrandbits(32)
        decided = self.choose(self.number % 2 == 0, states[0].real.max() > 5, self.number > 2)

        def branch(inner: int) -> Callable[..., States]:
            return lambda *s: tuple(Step(inner, self.number).changed(list(s), draws))

        other = self.choose(branch(seed + 1), lambda *s: s, lambda *s: s[::-1])
        return lax.cond(decided, branch(seed), other, *states)  # type: ignore[no-any-return]


def _is_unfinished(kind: int, states: States) -> Array:
    """A condition on data, which holds for some steps as a rule."""
    first, last = states[0].real, states[-1].real
    return [
        lambda: first.max() < 14,
        lambda: jnp.any(first != last),
        lambda: first.reshape(-1)[0] < 9,
        lambda: last.astype(jnp.int32).sum() < 30_000,
    ][kind]()


def _loop(chances: Random, draws: bool, depth: int = 0) -> Callable[[Array, States], Any]:
    """A function of a number of steps, which is not known, and of states: the states after a loop, and its outputs."""
    kind = chances.choice(_KINDS)
    steps, seed, data = chances.choice(_STEPS), chances.getrandbits(32), chances.randrange(4)
    stacks = chances.random() < 0.5
    inner = _loop(chances, draws, depth + 1) if depth == 0 and chances.random() < 0.2 else None
    first = chances.choice([0, 0, 1, -2])

    def step(number: Array, states: States) -> States:
        number = jnp.asarray(number, jnp.int32)
        made = Step(seed, jnp.abs(number)).following(states, draws)
        return inner(number % 3, made)[0] if inner is not None else made

    def known(count: Array, states: States) -> Any:
        return lax.fori_loop(first, first + steps, step, states), ()

    def unknown(count: Array, states: States) -> Any:
        return lax.fori_loop(first, first + count, step, states), ()

    def until(count: Array, states: States) -> Any:
        def unfinished(carry: Any) -> Array:
            return (carry[0] < steps) & _is_unfinished(data, carry[1])

        i, states = lax.while_loop(
            unfinished, lambda c: (c[0] + 1, step(c[0], c[1])), (jnp.int32(0), states)
        )
        return states, (i,)

    def flagged(count: Array, states: States) -> Any:
        """Until a state of its own says so, which a step makes of data and no condition but that one reads."""

        def body(carry: Any) -> Any:
            _, i, states = carry
            states = step(i, states)
            return (i < count) & _is_unfinished(data, states), i + 1, states

        begin = (count > 0, jnp.int32(0), states)
        _, i, states = lax.while_loop(lambda c: c[0], body, begin)
        return states, (i,)

    def scan(count: Array, states: States) -> Any:
        def body(carry: States, number: Array) -> Any:
            after = step(number, carry)
            rows = (carry[0][..., -1], after[-1].real.max()) if stacks else after[0].real.max()
            return after, rows

        states, rows = lax.scan(body, states, jnp.arange(max(steps, 1), dtype=jnp.int32))
        return states, (rows,)

    usual: dict[str, Callable[[Array, States], Any]] = {
        "known": known,
        "unknown": unknown,
        "until": until,
        "scan": scan,
    }
    return usual.get(kind, flagged)


def _program(chances: Random) -> Callable[..., Any]:
    """A function of a number of steps and of arrays: a loop, or two of which the second takes what the first gives."""
    draws = chances.random() < 0.15
    loops = [_loop(chances, draws) for _ in range(chances.choice([1, 1, 1, 2]))]
    seed = chances.getrandbits(32)

    def function(count: Array, *arrays: Array) -> list[Array]:
        inner = Random(seed)
        # As many states as arrays or one more, some of which begin with the same array, or with a constant.
        states = list(inner.sample(arrays, len(arrays)))
        if inner.random() < 0.4:
            states.append(inner.choice([states[0], jnp.zeros_like(states[0]), states[0] + 1]))
        if inner.random() < 0.2:
            states[0] = states[-1]
        results: list[Array] = []
        for loop in loops:
            after, outputs = loop(count, tuple(states))
            results += [o for o in jax.tree.leaves(outputs) if inner.random() < 0.7]
            states = list(inner.choice([after, after[::-1]]))
        kept = inner.sample(states, inner.randint(1, len(states)))
        if inner.random() < 0.3:  # an argument is read behind the loop
            kept.append(_whole(inner.choice(arrays) + states[0]))
        return [*kept, *results]

    return function


def make(seed: int) -> Case:
    """The program of a seed, as JAX lowers it."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances, numbers = Random(seed), np.random.default_rng(seed)
    batch = chances.choice([0] * 6 + [2, 3])
    shape = chances.choice(_OF_BATCHES if batch else _SHAPES)
    dtype = jnp.dtype(chances.choice(_DTYPES))
    low = 0 if dtype.kind == "u" else -4
    dims = (batch, *shape) if batch else shape
    count = np.asarray(chances.choice(_STEPS), np.int32)
    if batch and chances.random() < 0.5:  # systems that end after other numbers of steps
        count = numbers.integers(0, 5, batch).astype(np.int32)
    arrays = [
        numbers.integers(low, 5, dims).astype(dtype) for _ in range(chances.choice([1, 2, 2, 3, 4]))
    ]
    function = _program(chances)
    if batch:
        function = jax.vmap(function, (0 if count.ndim else None, *[0] * len(arrays)))
    donated = tuple(n + 1 for n in range(len(arrays)) if chances.random() < 0.4)
    arguments = [count, *arrays]
    return Case(lowered(function, arguments, donated), arguments, xla=True)
