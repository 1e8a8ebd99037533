"""Streams, queues and events: what comes after what."""

from __future__ import annotations

import time

import numpy as np
from tripont.core import _tripont

from .context import LARGE, SCALE, Context, elementwise, error_of

testing = _tripont.testing


def check_executions_follow_each_other(context: Context) -> None:
    """Each waits for the one before, without the caller waiting in between."""
    program = context.program(SCALE)
    x = np.linspace(-1, 1, LARGE[0] * LARGE[1], dtype=np.float32).reshape(LARGE)
    expected = x
    buffer = context.put(x)
    for _ in range(20):
        (buffer,) = program.execute(context.device, [buffer])
        expected = expected * np.float32(1.5) + np.float32(1)
    np.testing.assert_allclose(buffer.numpy(), expected, rtol=3e-6, atol=1e-5)


def check_reading_waits(context: Context) -> None:
    program = context.program(SCALE)
    x = np.ones(LARGE, np.float32)
    (result,) = program.execute(context.device, [context.put(x)])
    copy = result.copy_to(context.other)
    np.testing.assert_array_equal(copy.numpy(), np.full(LARGE, 2.5, np.float32))
    assert result.is_ready


def check_synchronize_waits_for_everything(context: Context) -> None:
    program = context.program(SCALE)
    results = [
        program.execute(context.device, [context.put(np.ones(LARGE, np.float32))])[0]
        for _ in range(4)
    ]
    context.device.synchronize()
    assert all(result.is_ready for result in results)


def check_an_execution_waits_for_its_operands(context: Context) -> None:
    program = context.program(elementwise("negate", 1000))
    x = np.arange(1000, dtype=np.float32)
    event = testing.Event()
    pending = testing.pending_buffer(context.device, x, event)
    (result,) = program.execute(context.device, [pending], [0])
    time.sleep(0.05)
    assert not result.is_ready
    event.set_ready()
    np.testing.assert_array_equal(result.numpy(), -x)


def check_an_execution_waits_for_its_device(context: Context) -> None:
    program = context.program(elementwise("negate", 1000))
    x = np.arange(1000, dtype=np.float32)
    event = testing.Event()
    testing.occupy(context.device, event)
    (result,) = program.execute(context.device, [context.put(x)])
    (other,) = program.execute(context.other, [context.put(x, context.other)])
    np.testing.assert_array_equal(other.numpy(), -x)  # the other device does not wait
    assert not result.is_ready
    event.set_ready()
    np.testing.assert_array_equal(result.numpy(), -x)


def check_an_error_reaches_what_depends_on_it(context: Context) -> None:
    program = context.program(elementwise("negate", 1000))
    event = testing.Event()
    pending = testing.pending_buffer(context.device, np.zeros(1000, np.float32), event)
    (first,) = program.execute(context.device, [pending], [0])
    (second,) = program.execute(context.device, [first], [0])
    event.set_error(10, "the producer gave up")
    for result in (first, second):
        code, message = error_of(result.wait)
        assert code == "ABORTED", code
        assert "the producer gave up" in message
    x = np.ones(1000, np.float32)
    (again,) = program.execute(context.device, [context.put(x)])
    np.testing.assert_array_equal(again.numpy(), -x)


def check_freed_operands_stay_until_they_were_read(context: Context) -> None:
    """Memory of an operand that is deleted while a program waits is not given to somebody else."""
    program = context.program(elementwise("negate", 300_000))
    x = np.arange(300_000, dtype=np.float32)
    event = testing.Event()
    testing.occupy(context.device, event)
    operand = context.put(x)
    (result,) = program.execute(context.device, [operand], [0])
    operand.delete()
    overwriting = [context.put(np.full(300_000, 7, np.float32)) for _ in range(4)]
    event.set_ready()
    np.testing.assert_array_equal(result.numpy(), -x)
    assert len(overwriting) == 4
