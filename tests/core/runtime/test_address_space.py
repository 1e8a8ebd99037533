"""Processes whose memory has an end (``ulimit -v``, ``-d``): oneTBB and OpenBLAS are asked for no more than is left."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

N = 1 << 16
LIMIT = """
import faulthandler, resource
import numpy as np
from dataclasses import replace
from pathlib import Path
from tripont.core import _tripont
from tests.core.runtime import programs
from tests.core.runtime.conftest import status

LIMITS = {"VmSize": resource.RLIMIT_AS, "VmData": resource.RLIMIT_DATA}
BEFORE = {of: resource.getrlimit(of) for of in LIMITS.values()}

def limit(more, kind="VmSize"):
    (line,) = (s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith(kind + ":"))
    end = (int(line.split()[1]) << 10) + more
    resource.setrlimit(LIMITS[kind], (end, BEFORE[LIMITS[kind]][1]))

def lift():
    for of, before in BEFORE.items():
        resource.setrlimit(of, before)

def make_client():
    return _tripont.Client({"prestart_worker": False, "cache": False, "device": "host"})

faulthandler.dump_traceback_later(40, exit=True)
"""
DOUBLE = f"""
def double():
    program = programs.in_place({N})
    (kernel,) = program.thunks
    program = replace(program, thunks=(replace(kernel, grain=1024),))
    return _tripont.Executable.load(programs.serialize(program))

def run(program, x):
    (y,) = program.execute(client.devices[0], [x])
    lift()
    assert (y.numpy() == 2 * np.arange({N}, dtype=np.float32)).all()
    print("right")
"""


KINDS = ("VmSize", "VmData")  # ulimit -v, ulimit -d


def run(code: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", LIMIT + code],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_the_first_parallel_loop() -> None:
    """oneTBB waits for ever where there is no memory for what it makes at the first one."""
    said, _ = run(
        DOUBLE
        + f"""
client = make_client()
program = double()
x = _tripont.Buffer.from_array(np.arange({N}, dtype=np.float32), client.devices[0])
limit(1 << 20)
run(program, x)
"""
    )
    assert said.split() == ["right"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_without_room_for_threads(kind: str) -> None:
    said, errors = run(
        DOUBLE
        + f"""
_tripont.Buffer  # loaded
limit(6 << 20, "{kind}")
client = make_client()
x = _tripont.Buffer.from_array(np.arange({N}, dtype=np.float32), client.devices[0])
run(double(), x)
"""
    )
    assert said.split() == ["right"]
    if len(os.sched_getaffinity(0)) > 1:  # else there is nothing to start
        assert "programs run on 1 of " in errors


@pytest.mark.parametrize("kind", KINDS)
def test_openblas_without_room(kind: str) -> None:
    """It ends the process where it finds no memory when it is loaded; where there is room later, it is loaded then."""
    said, _ = run(
        f"KIND = {kind!r}"
        """
from tests.core.runtime.library.calls import load, shape_of
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

client = make_client()
a = np.eye(3, dtype=np.float32)
factors = lambda: load("geqrf", [a], [shape_of(a), Shape(dtypes.F32, (3,))], {})
limit(48 << 20, KIND)
print(status(factors))
lift()
print(factors().run(client.devices[0], [a])[0].shape)
"""
    )
    assert "RESOURCE_EXHAUSTED" in said
    assert "ulimit -v" in said
    assert said.endswith("(3, 3)\n")
