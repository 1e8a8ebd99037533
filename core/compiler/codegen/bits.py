"""Small floats and predicates that are only moved about are moved as unsigned integers: no conversions, no rounding.

So are 64-bit floats for a device that does not have them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..ir import dtypes, hlo
from ..ir.dtypes import DType
from ..ir.registry import OPS

_UNSIGNED: Final = {1: dtypes.U8, 2: dtypes.U16, 8: dtypes.U64}


def as_bits(computation: hlo.Computation, has_double: bool = True) -> hlo.Computation:
    """The computation with each dtype of one or two bytes that it does not compute with replaced by an unsigned
    integer; f64 too if the device lacks it (``has_double``).

    The memory of parameters and results stays the same.
    """
    candidates = {
        i.dtype
        for i in computation.instructions
        if isinstance(i.shape, hlo.Shape) and _is_candidate(i.dtype, has_double)
    }
    for i in computation.instructions:
        if not candidates:
            return computation
        if not OPS[i.opcode].moves:
            shapes = [*i.result_shapes, *(s for o in i.operands for s in o.result_shapes)]
            used = {s.dtype for s in shapes if isinstance(s, hlo.Shape)}
            if i.opcode == "bitcast-convert":  # the bits of a NaN count
                used = {t for t in used if t.bits != 8 * t.size}
            candidates -= used
        elif i.opcode == "select":
            candidates.discard(i.operands[0].dtype)
    if not candidates:
        return computation
    new: dict[hlo.Instruction, hlo.Instruction] = {}
    for i in computation.instructions:
        if i.opcode == "tuple":
            continue
        shape = i.shape
        attributes = i.attributes
        if isinstance(shape, hlo.Shape) and shape.dtype in candidates:
            unsigned = _UNSIGNED[shape.dtype.size]
            shape = shape.with_dtype(unsigned)
            if i.opcode == "constant":
                data = np.ascontiguousarray(attributes["literal"]).view(unsigned.numpy)
                attributes = {"literal": data.reshape(i.dims)}
        new[i] = i.replace(
            operands=[new[o] for o in i.operands], shape=shape, attributes=attributes
        )
    results = [new[r] for r in computation.results]
    root = results[0]
    if computation.root.opcode == "tuple":
        root = hlo.Instruction("tuple", hlo.TupleShape(tuple(r.shape for r in results)), results)  # type: ignore[misc]
    return hlo.Computation.from_root(
        computation.name, [new[p] for p in computation.parameters], root
    )


def _is_candidate(dtype: DType, has_double: bool) -> bool:
    if dtype is dtypes.F64:
        return not has_double
    return dtype.size <= 2 and (dtype.is_float or dtype.kind == "pred")
