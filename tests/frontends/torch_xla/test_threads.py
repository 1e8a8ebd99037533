"""Several threads that use the device."""

from __future__ import annotations

import os
import threading

import pytest
from tripont.frontends.torch_xla.threads import Threads

from tests.starter import Starter

_READERS = """
import tripont.torch_xla
import threading
import torch, torch_xla

wrong = []

def read(n):
    try:
        x, y = torch.full((n,), 2.0, device="xla"), torch.zeros(n, device="xla")
        e, f = torch.full((n,), 2.0), torch.zeros(n)
        for i in range(40):
            x, e = x * 1.01 + 0.5, e * 1.01 + 0.5
            y, f = y + x, f + e
            if i % 3 == 0:
                torch.testing.assert_close(torch.tensor(x.sum().item()), e.sum())
            if i % 7 == 0:
                torch.testing.assert_close(y.cpu(), f)
            if i % 11 == 0:
                torch.testing.assert_close(torch.empty(n).copy_(y), f)
    except BaseException as error:
        wrong.append(repr(error))

threads = [threading.Thread(target=read, args=(n,), daemon=DAEMON) for n in range(2, 6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""


@pytest.mark.parametrize("daemon", [False, True])
@pytest.mark.parametrize("variables", [{}, {"XLA_EXPERIMENTAL": ""}], ids=["as it is", "alone"])
def test_threads_that_read(starter: Starter, variables: dict[str, str], daemon: bool) -> None:
    """None waits for ever for one that waits for Python's lock, and none takes another's recording."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_EXPERIMENTAL"}
    environment |= {"PJRT_DEVICE": "XPU"} | variables
    done = starter.run(_READERS.replace("DAEMON", str(daemon)), environment)
    assert done.returncode == 0, done.stderr


def test_one_thread_is_alone() -> None:
    threads = Threads()
    assert threads.is_alone()
    assert threads.is_alone()


def test_a_second_one_that_uses_the_device_is_remembered() -> None:
    threads = Threads()
    threads.see()
    second = threading.Thread(target=threads.see)
    second.start()
    second.join()
    assert not threads.is_alone()


def _wait(begun: threading.Event, end: threading.Event) -> None:
    begun.set()
    end.wait()


def test_a_thread_of_a_users_may_record() -> None:
    threads, begun, end = Threads(), threading.Event(), threading.Event()
    other = threading.Thread(target=_wait, args=(begun, end), daemon=True)
    other.start()
    begun.wait()
    assert not threads.is_alone()
    end.set()
    other.join()
    assert threads.is_alone()


def test_a_thread_that_waits_in_pythons_own_modules_does_not_record() -> None:
    threads, end = Threads(), threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    assert threads.is_alone()
    end.set()
    other.join()
