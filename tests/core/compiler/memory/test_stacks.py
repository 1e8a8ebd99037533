"""Outputs of a scan in the memory of inputs: where they may be, and the programs next to those, where they may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.fuse_loops import fuse_loops
from tripont.core.compiler.passes.late_outputs import compute_outputs_late
from tripont.core.compiler.passes.library import match_library
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.simulate import Simulation

ROWS, WIDTH = 8, 16
LEFT_OUT = (fuse_loops, compute_outputs_late, match_library)
PASSES = [step for step in pipeline.PASSES if step not in LEFT_OUT]
TABLE = ((ROWS, WIDTH, WIDTH), np.float32)
MATRIX = ((WIDTH, WIDTH), np.float32)
ZERO = jnp.zeros((WIDTH, WIDTH), np.float32)


def run(function: Callable[..., Any], *shapes: Any, donated: tuple[int, ...] = ()) -> Simulation:
    """Compile, run, compare with the reference."""
    random = np.random.default_rng(0)
    values = [random.standard_normal(dims).astype(dtype) for dims, dtype in shapes]
    lowered = jax.jit(function, donate_argnums=donated).lower(*values)
    before = read_program(lowered.as_text().encode(), "mlir")
    expected = evaluate(before, values)
    simulation = Simulation(pipeline.run(before, for_cpu(), Dump(), PASSES))
    for a, b in zip(simulation.run(values), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    return simulation


def overlaps(simulation: Simulation) -> bool:
    """Whether two arrays of a row for each step are alive in the same memory at once."""
    values = [v for v in simulation.assignment.all_values if v.shape.dims == TABLE[0]]
    return any(
        a.start < b.start and b.start < a.end
        for a in values
        for b in values
        if simulation.assignment.slice_of(a) == simulation.assignment.slice_of(b)
    )


def step(c: Any, row: Any) -> Any:
    new = jnp.tanh(row @ c + row)
    return new, new


def scanned(x: Any, w: Any, **how: Any) -> Any:
    return jax.lax.scan(step, w, jnp.exp(x) @ w, **how)[1]


def loop(body: Callable[..., Any], x: Any, out: Any, steps: Any = ROWS) -> Any:
    """``body(i, c, x, out)`` in each step, which gives a new c and a new out."""

    def advance(i: Any, state: Any) -> Any:
        c, out = state
        return body(i, c, x, out)

    return jax.lax.fori_loop(0, steps, advance, (ZERO, out))[1]


def written(out: Any, row: Any, i: Any) -> Any:
    return jax.lax.dynamic_update_index_in_dim(out, row, i, 0)


def read(x: Any, i: Any) -> Any:
    return jax.lax.dynamic_index_in_dim(x, i, 0, keepdims=False)


def same_row(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, i) @ c + read(x, i))
    return c, written(out, c, i)


def empty() -> Any:
    return jnp.zeros(TABLE[0], np.float32)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_output_lies_over_an_input(reverse: bool) -> None:
    simulation = run(lambda x, w: scanned(x, w, reverse=reverse) @ w, TABLE, MATRIX)
    assert overlaps(simulation)


def test_layer_after_layer_in_one_place() -> None:
    def layers(x, w):
        for _ in range(3):
            x = jax.lax.scan(step, w, x)[1]
        return x @ w

    simulation = run(layers, TABLE, MATRIX)
    assert overlaps(simulation)


def test_a_loop_with_a_place_for_both() -> None:
    assert overlaps(run(lambda x, w: loop(same_row, jnp.exp(x) @ w, empty()) @ w, TABLE, MATRIX))


def test_the_result_of_the_program() -> None:
    assert overlaps(run(lambda x, w: loop(same_row, jnp.exp(x) @ w, empty()), TABLE, MATRIX))


def from_the_other_end(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, ROWS - 1 - i) @ c + 1.0)
    return c, written(out, c, i)


def the_row_before(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, i - 1) @ c + 1.0)  # in step 0 the last row, or the first
    return c, written(out, c, i)


def the_next_row(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(jax.lax.dynamic_slice_in_dim(x, i + 1, 1)[0] @ c + 1.0)  # held back at the end
    return c, written(out, c, i)


def beyond_the_end(i: Any, c: Any, x: Any, out: Any) -> Any:
    row = jax.lax.dynamic_slice_in_dim(x, i + 4, 1)[0]
    c = jnp.tanh(row @ c + row)
    return c, jax.lax.dynamic_update_slice_in_dim(out, c[None], i + 4, 0)


def read_after_it_was_written(i: Any, c: Any, x: Any, out: Any) -> Any:
    out = written(out, jnp.tanh(c), i)
    row = read(x, i + (out[i, 0, 0] > 2.0).astype(np.int32))
    return jnp.tanh(read(x, i) @ c + row + read(out, i)), out


def another_row_too(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, i) @ c + read(x, 0))
    return c, written(out, c, i)


def the_whole_input(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, i) @ c + (x * c).max())
    return c, written(out, c, i)


def in_a_branch(i: Any, c: Any, x: Any, out: Any) -> Any:
    row = jax.lax.cond(c[0, 0] > 0.1, lambda: read(x, i) @ c, lambda: x[0] + c)
    c = jnp.tanh(row)
    return c, written(out, c, i)


def a_place_of_half_a_row(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, i) @ c + 1.0)
    return c, jax.lax.dynamic_update_slice(out, c[None, :8], (i, i, 0))


def what_was_written_before(i: Any, c: Any, x: Any, out: Any) -> Any:
    c = jnp.tanh(read(x, i) @ c + read(out, jnp.maximum(i - 1, 0)))
    return c, written(out, c, i)


@pytest.mark.parametrize(
    "body",
    [
        from_the_other_end,
        the_row_before,
        the_next_row,
        beyond_the_end,
        read_after_it_was_written,
        another_row_too,
        the_whole_input,
        in_a_branch,
        a_place_of_half_a_row,
        what_was_written_before,
    ],
)
def test_a_loop_that_needs_both(body: Callable[..., Any]) -> None:
    assert not overlaps(run(lambda x, w: loop(body, jnp.exp(x) @ w, empty()) @ w, TABLE, MATRIX))


def test_an_input_that_is_read_behind_the_loop() -> None:
    def function(x, w):
        x = jnp.exp(x) @ w
        return loop(same_row, x, empty()) @ x

    assert not overlaps(run(function, TABLE, MATRIX))


def test_an_input_that_comes_in_twice() -> None:
    def function(x, w):
        x = jnp.exp(x) @ w

        def advance(i, state):
            c, turned, out = state
            c = jnp.tanh(read(x, i) @ c + read(turned, ROWS - 1 - i))
            return c, turned, written(out, c, i)

        return jax.lax.fori_loop(0, ROWS, advance, (ZERO, x, empty()))[2] @ w

    assert not overlaps(run(function, TABLE, MATRIX))


def test_an_unknown_number_of_steps() -> None:
    def function(x, w, n):
        return loop(same_row, jnp.exp(x) @ w, empty(), n.astype(np.int32)) @ w

    assert not overlaps(run(function, TABLE, MATRIX, ((), np.float32)))


def test_rows_that_are_not_written() -> None:
    def function(x, w, out):
        return loop(same_row, jnp.exp(x) @ w, out @ w, ROWS - 2) @ w

    assert not overlaps(run(function, TABLE, MATRIX, TABLE))


def test_parameters_stay_their_owners() -> None:
    assert not overlaps(run(lambda x, w: loop(same_row, x, empty()) @ w, TABLE, MATRIX))


@pytest.mark.parametrize("donated", [(), (0,)])
def test_donated_inputs(donated: tuple[int, ...]) -> None:
    run(lambda x, w: jax.lax.scan(step, w, x)[1], TABLE, MATRIX, donated=donated)


def test_two_outputs_over_two_inputs() -> None:
    def function(x, w):
        def advance(c, rows):
            a, b = rows
            c = jnp.tanh(a @ c + b)
            return c, (c, c * b)

        a, b = jax.lax.scan(advance, w, (jnp.exp(x) @ w, jnp.sin(x) @ w))[1]
        return a @ b

    assert overlaps(run(function, TABLE, MATRIX))


def test_two_outputs_and_one_input() -> None:
    def function(x, w):
        def advance(c, row):
            c = jnp.tanh(row @ c)
            return c, (c, c * row)

        a, b = jax.lax.scan(advance, w, jnp.exp(x) @ w)[1]
        return a @ b

    run(function, TABLE, MATRIX)


def test_loops_in_a_loop() -> None:
    def function(x, w):
        def outer(x, _):
            return jax.lax.scan(step, w, jnp.exp(x) @ w)[1], None

        return jax.lax.scan(outer, x, None, length=3)[0]

    run(function, TABLE, MATRIX)


def loop_of_text(name: str, rows: str) -> str:
    """A loop over ``rows`` in StableHLO whose output begins as %empty."""
    table, matrix, row, place = (
        f"tensor<{dims}>" for dims in ("8x16x16xf32", "16x16xf32", "1x16x16xf32", "i32")
    )
    return f"""
    {name}:4 = stablehlo.while(%i = %zero, %x = {rows}, %c = %start, %out = %empty)
        : {place}, {table}, {matrix}, {table}
    cond {{
      %more = stablehlo.compare LT, %i, %eight : ({place}, {place}) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 16]
          : ({table}, {place}, {place}, {place}) -> {row}
      %a = stablehlo.reshape %row : ({row}) -> {matrix}
      %b = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0]
          : ({matrix}, {matrix}) -> {matrix}
      %d = stablehlo.add %a, %b : {matrix}
      %new = stablehlo.tanh %d : {matrix}
      %made = stablehlo.reshape %new : ({matrix}) -> {row}
      %written = stablehlo.dynamic_update_slice %out, %made, %i, %zero, %zero
          : ({table}, {row}, {place}, {place}, {place}) -> {table}
      %next = stablehlo.add %i, %one : {place}
      stablehlo.return %next, %x, %new, %written : {place}, {table}, {matrix}, {table}
    }}"""


def test_two_outputs_that_begin_in_one_memory() -> None:
    """The first loop's output would be copied from where the second one's begins, over the input that is given away."""
    table = "tensor<8x16x16xf32>"
    text = f"""
module {{
  func.func public @main(%given: {table} {{tf.aliasing_output = 0 : i32}}, %start: tensor<16x16xf32>, %other: {table})
      -> ({table}, {table}) {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %eight = stablehlo.constant dense<8> : tensor<i32>
    %empty = stablehlo.custom_call @AllocateBuffer() : () -> {table}
    {loop_of_text("%first", "%given")}
    {loop_of_text("%second", "%other")}
    return %first#3, %second#3 : {table}, {table}
  }}
}}"""
    random = np.random.default_rng(0)
    given, start, other = (
        random.standard_normal(dims).astype(np.float32) for dims in (TABLE[0], MATRIX[0], TABLE[0])
    )
    before = read_program(text.encode(), "mlir")
    expected = evaluate(before, [given, start, other])
    simulation = Simulation(pipeline.run(before, for_cpu(), Dump(), PASSES))
    results = simulation.run([given, start, other])
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
