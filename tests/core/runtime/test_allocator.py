"""The caching allocator."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tripont.core import _tripont

MIB = 1 << 20


@pytest.fixture
def allocator():
    return _tripont.testing.Allocator(64 * MIB, 32 * MIB)


@pytest.mark.parametrize(
    "size", [0, 1, 63, 64, 65, 1000, 1024, 1025, 4097, 32768, 32769, 100_001, 5 * MIB + 1]
)
def test_blocks_are_aligned_and_padded(allocator, size):
    address, usable = allocator.allocate(size)
    assert address % 64 == 0
    assert usable >= size
    assert usable % 64 == 0
    assert usable >= 64
    # The address sanitizer lets nobody touch what is behind the bytes that were asked for.
    is_watched = "asan" in os.environ.get("LD_PRELOAD", "")
    ctypes.memset(address, 0xAB, size if is_watched else usable)
    allocator.free((address, usable))


def test_little_is_wasted(allocator):
    for size in range(64, 200_000, 997):
        block = allocator.allocate(size)
        assert block[1] <= size * 1.125 + 64
        allocator.free(block)


def test_a_page_is_wasted_where_blocks_share_huge_pages(allocator):
    """A class of blocks that are larger by an eighth took so much more, in pages that are there as a whole."""
    for size in range(32 * 1024 + 64, 2 * MIB, 9973):
        block = allocator.allocate(size)
        assert size <= block[1] < size + mmap.PAGESIZE
        allocator.free(block)
    for size in (2 * MIB + 64, 3 * MIB, 100 * MIB // 9):
        block = allocator.allocate(size)
        assert size <= block[1] <= size * 1.125
        allocator.free(block)


def test_a_free_block_serves_requests_of_a_little_less(allocator):
    """A fresh one costs page faults, whatever its size."""
    for size in (100_000, MIB, 3 * MIB):
        block = allocator.allocate(size)
        allocator.free(block)
        for less in (size, size * 9 // 10):
            again = allocator.allocate(less)
            assert again == block
            allocator.free(again)
        much_less = allocator.allocate(size // 2)
        assert much_less[0] != block[0]
        allocator.free(much_less)


def resident_bytes(address: int, size: int) -> int:
    """How much of a block that starts at a page lies in memory."""
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) == 0
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


@pytest.mark.parametrize(
    "size", [MIB, 2 * MIB, 2 * MIB + 1, 5 * MIB // 2, 7 * MIB + 4096, 19 * MIB]
)
def test_a_block_takes_the_memory_that_is_used(allocator, size):
    """A huge page at the end is at least seven eighths full, or the end lies in small pages."""
    address, usable = allocator.allocate(size)
    ctypes.memset(address, 1, size)
    assert size <= resident_bytes(address, usable) < size + MIB // 4
    allocator.free((address, usable))


def test_a_block_that_comes_back_for_more_is_used_to_its_end(allocator):
    small = allocator.allocate(9 * MIB - 4096 * 200)
    ctypes.memset(small[0], 1, 8 * MIB)
    allocator.free(small)
    again = allocator.allocate(9 * MIB)
    assert again == small
    ctypes.memset(again[0], 2, 9 * MIB)
    assert resident_bytes(*again) == 9 * MIB
    allocator.free(again)


def wants_huge_pages(address: int) -> bool:
    """Whether huge pages are asked for where ``address`` lies."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise AssertionError("the block does not lie in memory")


def resident_memory() -> int:
    """The bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="no huge pages here"
)
def test_blocks_share_huge_pages_once_much_is_reserved():
    allocator = _tripont.testing.Allocator(256 * MIB, 0)
    sizes = [40_000, 300_000, MIB, 3 * MIB // 2]
    alone = [allocator.allocate(size) for size in sizes]
    assert not any(wants_huge_pages(address) for address, _ in alone)
    much = allocator.allocate(32 * MIB)
    shared = [allocator.allocate(size) for size in sizes * 24]  # of more than one range
    for (address, usable), size in zip(shared, sizes * 24, strict=True):
        assert wants_huge_pages(address)
        assert wants_huge_pages(address + usable - 1)
        ctypes.memset(address, 0x5A, size)
    ordered = sorted(shared)
    for (address, usable), (following, _) in itertools.pairwise(ordered):
        assert address + usable <= following
    behind = sum(a + size == b for (a, size), (b, _) in itertools.pairwise(ordered))
    assert behind >= len(shared) - 2  # one behind the other, but for the ends of ranges
    before = resident_memory()
    for block in (*alone, much, *shared):
        allocator.free(block)
    assert allocator.stats()["bytes_reserved"] == 0
    assert before - resident_memory() > 0.9 * sum(sizes * 24)


def test_live_blocks_do_not_overlap(allocator):
    blocks = [allocator.allocate(size) for size in (1, 64, 64, 100, 5000, 40_000, 40_000, MIB) * 3]
    blocks.sort()
    for (address, size), (following, _) in itertools.pairwise(blocks):
        assert address + size <= following


@pytest.mark.parametrize("size", [64, 5000, 50_000, 4 * MIB])
def test_freed_block_comes_back(allocator, size):
    block = allocator.allocate(size)
    allocator.free(block)
    assert allocator.allocate(size) == block


def test_statistics(allocator):
    first = allocator.allocate(100)
    second = allocator.allocate(MIB)
    stats = allocator.stats()
    assert stats["bytes_in_use"] == first[1] + second[1]
    assert stats["num_allocs"] == 2
    assert stats["largest_alloc_size"] == second[1]
    assert stats["bytes_limit"] == 64 * MIB
    allocator.free(first)
    allocator.free(second)
    stats = allocator.stats()
    assert stats["bytes_in_use"] == 0
    assert stats["peak_bytes_in_use"] == first[1] + second[1]
    assert stats["bytes_cached"] == second[1]


def test_the_peak_starts_again(allocator):
    kept = allocator.allocate(100)
    allocator.free(allocator.allocate(MIB))
    allocator.reset_peak()
    stats = allocator.stats()
    assert stats["peak_bytes_in_use"] == stats["bytes_in_use"] == kept[1]
    assert stats["largest_alloc_size"] == 0
    later = allocator.allocate(4096)
    allocator.free(later)
    stats = allocator.stats()
    assert stats["peak_bytes_in_use"] == kept[1] + later[1]
    assert stats["largest_alloc_size"] == later[1]


def test_cache_is_capped_and_trimmed(allocator):
    blocks = [allocator.allocate(8 * MIB) for _ in range(6)]
    for block in blocks:
        allocator.free(block)
    assert 0 < allocator.stats()["bytes_cached"] <= 32 * MIB
    allocator.trim()
    stats = allocator.stats()
    assert stats["bytes_cached"] == 0
    assert stats["bytes_reserved"] <= MIB


@pytest.mark.parametrize("size", [65 * MIB, 1 << 40, 1 << 62, (1 << 64) - 1])
def test_too_much_is_refused(allocator, size):
    with pytest.raises(_tripont.StatusError, match="out of memory") as caught:
        allocator.allocate(size)
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    assert str(size) in str(caught.value)


def test_limit_holds_for_the_sum_and_cache_gives_way(allocator):
    held = allocator.allocate(30 * MIB)
    allocator.free(allocator.allocate(20 * MIB))
    big = allocator.allocate(32 * MIB)  # only fits once the cached 20 MiB are given up
    with pytest.raises(_tripont.StatusError):
        allocator.allocate(8 * MIB)
    allocator.free(held)
    allocator.free(allocator.allocate(16 * MIB))
    allocator.free(big)


def test_threads(allocator):
    assert allocator.stress(4, 5000) == 0
    assert allocator.stats()["bytes_in_use"] == 0


def test_small_blocks_are_cheap(allocator):
    # About 25 ns; the bound only catches a system call or a lock that blocks.
    assert min(allocator.nanoseconds_per_pair(256, 20_000) for _ in range(5)) < 500


def test_default_budget(subprocess_environment):
    """Less than what is available: a program that outgrows it gets an error, and not the kernel's killer."""
    code = """
import tripont.core._tripont as t
def memory(name):
    line = next(l for l in open("/proc/meminfo") if l.startswith(name))
    return int(line.split()[1]) * 1024
before = memory("MemAvailable")
limit = t.Client({"device": "host", "prestart_worker": False}).devices[0].memory_stats()["bytes_limit"]
available, total = max(before, memory("MemAvailable")), memory("MemTotal")
print(0 < limit <= max(0.86 * available, 0.26 * total) < total)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["True"], done.stderr


def test_caches_count_as_free_in_a_control_group(tmp_path):
    """A container that has read many files has nearly all its memory in use, and can have most of it back."""
    available = _tripont.testing.available_in_group
    assert available(str(tmp_path)) == 2**63 - 1
    (tmp_path / "memory.max").write_text("max\n")
    assert available(str(tmp_path)) == 2**63 - 1
    (tmp_path / "memory.max").write_text("1000\n")
    assert available(str(tmp_path)) == 1000
    (tmp_path / "memory.current").write_text("990\n")
    assert available(str(tmp_path)) == 10
    (tmp_path / "memory.stat").write_text(
        "anon 90\nfile 800\nshmem 200\ninactive_anon 90\nactive_anon 0\ninactive_file 100\nactive_file 500\n"
        "unevictable 0\nslab_reclaimable 70\nslab_unreclaimable 30\nslab 100\n"
    )
    assert available(str(tmp_path)) == 10 + 100 + 500 + 70
    (tmp_path / "memory.current").write_text("400\n")  # the files are not read at one instant
    assert available(str(tmp_path)) == 1000
