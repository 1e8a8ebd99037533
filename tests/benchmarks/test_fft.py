"""The clock of the benchmark of Fourier transforms."""

from __future__ import annotations

import pytest

from benchmarks.fft import interleave


def test_how_long_is_counted_at_a_time() -> None:
    """Calls of 1 ms are counted by 20, so that what Linux adds late to the processor's time is a small part."""
    now = 0.0

    def step() -> None:
        nonlocal now
        now += 0.001

    (least,) = interleave([step], 0.0, lambda: now, counted=0.0205)
    assert least == pytest.approx(0.001)
    # Three for the estimate, then three rounds of one that is not counted and 20 that are.
    assert round(now / 0.001) == 3 + 3 * (1 + 20)
