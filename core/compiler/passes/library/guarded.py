"""Convolutions of bf16 that AMX computes right for numbers, and others for infinities and NaN.

Two ways to sum read more than a sum's own numbers, and multiply the others by zero, which makes a NaN of an infinity:

* oneDNN with AMX lays the features of up to four and the pixels of a window out as one row. Where such a row is not
  whole steps of AMX's instructions, the last step goes on with the pixels behind the window.
* Gradients of weights in AMX's registers (:mod:`.matrix_gradients`) meet the input behind a row at zeros.

Both are several times as fast as what reads no more. So the program looks at the numbers: at the input of the first
kind, which is small, and of the second at the result, which has a NaN wherever a sum has met an infinity at a zero.
Only then it computes the convolution again in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from ...ir import dtypes
from ...ir.hlo import (
    Computation,
    ConvolutionDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
    constant,
    parameter,
)

#: What makes an instruction of those that it is given.
Way = Callable[[Sequence[Instruction]], Instruction]

#: Numbers of bf16 that a step of AMX's instructions multiplies in a row.
_STEP: Final = 32
#: Rows of less are not multiplied by AMX there.
_SHORTEST_ROW: Final = _STEP // 2
#: Features of a pixel up to which oneDNN lays windows out as rows.
_FEW_FEATURES: Final = 4


def reads_behind_windows(convolution: Instruction) -> bool:
    """Whether oneDNN, with AMX, multiplies pixels behind the windows of ``convolution``, a forward one, by zero.

    Tried with oneDNN 3.2, for whose rows see ``is_relo`` in src/cpu/x64/jit_avx512_core_amx_conv_kernel.cpp.
    """
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    if any(o.dtype is not dtypes.BF16 for o in convolution.operands):
        return False
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    features: int = convolution.operands[1].dims[numbers.kernel_input_feature]
    if features > _FEW_FEATURES or convolution.attributes["feature_group_count"] != 1:
        return False
    row = features * math.prod(w.size for w in windows)
    return row >= _SHORTEST_ROW and row % _STEP != 0


def if_finite(
    array: Instruction, operands: Sequence[Instruction], yes: Way, no: Way
) -> Instruction:
    """``yes`` of ``operands`` where all of ``array`` is finite, ``no`` of them elsewhere."""
    finite = Instruction("is-finite", Shape(dtypes.PRED, array.dims), (array,))
    return _either(_all(finite), (operands, yes), (operands, no))


def unless_nan(result: Instruction, operands: Sequence[Instruction], no: Way) -> Instruction:
    """``result``, or ``no`` of ``operands`` where an element of ``result`` is not a number."""
    attributes = {"direction": "EQ", "comparison_type": "FLOAT"}
    is_number = Instruction(
        "compare", Shape(dtypes.PRED, result.dims), (result, result), attributes
    )
    return _either(_all(is_number), ([result], lambda given: given[0]), (operands, no))


def _all(truths: Instruction) -> Instruction:
    """Whether every element is true."""
    one = Shape(dtypes.PRED)
    a, b = parameter(0, one), parameter(1, one)
    body = Computation.from_root("all", [a, b], Instruction("and", one, (a, b)))
    start = constant(True, dtypes.PRED)
    dimensions = {"dimensions": tuple(range(len(truths.dims)))}
    return Instruction("reduce", one, (truths, start), dimensions, (body,))


def _either(
    condition: Instruction,
    yes: tuple[Sequence[Instruction], Way],
    no: tuple[Sequence[Instruction], Way],
) -> Instruction:
    """The first way where ``condition`` holds, else the second, each with what it reads."""
    called: list[Computation] = []
    for name, (operands, way) in (("usual", yes), ("exact", no)):
        given = [parameter(n, Shape(o.dtype, o.dims)) for n, o in enumerate(operands)]
        called.append(Computation.from_root(name, given, way(given)))
    attributes = {"operand_counts": (len(yes[0]), len(no[0])), "usual": 0}
    return Instruction(
        "conditional", called[0].root.shape, (condition, *yes[0], *no[0]), attributes, tuple(called)
    )
