"""Row fusions with few elements a row: vectors across rows."""

from __future__ import annotations

import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, F32, F64
from tripont.core.compiler.targets import host

from tests.core.compiler.codegen.harness import Kernel, fusion, op, runnable

from .test_loops import check, parameters
from .test_rows import layer_norm, softmax

S = hlo.Shape

SPACES = [(70, 10), (3, 40, 5), (32, 16), (16, 2), (2, 2, 17, 3), (3000, 7), (50, 21), (3, 40, 24)]


@pytest.mark.parametrize("dims", SPACES, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16], ids=str)
def test_results_of_rows_and_of_elements(dims, dtype):
    (x,) = parameters(S(dtype, dims))
    tolerance = {F32: 2e-5, F64: 1e-13, BF16: 2e-2}[dtype]
    check(fusion("row", [x], *softmax(x, len(dims) - 1)), rtol=tolerance)


def test_sums_of_products():
    x, gamma = parameters(S(F32, (50, 12)), S(F32, (12,)))
    check(fusion("row", [x, gamma], *layer_norm(x, gamma, 1)), rtol=1e-4)


def test_vectors_run_across_rows():
    """Of rows that a vector of 32 bytes holds."""
    (x,) = parameters(S(F32, (5000, 7)))
    kernel = Kernel(fusion("row", [x], softmax(x, 1)[0]), host.for_cpu("x86-64-v3"))
    assert kernel.emitted.work_count == -(-5000 // kernel.target.block)
    assert "alloca" not in kernel.ir


def test_rows_are_read_in_whole_vectors():
    """No element is gathered, on any CPU, but for those of the last rows, which do not fill a vector."""
    for cpu, size in (("x86-64-v4", 21), ("x86-64-v3", 10)):
        (x,) = parameters(S(F32, (64, size)))
        kernel = check(fusion("row", [x], *softmax(x, 1)), rtol=2e-5, target=host.for_cpu(cpu))
        assert kernel.emitted.work_count == 1
        assert "masked" not in kernel.ir


def test_an_operand_that_is_read_elsewhere_too():
    """The row before, beside the row itself."""
    (x,) = parameters(S(F32, (64, 6)))
    first = op("slice", S(F32, (1, 6)), x, starts=(0, 0), limits=(1, 6), strides=(1, 1))
    others = op("slice", S(F32, (63, 6)), x, starts=(0, 0), limits=(63, 6), strides=(1, 1))
    before = op("concatenate", x.shape, first, others, dimension=0)
    root = op("subtract", x.shape, x, before)
    check(fusion("row", [x], *softmax(root, 1)), rtol=2e-5)


def test_long_rows_without_functions_run_along_them():
    """Means take hardly longer with a second vector that is half empty, and less code."""
    x, gamma = parameters(S(F32, (5000, 21)), S(F32, (21,)))
    kernel = Kernel(
        fusion("row", [x, gamma], layer_norm(x, gamma, 1)[0]), host.for_cpu("x86-64-v4")
    )
    assert kernel.emitted.work_count == 5000


@pytest.mark.parametrize("dims", [(5000, 25), (3, 5)], ids=["longer than a vector", "few rows"])
def test_other_rows_are_units_of_work(dims):
    (x,) = parameters(S(F32, dims))
    assert Kernel(fusion("row", [x], softmax(x, 1)[0])).emitted.work_count == dims[0]


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_narrower_cpus(cpu):
    target = runnable(cpu)
    for dims in SPACES:
        (x,) = parameters(S(F32, dims))
        check(fusion("row", [x], softmax(x, len(dims) - 1)[0]), rtol=2e-5, target=target)
