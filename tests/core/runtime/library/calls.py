"""Run one library call by itself: an artifact with one thunk, loaded and executed by the runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_CONSTANT,
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    Allocation,
    Copy,
    DebugInfo,
    LibraryCall,
    Operand,
    Slice,
    Value,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.passes.library.onednn import CONVOLUTION, DOT, row
from tripont.core.compiler.targets.host import for_cpu

from .. import programs

Array = np.ndarray[Any, Any]
# What tests compile programs for: the CPU that the process behaves as.
OPTIONS = {"cpu": os.environ.get("TRIPONT_CPU") or "host"}
SERVER = for_cpu("icelake-server")  # where every row of the table holds


def shape_of(array: Array) -> Shape:
    return Shape(dtypes.from_numpy(array.dtype), array.shape)


def load(
    name: str,
    operands: Sequence[Array],
    results: Sequence[Shape],
    attributes: dict[str, Any],
    constants: Sequence[int] = (),
    in_place: Sequence[tuple[int, int]] = (),
) -> Any:
    """The executable that makes one call. ``constants``: the operands that are constants of the program.

    ``in_place``: results, each with the operand that lies in its memory: a copy of a parameter.

    A call that the compiler never makes for this CPU, because oneDNN lacks the element types there, skips the test.
    """
    shapes = [shape_of(o) for o in operands]
    if operation := {"gemm": DOT, "convolution": CONVOLUTION}.get(name):
        types = (shapes[0].dtype, shapes[1].dtype, results[0].dtype)
        target = for_cpu(OPTIONS["cpu"])
        if row(operation, types, target) is None and row(operation, types, SERVER) is not None:
            pytest.skip(f"oneDNN has no {operation} of {types} on this CPU ({target.cpu})")
    allocations: list[Allocation] = []
    pool = b""
    parameters: list[Value] = []
    for i, (operand, shape) in enumerate(zip(operands, shapes, strict=True)):
        if i in constants:
            pool += bytes(-len(pool) % 64)
            allocations.append(Allocation(ALLOCATION_CONSTANT, 0, shape.bytes, len(pool)))
            pool += np.ascontiguousarray(operand).tobytes()
        else:
            allocations.append(Allocation(ALLOCATION_PARAMETER, len(parameters), shape.bytes))
            parameters.append(Value(shape))
    allocations += [Allocation(ALLOCATION_RESULT, i, s.bytes) for i, s in enumerate(results)]
    arrays = [
        Operand(Slice(n, 0, shape.bytes), shape) for n, shape in enumerate([*shapes, *results])
    ]
    copies = []
    for result, operand in in_place:
        place = arrays[len(shapes) + result].slice
        copies.append(Copy(place, arrays[operand].slice, debug=0))
        arrays[operand] = Operand(place, shapes[operand])
    call = LibraryCall(
        name, tuple(arrays[: len(shapes)]), tuple(arrays[len(shapes) :]), attributes, 1e6, debug=0
    )
    program = programs.executable(
        name=name,
        parameters=tuple(parameters),
        results=tuple(Value(s) for s in results),
        allocations=tuple(allocations),
        thunks=(*copies, call),
        debug=(DebugInfo(f"{name}.1", f"jit(f)/{name}", "model.py", 7),),
        constants=pool,
    )
    return _tripont.Executable.load(artifact.serialize(program))


def run(
    device: Any,
    name: str,
    operands: Sequence[Array],
    results: Sequence[Shape],
    attributes: dict[str, Any],
    constants: Sequence[int] = (),
    in_place: Sequence[tuple[int, int]] = (),
) -> list[Array]:
    executable = load(name, operands, results, attributes, constants, in_place)
    return executable.run(device, [o for i, o in enumerate(operands) if i not in constants])  # type: ignore[no-any-return]


def row_major(dims: Sequence[int]) -> list[int]:
    """Strides of a dense array, in elements."""
    strides = [1] * len(dims)
    for i in range(len(dims) - 1, 0, -1):
        strides[i - 1] = strides[i] * dims[i]
    return strides
