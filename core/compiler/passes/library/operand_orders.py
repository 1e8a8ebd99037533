"""An operand of a convolution in another form: with zeros around it, in another order of dimensions, turned about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.hlo import Instruction, WindowDimension, constant
from ...ir.moves import pad, pad_dimension, transpose
from ...ir.patterns import reshape


def without_reversal(convolution: Instruction) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    spatial = convolution.attributes["dimension_numbers"].kernel_spatial
    flip = tuple(d for d, w in zip(spatial, windows, strict=True) if w.reversal and w.size > 1)
    if not any(w.reversal for w in windows):
        return convolution
    lhs, rhs = convolution.operands
    if flip:
        rhs = rhs.derive("reverse", (rhs,), {"dimensions": flip})
    plain = tuple(replace(w, reversal=False) for w in windows)
    return convolution.replace(
        operands=(lhs, rhs), attributes={**convolution.attributes, "window": plain}
    )


def pad_with_zeros(
    operand: Instruction,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> Instruction:
    zero = constant(0, operand.dtype)
    return pad(operand, zero, low, high, interior)


def resized(operand: Instruction, dimension: int, size: int) -> Instruction:
    """``operand`` with zeros behind, or without the last elements of, ``dimension``."""
    zero = constant(0, operand.dtype)
    return pad_dimension(operand, zero, dimension, 0, size - operand.dims[dimension])


def in_order(operand: Instruction, order: Sequence[int] | None) -> Instruction:
    return operand if order is None else transpose(operand, order)


def with_minor(rank: int, dimension: int | None) -> list[int] | None:
    """The order of dimensions with ``dimension`` as the minor one; None if they are so already."""
    if dimension is None or dimension == rank - 1:
        return None
    return [*(d for d in range(rank) if d != dimension), dimension]


def with_features(kernel: Instruction, residue: int, feature: int, groups: int) -> Instruction:
    """``kernel`` with dimension ``residue`` as a part of its output features: [groups, residues, features].

    ``feature``: which dimension the output features are without that of the residues.
    """
    residues = kernel.dims[residue]
    if feature >= residue:
        feature += 1
    dims = list(kernel.dims)
    dims[feature : feature + 1] = [groups, kernel.dims[feature] // groups]
    split = reshape(kernel, dims)
    moved = residue + (residue > feature)
    order = [d for d in range(len(dims)) if d != moved]
    order.insert(order.index(feature) + 1, moved)
    ordered = transpose(split, order)
    at = order.index(feature)
    features = ordered.dims[at] * residues * ordered.dims[at + 2]
    return reshape(ordered, (*ordered.dims[:at], features, *ordered.dims[at + 3 :]))
