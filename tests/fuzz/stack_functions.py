"""Loop after loop of JAX, each of which reads a stack of rows that another one has written, and what reads them at the
end.

Where a stack ends with the loop that reads it, what the loop writes may lie in the same memory; what reads large
arrays last comes early. So rows are read and written at the same place of each step, and at places beside it; stacks
are read once, twice, behind the loop and in other loops, are pieces, reversals or other shapes of others, and are given
away. All numbers are small whole ones, and the matrices permute with signs, so each result and each gradient is known
to the bit.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

_ROWS: Final = [1, 2, 3, 4, 5, 8, 9, 17, 33]
_WIDTHS: Final = [4, 8, 16, 17, 33, 64]
_HEIGHTS: Final = [0, 0, 1, 2, 8, 16, 32]  # of a row; 0: it is a vector
_DTYPES: Final = ["float32", "float32", "float32", "float64", "int32"]
_LARGEST: Final = 64
_MOST_STEPS: Final = 3  # of a loop in a step
_KINDS: Final = [
    *["scan"] * 6, *["places"] * 4, "nested", "in a branch", "gradient", "gradient", "written in place",
]  # fmt: skip


def bounded(x: Array) -> Array:
    return jnp.clip(x, -_LARGEST, _LARGEST)


class Program:
    """A function of stacks [rows, ..., width] and of matrices [width, width]. It is traced once, so that it draws what
    it does from ``chances`` meanwhile.
    """

    def __init__(self, chances: Random, rows: int) -> None:
        self.chances, self.rows = chances, rows

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def chance(self, share: float) -> bool:
        return self.chances.random() < share

    def step(self, c: Array, rows: list[Array], w: Array) -> Array:
        """The next state of a loop: a product, which keeps the loop's steps apart, and a row or more."""
        new = c @ w
        for row in rows:
            row = row.astype(c.dtype)
            new = self.choose(
                lambda a, b: a + b,
                lambda a, b: a - b,
                lambda a, b: jnp.where(b > 2, a, b),
                lambda a, b: a + b @ w,
                lambda a, b: jnp.maximum(a, b) - 1,
            )(new, row)
        if self.chance(0.1):
            new = self.repeated(bounded(new), w)
        return bounded(new)

    def repeated(self, c: Array, w: Array) -> Array:
        """A loop in the step that ends when data says so."""

        def unfinished(state: Any) -> Array:
            return (state[0] < _MOST_STEPS) & (state[1].sum() > 3)

        def advance(state: Any) -> Any:
            return state[0] + 1, bounded(state[1] @ w - 1)

        return lax.while_loop(unfinished, advance, (jnp.int32(0), c))[1]

    def output(self, c: Array, new: Array, rows: list[Array]) -> Array:
        """What a step writes: a row of the size of those that it reads, mostly."""
        row = self.choose(*rows).astype(c.dtype)
        ways = [lambda: new] * 4
        ways += [lambda: c, lambda: new - row, lambda: row + 1, lambda: jnp.flip(new), lambda: row]
        ways += [lambda: new.reshape(-1), lambda: new.astype(jnp.int32), lambda: new.max(0)]
        if new.dtype == jnp.float32 and new.ndim > 1 and not new.shape[0] % 2:
            ways.append(lambda: new[::2].astype(jnp.float64))
        return bounded(self.choose(*ways)())

    def whole(self, stack: Array, like: Array) -> Array:
        """A stack of the shape and dtype of ``like`` from what a loop has written."""
        stack = stack.astype(like.dtype)
        if stack.size == like.size:
            return stack.reshape(like.shape)
        if stack.ndim < like.ndim:
            return jnp.broadcast_to(stack[:, None], like.shape)
        return jnp.concatenate([stack, stack], 1)

    def scan(self, stacks: list[Array], w: Array) -> list[Array]:
        """A scan over one to three stacks, some of them the same, with one to three outputs."""
        inputs = [self.choose(*stacks[-2:], *stacks) for _ in range(self.choose(1, 1, 1, 2, 3))]
        captured = self.choose(*[None] * 6, inputs[0], stacks[0])
        place, outputs = self.chances.randrange(self.rows), self.choose(1, 1, 2, 3)

        def body(c: Array, rows: list[Array]) -> Any:
            rows = list(rows)
            if captured is not None:
                rows.append(self.choose(captured[place], captured.max(0)))
            new = self.step(c, rows, w)
            return new, [self.output(c, new, rows) for _ in range(outputs)]

        start = self.choose(jnp.zeros_like(inputs[0][0]), inputs[0][place])
        last, made = lax.scan(body, start, inputs, reverse=self.chance(0.3))
        made = [self.whole(m, inputs[0]) for m in made]
        return [bounded(made[0] + last), *made[1:]] if self.chance(0.2) else made

    def places(self, stacks: list[Array], w: Array) -> list[Array]:
        """A loop that reads and writes rows at places that it computes, some of them beyond the ends."""
        x, other = self.choose(stacks[-1], self.choose(*stacks)), self.choose(*stacks)
        last = self.rows - 1
        start = self.choose(jnp.zeros_like(x), jnp.zeros_like(x), x, other)
        lines = [lambda i: i] * 5
        lines += [
            lambda i: last - i,
            lambda i: i + 1,
            lambda i: i - 1,
            lambda i: i * 2,
            lambda i: i // 2,
        ]
        lines += [lambda i: jnp.minimum(i + 1, last), lambda i: jnp.maximum(i - 1, 0)]
        read, written = self.choose(*lines), self.choose(*lines, *[None] * 6)
        written = written or read
        late = self.chance(0.2)  # what is read after the row was written
        first, end = self.choose((0, self.rows), (0, self.rows), (1, self.rows), (0, last))
        number = self.choose(
            lambda i: i, lambda i: i.astype(jnp.int16), lambda i: i.astype(jnp.uint32)
        )
        again = self.choose(*[None] * 5, x, other)

        def body(i: Array, state: Any) -> Any:
            c, out = state
            n = number(i) if self.chance(0.2) else i
            rows = [lax.dynamic_index_in_dim(x, read(n), 0, keepdims=False)]
            if again is not None:
                rows.append(
                    lax.dynamic_index_in_dim(again, self.choose(*lines)(i), 0, keepdims=False)
                )
            new = self.step(c, rows, w)
            out = lax.dynamic_update_index_in_dim(out, new, written(n), 0)
            if late:
                row = lax.dynamic_index_in_dim(
                    self.choose(x, out), self.choose(*lines)(i), 0, keepdims=False
                )
                new = bounded(new - row)
            return new, out

        c, out = lax.fori_loop(first, end, body, (jnp.zeros_like(x[0]), start))
        return [bounded(out + c) if self.chance(0.2) else out]

    def nested(self, stacks: list[Array], w: Array) -> list[Array]:
        """Loops in the steps of a loop, whose states are stacks."""
        count, swaps = self.choose(1, 2, 3), self.chance(0.5)

        def body(carry: Any, _: None) -> Any:
            x, y = carry
            new = self.choose(self.scan, self.places)([y, x], w)[0]
            return ((y, new) if swaps else (new, y)), None

        x, y = lax.scan(body, (stacks[-1], self.choose(*stacks)), None, length=count)[0]
        return self.choose([x], [x, y])

    def in_a_branch(self, stacks: list[Array], w: Array) -> list[Array]:
        """A loop that runs or not."""
        x = stacks[-1]
        other = self.choose(*stacks)

        def no() -> Array:
            return self.choose(x, other, bounded(x + 1), x[::-1])

        def yes() -> Array:
            return self.choose(self.scan, self.places)([other, x], w)[0]

        return [
            lax.cond(
                x.sum() > self.choose(-20, 0, 20), *self.choose((yes, no), (no, yes), (yes, yes))
            )
        ]

    def gradient(self, stacks: list[Array], w: Array) -> list[Array]:
        """The gradient of a scan, whose steps keep what the gradient's steps read."""
        x = stacks[-1]
        if x.dtype.kind != "f":
            return self.scan(stacks, w)
        reverse = self.chance(0.3)

        def total(x: Array, w: Array) -> Array:
            def body(c: Array, row: Array) -> Any:
                new = bounded(c @ w + row)
                return new, new if self.chance(0.5) else jnp.where(row > 0, new, row)

            made = lax.scan(body, jnp.zeros_like(x[0]), x, reverse=reverse)[1]
            return jnp.where(stacks[0] > 0, made, 0).sum()

        value, gradients = jax.value_and_grad(total, self.choose((0,), (0, 1)))(x, w)
        made = [bounded(gradients[0])]
        if len(gradients) > 1:
            made.append(bounded(gradients[0] + gradients[1].max() - value.clip(-9, 9)))
        return made

    def written_in_place(self, stacks: list[Array], w: Array) -> list[Array]:
        """A row or a few of a stack are replaced."""
        x, row = stacks[-1], self.chances.randrange(self.rows)
        return [
            self.choose(
                x.at[row].add(1), x.at[:row].set(0), x.at[row].set(x[0] - 1), x.at[:, ..., 0].set(2)
            )
        ]

    def turned(self, stacks: list[Array]) -> Array:
        """A stack that is a piece of another one, or has its rows in another order."""
        x, y = stacks[-1], self.choose(*stacks)
        both = jnp.concatenate([x, y])
        return self.choose(
            x[::-1],
            both[: self.rows],
            both[self.rows :],
            both[1 : self.rows + 1],
            x.reshape(-1)[::-1].reshape(x.shape),
            x.reshape(self.rows, -1).T.reshape(x.shape),
            bounded(x @ jnp.ones((x.shape[-1], x.shape[-1]), x.dtype)),
            bounded(x - y),
            jnp.where(x > 0, x, 1 - x),
        )

    def read_last(self, stacks: list[Array], w: Array) -> Array:
        """A few numbers of a stack."""
        x, y = self.choose(*stacks), self.choose(*stacks)
        width = x.shape[-1]
        flat, other = (s.reshape(-1, width) for s in (x, y))
        return self.choose(
            x.sum(),
            x.max(0),
            x.sum(-1),
            w - flat.T @ other,
            flat.T @ flat,
            x.min(),
            w + (flat * other).sum(0),
        )

    def run(self, given: list[Array], w: Array) -> list[Array]:
        stacks = list(given)
        kinds = [self.choose(*_KINDS) for _ in range(self.choose(1, 2, 3, 3, 4, 5))]
        for kind in kinds:
            if self.chance(0.3):
                stacks.append(self.turned(stacks))
            stacks += getattr(self, kind.replace(" ", "_"))(stacks, w)
            if self.chance(0.4):  # only what was made last goes on
                stacks = stacks[-2:]
        results = [self.read_last(stacks, w) for _ in range(self.choose(0, 0, 1, 2, 5))]
        results += [s for s in stacks[:-1] if self.chance(0.15)]
        return [self.choose(stacks[-1], stacks[-1] + stacks[-1]), *results]


def make(seed: int) -> Case:
    """The program of a seed, as JAX lowers it, of one system or a batch of them."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances, numbers = Random(seed), np.random.default_rng(seed)
    rows, width, height = (chances.choice(c) for c in (_ROWS, _WIDTHS, _HEIGHTS))
    dims = (rows, height, width) if height else (rows, width)
    batch = chances.choice([()] * 9 + [(2,), (3,)])
    dtype = jnp.dtype(chances.choice(_DTYPES))
    count = chances.choice([1, 1, 2, 3])
    arguments = [numbers.integers(-5, 6, (*batch, *dims)).astype(dtype) for _ in range(count)]
    signs = numbers.choice([-1, 1], width)
    arguments.append((np.eye(width)[numbers.permutation(width)] * signs).astype(dtype))
    program = Program(chances, rows)

    def function(*given: Array) -> list[Array]:
        return program.run(list(given[:-1]), given[-1])

    donated = tuple(n for n in range(len(arguments)) if chances.random() < 0.4)
    run = jax.vmap(function, (*[0] * count, None)) if batch else function
    return Case(lowered(run, arguments, donated), arguments, xla=True)
