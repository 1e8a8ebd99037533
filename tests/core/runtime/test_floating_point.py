"""Programs run in the modes of IEEE 754, whatever those of the thread are that calls them."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    Allocation,
    Kernel,
    Value,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.core.runtime import programs
from tests.core.runtime.programs import function, whole

# Which word of C's fenv_t, and which bits of it: MXCSR's flushes of operands and results, FPCR's.
_WORD, _FLUSHES = (7, 1 << 15 | 1 << 6) if platform.machine() == "x86_64" else (0, 1 << 24)


class _Flushing:
    """A thread in whose modes denormal numbers are 0, as in XLA's thread pools."""

    def __enter__(self):
        self.libm = ctypes.CDLL("libm.so.6")
        self.before = (ctypes.c_uint32 * 8)()
        self.libm.fegetenv(self.before)
        changed = (ctypes.c_uint32 * 8)(*self.before)
        changed[_WORD] |= _FLUSHES
        self.libm.fesetenv(changed)
        return self

    def __exit__(self, *_):
        self.libm.fesetenv(self.before)


def _sum(n, grain, cost_ns):
    shape, size = Shape(dtypes.F32, (n,)), 4 * n
    slices = tuple(whole(i, size) for i in range(3))
    return programs.executable(
        parameters=(Value(shape), Value(shape)),
        results=(Value(shape),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, size),
            Allocation(ALLOCATION_PARAMETER, 1, size),
            Allocation(ALLOCATION_RESULT, 0, size),
        ),
        thunks=(Kernel(function("add"), slices, n, grain, cost_ns),),
    )


@pytest.mark.parametrize(("n", "cost_ns"), [(8, 10.0), (1 << 20, 1e7)])
def test_denormal_numbers_stay(device, n, cost_ns):
    """On the caller's thread, on the stream's, and on those of a parallel loop."""
    program = _tripont.Executable.load(programs.serialize(_sum(n, 1 << 12, cost_ns)))
    x = np.full(n, 1e-40, np.float32)
    with _Flushing():
        (result,) = program.run(device, [x, x])
        assert not (x + x).any()  # the thread has its modes back
    np.testing.assert_array_equal(result, x + x)
    assert result.all()
