"""Host memory that is lent for one call (Buffer::Borrow): never read after that call, and in place where that is safe.

The stream is kept busy by a task that waits for an event, so that what is enqueued certainly runs after the caller has
written to its array.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.test_donation import aligned, load

N = 100_003
X = np.arange(N, dtype=np.float32)
testing = _tripont.testing


@pytest.fixture(autouse=True)
def _call() -> Iterator[None]:
    testing.end_call()
    yield
    testing.end_call()


@contextmanager
def occupied(device: Any) -> Iterator[None]:
    until = testing.Event()
    testing.occupy(device, until)
    try:
        yield
    finally:
        until.set_ready()
        device.synchronize()


def borrowed(device: Any) -> tuple[np.ndarray, Any]:
    array = aligned(X)
    return array, testing.borrowed_buffer(device, array)


@pytest.mark.parametrize("cost_ns", [10.0, 1e12])
def test_what_is_enqueued_reads_a_copy(device: Any, cost_ns: float) -> None:
    program = load(programs.unary("add_one", N, cost_ns=cost_ns))
    array, buffer = borrowed(device)
    with occupied(device):
        (result,) = program.execute(device, [buffer])
        assert not result.is_ready
        array[:] = -5
    np.testing.assert_array_equal(result.numpy(), X + 1)


def test_each_execution_of_the_call_reads_a_copy(device: Any) -> None:
    """A program for several devices is one call of the framework's, and an execution on each."""
    program = load(programs.unary("add_one", N))
    array, buffer = borrowed(device)
    with occupied(device):
        results = [program.execute(device, [buffer])[0] for _ in range(2)]
        array[:] = -5
    for result in results:
        np.testing.assert_array_equal(result.numpy(), X + 1)


def test_a_donated_argument_is_copied_too(device: Any) -> None:
    program = load(programs.in_place(N))
    array, buffer = borrowed(device)
    with occupied(device):
        (result,) = program.execute(device, [buffer])
        array[:] = -5
    assert buffer.is_deleted
    np.testing.assert_array_equal(result.numpy(), 2 * X)
    assert (array == -5).all()


def test_a_costly_program_on_an_idle_device_is_enqueued_with_a_copy(device: Any) -> None:
    program = load(programs.unary("add_one", N, cost_ns=1e12))
    array, buffer = borrowed(device)
    device.synchronize()
    before = device.memory_stats()["num_allocs"]
    (result,) = program.execute(device, [buffer])
    array[:] = -5
    np.testing.assert_array_equal(result.numpy(), X + 1)
    assert device.memory_stats()["num_allocs"] == before + 2


def test_a_program_that_costs_little_more_than_the_copy_is_waited_for(device: Any) -> None:
    """Past the bound for the caller's thread (50 us), but twice the copy of a large array takes longer."""
    n = 4 << 20
    program = load(programs.unary("add_one", n, cost_ns=1e6))
    array = aligned(np.ones(n, np.float32))
    buffer = testing.borrowed_buffer(device, array)
    device.synchronize()
    before = device.memory_stats()["num_allocs"]
    (result,) = program.execute(device, [buffer])
    assert result.is_ready
    assert device.memory_stats()["num_allocs"] == before + 1
    array[:] = -5
    assert (result.numpy() == 2).all()


def test_a_buffer_that_is_kept_beyond_the_call_is_read_in_place(device: Any) -> None:
    """As its caller promised, who has it still: jax.device_put."""
    program = load(programs.unary("add_one", N))
    array, buffer = borrowed(device)
    testing.end_call()
    _, other = borrowed(device)
    with occupied(device):
        (result,) = program.execute(device, [buffer])
        array[:] = -5
    assert (result.numpy() == -4).all()
    other.delete()


def test_no_room_for_the_copy() -> None:
    """The error names the argument, and leaves all as it was."""
    code = f"""
import numpy as np
from tripont.core import _tripont
from tests.core.runtime import programs
from tests.core.runtime.test_borrowing import aligned, load, occupied, testing
client = _tripont.Client({{"prestart_worker": False, "cache": False, "memory_limit": {3 * 4 * N // 2}}})
device = client.devices[0]
array = aligned(np.ones({N}, np.float32))
buffer = testing.borrowed_buffer(device, array)
program = load(programs.unary("add_one", {N}))
with occupied(device):
    try:
        program.execute(device, [buffer])
    except _tripont.StatusError as error:
        print(error)
assert (program.execute(device, [buffer])[0].numpy() == 2).all()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RESOURCE_EXHAUSTED: add_one: a copy of argument 0 of shape f32[")


def test_borrowed_memory_must_be_readable_in_place(device: Any) -> None:
    array = aligned(X)[1:]
    code, message = status(lambda: testing.borrowed_buffer(device, array))
    assert (code, "64 bytes" in message) == ("INVALID_ARGUMENT", True)
