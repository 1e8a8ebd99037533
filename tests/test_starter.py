"""Programs that begin in a process which has imported what they need."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.starter import Starter, run_with_jax


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    started = Starter("fractions")
    yield started
    started.end()


def test_each_program_has_its_own_process(starter: Starter) -> None:
    program = """
import os, sys
print("fractions" in sys.modules, os.environ["WHO"], sys.argv[1:], hasattr(os, "seen"))
os.seen = True
print("warned", file=sys.stderr)
sys.exit(3)
"""
    for who in ("first", "second"):
        done = starter.run(program, os.environ | {"WHO": who}, "argument")
        assert done.returncode == 3
        assert done.stdout.split() == ["True", who, "['argument']", "False"]
        assert done.stderr == "warned\n"


def test_an_exception_and_a_signal_are_the_status(starter: Starter) -> None:
    done = starter.run("raise ValueError('no')", {**os.environ})
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: no\n")
    assert starter.run("import os; os.kill(os.getpid(), 9)", {**os.environ}).returncode == -9


def has_ended(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_program_that_does_not_end_is_killed_with_what_it_started(starter: Starter) -> None:
    program = """
import subprocess, time
print(subprocess.Popen(["sleep", "250"]).pid, flush=True)
time.sleep(250)
"""
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        starter.run(program, {**os.environ}, timeout=3)
    child = int(caught.value.output)
    end = time.monotonic() + 60  # a killed process is there until the system comes to end it
    while not has_ended(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert has_ended(child)
    assert starter.run("print(1)", {**os.environ}).stdout == "1\n"


def test_jax_starts_the_platforms_of_the_program() -> None:
    program = "import jax; print(jax.config.jax_platforms, *{d.platform for d in jax.devices()})"
    environment = {**os.environ}
    assert run_with_jax(program, environment, timeout=200).stdout == "None xpu\n"
    environment["JAX_PLATFORMS"] = "cpu"
    assert run_with_jax(program, environment, timeout=200).stdout == "cpu cpu\n"


def test_what_is_read_before_the_fork_must_be_the_same(starter: Starter) -> None:
    assert starter.can_run(os.environ | {"TRIPONT_CACHE": "0"})
    for name in ("JAX_ENABLE_X64", "PYTHONPATH", "LD_PRELOAD", "XLA_FLAGS"):
        assert not starter.can_run(os.environ | {name: "other"})
