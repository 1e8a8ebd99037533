"""Every pair of frameworks exchanges arrays of every element type on the same memory."""

from __future__ import annotations

import gc
from typing import Any

import jax
import numpy as np
import pytest
from tripont.core import _tripont

from tests.interop.frameworks.arrays import CONVERTERS, MAKERS, example, is_of
from tripont import interop

PAIRS = [(a, b) for a in MAKERS for b in CONVERTERS if a != b]
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


# PyTorch/XLA makes other types of these.
LACKING = {"torch_xla": {"uint16", "uint32", "uint64"}}


def check_shared(source: Any, result: Any, framework: str, expected: np.ndarray) -> None:
    assert is_of(framework, result)
    assert interop.pointer(result) == interop.pointer(source)
    np.testing.assert_array_equal(interop.to_numpy(result), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda pair: pair)
def test_memory_is_shared(source: str, target: str, dtype: str) -> None:
    if dtype in LACKING.get(source, ()):
        pytest.skip(f"{source} has no {dtype} on its devices")
    expected = example(dtype)
    x = MAKERS[source](expected)
    if dtype in LACKING.get(target, ()):
        with pytest.raises(
            interop.ExchangeError, match=rf"\(128, 130\).*{dtype}.*PyTorch/XLA has no"
        ):
            CONVERTERS[target](x)
        return
    before = interop.statistics()
    y = CONVERTERS[target](x, copy=False)
    after = interop.statistics()
    assert (after.exchanges, after.copies) == (before.exchanges + 1, before.copies)
    check_shared(x, y, target, expected)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda pair: pair)
def test_nothing_is_allocated(source: str, target: str) -> None:
    device = _tripont.Client().devices[0]
    x = MAKERS[source](example())
    warm = CONVERTERS[target](x, copy=False)  # computes lazy tensors
    before = device.memory_stats()["num_allocs"]
    y = CONVERTERS[target](x, copy=False)
    assert device.memory_stats()["num_allocs"] == before
    assert interop.pointer(y) == interop.pointer(warm)


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (5, 1, 7), (2, 3, 4, 5, 6), (0,), (3, 0, 2)])
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda pair: pair)
def test_shapes(source: str, target: str, shape: tuple[int, ...]) -> None:
    expected = example("float32", shape)
    x = MAKERS[source](expected)
    y = CONVERTERS[target](x)
    assert tuple(y.shape) == shape
    if expected.size:
        assert interop.pointer(y) == interop.pointer(x)
    np.testing.assert_array_equal(interop.to_numpy(y), expected)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda pair: pair)
def test_the_consumer_outlives_the_producer(source: str, target: str) -> None:
    array = example("float32", (100, 100), seed=3)
    expected = array.copy()
    x = MAKERS[source](array)
    y = CONVERTERS[target](x, copy=False)
    address = interop.pointer(y)
    del x, array
    gc.collect()
    # Arrays of the same size would get the memory.
    others = [
        MAKERS[name](example("float32", (100, 100), seed=n)) for n in range(8) for name in MAKERS
    ]
    assert address not in {interop.pointer(other) for other in others}
    np.testing.assert_array_equal(interop.to_numpy(y), expected)


@pytest.mark.parametrize("copied", MAKERS)
def test_copies(copied: str) -> None:
    array = example()
    x = MAKERS[copied](array)
    for target, convert in CONVERTERS.items():
        y = convert(x, copy=True)
        assert is_of(target, y)
        assert interop.pointer(y) != interop.pointer(x)
        np.testing.assert_array_equal(interop.to_numpy(y), array)


def test_a_round_through_all_frameworks() -> None:
    """Content that is still being computed goes round, and each framework computes on it."""
    x = jax.device_put(example("float32", (300, 300)), jax.devices("xpu")[0])
    expected = np.asarray(x) @ np.asarray(x)
    x = jax.jit(lambda x: x @ x)(x)
    address = interop.pointer(x)
    for _ in range(3):
        for target in ("tensorflow", "torch_xla", "jax"):
            x = CONVERTERS[target](x, copy=False)
    assert interop.pointer(x) == address
    np.testing.assert_allclose(np.asarray(x), expected, rtol=1e-6)
    for target in ("tensorflow", "torch_xla", "jax"):
        x = CONVERTERS[target](x, copy=False) + 1
    np.testing.assert_allclose(np.asarray(x), expected + 3, rtol=1e-6)
