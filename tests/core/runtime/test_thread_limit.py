"""Programs that may use fewer threads than their process: ``Executable.num_threads``."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats.artifact import ALLOCATION_RESULT, Allocation, Kernel, Value
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.core.runtime import programs
from tests.core.runtime.conftest import status

UNITS = 64


def program(num_threads: int) -> _tripont.Executable:
    """A program that says of each of its units of work which thread did it."""
    size = 8 * UNITS
    executable = replace(
        programs.executable(),
        num_threads=num_threads,
        parameters=(),
        results=(Value(Shape(dtypes.S64, (UNITS,))),),
        allocations=(Allocation(ALLOCATION_RESULT, 0, size),),
        thunks=(
            Kernel(programs.function("thread_of_unit"), (programs.whole(0, size),), UNITS, 1, 1e12),
        ),
    )
    return _tripont.Executable.load(programs.serialize(executable))


def threads_used(device: _tripont.Device, num_threads: int) -> int:
    (result,) = program(num_threads).run(device, [])
    return len(set(result.tolist()))


def test_a_program_keeps_to_its_limit(device):
    if _tripont.num_threads() == 1:
        pytest.skip("this process has one thread, which every limit allows")
    # Another thread comes unless the whole machine is taken: the same program without the limit
    # shows that the units are long enough for that.
    assert any(threads_used(device, 0) > 1 for _ in range(20))
    assert [threads_used(device, 1) for _ in range(5)] == [1] * 5
    # The limit was for those programs alone.
    assert any(threads_used(device, 0) > 1 for _ in range(20))


def test_what_threads_share_is_over_sooner():
    """The time that decides whether the caller waits for a program is that until its end."""

    def cost(grain: int, num_threads: int) -> float:
        executable = programs.unary("add_one", UNITS, grain=grain, cost_ns=1e6)
        executable = replace(executable, num_threads=num_threads)
        loaded = _tripont.Executable.load(programs.serialize(executable))
        return float(loaded.describe()["cost_ns"])

    threads = _tripont.num_threads()
    whole = cost(UNITS, 0)
    assert 1e6 <= whole < 1.001e6
    assert cost(1, 1) == whole
    if threads > 1:
        for grain, sharers in ((1, min(threads, UNITS)), (UNITS // 2, 2), (UNITS - 1, 2)):
            assert 1e6 / sharers < cost(grain, 0) < 1e6 / sharers + 1e4
        assert cost(1, 2) == cost(UNITS // 2, 0)


def test_a_limit_above_the_threads_of_the_process(device):
    assert 1 <= threads_used(device, 1 << 40) <= _tripont.num_threads()


def test_callers_do_not_wait_for_one_another(device):
    """Each call has the threads of its limit, so that programs that meet can stand in it together."""
    limited = program(1)
    used: list[set[int]] = []
    callers = [
        threading.Thread(target=lambda: used.append(set(limited.run(device, [])[0].tolist())))
        for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [len(threads) for threads in used] == [1] * 3


def test_a_negative_limit_is_refused(device):
    code, message = status(lambda: program(-1))
    assert code == "INVALID_ARGUMENT"
    assert "a limit of -1 threads" in message
