"""The shapes of the benchmark of convolutions."""

from __future__ import annotations

import pytest

from benchmarks.convolutions import Case


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        (1, 2, (0, 1)),
        (2, 2, (1, 1)),
        (3, 2, (2, 1)),
        (4, 2, (2, 2)),
        (4, 4, (3, 3)),
        (5, 1, (2, 2)),
        (16, 8, (11, 11)),
    ],
)
def test_transposed_ones_are_padded_as_frameworks_pad_them(
    kernel: int, stride: int, padding: tuple[int, int]
) -> None:
    """The padding is that of ``lax.conv_transpose``, "SAME"."""
    case = Case("transposed", 1, (7,), (1, 1), (kernel,), stride=stride, transposed=True)
    assert case.padding == [padding]
    assert case.output_sizes == (7 * stride,)
