"""Loops of JAX whose steps add products to an array, as those that add up gradients of weights do, and near misses.

The compiler moves such sums behind the loop, where one product contracts the steps too. A step's factors are rows of
inputs, states before and after the step, weights, and what is made of them; what is added may be transposed, scaled,
chosen by a condition or added to what another state or an output reads. All numbers are whole, and small enough for
every dtype, so that each result is known to the bit.
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

_WIDTHS: Final = [1, 3, 16, 48, 63, 64, 65, 72, 96, 100, 128, 129, 257]
_WIDE: Final = [64, 65, 96, 100, 129]
_ROWS: Final = [1, 1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 33]
_STEPS: Final = [1, 2, 2, 3, 4, 5, 8, 9, 16, 17, 33, 40, 65]
# The largest whole number up to which each type holds all of them.
_DTYPES: Final = {"float32": 1 << 20, "float64": 1 << 20, "bfloat16": 1 << 8, "float16": 1 << 11}
_MOST: Final = 3_000_000  # multiplications of all steps of a sum
_MOST_ADDED: Final = 4  # by a step, for each row of its factors
_KINDS: Final = ["scan", "scan", "backwards", "backwards", "fori", "down", "until", "counted", "nested"]  # fmt: skip


class Sizes(NamedTuple):
    """``rows`` of the factors of ``left`` and ``right`` columns, in each of ``steps`` steps."""

    steps: int
    rows: int
    left: int
    right: int


def _sizes(chances: Random, largest: int) -> Sizes:
    steps = chances.choice([n for n in _STEPS if 4 * _MOST_ADDED * n <= largest])
    room = largest // (2 * _MOST_ADDED * steps)
    rows = chances.choice([n for n in _ROWS if n <= room] or [1])
    if chances.random() < 0.7:  # factors of few numbers beside the sum's
        return Sizes(steps, min(rows, chances.choice([8, 16])), *chances.choices(_WIDE, k=2))
    left = chances.choice(_WIDTHS)
    # Sums of 4,096 numbers and more are the ones that move.
    wide = [n for n in _WIDTHS if 4000 <= n * left <= max(_MOST // (steps * rows), 4000)]
    return Sizes(steps, rows, left, chances.choice(wide or _WIDTHS))


def _unit(x: Array) -> Array:
    return jnp.clip(x, -1, 1)


class Step:
    """What one step does with factors. A step is traced once, so ``chances`` may be drawn from while it is."""

    def __init__(self, chances: Random, number: Array, sizes: Sizes, odd: float) -> None:
        self.chances, self.number, self.sizes = chances, number, sizes
        self.odd = odd  # how often something else is done than what the compiler knows

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def is_odd(self) -> bool:
        return self.chances.random() < self.odd

    def place(self) -> Array:
        """Where the step reads: mostly its own number, or one that goes backwards or stays."""
        i, last = self.number, self.sizes.steps - 1
        near = self.choose(last - i, i + 1, i // 2, (i + 1) % max(1, last + 1), i * 5 % (last + 1))
        return near if self.is_odd() else i

    def row(self, array: Array, own: Array | None) -> Array:
        """The part of a step of an array of all steps. ``own``: the one that a scan gives, if it does."""
        if own is not None and not self.is_odd():
            return own
        place = self.place()
        if self.is_odd():
            return array[place]
        return lax.dynamic_index_in_dim(array, place, 0, keepdims=False)

    def factor(self, own: Array, state: Array, following: Array, weights: Array) -> Array:
        """A factor of the shape of ``own``, which is a row of an input."""
        if not self.is_odd():
            return self.choose(own, own, _unit(own + state), state, following)
        options = [
            lambda: state,
            lambda: following,
            lambda: jnp.where(own > 0, following, state),
            lambda: own * (self.number % 2).astype(own.dtype),
            lambda: _unit(own - weights[0]),
            lambda: jnp.broadcast_to(weights[0], own.shape),
            lambda: _unit(own.astype("float32") + 1).astype(own.dtype),
            lambda: jnp.roll(own, 1, 0),
        ]
        return self.choose(*options)()

    def product(self, a: Array, b: Array) -> Array:
        """[left, right] of two factors, whose rows are summed in one of the ways in which that can be written."""
        result = "float32" if self.is_odd() else None

        def rows_apart() -> Array:
            split = [2, a.shape[0] // 2] if a.shape[0] % 2 == 0 and a.shape[0] else [1, a.shape[0]]
            x, y = a.reshape(*split, -1), b.reshape(*split, -1)
            return jnp.einsum("rsm,rsn->mn", x, y, preferred_element_type=result)

        made = self.choose(
            lambda: jnp.matmul(a.T, b, preferred_element_type=result),
            lambda: jnp.matmul(a.T, b, preferred_element_type=result),
            lambda: jnp.matmul(b.T, a, preferred_element_type=result).T,
            lambda: jnp.einsum("rm,rn->mn", a, b, preferred_element_type=result),
            rows_apart,
            lambda: jnp.einsum("rm,rn->rmn", a, b).sum(0),
            lambda: jnp.outer(a[0], b[0]) if a.shape[0] == 1 else a.T @ b,
        )()
        return made if result is None and made.dtype == a.dtype else made.astype(a.dtype)

    def added(self, total: Array, made: Array, other: Array) -> Array:
        """The sum after the step: mostly ``total + made``, in some order."""
        if not self.is_odd():
            return self.choose(lambda: total + made, lambda: made + total)()
        flat = made.reshape(-1)
        odd = self.number % 2 == 1
        return self.choose(
            lambda: total - made,
            lambda: total + 2 * made,
            lambda: total + made + other,
            lambda: (total + other) + made,
            lambda: total + jnp.where(odd, made, 0).astype(made.dtype),
            lambda: jnp.where(odd, total + made, total),
            lambda: lax.cond(odd, lambda: total + made, lambda: total),
            lambda: made - total,
            lambda: total + flat[::-1].reshape(made.shape),
            lambda: total + jnp.abs(made),
            lambda: jnp.maximum(total, made),
            lambda: total + made * jnp.asarray(-1, made.dtype),
            lambda: (total.astype("float32") + made.astype("float32")).astype(total.dtype),
        )()


class Loop:
    """A loop of states, weights, inputs and sums, by the numbers that were drawn for it."""

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        name = self.chances.choice(["float32", "float32", *_DTYPES])
        self.dtype = jnp.dtype(name)
        self.sizes = _sizes(self.chances, _DTYPES[name])
        self.kind = self.chances.choice(_KINDS)
        self.sums = self.chances.choice([1, 1, 2, 3])
        self.seed, self.odd = self.chances.random(), self.chances.choice([0.0, 0.1, 0.3])
        self.arguments: list[np.ndarray] = []

    def new(self, *shape: int, dtype: Any = None) -> int:
        values = self.rng.integers(-1, 2, shape)
        self.arguments.append(values.astype(dtype or self.dtype))
        return len(self.arguments) - 1

    def permutation(self, size: int) -> int:
        """Weights by which a number between -1 and 1 stays there: a permutation with signs, some of whose are 0."""
        values = np.zeros((size, size))
        values[np.arange(size), self.rng.permutation(size)] = self.rng.integers(-1, 2, size)
        self.arguments.append(values.astype(self.dtype))
        return len(self.arguments) - 1

    def made(self) -> Callable[..., Any]:
        """The function of the arguments."""
        steps, rows, left, right = self.sizes
        narrow = self.chances.choice([None, None, None, "int8"])
        a, b = self.new(steps, rows, left, dtype=narrow), self.new(steps, rows, right)
        across = self.chances.random() < 0.2
        if across:  # columns first, where a step's rows lie apart
            self.arguments[b] = np.ascontiguousarray(self.arguments[b].swapaxes(1, 2))
        h, g = self.new(rows, left), self.new(rows, right)
        w, v = self.permutation(left), self.permutation(right)
        starts = [self.new(left, right) for _ in range(self.sums)]
        count = None
        if self.kind == "counted":  # how many steps is not known to the compiler
            self.arguments.append(np.asarray(self.chances.randint(0, steps), np.int32))
            count = len(self.arguments) - 1
        # What each step reads besides: factors that the compiler keeps are few beside it.
        more = self.chances.random() < 0.6
        z = self.new(steps, rows, 2 * (left + right)) if more else a
        stacks, reads = self.chances.random() < 0.5, self.chances.random() < 0.5 * self.odd

        def one(
            i: Array, states: Any, given: Sequence[Array], rows: Sequence[Any] = (None,) * 3
        ) -> tuple[Any, Any]:
            step = Step(Random(self.seed), i, self.sizes, self.odd)
            h, g, *totals = states
            h = (
                jnp.where(step.row(given[z], rows[2]).max(1, keepdims=True) < 1, -h, h)
                if more
                else h
            )
            x = step.row(given[a], rows[0]).astype(self.dtype)
            y = step.row(given[b], rows[1])
            y = y.T if across else y
            new_h = step.choose(
                lambda: _unit(x + h @ given[w]),
                lambda: h @ given[w],
                lambda: _unit(x - jnp.roll(h, 1, 1)),
                lambda: h,
            )()
            new_g = step.choose(
                lambda: g, lambda: _unit(g @ given[v] + y), lambda: jnp.where(y > 0, y, -g)
            )()
            new = []
            for n, total in enumerate(totals):
                p = step.factor(x, h, new_h, given[w])
                q = step.factor(y, g, new_g, given[v])
                made = step.product(p, q)
                near = [t for t in totals if t is not total]
                other = step.choose(made, *near) if reads else jnp.zeros((), self.dtype)
                other = _unit(other) if reads else other
                new.append(step.added(total, made, other))
                if n == 0:
                    out = step.choose(
                        lambda q=q: q @ given[v],
                        lambda p=p: p @ given[w],
                        lambda p=p: p.max(),
                        lambda p=p: (p @ given[w])[None],
                    )()
            if reads and step.is_odd():
                out = new[0].max()
            if step.is_odd():
                new_g = _unit(new_g + new[0].max())
            return [new_h, new_g, *new], out if stacks else None

        def function(*given: Array) -> Any:
            start = [given[h], given[g], *[given[n] for n in starts]]
            read = tuple(given[n] for n in (a, b, z))
            return self.run(one, start, given, read, None if count is None else given[count])

        return function

    def run(
        self,
        one: Callable[..., Any],
        start: list[Array],
        given: Sequence[Array],
        read: tuple[Array, ...],
        count: Any,
    ) -> Any:
        steps = self.sizes.steps
        if self.kind in ("scan", "backwards"):

            def body(carry: Any, at: Any) -> Any:
                return one(at[0], carry, given, at[1:])

            every = (jnp.arange(steps), *read)
            return lax.scan(body, start, every, reverse=self.kind == "backwards")
        if self.kind == "fori":
            return lax.fori_loop(0, steps, lambda i, s: one(i, s, given)[0], start)
        if self.kind == "nested":
            inner, apart = max(1, steps // 2), self.chances.choice([0, 1])

            def outer(j: Array, states: Any) -> Any:
                return lax.fori_loop(0, inner, lambda i, s: one(i + apart * j, s, given)[0], states)

            return lax.fori_loop(0, 2, outer, start)
        counters = self.chances.choice(["int32", "int8", "uint8"])
        down = self.kind == "down"
        at = self.chances.choice([0, 2])  # a state or a sum, by which the loop ends
        first, last = (steps - 1, -1) if down and counters != "uint8" else (0, steps)
        by = -1 if last < 0 else 1

        def unfinished(carry: Any) -> Array:
            i, states = carry
            if self.kind == "until":
                return (i < last) & (states[at].max() < 1 + 4 * at)
            return i < count if count is not None else i != last if down else i < last

        def advance(carry: Any) -> Any:
            i, states = carry
            return i + jnp.asarray(by, i.dtype), one(i.astype("int32"), states, given)[0]

        return lax.while_loop(unfinished, advance, (jnp.asarray(first, counters), start))


def _recurrent(loop: Loop) -> Callable[..., Any]:
    """The gradients of a recurrent layer whose numbers stay between -1 and 1."""
    steps, rows, left, right = loop.sizes
    x, h = loop.new(steps, rows, left), loop.new(rows, right)
    into, w = loop.new(left, right), loop.permutation(right)
    # Of each column one number, so that states and their slopes are as small as those of the inputs.
    keep = np.zeros((left, right))
    keep[loop.rng.integers(0, left, right), np.arange(right)] = 1
    loop.arguments[into] = (loop.arguments[into] * keep).astype(loop.dtype)
    reverse, gated = loop.chances.random() < 0.3, loop.chances.random() < 0.4
    # Slopes of all steps add up.
    every = loop.chances.random() < 0.4 and loop.dtype.itemsize >= 4
    towards = loop.new(*([steps] if every else []), rows, right)

    def cell(h: Array, x: Array, into: Array, w: Array) -> Array:
        mixed = x @ into + h @ w if not gated else jnp.where(x @ into > 0, h @ w, 0)
        # Its slope is 0 or 1, which that of clip is not at its ends.
        return jnp.where(jnp.abs(mixed) <= 1, mixed, 0).astype(h.dtype)

    def layer(x: Array, h: Array, into: Array, w: Array) -> Array:
        def step(h: Array, x: Array) -> Any:
            h = cell(h, x, into, w)
            return h, h if every else None

        last, stacked = lax.scan(step, h, x, reverse=reverse)
        return stacked if every else last

    def function(*given: Array) -> Any:
        made, back = jax.vjp(layer, given[x], given[h], given[into], given[w])
        return made, back(given[towards])

    return function


def make(seed: int) -> Case:
    """A loop as JAX lowers it, of one system or a batch of them."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    loop = Loop(seed)
    # XLA:CPU takes a product over one term for a multiplication, which gives -0 where the sum is 0.
    judged_by_xla = min(loop.sizes[1:]) > 1
    function = _recurrent(loop) if loop.chances.random() < 0.25 else loop.made()
    arguments = loop.arguments
    if loop.chances.random() < 0.12:
        pairs = [np.stack([a, np.flip(a, -1) if a.ndim else a]) for a in arguments]
        axes = [0 if a.ndim and loop.chances.random() < 0.7 else None for a in arguments]
        if any(axis == 0 for axis in axes):
            chosen = [p if axis == 0 else a for p, a, axis in zip(pairs, arguments, axes, strict=True)]  # fmt: skip
            function, arguments = jax.vmap(function, axes), chosen
    donated = tuple(range(len(arguments))) if seed % 3 == 0 else ()
    return Case(lowered(function, arguments, donated), arguments, xla=judged_by_xla)
