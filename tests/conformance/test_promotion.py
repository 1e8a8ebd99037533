"""Reductions whose body computes in a wider type than the operand's, against NumPy.

The sums are exact in the wider type and do not fit the narrower one. HLO has no such operations, but for reduce with an
initial value of the wider type, so these programs are not among the registered configurations, which all run as HLO.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance.device import as_hlo, compile_program, run
from tests.conformance.programs import combine, function, tensor

Array = np.ndarray[Any, Any]
BF16, F16, F32, F64 = dtypes.BF16, dtypes.F16, dtypes.F32, dtypes.F64
S8, S32 = dtypes.S8, dtypes.S32
LARGEST = {S8: 127, BF16: 255, F16: 2047, F32: 2**24 - 1}
TYPES = [(S8, S32), (BF16, F32), (F16, F32), (F32, F64)]


def large(dtype: DType, *dims: int) -> Array:
    """Whole numbers near the largest of those that ``dtype`` has without a gap."""
    values = LARGEST[dtype] - np.arange(np.prod(dims, dtype=int)) % 5
    return values.astype(dtype.numpy).reshape(dims)


@pytest.fixture(params=TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def types(request: pytest.FixtureRequest) -> tuple[DType, DType]:
    pair: tuple[DType, DType] = request.param
    return pair


@pytest.fixture(params=["narrow", "wide"])
def given(request: pytest.FixtureRequest, types: tuple[DType, DType]) -> DType:
    """The element type of initial values: either is allowed."""
    return types[request.param == "wide"]


def check(text: str, arguments: list[Array], wanted: Array, dtype: DType) -> None:
    (got,) = run(compile_program(text), arguments)
    assert got.dtype == dtype.numpy
    np.testing.assert_array_equal(got, wanted)


def test_reduce(types: tuple[DType, DType], given: DType) -> None:
    narrow, wide = types
    operand, initial, result = tensor(narrow, 600, 4), tensor(given), tensor(wide, 4)
    text = function(
        [operand, initial],
        [result],
        f'%r = "stablehlo.reduce"(%0, %1) <{{dimensions = array<i64: 0>}}> ({combine("add", wide)})'
        f" : ({operand}, {initial}) -> {result}",
    )
    x, start = large(narrow, 600, 4), np.array(7).astype(given.numpy)
    check(text, [x, start], x.astype(np.float64).sum(0) + 7, wide)


def test_reduce_of_several_types() -> None:
    """Each input has its own type, and so has each result."""
    a, b, i, j = tensor(S8, 600), tensor(BF16, 600), tensor(S8), tensor(F32)
    s, f = tensor(S32), tensor(F32)
    text = function(
        [a, b, i, j],
        [s, f],
        f'%r:2 = "stablehlo.reduce"(%0, %1, %2, %3) <{{dimensions = array<i64: 0>}}> ({{\n'
        f"^bb0(%a: {s}, %b: {f}, %c: {s}, %d: {f}):\n"
        f"%e = stablehlo.add %a, %c : {s}\n%f = stablehlo.add %b, %d : {f}\n"
        f"stablehlo.return %e, %f : {s}, {f}\n}}) : ({a}, {b}, {i}, {j}) -> ({s}, {f})",
    )
    x, y = large(S8, 600), large(BF16, 600)
    first, second = run(compile_program(text), [x, y, np.int8(7), np.float32(9)])
    assert first == x.astype(np.int64).sum() + 7
    assert second == y.astype(np.float64).sum() + 9


def test_mixed_reduce_of_hlo() -> None:
    """XLA's mixed precision: the operand is bf16, and the initial value, the body and the result are f32."""
    text = """HloModule m
    add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b) }
    ENTRY main { x = bf16[600] parameter(0)
      i = f32[] parameter(1)
      ROOT r = f32[] reduce(x, i), dimensions={0}, to_apply=add }
    """
    x = large(BF16, 600)
    (got,) = run(compile_program(as_hlo(text)), [x, np.float32(7)])
    assert got == x.astype(np.float64).sum() + 7


def test_reduce_window(types: tuple[DType, DType], given: DType) -> None:
    narrow, wide = types
    operand, initial, result = tensor(narrow, 6, 4), tensor(given), tensor(wide, 3, 4)
    text = function(
        [operand, initial],
        [result],
        '%r = "stablehlo.reduce_window"(%0, %1) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}>'
        f" ({combine('add', wide)}) : ({operand}, {initial}) -> {result}",
    )
    x, start = large(narrow, 6, 4), np.array(7).astype(given.numpy)
    check(text, [x, start], x.reshape(3, 2, 4).astype(np.float64).sum(1) + 7, wide)


def test_select_and_scatter(types: tuple[DType, DType], given: DType) -> None:
    """The selection compares the narrow elements, the sums are wide."""
    narrow, wide = types
    one, predicate = tensor(narrow), tensor("pred")
    select = (
        f"{{\n^bb0(%a: {one}, %b: {one}):\n%c = stablehlo.compare GE, %a, %b : ({one}, {one}) -> {predicate}\n"
        f"stablehlo.return %c : {predicate}\n}}"
    )
    values = given if narrow.is_float else narrow  # MLIR lets only floats differ here
    operand, source, initial = tensor(narrow, 6, 4), tensor(values, 4, 4), tensor(given)
    result = tensor(wide, 6, 4)
    text = function(
        [operand, source, initial],
        [result],
        '%r = "stablehlo.select_and_scatter"(%0, %1, %2) <{window_dimensions = array<i64: 3, 1>}>'
        f" ({select}, {combine('add', wide)}) : ({operand}, {source}, {initial}) -> {result}",
    )
    x = large(narrow, 6, 4)
    s = large(narrow, 4, 4)
    wanted = np.full((6, 4), 7.0)
    for row, column in np.ndindex(s.shape):
        wanted[row + np.argmax(x[row : row + 3, column]), column] += float(s[row, column])
    start = np.array(7).astype(given.numpy)
    check(text, [x, s.astype(values.numpy), start], wanted, wide)


def test_scatter(types: tuple[DType, DType]) -> None:
    narrow, wide = types
    operand, indices, updates = tensor(narrow, 6, 4), tensor(S32, 5, 1), tensor(narrow, 5, 4)
    result = tensor(wide, 6, 4)
    text = function(
        [operand, indices, updates],
        [result],
        '%r = "stablehlo.scatter"(%0, %1, %2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],'
        " inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}>"
        f" ({combine('add', wide)}) : ({operand}, {indices}, {updates}) -> {result}",
    )
    x, at, u = large(narrow, 6, 4), np.array([0, 3, 3, 0, 3], np.int32), large(narrow, 5, 4)
    wanted = x.astype(np.float64)
    np.add.at(wanted, at, u.astype(np.float64))
    check(text, [x, at[:, None], u], wanted, wide)


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter"])
def test_collectives(name: str, types: tuple[DType, DType]) -> None:
    narrow, wide = types
    operand, result = tensor(narrow, 6, 4), tensor(wide, 6, 4)
    dimension = "scatter_dimension = 0 : i64, " if name == "reduce_scatter" else ""
    text = function(
        [operand],
        [result],
        f'%r = "stablehlo.{name}"(%0) <{{{dimension}replica_groups = dense<[[0]]> : tensor<1x1xi64>}}>'
        f" ({combine('add', wide)}) : ({operand}) -> {result}",
    )
    x = large(narrow, 6, 4)
    check(text, [x], x.astype(np.float64), wide)
