"""The pass that chooses library calls."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir import verifier
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.passes.inline import inline_calls
from tripont.core.compiler.passes.library import match_library
from tripont.core.compiler.passes.simplify import simplify
from tripont.core.compiler.targets.sycl import for_device
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.codegen.native import without_packing

SERVER = without_packing("icelake-server")  # AVX-512 with VNNI
F32, F16, BF16 = np.float32, np.float16, ml_dtypes.bfloat16


def matched(function: Any, *arguments: Any, target: Target = SERVER) -> Module:
    """The function's module after the pass; arguments: (dims, dtype)."""
    shapes = [jax.ShapeDtypeStruct(*a) for a in arguments]
    text = jax.jit(function).lower(*shapes).as_text()
    module = simplify(inline_calls(read_program(text.encode(), "mlir")))
    module = match_library(module, target)
    verifier.verify(module)
    return module


def instructions(module: Module, opcode: str) -> list[Instruction]:
    return [i for c in module.computations() for i in c.instructions if i.opcode == opcode]


def calls(module: Module) -> list[str]:
    return [i.attributes["name"] for i in instructions(module, "library-call")]


def config(module: Module) -> dict[str, Any]:
    (call,) = instructions(module, "library-call")
    return call.attributes["config"]  # type: ignore[no-any-return]


def value_of(module: Module, arguments: list[np.ndarray]) -> np.ndarray:
    """The value of a module's one gemm, by its configuration."""
    (call,) = [i for i in instructions(module, "library-call") if i.attributes["name"] == "gemm"]
    c = call.attributes["config"]
    a, b = (arguments[o.attributes["index"]].ravel() for o in call.operands)

    def view(flat, sizes, strides):
        return np.lib.stride_tricks.as_strided(flat, sizes, [s * flat.itemsize for s in strides])

    batch = c["batch"]
    product = view(a, (*batch, c["m"], c["k"]), c["lhs_strides"]) @ view(
        b, (*batch, c["k"], c["n"]), c["rhs_strides"]
    )
    result = np.zeros(call.dims, product.dtype)
    view(result.ravel(), product.shape, c["result_strides"])[...] = product
    return result


@pytest.mark.parametrize(
    ("equation", "dims", "transposes"),
    [
        ("mk,kn->mn", ((128, 64), (64, 80)), 0),
        ("km,kn->mn", ((64, 128), (64, 80)), 0),
        ("mk,nk->mn", ((128, 64), (80, 64)), 0),
        ("mk,kn->nm", ((128, 64), (64, 80)), 0),
        ("bmk,bkn->bmn", ((3, 128, 64), (3, 64, 80)), 0),
        ("bthd,bshd->bhts", ((2, 64, 4, 32), (2, 80, 4, 32)), 0),  # attention scores
        (
            "bhts,bshd->bthd",
            ((2, 4, 64, 80), (2, 80, 4, 32)),
            0,
        ),  # attention values, written in place
        ("btd,dhk->bthk", ((2, 64, 80), (80, 4, 32)), 0),
        ("bthk,hkd->btd", ((2, 64, 4, 32), (4, 32, 80)), 0),  # two contracted dimensions
        ("bthk,khd->btd", ((2, 64, 4, 32), (32, 4, 80)), 1),  # contracted in another order
        ("bthk,btd->dhk", ((2, 64, 4, 32), (2, 64, 80)), 0),
        (
            "akb,kn->abn",
            ((8, 64, 16), (64, 80)),
            1,
        ),  # free dimensions on both sides of the contracted one
    ],
)
def test_gemm_reads_any_layout(equation, dims, transposes):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(d).astype(F32) for d in dims]
    module = matched(lambda a, b: jnp.einsum(equation, a, b), *((d, F32) for d in dims))
    assert calls(module) == ["gemm"]
    assert len(instructions(module, "transpose")) == transposes
    if not transposes:
        want = np.einsum(equation, *arrays)
        np.testing.assert_allclose(value_of(module, arrays), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("lhs", "rhs", "dtype"),
    [
        ((16, 16), (16, 16), F32),  # small
        ((1, 4096), (4096, 512), F32),  # a vector
        ((512, 512), (512,), F32),
        ((128, 128), (128, 128), np.int32),
        ((100, 8, 8), (100, 8, 8), F32),  # a batch of small ones
        ((0, 512), (512, 512), F32),
    ],
)
def test_dots_that_stay(lhs, rhs, dtype):
    assert calls(matched(jnp.matmul, (lhs, dtype), (rhs, dtype))) == []


def test_element_types():
    square = (128, 128)
    assert calls(matched(jnp.matmul, (square, BF16), (square, BF16))) == ["gemm"]
    module = matched(jnp.matmul, (square, F16), (square, F16))
    (call,) = instructions(module, "library-call")
    assert {o.dtype.name for o in call.operands} == {"f32"}
    assert module.entry.results[0].dtype.name == "f16"


def product(a, b):
    return lax.dot(a, b, preferred_element_type=jnp.int32)


def mixed_product(lhs, rhs, k, target) -> Module:
    """The module of a product of two integer types to s32, which JAX does not write."""
    types = [{np.int8: "i8", np.uint8: "ui8"}[t] for t in (lhs, rhs)]
    x, y, z = f"tensor<96x{k}x{types[0]}>", f"tensor<{k}x80x{types[1]}>", "tensor<96x80xi32>"
    text = f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""
    module = match_library(read_program(text.encode(), "mlir"), target)
    verifier.verify(module)
    return module


@pytest.mark.parametrize(
    ("cpu", "as_they_are"),
    [
        ("x86-64-v2", False),
        ("x86-64-v3", False),
        ("x86-64-v3+avxvnni", False),
        ("x86-64-v4", True),
        ("icelake-server", True),
    ],
)
def test_bf16_products_go_through_f32_where_onednn_lacks_bf16(cpu, as_they_are):
    square = (128, 128)
    module = matched(jnp.matmul, (square, BF16), (square, BF16), target=without_packing(cpu))
    (call,) = instructions(module, "library-call")
    assert {o.dtype.name for o in call.operands} == {"bf16" if as_they_are else "f32"}
    assert module.entry.results[0].dtype.name == "bf16"


@pytest.mark.parametrize(
    ("cpu", "vnni"),
    [
        ("x86-64-v2", False),
        ("x86-64-v3", False),
        ("x86-64-v4", False),
        ("x86-64-v3+avxvnni", True),
        ("icelake-server", True),
    ],
)
@pytest.mark.parametrize("lhs", [np.int8, np.uint8])
@pytest.mark.parametrize("rhs", [np.int8, np.uint8])
def test_integer_products_are_onednn_s_only_with_vnni(cpu, vnni, lhs, rhs):
    """Without it oneDNN saturates in 16 bits: f32 products of sums that are exact there take its place."""
    module = mixed_product(lhs, rhs, 128, without_packing(cpu))
    (call,) = instructions(module, "library-call")
    found = [o.dtype.name for o in call.operands]
    if vnni and rhs is np.int8:
        assert found == ["s8" if lhs is np.int8 else "u8", "s8"]
    else:
        assert found == ["f32", "f32"]
    assert module.entry.results[0].dtype.name == "s32"


@pytest.mark.parametrize(
    ("cpu", "lhs", "rhs", "depth"),
    [
        ("x86-64-v3", np.int8, np.int8, 2**24 // 128**2),
        ("x86-64-v3", np.uint8, np.int8, 2**24 // (255 * 128)),
        ("icelake-server", np.uint8, np.uint8, 2**24 // 255**2),
        ("icelake-server", np.int8, np.int8, 2**24 // 128**2),
        ("icelake-server", np.uint8, np.int8, 2**24 // (255 * 128)),
    ],
)
def test_no_sum_of_a_call_is_longer_than_is_exact(cpu, lhs, rhs, depth):
    for k in (depth, depth + 1, 3 * depth + 5):
        c = config(mixed_product(lhs, rhs, k, without_packing(cpu)))
        blocks = c["batch"][0] if c["batch"] else 1
        assert c["k"] <= depth
        assert c["k"] * blocks >= k > c["k"] * blocks - blocks


def test_wide_integers_are_generated():
    for dtype in (np.int16, np.uint16, np.int32):
        assert calls(matched(product, ((128, 128), dtype), ((128, 128), dtype))) == []


def test_an_integer_convolution_with_a_long_sum_is_generated():
    def convolve(x, w):
        return lax.conv(x, w, (1, 1), "SAME", preferred_element_type=jnp.int32)

    def called(features: int) -> list[str]:
        x, w = ((1, features, 16, 16), np.int8), ((8, features, 4, 4), np.int8)
        return calls(matched(convolve, x, w))

    assert called(64) == ["convolution"]  # 1024 products
    assert called(65) == []


@pytest.mark.parametrize("device", ["cpu,fp16,fp64", "gpu,fp64"])
def test_a_sycl_device_asks_for_what_its_onednn_has(device):
    """The OpenCL CPU device's oneDNN goes by the CPU, as the host's does."""
    square = (128, 128)
    target = for_device(device, "x86-64-v3")
    module = matched(jnp.matmul, (square, BF16), (square, BF16), target=target)
    (call,) = instructions(module, "library-call")
    assert {o.dtype.name for o in call.operands} == {"f32"}


@pytest.mark.parametrize(
    "target",
    [
        without_packing("icelake-server", onednn=False),
        without_packing("neoverse-n1"),  # there is no oneDNN of ours for AArch64
        for_device("cpu", "icelake-server", onednn=False),
    ],
    ids=["x86-64", "aarch64", "sycl"],
)
def test_without_onednn(target):
    square = (128, 128)
    for dtype in (F32, BF16, F16):
        assert calls(matched(jnp.matmul, (square, dtype), (square, dtype), target=target)) == []
    assert calls(matched(product, (square, np.int8), (square, np.int8), target=target)) == []
    assert calls(matched(jnp.sort, ((128,), F32), target=target)) == ["sort"]


def test_a_gemm_with_two_users_keeps_its_layout():
    def both(a, b):
        product = a @ b
        return product - 1, product.T

    module = matched(both, ((128, 64), F32), ((64, 80), F32))
    assert calls(module) == ["gemm"]
    assert len(instructions(module, "transpose")) == 1


@pytest.mark.parametrize(
    ("equation", "dims", "order"),
    [
        ("km,kn->mn", ((64, 96), (64, 128)), (1, 0)),
        ("bkm,bkn->bmn", ((2, 64, 96), (2, 64, 128)), (0, 2, 1)),
    ],
)
def test_a_product_that_is_used_transposed_is_computed_so(equation, dims, order):
    """The gradient as PyTorch has it, a result too: that result alone is transposed, when it is read."""

    def update(a, b, w):
        product = jnp.einsum(equation, a, b)
        gradient = product.transpose(order)
        return product, gradient, w - 0.1 * gradient

    shape = tuple(jax.eval_shape(update, *map(np.zeros, (*dims, ())))[1].shape)
    module = matched(update, *((d, F32) for d in (*dims, shape)))
    gemm, transpose = instructions(module, "library-call")
    assert gemm.dims == shape
    assert transpose.attributes["name"] == "transpose"
    back = tuple(order.index(d) for d in range(len(order)))
    assert transpose.attributes["config"]["permutation"] == back
    assert transpose.operands == (gemm,)
    assert not instructions(module, "transpose")
    product, gradient, _ = module.entry.results
    assert (product, gradient) == (transpose, gemm)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(d).astype(F32) for d in dims]
    want = np.einsum(equation, *arrays).transpose(order)
    np.testing.assert_allclose(value_of(module, arrays), want, rtol=1e-4, atol=1e-4)


def test_a_product_and_its_transpose_as_results():
    """Nothing else reads the transpose: it is made of the product when it is read."""

    def function(a, b):
        product = a.T @ b
        return product.T, product

    module = matched(function, ((64, 96), F32), ((64, 128), F32))
    gemm, transpose = instructions(module, "library-call")
    assert (gemm.dims, transpose.dims) == ((96, 128), (128, 96))
    assert transpose.operands == (gemm,)
    assert list(module.entry.results) == [transpose, gemm]
    assert not instructions(module, "transpose")


def test_a_result_that_only_others_read_transposed_is_transposed_at_once():
    """The transpose is no result, and may be gone when somebody reads this one."""

    def function(a, b, w):
        product = a.T @ b
        return product, w - 0.1 * product.T

    module = matched(function, ((64, 96), F32), ((64, 128), F32), ((128, 96), F32))
    assert calls(module) == ["gemm"]
    (transpose,) = instructions(module, "transpose")
    assert module.entry.results[0] is transpose


def test_a_product_that_is_used_as_it_is_keeps_its_layout():
    def function(a, b, w):
        product = a.T @ b
        return product, product + 1, w + product.T

    module = matched(function, ((64, 96), F32), ((64, 128), F32), ((128, 96), F32))
    (call,) = instructions(module, "library-call")
    assert call is module.entry.results[0]


def test_loop_bodies_are_matched():
    def loop(w, x):
        return lax.fori_loop(0, 3, lambda i, x: jnp.tanh(x @ w), x)

    assert calls(matched(loop, ((128, 128), F32), ((128, 128), F32))) == ["gemm"]


def conv(strides=(1, 1), padding="SAME", **more):
    def function(x, w):
        return lax.conv_general_dilated(
            x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **more
        )

    return function


IMAGE, KERNEL = ((4, 14, 14, 8), F32), ((3, 3, 8, 16), F32)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolution_kinds(strides, padding):
    function = conv(strides, padding)
    assert config(matched(function, IMAGE, KERNEL))["kind"] == "forward"

    def input_gradient(x, w):
        return jax.grad(lambda x: function(x, w).sum())(x)

    def weights_gradient(x, w):
        return jax.grad(lambda w: (function(x, w) ** 2).sum())(w)

    module = matched(input_gradient, IMAGE, KERNEL)
    assert config(module)["kind"] == "backward_data"
    assert not instructions(module, "reverse")  # the kernel is read where it lies
    kinds = [
        i.attributes["config"]["kind"]
        for i in instructions(matched(weights_gradient, IMAGE, KERNEL), "library-call")
    ]
    assert kinds == ["forward", "backward_weights"]


def test_grouped_convolution():
    function = conv(feature_group_count=8)
    module = matched(function, IMAGE, ((3, 3, 1, 16), F32))
    assert config(module)["weights_dimensions"] == (8, 2, 1, 3, 3)


def test_negative_padding_is_cut_first():
    module = matched(conv(padding=((-1, 0), (0, 1))), IMAGE, KERNEL)
    assert config(module)["padding_low"] == (0, 0)
    (pad,) = instructions(module, "pad")
    assert pad.attributes["low"] == (0, -1, 0, 0)


def test_what_no_window_of_batch_groups_reaches_is_cut_off():
    """oneDNN refuses a gradient of weights with so much left over."""
    x, w = ((4, 16, 15, 8), F32), ((3, 3, 8, 16), F32)
    module = matched(conv((2, 3), "VALID", batch_group_count=2), x, w)
    assert config(module)["kind"] == "backward_weights"
    assert config(module)["padding_high"] == (0, 0)
    (pad,) = instructions(module, "pad")
    assert pad.attributes["high"] == (0, -1, 0, 0)


def test_transposed_convolution_is_an_input_gradient():
    module = matched(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), IMAGE, KERNEL)
    assert config(module)["kind"] == "backward_data"


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_convolutions_that_stay(dtype):
    with jax.enable_x64(True):
        assert calls(matched(conv(), (IMAGE[0], dtype), (KERNEL[0], dtype))) == []


@pytest.mark.parametrize("dtype", [F32, BF16, F16, np.int32, np.uint8, np.bool_])
def test_sort_keys(dtype):
    c = config(matched(jnp.sort, ((100,), dtype)))
    assert (c["key_operands"], c["key_descending"], c["key_orders"]) == ((0,), (0,), (0,))


def test_lexicographic_sort_keys():
    c = config(
        matched(lambda a, b: lax.sort((a, b), num_keys=2), ((100,), np.int32), ((100,), F32))
    )
    assert (c["key_operands"], c["key_descending"]) == ((0, 1), (0, 0))


def sort_text(comparison: str) -> str:
    return f"""
    func.func @main(%x: tensor<9xf32>) -> tensor<9xf32> {{
      %0 = "stablehlo.sort"(%x) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        {comparison}
        stablehlo.return %r : tensor<i1>
      }}) {{dimension = 0 : i64, is_stable = false}} : (tensor<9xf32>) -> tensor<9xf32>
      return %0 : tensor<9xf32>
    }}"""


@pytest.mark.parametrize(
    ("comparison", "descending", "order"),
    [
        (
            "%r = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            0,
            0,
        ),
        (
            "%r = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            1,
            0,
        ),
        (
            "%r = stablehlo.compare GT, %b, %a, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            0,
            1,
        ),
        (
            "%r = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            1,
            1,
        ),
    ],
)
def test_plain_comparators(comparison, descending, order):
    c = config(match_library(read_program(sort_text(comparison).encode(), "mlir"), SERVER))
    assert (c["key_descending"], c["key_orders"]) == ((descending,), (order,))


@pytest.mark.parametrize(
    "comparison",
    [
        "%r = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        "%r = stablehlo.compare LT, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        """%c = stablehlo.abs %a : tensor<f32>
        %r = stablehlo.compare LT, %c, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>""",
    ],
)
def test_other_comparators_are_called(comparison):
    module = match_library(read_program(sort_text(comparison).encode(), "mlir"), SERVER)
    (call,) = instructions(module, "library-call")
    assert "key_operands" not in call.attributes["config"]
    assert len(call.called) == 1


def test_linear_algebra_and_transforms():
    def function(a, b):
        return (
            jnp.linalg.cholesky(a),
            lax.linalg.triangular_solve(a, b, left_side=True),
            jnp.fft.rfft(b),
            lax.top_k(b, 3),
        )

    shapes = [jax.ShapeDtypeStruct((16, 16), F32), jax.ShapeDtypeStruct((16, 16), F32)]
    text = jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()
    module = match_library(inline_calls(read_program(text.encode(), "mlir")), SERVER)
    assert {"triangular-solve", "fft", "topk", "cholesky"} <= set(calls(module))


def test_costs():
    small = matched(jnp.matmul, ((128, 128), F32), ((128, 128), F32))
    large = matched(jnp.matmul, ((1024, 1024), F32), ((1024, 1024), F32))
    calls = [instructions(m, "library-call")[0] for m in (small, large)]
    costs = [call.attributes["config"]["cost_ns"] for call in calls]
    assert 5e3 < costs[0] < 1e5
    assert 1e6 < costs[1] < 1e8
