"""The reference evaluator against JAX's own CPU backend, operation by operation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Instruction, Shape
from tripont.core.compiler.reference import gamma as evaluate_gamma
from tripont.core.compiler.reference import incomplete
from tripont.core.compiler.reference.evaluate import evaluate, evaluate_instruction

from tests.core.compiler.builders import S32, number, op, parameter

_rng = np.random.default_rng(11)


def f(*dims: int) -> np.ndarray:
    return _rng.standard_normal(dims).astype(np.float32)


def c(*dims: int) -> np.ndarray:
    return (f(*dims) + 1j * f(*dims)).astype(np.complex64)


def i(*dims: int) -> np.ndarray:
    return _rng.integers(-50, 50, dims).astype(np.int32)


def u8(*dims: int) -> np.ndarray:
    return _rng.integers(0, 255, dims).astype(np.uint8)


def positive(n: int) -> np.ndarray:
    a = f(n, n)
    return a @ a.T + np.eye(n, dtype=np.float32) * n


def convolution(
    *, strides=(1, 1), padding="SAME", lhs=(1, 1), rhs=(1, 1), groups=1, batch_groups=1
):
    return lambda x, k: lax.conv_general_dilated(
        x,
        k,
        strides,
        padding,
        lhs,
        rhs,
        ("NHWC", "HWIO", "NHWC"),
        groups,
        batch_groups,
    )


def pool_gradient(x):
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    return jax.grad(lambda x: (pool(x) ** 2).sum())(x)


PROGRAMS: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "integer division": (lambda a, b: (a // b, a % b, lax.div(a, b), lax.rem(a, b)), (i(40), i(40) // 3 * 2 + 1)),
    "division by zero": (lambda a, b: (lax.div(a, b), lax.rem(a, b)), (i(9), np.zeros(9, np.int32))),
    "smallest integer": (
        lambda a, b: (lax.div(a, b), lax.rem(a, b)),
        (np.full(3, -(2**31), np.int32), np.array([-1, 1, 7], np.int32)),
    ),
    "shifts": (
        lambda a, b: (lax.shift_left(a, b), lax.shift_right_logical(a, b), lax.shift_right_arithmetic(a, b)),
        (i(9), np.array([0, 1, 5, 31, 32, 33, 40, 2, 3], np.int32)),
    ),
    "bits": (lambda a: (lax.population_count(a), lax.clz(a), ~a, -a, abs(a), jnp.sign(a)), (i(20),)),
    "unsigned bits": (lambda a: (lax.population_count(a), lax.clz(a), ~a, a + a, a * a), (u8(20),)),
    "conversions": (
        lambda x: (x.astype(jnp.int32), x.astype(jnp.uint8), x.astype(jnp.bfloat16), x > 0),
        (np.array([1.7, -1.7, 300, -5, np.inf, -np.inf, np.nan, 3e9], np.float32),),
    ),
    "rounding": (
        lambda x: (jnp.round(x), lax.round(x), jnp.floor(x), jnp.ceil(x)),
        (np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4], np.float32),),
    ),
    "functions": (
        lambda x: (jnp.exp(x), jnp.expm1(x), jnp.log1p(abs(x)), lax.erf(x), lax.cbrt(x), lax.logistic(x), jnp.tan(x)),
        (f(30),),
    ),
    "powers": (lambda x, y: (x**y, x**3, jnp.arctan2(x, y)), (abs(f(9)), f(9))),
    "integer power": (lambda x, y: lax.pow(x, y), (i(9).astype(np.float32), np.arange(9, dtype=np.int32))),
    "complex": (lambda x, y: (x * y, x / y, abs(x), x.real, y.imag, jnp.exp(x), lax.conj(x)), (c(7), c(7))),
    "extrema": (
        lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -0.5, 0.5)),
        (np.array([1, np.nan, -2], np.float32), np.array([np.nan, 1, 3], np.float32)),
    ),
    "reduce precision": (lambda x: lax.reduce_precision(x, 5, 10), (f(20) * 1e4,)),
    "bitcasts": (
        lambda x: (
            lax.bitcast_convert_type(x, jnp.int32),
            lax.bitcast_convert_type(x, jnp.uint8),
        ),
        (f(5),),
    ),
    "pad": (lambda x: lax.pad(x, np.float32(7), ((1, -1, 2), (-2, 3, 0))), (f(4, 5),)),
    "reverse": (lambda x: lax.rev(x, (0, 2)), (f(3, 4, 5),)),
    "slices": (lambda x: x[1:7:2, ::-1], (f(8, 4),)),
    "dynamic slices": (
        lambda x, n: (lax.dynamic_slice(x, (n, -n), (3, 2)), lax.dynamic_update_slice(x, x[:2, :2], (n, n))),
        (f(6, 5), np.int32(9)),
    ),
    "gather": (lambda x, n: (x[n], x[:, n % 4], jnp.take_along_axis(x, n[:, None] % 4, 1)), (f(6, 4), abs(i(6)) % 6)),
    "batched gather": (lambda x, n: jax.vmap(lambda a, b: a[b])(x, n), (f(3, 6, 2), abs(i(3, 4)) % 6)),
    "scatter": (
        lambda x, n, u: (x.at[n].add(u), x.at[n].max(u), x.at[n].mul(u), x.at[n, 1].set(0)),
        (f(6, 3), abs(i(5)) % 8, f(5, 3)),
    ),
    "batched scatter": (
        lambda x, n, u: jax.vmap(lambda a, b, v: a.at[b].add(v))(x, n, u),
        (f(2, 6), abs(i(2, 4)) % 6, f(2, 4)),
    ),
    "reductions": (
        lambda x: (x.sum((0, 2)), x.prod(1), x.min(), x.max(2), (x > 0).any(0), (x > 0).all(1)),
        (f(3, 4, 5),),
    ),
    "arg reductions": (lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1)), (f(5, 6),)),
    "average pooling": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 3, 1), (1, 2, 1, 1), ((0, 0), (1, 0), (1, 1), (0, 0))),
        (f(2, 5, 6, 3),),
    ),
    "dilated windows": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (2,), ((2, 1),), base_dilation=(2,), window_dilation=(2,)),
        (f(9),),
    ),
    "pooling gradient": (pool_gradient, (f(2, 6, 6, 2),)),
    "dot": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (f(2, 3, 4), f(2, 5, 4))),
    "integer dot": (lambda a, b: a @ b, (i(3, 4), i(4, 5))),
    "convolution": (convolution(), (f(2, 6, 5, 3), f(3, 3, 3, 4))),
    "strided convolution": (convolution(strides=(2, 1), padding="VALID"), (f(2, 6, 5, 3), f(3, 2, 3, 4))),
    "dilated convolution": (
        convolution(lhs=(2, 1), rhs=(1, 2), padding=((2, 1), (0, 3))),
        (f(2, 6, 5, 3), f(3, 2, 3, 4)),
    ),
    "grouped convolution": (convolution(groups=2), (f(2, 6, 5, 4), f(3, 3, 2, 6))),
    "depthwise convolution": (convolution(groups=4), (f(2, 6, 5, 4), f(3, 3, 1, 8))),
    "batch grouped convolution": (convolution(batch_groups=2), (f(4, 6, 5, 3), f(3, 3, 3, 4))),
    "convolution gradient": (
        jax.grad(lambda x, k: (convolution(strides=(2, 2))(x, k) ** 2).sum(), argnums=(0, 1)),
        (f(2, 6, 6, 3), f(3, 3, 3, 4)),
    ),
    "sort": (lambda x, y: (jnp.sort(x, 0), *lax.sort((x, y), dimension=1, num_keys=1)), (f(4, 7), i(4, 7))),
    "top k": (lambda x: lax.top_k(x, 3), (f(4, 9),)),
    "fft": (
        lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x.real), jnp.fft.ifft2(x), jnp.fft.irfft(x[:, :5])),
        (c(4, 8),),
    ),
    "cholesky": (lambda a: lax.linalg.cholesky(a, symmetrize_input=False), (positive(5),)),
    "triangular solve": (
        lambda a, b: (
            lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
            lax.linalg.triangular_solve(a, b.T, left_side=False, lower=False, transpose_a=True),
            lax.linalg.triangular_solve(a, b, left_side=True, lower=True, unit_diagonal=True),
        ),
        (positive(5), f(5, 3)),
    ),
    "branches": (lambda n, x: lax.switch(n, [jnp.sin, jnp.cos, jnp.tanh], x), (np.int32(5), f(4))),
    "map": (lambda x: lax.map(lambda a: a * 2 + 1, x), (f(4, 2),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_operation(name: str) -> None:
    function, arguments = PROGRAMS[name]
    with jax.default_device(jax.devices("cpu")[0]):
        expected = [np.asarray(r) for r in jax.tree.leaves(jax.jit(function)(*arguments))]
    # On "cpu" these two are calls of LAPACK.
    platform = "tpu" if name in ("cholesky", "triangular solve") else "cpu"
    lowered = (
        jax.jit(function, keep_unused=True).trace(*arguments).lower(lowering_platforms=(platform,))
    )
    module = read_program(str(lowered.compiler_ir("stablehlo")).encode(), "mlir")
    actual = evaluate(module, list(arguments))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        if e.dtype.kind in "iub":
            np.testing.assert_array_equal(a, e)
        else:
            wide = np.complex128 if e.dtype.kind == "c" else np.float64
            tolerance = 1e-2 if e.dtype.itemsize < 4 else 2e-4
            np.testing.assert_allclose(
                a.astype(wide), e.astype(wide), rtol=tolerance, atol=tolerance
            )


def test_unknown_operation() -> None:
    shape = number(0, dtype=S32).shape
    with pytest.raises(CompileError, match="no reference evaluation"):
        evaluate_instruction(Instruction("partition-id", shape), [])


def test_scalar_results_have_no_dimensions() -> None:
    x = parameter(0)
    (result,) = evaluate_instruction(op("exponential", x), [np.float32(0)])
    assert result.shape == ()


def _instruction(opcode: str, array: np.ndarray, attributes: dict[str, Any]) -> Instruction:
    shape = Shape(dtypes.from_numpy(array.dtype), array.shape)
    return Instruction(opcode, shape, (hlo.parameter(0, shape),), attributes)


def test_reduce_precision_keeps_subnormal_numbers_of_formats_with_as_wide_exponents() -> None:
    x = np.array([3e-7, -2e-5, 6e-8, 70.0], np.float16)
    same = _instruction("reduce-precision", x, {"exponent_bits": 5, "mantissa_bits": 10})
    np.testing.assert_array_equal(evaluate_instruction(same, [x])[0], x)
    fewer = _instruction("reduce-precision", x, {"exponent_bits": 4, "mantissa_bits": 3})
    np.testing.assert_array_equal(evaluate_instruction(fewer, [x])[0], np.float16([0, 0, 0, 72]))


def test_a_transform_without_elements() -> None:
    x = np.zeros((2, 0), np.complex64)
    transform = _instruction("fft", x, {"fft_type": "FFT", "fft_length": (0,)})
    assert evaluate_instruction(transform, [x])[0].shape == (2, 0)


@pytest.mark.parametrize("n", [5, 96])
def test_reductions_keep_the_order_of_elements(n: int) -> None:
    """JAX's argmin is the first NaN's position only where elements are combined in their order."""
    text = jax.jit(jnp.argmin).lower(jax.ShapeDtypeStruct((n,), np.float32)).as_text()
    module = read_program(text.encode(), "mlir")
    for first in range(n - 1):
        for second in range(first + 1, n):
            x = np.arange(n, dtype=np.float32)
            x[[first, second]] = np.nan
            (position,) = evaluate(module, [x])
            assert position == first


def test_padding_of_windows_takes_no_part() -> None:
    """As in XLA: where the initial value is not neutral, it counts once however much is padded."""
    text = """func.func @main(%a: tensor<4xi32>, %i: tensor<i32>) -> tensor<4xi32> {
      %r = "stablehlo.reduce_window"(%a, %i) <{window_dimensions = array<i64: 3>,
          padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
      ^bb0(%x: tensor<i32>, %y: tensor<i32>):
        %s = stablehlo.add %x, %y : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
      return %r : tensor<4xi32> }"""
    module = read_program(text.encode(), "mlir")
    (result,) = evaluate(module, [np.int32([1, 2, 3, 4]), np.int32(5)])
    np.testing.assert_array_equal(result, [6, 8, 11, 14])


def test_zeta_of_endless_series_is_left_to_the_kernel() -> None:
    """Series of 10^10 terms, and factorials of as many digits, would have stopped the compiler."""
    text = """func.func @main() -> tensor<6xf64> {
      %n = stablehlo.constant dense<[2.0, 1.0, 1.0e+300, 65504.0, 40000.0, 1.0e+10]> : tensor<6xf64>
      %x = stablehlo.constant dense<[0xFFF0000000000000, -9999999999.5, 2.0, 7.0, 30000.0, 1.0e+10]> : tensor<6xf64>
      %r = chlo.polygamma %n, %x : tensor<6xf64>, tensor<6xf64> -> tensor<6xf64>
      return %r : tensor<6xf64> }"""
    module = read_program(text.encode(), "mlir")
    with pytest.raises(CompileError, match="of very large or small parameters, by its series"):
        evaluate(module, [])
    executable = compile_module(module, {"target": "host"})
    assert executable.code


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("zeta", (1, -np.inf), np.inf),
        ("zeta", (2, -np.inf), np.inf),
        ("polygamma", (0, -np.inf), np.nan),
        ("polygamma", (2, -np.inf), -np.inf),
        ("polygamma", (3, -np.inf), np.inf),
    ],
)
def test_zeta_at_the_last_pole(name: str, arguments: tuple[float, float], expected: float) -> None:
    """As generated code has it, and XLA in its first derivative."""
    np.testing.assert_equal(getattr(evaluate_gamma, name)(*arguments), expected)


def test_incomplete_gamma_at_infinity() -> None:
    """As generated code has it: tests/frontends/jax/test_special_functions.py."""
    for function, ends in ((incomplete.igamma, (0.0, 1.0)), (incomplete.igammac, (1.0, 0.0))):
        given = [function(np.inf, 1.0), function(1.0, np.inf), function(np.inf, np.inf)]
        np.testing.assert_equal(given, [*ends, np.nan])
