"""Library call "sort"."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_program

from ..conftest import status
from .calls import OPTIONS, load, run, shape_of

DTYPES = [
    np.bool_,
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.uint64,
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.float64,
]
# Networks, std::sort, radix, rows along an outer dimension, threads, nothing at all.
SHAPES = [
    ((5,), 0),
    ((100,), 0),
    ((3000,), 0),
    ((40, 17), 1),
    ((40, 300), 0),
    ((5, 7, 30), 1),
    ((3, 2500), 1),
]
EDGES = [((300000,), 0), ((1, 1), 1), ((0, 5), 1), ((5, 0), 1)]


def values(rng, shape, dtype):
    """Many equal values; NaNs of both signs, zeros of both signs, infinities."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        wide = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, rng.integers(0, 5, shape).astype(dtype))
    x = np.round(rng.standard_normal(shape), 1) * np.where(rng.random(shape) < 0.5, -1, 1)
    for special in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0):
        x = np.where(rng.random(shape) < 0.05, special, x)
    return x.astype(dtype)


def rank(key, descending):
    """int64 numbers with the order of ``key``: zeros equal, NaNs equal and last (first if descending)."""
    if key.dtype.kind not in "biu":
        key = key.astype(np.float64)
        key = (
            np.where(np.isnan(key), np.inf, np.where(np.isinf(key), np.sign(key) * 1e300, key))
            + 0.0
        )
    _, ranks = np.unique(key, return_inverse=True)
    ranks = ranks.reshape(key.shape)
    return -ranks if descending else ranks


def config(dimension, keys=(0,), descending=(0,), orders=None):
    return {
        "dimension": dimension,
        "is_stable": 1,
        "key_operands": list(keys),
        "key_descending": list(descending),
        "key_orders": list(orders or [0] * len(keys)),
    }


def check(device, operands, dimension, descending):
    got = run(
        device,
        "sort",
        operands,
        [shape_of(o) for o in operands],
        config(dimension, (0,), (descending,)),
    )
    order = np.argsort(rank(operands[0], descending), axis=dimension, kind="stable")
    for result, operand in zip(got, operands, strict=True):
        want = np.take_along_axis(operand, order, dimension)
        assert result.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("descending", [0, 1])
def test_every_key_type(device, dtype, descending):
    rng = np.random.default_rng(1)
    for shape, dimension in SHAPES:
        x = values(rng, shape, dtype)
        check(device, [x], dimension, descending)
        payload = np.arange(x.size, dtype=np.int32).reshape(shape)
        check(device, [x, payload, rng.random(shape).astype(np.complex128)], dimension, descending)


@pytest.mark.parametrize(("shape", "dimension"), EDGES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_edges(device, shape, dimension, dtype):
    rng = np.random.default_rng(2)
    x = values(rng, shape, dtype)
    check(device, [x], dimension, 0)
    check(device, [x, rng.integers(0, 9, shape)], dimension, 0)


# Registers of sorting networks hold 16, 32, 64, 128 and 256 numbers of 32 bits, half as many of 64; pivots of more than
# 2,048 numbers are chosen from more samples, and parts of 32,768 are divided on several threads.
LENGTHS = [1, 7, 8, 9, 15, 16, 17, 33, 63, 65, 127, 128, 129, 255, 256, 257, 700, 2047, 2048, 2049]
LENGTHS += [5000, 140_001]
ORDERS = {
    "random": lambda rng, n: rng.integers(0, 2**62, n),
    "ascending": lambda rng, n: np.arange(n),
    "descending": lambda rng, n: np.arange(n)[::-1],
    "equal": lambda rng, n: np.full(n, 3),
    "few": lambda rng, n: rng.integers(0, 4, n),
    "up and down": lambda rng, n: np.minimum(np.arange(n), np.arange(n)[::-1]),
    "the greatest": lambda rng, n: np.where(rng.random(n) < 0.7, 2**62, rng.integers(0, 2**62, n)),
    "one small": lambda rng, n: np.where(np.arange(n) == n // 2, 1, 2**40),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [np.uint32, np.float32, np.uint64, np.int64])
def test_every_length(device, order, dtype):
    rng = np.random.default_rng(5)
    for length in LENGTHS:
        x = ORDERS[order](rng, length).astype(dtype)
        (got,) = run(device, "sort", [x], [shape_of(x)], config(0))
        np.testing.assert_array_equal(got, np.sort(x))


_ON_ANOTHER_CPU = """
import numpy as np
from tests.core.runtime.library import test_sort
from tripont.core import _tripont

device = _tripont.Client().devices[0]
for dtype in (np.float32, np.int64):
    test_sort.test_edges(device, (3000,), 0, dtype)
    test_sort.test_edges(device, (300_000,), 0, dtype)
"""


@pytest.mark.skipif("avx512vl" not in _tripont.cpu_features(), reason="no CPU with AVX-512")
def test_without_the_registers_of_avx_512(subprocess_environment):
    subprocess.run(
        [sys.executable, "-c", _ON_ANOTHER_CPU],
        env=subprocess_environment | {"TRIPONT_CPU": "x86-64-v3"},
        cwd=Path(__file__).parents[4],
        check=True,
        timeout=100,
    )


def test_total_order(device):
    x = np.array([0.0, -0.0, np.nan, -np.nan, 1, -np.inf, np.inf, -0.0, 0.0], np.float32)
    (got,) = run(device, "sort", [x], [shape_of(x)], config(0, orders=[1]))
    want = np.array([-np.nan, -np.inf, -0.0, -0.0, 0.0, 0.0, 1, np.inf, np.nan], np.float32)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("length", [30, 5000])
def test_several_keys(device, length):
    rng = np.random.default_rng(3)
    a = rng.integers(0, 5, length).astype(np.int32)
    b = values(rng, (length,), np.float32)
    got = run(device, "sort", [a, b], [shape_of(a), shape_of(b)], config(0, (0, 1), (0, 1)))
    order = np.lexsort((rank(b, True), a))
    assert got[0].tobytes() == a[order].tobytes()
    assert got[1].tobytes() == b[order].tobytes()


# By the absolute value of the first operand, which no key can say.
_BY_MAGNITUDE = """
func.func @main(%x: tensor<{dims}xf32>, %y: tensor<{dims}xi32>) -> (tensor<{dims}xf32>, tensor<{dims}xi32>) {{
  %0:2 = "stablehlo.sort"(%x, %y) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.abs %a : tensor<f32>
    %2 = stablehlo.abs %b : tensor<f32>
    %3 = stablehlo.compare LT, %1, %2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }}) {{dimension = {dimension} : i64, is_stable = true}} :
    (tensor<{dims}xf32>, tensor<{dims}xi32>) -> (tensor<{dims}xf32>, tensor<{dims}xi32>)
  return %0#0, %0#1 : tensor<{dims}xf32>, tensor<{dims}xi32>
}}
"""


@pytest.mark.parametrize(
    ("shape", "dimension"), [((1,), 0), ((50,), 0), ((100000,), 0), ((20, 30), 1), ((20, 30), 0)]
)
def test_any_comparator(device, shape, dimension):
    rng = np.random.default_rng(4)
    x = np.round(rng.standard_normal(shape), 1).astype(np.float32)
    y = np.arange(x.size, dtype=np.int32).reshape(shape)
    text = _BY_MAGNITUDE.format(dims="x".join(map(str, shape)), dimension=dimension)
    artifact = compile_program(text.encode(), "mlir", b"", OPTIONS)
    got = _tripont.Executable.load(artifact).run(device, [x, y])
    order = np.argsort(np.abs(x), axis=dimension, kind="stable")
    np.testing.assert_array_equal(got[0], np.take_along_axis(x, order, dimension))
    np.testing.assert_array_equal(got[1], np.take_along_axis(y, order, dimension))


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"dimension": 2}, "INVALID_ARGUMENT", "dimension 2 of f32[4,8]"),
        ({"key_operands": [1]}, "INVALID_ARGUMENT", "no operand 1"),
        ({"key_orders": [7]}, "INVALID_ARGUMENT", "key_orders"),
        ({"key_descending": [0, 1]}, "INVALID_ARGUMENT", "same number"),
    ],
)
def test_bad_attributes(change, code, message):
    x = np.zeros((4, 8), np.float32)
    got, text = status(lambda: load("sort", [x], [shape_of(x)], config(1) | change))
    assert got == code
    assert message in text
