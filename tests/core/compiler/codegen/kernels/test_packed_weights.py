"""Weights that are made of fewer bits are computed while they are packed, and [n, k] matrices are turned."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_few_rows import (
    arguments_of,
    dequantised,
    optimised,
    wide_product,
)
from tests.core.compiler.codegen.kernels.test_packed_dot import (
    cpu,
    kinds,
    near,
    of_integers,
    of_products,
    product,
    random,
)
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu"]
S8, S4, U8 = dtypes.S8, dtypes.S4, dtypes.U8
BF16, F16, F32, F64 = dtypes.BF16, dtypes.F16, dtypes.F32, dtypes.F64


@of_integers
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_dequantised(transposed: bool, cpu: str) -> None:
    for stored, given, m, n, k, group, form in (
        (S8, F32, 40, 131, 217, 0, "scale"),
        (S4, BF16, 60, 115, 192, 64, "affine"),
        (U8, F32, 33, 90, 200, 40, "offset"),
        (S8, BF16, 50, 100, 130, 0, "linear"),
    ):
        matrix, parameters = dequantised(stored, given, n, k, group, transposed, form)
        made = product((given, given), given, m, n, k, (False, transposed))
        parameters = [made.operands[0], *parameters]
        root = made.replace(operands=[parameters[0], matrix])
        after = optimised(root, parameters, cpu)
        assert kinds(after)[-2:] == ["pack", "packed-dot"], kinds(after)
        made_in_memory = [
            i for i in after.entry.instructions if i.elements == n * k and i.dtype is not stored
        ]
        assert not made_in_memory
        values = arguments_of(parameters)
        (got,) = NativeSimulation(after, cpu).run(values)
        wide = [v.astype(np.float64) for v in values]
        exact = wide_product(matrix, parameters, wide, transposed)
        sizes = np.abs(wide_product(matrix, parameters, [np.abs(v) for v in wide], transposed))
        if form == "offset":  # (q - 3) s: at most (|q| + 3) s
            sizes = sizes + 6 * np.abs(wide[0]).sum(1, keepdims=True) * np.abs(wide[2]).max()
        rounding = 2.0**-8 if given is BF16 else 0.0
        # Instructions of bf16 multiply weights that are rounded to it, as the program says; others keep them in f32.
        (dot,) = (
            i for c in after.computations() for i in c.instructions if i.opcode == "packed-dot"
        )
        each = (k + 4) * 2.0**-24 + (
            rounding if dot.attributes["config"]["form"].rhs is BF16 else 0
        )
        bound = each * sizes + rounding * np.abs(exact) + 2.0**-24
        assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


@of_products((F32, F32, F32), (F64, F64, F64), (BF16, BF16, BF16))
def test_matrices_are_turned_in_registers(types: tuple[DType, DType, DType], cpu: str) -> None:
    """[n, k], with a rest of k and of n behind the last square."""
    for m, n, k in ((80, 301, 517), (64, 128, 2048)):
        made = product(types[:2], types[2], m, n, k, (False, True))
        after = optimised(made, made.operands, cpu)
        assert kinds(after) == ["pack", "packed-dot"]
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(after, cpu).run(values)
        near(got, made, values)


def test_dequantised_products_are_generated_beside_onednn() -> None:
    """oneDNN would read the matrix from memory; what is as large as the matrix is left to it."""
    for stored, generated in ((S8, True), (F32, False)):
        matrix, parameters = dequantised(stored, F32, 512, 512, 0, False, "scale")
        made = product((F32, F32), F32, 512, 512, 512)
        parameters = [made.operands[0], *parameters]
        root = made.replace(operands=[parameters[0], matrix])
        after = pipeline.run(module(parameters, root), for_cpu("x86-64-v4", True), Dump())
        assert ("packed-dot" in kinds(after)) is generated
        assert ("library-call" in kinds(after)) is not generated
