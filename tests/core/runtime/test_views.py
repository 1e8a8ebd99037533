"""Views: slices that thunks read where they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    ALLOCATION_TEMP,
    ALLOCATION_VIEW,
    Allocation,
    Copy,
    Kernel,
    Slice,
    Stride,
    Value,
    View,
    While,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.programs import whole
from tests.core.runtime.test_artifact_refusal import load
from tests.core.runtime.test_execution import run

ROWS, ROW = 5, 16  # a row is 64 bytes, as far apart as views may be
ROW_BYTES = 4 * ROW
STACK = np.arange(ROWS * ROW, dtype=np.float32).reshape(ROWS, ROW)
INDEX = Slice(1, 0, 4)
VIEW = View(whole(3, ROW_BYTES), whole(0, STACK.nbytes), (Stride(INDEX, ROWS - 1, ROW_BYTES),))
COPY = Copy(whole(2, ROW_BYTES), whole(3, ROW_BYTES))


def rows(*thunks, index=dtypes.S32):
    """A program that copies row i of f32[5,16]."""
    return programs.executable(
        name="row",
        parameters=(Value(Shape(dtypes.F32, STACK.shape)), Value(Shape(index, ()))),
        results=(Value(Shape(dtypes.F32, (ROW,))),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, STACK.nbytes),
            Allocation(ALLOCATION_PARAMETER, 1, index.size),
            Allocation(ALLOCATION_RESULT, 0, ROW_BYTES),
            Allocation(ALLOCATION_VIEW, 0, ROW_BYTES),
            Allocation(ALLOCATION_VIEW, 0, ROW_BYTES),
            Allocation(ALLOCATION_TEMP, 0, 64),
        ),
        thunks=thunks or (VIEW, COPY),
    )


@pytest.mark.parametrize("index", [0, 1, 4, 5, -1, 2**31 - 1, -(2**31)])
def test_a_view_is_the_row_of_its_index(device, index):
    (result,) = run(device, rows(), STACK, np.int32(index))
    np.testing.assert_array_equal(result, STACK[min(max(index, 0), ROWS - 1)])


@pytest.mark.parametrize("index", [3, 2**40, -(2**40)])
def test_an_index_of_64_bits(device, index):
    view = replace(VIEW, strides=(Stride(Slice(1, 0, 8), ROWS - 1, ROW_BYTES),))
    program = rows(view, COPY, index=dtypes.S64)
    (result,) = run(device, program, STACK, np.int64(index))
    np.testing.assert_array_equal(result, STACK[min(max(index, 0), ROWS - 1)])


def test_a_view_without_an_index(device):
    view = View(VIEW.view, Slice(0, 2 * ROW_BYTES, ROW_BYTES), ())
    (result,) = run(device, rows(view, COPY), STACK, np.int32(0))
    np.testing.assert_array_equal(result, STACK[2])


def test_a_view_of_a_view(device):
    """The last two of the rows from 1 or 2 on."""
    outer = View(
        whole(3, 3 * ROW_BYTES),
        Slice(0, ROW_BYTES, 4 * ROW_BYTES),
        (Stride(INDEX, 1, ROW_BYTES),),
    )
    inner = View(
        whole(4, ROW_BYTES), Slice(3, ROW_BYTES, 2 * ROW_BYTES), (Stride(INDEX, 1, ROW_BYTES),)
    )
    program = rows(outer, inner, Copy(whole(2, ROW_BYTES), whole(4, ROW_BYTES)))
    allocations = list(program.allocations)
    allocations[3] = Allocation(ALLOCATION_VIEW, 0, 3 * ROW_BYTES)
    program = replace(program, allocations=tuple(allocations))
    for index in (0, 1, 9):
        (result,) = run(device, program, STACK, np.int32(index))
        np.testing.assert_array_equal(result, STACK[2 + 2 * min(index, 1)])


def test_a_view_moves_in_a_loop(device):
    """Each step sees the row of its own counter."""
    counter, predicate = Slice(5, 0, 4), Slice(5, 8, 1)
    program = rows(
        Copy(counter, INDEX),
        While(
            condition=(
                Kernel(programs.function("less_than"), (counter, INDEX, predicate), 1, 1, 1.0),
            ),
            body=(
                replace(VIEW, strides=(Stride(counter, ROWS - 1, ROW_BYTES),)),
                COPY,
                Kernel(programs.function("increment"), (counter,), 1, 1, 1.0),
            ),
            predicate=predicate,
            trip_count=3,
        ),
    )
    (result,) = run(device, program, STACK, np.int32(0))
    np.testing.assert_array_equal(result, STACK[2])


def with_stride(*strides):
    return (replace(VIEW, strides=strides), COPY)


REFUSED = {
    "no thunk sets it": ((COPY,), "before it is set"),
    "it is set too late": ((COPY, VIEW), "before it is set"),
    "it is set twice": ((VIEW, VIEW, COPY), "by two thunks"),
    "of itself": (
        (replace(VIEW, source=whole(3, ROW_BYTES), strides=()), COPY),
        "before it is set",
    ),
    "it is written": (
        (VIEW, Copy(whole(3, ROW_BYTES), Slice(0, 0, ROW_BYTES))),
        "writes to a view",
    ),
    "no view": ((replace(VIEW, view=whole(5, 64)), COPY), "is not a view"),
    "no such allocation": ((replace(VIEW, view=whole(99, 64)), COPY), "is not a view"),
    "a part of it": ((replace(VIEW, view=Slice(3, 0, 32)), COPY), "a part of view"),
    "not its start": ((replace(VIEW, view=Slice(3, 8, 56)), COPY), "a part of view"),
    "larger than the array": ((replace(VIEW, source=whole(0, 32)), COPY), "a view of 64 bytes"),
    "outside of the array": ((replace(VIEW, source=Slice(0, 64, 320)), COPY), "outside"),
    "an unaligned start": (
        (View(VIEW.view, Slice(0, 32, ROW_BYTES), ()), COPY),
        "a view at offset 32",
    ),
    "an index of three bytes": (
        with_stride(Stride(Slice(1, 0, 3), 1, ROW_BYTES)),
        "an index of 3 bytes",
    ),
    "an unaligned index": (
        with_stride(Stride(Slice(5, 2, 4), 1, ROW_BYTES)),
        "an index of 4 bytes",
    ),
    "an index outside": (with_stride(Stride(Slice(1, 4, 4), 1, ROW_BYTES)), "outside"),
    "a row too many": (with_stride(Stride(INDEX, ROWS, ROW_BYTES)), "leads out of the array"),
    "two indices too far": (
        with_stride(Stride(INDEX, 2, ROW_BYTES), Stride(INDEX, 3, ROW_BYTES)),
        "leads out of the array",
    ),
    "a product that overflows": (
        with_stride(Stride(INDEX, 1 << 58, ROW_BYTES)),
        "leads out of the array",
    ),
    "a sum that overflows": (
        with_stride(Stride(INDEX, (1 << 57) - 1, 64), Stride(INDEX, (1 << 57) - 1, 64)),
        "leads out of the array",
    ),
    "a negative limit": (with_stride(Stride(INDEX, -1, ROW_BYTES)), "an index up to -1"),
    "a negative stride": (with_stride(Stride(INDEX, 1, -64)), "times -64 bytes"),
    "no stride": (with_stride(Stride(INDEX, 1, 0)), "times 0 bytes"),
    "rows between aligned places": (with_stride(Stride(INDEX, 1, 32)), "times 32 bytes"),
    "set in a loop after its use": (
        (While((COPY,), (VIEW,), Slice(5, 0, 1), 1),),
        "before it is set",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_view_is_refused(name):
    thunks, what = REFUSED[name]
    code, message = status(lambda: load(programs.serialize(rows(*thunks))))
    assert (code, what in message) == ("INVALID_ARGUMENT", True), message
