"""MLIR attributes as Python values: integers, tuples, windows, dimension numbers, and constants as NumPy arrays."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import numpy as np

from ..ir import dtypes, hlo
from ..ir.errors import unimplemented
from ..ir.hlo import Shape, WindowDimension
from . import bindings
from .bindings import ir


def integers(attribute: Any) -> tuple[int, ...]:
    """The numbers of ``array<i64: ...>`` or of ``dense<...> : tensor<Nxi64>`` (older StableHLO, MHLO)."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return tuple(int(v) for v in np.asarray(attribute).reshape(-1))
    return tuple(attribute)


def booleans(attribute: Any) -> tuple[bool, ...]:
    """The truth values of ``array<i1: ...>`` or of ``dense<...> : tensor<Nxi1>``."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return tuple(bool(v) for v in np.asarray(attribute).reshape(-1))
    return tuple(bool(v) for v in attribute)


def integer_rows(attribute: Any) -> tuple[tuple[int, ...], ...]:
    """The rows of a two-dimensional ``dense<...>`` of integers (padding, replica groups)."""
    return tuple(tuple(int(v) for v in row) for row in np.asarray(attribute))


def optional_integers(operation: Any, name: str) -> tuple[int, ...] | None:
    """The integers of an attribute, or None if the operation lacks it."""
    attributes = operation.attributes
    return integers(attributes[name]) if name in attributes else None


def flag(operation: Any, name: str, default: bool = False) -> bool:
    """A boolean or unit attribute."""
    attributes = operation.attributes
    if name not in attributes:
        return default
    attribute = attributes[name]
    return bool(attribute.value) if isinstance(attribute, ir.BoolAttr) else True


def integer(operation: Any, name: str, default: int = 0) -> int:
    attributes = operation.attributes
    return int(attributes[name].value) if name in attributes else default


def symbol(attribute: Any) -> str:
    """The name in ``@name``."""
    return str(attribute.value[0] if isinstance(attribute.value, list) else attribute.value)


def precision(operation: Any, operands: int = 2) -> tuple[str, ...]:
    """The precision of each operand of a contraction."""
    attributes = operation.attributes
    if "precision_config" not in attributes:
        return ("DEFAULT",) * operands
    # MHLO's precision attribute prints alike, but is not of StableHLO's class.
    found = tuple(_enumerator(a, bindings.Precision) for a in attributes["precision_config"])
    return found if len(found) == operands else ("DEFAULT",) * operands


def enumerator(operation: Any, name: str, attribute_class: Any, default: str) -> str:
    """The name of an enumeration attribute's value: ``"EQ"`` of ``#stablehlo<comparison_direction EQ>``."""
    attributes = operation.attributes
    return _enumerator(attributes[name], attribute_class) if name in attributes else default


def _enumerator(attribute: Any, attribute_class: Any) -> str:
    try:
        return str(attribute_class(attribute).value)
    except (TypeError, ValueError):
        found = re.search(r"(\w+)>*$", str(attribute))
        if found is None:
            raise unimplemented(f"attribute {attribute} is not understood") from None
        return found.group(1)


def window(
    sizes: tuple[int, ...],
    strides: tuple[int, ...] | None,
    padding: tuple[tuple[int, ...], ...] | None,
    base_dilations: tuple[int, ...] | None,
    window_dilations: tuple[int, ...] | None,
    reversal: tuple[bool, ...] | None = None,
) -> tuple[WindowDimension, ...]:
    """A window from attributes, each of which may be missing: stride 1, no padding, no dilation."""
    return tuple(
        WindowDimension(
            size=size,
            stride=strides[i] if strides else 1,
            padding_low=padding[i][0] if padding else 0,
            padding_high=padding[i][1] if padding else 0,
            base_dilation=base_dilations[i] if base_dilations else 1,
            window_dilation=window_dilations[i] if window_dilations else 1,
            reversal=reversal[i] if reversal else False,
        )
        for i, size in enumerate(sizes)
    )


def reduction_window(operation: Any) -> tuple[WindowDimension, ...]:
    """The window of ``reduce_window`` or ``select_and_scatter``."""
    attributes = operation.attributes
    return window(
        integers(attributes["window_dimensions"]),
        optional_integers(operation, "window_strides"),
        integer_rows(attributes["padding"]) if "padding" in attributes else None,
        optional_integers(operation, "base_dilations"),
        optional_integers(operation, "window_dilations"),
    )


# --------------------------------------------------------------------------------------------- dimension numbers


Numbers = TypeVar("Numbers")


def _numbers(kind: type[Numbers], attribute: Any, names: str) -> Numbers:
    """Dimension numbers of ``kind``, whose fields are, in this order, what StableHLO calls ``names``."""
    values = (getattr(attribute, name) for name in names.split())
    return kind(*(v if isinstance(v, int) else tuple(v) for v in values))


def dot_dimension_numbers(attribute: Any) -> hlo.DotDimensionNumbers:
    return _numbers(
        hlo.DotDimensionNumbers,
        bindings.DotDimensionNumbers(attribute),
        "lhs_contracting_dimensions rhs_contracting_dimensions lhs_batching_dimensions rhs_batching_dimensions",
    )


def convolution_dimension_numbers(attribute: Any) -> hlo.ConvolutionDimensionNumbers:
    return _numbers(
        hlo.ConvolutionDimensionNumbers,
        bindings.ConvDimensionNumbers(attribute),
        "input_batch_dimension input_feature_dimension input_spatial_dimensions"
        " kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions"
        " output_batch_dimension output_feature_dimension output_spatial_dimensions",
    )


def gather_dimension_numbers(attribute: Any) -> hlo.GatherDimensionNumbers:
    return _numbers(
        hlo.GatherDimensionNumbers,
        bindings.GatherDimensionNumbers(attribute),
        "offset_dims collapsed_slice_dims start_index_map index_vector_dim operand_batching_dims"
        " start_indices_batching_dims",
    )


def scatter_dimension_numbers(attribute: Any) -> hlo.ScatterDimensionNumbers:
    return _numbers(
        hlo.ScatterDimensionNumbers,
        bindings.ScatterDimensionNumbers(attribute),
        "update_window_dims inserted_window_dims scattered_dims_to_operand_dims index_vector_dim input_batching_dims"
        " scatter_indices_batching_dims",
    )


def dot_algorithm(attribute: Any) -> str:
    """XLA's name of a dot algorithm: ``bf16_bf16_f32_x3``."""
    algorithm = bindings.DotAlgorithm(attribute)
    types = [
        algorithm.lhs_precision_type,
        algorithm.rhs_precision_type,
        algorithm.accumulation_type,
    ]
    names = [str(t.value if isinstance(t, ir.TypeAttr) else t).lower() for t in types]
    steps = algorithm.num_primitive_operations
    return "_".join(names) + (f"_x{steps}" if steps > 1 else "")


# ------------------------------------------------------------------------------------------------ Python values


def python_value(attribute: Any) -> Any:
    """An attribute of a custom call's configuration as Python data: numbers, str, tuples, dicts, arrays."""
    if isinstance(attribute, ir.DictAttr):
        return {attribute[i].name: python_value(attribute[i].attr) for i in range(len(attribute))}
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(python_value(a) for a in attribute)
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
        return attribute.value
    if isinstance(attribute, ir.StringAttr):
        try:
            return attribute.value
        except UnicodeDecodeError:
            return bytes(attribute.value_bytes)
    if isinstance(attribute, ir.UnitAttr):
        return True
    if isinstance(attribute, ir.DenseElementsAttr):
        array = np.array(attribute)
        array.setflags(write=False)
        return array
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return attribute.value
    try:
        return tuple(attribute)  # array<i64: ...> and its like
    except TypeError:
        return str(attribute)


def typed_value(attribute: Any) -> Any:
    """As :func:`python_value`, with numbers and arrays of NumPy types, for calls that tell types apart."""
    if isinstance(attribute, ir.DictAttr):
        return {attribute[i].name: typed_value(attribute[i].attr) for i in range(len(attribute))}
    if isinstance(attribute, ir.BoolAttr):
        return np.bool_(attribute.value)
    if isinstance(attribute, ir.IntegerAttr):
        width = ir.IntegerType(attribute.type).width
        unsigned = ir.IntegerType(attribute.type).is_unsigned
        return np.dtype(f"{'u' if unsigned else 'i'}{width // 8}").type(attribute.value)
    if isinstance(attribute, ir.FloatAttr):
        return dtypes.from_name(str(attribute.type).lower()).numpy.type(attribute.value)
    for name, dtype in _DENSE_ARRAYS.items():
        if isinstance(attribute, getattr(ir, name)):
            return np.array(list(attribute), dtype)
    return python_value(attribute)


_DENSE_ARRAYS: Final = {
    "DenseBoolArrayAttr": np.bool_,
    "DenseI8ArrayAttr": np.int8,
    "DenseI16ArrayAttr": np.int16,
    "DenseI32ArrayAttr": np.int32,
    "DenseI64ArrayAttr": np.int64,
    "DenseF32ArrayAttr": np.float32,
    "DenseF64ArrayAttr": np.float64,
}


# ----------------------------------------------------------------------------------------------------- constants


def constant_literal(operation: Any, shape: Shape) -> np.ndarray:
    """The value of a constant operation; of a splat the one element, a scalar."""
    if shape.elements == 0:  # MLIR calls it a splat that has no element
        return _own(np.empty(shape.dims, shape.dtype.numpy))
    try:
        attribute = operation.attributes["value"]
    except TypeError:  # jaxlib cannot cast complex elements to an attribute class
        return _literal_from_text(operation.get_asm(print_generic_op_form=True), shape, operation)
    if isinstance(attribute, ir.DenseElementsAttr):
        try:
            array = np.asarray(memoryview(attribute))
        except (
            BufferError
        ):  # element types that Python's buffer protocol has no letter for: bf16, f8, i4
            return _literal_from_text(str(attribute), shape, operation)
        if array.dtype != shape.dtype.numpy:
            array = array.view(shape.dtype.numpy)
        if attribute.is_splat and shape.dims:
            return _own(array.reshape(-1)[:1].reshape(()))
        return _own(array.reshape(shape.dims))
    text = str(attribute)
    if text.startswith("dense_resource<"):
        return _resource(operation, text, shape)
    return _literal_from_text(text, shape, operation)


def _own(array: np.ndarray) -> np.ndarray:
    """A read-only row-major copy: the attribute's memory goes when its context goes."""
    array = np.array(array, order="C")
    array.setflags(write=False)
    return array


_DENSE = re.compile(r"dense<([^>]*)> : ")
_BRACKETS = str.maketrans("", "", "[]()\n ")


def _literal_from_text(text: str, shape: Shape, operation: Any) -> np.ndarray:
    """A literal from MLIR's text: a hex string when it is large, else one number after the other."""
    found = _DENSE.search(text)
    if found is None:
        raise unimplemented(
            f"constant {text[:80]} is not supported", op=operation.name, shapes=[shape]
        )
    dtype = shape.dtype
    start, end = found.span(1)
    if text.startswith('"0x', start):
        # MLIR's raw data gives sub-byte elements a byte each, as we do.
        array = np.frombuffer(bytes.fromhex(text[start + 3 : end - 1]), dtype.numpy)
        splat = array.size == 1 and shape.elements != 1
        return array.reshape(() if splat else shape.dims)
    body = text[start:end]
    tokens = body.translate(_BRACKETS).split(",") if body else []
    if dtype.is_complex:
        parts = np.array([_number(t, dtype.component) for t in tokens], dtype.component.numpy)
        array = parts.view(dtype.numpy)
    else:
        array = np.array([_number(t, dtype) for t in tokens], dtype.numpy)
    if array.size == 1 and shape.dims:
        return _own(array.reshape(()))
    return _own(array.reshape(shape.dims))


def _number(token: str, dtype: Any) -> Any:
    """One number of MLIR's text: decimal, truth value, or the bits of a float in hex."""
    if token in ("true", "false"):
        return token == "true"
    if not dtype.is_float:
        return int(token, 0)
    if token.startswith(("0x", "0X")):
        return np.array(int(token, 16), f"u{dtype.size}").view(dtype.numpy)[()]
    return float(token)


def _resource(operation: Any, text: str, shape: Shape) -> np.ndarray:
    """The value of ``dense_resource<key>``: a blob that MLIR prints, in hex, at the end of the module."""
    key = text[len("dense_resource<") : text.index(">")]
    module = operation
    while module.parent is not None:
        module = module.parent.operation
    dump = module.get_asm(large_elements_limit=1)
    found = re.search(rf'\b{re.escape(key)}: "0x([0-9A-Fa-f]*)"', dump)
    if found is None:
        raise unimplemented(f"constant {text} has no data", op=operation.name, shapes=[shape])
    # The blob starts with its alignment as a 32-bit number.
    data = bytes.fromhex(found.group(1))[4:]
    return _own(np.frombuffer(data, shape.dtype.numpy).reshape(shape.dims))
