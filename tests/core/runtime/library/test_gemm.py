"""Library call "gemm"."""

from __future__ import annotations

import concurrent.futures

import ml_dtypes
import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from ..conftest import status
from .calls import load, row_major, run

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(0)


def normal(*dims, dtype=np.float32):
    return RNG.standard_normal(dims).astype(np.float32).astype(dtype)


def attributes(batch, m, n, k, transpose_lhs=False, transpose_rhs=False, **more):
    """Of dense operands [batch..., m, k] and [batch..., k, n], or with the last two dimensions swapped in memory."""
    strides = {}
    for name, rows, columns, transpose in (
        ("lhs_strides", m, k, transpose_lhs),
        ("rhs_strides", k, n, transpose_rhs),
        ("result_strides", m, n, False),
    ):
        dense = row_major([*batch, columns, rows] if transpose else [*batch, rows, columns])
        if transpose:
            dense[-2:] = dense[:-3:-1]
        strides[name] = dense
    return {"batch": batch, "m": m, "n": n, "k": k, **strides, **more}


def swap(array):
    return np.swapaxes(array, -1, -2)


@pytest.mark.parametrize("batch", [[], [3], [2, 3]])
@pytest.mark.parametrize("transpose_lhs", [False, True])
@pytest.mark.parametrize("transpose_rhs", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_layouts(device, batch, transpose_lhs, transpose_rhs, dtype):
    m, n, k = 33, 40, 70
    lhs = normal(*batch, *((k, m) if transpose_lhs else (m, k)), dtype=dtype)
    rhs = normal(*batch, *((n, k) if transpose_rhs else (k, n)), dtype=dtype)
    config = attributes(batch, m, n, k, transpose_lhs, transpose_rhs)
    result = Shape(dtypes.from_numpy(dtype), (*batch, m, n))
    (got,) = run(device, "gemm", [lhs, rhs], [result], config)
    x, y = lhs.astype(np.float64), rhs.astype(np.float64)
    want = (swap(x) if transpose_lhs else x) @ (swap(y) if transpose_rhs else y)
    np.testing.assert_allclose(
        got.astype(np.float64), want, rtol=1e-2, atol=1e-4 if dtype is np.float32 else 0.2
    )


@pytest.mark.parametrize(
    ("lhs_type", "rhs_type", "result_type"),
    [(np.int8, np.int8, np.int32), (np.uint8, np.int8, np.int32), (BF16, BF16, np.float32)],
)
def test_mixed_types_are_exact(device, lhs_type, rhs_type, result_type):
    m, n, k = 50, 66, 300
    lhs = RNG.integers(0, 100, (m, k)).astype(lhs_type)
    rhs = RNG.integers(-100, 100, (k, n)).astype(rhs_type)
    result = Shape(dtypes.from_numpy(result_type), (m, n))
    (got,) = run(device, "gemm", [lhs, rhs], [result], attributes([], m, n, k))
    np.testing.assert_array_equal(got, lhs.astype(np.int64) @ rhs.astype(np.int64))


@pytest.mark.parametrize("constant", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_constant_operands_are_packed(device, constant, dtype):
    m, n, k = 48, 80, 65
    lhs, rhs = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    result = Shape(dtypes.from_numpy(dtype), (m, n))
    executable = load("gemm", [lhs, rhs], [result], attributes([], m, n, k), [constant])
    want = lhs.astype(np.float64) @ rhs.astype(np.float64)
    for _ in range(2):
        (got,) = executable.run(device, [(lhs, rhs)[1 - constant]])
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-2, atol=0.2)


def test_interleaved_heads(device):
    # [b, t, h, d] times [b, s, h, d] over d, to [b, h, t, s]: the heads lie inside.
    b, t, s, h, d = 2, 20, 30, 4, 32
    query, key = normal(b, t, h, d), normal(b, s, h, d)
    config = {
        "batch": [b, h],
        "m": t,
        "n": s,
        "k": d,
        "lhs_strides": [t * h * d, d, h * d, 1],
        "rhs_strides": [s * h * d, d, 1, h * d],
        "result_strides": row_major([b, h, t, s]),
    }
    (got,) = run(device, "gemm", [query, key], [Shape(dtypes.F32, (b, h, t, s))], config)
    np.testing.assert_allclose(got, np.einsum("bthd,bshd->bhts", query, key), rtol=1e-4, atol=1e-4)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("epilogue", "function"),
    [
        ("relu", lambda x, b, r: np.maximum(x, 0)),
        ("bias", lambda x, b, r: x + b),
        ("bias relu", lambda x, b, r: np.maximum(x + b, 0)),
        ("bias gelu_tanh add", lambda x, b, r: gelu(x + b) + r),
        ("bias tanh multiply", lambda x, b, r: np.tanh(x + b) * r),
        ("add logistic", lambda x, b, r: 1 / (1 + np.exp(-(x + r)))),
    ],
)
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_epilogue(device, epilogue, function, alpha):
    m, n, k = 40, 50, 60
    lhs, rhs, bias, residual = normal(m, k), normal(k, n), normal(n), normal(m, n)
    operands = [lhs, rhs]
    for word in epilogue.split():
        if word == "bias":
            operands.append(bias)
        elif word in ("add", "multiply"):
            operands.append(residual)
    config = attributes([], m, n, k, alpha=alpha, epilogue=epilogue)
    (got,) = run(device, "gemm", operands, [Shape(dtypes.F32, (m, n))], config)
    np.testing.assert_allclose(
        got, function(alpha * (lhs @ rhs), bias, residual), rtol=2e-3, atol=2e-4
    )


def test_several_threads_share_one_call(client):
    m = n = k = 128
    lhs, rhs = normal(m, k, dtype=BF16), normal(k, n, dtype=BF16)
    executable = load("gemm", [lhs, rhs], [Shape(dtypes.F32, (m, n))], attributes([], m, n, k), [1])
    inputs = [normal(m, k, dtype=BF16) for _ in range(32)]

    def one(i):
        return executable.run(client.devices[i % 2], [inputs[i]])[0]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for x, got in zip(inputs, pool.map(one, range(32)), strict=True):
            want = x.astype(np.float32) @ rhs.astype(np.float32)
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 71}, "reaches outside"),
        ({"lhs_strides": [1 << 62, 1 << 62]}, "out of range"),
        ({"lhs_strides": [-1, 1]}, "out of range"),
        ({"lhs_strides": [1]}, "has 1 numbers"),
        ({"m": 0}, "at least 1"),
        ({"epilogue": "softmax"}, "unknown step 'softmax'"),
        ({"epilogue": "bias"}, "expected 3 operands"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_does_not_fit_is_refused_when_loading(change, message):
    m, n, k = 33, 40, 70
    config = attributes([], m, n, k) | change
    code, text = status(
        lambda: load("gemm", [normal(m, k), normal(k, n)], [Shape(dtypes.F32, (m, n))], config)
    )
    assert code == "INVALID_ARGUMENT"
    assert message in text
    assert "model.py:7" in text
