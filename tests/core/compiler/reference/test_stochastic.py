"""How far apart two programs that mean the same may be: sums in another order, and none for sums of whole numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
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


REDUCE = """func.func @main(%x: tensor<NxT>) -> tensor<T> {
  %zero = stablehlo.constant dense<0.0> : tensor<T>
  %y = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<NxT>, tensor<T>) -> tensor<T>
  return %y : tensor<T>
}"""
DOT = """func.func @main(%x: tensor<NxT>) -> tensor<T> {
  %one = stablehlo.constant dense<1.0> : tensor<NxT>
  %y = stablehlo.dot_general %x, %one, contracting_dims = [0] x [0]
    : (tensor<NxT>, tensor<NxT>) -> tensor<T>
  return %y : tensor<T>
}"""
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}


def drawn_terms(n: int, dtype: str, positive: bool) -> np.ndarray:
    """Numbers of the size of one; the last is as large as a quarter of the sum of their sizes."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n)
    if positive:
        x = np.abs(x)
    x[-1] = np.abs(x[:-1]).sum() / 3
    return x.astype(DTYPES[dtype])


@pytest.mark.parametrize("text", [REDUCE, DOT], ids=["reduce", "dot"])
@pytest.mark.parametrize("positive", [True, False], ids=["positive", "mixed"])
@pytest.mark.parametrize(
    ("n", "dtype"), [(33, "bf16"), (257, "bf16"), (33, "f16"), (257, "f16"), (4097, "f32")]
)
def test_a_wrong_sum_of_many_terms_is_told(text: str, positive: bool, n: int, dtype: str) -> None:
    x = drawn_terms(n, dtype, positive)
    module = read_program(text.replace("N", str(n)).replace("T", dtype).encode(), "mlir")
    judge = Expectation(module, [x])
    wide = x.astype(np.float32)
    right = [np.cumsum(wide)[-1], np.cumsum(wide[::-1])[-1], np.cumsum(np.sort(wide))[-1]]
    right.append(wide.astype(np.float64).sum())
    # Two sums of halves that are stored.
    right.append(np.sum([wide[: n // 2].sum(), wide[n // 2 :].sum()], dtype=x.dtype))
    for sum_ in right:
        assert judge.differences([np.asarray(sum_).astype(x.dtype)]) == []
    for sum_ in (0.0, wide[: n // 2].sum(), wide[:-1].sum()):
        assert judge.differences([np.asarray(sum_).astype(x.dtype)])


def test_a_lost_term_of_a_long_sum_is_told() -> None:
    """Of 4,097 terms of one size, which differ by half of it."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, 4097).astype(np.float32)
    module = read_program(REDUCE.replace("N", "4097").replace("T", "f32").encode(), "mlir")
    judge = Expectation(module, [x])
    assert judge.differences([np.cumsum(x)[-1]]) == []
    assert judge.differences([x[:-1].sum()])


def test_a_sum_that_goes_on_keeps_its_tolerance() -> None:
    """What is left of a sum when nearly all of it is subtracted may be off by as much as the sum."""
    x = drawn_terms(33, "bf16", True)
    total = x.astype(np.float32).sum().astype(x.dtype)
    text = REDUCE.replace(
        "  return %y", "  %z = stablehlo.subtract %y, %t : tensor<T>\n  return %z"
    ).replace("<NxT>)", "<NxT>, %t: tensor<T>)", 1)
    module = read_program(text.replace("N", "33").replace("T", "bf16").encode(), "mlir")
    judge = Expectation(module, [x, total])
    last_place = np.spacing(total)
    for off in (-1, 0, 1, 2):
        assert judge.differences([np.asarray(off * last_place).astype(x.dtype)]) == []
    assert judge.differences([np.asarray(total).astype(x.dtype)])


@pytest.mark.parametrize(
    ("function", "arguments", "least"),
    [
        ("stablehlo.sqrt %x", [4, -1, 9, 2], 1),
        ("chlo.asin %x", [0.5, 2, 0.9, 0.2], 0.1),
        ("chlo.acos %x", [-0.5, 2, -0.9, 0], 0.5),
    ],
)
def test_the_place_of_a_nan_that_arithmetic_gives_is_free(
    function: str, arguments: list[float], least: float
) -> None:
    """It is a NaN of either sign, which a sort by the total order puts first or last."""
    result = " -> tensor<4xf64>" if function.startswith("chlo") else ""
    text = f"""func.func @main(%x: tensor<4xf64>) -> tensor<4xi32> {{
      %y = {function} : tensor<4xf64>{result}
      %z:2 = chlo.top_k(%y, k = 4) : tensor<4xf64> -> (tensor<4xf64>, tensor<4xi32>)
      return %z#1 : tensor<4xi32>
    }}"""
    x = np.array(arguments, np.float64)
    judge = Expectation(read_program(text.encode(), "mlir"), [x])
    for right in ([1, 2, 0, 3], [2, 0, 3, 1]):
        assert judge.differences([np.array(right, np.int32)]) == []
    x[1] = least
    numbers = Expectation(read_program(text.encode(), "mlir"), [x])
    assert numbers.differences([np.array([2, 0, 3, 1], np.int32)]) == []
    assert numbers.differences([np.array([2, 0, 1, 3], np.int32)])


def test_the_nans_of_an_array_may_all_have_one_sign() -> None:
    """Of 20 that are drawn one by one, all have the same in one of a million tries."""
    text = """func.func @main(%x: tensor<21xf64>) -> tensor<1xi32> {
      %y = stablehlo.sqrt %x : tensor<21xf64>
      %z:2 = chlo.top_k(%y, k = 1) : tensor<21xf64> -> (tensor<1xf64>, tensor<1xi32>)
      return %z#1 : tensor<1xi32>
    }"""
    x = np.full(21, -1.0)
    x[20] = 4.0
    judge = Expectation(read_program(text.encode(), "mlir"), [x])
    for right in (0, 20):
        assert judge.differences([np.array([right], np.int32)]) == []


def test_a_nan_that_is_given_keeps_its_place() -> None:
    text = """func.func @main(%x: tensor<4xf64>) -> (tensor<4xi32>, tensor<4xf64>) {
      %y:2 = chlo.top_k(%x, k = 4) : tensor<4xf64> -> (tensor<4xf64>, tensor<4xi32>)
      %z = stablehlo.sqrt %x : tensor<4xf64>
      return %y#1, %z : tensor<4xi32>, tensor<4xf64>
    }"""
    x = np.array([4.0, np.nan, 9.0, 2.0])
    judge = Expectation(read_program(text.encode(), "mlir"), [x])
    assert judge.differences([np.array([1, 2, 0, 3], np.int32), np.sqrt(x)]) == []
    assert judge.differences([np.array([2, 0, 3, 1], np.int32), np.sqrt(x)])


def equality(text: str, *arguments: np.ndarray) -> Expectation:
    return Expectation(read_program(text.encode(), "mlir"), list(arguments))


def test_equality_of_nearly_equal_numbers_is_free() -> None:
    """exp(log(x)) is x or a neighbour; random complex numbers of hundreds of neighbours never meet x."""
    text = """func.func @main(%x: tensor<3xcomplex<f64>>, %y: tensor<3xcomplex<f64>>) -> tensor<3xi1> {
      %l = stablehlo.log %x : tensor<3xcomplex<f64>>
      %e = stablehlo.exponential %l : tensor<3xcomplex<f64>>
      %c = stablehlo.compare EQ, %e, %y : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> tensor<3xi1>
      return %c : tensor<3xi1>
    }"""
    x = np.array([1.6258583267541484 - 0.13686386563548694j, 3.7 + 2.1j, -0.3 + 5.9j])
    judge = equality(text, x, x * [1, 1, 1 + 1e-12])
    for first in (False, True):
        for second in (False, True):
            assert judge.differences([np.array([first, second, False])]) == []
            assert judge.differences([np.array([first, second, True])])


def test_all_of_many_equalities_may_hold() -> None:
    text = """func.func @main(%x: tensor<32xf64>) -> tensor<i1> {
      %l = stablehlo.log %x : tensor<32xf64>
      %e = stablehlo.exponential %l : tensor<32xf64>
      %c = stablehlo.compare EQ, %e, %x : (tensor<32xf64>, tensor<32xf64>) -> tensor<32xi1>
      %true = stablehlo.constant dense<true> : tensor<i1>
      %all = stablehlo.reduce(%c init: %true) applies stablehlo.and across dimensions = [0]
        : (tensor<32xi1>, tensor<i1>) -> tensor<i1>
      return %all : tensor<i1>
    }"""
    judge = equality(text, np.linspace(3.1, 4.9, 32))
    for right in (False, True):
        assert judge.differences([np.array(right)]) == []


def test_equality_that_rounding_does_not_decide_is_known() -> None:
    """Of a number with itself, of the largest number with each, and of exact numbers."""
    text = """func.func @main(%x: tensor<4xf64>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
      %e = stablehlo.exponential %x : tensor<4xf64>
      %a = stablehlo.compare NE, %e, %e : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
      %low = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
      %m = stablehlo.reduce(%e init: %low) applies stablehlo.maximum across dimensions = [0]
        : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
      %n = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f64>) -> tensor<4xf64>
      %b = stablehlo.compare EQ, %e, %n : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
      %d = stablehlo.add %x, %x : tensor<4xf64>
      %s = stablehlo.subtract %d, %x : tensor<4xf64>
      %c = stablehlo.compare EQ, %s, %x : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
      return %a, %b, %c : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
    }"""
    judge = equality(text, np.array([1.0, 2.0, 3.0, 2.5]))
    never, last, always = np.zeros(4, bool), np.arange(4) == 2, np.ones(4, bool)
    assert judge.differences([never, last, always]) == []
    for n, flipped in enumerate([never, last, always]):
        for at in range(4):
            results = [never, last, always]
            results[n] = flipped ^ (np.arange(4) == at)
            assert judge.differences(results), (n, at)


def test_exponents_that_rounding_may_make_whole_numbers_are_free() -> None:
    """A Fourier transform and its inverse give -3 or one of its hundred neighbours, whose powers are NaN.

    Those of -2.5 are NaN in any case.
    """
    text = """func.func @main(%x: tensor<70xf64>) -> tensor<70xf64> {
      %f = stablehlo.fft %x, type = RFFT, length = [70] : (tensor<70xf64>) -> tensor<36xcomplex<f64>>
      %y = stablehlo.fft %f, type = IRFFT, length = [70] : (tensor<36xcomplex<f64>>) -> tensor<70xf64>
      %p = stablehlo.power %y, %y : tensor<70xf64>
      return %p : tensor<70xf64>
    }"""
    x = np.where(np.arange(70) % 3 == 0, -2.5, -3.0)
    judge = equality(text, x)
    (powers,) = judge.results
    assert np.isnan(powers).sum() > 35
    whole = np.where(x == -3, -1 / 27, np.nan)
    assert judge.differences([whole]) == []
    assert judge.differences([np.full(70, np.nan)]) == []
    assert judge.differences([np.full(70, -1 / 27)])
    known = equality(
        """func.func @main(%x: tensor<70xf64>) -> tensor<70xf64> {
      %p = stablehlo.power %x, %x : tensor<70xf64>
      return %p : tensor<70xf64>
    }""",
        x,
    )
    assert known.differences([whole]) == []
    assert known.differences([powers])


def test_quotients_may_be_products_with_reciprocals() -> None:
    """XLA:CPU contracts 1 - 5 * (1 / 5) to one rounding, which shows that of the reciprocal."""
    text = """func.func @main(%x: tensor<2xf64>, %y: tensor<2xf64>) -> tensor<2xf64> {
      %q = stablehlo.divide %x, %y : tensor<2xf64>
      %one = stablehlo.constant dense<1.0> : tensor<2xf64>
      %z = stablehlo.subtract %one, %q : tensor<2xf64>
      return %z : tensor<2xf64>
    }"""
    module, x = read_program(text.encode(), "mlir"), np.array([5.0, 4.0])
    contracted = [np.array([-(2.0**-54), 0.0])]
    assert Expectation(module, [x, x]).differences(contracted)
    assert Expectation(module, [x, x], exact_quotients=False).differences(contracted) == []
    # The reciprocal of a power of two is exact.
    assert Expectation(module, [x, x], exact_quotients=False).differences([contracted[0][::-1]])


BEYOND = """func.func @main(%x: tensor<4xf16>, %y: tensor<4xf16>) -> tensor<4xf16> {
  %e = stablehlo.OP %x : tensor<4xf16>
  %r = stablehlo.multiply %e, %y : tensor<4xf16>
  return %r : tensor<4xf16>
}"""


@pytest.mark.parametrize(("opcode", "is_free"), [("exponential", True), ("log", False)])
def test_numbers_beyond_a_narrow_type_may_be_finite(opcode: str, is_free: bool) -> None:
    """inf * 0 is NaN, and e^60 * 0 is zero in f32; the logarithm of zero is infinite in every type."""
    x = np.array([60.0, 60.0, 60.0, 60.0] if is_free else [0.0] * 4, np.float16)
    y = np.zeros(4, np.float16)
    expected = Expectation(read_program(BEYOND.replace("OP", opcode).encode(), "mlir"), [x, y])
    assert np.isnan(expected.results[0]).all()
    assert bool(expected.differences([np.zeros(4, np.float16)])) != is_free


COMPLEX_PRODUCT = """func.func @main(%x: tensor<2xcomplex<f32>>, %y: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %z = stablehlo.multiply %x, %y : tensor<2xcomplex<f32>>
  return %z : tensor<2xcomplex<f32>>
}"""


@pytest.mark.parametrize(("factor", "is_free"), [(1 + 0j, True), (0 - 2j, True), (1 + 1j, False)])
def test_an_infinity_times_a_part_that_is_zero_is_free(factor: complex, is_free: bool) -> None:
    """Programs may leave out a factor of 1, or multiply by a real number; both keep the other part's zero."""
    x = np.array([complex(np.inf, 3), 2 + 1j], np.complex64)
    y = np.full(2, factor, np.complex64)
    module = read_program(COMPLEX_PRODUCT.encode(), "mlir")
    expected = Expectation(module, [x, y])
    of_real = np.array([complex(np.inf, 3), 2 + 1j], np.complex64)
    if factor.imag == -2:
        of_real = np.array([complex(6, -np.inf), 2 - 4j], np.complex64)
    assert bool(expected.differences([of_real])) is not is_free
    # What is finite has its tolerance all the same.
    wrong = expected.results[0].copy()
    wrong[1] += np.float32(1e-3)
    assert expected.differences([wrong])


PADDED = """func.func @main(%x: tensor<1x2x1xf32>, %w: tensor<3x1x1xf32>) -> tensor<1x2x1xf32> {
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x1xf32>, tensor<3x1x1xf32>) -> tensor<1x2x1xf32>
  return %y : tensor<1x2x1xf32>
}"""


def test_a_weight_that_is_not_finite_may_pass_by_the_padding() -> None:
    """Libraries leave padding out; the specification multiplies it by the weights."""
    x = np.array([2, 3], np.float32).reshape(1, 2, 1)
    w = np.array([np.inf, 5, 7], np.float32).reshape(3, 1, 1)
    expected = Expectation(read_program(PADDED.encode(), "mlir"), [x, w])
    assert np.isnan(expected.results[0][0, 0, 0])
    left_out = expected.results[0].copy()
    left_out[0, 0, 0] = 2 * 5 + 3 * 7
    assert not expected.differences([left_out])
    # The second result has an infinite term.
    left_out[0, 1, 0] = 3 * 5
    assert expected.differences([left_out])
