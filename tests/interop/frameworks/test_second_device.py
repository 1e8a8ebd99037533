"""Exchanges on the second device, and from one device to the other."""

from __future__ import annotations

import os

os.environ["TRIPONT_NUM_DEVICES"] = "2"  # read when TensorFlow is imported, which is after this

import gc
from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
import pytest
import tensorflow as tf
import torch_xla
from tripont.core import _tripont

from tests.interop.frameworks.arrays import (
    CONVERTERS,
    MAKERS,
    example,
    is_of,
    on_jax,
    on_tensorflow,
    on_torch_xla,
)
from tripont import interop

ON_DEVICES: Final[dict[str, Callable[..., Any]]] = {
    "jax": on_jax,
    "tensorflow": on_tensorflow,
    "torch_xla": on_torch_xla,
}
NAMED: Final[dict[str, Callable[[int], Any]]] = {
    "jax": lambda number: jax.devices("xpu")[number],
    "tensorflow": lambda number: f"XPU:{number}",
    "torch_xla": lambda number: f"xla:{number}",
}
PAIRS = [(a, b) for a in ON_DEVICES for b in ON_DEVICES if a != b]


def test_there_are_two() -> None:
    assert len(_tripont.Client().devices) == 2
    assert len(jax.devices("xpu")) == len(tf.config.list_logical_devices("XPU")) == 2
    assert len(torch_xla.devices()) == 2


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bfloat16", "bool"])
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda pair: pair)
def test_arrays_stay_where_they_are(source: str, target: str, dtype: str) -> None:
    """Without device=, the result is on the device of its source, on the same memory."""
    expected = example(dtype)
    x = ON_DEVICES[source](expected, 1)
    assert is_of(source, x, 1)
    before = interop.statistics()
    y = CONVERTERS[target](x, copy=False)
    # TensorFlow has its int32 tensors in host memory, which is on no device: they go to the first.
    on_host = (source, dtype) == ("tensorflow", "int32")
    assert is_of(target, y, 0 if on_host else 1)
    assert interop.statistics().copies == before.copies
    assert interop.pointer(y) == interop.pointer(x)
    np.testing.assert_array_equal(interop.to_numpy(y), expected)


@pytest.mark.parametrize("target", ["numpy", "torch_cpu"])
@pytest.mark.parametrize("source", ON_DEVICES)
def test_host_memory_is_that_of_either_device(source: str, target: str) -> None:
    expected = example()
    x = ON_DEVICES[source](expected, 1)
    y = CONVERTERS[target](x, copy=False)
    assert interop.pointer(y) == interop.pointer(x)
    np.testing.assert_array_equal(interop.to_numpy(y), expected)


@pytest.mark.parametrize("target", ON_DEVICES)
@pytest.mark.parametrize("source", MAKERS)
def test_host_arrays_go_to_the_device_that_is_asked_for(source: str, target: str) -> None:
    expected = example()
    x = MAKERS[source](expected)
    if source in ON_DEVICES:
        with pytest.raises(
            interop.ExchangeError, match=r"\(128, 130\).*float32.*without a copy: it is.* to go to"
        ):
            CONVERTERS[target](x, device=NAMED[target](1), copy=False)
        before = interop.statistics()
        y = CONVERTERS[target](x, device=NAMED[target](1))
        after = interop.statistics()
        assert after.copies == before.copies + 1
        assert after.bytes_copied == before.bytes_copied + expected.nbytes
        assert interop.pointer(y) != interop.pointer(x)
    else:
        y = CONVERTERS[target](x, device=NAMED[target](1), copy=False)
        assert interop.pointer(y) == interop.pointer(x)
    assert is_of(target, y, 1)
    np.testing.assert_array_equal(interop.to_numpy(y), expected)


@pytest.mark.parametrize("target", ON_DEVICES)
def test_each_device_accounts_for_its_memory(target: str) -> None:
    """A copy to the second device is the second's, and is given back to it."""
    x = MAKERS["numpy"](example("float32", (1000, 1000)))
    gc.collect()
    devices = _tripont.Client().devices
    for device in devices:
        device.synchronize()
    before = [device.memory_stats()["bytes_in_use"] for device in devices]
    y = CONVERTERS[target](x, device=NAMED[target](1), copy=True)
    np.testing.assert_array_equal(interop.to_numpy(y), x)
    grown = [device.memory_stats()["bytes_in_use"] for device in devices]
    assert grown[0] == before[0]
    assert before[1] + x.nbytes <= grown[1] <= before[1] + 2 * x.nbytes
    del y
    gc.collect()
    devices[1].synchronize()
    assert devices[1].memory_stats()["bytes_in_use"] == before[1]


def test_a_round_on_the_second_device() -> None:
    """Each framework computes there on what the one before it computed."""
    x = on_jax(example("float32", (300, 300)), 1)
    expected = np.asarray(x)
    for target in ("tensorflow", "torch_xla", "jax") * 2:
        with tf.device("XPU:1"):  # without it TensorFlow adds on its first device
            x = CONVERTERS[target](x, copy=False) + 1
        assert is_of(target, x, 1)
    np.testing.assert_array_equal(np.asarray(x), expected + 6)


def test_there_is_no_third() -> None:
    with pytest.raises(
        interop.ExchangeError, match=r"\(128, 130\).*float32 cannot go to XPU:2.*no such device"
    ):
        interop.to_tensorflow(example(), device="XPU:2")
    with pytest.raises(
        interop.ExchangeError, match=r"\(128, 130\).*float32 cannot go to xla:2.*xla:0, xla:1"
    ):
        interop.to_torch(example(), device="xla:2")


def test_an_array_on_two_devices_is_shared_with_nobody() -> None:
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices("xpu"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    expected = example()
    x = jax.device_put(expected, sharding)
    for convert in (interop.to_numpy, interop.to_torch, interop.to_tensorflow):
        with pytest.raises(
            interop.ExchangeError, match=r"jax.Array.*\(128, 130\).*float32.*lies on 2 devices"
        ):
            convert(x, copy=False)
        np.testing.assert_array_equal(interop.to_numpy(convert(x)), expected)
