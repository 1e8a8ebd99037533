"""Memory: alignment, kinds, statistics, reuse."""

from __future__ import annotations

import itertools

import numpy as np

from .context import Context

SIZES = (0, 1, 63, 64, 65, 1000, 4095, 4096, 4097, 1 << 16, (1 << 20) + 3, 5 << 20)


def check_blocks_are_aligned_and_apart(context: Context) -> None:
    for kind in context.device.memory_kinds:
        buffers = [
            context.put(np.full(size, n, np.uint8), kind=kind) for n, size in enumerate(SIZES)
        ]
        spans = []
        for buffer, size in zip(buffers, SIZES, strict=True):
            buffer.add_external_reference()
            address = buffer.pointer()
            assert address % 64 == 0, (kind, size, address)
            spans.append((address, address + size))
        spans.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)), spans
        for n, (buffer, size) in enumerate(zip(buffers, SIZES, strict=True)):
            np.testing.assert_array_equal(buffer.numpy(), np.full(size, n, np.uint8))
            assert buffer.memory_kind == kind
            buffer.drop_external_reference()


def check_statistics_follow_the_arrays(context: Context) -> None:
    for kind in context.device.memory_kinds:
        before = context.device.memory_stats(kind)
        buffer = context.put(np.zeros(3 << 20, np.uint8), kind=kind)
        during = context.device.memory_stats(kind)
        assert during["num_allocs"] == before["num_allocs"] + 1, kind
        assert during["bytes_in_use"] - before["bytes_in_use"] >= 3 << 20, kind
        assert during["peak_bytes_in_use"] >= during["bytes_in_use"], kind
        assert during["largest_alloc_size"] >= 3 << 20, kind
        buffer.delete()
        assert context.device.memory_stats(kind)["bytes_in_use"] == before["bytes_in_use"], kind


def check_freed_memory_is_used_again(context: Context) -> None:
    for size in (1000, 3 << 20):
        first = context.put(np.zeros(size, np.uint8))
        first.add_external_reference()
        address = first.pointer()
        first.drop_external_reference()
        first.delete()
        second = context.put(np.ones(size, np.uint8))
        second.add_external_reference()
        assert second.pointer() == address, size
        second.drop_external_reference()
        np.testing.assert_array_equal(second.numpy(), np.ones(size, np.uint8))


def check_trimming_gives_memory_back(context: Context) -> None:
    context.put(np.zeros(8 << 20, np.uint8)).delete()
    assert context.device.memory_stats()["bytes_cached"] >= 8 << 20
    reserved = context.device.memory_stats()["bytes_reserved"]
    context.device.trim()
    after = context.device.memory_stats()
    assert after["bytes_cached"] == 0
    assert after["bytes_reserved"] <= reserved - (8 << 20)
