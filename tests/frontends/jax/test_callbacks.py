"""Host callbacks on xpu: pure_callback, io_callback, debug.print, debug.callback and what is built on them."""

from __future__ import annotations

import ast
import gc
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify, io_callback
from tripont.core import _tripont

FAILURES = (ValueError, jax.errors.JaxRuntimeError)  # JAX's fast path makes ValueErrors


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.default_device(xpu):
        yield


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def doubled(x: Any, **options: Any) -> Any:
    return jax.pure_callback(lambda a: 2 * np.asarray(a), like(x), x, **options)


def test_pure_callback() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(doubled(x), 2 * x)
    np.testing.assert_array_equal(jax.jit(lambda x: doubled(x + 1) + doubled(x))(x), 4 * x + 2)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype: str) -> None:
    x = jnp.ones((2, 2), dtype)
    given = []

    def function(a: Any) -> Any:
        given.append((a.dtype, a.shape))
        return a

    y = jax.jit(lambda x: jax.pure_callback(function, like(x), x))(x)
    np.testing.assert_array_equal(y, x)
    assert given == [(x.dtype, (2, 2))]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_dtypes_of_64_bits_where_a_context_enables_them(dtype: str) -> None:
    """The context is one thread's, and the callback runs in another."""
    given = []

    def function(a: Any) -> Any:
        given.append((a.dtype, jnp.asarray(a).dtype))
        return a + 1

    with jax.enable_x64(True):
        x = jnp.asarray(np.array([2**33, 5]), dtype)
        y = jax.jit(lambda x: jax.pure_callback(function, like(x), x))(x)
        np.testing.assert_array_equal(y, np.asarray(x) + 1)
    assert given[0][:2] == (np.dtype(dtype), np.dtype(dtype))
    assert jax.jit(lambda x: jax.pure_callback(function, like(x), x))(1.5) == 2.5
    assert given[1][0] == np.float32


def test_several_operands_and_results_and_a_tree() -> None:
    x, y = jnp.arange(3.0), jnp.ones((2, 2), jnp.int32)

    def function(pair: Any, *, scale: Any) -> Any:
        a, b = map(np.asarray, pair)
        return {"sum": np.float32(a.sum() + b.sum()), "scaled": a * np.asarray(scale)}

    shapes = {"sum": jax.ShapeDtypeStruct((), jnp.float32), "scaled": like(x)}
    result = jax.jit(lambda x, y: jax.pure_callback(function, shapes, (x, y), scale=x[1] + 1))(x, y)
    assert float(result["sum"]) == 7
    assert result["scaled"].tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
)
def test_vmap(method: str) -> None:
    x = jnp.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(jax.vmap(lambda r: doubled(r, vmap_method=method))(x), 2 * x)


def test_gradient_through_custom_jvp() -> None:
    @jax.custom_jvp
    def sine(x: Any) -> Any:
        return jax.pure_callback(np.sin, like(x), x, vmap_method="broadcast_all")

    @sine.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return sine(x), jax.pure_callback(np.cos, like(x), x, vmap_method="broadcast_all") * t

    x = jnp.linspace(0, 1, 5)
    np.testing.assert_allclose(jax.grad(lambda x: sine(x).sum())(x), np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(sine))(x), np.cos(x), rtol=1e-6)


def test_in_loops_and_conditionals() -> None:
    count = []

    def step(x: Any) -> Any:
        count.append(1)
        return np.asarray(x) + 1

    def call(x: Any) -> Any:
        return jax.pure_callback(step, like(x), x)

    loop = jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, x: call(x), jnp.float32(0)))
    assert float(loop(7)) == 7
    assert len(count) == 7
    scan = jax.jit(lambda x: jax.lax.scan(lambda c, _: (call(c), c), x, None, length=4))
    assert scan(jnp.float32(1))[1].tolist() == [1, 2, 3, 4]
    choose = jax.jit(lambda p, x: jax.lax.cond(p, call, lambda x: x, x))
    count.clear()
    assert (float(choose(True, 1.0)), float(choose(False, 1.0)), len(count)) == (2, 1, 1)


@pytest.mark.parametrize("ordered", [False, True])
def test_io_callback(ordered: bool) -> None:
    log: list[int] = []

    def body(i: Any, x: Any) -> Any:
        io_callback(lambda i: log.append(int(i)), None, i, ordered=ordered)
        return x + 1

    run = jax.jit(lambda n: jax.lax.fori_loop(0, n, body, 0))
    assert int(run(5)) == 5
    jax.effects_barrier()
    assert log == [0, 1, 2, 3, 4]
    result = io_callback(
        lambda x: np.asarray(x) + 1, jax.ShapeDtypeStruct((), jnp.int32), 3, ordered=ordered
    )
    assert int(result) == 4


def test_ordered_effects_in_a_loop_that_writes_rows() -> None:
    """The loop carries a token beside the array that a scan stacks its results in."""
    log: list[list[float]] = []

    def step(carry: Any, x: Any) -> Any:
        io_callback(lambda a, b: log.append([float(a), float(b)]), None, carry, x, ordered=True)
        return carry + 1, x + carry

    last, stacked = jax.jit(lambda xs: jax.lax.scan(step, 2.0, xs))(jnp.arange(3.0))
    jax.effects_barrier()
    assert (float(last), stacked.tolist()) == (5, [2, 4, 6])
    assert log == [[2, 0], [3, 1], [4, 2]]


def test_ordered_effects_are_in_order_across_programs() -> None:
    log: list[str] = []

    def say(name: str) -> Any:
        return jax.jit(
            lambda x: (io_callback(lambda a: log.append(name), None, x, ordered=True), x + 1)[1]
        )

    programs = [say(str(n)) for n in range(5)]
    for _ in range(3):
        for program in programs:
            program(1.0)
    jax.effects_barrier()
    assert log == [str(n) for n in range(5)] * 3


def test_ordered_effects_in_conditionals_and_nested_jit() -> None:
    log: list[str] = []

    def note(name: str, x: Any) -> Any:
        io_callback(lambda a: log.append(name), None, x, ordered=True)
        return x

    inner = jax.jit(lambda x: note("inner", x))

    @jax.jit
    def program(p: Any, x: Any) -> Any:
        x = note("first", x)
        x = jax.lax.cond(p, lambda x: note("then", x), lambda x: note("else", x), x)
        return note("last", inner(x))

    program(True, 1.0)
    program(False, 1.0)
    jax.effects_barrier()
    assert log == ["first", "then", "inner", "last", "first", "else", "inner", "last"]


def test_debug_print_and_callback(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[float] = []

    @jax.jit
    def program(x: Any) -> Any:
        jax.debug.print("x is {x}", x=x)
        jax.debug.print("then {y}", y=2 * x, ordered=True)
        jax.debug.callback(lambda a: seen.append(float(a)), x)
        return x + 1

    assert float(program(3.0)) == 4
    jax.effects_barrier()
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "then 6.0", "x is 3.0"]
    assert seen == [3]


def test_debug_print_alone_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    jax.jit(lambda x: jax.debug.print("only {x}", x=x))(jnp.arange(2))
    jax.effects_barrier()
    assert capfd.readouterr().out == "only [0 1]\n"


def test_an_exception_reaches_the_user_with_its_traceback() -> None:
    def fails_on_purpose(a: Any) -> Any:
        raise KeyError(f"no {int(a[0])} here")

    x = jnp.arange(3) + 5
    with pytest.raises(FAILURES) as caught:
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fails_on_purpose, like(x), x))(x))
    message = str(caught.value)
    assert "KeyError: 'no 5 here'" in message
    assert "in fails_on_purpose" in message
    assert "test_callbacks.py" in message
    assert float(doubled(jnp.float32(2))) == 4  # and the device goes on


def test_the_call_raises_what_its_callback_raised() -> None:
    """Nothing is ahead of the program, so it has run when the call returns: as on XLA's CPU device."""

    def fails(a: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    x = jnp.arange(3.0)
    run = jax.jit(lambda x: jax.pure_callback(fails, like(x), x * 2))
    for _ in range(3):
        with pytest.raises(FAILURES, match="on purpose"):
            run(x)
        jax.block_until_ready(jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, y: y + x, x))(50))


def test_output_is_there_when_the_call_returns(capfd: pytest.CaptureFixture[str]) -> None:
    threads: list[str] = []

    @jax.jit
    def program(x: Any, n: Any) -> Any:
        jax.debug.callback(lambda a: threads.append(threading.current_thread().name), x)
        jax.debug.print("x is {x}", x=x)
        return jax.lax.fori_loop(0, n, lambda i, y: jnp.sin(y), x)

    for n in range(3):
        y = jax.lax.fori_loop(0, 1000 * n, lambda i, y: jnp.sin(y), jnp.float32(n))
        y.block_until_ready()
        program(n + 0.5, 10_000)
        assert capfd.readouterr().out == f"x is {n + 0.5}\n"
    assert threads == [threading.current_thread().name] * 3


def test_what_is_ahead_is_not_waited_for(xpu: Any) -> None:
    called = threading.Event()
    run = jax.jit(lambda x: jax.pure_callback(lambda a: (called.set(), a)[1], like(x), x))
    with occupied(xpu):
        y = run(jnp.float32(3))
        assert not called.is_set()
    assert float(y) == 3


def test_nothing_is_parsed_on_the_thread_of_the_device(
    xpu: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CPython 3.11 counts the depth of its parser for all threads at once: the main thread may be parsing too."""
    parsed_by: list[str] = []
    parse = ast.parse

    def noting(*arguments: Any, **options: Any) -> Any:
        parsed_by.append(threading.current_thread().name)
        return parse(*arguments, **options)

    def fails(a: Any) -> Any:
        numbers = {"one": 1}
        return numbers["one"] / (numbers["two"] + len(a))  # part of a line: Python would mark it

    run = jax.jit(lambda x: jax.pure_callback(fails, like(x), x))
    x = jnp.arange(3.0)
    with caplog.at_level(logging.ERROR):
        monkeypatch.setattr(ast, "parse", noting)
        with occupied(xpu):
            y = run(x)
        deadline = time.monotonic() + 60
        while not y.is_ready() and time.monotonic() < deadline:
            time.sleep(0.001)
        monkeypatch.undo()
    assert parsed_by == []
    with pytest.raises(FAILURES, match="KeyError: 'two'"):
        y.block_until_ready()
    (record,) = [r for r in caplog.records if r.name == "jax._src.callback"]
    assert record.exc_text is not None
    assert record.exc_text.endswith("KeyError: 'two'")
    assert 'return numbers["one"] / (numbers["two"] + len(a))' in record.exc_text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.zeros(7, np.float32),
            r"result 0 of the callback is float32\[7\].*expects float32\[3\]",
        ),
        (np.zeros(3, np.int32), r"result 0 of the callback is int32\[3\].*expects float32\[3\]"),
        ((np.zeros(3), np.zeros(3)), "the callback gave 2 results, the program expects 1"),
    ],
)
def test_results_that_do_not_fit(value: Any, message: str) -> None:
    call = jax.jit(lambda x: jax.pure_callback(lambda a: value, like(x), x))
    with pytest.raises(FAILURES, match=message):
        jax.block_until_ready(call(jnp.zeros(3)))


def test_arguments_stay_as_they_were() -> None:
    """A callback may keep what it is given."""
    kept = []
    run = jax.jit(lambda x: (io_callback(kept.append, None, x + 1, ordered=True), x + 2)[1])
    for n in range(20):
        run(jnp.full(100, n, jnp.float32))
    jax.effects_barrier()
    assert [float(np.asarray(a)[50]) for a in kept] == [n + 1.0 for n in range(20)]


def test_a_callback_may_use_jax_on_the_host() -> None:
    run = jax.jit(lambda x: jax.pure_callback(lambda a: jnp.sin(a) * 2, like(x), x))
    x = jnp.linspace(0, 1, 7)
    np.testing.assert_allclose(run(x), 2 * np.sin(x), rtol=1e-6)


def test_a_callback_may_compute_on_the_device_that_called_it(xpu: Any) -> None:
    inner = jax.jit(lambda x: 3 * x)

    def function(a: Any) -> Any:
        return np.asarray(inner(jax.device_put(np.asarray(a), xpu)) + 1)

    run = jax.jit(lambda x: jax.pure_callback(function, like(x), x + 1))
    x = jnp.arange(5000.0)
    np.testing.assert_array_equal(run(x), 3 * (x + 1) + 1)


def test_a_callback_cannot_wait_for_what_comes_after_it(xpu: Any) -> None:
    """That would be for ever: it is an error instead."""
    inner = jax.jit(lambda x: 3 * x)
    later = []
    first = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(inner(later[0])), like(x), x))
    second = jax.jit(slow)
    x = jax.device_put(np.zeros(3, np.float32), xpu)  # committed: JAX does not move it to the CPU
    with occupied(xpu):
        y = first(x)
        later.append(second(x))
    with pytest.raises(FAILURES, match="needs an array that is computed after it"):
        y.block_until_ready()
    assert later[0].tolist() == [1, 1, 1]


@contextmanager
def occupied(device: Any) -> Iterator[None]:
    """Nothing runs on the device until the block ends: programs that are started in it are enqueued."""
    until = _tripont.testing.Event()
    _tripont.testing.occupy(_tripont.Client().devices[device.id], until)
    try:
        yield
    finally:
        until.set_ready()


def slow(x: Any) -> Any:
    def function(a: Any) -> Any:
        time.sleep(0.05)
        return np.asarray(a) + 1

    return jax.pure_callback(function, like(x), x)


@pytest.mark.parametrize(
    "wait",
    [
        np.asarray,
        jax.device_get,
        lambda x: x.block_until_ready(),
        lambda x: x.tolist(),
        lambda x: (x.copy_to_host_async(), np.asarray(x)),
        lambda x: jax.device_put(x, jax.devices("cpu")[0]).block_until_ready(),
        lambda x: x.delete(),
        lambda x: float(x[0]),
        repr,
    ],
)
def test_waiting_for_a_callback_does_not_deadlock(wait: Any, xpu: Any) -> None:
    """The callback needs the GIL, which the thread that waits must not hold."""
    run = jax.jit(slow)
    x = jnp.zeros(3)
    with occupied(xpu):
        y = run(x)
    wait(y)
    with occupied(xpu):
        y = run(x)
    del run, y  # programs and results may go while they are computed
    gc.collect()
    jax.effects_barrier()


def test_two_threads_with_callbacks() -> None:
    run = jax.jit(lambda x: slow(x) + doubled(x))
    results = {}

    def work(n: int) -> None:
        results[n] = float(run(jnp.float32(n)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 3.0 * n + 1 for n in range(6)}


def test_functions_are_forgotten_with_their_programs() -> None:
    gc.collect()
    jax.clear_caches()
    before = _tripont.num_callbacks()
    for n in range(5):
        run = jax.jit(lambda x, n=n: jax.pure_callback(lambda a: np.asarray(a) + n, like(x), x))
        assert float(run(jnp.float32(1))) == 1 + n
    assert _tripont.num_callbacks() > before
    del run
    jax.clear_caches()
    gc.collect()
    assert _tripont.num_callbacks() == before


def test_checkify_without_functionalization() -> None:
    """With JAX's option for it, a failed check raises through a callback."""

    @jax.jit
    def program(x: Any) -> Any:
        checkify.check(x > 0, "x must be positive, it is {x}", x=x)
        return jnp.log(x)

    with jax._src.config.xla_runtime_errors(True):
        assert float(program(jnp.float32(1))) == 0
        with pytest.raises(FAILURES, match="x must be positive"):
            jax.block_until_ready(program(jnp.float32(-1)))
    jax._src.dispatch.runtime_tokens.clear()  # else the failure is raised again at the end


def test_debug_nans_around_a_callback() -> None:
    run = jax.jit(lambda x: jnp.log(doubled(x)))
    with jax.debug_nans(True):
        assert float(run(jnp.float32(0.5))) == 0
        with pytest.raises(FloatingPointError, match="nan"):
            run(jnp.float32(-1))


def test_sparse_solve() -> None:
    """spsolve's rule for CPUs is a callback of SciPy; its module is imported after the device has started."""
    from jax.experimental.sparse.linalg import spsolve

    a = np.float32([[4, 1, 0], [0, 3, 0], [1, 0, 2]])
    data, indices, indptr = np.float32([4, 1, 3, 1, 2]), [0, 1, 1, 0, 2], [0, 2, 3, 5]
    b = np.float32([1, 2, 3])
    x = jax.jit(spsolve)(data, np.int32(indices), np.int32(indptr), b)
    np.testing.assert_allclose(a @ np.asarray(x), b, rtol=1e-5)


def test_a_program_of_another_process_is_refused() -> None:
    lowered = jax.jit(doubled).lower(jnp.float32(1))
    text = lowered.as_text()
    foreign = re.sub(r'"tripont\.callback\.....', '"tripont.callback.0123', text)
    assert foreign != text
    client = _tripont.Client()
    artifact, _ = client.compile(foreign.encode())
    with pytest.raises(_tripont.StatusError, match="Python function of the process"):
        _tripont.Executable.load(artifact)


def test_the_end_of_the_process(subprocess_environment: dict[str, str]) -> None:
    """What was started is finished, though nobody waits for it; and the process ends."""
    program = """
import jax, time
import numpy as np
with jax.default_device(jax.devices('xpu')[0]):
    def say(a):
        time.sleep(.2)
        print('said', float(a), flush=True)
    jax.jit(lambda x: jax.debug.callback(say, x))(5.0)
    x = jax.jit(lambda x: jax.pure_callback(lambda a: (time.sleep(.2), a)[1], x, x))(np.float32(2))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "said 5.0\n"


IN_A_PROCESS = """
import sys
import jax, jax.numpy as jnp
import numpy as np

@jax.jit
def program(x):
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    once = jax.pure_callback(lambda a: np.asarray(a) + factor, like, x)
    twice = jax.pure_callback(lambda a: np.asarray(a) * factor, like, once)
    return twice - x

with jax.default_device(jax.devices("xpu")[0]):
    for other in range(int(sys.argv[2])):  # takes numbers, which the program then does not get
        jax.jit(lambda x, n=other: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), x.dtype), x + n))(1.0)
    for factor in map(float, sys.argv[1].split(",")):
        print(program(jnp.arange(3.0)).tolist())
        program.clear_cache()
"""


def test_programs_with_callbacks_are_kept_on_disk(tmp_path: Path) -> None:
    """The second process finds the program, and its own functions are called, each in its place."""

    def run(factors: str, others: int) -> list[str]:
        command = [sys.executable, "-c", IN_A_PROCESS, factors, str(others)]
        environment = os.environ | {"TRIPONT_CACHE": "1", "TRIPONT_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def kept() -> set[str]:
        return {path.name for path in tmp_path.glob("*.tripont")}

    def expected(factor: float) -> str:
        return str([(x + factor) * factor - x for x in (0.0, 1.0, 2.0)])

    assert run("2", 2) == [expected(2)]
    before = kept()
    assert len(before) >= 3
    assert run("3,5", 0) == [expected(3), expected(5)]
    assert kept() == before


@pytest.mark.parametrize("digits", ["0000000000000000", "8123456789abcdef"])
def test_data_in_the_form_of_a_functions_name(digits: str) -> None:
    """What the compiler computes from a constant of bytes sees them as they are, and so does who reads them."""
    data = np.frombuffer(f"tripont.callback.{digits}".encode(), np.uint8)

    def program(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        constant = jnp.asarray(data)
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        y = jax.pure_callback(lambda a: np.asarray(a) * 3, like, x)
        return y, jnp.sum(constant.astype(jnp.int32) * jnp.arange(data.size)), constant

    y, folded, bytes_ = jax.jit(program)(jnp.arange(3.0))
    assert y.tolist() == [0, 3, 6]
    assert int(folded) == int(np.sum(data.astype(np.int32) * np.arange(data.size)))
    assert np.asarray(bytes_).tobytes() == data.tobytes()
