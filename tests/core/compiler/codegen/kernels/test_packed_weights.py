"""Weights that are made of fewer bits are computed while they are packed, and [n, k] matrices are turned."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op, priced
from tests.core.compiler.codegen.kernels.test_few_rows import (
    arguments_of,
    dequantised,
    optimised,
    unpacked,
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
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "packed"])
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_dequantised(transposed: bool, inside: bool, cpu: str) -> None:
    """Units of few rows compute what they use of the matrix; with more rows it is computed while it is packed."""
    target = priced(cpu, False, products={"made_rows": 512 if inside else 0})
    for stored, given, m, n, k, group, form in (
        (S8, F32, 40, 131, 217, 0, "scale"),
        (S4, BF16, 60, 115, 192, 64, "affine"),
        (U8, F32, 33, 90, 200, 40, "offset"),
        (S8, BF16, 50, 100, 131, 0, "linear"),
        (S8, BF16, 17, 200, 1400, 100, "scale"),
        (S4, F32, 20, 160, 2048, 32, "apart"),
    ):
        matrix, parameters = dequantised(stored, given, n, k, group, transposed, form)
        made = product((given, given), given, m, n, k, (False, transposed))
        parameters = [made.operands[0], *parameters]
        root = made.replace(operands=[parameters[0], matrix])
        after = pipeline.run(module(parameters, root), target, Dump())
        products = [i for i in kinds(after) if i in ("pack", "packed-dot")]
        assert products == (["packed-dot"] if inside else ["pack", "packed-dot"])
        check_dequantised(after, matrix, parameters, stored, form, transposed, cpu)


def check_dequantised(
    after: hlo.Module,
    matrix: hlo.Instruction,
    parameters: list[hlo.Instruction],
    stored: DType,
    form: str,
    transposed: bool,
    cpu: str,
) -> None:
    """The program ``after`` makes no matrix in memory, and gives what NumPy says of its f64 value."""
    given, k = parameters[0].dtype, parameters[0].dims[1]
    made_in_memory = [
        i for i in after.entry.instructions if i.dims == matrix.dims and i.dtype is not stored
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
    (dot,) = (i for c in after.computations() for i in c.instructions if i.opcode == "packed-dot")
    each = (k + 4) * 2.0**-24 + (rounding if dot.attributes["config"]["form"].rhs is BF16 else 0)
    bound = each * sizes + rounding * np.abs(exact) + 2.0**-24
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


@of_integers
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "packed"])
def test_words_are_taken_apart_in_their_lanes(inside: bool, cpu: str) -> None:
    """[n, k] of words along k, whose numbers go to rows that lie apart: whole vectors of words, and a rest."""
    target = priced(cpu, False, products={"made_rows": 512 if inside else 0})
    for stored, given, n, k in (
        (dtypes.U32, BF16, 70, 1600),
        (dtypes.U32, F32, 96, 1032),
        (U8, F32, 100, 1002),
        (U8, BF16, 64, 1218),
    ):
        matrix, parameters = unpacked(stored, n, k, 1, True, "shifts")
        if given is not F32:
            matrix = op("convert", matrix, dtype=given)
        made = product((given, given), given, 20, n, k, (False, True))
        parameters = [made.operands[0], *parameters]
        root = made.replace(operands=[parameters[0], matrix])
        after = pipeline.run(module(parameters, root), target, Dump())
        assert ("pack" in kinds(after)) is not inside
        assert not any(i.dims == matrix.dims for i in after.entry.instructions)
        random_ = np.random.default_rng(0)
        words = random_.integers(0, 1 << stored.bits, parameters[1].dims, np.uint64)
        words = words.astype(stored.numpy)
        left = random_.integers(-4, 5, parameters[0].dims).astype(given.numpy)
        (got,) = NativeSimulation(after, cpu).run([left, words])
        shifts = np.arange(0, stored.bits, 4, dtype=stored.numpy)
        codes = (words[..., None] >> shifts & 15).astype(np.float64).reshape(n, k)
        exact = left.astype(np.float64) @ (codes - 8).T
        np.testing.assert_array_equal(got, exact.astype(given.numpy))


@of_integers
def test_what_is_not_finite_stays_so(cpu: str) -> None:
    """Weights that are made are rounded to bf16 by an instruction of the CPU, or by those for numbers."""
    target = priced(cpu, False, products={"made_rows": 512})
    for transposed in (False, True):
        n, k = 64, 128
        matrix, parameters = dequantised(S8, BF16, n, k, 0, transposed, "scale")
        made = product((BF16, BF16), BF16, 20, n, k, (False, transposed))
        parameters = [made.operands[0], *parameters]
        root = made.replace(operands=[parameters[0], matrix])
        after = pipeline.run(module(parameters, root), target, Dump())
        left = np.ones(parameters[0].dims, BF16.numpy)
        codes = np.ones(parameters[1].dims, np.int8)
        scales = np.ones(parameters[2].dims, np.float32)
        scales[[3, 9, 17]] = np.inf, np.nan, 3.3e38
        (got,) = NativeSimulation(after, cpu).run([left, codes, scales.astype(BF16.numpy)])
        exact = np.full(n, 128.0)
        exact[[3, 9, 17]] = np.inf, np.nan, np.inf
        np.testing.assert_array_equal(got.astype(np.float64), np.broadcast_to(exact, got.shape))


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
