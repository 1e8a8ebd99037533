"""Programs on threads with little stack: what generated code keeps there is as large as the compiler allows.

A program that runs out of its stack ends the process, so each test runs in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from tripont.core import _tripont
from tripont.core.compiler.codegen.llvm_ir.builder import MOST_STACK
from tripont.core.compiler.formats.artifact import ALLOCATION_RESULT, Allocation, Kernel, Value
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.core.runtime import programs

UNITS = 64
LITTLE = 256 << 10


def run(cost_ns: float, grain: int = UNITS) -> None:
    """Run a program whose every unit touches all the stack that a function may have, and says which thread it is on."""
    size = 8 * UNITS
    executable = programs.executable(
        parameters=(),
        results=(Value(Shape(dtypes.S64, (UNITS,))),),
        allocations=(Allocation(ALLOCATION_RESULT, 0, size),),
        thunks=(
            Kernel(
                programs.function("fill_stack"), (programs.whole(0, size),), UNITS, grain, cost_ns
            ),
        ),
    )
    program = _tripont.Executable.load(programs.serialize(executable))
    (result,) = program.run(_tripont.Client().devices[0], [])
    assert result.all()


def on_thread(function: Callable[[], None]) -> None:
    """Call ``function`` on a thread with :data:`LITTLE` bytes of stack."""
    threading.stack_size(LITTLE)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def survives(code: str, stack: int | None = None) -> None:
    """Run ``code`` in a process whose threads have ``stack`` bytes if they do not ask for more."""
    limits = (stack, resource.getrlimit(resource.RLIMIT_STACK)[1])
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.core.runtime import test_stack as t\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=stack and (lambda: resource.setrlimit(resource.RLIMIT_STACK, limits)),
    )
    assert done.returncode == 0, done.stderr


def test_the_kernel_has_as_much_as_the_compiler_allows():
    assert f"char array[{MOST_STACK}]" in programs._SOURCE


@pytest.mark.parametrize("cost_ns", [10.0, 1e9], ids=["inline", "stream"])
def test_the_caller_has_little(cost_ns):
    survives(f"t.on_thread(lambda: t.run({cost_ns}))")


@pytest.mark.parametrize("cost_ns", [10.0, 1e9], ids=["inline", "stream"])
def test_the_process_gives_its_threads_little(cost_ns):
    survives(f"t.run({cost_ns})", LITTLE)


def test_all_cores_where_the_process_gives_its_threads_little():
    survives("t.run(1e12, 1)", LITTLE)


def test_nested_deeper_than_the_callers_stack():
    """What reads, loads and runs thunks in thunks calls itself for each level."""
    survives("""
from tests.core.runtime.test_execution import deep_recursion, nested
with deep_recursion():
    data = t.programs.serialize(nested(1000))

def load():
    try:
        t._tripont.Executable.load(data)
    except t._tripont.StatusError as error:
        assert "KB that the thread has left of its stack" in str(error)
    else:
        raise AssertionError("loaded on a thread with little stack")

t.on_thread(load)
""")
    survives("""
import numpy as np
from tests.core.runtime.test_execution import deep_recursion, nested
with deep_recursion():
    data = t.programs.serialize(nested(60))

def run():
    program = t._tripont.Executable.load(data)
    program.run(t._tripont.Client().devices[0], [np.int32(5)])

t.on_thread(run)
""")
