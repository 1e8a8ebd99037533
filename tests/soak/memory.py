"""What processes hold while a soak run goes on, and whether it grows.

A job of the run takes all memory and gives it back, and freed memory stays with malloc for a while, so single samples
of a resident set say little. The run is cut into windows; the least that a process held in each is what it needs, and
a leak is a line through these that rises.

Samples in the middle of jobs cannot show that malloc's part settles: programs, arrays and replies that are just being
made count too. So all jobs rest between two steps now and then, caches are emptied, and what is in use then
(:func:`at_rest`) is what nobody can give back.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import statistics
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

WINDOW: Final = 20.0  # seconds
# For the process that is measured: its threads keep no freed blocks for their next requests. glibc counts such blocks
# as used, up to 7 of each of 64 sizes for each thread, so that what is in use would grow for hours and mean nothing.
TUNABLES: Final = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

Samples = Sequence[tuple[float, float]]  # seconds since the beginning, MB


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def resident(process: int | str = "self") -> float:
    """The resident set of a process in MB; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0


class Malloc(NamedTuple):
    """MB of this process. ``used``: from malloc and not freed; without :data:`TUNABLES` what threads keep for their
    next request counts as used. ``free``: freed, and not given back to the system.
    """

    used: float
    free: float


def malloc() -> Malloc:
    """Zeros with a C library that does not tell."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return Malloc(0.0, 0.0)
    mallinfo.restype = _Mallinfo
    info = mallinfo()
    return Malloc((int(info.uordblks) + int(info.hblkhd)) / 1e6, int(info.fordblks) / 1e6)


def at_rest(empty_caches: Callable[[], None]) -> Malloc:
    """What malloc's memory is while no job runs: without caches, and without free memory that can be given back."""
    empty_caches()
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc's
        ctypes.CDLL(None).malloc_trim(0)
    return malloc()


def least(samples: Samples) -> list[tuple[float, float]]:
    """The least of each window, at the window's middle."""
    windows: dict[int, list[float]] = {}
    for seconds, megabytes in samples:
        windows.setdefault(int(seconds / WINDOW), []).append(megabytes)
    return [((n + 0.5) * WINDOW, min(found)) for n, found in sorted(windows.items())]


def slope(samples: Samples) -> float:
    """MB a minute by which the least of the windows grows: the median of the slopes between every two (Theil, Sen)."""
    points = least(samples)
    slopes = [60 * (b - a) / (t - s) for (s, a), (t, b) in combinations(points, 2)]
    return statistics.median(slopes) if slopes else 0.0


def said(name: str, samples: Samples) -> str:
    """A line about a process: what it held at first and at last, and the slope between; empty for a short life."""
    points = least(samples)
    if len(points) < 3:
        return ""
    minutes = (points[-1][0] - points[0][0]) / 60
    return (
        f"{name}: {points[0][1]:.0f} MB at first, {points[-1][1]:.0f} MB {minutes:.1f} minutes later, "
        f"{slope(samples):+.2f} MB a minute"
    )
