"""The order in which the evaluator, which takes many elements at once, sorts them and scatters to them."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.reference.stochastic import Expectation


def _sort(*dims: int, dimension: int, comparator: str = "LT, %a, %b") -> str:
    keys, values = (f"tensor<{'x'.join(map(str, dims))}x{t}>" for t in ("f32", "i32"))
    return f"""func.func @main(%k: {keys}, %v: {values}) -> ({keys}, {values}) {{
      %r:2 = "stablehlo.sort"(%k, %v) <{{dimension = {dimension} : i64, is_stable = true}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
        %l = stablehlo.compare {comparator} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %l : tensor<i1>
      }}) : ({keys}, {values}) -> ({keys}, {values})
      return %r#0, %r#1 : {keys}, {values}
    }}"""


def _sorted(text: str, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.arange(keys.size, dtype=np.int32).reshape(keys.shape)
    found, places = evaluate(read_program(text.encode(), "mlir"), [keys, numbers])
    return found, places


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 8, 9, 33, 100, 257])
def test_equal_elements_stay_in_their_order(length):
    keys = np.random.default_rng(length).integers(0, 9, (3, length)).astype(np.float32)
    found, places = _sorted(_sort(3, length, dimension=1), keys)
    order = np.argsort(keys, axis=1, kind="stable")
    assert found.tolist() == np.take_along_axis(keys, order, 1).tolist()
    assert (places - np.arange(3)[:, None] * length).tolist() == order.tolist()


def test_rows_along_the_first_dimension():
    keys = np.random.default_rng(0).integers(0, 5, (21, 2)).astype(np.float32)
    found, places = _sorted(_sort(21, 2, dimension=0, comparator="GT, %a, %b"), keys)
    order = np.argsort(-keys, axis=0, kind="stable")
    assert found.tolist() == np.take_along_axis(keys, order, 0).tolist()
    assert (places // 2).tolist() == order.tolist()


@pytest.mark.parametrize("comparator", ["LE, %a, %b", "NE, %a, %b", "EQ, %a, %a"])
def test_a_comparator_that_contradicts_itself_loses_no_element(comparator):
    keys = np.random.default_rng(1).integers(0, 5, (2, 37)).astype(np.float32)
    _, places = _sorted(_sort(2, 37, dimension=1, comparator=comparator), keys)
    assert np.sort(places, axis=1).tolist() == np.arange(74).reshape(2, 37).tolist()


def test_many_elements_are_sorted_within_the_budget():
    """An element at a time, such a sort was given up, and what a program computed beside it was not judged."""
    keys = np.random.default_rng(2).standard_normal((4, 9000)).astype(np.float32)
    numbers = np.zeros(keys.shape, np.int32)
    module = read_program(_sort(4, 9000, dimension=1).encode(), "mlir")
    expected = Expectation(module, [keys, numbers])
    assert expected.differences([np.sort(keys, axis=1), numbers]) == []
    assert expected.differences([keys, numbers])


def test_updates_of_one_element_come_one_after_another():
    """x -> 3 x + u does not commute. An index that is out of bounds changes nothing."""
    text = """func.func @main(%x: tensor<5xi64>, %i: tensor<40x1xui64>, %u: tensor<40xi64>) -> tensor<5xi64> {
      %r = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %three = stablehlo.constant dense<3> : tensor<i64>
        %m = stablehlo.multiply %a, %three : tensor<i64>
        %s = stablehlo.add %m, %b : tensor<i64>
        stablehlo.return %s : tensor<i64>
      }) : (tensor<5xi64>, tensor<40x1xui64>, tensor<40xi64>) -> tensor<5xi64>
      return %r : tensor<5xi64>
    }"""
    rng = np.random.default_rng(3)
    x, u = rng.integers(-9, 9, 5), rng.integers(-9, 9, 40)
    indices = rng.integers(0, 7, 40).astype(np.uint64)
    indices[3] = 2**64 - 1
    expected = x.copy()
    for index, update in zip(indices.tolist(), u, strict=True):
        if index < 5:
            expected[index] = 3 * expected[index] + update
    module = read_program(text.encode(), "mlir")
    assert evaluate(module, [x, indices[:, None], u])[0].tolist() == expected.tolist()


def test_windows_that_overlap_come_one_after_another():
    """Windows that begin at (0, 1), (2, 2), (1, 1) and (0, 3), the last of which does not fit."""
    text = """func.func @main(%x: tensor<4x4xi32>, %i: tensor<2x4xi32>, %u: tensor<2x4x2xi32>) -> tensor<4x4xi32> {
      %r = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [0, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %m = stablehlo.add %a, %a : tensor<i32>
        %s = stablehlo.subtract %b, %m : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }) : (tensor<4x4xi32>, tensor<2x4xi32>, tensor<2x4x2xi32>) -> tensor<4x4xi32>
      return %r : tensor<4x4xi32>
    }"""
    x = np.arange(16, dtype=np.int32).reshape(4, 4)
    indices = np.array([[0, 2, 1, 0], [1, 2, 1, 3]], np.int32)
    u = np.random.default_rng(4).integers(-9, 9, (2, 4, 2)).astype(np.int32)
    expected = x.copy()
    for n, (row, column) in enumerate(indices.T.tolist()[:3]):
        window = expected[row : row + 2, column : column + 2]
        window[:] = u[:, n] - 2 * window
    module = read_program(text.encode(), "mlir")
    assert evaluate(module, [x, indices, u])[0].tolist() == expected.tolist()
