"""Events and streams."""

from __future__ import annotations

import threading
import time

import pytest
from tripont.core import _tripont

testing = _tripont.testing
INVALID_ARGUMENT = 3


def test_event_becomes_ready_once():
    event = testing.Event()
    assert not event.is_ready()
    event.set_ready()
    assert event.is_ready()
    event.set_error(INVALID_ARGUMENT, "too late")
    assert event.wait() == ("OK", "")


def test_event_carries_its_error():
    event = testing.Event()
    event.set_error(INVALID_ARGUMENT, "no such thing")
    assert event.wait() == ("INVALID_ARGUMENT", "no such thing")


def test_callbacks_run_once_in_order_before_and_after():
    event = testing.Event()
    calls: list[tuple[int, str]] = []
    for i in range(5):
        event.on_ready(lambda code, message, i=i: calls.append((i, code)))
    assert calls == []
    event.set_ready()
    event.on_ready(lambda code, message: calls.append((5, code)))
    assert calls == [(i, "OK") for i in range(6)]


def test_waiting_thread_wakes_up():
    event = testing.Event()
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(event.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    event.set_error(INVALID_ARGUMENT, "x")
    for thread in threads:
        thread.join(10)
    assert seen == [("INVALID_ARGUMENT", "x")] * 4


def test_dropped_event_fails_its_callbacks():
    seen = []
    event = testing.Event()
    event.on_ready(lambda code, message: seen.append(code))
    del event
    assert seen == ["INTERNAL"]


def test_always_ready_is_shared():
    assert testing.Event.always_ready().is_ready()
    assert testing.Event.always_ready().wait() == ("OK", "")


def test_callbacks_from_many_threads():
    for _ in range(20):
        event = testing.Event()
        calls: list[int] = []
        barrier = threading.Barrier(4)

        def add(event=event, calls=calls, barrier=barrier):
            barrier.wait()
            for _ in range(20):
                event.on_ready(lambda code, message: calls.append(1))

        threads = [threading.Thread(target=add) for _ in range(3)]
        for thread in threads:
            thread.start()
        barrier.wait()
        event.set_ready()
        for thread in threads:
            thread.join()
        assert len(calls) == 60


def test_stream_keeps_order():
    stream = testing.Stream()
    assert stream.is_idle()
    for i in range(300):  # more than may be pending at a time
        stream.sleep(0.0001 if i % 7 == 0 else 0, i)
    stream.synchronize()
    assert stream.marks() == list(range(300))


def test_stream_is_asynchronous():
    stream = testing.Stream()
    stream.sleep(0.1, 1)
    assert not stream.is_idle()
    assert stream.marks() == []
    stream.synchronize()
    assert stream.marks() == [1]


def test_a_stream_is_unbounded_until_nobody_needs_it():
    stream = testing.Stream()
    stream.set_unbounded(True)
    stream.set_unbounded(True)
    stream.set_unbounded(False)  # the other one still needs it
    stream.sleep(1.5, 0)
    for i in range(1, 101):
        stream.sleep(0, i)
    assert stream.marks() == []  # none of the calls has waited
    stream.synchronize()
    stream.set_unbounded(False)
    stream.sleep(0.1, 101)
    for i in range(102, 202):
        stream.sleep(0, i)
    assert 101 in stream.marks()
    stream.synchronize()
    assert stream.marks() == list(range(202))


def test_destroying_a_stream_runs_what_is_queued():
    stream = testing.Stream()
    start = time.monotonic()
    stream.sleep(0.05, 1)
    stream.sleep(0.05, 2)
    del stream
    assert time.monotonic() - start >= 0.1


@pytest.mark.parametrize("sizes", [[b"abc"], [b"", b"x" * 63, b"y" * 66], [b"a" * 1000]])
def test_checksums(sizes):
    import hashlib
    import zlib

    data = b"".join(sizes)
    assert testing.crc32(data) == zlib.crc32(data)
    assert testing.sha256([part.decode() for part in sizes]) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(("of_memory", "code"), [(True, "RESOURCE_EXHAUSTED"), (False, "INTERNAL")])
def test_a_task_that_throws_is_an_error_of_its_results(of_memory, code):
    stream = testing.Stream()
    assert stream.throw(of_memory).wait()[0] == code
    stream.sleep(0, 7)  # and the stream goes on
    stream.synchronize()
    assert stream.marks() == [7]


def test_a_collective_whose_work_throws_releases_all_devices():
    for code, message in testing.failing_meeting():
        assert code == "RESOURCE_EXHAUSTED"
        assert "all-reduce of program p" in message


def test_a_callback_that_throws_does_not_keep_the_others_from_being_called():
    event, seen = testing.Event(), []

    def fails(code, message):
        raise ValueError("thrown on request")

    event.on_ready(fails)
    event.on_ready(lambda code, message: seen.append(code))
    event.set_ready()
    assert seen == ["OK"]
