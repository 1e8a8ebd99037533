"""Memory of small objects that threads keep for their next ones (core/runtime/object_pool.h)."""

from __future__ import annotations

import ctypes
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tripont.core import _tripont


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def on_a_thread(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.mark.parametrize("made_here", [True, False], ids=["freed", "made and freed"])
def test_a_thread_that_ends_gives_its_memory_back(client: _tripont.Client, made_here: bool) -> None:
    """Each thread frees more buffers than a pool keeps; 150 of them would keep 10 MB for ever."""
    array = np.zeros(4, np.float32)
    device = client.devices[0]

    def make() -> list[_tripont.Buffer]:
        return [_tripont.Buffer.from_array(array, device) for _ in range(300)]

    def free_one_batch() -> None:
        buffers = make() if made_here else []
        on_a_thread(buffers.clear if made_here else lambda: make().clear())

    for _ in range(5):
        free_one_batch()
    trim = ctypes.CDLL(None).malloc_trim
    trim(0)
    before = resident_bytes()
    for _ in range(150):
        free_one_batch()
    trim(0)
    assert resident_bytes() - before < 4 << 20


def test_buffers_of_many_threads_do_not_mix(client: _tripont.Client) -> None:
    """Buffers that some threads make and others free: each holds its own numbers until it is freed."""
    device = client.devices[0]
    handed_over: list[list[_tripont.Buffer]] = [[] for _ in range(4)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(20):
            expected = np.full(3, 100 * number + turn, np.int32)
            mine = [_tripont.Buffer.from_array(expected, device) for _ in range(40)]
            wrong.extend(turn for b in mine if not np.array_equal(b.numpy(), expected))
            handed_over[(number + 1) % 4] += mine  # freed by the neighbour, or at the end
            handed_over[number].clear()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
