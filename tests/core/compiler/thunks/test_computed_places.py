"""Arrays of loops that are read or written at computed places stay in memory; other small ones have slots."""

from __future__ import annotations

import jax
import numpy as np
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import S32
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.thunks.computed_places import computed_places

from tests.conformance import device
from tests.core.compiler.builders import number, op, parameter
from tests.core.compiler.codegen.harness import fusion


def at(i: Instruction, x: Instruction) -> Instruction:
    zero = hlo.constant(0, S32)
    return op("dynamic-slice", x, i, zero, dims=(1, 2), slice_sizes=(1, 2))


def test_what_a_kernel_reads_and_writes_at_computed_places() -> None:
    i, x, row = parameter(0, dtype=S32), parameter(1, 7, 2), parameter(2, 1, 2)
    zero = hlo.constant(0, S32)
    read = fusion("loop", [i, x, row], op("add", at(i, x), row))
    assert computed_places(read) == {1}
    moved = fusion("loop", [i, x, row], op("add", at(zero, x), row))
    assert computed_places(moved) == frozenset()
    update = op("dynamic-update-slice", x, row, i, zero)
    assert computed_places(fusion("dynamic-update-slice", [i, x, row], update)) == {1, 3}
    assert computed_places(update) == {0, 4}
    reshaped = op("reshape", op("reshape", x, dims=(14,)), dims=(7, 2))
    assert computed_places(fusion("loop", [i, x], at(i, reshaped))) == {1}
    assert computed_places(fusion("loop", [x, row], op("negate", number(1.0, 7, 2)))) == frozenset()


def stages(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Rows that are each computed from all rows before, as the stages of a Runge-Kutta step are."""
    rows = np.zeros((7, 2), np.float32)
    rows[0] = x
    for i in range(1, min(int(n), 7)):
        rows[i] = x + (rows * np.float32(0.5)).sum(0)
    return rows


def test_loops_of_rows_in_memory_give_what_they_gave() -> None:
    from jax import lax
    from jax import numpy as jnp

    def step(state):
        i, rows, x, n = state
        return i + 1, rows.at[i].set(x + (rows * 0.5).sum(0)), x, n

    def run(x, n):
        rows = jnp.zeros((7, 2), jnp.float32).at[0].set(x)
        return lax.while_loop(lambda s: (s[0] < s[3]) & (s[0] < 7), step, (1, rows, x, n))[1]

    x = np.float32([1.5, -2.0])
    executable = device.compile_program(jax.jit(run).lower(x, np.int32(5)).as_text())
    for n in (0, 1, 3, 7, 9):
        (found,) = device.run(executable, [x, np.int32(n)])
        np.testing.assert_array_equal(found, stages(x, np.int32(n)))
