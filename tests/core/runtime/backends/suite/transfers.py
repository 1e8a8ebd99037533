"""Arrays in and out: every element type, every size class, every layout, every memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .context import Context

DTYPES = (
    *(np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")),
    *(np.dtype(t) for t in ("f2", "f4", "f8", "c8", "c16")),
    *(np.dtype(t) for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)),
)
SHAPES = ((), (0,), (3, 0, 2), (1,), (7,), (64,), (1000,), (3, 5, 7), (129, 257))


def _random(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Random bits, but 0 or 1 for truth values."""
    generator = np.random.default_rng(7)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return generator.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


def _assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


def check_every_type_and_shape(context: Context) -> None:
    for dtype in DTYPES:
        for shape in SHAPES:
            array = _random(shape, dtype)
            buffer = context.put(array)
            assert tuple(buffer.shape) == shape
            _assert_same_bits(buffer.numpy(), array)


def check_every_number_of_bytes(context: Context) -> None:
    around = [1 << 12, 1 << 16, 1 << 20]
    for size in (*range(140), *(n + d for n in around for d in (-1, 0, 1)), 20_000_003):
        array = np.arange(size, dtype=np.uint32).astype(np.uint8)
        _assert_same_bits(context.put(array).numpy(), array)


def check_every_layout(context: Context) -> None:
    """Arrays that are not dense, row-major and aligned."""
    base = np.arange(60 * 70, dtype=np.float32).reshape(60, 70)
    cube = np.arange(24 * 25 * 26, dtype=np.int16).reshape(24, 25, 26)
    raw = np.arange(4001, dtype=np.uint8)
    views = (
        base.T,
        base[::2, ::3],
        base[::-1],
        base[:, ::-2],
        base[5:40, 7:9],
        np.broadcast_to(base[0], (50, 70)),
        np.broadcast_to(base[:, :1], (60, 70)),
        np.asfortranarray(base),
        cube.transpose(2, 0, 1),
        cube.transpose(1, 2, 0)[::-1, 3:, ::5],
        raw[1:].view(np.float32),  # at an odd address
        raw[3:4].reshape(()),
        np.broadcast_to(np.float64(2.5), (3, 0, 4)),
    )
    for view in views:
        _assert_same_bits(context.put(view).numpy(), np.ascontiguousarray(view).reshape(view.shape))


def check_the_copy_is_a_copy(context: Context) -> None:
    array = np.arange(100_000, dtype=np.float32)
    buffer = context.put(array)
    array[:] = -1
    np.testing.assert_array_equal(buffer.numpy(), np.arange(100_000, dtype=np.float32))
    buffer.numpy()[:] = -2
    np.testing.assert_array_equal(buffer.numpy(), np.arange(100_000, dtype=np.float32))


def check_between_devices_and_memories(context: Context) -> None:
    for size in (0, 1, 1000, 1_500_000):
        array = np.arange(size, dtype=np.float32)
        for source in context.device.memory_kinds:
            buffer = context.put(array, kind=source)
            for device in (context.device, context.other):
                for kind in device.memory_kinds:
                    copy = buffer.copy_to(device, kind)
                    assert copy.device.id == device.id
                    assert copy.memory_kind == kind
                    np.testing.assert_array_equal(copy.numpy(), array)
            buffer.delete()
