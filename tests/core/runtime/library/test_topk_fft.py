"""Library calls "topk" and "fft"."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.starter import run_with_jax

from ..conftest import status
from .calls import load, run

RNG = np.random.default_rng(0)


def total_order(x):
    """Integers with the total order of floating-point numbers; integers as they are."""
    if x.dtype.kind in "iu":
        return x.astype(np.int64)
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{x.dtype.itemsize}").min - bits - 1, bits)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.float16, np.int32, np.uint8]
)
@pytest.mark.parametrize(
    ("rows", "length", "k"),
    [
        (5, 40, 1),
        (5, 40, 2),
        (7, 2, 2),
        (5, 40, 7),
        (3, 40, 40),
        (3, 900, 50),
        (1, 100000, 2),
        (1, 100000, 10),
        (2, 9, 0),
    ],
)
@pytest.mark.parametrize("largest", [0, 1])
def test_topk(device, dtype, rows, length, k, largest):
    x = np.round(RNG.standard_normal((rows, length)) * 9)
    if np.dtype(dtype).kind not in "iu":
        x[RNG.random(x.shape) < 0.05] = np.nan
        x[RNG.random(x.shape) < 0.05] = -0.0
    x = np.abs(x).astype(dtype) if dtype is np.uint8 else x.astype(dtype)
    shapes = [Shape(dtypes.from_numpy(dtype), (rows, k)), Shape(dtypes.S32, (rows, k))]
    got, indices = run(device, "topk", [x], shapes, {"k": k, "largest": largest})
    key = total_order(x)
    want = np.argsort(-key if largest else key, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, want)
    assert got.tobytes() == np.ascontiguousarray(np.take_along_axis(x, want, -1)).tobytes()


@pytest.mark.parametrize("k", [1, 2, 3, 16, 17])
def test_topk_of_the_worst_and_of_equal_elements(device, k):
    """Elements with the largest key there is, more of them than a block has: the first ones are taken."""
    worst = np.full((2, 70), -np.nan, np.float32).view(np.uint32) | np.uint32(0xFFFFFFFF)
    x = worst.view(np.float32)
    shapes = [Shape(dtypes.F32, (2, k)), Shape(dtypes.S32, (2, k))]
    for row in (x, np.zeros_like(x)):
        _, indices = run(device, "topk", [row], shapes, {"k": k, "largest": 1})
        np.testing.assert_array_equal(indices, np.tile(np.arange(k), (2, 1)))
    x = np.array(x)
    x[:, 60:] = np.arange(10)
    _, indices = run(device, "topk", [x], shapes, {"k": k, "largest": 1})
    want = [*range(69, 59, -1), *range(60)][:k]
    np.testing.assert_array_equal(indices, np.tile(want, (2, 1)))


def test_topk_refuses_a_k_beyond_the_row():
    x = np.zeros((2, 3), np.float32)
    shapes = [Shape(dtypes.F32, (2, 4)), Shape(dtypes.S32, (2, 4))]
    code, message = status(lambda: load("topk", [x], shapes, {"k": 4, "largest": 1}))
    assert code == "INVALID_ARGUMENT"
    assert "k = 4 of 3" in message


def signal(*dims, dtype):
    x = RNG.standard_normal(dims) + 1j * RNG.standard_normal(dims)
    return x.astype(dtype)


def fft(device, kind, x, lengths):
    c = dtypes.C128 if x.dtype in (np.complex128, np.float64) else dtypes.C64
    dims = (*x.shape[: -len(lengths)], *lengths)
    if kind == "RFFT":
        dims = (*dims[:-1], dims[-1] // 2 + 1)
    shape = Shape(c.component if kind == "IRFFT" else c, dims)
    return run(device, "fft", [x], [shape], {"fft_type": kind, "fft_length": list(lengths)})[0]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_lengths(device, dtype):
    # Powers, mixed radices, primes (Bluestein's algorithm), and products of large primes.
    tolerance = 3e-6 if dtype is np.complex64 else 1e-13
    for n in (
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        11,
        12,
        13,
        16,
        17,
        30,
        49,
        60,
        64,
        97,
        101,
        128,
        221,
        360,
        1000,
        1009,
        1024,
        4096,
    ):
        # One by one, fewer than vectors have lanes, and more: a group that is full and one that is not.
        x = signal({0: 3, 1: 5, 2: 21}[n % 3], n, dtype=dtype)
        wide = x.astype(np.complex128)
        half = signal(len(x), n // 2 + 1, dtype=dtype)
        for kind, operand, want in (
            ("FFT", x, np.fft.fft(wide)),
            ("IFFT", x, np.fft.ifft(wide)),
            ("RFFT", np.ascontiguousarray(x.real), np.fft.rfft(wide.real)),
            ("IRFFT", half, np.fft.irfft(half.astype(np.complex128), n)),
        ):
            got = fft(device, kind, operand, [n])
            assert np.abs(got - want).max() <= tolerance * max(1.0, np.abs(want).max()), (kind, n)


def test_several_dimensions(device):
    x = signal(3, 12, 10, 7, dtype=np.complex128)
    np.testing.assert_allclose(
        fft(device, "FFT", x, [12, 10, 7]), np.fft.fftn(x, axes=(1, 2, 3)), atol=1e-11
    )
    np.testing.assert_allclose(fft(device, "IFFT", x, [10, 7]), np.fft.ifft2(x), atol=1e-13)
    real = np.ascontiguousarray(x.real)
    np.testing.assert_allclose(fft(device, "RFFT", real, [10, 7]), np.fft.rfft2(real), atol=1e-12)
    half = signal(3, 12, 6, dtype=np.complex128)
    np.testing.assert_allclose(
        fft(device, "IRFFT", half, [12, 10]), np.fft.irfft2(half, (12, 10)), atol=1e-13
    )


INTERLEAVED = """
import numpy as np
import jax
import jax.numpy as jnp
rng = np.random.default_rng(0)
for dims in [(5, 24, 3), (2, 30, 8), (2, 16, 9), (3, 12, 16), (21, 7), (2, 360, 37), (20, 441), (33, 22), (17, 13, 11)]:
    # Of two dimensions the last two are all.
    some = {(len(dims) - 1,), tuple(range(len(dims) - 2, len(dims))), tuple(range(len(dims)))}

    def transforms(numpy, x, y, real, half):
        for axes in some:
            yield "fftn", axes, numpy.fft.fftn(x, None, axes)
            yield "ifftn", axes, numpy.fft.ifftn(y, None, axes)
            yield "rfftn", axes, numpy.fft.rfftn(real, None, axes)
            yield "irfftn", axes, numpy.fft.irfftn(half, [dims[a] for a in axes], axes)

    x = (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(np.complex64)
    operands = [x, x[::-1], x.real, x[..., : dims[-1] // 2 + 1]]
    wide = [v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in operands]
    # One program of all transforms: of a program for each, most would be what JAX and the worker do around them.
    results = jax.jit(lambda *operands: [r for _, _, r in transforms(jnp, *operands)])(*operands)
    for got, (name, axes, want) in zip(results, transforms(np, *wide), strict=True):
        assert np.abs(got - want).max() <= 3e-6 * max(1.0, np.abs(want).max()), (dims, axes, name)
# What is not finite stays in its row.
x = rng.standard_normal((40, 360)).astype(np.float32)
x[7, 3], x[20, 0] = np.nan, np.inf
finite = np.isfinite(np.asarray(jnp.fft.rfft(x))).all(1)
assert list(np.flatnonzero(~finite)) == [7, 20], np.flatnonzero(~finite)
"""


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
def test_interleaved_rows_at_each_width_of_vectors(cpu):
    environment = {**os.environ, "JAX_PLATFORMS": "xpu"}
    if cpu != "host":
        environment["TRIPONT_CPU"] = cpu
    done = run_with_jax(INTERLEAVED, environment, timeout=280)
    assert done.returncode == 0, done.stderr


def test_fft_refuses_what_does_not_fit():
    x = np.zeros((4, 8), np.complex64)
    shape = Shape(dtypes.C64, (4, 9))
    code, message = status(
        lambda: load("fft", [x], [shape], {"fft_type": "FFT", "fft_length": [9]})
    )
    assert code == "INVALID_ARGUMENT"
    assert "c64[4,8]" in message
