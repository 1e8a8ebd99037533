"""Host memory that is lent for one call (Buffer::Borrow): never read after that call, and in place where that is safe.

The stream is kept busy by a task that waits for an event, so that what is enqueued certainly runs after the caller has
written to its array.
"""

from __future__ import annotations

import subprocess
import sys
import threading
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


@pytest.mark.parametrize("other_is_enqueued", [False, True])
def test_another_execution_does_not_end_the_loan(device: Any, other_is_enqueued: bool) -> None:
    """JAX slices a sharded call's other arguments between lending an array and starting the program."""
    program = load(programs.unary("add_one", N))
    array, buffer = borrowed(device)
    other_array, other = borrowed(device)
    kept = _tripont.Buffer.from_array(X, device)
    if not other_is_enqueued:
        program.execute(device, [kept])
        program.execute(device, [other])
    with occupied(device):
        if other_is_enqueued:
            program.execute(device, [kept])
            program.execute(device, [other])
        (result,) = program.execute(device, [buffer])
        array[:] = -5
        other_array[:] = -5
    np.testing.assert_array_equal(result.numpy(), X + 1)


def test_an_array_that_is_lent_twice_for_one_execution(device: Any) -> None:
    program = load(programs.unary("add_one", N))
    array, first = borrowed(device)
    second = testing.borrowed_buffer(device, array)
    with occupied(device):
        results = [program.execute(device, [buffer])[0] for buffer in (first, second)]
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
    with occupied(device):
        program.execute(device, [buffer])  # reads a copy
        (result,) = program.execute(device, [buffer])
        array[:] = -5
    assert (result.numpy() == -4).all()


def test_a_buffer_of_another_thread_is_read_in_place(device: Any) -> None:
    """A thread that loads data has put it on the device to be kept; calls lend and execute on one thread."""
    program = load(programs.unary("add_one", N))
    lent: list[tuple[np.ndarray, Any]] = []
    loader = threading.Thread(target=lambda: lent.append(borrowed(device)))
    loader.start()
    loader.join()
    ((array, buffer),) = lent
    with occupied(device):
        (result,) = program.execute(device, [buffer])
        array[:] = -5
    assert (result.numpy() == -4).all()


def test_no_room_for_the_copy() -> None:
    """The program is waited for, and reads the array in place."""
    code = f"""
import threading
import numpy as np
from tripont.core import _tripont
from tests.core.runtime import programs
from tests.core.runtime.test_borrowing import aligned, load, testing
client = _tripont.Client({{"prestart_worker": False, "cache": False, "memory_limit": {3 * 4 * N // 2}}})
device = client.devices[0]
array = aligned(np.ones({N}, np.float32))
buffer = testing.borrowed_buffer(device, array)
program = load(programs.unary("add_one", {N}))
until = testing.Event()
testing.occupy(device, until)
threading.Timer(0.5, until.set_ready).start()
(result,) = program.execute(device, [buffer])
print(result.is_ready)
array[:] = -5
print((result.numpy() == 2).all())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]


def test_borrowed_memory_must_be_readable_in_place(device: Any) -> None:
    array = aligned(X)[1:]
    code, message = status(lambda: testing.borrowed_buffer(device, array))
    assert (code, "64 bytes" in message) == ("INVALID_ARGUMENT", True)
