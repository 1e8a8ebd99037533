"""Products of few rows by a large matrix that lies as [n, k], as the weights of PyTorch's linear layers do.

Panels of such a matrix are made by turning it, which takes longer than what the few rows are multiplied by. Its rows
are what a tile reads a scalar at a time, though: the transpose of the product, [n, k] by [k, m], reads them where they
lie. So the few rows are what is turned, and so is the result, which is as small. Alpha stays with the product; what is
added to it is added behind the turn, in the kernel that turns.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from ...codegen.kernels.product_forms import ProductForm
from ...ir.hlo import Instruction, Shape, constant
from ...ir.moves import cut, pad_dimension, transpose
from ...ir.patterns import reshape
from . import product_costs
from .gemm import is_computed, is_dense

if TYPE_CHECKING:
    from ...targets.target import Target


def swapped(
    gemm: Instruction, form: ProductForm, target: Target, kept: Container[Instruction]
) -> Instruction | None:
    """The gemm whose transpose ``gemm`` is, but for what is added to it; None if ``gemm`` is better as it is.

    ``kept``: values that are the same each time. Such a matrix is turned once, and so is a constant.
    """
    config = gemm.attributes["config"]
    m, n, k = config["m"], config["n"], config["k"]
    left, right = gemm.operands[:2]
    array = right
    while array.opcode == "convert":
        array = array.operands[0]
    if (
        not product_costs.is_swapped(form, m, n, k, target)
        or config["batch"]
        or (config["lhs_strides"], config["rhs_strides"]) != ((k, 1), (1, k))
        or not is_dense(config)
        or right in kept
        or array in kept
        or array.opcode == "constant"
        or is_computed(right, form, m, target)
    ):
        return None
    columns = max(m, form.lanes)  # a vector at least
    if columns > m:
        zero = constant(0, left.dtype)
        left = pad_dimension(reshape(left, (m, k)), zero, 0, 0, columns - m)
    new: dict[str, Any] = {name: config[name] for name in config if name != "epilogue"}
    new |= {"m": n, "n": columns, "lhs_strides": (k, 1), "rhs_strides": (1, k)}
    new["result_strides"] = (columns, 1)
    attributes = {"name": "gemm", "config": new}
    shape = Shape(gemm.dtype, (n, columns))
    return gemm.derive("library-call", (right, left), attributes, shape=shape)


def turned_back(product: Instruction, gemm: Instruction) -> Instruction:
    """What ``gemm`` gives, of the ``product`` that computes :func:`swapped` of it."""
    config = gemm.attributes["config"]
    m, n = config["m"], config["n"]
    result = transpose(cut(product, 1, 0, m), (1, 0), gemm.metadata)
    if config.get("epilogue"):
        other = gemm.operands[2]
        if config["epilogue"] == "bias":
            attributes = {"dimensions": (1,)}
            other = gemm.derive(
                "broadcast", (reshape(other, (n,)),), attributes, shape=result.shape
            )
        other = reshape(other, result.dims)
        result = gemm.derive("add", (result, other), shape=result.shape)
    return reshape(result, gemm.dims)
