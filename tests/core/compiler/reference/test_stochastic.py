"""How far apart two programs that mean the same may be: sums in another order, and none for sums of whole numbers."""

from __future__ import annotations

import numpy as np
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.reference.stochastic import Expectation

SUMS = """func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %y = "stablehlo.reduce_window"(%x, %zero) <{
    window_dimensions = array<i64: 4>, padding = dense<[[3, 0]]> : tensor<1x2xi64>
  }> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %c : tensor<f64>
  }) : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}"""


def expectation(terms: np.ndarray) -> Expectation:
    return Expectation(read_program(SUMS.encode(), "mlir"), [terms])


def test_sums_in_another_order() -> None:
    """The sum of the first three is exact in some orders, in which nothing is seen of the roundings in others."""
    x = np.array([2.480172473400826, -0.7095941085328094, -1.8057718350338974, 0.07584028491596796])
    orders = [(x[0] + x[1]) + x[2], x[0] + (x[1] + x[2]), (x[0] + x[2]) + x[1]]
    assert len(set(orders)) > 1
    for third in orders:
        assert not expectation(x).differences([np.array([x[0], x[0] + x[1], third, third + x[3]])])


def test_sums_of_whole_numbers_have_one_result() -> None:
    (tolerance,) = expectation(np.array([3.0, -7.0, 1e15, -1e15])).tolerances()
    assert np.all(tolerance <= 8 * 2.0**-52 * np.abs(np.cumsum([3.0, -7.0, 1e15, -1e15])) + 1e-300)


def test_a_wrong_sum_is_told() -> None:
    x = np.array([0.3, 0.4, 0.5, 0.6])
    assert expectation(x).differences([np.cumsum(x) + [0, 0, 0, 1e-12]])
