"""Ten thousand exchanges between all pairs: nothing leaks, and nothing is freed that is in use."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import jax
import numpy as np
import pytest
import torch_xla
from tripont.core import _tripont

from tests.interop.frameworks.arrays import CONVERTERS, MAKERS, example
from tripont import interop

EXCHANGES = 10_000
# What the frameworks keep for themselves, whatever is exchanged.
SLACK = 64 << 20


def bytes_in_use() -> int:
    gc.collect()
    torch_xla.sync(wait=True)
    device = _tripont.Client().devices[0]
    device.synchronize()
    return int(device.memory_stats()["bytes_in_use"])


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def exchange(arrays: dict[str, Any], count: int) -> None:
    """Each result is the next one's source, so that producers die before their consumers."""
    pairs = [(a, b) for a, b in itertools.product(MAKERS, CONVERTERS) if a != b]
    for source, target in itertools.islice(itertools.cycle(pairs), count // 2):
        there = CONVERTERS[target](arrays[source], copy=False)
        arrays[source] = CONVERTERS[source](there, copy=False)


@pytest.mark.slow
def test_ten_thousand_exchanges() -> None:
    expected = {name: example("float32", (256, 256), seed) for seed, name in enumerate(MAKERS)}
    arrays = {
        name: make(example("float32", (256, 256), seed))
        for seed, (name, make) in enumerate(MAKERS.items())
    }
    arrays["numpy"] = interop.to_numpy(interop.to_jax(expected["numpy"], copy=True))
    exchange(arrays, 1000)
    addresses = {name: interop.pointer(x) for name, x in arrays.items()}
    before, resident = bytes_in_use(), resident_bytes()
    exchange(arrays, EXCHANGES)
    assert bytes_in_use() == before
    # A leak of the arrays themselves would be 2.6 GB.
    assert resident_bytes() - resident < SLACK
    assert {name: interop.pointer(x) for name, x in arrays.items()} == addresses
    for name, x in arrays.items():
        np.testing.assert_array_equal(interop.to_numpy(x), expected[name])
    del arrays, x
    gc.collect()
    jax.block_until_ready(MAKERS["jax"](expected["jax"]))
    assert bytes_in_use() < before
