"""How lengths of Fourier transforms are taken apart, and how large their factors are. Nothing is compiled here."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.codegen.kernels import fft_tables
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.passes.library import fft
from tripont.core.compiler.targets.host import for_cpu

KINDS = {
    "FFT": (dtypes.C64, dtypes.C64),
    "IFFT": (dtypes.C128, dtypes.C128),
    "RFFT": (dtypes.F32, dtypes.C64),
    "IRFFT": (dtypes.C64, dtypes.F32),
}
TARGET = for_cpu("x86-64-v4")


def transform(kind: str, *dims: int, rank: int = 1) -> hlo.Instruction:
    """``dims``: those of the whole array."""
    from_, to = KINDS[kind]
    half = (*dims[:-1], dims[-1] // 2 + 1)
    operand = hlo.parameter(0, hlo.Shape(from_, half if kind == "IRFFT" else dims))
    shape = hlo.Shape(to, half if kind == "RFFT" else dims)
    attributes = {"fft_type": kind, "fft_length": dims[-rank:]}
    return hlo.Instruction("fft", shape, (operand,), attributes)


def instructions(root: hlo.Instruction) -> list[hlo.Instruction]:
    found: dict[int, hlo.Instruction] = {}
    waiting = [root]
    while waiting:
        i = waiting.pop()
        if id(i) not in found:
            found[id(i)] = i
            waiting += i.operands
    return list(found.values())


def generated(i: hlo.Instruction) -> list[hlo.Instruction]:
    root = fft.generate(i, TARGET)
    assert root is not None
    return instructions(root)


def constants(found: list[hlo.Instruction]) -> list[int]:
    """Bytes of each constant."""
    return [i.attributes["literal"].nbytes for i in found if i.opcode == "constant"]


@pytest.mark.parametrize(
    ("kind", "n", "most"),
    [
        *(("FFT", 1 << 16, 1 << 18), ("FFT", 1 << 20, 3 << 18), ("IFFT", 1 << 20, 5 << 19)),
        *(("FFT", 1 << 24, 1 << 20), ("IFFT", 1 << 24, 2 << 20), ("FFT", 3**15, 1 << 20)),
        *(("RFFT", 1 << 20, 5 << 20), ("IRFFT", 1 << 20, 5 << 20), ("FFT", 262_139, 8 << 20)),
    ],
)  # fmt: skip
def test_factors_are_few(kind: str, n: int, most: int) -> None:
    assert sum(constants(generated(transform(kind, n)))) <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1_048_583, 8_388_593, 16_777_213])
def test_transforms_with_large_factors_are_left_to_the_library(
    kind: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the factors are computed, of which NumPy's arrays would take gigabytes."""

    def chirps(*_: object) -> None:
        raise AssertionError("the factors of a convolution are computed")

    monkeypatch.setattr(fft_tables, "chirps", chirps)
    assert fft.generate(transform(kind, n), TARGET) is None


def test_the_bound_holds_for_all_dimensions_together() -> None:
    assert fft.generate(transform("IFFT", 1, 100_003), TARGET) is not None
    found = transform("IFFT", 100_003, 199_999, rank=2)
    assert fft.generate(found, TARGET) is None


@pytest.mark.parametrize("n", [211, 227, 1000, 4096, 1 << 15, 1 << 20, 10_007])
def test_sizes_of_tables_are_known_before(n: int) -> None:
    for i in generated(transform("FFT", n)):
        if i.opcode == "fft-pass":
            elements = fft_tables.table_elements(i.attributes["config"], TARGET)
            assert elements == i.operands[1].attributes["literal"].size


def test_both_directions_and_equal_dimensions_have_one_table() -> None:
    """Bluestein's algorithm transforms there and back; a square array has two dimensions of one length."""
    for i, passes in ((transform("FFT", 100_003), 4), (transform("FFT", 100, 100, rank=2), 2)):
        found = [j for j in generated(i) if j.opcode == "fft-pass"]
        assert len(found) == passes
        assert len({id(j.operands[1]) for j in found}) == passes // 2
    (one,) = (j for j in generated(transform("FFT", 211)) if j.opcode == "fft-pass")
    config = one.attributes["config"]
    _, second, *inverse = places = fft_tables.halves_of(config, TARGET)
    assert len(places) == 4
    assert [place for _, place in inverse] == [0, second[1]]


def test_a_half_is_a_scalar() -> None:
    found = generated(transform("RFFT", 1 << 18))
    for i in found:
        if i.opcode == "constant" and i.attributes["literal"].size > 1:
            assert not (i.attributes["literal"] == 0.5).all()
    assert any(
        i.opcode == "constant" and np.array_equal(i.attributes["literal"], 0.5) for i in found
    )


@pytest.mark.parametrize(
    ("size", "n", "lanes"),
    [
        *((4, 512, 16), (4, 1023, 16), (4, 1024, 16), (4, 2048, 8), (4, 4096, 4), (4, 8192, 2)),
        *((8, 512, 8), (8, 1024, 8), (8, 2048, 4), (8, 4096, 2), (8, 8192, 1), (8, 8209, 1)),
        *((8, 9000, 0), (4, 1041, 8)),
    ],
)  # fmt: skip
def test_lanes_of_powers_of_two(size: int, n: int, lanes: int) -> None:
    """They have as many as the lengths just below."""
    assert fft.Plans(TARGET, size).lanes(4096, n)[0] == lanes


def test_a_convolution_in_one_kernel_has_a_whole_vector_of_numbers() -> None:
    plans = fft.Plans(TARGET, 4)
    assert plans.most_lanes == 16
    assert [plans.convolves_near(n, 64) for n in (11, 13, 15, 16, 17)] == [False] * 3 + [True] * 2
