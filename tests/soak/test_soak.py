"""The soak run finds what it is for: growth, failures, jobs that stall."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.soak import __main__ as run_of_soak
from tests.soak import memory
from tests.soak.__main__ import Soak, grown


def test_growth_is_found() -> None:
    before = {"MB of memory": 1000.0, "threads": 30.0, "open files": 20.0}
    assert grown(before, before) == []
    assert grown(before, before | {"open files": 60.0}) == ["open files grew from 20 to 60"]


def test_a_wrong_number_ends_the_run() -> None:
    soak = Soak(1)

    def wrong(numbers: random.Random) -> None:
        raise AssertionError("1 instead of 2")

    soak.job(wrong).join(10)
    assert soak.stop.is_set()
    assert soak.failures == ["wrong: AssertionError: 1 instead of 2"]


def test_what_explains_itself_goes_on() -> None:
    soak = Soak(1)

    def refused(numbers: random.Random) -> None:
        time.sleep(0.001)
        raise RuntimeError("RESOURCE_EXHAUSTED: no room")

    thread = soak.job(refused)
    deadline = time.monotonic() + 60
    while not soak.explained and time.monotonic() < deadline:
        time.sleep(0.01)
    soak.stop.set()
    thread.join(10)
    assert soak.explained
    assert not soak.failures


@pytest.mark.slow
def test_a_short_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0.25"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"TRIPONT_VERIFY": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    for job in ("training", "serving", "callbacks"):
        assert re.search(rf"^done:.*\b{job} [1-9]", done.stdout, re.MULTILINE), done.stdout


def test_what_grows_beside_a_job_that_takes_all_memory() -> None:
    def samples(leak: float) -> list[tuple[float, float]]:
        numbers = random.Random(3)
        return [(t, 500 + leak * t / 60 + numbers.choice((5, 40, 900))) for t in range(600)]

    assert abs(memory.slope(samples(0.0))) < 0.01
    assert 1.9 < memory.slope(samples(2.0)) < 2.1
    assert memory.said("a", samples(2.0)).startswith(
        "a: 505 MB at first, 524 MB 9.7 minutes later, +1.9"
    )
    assert memory.said("short-lived", samples(2.0)[:30]) == ""


def test_what_is_held_while_all_jobs_rest() -> None:
    """What a job holds in the middle of a step is not seen; what it keeps is."""
    soak = Soak(1)
    kept = []

    def borrowing(numbers: random.Random) -> None:
        held = bytearray(numbers.randrange(20_000_000))
        time.sleep(0.001)
        del held

    def leaking(numbers: random.Random) -> None:
        kept.append(bytearray(100_000))
        time.sleep(0.001)

    threads = [soak.job(step) for step in (borrowing, leaking)]
    cleared = []
    held = []
    for _ in range(5):
        with soak.rest(["borrowing", "leaking"]):
            held.append((len(kept), memory.at_rest(lambda: cleared.append(1)).used))
            time.sleep(0.01)
            assert len(kept) == held[-1][0]
        time.sleep(0.05)
    soak.stop.set()
    for thread in threads:
        thread.join(10)
    assert len(cleared) == 5
    assert not soak.failures
    for (items, used), (more_items, more_used) in pairwise(held):
        assert abs((more_used - used) - (more_items - items) * 0.1) < 1


def test_a_job_that_does_not_come_to_rest_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_of_soak, "STALLED", 0.1)
    soak = Soak(1)
    go_on = threading.Event()

    def stalled(numbers: random.Random) -> None:
        go_on.wait(60)

    thread = soak.job(stalled)
    with soak.rest(["stalled"]):
        pass
    go_on.set()
    thread.join(10)
    assert soak.failures == ["nothing has come to an end for 0 s: stalled"]


def test_what_malloc_has_given() -> None:
    before = memory.malloc().used
    held = bytearray(64_000_000)
    assert memory.malloc().used - before > 60
    del held
    assert memory.resident() > memory.resident(1 << 30) == 0


FREED_BLOCKS = """
import ctypes
from tests.soak import memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
before = memory.malloc().used
blocks = [libc.malloc(size) for size in range(528, 1040, 16) for _ in range(7)]
for block in blocks:
    libc.free(block)
print(memory.malloc().used - before)
"""


def test_blocks_that_a_thread_has_freed_are_not_in_use() -> None:
    """glibc keeps 7 blocks of a size for the thread that freed them: here 175 kB, which it counts as used."""
    root = Path(__file__).parents[2]

    def counted(environment: dict[str, str]) -> float:
        command = [sys.executable, "-c", FREED_BLOCKS]
        plain = {n: v for n, v in os.environ.items() if n != "GLIBC_TUNABLES"}
        done = subprocess.run(
            command, env=plain | environment, cwd=root, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    if memory.malloc().used == 0:
        pytest.skip("this C library does not tell what malloc has given")
    assert counted({}) > 0.1
    assert counted(memory.TUNABLES) < 0.05
