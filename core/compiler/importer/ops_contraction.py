"""Readers of dot products, convolutions, linear algebra and Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.hlo import DotDimensionNumbers
from . import attributes, bindings
from .attributes import integer_rows, optional_integers
from .ops_data import constant_operand, flag, in_attribute, plain

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Results


def read_dot_general(block: BlockReader, operation: Any) -> Results:
    given = operation.attributes
    values: dict[str, Any] = {
        "dimension_numbers": block.program.attribute(
            attributes.dot_dimension_numbers, given["dot_dimension_numbers"]
        ),
        "precision": attributes.precision(operation),
    }
    if "algorithm" in given:
        values["algorithm"] = block.program.attribute(attributes.dot_algorithm, given["algorithm"])
    return block.emit("dot", block.shape(operation), block.operands(operation), values)


def read_dot(block: BlockReader, operation: Any) -> Results:
    """The older ``dot`` of vectors and matrices: the last dimension of lhs with the first of rhs."""
    lhs, rhs = block.operands(operation)
    numbers = DotDimensionNumbers((len(lhs.dims) - 1,), (0,))
    values = {"dimension_numbers": numbers, "precision": attributes.precision(operation)}
    return block.emit("dot", block.shape(operation), (lhs, rhs), values)


def read_convolution(block: BlockReader, operation: Any) -> Results:
    given = operation.attributes
    padding = integer_rows(given["padding"]) if "padding" in given else None
    return _convolution(block, operation, padding)


def read_dynamic_conv(block: BlockReader, operation: Any) -> Results:
    """The padding is an operand, which must be constant."""
    values = iter(constant_operand(block, operation, 2))
    return _convolution(block, operation, tuple(zip(values, values, strict=True)))


def _convolution(
    block: BlockReader, operation: Any, padding: tuple[tuple[int, ...], ...] | None
) -> Results:
    given = operation.attributes
    lhs, rhs = block.operands(operation)[:2]
    numbers = block.program.attribute(
        attributes.convolution_dimension_numbers, given["dimension_numbers"]
    )
    window = attributes.window(
        tuple(rhs.dims[d] for d in numbers.kernel_spatial),
        optional_integers(operation, "window_strides"),
        padding,
        optional_integers(operation, "lhs_dilation"),
        optional_integers(operation, "rhs_dilation"),
        attributes.booleans(given["window_reversal"]) if "window_reversal" in given else None,
    )
    values = {
        "window": window,
        "dimension_numbers": numbers,
        "feature_group_count": attributes.integer(operation, "feature_group_count", 1),
        "batch_group_count": attributes.integer(operation, "batch_group_count", 1),
        "precision": attributes.precision(operation),
    }
    return block.emit("convolution", block.shape(operation), (lhs, rhs), values)


read_cholesky = plain("cholesky", lower=flag("lower"))
read_triangular_solve = plain(
    "triangular-solve",
    left_side=flag("left_side"),
    lower=flag("lower"),
    unit_diagonal=flag("unit_diagonal"),
    transpose_a=lambda _, operation: attributes.enumerator(
        operation, "transpose_a", bindings.Transpose, "NO_TRANSPOSE"
    ),
)
read_fft = plain(
    "fft",
    fft_type=lambda _, operation: attributes.enumerator(
        operation, "fft_type", bindings.FftType, "FFT"
    ),
    fft_length=in_attribute("fft_length"),
)


def read_fft_call(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    """A custom call for frontends whose programs have no Fourier transforms (frontends/torch_xla/fourier.py).

    Its attributes ``fft_type`` and ``fft_length`` are those of StableHLO's operation.
    """
    try:
        values = {
            "fft_type": str(config["fft_type"]),
            "fft_length": tuple(int(n) for n in config["fft_length"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise block.invalid(
            operation, "tripont.fft takes a text fft_type and an array of integers fft_length"
        ) from error
    operands = block.operands(operation)
    if len(operands) != 1:
        raise block.invalid(operation, f"it takes one operand, and has {len(operands)}")
    return block.emit("fft", block.shape(operation), operands, values)
