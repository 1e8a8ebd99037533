"""Loops and conditionals that call back, among states that change places, so that such loops take several steps at a
time.

A program is written once and run twice: by JAX, and by NumPy with Python's own loops, which says what the callbacks are
told, how often, and in which order. Callbacks stand in steps, in conditions, in branches and in loops within loops:
``io_callback`` and ``jax.debug.callback``, ordered and not, ``jax.debug.print``, and ``pure_callback``, whose result is
the next state. An ``io_callback`` that counts its calls gives numbers on which the results depend. All numbers are
small whole ones.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from tripont.core import _tripont
from tripont.frontends.jax import callbacks, compat

from tests.conformance import device
from tests.fuzz import ways

Array = Any
States = list[Array]

# Arrays from 16 KB on, of which a copy is worth several steps at a time (Costs.thunks.alternated), and small ones.
_SHAPES: Final = [(4096,), (4097,), (64, 65), (33, 129), (70, 70), (5000,), (9,), (3, 5)]
_DTYPES: Final = ["float32", "float32", "int32", "float64", "int16"]
_STEPS: Final = [0, 1, 2, 3, 3, 4, 5, 6, 7, 9]
_MOST: Final = 40  # numbers beyond it become zero
_KINDS: Final = ["known", "known", "unknown", "unknown", "until", "until", "scan"]
_NOTES: Final = ["io", "ordered io", "debug", "ordered debug", "print"]
# Of two programs, one is compiled for another CPU or by the costs of one.
_OTHER_CPU: Final = 0.5


class Log:
    """What the callbacks of one run were told: a list for each kind of callback, since kinds are not ordered among one
    another.
    """

    def __init__(self) -> None:
        self.told: dict[str, list[tuple[int, ...]]] = {kind: [] for kind in _NOTES}
        self.calls = 0

    def note(self, kind: str, *numbers: Any) -> None:
        self.told[kind].append(tuple(int(float(n)) for n in numbers))

    def count(self) -> np.int32:
        self.calls += 1
        return np.int32(self.calls)

    def read(self, printed: str) -> None:
        """What was printed, a line for each call."""
        for line in printed.splitlines():
            self.note("print", *line.split())

    def differences(self, expected: Log) -> list[str]:
        found = []
        for kind, told in self.told.items():
            wanted = expected.told[kind]
            same = told == wanted if "ordered" in kind else Counter(told) == Counter(wanted)
            if not same:
                found.append(f"{kind} was told {told} instead of {wanted}")
        if self.calls != expected.calls:
            found.append(f"{self.calls} counted calls instead of {expected.calls}")
        return found


class Host:
    """A program as NumPy and Python run it."""

    numpy = np

    def __init__(self, log: Log) -> None:
        self.log = log

    def note(self, kind: str, *numbers: Any) -> None:
        self.log.note(kind, *numbers)

    def count(self) -> Array:
        return self.log.count()

    def ask(self, function: Callable[..., np.ndarray], x: Array) -> Array:
        return function(x)

    def loop(self, going_on: Callable[..., Any], step: Callable[..., Any], state: Any) -> Any:
        while going_on(state):
            state = step(state)
        return state

    def fori(self, count: Any, step: Callable[[Any, Any], Any], state: Any) -> Any:
        for number in range(int(count)):
            state = step(np.int32(number), state)
        return state

    scan = fori

    def choose(
        self, predicate: Any, yes: Callable[..., Any], no: Callable[..., Any], s: Any
    ) -> Any:
        return yes(s) if predicate else no(s)


class Device:
    """A program as JAX lowers it."""

    numpy = jnp

    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs  # the last one is that of the current run

    def note(self, kind: str, *numbers: Any) -> None:
        def told(*values: Any) -> None:
            self.logs[-1].note(kind, *values)

        if kind == "print":
            jax.debug.print(" ".join(["{}"] * len(numbers)), *numbers)
        elif "io" in kind:
            io_callback(told, None, *numbers, ordered="ordered" in kind)
        else:
            jax.debug.callback(told, *numbers, ordered="ordered" in kind)

    def count(self) -> Array:
        kind = jax.ShapeDtypeStruct((), np.int32)
        return io_callback(lambda: self.logs[-1].count(), kind, ordered=True)

    def ask(self, function: Callable[..., np.ndarray], x: Array) -> Array:
        kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda a: function(np.asarray(a)), kind, x)

    def loop(self, going_on: Callable[..., Any], step: Callable[..., Any], state: Any) -> Any:
        return lax.while_loop(going_on, step, state)

    def fori(self, count: Any, step: Callable[[Any, Any], Any], state: Any) -> Any:
        return lax.fori_loop(0, count, step, state)

    def scan(self, count: Any, step: Callable[[Any, Any], Any], state: Any) -> Any:
        numbers = jnp.arange(count, dtype=jnp.int32)
        return lax.scan(lambda s, number: (step(number, s), None), state, numbers)[0]

    def choose(
        self, predicate: Any, yes: Callable[..., Any], no: Callable[..., Any], s: Any
    ) -> Any:
        return lax.cond(predicate, yes, no, s)


class Program:
    """The program of ``seed``: a function of a way to run it, of a number of steps, and of states."""

    def __init__(self, seed: int, known: int) -> None:
        self.seed, self.known = seed, known  # ``known``: a number of steps that the program says

    def __call__(self, on: Any, count: Array, *arrays: Array) -> States:
        chances = Random(self.seed)
        states = list(arrays)
        for _ in range(chances.choice([1, 1, 2])):
            states = self.looped(chances.getrandbits(32), on, count, states)
            self.note(chances, on, count, states, 0.3)
        return states

    def looped(self, seed: int, on: Any, count: Array, states: States, depth: int = 0) -> States:
        chances = Random(seed)
        kind, inner = chances.choice(_KINDS), chances.getrandbits(32)
        most = self.known if depth == 0 else chances.choice([0, 1, 2, 3])

        def step(number: Array, states: States) -> States:
            return self.step(inner, on, number, list(states), depth)

        if kind in ("known", "scan"):
            run = on.fori if kind == "known" else on.scan
            return list(run(most, step, states))
        if kind == "unknown":
            return list(on.fori(count % 4 if depth else count, step, states))
        counted, data = chances.random() < 0.4, chances.random() < 0.5

        def going_on(carry: Any) -> Array:
            number, states = carry
            asked = Random(inner + 1)
            self.note(asked, on, number, states, 0.7)
            limit = number < (most if counted else count)
            return limit & (states[0].reshape(-1)[0] != 7) if data else limit

        def following(carry: Any) -> Any:
            number, states = carry
            return number + np.int32(1), step(number, states)

        return list(on.loop(going_on, following, (on.numpy.int32(0), states))[1])

    def step(self, seed: int, on: Any, number: Array, states: States, depth: int) -> States:
        chances, xp, count = Random(seed), on.numpy, len(states)
        if depth == 0 and chances.random() < 0.25:
            states = self.looped(chances.getrandbits(32), on, number, states, 1)
        if chances.random() < 0.3:
            yes, no = chances.getrandbits(32), chances.getrandbits(32)
            decided = number % 2 == 0 if chances.random() < 0.5 else states[0].reshape(-1)[0] > 2

            def branch(seed: int) -> Callable[[States], States]:
                return lambda s: self.changed(Random(seed), on, number, list(s))

            states = list(on.choose(decided, branch(yes), branch(no), states))
        self.note(chances, on, number, states, 0.5)
        new = self.changed(chances, on, number, states)
        if chances.random() < 0.3:  # so often it was called, the results say
            n = chances.randrange(count)
            new[n] = self.small(xp, new[n] + on.count().astype(new[n].dtype))
        self.note(chances, on, number, new, 0.3)
        return new

    def changed(self, chances: Random, on: Any, number: Array, states: States) -> States:
        """The states after a step: former ones at other places, and what is made of the places around each place."""
        xp, count = on.numpy, len(states)
        by = chances.randrange(1, count) if count > 1 else 0
        new = [states[(n + by) % count] for n in range(count)]
        for n in chances.sample(range(count), chances.randint(1, count)):
            x, y = chances.choice(states), chances.choice([*states, *new])
            way = chances.randrange(6)
            if way == 0:
                new[n] = on.ask(_asked, x)
            elif way == 1:
                new[n] = self.small(xp, x + y)
            elif way == 2:
                new[n] = self.small(xp, xp.flip(x) - y)
            else:
                shifted = xp.roll(x, chances.choice([1, -2]), 0)
                new[n] = self.small(xp, shifted + number.astype(x.dtype))
        self.note(chances, on, number, new, 0.3)
        return new

    def note(self, chances: Random, on: Any, number: Array, states: States, share: float) -> None:
        """Perhaps tell a callback of a number and of a state."""
        kind, place, told = chances.choice(_NOTES), chances.getrandbits(8), chances.random()
        x = chances.choice(states)
        if told < share:
            on.note(kind, np.int32(place), number, (x.reshape(-1)[-3:] * x.dtype.type(3)).sum())

    def small(self, xp: Any, x: Array) -> Array:
        return xp.where(xp.abs(x) > _MOST, xp.zeros_like(x), x + xp.zeros_like(x))


def _asked(x: np.ndarray) -> np.ndarray:
    """What the host says of a state: its neighbours from behind."""
    return np.where(np.abs(x) > 30, 0, np.roll(x[::-1], 1, 0) + 1).astype(x.dtype)


def _lowered(function: Callable[..., Any], arguments: Sequence[np.ndarray], donated: Any) -> Any:
    """The lowered program, which keeps what it calls alive."""
    _tripont.start_callbacks()
    compat.replace_callback_emitter("cpu", callbacks.emit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jax.jit(function, donate_argnums=donated, keep_unused=True).trace(*arguments)
        return traced.lower(lowering_platforms=("cpu",))


def _tokens(text: str) -> int:
    """How many tokens a program is given, before its arguments."""
    (head,) = [line for line in text.splitlines() if "@main(" in line]
    return head.partition("->")[0].count("!stablehlo.token")


@contextlib.contextmanager
def _compiled_for(chances: Random) -> Iterator[dict[str, str]]:
    """The options by which a program is compiled, for this CPU or for another one."""
    options = dict(device.OPTIONS)
    if chances.random() < _OTHER_CPU and device.TARGET == "host" and ways.levels():
        options["cpu"] = chances.choice([*ways.levels(), options["cpu"]])
        with ways.costs_of(chances.choice(ways.MODELS)):
            yield options
    else:
        yield options


def findings(seed: int) -> list[str]:
    """What is wrong with the results of a program, or with what its callbacks were told."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances, numbers = Random(seed), np.random.default_rng(seed)
    shape, dtype = chances.choice(_SHAPES), np.dtype(chances.choice(_DTYPES))
    arrays = [
        numbers.integers(-4, 9, shape).astype(dtype) for _ in range(chances.choice([1, 2, 2, 3, 4]))
    ]
    count = np.int32(chances.choice(_STEPS))
    program = Program(chances.getrandbits(32), chances.choice(_STEPS))
    expected = Log()
    with np.errstate(all="ignore"):
        wanted = program(Host(expected), count, *arrays)
    logs: list[Log] = []
    on = Device(logs)
    donated = tuple(n + 1 for n in range(len(arrays)) if chances.random() < 0.4)
    lowered = _lowered(lambda *arguments: program(on, *arguments), [count, *arrays], donated)
    text = lowered.as_text()
    tokens = _tokens(text)
    given = [*[np.zeros((0,), np.bool_)] * tokens, np.asarray(count), *arrays]
    with _compiled_for(chances) as options:
        executable = ways.load(text, options)
    found = []
    for way, donate in (("kept", False), ("donated", True)):
        logs.append(Log())
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            results = ways.run(executable, given, donate=donate)[tokens:]
        logs[-1].read(printed.getvalue())
        found += [f"{way}: {line}" for line in logs[-1].differences(expected)]
        found += [
            f"{way}: result {n}: {a.reshape(-1)[:8]} instead of {w.reshape(-1)[:8]}"
            for n, (a, w) in enumerate(zip(results, wanted, strict=True))
            if a.dtype != w.dtype or not np.array_equal(a, w)
        ]
    return found
