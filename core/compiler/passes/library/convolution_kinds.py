"""Which of oneDNN's three convolutions one of HLO's is best read as, and how large it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension
from .gemm import Dimension, row_major


def products_of_sum(convolution: Instruction) -> int:
    """How many products each number of the result is the sum of, those with padding included."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    rhs = convolution.operands[1].dims
    return math.prod(rhs) // max(1, rhs[numbers.kernel_output_feature])


def multiply_adds(convolution: Instruction) -> int:
    """Multiplications of a convolution, those with padding included."""
    return math.prod(convolution.dims) * products_of_sum(convolution)


@dataclass(slots=True)
class View:
    """An array read with other dimensions than it lies in memory: ``dimensions`` of ``instruction``'s buffer."""

    instruction: Instruction
    dimensions: list[Dimension]
    reversed: frozenset[int] = frozenset()

    def pick(self, *indices: int) -> list[Dimension]:
        return [self.dimensions[i] for i in indices]


def view(instruction: Instruction, through_reverse: bool) -> View:
    """The array behind transposes and (for a kernel) reverses."""
    order = list(range(len(instruction.dims)))  # place of each of our dimensions in the source
    backwards: set[int] = set()
    while True:
        if instruction.opcode == "transpose":
            order = [instruction.attributes["dimensions"][d] for d in order]
        elif instruction.opcode == "reverse" and through_reverse:
            flipped = instruction.attributes["dimensions"]
            backwards ^= {i for i, d in enumerate(order) if d in flipped}
        else:
            break
        instruction = instruction.operands[0]
    dense = row_major(instruction.dims)
    return View(instruction, [dense[d] for d in order], frozenset(backwards))


def is_input_gradient(convolution: Instruction) -> bool:
    """Whether the convolution is best read as the gradient of another one's input."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    if any(w.stride != 1 for w in windows) or convolution.attributes["batch_group_count"] != 1:
        return False
    if any(w.base_dilation != 1 for w in windows):
        return True
    spatial = convolution.attributes["dimension_numbers"].kernel_spatial
    flipped = view(convolution.operands[1], through_reverse=True).reversed
    wide = [i for i, w in enumerate(windows) if w.size > 1]
    return bool(wide) and all((spatial[i] in flipped) != windows[i].reversal for i in wide)


def is_transposed(convolution: Instruction) -> bool:
    """Whether the convolution dilates its input and does not reverse its kernel, as a strided one's gradient does."""
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    if all(w.base_dilation == 1 for w in windows):
        return False
    spatial = convolution.attributes["dimension_numbers"].kernel_spatial
    flipped = view(convolution.operands[1], through_reverse=True).reversed
    return all((spatial[i] in flipped) == w.reversal for i, w in enumerate(windows) if w.size > 1)


def is_weights_gradient(convolution: Instruction) -> bool:
    """Whether the convolution is best read as the gradient of another one's weights."""
    if convolution.attributes["batch_group_count"] != 1:
        return True
    if convolution.attributes["feature_group_count"] != 1:
        return False
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    kernel = math.prod(w.size for w in convolution.attributes["window"])
    result = math.prod(convolution.dims[d] for d in numbers.output_spatial)
    # Frameworks write the features outermost only when they have swapped batch and features.
    return kernel > result and numbers.input_feature == 0


def is_any_weights_gradient(convolution: Instruction) -> bool:
    """The same, of windows with more elements than there are results too, if they have a stride: it dilates HLO's."""
    if is_weights_gradient(convolution):
        return True
    attributes = convolution.attributes
    swapped = attributes["dimension_numbers"].input_feature == 0
    strided = any(w.window_dilation > 1 for w in attributes["window"])
    return swapped and strided and attributes["feature_group_count"] == 1
