"""Donation, aliasing, deletion and external references."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    Allocation,
    Kernel,
    Value,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.programs import function, whole

X = np.arange(8, dtype=np.float32)


def load(program):
    return _tripont.Executable.load(programs.serialize(program))


@pytest.fixture(params=[10.0, 1e9], ids=["inline", "stream"])
def double(request):
    return load(programs.in_place(8, cost_ns=request.param))


def test_donated_memory_is_reused(device, double):
    x = _tripont.Buffer.from_array(X, device)
    address = x.pointer()
    (y,) = double.execute(device, [x])
    assert x.is_deleted
    y.wait()
    assert y.pointer() == address
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    code, message = status(x.numpy)
    assert code == "INVALID_ARGUMENT"
    assert "donated" in message
    assert "donated" in status(lambda: double.execute(device, [x]))[1]


def test_parameter_that_is_not_donated_is_kept(device, double):
    x = _tripont.Buffer.from_array(X, device)
    (y,) = double.execute(device, [x], [0])
    assert not x.is_deleted
    assert y.pointer() != x.pointer()
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    np.testing.assert_array_equal(x.numpy(), X)


def test_external_reference_keeps_the_memory_unchanged(device, double):
    x = _tripont.Buffer.from_array(X, device)
    x.add_external_reference()
    address = x.pointer()
    (y,) = double.execute(device, [x])
    assert x.is_deleted
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    assert y.pointer() != address
    content = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 8).from_address(address))
    np.testing.assert_array_equal(content, X)
    x.drop_external_reference()
    assert status(x.drop_external_reference)[0] == "FAILED_PRECONDITION"


def aligned(array):
    """A copy of ``array`` at a multiple of 64 bytes."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def test_external_memory_is_never_written(device, double):
    array = aligned(X)
    deleted = []
    x = _tripont.testing.external_buffer(device, array, lambda: deleted.append(1))
    assert x.pointer() == array.ctypes.data
    (y,) = double.execute(device, [x])
    np.testing.assert_array_equal(y.numpy(), 2 * X)
    np.testing.assert_array_equal(array, X)
    device.synchronize()
    assert deleted == [1]
    del x
    assert deleted == [1]


def test_external_memory_must_be_aligned(device):
    array = aligned(np.zeros(32, np.float32))[1:]
    assert (
        "aligned"
        in status(lambda: _tripont.testing.external_buffer(device, array, lambda: None))[1]
    )


def test_on_delete_waits_for_readers(device):
    deleted = []
    array = aligned(np.zeros(8, np.float32))
    x = _tripont.testing.external_buffer(device, array, lambda: deleted.append(1))
    slow = load(programs.unary("add_one_when_told", 8, cost_ns=1e9))
    (y,) = slow.execute(device, [x])
    x.delete()
    assert deleted == []
    array[0] = 1
    np.testing.assert_array_equal(y.numpy(), array + 1)
    device.synchronize()
    assert deleted == [1]


def test_chain_of_donations_on_the_stream(device):
    """What a training loop does: every step takes over the memory of the step before, which is still running."""
    step = load(programs.in_place(8, cost_ns=1e9))
    x = _tripont.Buffer.from_array(np.ones(8, np.float32), device)
    address = x.pointer()
    for _ in range(100):
        (x,) = step.execute(device, [x])
    np.testing.assert_array_equal(x.numpy(), np.full(8, 2.0**100, np.float32))
    assert x.pointer() == address


def test_donation_waits_for_readers_on_other_devices(client):
    """The copy to device 1 is enqueued before the donation and must see the content before it."""
    device, other = client.devices
    event = _tripont.testing.Event()
    double = load(programs.in_place(8))
    for _ in range(20):
        event = _tripont.testing.Event()
        x = _tripont.testing.pending_buffer(device, X, event)
        copy = x.copy_to(other)
        (y,) = double.execute(device, [x])
        event.set_ready()
        np.testing.assert_array_equal(copy.numpy(), X)
        np.testing.assert_array_equal(y.numpy(), 2 * X)


def held_by_a_blocked_copy(client, x):
    """A copy of x to device 1 that has not begun, and the event that lets it begin."""
    device, other = client.devices
    gate = _tripont.testing.Event()
    first = _tripont.testing.pending_buffer(device, X, gate).copy_to(other)
    return x.copy_to(other), gate, first


def test_donation_of_memory_that_is_still_read_does_not_block_the_caller(client, device):
    x = _tripont.Buffer.from_array(X, device)
    copy, gate, _ = held_by_a_blocked_copy(client, x)
    timer = threading.Timer(60, gate.set_ready)  # for a caller who waits for it
    timer.start()
    (y,) = load(programs.in_place(8)).execute(device, [x])
    assert not gate.is_ready()
    timer.cancel()
    gate.set_ready()
    np.testing.assert_array_equal(copy.numpy(), X)
    np.testing.assert_array_equal(y.numpy(), 2 * X)


def test_failed_execution_does_not_free_donated_memory_that_is_still_read(client, device):
    x = _tripont.Buffer.from_array(X, device)
    copy, gate, _ = held_by_a_blocked_copy(client, x)
    failed = _tripont.testing.Event()
    failed.set_error(13, "no such luck")
    second = _tripont.testing.pending_buffer(device, X, failed)
    (y,) = two_parameters_in_place().execute(device, [x, second])
    time.sleep(0.2)  # the stream has seen the error
    y.delete()
    others = [_tripont.Buffer.from_array(-X, device) for _ in range(4)]  # would get that memory
    gate.set_ready()
    np.testing.assert_array_equal(copy.numpy(), X)
    assert "no such luck" in status(y.wait)[1]
    del others


def two_parameters_in_place():
    """The sum of two parameters, in the memory of the first."""
    f32_8 = Shape(dtypes.F32, (8,))
    return load(
        programs.executable(
            parameters=(Value(f32_8), Value(f32_8)),
            allocations=(
                Allocation(ALLOCATION_RESULT, 0, 32, aliased_parameter=0),
                Allocation(ALLOCATION_PARAMETER, 1, 32),
            ),
            thunks=(
                Kernel(function("add"), (whole(0, 32), whole(1, 32), whole(0, 32)), 8, 64, 1.0),
            ),
            donatable_parameters=(0,),
        )
    )


def two_parameters(donatable):
    f32_8 = Shape(dtypes.F32, (8,))
    return load(
        programs.executable(
            parameters=(Value(f32_8), Value(f32_8)),
            allocations=(
                Allocation(ALLOCATION_PARAMETER, 0, 32),
                Allocation(ALLOCATION_PARAMETER, 1, 32),
                Allocation(ALLOCATION_RESULT, 0, 32),
            ),
            thunks=(
                Kernel(function("add"), (whole(0, 32), whole(1, 32), whole(2, 32)), 8, 64, 1.0),
            ),
            donatable_parameters=donatable,
        )
    )


def test_same_buffer_donated_and_used(device):
    x = _tripont.Buffer.from_array(X, device)
    code, message = status(lambda: two_parameters((0,)).execute(device, [x, x]))
    assert code == "INVALID_ARGUMENT"
    assert "donated and used in the same call" in message
    assert not x.is_deleted  # nothing happened
    np.testing.assert_array_equal(x.numpy(), X)


def test_same_buffer_donated_twice(device):
    x = _tripont.Buffer.from_array(X, device)
    code, message = status(lambda: two_parameters((0, 1)).execute(device, [x, x]))
    assert code == "INVALID_ARGUMENT"
    assert "donated" in message
    assert not x.is_deleted


def test_buffer_donors_are_deleted_although_nothing_aliases_them(device):
    x, y = (_tripont.Buffer.from_array(X, device) for _ in range(2))
    before = device.memory_stats()["bytes_in_use"]
    (z,) = two_parameters((1,)).execute(device, [x, y])
    np.testing.assert_array_equal(z.numpy(), 2 * X)
    assert y.is_deleted
    assert not x.is_deleted
    device.synchronize()
    assert device.memory_stats()["bytes_in_use"] == before  # the result came, the donor went


def test_failed_call_donates_nothing(device):
    x, y = (_tripont.Buffer.from_array(X, device) for _ in range(2))
    y.delete()
    assert "deleted" in status(lambda: two_parameters((0,)).execute(device, [x, y]))[1]
    assert not x.is_deleted
    np.testing.assert_array_equal(x.numpy(), X)


def test_deleting_gives_the_memory_back(device):
    before = device.memory_stats()["bytes_in_use"]
    x = _tripont.Buffer.from_array(np.zeros(1 << 20, np.float32), device)
    assert device.memory_stats()["bytes_in_use"] > before
    x.delete()
    x.delete()
    assert x.is_deleted
    assert device.memory_stats()["bytes_in_use"] == before
    assert status(x.add_external_reference)[0] == "INVALID_ARGUMENT"
    assert status(lambda: x.copy_to(device))[0] == "INVALID_ARGUMENT"


def test_memory_lives_as_long_as_an_external_reference(device):
    before = device.memory_stats()["bytes_in_use"]
    x = _tripont.Buffer.from_array(X, device)
    x.add_external_reference()
    x.delete()
    assert device.memory_stats()["bytes_in_use"] > before
    x.drop_external_reference()
    assert device.memory_stats()["bytes_in_use"] == before


_USE_WHILE_DONATED = """
import subprocess
import sys
import threading
import numpy as np
from tripont.core import _tripont
from tests.core.runtime import programs

client = _tripont.Client({"prestart_worker": False})
(device,) = client.devices
load = lambda program: _tripont.Executable.load(programs.serialize(program))
use = load(programs.unary("add_one", 64, cost_ns=1e9))
donate = load(programs.in_place(64, cost_ns=1e9))
current = [_tripont.Buffer.from_array(np.ones(64, np.float32), device)]


def user():
    while current:
        try:
            use.execute(device, [current[0]])
        except (_tripont.StatusError, IndexError):
            pass  # donated just now


threads = [threading.Thread(target=user) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(4000):
    current[:] = donate.execute(device, [current[0]])
current[0].wait()
current.clear()
for thread in threads:
    thread.join()
"""


def test_threads_that_use_a_buffer_while_it_is_donated():
    """An execution must not wait for a reader that comes after it in the stream."""
    subprocess.run([sys.executable, "-c", _USE_WHILE_DONATED], check=True, timeout=240)
