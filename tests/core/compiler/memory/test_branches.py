"""Arrays that die in the branches of a conditional: each branch may write over its share of them."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.formats.artifact import Conditional, Copy, walk
from tripont.core.compiler.memory import liveness
from tripont.core.compiler.memory.liveness import Liveness, liveness_of
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.loops import compiled, read
from tests.core.compiler.simulate import Simulation

ROWS = 64


def rolled(h):
    """A new array, whose elements are not those at the same places of ``h``."""
    return jnp.roll(h, 1, 0) * 0.5 + jnp.roll(h, 1, 1)


# Each takes a number, which chooses a branch, an array [ROWS, 8] and a row, and begins with an array that is not a
# parameter: a parameter's memory is the caller's.


def rows_of_both(n, h, x):
    return lax.cond(n > 0, lambda h: h.at[3].set(x), lambda h: h.at[5].add(x), rolled(h))


def rows_of_three(n, h, x):
    branches = [lambda h: h.at[3].set(x), lambda h: h, lambda h: h.at[1].mul(h[2])]
    return lax.switch(n, branches, rolled(h))


def elementwise(n, h, x):
    return lax.cond(n > 0, lambda h: h * 2, lambda h: jnp.tanh(h) + x, rolled(h))


def read_late_in_one(n, h, x):
    def second(h):
        y = rolled(rolled(h)).sum(1)
        return h.at[:, 2].set(y)

    return lax.cond(n > 0, lambda h: h.at[3].set(x), second, rolled(h))


def two_arrays(n, h, x):
    return lax.cond(
        n > 0,
        lambda a, b: (a.at[2].set(x), b.at[3].add(x)),
        lambda a, b: (a.at[3].add(b[0]), b.at[2].set(x)),
        *(rolled(h), rolled(h + 1)),
    )


def a_branch_in_a_branch(n, h, x):
    def inner(h):
        return lax.cond(n > 1, lambda h: h.at[4].set(x), lambda h: h.at[2].add(x), h.at[0].set(x))

    return lax.cond(n > 0, inner, lambda h: h.at[5].mul(x), rolled(h))


def a_loop_in_a_branch(n, h, x):
    def inner(h):
        return lax.fori_loop(0, n, lambda i, h: h.at[i].set(x), h)

    return lax.cond(n > 0, inner, lambda h: h.at[5].mul(x), rolled(h))


def a_branch_in_a_loop(n, h, x):
    def step(i, h):
        return lax.cond(i % 2 > 0, lambda h: h.at[i].set(x), lambda h: h.at[i].add(h[0]), h)

    return lax.fori_loop(0, n + 3, step, rolled(h))


# The next ones have to copy.


def read_behind(n, h, x):
    y = rolled(h)
    return lax.cond(n > 0, lambda h: h.at[3].set(x), lambda h: h.at[5].add(x), y), rolled(y)


def one_array_twice(n, h, x):
    y = rolled(h)
    return lax.cond(
        n > 0,
        lambda a, b: (a.at[2].set(x), b.at[3].add(x)),
        lambda a, b: (a.at[3].add(x), b),
        *(y, y),
    )


def changes_places(n, h, x):
    return lax.cond(n > 0, lambda a, b: (b, a), lambda a, b: (a, b), rolled(h), rolled(h + 1))


def fixed_in_a_loop(n, h, x):
    """The next step reads the array again."""
    y = rolled(h)

    def step(i, s):
        return s + lax.cond(i > 1, lambda y: y.at[i].set(x), lambda y: y.at[0].add(x), y).sum()

    return lax.fori_loop(0, n + 3, step, jnp.float32(0)), y


IN_PLACE = [
    *(rows_of_both, rows_of_three, elementwise, read_late_in_one, two_arrays),
    *(a_branch_in_a_branch, a_loop_in_a_branch, a_branch_in_a_loop),
]
COPYING = [read_behind, one_array_twice, changes_places, fixed_in_a_loop]


def arguments(n: int) -> list[np.ndarray]:
    chances = np.random.default_rng(7)
    return [
        np.int32(n),
        chances.standard_normal((ROWS, 8)).astype(np.float32),
        chances.standard_normal(8).astype(np.float32),
    ]


def copies(simulation: Simulation) -> int:
    """The copies of whole arrays."""
    return sum(
        isinstance(t, Copy) and t.source.size >= ROWS * 8 * 4
        for t in walk(simulation.lowered.thunks)
    )


def check(simulation: Simulation, form: Callable) -> None:
    for n in range(3):
        values = arguments(n)
        expected = evaluate(read(form, values), values)
        for ours, theirs in zip(simulation.run(values), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", IN_PLACE, ids=lambda f: f.__name__)
def test_each_branch_writes_in_place(form: Callable) -> None:
    simulation = Simulation(compiled(form, arguments(0)))
    assert any(isinstance(t, Conditional) for t in walk(simulation.lowered.thunks))
    assert copies(simulation) == 0
    check(simulation, form)


@pytest.mark.parametrize("form", COPYING, ids=lambda f: f.__name__)
def test_what_is_read_elsewhere_is_kept(form: Callable) -> None:
    simulation = Simulation(compiled(form, arguments(0)))
    assert copies(simulation) > 0
    check(simulation, form)


def test_a_share_is_alive_in_its_branch_alone() -> None:
    live = liveness_of(compiled(rows_of_both, arguments(0)))
    (branches,) = live.branches
    (first, second), (end, _) = [s for _, s in branches.shares if s.size > 64], branches.ends
    assert branches.begin < first.start <= first.end <= end < second.start


def nested(n, h, x, depth):
    """Conditionals in the first branches of conditionals, all of which read one array."""
    if depth == 0:
        return rolled(h)

    def first(h):
        return nested(n, h, x, depth - 1)

    return lax.cond(n > depth, lambda h: h.at[depth].set(x), first, h)


def test_nested_branches_are_walked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def form(n, h, x):
        return nested(n, rolled(h), x, 12)

    module = compiled(form, arguments(0))
    walks = []

    class Counted(Liveness):
        def __init__(self, *given) -> None:
            walks.append(given)
            super().__init__(*given)

    monkeypatch.setattr(liveness, "Liveness", Counted)
    live = liveness.liveness_of(module)
    assert len(walks) == 2
    assert len(live.branches) == 12
    for branches in live.branches:
        assert sum(value.size == ROWS * 8 * 4 for value, _ in branches.shares) == 2
        assert all(value.end <= branches.begin for value, _ in branches.shares)
    simulation = Simulation(module)
    check(simulation, form)
