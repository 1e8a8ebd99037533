"""Processes whose address space has an end (``ulimit -v``): oneTBB and OpenBLAS are asked for no more than there is."""

from __future__ import annotations

import subprocess
import sys

N = 1 << 16
LIMIT = """
import faulthandler, resource
import numpy as np
from dataclasses import replace
from pathlib import Path
from tripont.core import _tripont
from tests.core.runtime import programs
from tests.core.runtime.conftest import status

BEFORE = resource.getrlimit(resource.RLIMIT_AS)

def limit(more):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    end = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (end, BEFORE[1]))

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
    resource.setrlimit(resource.RLIMIT_AS, BEFORE)
    assert (y.numpy() == 2 * np.arange({N}, dtype=np.float32)).all()
    print("right")
"""


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


def test_a_client_without_room_for_threads() -> None:
    said, errors = run(
        DOUBLE
        + f"""
_tripont.Buffer  # loaded
limit(6 << 20)
client = make_client()
x = _tripont.Buffer.from_array(np.arange({N}, dtype=np.float32), client.devices[0])
run(double(), x)
"""
    )
    assert said.split() == ["right"]
    assert "programs run on 1 of " in errors or not errors  # one CPU: there is nothing to start


def test_openblas_without_room() -> None:
    """It ends the process where it finds no memory when it is loaded; where there is room later, it is loaded then."""
    said, _ = run(
        """
from tests.core.runtime.library.calls import load, shape_of
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

client = make_client()
a = np.eye(3, dtype=np.float32)
factors = lambda: load("geqrf", [a], [shape_of(a), Shape(dtypes.F32, (3,))], {})
limit(48 << 20)
print(status(factors))
resource.setrlimit(resource.RLIMIT_AS, BEFORE)
print(factors().run(client.devices[0], [a])[0].shape)
"""
    )
    assert "RESOURCE_EXHAUSTED" in said
    assert "ulimit -v" in said
    assert said.endswith("(3, 3)\n")
