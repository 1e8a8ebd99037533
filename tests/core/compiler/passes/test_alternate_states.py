"""Which loops take several steps at a time, that they copy no state then, and that their numbers stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats.artifact import Conditional, Copy, Thunk, While, walk
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    TupleShape,
    constant,
    get_tuple_element,
)
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.alternate_states import alternate_states
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import compare, op, parameter, priced
from tests.core.compiler.loops import GENERATED, loops, read
from tests.core.compiler.simulate import Simulation

SHAPE = (12, 64)  # whose rows are long enough for chains
LEAST = 256  # bytes that are worth a double step in these tests


def stencil(u):
    around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
    return around - 3 * u


# Each step takes and gives a tuple of states.


def diffusion(s):
    return (stencil(s[0]),)


def leapfrog(s):
    new, old = s
    return 2 * new - old + stencil(new), new


def two_fields(s):
    u, v = s
    return stencil(u) - v, stencil(v) + u


def three_fields(s):
    h, u, v = s
    return stencil(u) + stencil(v), stencil(h) - u, stencil(h) + v


def chained(s):
    return (stencil(stencil(jnp.minimum(s[0], 9)) * s[0]),)


def product(s):
    return (s[0] @ jnp.roll(jnp.eye(64), 1, 0),)


def turned(s):
    return (s[0][::-1, ::-1] + 1,)


def changing_places(s):
    u, v, w = s
    return v, u, stencil(w)


def of_three_steps(s):
    """A method of several steps: three states move on by a place, and the oldest may be written over."""
    a, b, c = s
    return b, c, c - a + stencil(b)


def of_three_steps_with_neighbours(s):
    a, b, c = s
    return b, c, stencil(c) - stencil(a) + b


def leapfrog_with_neighbours(s):
    new, old = s
    return stencil(new) - stencil(old), new


def of_histories(s):
    """A history of a value, and of what changed it."""
    x, old, rate, before = s
    now = stencil(x)
    return x + 2 * now - rate, x, now, rate + 0 * before + old


def with_a_fixed_array(s):
    u, w = s
    return stencil(u) * w, w


def in_a_branch(s):
    return (lax.cond(s[0][0, 0] > 0, stencil, lambda u: -stencil(u), s[0]),)


STEPS = [
    *(diffusion, leapfrog, two_fields, three_fields, chained, product, turned, changing_places),
    *(with_a_fixed_array, in_a_branch),
]
# States that move on by a place: how many steps at a time bring them back.
MOVING_ON = {
    of_three_steps: 3,
    of_three_steps_with_neighbours: 4,
    leapfrog_with_neighbours: 3,
}
STATES = {
    leapfrog: 2, two_fields: 2, three_fields: 3, changing_places: 3, with_a_fixed_array: 2, of_three_steps: 3,
    of_three_steps_with_neighbours: 3, leapfrog_with_neighbours: 2, of_histories: 4,
}  # fmt: skip


def known(step: Callable, trips: int) -> Callable:
    return lambda *s: lax.fori_loop(0, trips, lambda _, s: step(s), s)


def unknown(step: Callable) -> Callable:
    return lambda n, *s: lax.fori_loop(0, n, lambda _, s: step(s), s)


def states(step: Callable, dtype=np.float32) -> list[np.ndarray]:
    chances = np.random.default_rng(3)
    return [chances.integers(-2, 3, SHAPE).astype(dtype) for _ in range(STATES.get(step, 1))]


def compiled(function: Callable, arguments: list, least: int = LEAST, steps: int = 400) -> Module:
    target = priced(
        thunks={"alternated": least, "alternated_steps": steps},
        fusion={"chained": 1, "chained_rows": 1},
    )
    return pipeline.run(read(function, arguments), target, Dump(), GENERATED)


def copied(thunks: Iterable[Thunk]) -> int:
    """The bytes of large states that a step of the loops among ``thunks`` copies, but where a loop ends."""
    total = 0
    for thunk in thunks:
        if isinstance(thunk, Copy) and thunk.source.size >= LEAST:
            total += thunk.source.size
        elif isinstance(thunk, Conditional):
            of_branches = [copied(branch) for branch in thunk.branches]
            total += max(of_branches) if thunk.usual < 0 else of_branches[thunk.usual]
    return total


def of_loops(module: Module) -> list[int]:
    thunks = Simulation(module).lowered.thunks
    return [copied([*t.condition, *t.body]) for t in walk(thunks) if isinstance(t, While)]


def check(module: Module, function: Callable, *arguments: list[np.ndarray]) -> None:
    """The module gives, simulated on real memory and evaluated, the bits that it gives with single steps."""
    single = compiled(function, arguments[0], least=0)
    for values in arguments:
        expected = evaluate(single, values)
        for results in (evaluate(module, values), Simulation(module).run(values)):
            for ours, theirs in zip(results, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("trips", [2, 3, 6, 7])
@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.__name__)
def test_known_numbers_of_steps(step: Callable, trips: int) -> None:
    function, arguments = known(step, trips), states(step)
    before, module = compiled(function, arguments, least=0), compiled(function, arguments)
    assert sum(of_loops(before)) > 0
    assert of_loops(module) == [0]
    (loop,) = loops(module)
    assert loop.attributes["trip_count"] == trips // 2
    check(module, function, arguments)


@pytest.mark.parametrize("step", STEPS, ids=lambda s: s.__name__)
def test_unknown_numbers_of_steps(step: Callable) -> None:
    function, values = unknown(step), states(step)
    before = compiled(function, [np.int32(0), *values], least=0)
    module = compiled(function, [np.int32(0), *values])
    assert of_loops(module) == [0]
    assert sum(of_loops(before)) > sum(of_loops(module)) / 2
    check(module, function, *([np.int32(n), *values] for n in (0, 1, 2, 5, 6)))


@pytest.mark.parametrize("trips", [4, 5, 6, 7, 12])
@pytest.mark.parametrize("step", MOVING_ON, ids=lambda s: s.__name__)
def test_states_that_move_on(step: Callable, trips: int) -> None:
    function, arguments = known(step, trips), states(step)
    before, module = compiled(function, arguments, least=0), compiled(function, arguments)
    (copied_before,) = of_loops(before)
    assert copied_before >= len(arguments) * arguments[0].nbytes
    assert of_loops(module) == [0]
    (loop,) = loops(module)
    assert loop.attributes["trip_count"] == trips // MOVING_ON[step]
    check(module, function, arguments)


@pytest.mark.parametrize("step", MOVING_ON, ids=lambda s: s.__name__)
def test_states_that_move_on_an_unknown_number_of_times(step: Callable) -> None:
    function, values = unknown(step), states(step)
    module = compiled(function, [np.int32(0), *values])
    assert of_loops(module) == [0]
    check(module, function, *([np.int32(n), *values] for n in range(10)))


@pytest.mark.parametrize("trips", [1, 2, 3, 11])
def test_fewer_steps_than_states(trips: int) -> None:
    """A loop never takes more steps at a time than it has."""
    for step in (of_three_steps_with_neighbours, of_histories):
        function, arguments = known(step, trips), states(step)
        check(compiled(function, arguments), function, arguments)


def test_until_a_number_is_reached() -> None:
    def function(u, limit):
        return lax.while_loop(lambda u: jnp.abs(u).max() < limit, lambda u: stencil(u) + u, u)

    (u,) = states(diffusion)
    module = compiled(function, [u, np.float32(0)])
    assert of_loops(module) == [0]
    check(module, function, *([u, np.float32(limit)] for limit in (0, 1, 10, 300, 10_000)))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float64, np.int16, np.complex64, np.bool_])
def test_dtypes(dtype) -> None:
    with jax.enable_x64(True):

        def function(u):
            return lax.fori_loop(0, 5, lambda _, u: jnp.roll(u, (1, 1), (0, 1)) | u, u)

        def sums(u):
            return lax.fori_loop(0, 5, lambda _, u: jnp.roll(u, (1, 1), (0, 1)) + u, u)

        made = function if dtype is np.bool_ else sums
        arguments = states(diffusion, dtype)
        module = compiled(made, arguments)
        assert of_loops(module) == [0]
        check(module, made, arguments)


def test_outputs_of_a_scan() -> None:
    def function(u):
        return lax.scan(lambda u, k: (stencil(u) + k, u.sum()), u, jnp.arange(7.0))

    arguments = states(diffusion)
    module = compiled(function, arguments)
    assert of_loops(module) == [0]
    check(module, function, arguments)


def test_loops_in_loops() -> None:
    def outer(s):
        u, v = lax.fori_loop(0, 3, lambda _, s: two_fields(s), s)
        return stencil(v), stencil(u)

    for function, first in ((known(outer, 4), []), (unknown(outer), [np.int32(3)])):
        arguments = [*first, *states(two_fields)]
        module = compiled(function, arguments)
        assert set(of_loops(module)) == {0}
        check(module, function, arguments)


def test_a_donated_state_is_copied_nowhere() -> None:
    function = known(diffusion, 8)
    (u,) = states(diffusion)
    lowered = jax.jit(function, donate_argnums=0).lower(u).as_text()
    target = priced(thunks={"alternated": LEAST})
    module = pipeline.run(read_program(lowered.encode(), "mlir"), target, Dump(), GENERATED)
    copies = [t for t in walk(Simulation(module).lowered.thunks) if isinstance(t, Copy)]
    assert not [c for c in copies if c.source.size >= LEAST]


# ------------------------------------------------------------------------------------------------- single steps remain
@pytest.mark.parametrize(
    ("step", "trips", "least", "steps"),
    [
        (diffusion, 1, LEAST, 400),
        (diffusion, 6, 12 * 64 * 4 + 1, 400),
        (diffusion, 6, 0, 400),
        (diffusion, 6, LEAST, 3),
        (lambda s: (s[0] * 2 + 1,), 6, LEAST, 400),
        (lambda s: (s[0].at[3].set(1),), 6, LEAST, 400),
    ],
    ids=["one step", "small", "never", "long", "in place", "a part"],
)
def test_single_steps(step: Callable, trips: int, least: int, steps: int) -> None:
    function, arguments = known(step, trips), states(step)
    module = compiled(function, arguments, least, steps)
    before = compiled(function, arguments, least=0)
    assert [str(i) for i in loops(module)] == [str(i) for i in loops(before)]


@pytest.mark.parametrize("meets", [False, True])
def test_collectives_keep_single_steps(meets: bool) -> None:
    """All processes of a job share the order of collectives, each of which has a number of its own."""
    x, y = parameter(0, 1024), parameter(1, 1024)
    config = {"meeting": 0, "channel": 0, "groups": (0, 1), "group_sizes": (2,)}
    name = "all-reduce" if meets else "something"
    call = Instruction("library-call", x.shape, [x], {"name": name, "config": config})
    back = op("reverse", x, dimensions=(0,))
    root = Instruction("tuple", TupleShape((x.shape, y.shape)), [back, call])
    step = Computation("step", [x, y], [x, y, call, back, root], root)
    seen, holds = [parameter(n, 1024) for n in range(2)], constant(True)
    condition = Computation("condition", seen, [*seen, holds], holds)
    outside = [parameter(n, 1024) for n in range(2)]
    loop = Instruction("while", root.shape, outside, {"trip_count": 6}, [condition, step])
    results = [get_tuple_element(loop, n) for n in range(2)]
    last = Instruction("tuple", root.shape, results)
    module = Module("m", Computation("main", outside, [*outside, loop, *results, last], last))
    (after,) = loops(alternate_states(module, priced(thunks={"alternated": LEAST})))
    assert after.attributes["trip_count"] == (6 if meets else 3)


CALL = {
    "custom_call_target": "ask",
    "backend_config": b"",
    "api_version": 4,
    "has_side_effect": True,
    "output_operand_aliases": (),
}


@pytest.mark.parametrize(
    ("opcode", "attributes", "is_doubled"),
    [
        ("custom-call", CALL, False),
        ("custom-call", CALL | {"has_side_effect": False}, True),
        ("library-call", {"name": "rng-state", "config": {}}, False),
    ],
    ids=["a callback", "a pure callback", "a random number"],
)
def test_conditions_are_asked_once_after_each_step(
    opcode: str, attributes: dict, is_doubled: bool
) -> None:
    """In a double step the condition is asked whether there is a second step; if not, the loop asks again."""
    x, seen, outside = (parameter(0, 1024) for _ in range(3))
    answer = Instruction(opcode, Shape(dtypes.U64, ()), [seen], attributes)
    number = constant(np.uint64(1))
    holds = compare(answer, number, "EQ")
    condition = Computation("condition", [seen], [seen, answer, number, holds], holds)
    back = op("reverse", x, dimensions=(0,))
    step = Computation("step", [x], [x, back], back)
    loop = Instruction("while", x.shape, [outside], {}, [condition, step])
    module = Module("m", Computation("main", [outside], [outside, loop], loop))
    (after,) = loops(alternate_states(module, priced(thunks={"alternated": LEAST})))
    assert any(i.opcode == "conditional" for i in after.called[1].instructions) is is_doubled
