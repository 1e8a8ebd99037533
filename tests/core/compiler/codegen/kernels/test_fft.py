"""Fourier transforms as generated kernels, against SciPy's in twice the precision."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.fft
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import fft
from tripont.core.compiler.codegen.kernels.fft_lengths import radices_of
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library import fft as ways
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, kinds, of_each_width
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
__all__ = ["cpu"]
WIDE = {"f4": "f8", "c8": "c16", "f8": "g", "c16": "G"}
KINDS = {"FFT": "fftn", "IFFT": "ifftn", "RFFT": "rfftn", "IRFFT": "irfftn"}


def operand(kind: str, dims: Sequence[int], lengths: Sequence[int], wide: bool, seed: int) -> Array:
    """``dims``: those before the transformed ones."""
    rng = np.random.default_rng(seed)
    dims = (*dims, *lengths)
    if kind == "RFFT":
        return rng.standard_normal(dims).astype("f8" if wide else "f4")
    if kind == "IRFFT":
        dims = (*dims[:-1], dims[-1] // 2 + 1)
    x = rng.standard_normal(dims) + 1j * rng.standard_normal(dims)
    return x.astype("c16" if wide else "c8")


def transform(kind: str, lengths: Sequence[int], x: Array, index: int = 0) -> hlo.Instruction:
    from_ = hlo.parameter(index, hlo.Shape(dtypes.from_numpy(x.dtype), x.shape))
    dims = (*x.shape[: -len(lengths)], *lengths)
    dtype = from_.dtype
    if kind == "RFFT":
        dims = (*dims[:-1], dims[-1] // 2 + 1)
        dtype = dtypes.C128 if dtype.size == 8 else dtypes.C64
    elif kind == "IRFFT":
        dtype = dtype.component
    attributes = {"fft_type": kind, "fft_length": tuple(lengths)}
    return hlo.Instruction("fft", hlo.Shape(dtype, dims), (from_,), attributes)


def reference(kind: str, lengths: Sequence[int], x: Array) -> Array:
    axes = range(-len(lengths), 0)
    sizes = tuple(lengths) if kind == "IRFFT" else None
    result: Array = getattr(scipy.fft, KINDS[kind])(x.astype(WIDE[x.dtype.str[1:]]), sizes, axes)
    return result


def levels(n: int) -> float:
    """How often u, half a unit in the last place, a transform of length ``n`` may be off relative to its norm.

    A level of a fast transform, which halves the length, is a product by a rounded root (its rounding, and those of
    two products and a sum: less than 3.3 u) and a sum (u). A sum of p / 2 products adds as many roundings. A
    convolution is two transforms and three products; its factors have a spectrum that is not flat.
    """
    found = radices_of(n, for_cpu())
    if found is None:
        return 4 * (2 * 4.3 * (math.log2(n) + 2) + 3 * 4.3)
    return sum(4.3 * math.log2(r) if r <= 16 else r / 2 + 4 for r in found)


def check(got: Array, kind: str, lengths: Sequence[int], x: Array) -> None:
    """That each transform is within the bound of its roundings, relative to the norm of its values."""
    want = reference(kind, lengths, x)
    assert got.shape == want.shape
    axes = tuple(range(-len(lengths), 0))
    difference = np.sqrt((np.abs(got - want) ** 2).sum(axes))
    # What a real transform leaves out is as large as what it gives; an inverse one may ignore a part of what it reads.
    norm = np.sqrt((np.abs(want) ** 2).sum(axes))
    if kind == "IRFFT":
        norm = np.maximum(norm, np.sqrt((np.abs(x) ** 2).sum(axes) / math.prod(lengths)))
    unit = np.finfo(x.dtype).eps / 2
    bound = unit * (4.3 + 2 * sum(map(levels, lengths)))
    assert (difference <= bound * norm).all(), (kind, lengths, x.dtype, (difference / norm).max())


def program(calls: Sequence[tuple[str, Sequence[int], Array]]) -> hlo.Module:
    made = [transform(*call, index=n) for n, call in enumerate(calls)]
    shapes = hlo.TupleShape(tuple(i.shape for i in made))
    root = made[0] if len(made) == 1 else hlo.Instruction("tuple", shapes, tuple(made))
    return module([i.operands[0] for i in made], root)


def run(
    calls: Sequence[tuple[str, Sequence[int], Array]], cpu: str = "host"
) -> tuple[list[Array], list[str], hlo.Module]:
    """What ``calls`` give, as one program; what it is made of; and the program."""
    after = pipeline.run(program(calls), for_cpu(cpu, False), Dump())
    found = kinds(after)
    assert "fft-pass" in found
    assert "library-call" not in found
    return NativeSimulation(after, cpu).run([x for _, _, x in calls]), found, after


def halves_of(after: hlo.Module) -> list[bool]:
    """Whether each kernel of transforms does both halves of one."""
    passes = (i for i in after.entry.instructions if i.opcode == "fft-pass")
    return ["halves" in i.attributes["config"] for i in passes]


def calls_of(n: int, rows: int) -> list[tuple[str, Sequence[int], Array]]:
    """A complex and a real transform, one forward and one inverse, one in f32 and one in f64: which is which differs
    from length to length, and both lengths of a parity have each in turn.
    """
    turn, wide = n // 2 % 2 == 0, n // 4 % 2 == 0
    chosen = (("FFT", wide), ("IRFFT", not wide)) if turn else (("IFFT", wide), ("RFFT", not wide))
    return [(kind, (n,), operand(kind, (rows,), (n,), w, n)) for kind, w in chosen]


@pytest.mark.parametrize("tens", range(14))
def test_small_lengths(tens: int) -> None:
    """One row, some, and more than a vector has lanes."""
    lengths = range(max(1, 10 * tens), min(131, 10 * tens + 10))
    calls = [call for n in lengths for call in calls_of(n, (1, 5, 21)[n % 3])]
    for got, call in zip(run(calls)[0], calls, strict=True):
        check(got, *call)


@pytest.mark.parametrize(
    ("n", "rows"),
    [
        *((151, 3), (199, 18), (211, 2), (256, 1), (343, 17), (360, 3), (422, 3), (1000, 1), (1001, 20)),
        *((1009, 3), (1024, 17), (6000, 17), (2018, 2), (2187, 1), (4096, 2), (10007, 1), (44100, 1), (1 << 17, 1)),
    ],
)  # fmt: skip
def test_lengths(n: int, rows: int) -> None:
    """Two passes, convolutions, real transforms by complex ones, factors that are products."""
    calls = calls_of(n, rows)
    for got, call in zip(run(calls)[0], calls, strict=True):
        check(got, *call)


@pytest.mark.parametrize("n", [1 << 16, 2 * 44100, 3**10])
def test_factors_of_three_numbers(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of the longest transforms, whose tables are about the square root of their length."""
    monkeypatch.setattr(ways, "_LONGEST_PRODUCTS", 0)
    for got, call in zip(run(calls_of(n, 2))[0], calls_of(n, 2), strict=True):
        check(got, *call)
    first, _ = (i for i in run(calls_of(n, 2)[:1])[2].entry.instructions if i.opcode == "fft-pass")
    assert first.attributes["config"]["products"] == 3


def test_ways() -> None:
    """That the lengths above go the ways that they are meant for."""
    x = operand("FFT", (1,), (1000,), False, 0)
    assert halves_of(run([("FFT", (1000,), x)])[2]) == [True]
    x = operand("FFT", (64,), (343,), False, 0)
    assert halves_of(run([("FFT", (343,), x)])[2]) == [False]
    x = operand("FFT", (20,), (6000,), False, 0)
    assert halves_of(run([("FFT", (6000,), x)])[2]) == [True]
    x = operand("FFT", (1,), (1 << 15,), False, 0)
    assert halves_of(run([("FFT", (1 << 15,), x)])[2]) == [False, False]
    x = operand("FFT", (1,), (211,), False, 0)
    assert halves_of(run([("FFT", (211,), x)])[2]) == [True]
    x = operand("FFT", (1,), (10007,), False, 0)
    _, found, after = run([("FFT", (10007,), x)])
    assert len(halves_of(after)) >= 2
    assert "loop" in found


SEVERAL = [
    ((), (5, 24, 3)),
    ((2,), (30, 8)),
    ((), (2, 16, 9)),
    ((21,), (7,)),
    ((2,), (360, 37)),
    ((3, 2), (4, 6, 5)),
    ((), (300, 2)),
    ((), (17, 13, 11)),
    ((), (2, 2048)),
    ((), (3000, 4)),
    ((), (211, 3)),
]


@pytest.mark.parametrize(("outer", "lengths"), SEVERAL)
def test_several_dimensions(outer: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    calls = [
        (kind, lengths, operand(kind, outer, lengths, wide, 1))
        for kind, wide in zip(KINDS, (False, True, False, True), strict=True)
    ]
    for got, call in zip(run(calls)[0], calls, strict=True):
        check(got, *call)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n", [512, 768, 1024, 2048, 4096])
@pytest.mark.parametrize(("cpu", "long"), [("x86-64-v4", True), ("x86-64-v3", False)])
def test_which_half_is_the_longer_one(cpu: str, long: bool, n: int, wide: bool) -> None:
    """Of the two ways that take the same number of instructions, the one whose columns are long, which turns less on
    the stack, and with vectors of 32 bytes the one whose rows are.
    """
    made = transform("FFT", (n,), operand("FFT", (256,), (n,), wide, 0))
    after = pipeline.run(module(made.operands, made), for_cpu(cpu, False), Dump())
    (kernel,) = (i for i in after.entry.instructions if i.opcode == "fft-pass")
    columns, rows = (half["n"] for half in kernel.attributes["config"]["halves"])
    assert columns * rows == n
    assert columns == rows or (columns > rows) == long


def matrices_of(after: hlo.Module) -> list[bool]:
    """Whether each kernel of transforms does both dimensions of a matrix."""
    passes = (i for i in after.entry.instructions if i.opcode == "fft-pass")
    return ["between" in i.attributes["config"] for i in passes]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("outer", "lengths"),
    [
        *(((), (60, 68)), ((1,), (7, 45)), ((17,), (64, 64)), ((19,), (100, 101)), ((5, 7), (33, 18))),
        *(((23,), (17, 129)), ((16,), (129, 256)), ((3,), (16, 2)), ((33,), (2, 16)), ((), (18, 21, 40))),
    ],
)  # fmt: skip
def test_matrices(
    outer: tuple[int, ...], lengths: tuple[int, ...], wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last two dimensions in one kernel, with full groups of columns and others, in both directions."""
    # Also where they are as fast apart.
    monkeypatch.setattr(ways.Plans, "apart", lambda *_: math.inf)
    calls = [(kind, lengths, operand(kind, outer, lengths, wide, 2)) for kind in KINDS]
    results, _, after = run(calls)
    for got, call in zip(results, calls, strict=True):
        check(got, *call)
    assert sum(matrices_of(after)) == 4


def test_matrices_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is the same whatever the others are, and what is not finite stays in its matrix."""
    monkeypatch.setattr(ways.Plans, "apart", lambda *_: math.inf)
    for kind in KINDS:
        x = operand(kind, (18,), (24, 30), False, 3)
        (got,), _, after = run([(kind, (24, 30), x)])
        assert matrices_of(after) == [True]
        changed = x[::-1].copy()
        changed[5, 3, 2] = np.nan
        ((other,), *_) = run([(kind, (24, 30), changed)])
        finite = np.arange(18) != 5
        np.testing.assert_array_equal(got[::-1][finite], other[finite])
        assert not np.isfinite(other[5]).any()


def last_kernel(kind: str, dims: Sequence[int], lengths: Sequence[int]) -> str:
    """The code of the last pass of a transform, for a CPU with AVX-512."""
    target = for_cpu("x86-64-v4", False)
    made = transform(kind, lengths, operand(kind, dims, lengths, False, 0))
    after = pipeline.run(module(made.operands, made), target, Dump())
    *_, last = (i for i in after.entry.instructions if i.opcode == "fft-pass")
    code = target.module()
    fft.emit(code, target, last, "kernel")
    return str(code)


def fetched(code: str) -> dict[int, int]:
    """How many lines are asked for ahead, by the caches into which they come (3: all of them, 2: the second). Their
    addresses may lie behind the array, so LLVM must not be told that they are in it.
    """
    found: dict[int, int] = {}
    pattern = r"@llvm.prefetch.p0\(ptr (%[\w.]+), i32 0, i32 (\d), i32 1\)"
    for name, caches in re.findall(pattern, code):
        address = re.search(re.escape(name) + r" = getelementptr (\w+)", code)
        assert address is not None
        assert address[1] != "inbounds"
        found[int(caches)] = found.get(int(caches), 0) + 1
    return found


def test_numbers_on_other_pages_are_fetched_ahead() -> None:
    """Those of the following columns, and not those of near rows."""
    assert set(fetched(last_kernel("FFT", (3,), (20, 512)))) == {3}
    assert not fetched(last_kernel("FFT", (3,), (20, 24)))


@pytest.mark.parametrize("kind", list(KINDS))
def test_lines_of_large_arrays_are_fetched_ahead(kind: str) -> None:
    """What is read and written at the following unit, each into the second cache; nothing of arrays that stay near."""
    assert set(fetched(last_kernel(kind, (2048,), (200,)))) == {2}
    assert not fetched(last_kernel(kind, (20,), (200,)))
    assert set(fetched(last_kernel(kind, (16,), (256, 256)))) == {2}
    assert not fetched(last_kernel(kind, (), (64, 64)))


def test_both_sides_of_columns_are_fetched_ahead() -> None:
    """A line of the operand and of the result for each of 16 numbers of 16 columns, which lie in two lines."""
    assert fetched(last_kernel("FFT", (), (16, 1 << 14))) == {2: 2 * 2 * 16}


def test_rows_of_large_arrays_are_fetched_a_row_ahead() -> None:
    """The lines of the next row that the first and the last pass have: all of them, 2^10 numbers of 8 bytes further."""

    def distance(rows: int) -> int:
        code = last_kernel("FFT", (rows,), (1 << 10,))
        names = re.findall(r"@llvm.prefetch.p0\(ptr (%[\w.]+), i32 0, i32 2, i32 1\)", code)
        pattern = r" = getelementptr float, ptr [^,]+, i64 (\d+)"
        return min(int(re.findall(re.escape(name) + pattern, code)[0]) for name in names)

    assert distance(1 << 9) == 2 << 10
    # Those of a smaller array ask for its next columns alone, 16 of them.
    assert distance(1 << 8) == 2 * 16


def test_squares_are_read_by_halves_of_vectors() -> None:
    """So half of their exchanges are loads: 32 for 16 rows of eight complex numbers, and no whole vector of them."""
    code = last_kernel("FFT", (256,), (100,))
    assert len(re.findall(r"= load <8 x float>, ptr", code)) == 32


def test_which_matrices_are_taken_whole() -> None:
    """Few long ones are shared out to threads, and large ones stay in no cache."""
    for outer, size, whole in ((16, 256, True), (3, 256, False), (16, 512, False)):
        lengths = (size, size)
        after = run([("RFFT", lengths, operand("RFFT", (outer,), lengths, False, 0))])[2]
        assert matrices_of(after) == ([True] if whole else [False, False])


@pytest.mark.parametrize("n", [211, 257, 331, 1009, 2017])
def test_primes_by_their_powers(n: int) -> None:
    """A convolution of length n - 1, in both directions and precisions, of a row and of more than a vector's."""
    calls = [
        (kind, (n,), operand(kind, (rows,), (n,), wide, n))
        for kind in KINDS
        for rows, wide in ((1, False), (1, True), (19, n % 4 == 1))
    ]
    results, _, after = run(calls)
    for got, call in zip(results, calls, strict=True):
        check(got, *call)
    kernels = [i for i in after.entry.instructions if i.opcode == "fft-pass"]
    assert {i.attributes["config"].get("length") for i in kernels} == {n - 1}


def cyclic(after: hlo.Module) -> list[bool]:
    """Whether each kernel of transforms does convolutions of a prime length, a row in each lane."""
    passes = (i for i in after.entry.instructions if i.opcode == "fft-pass")
    return ["pass" in i.attributes["config"] for i in passes]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("n", "rows", "wide"), [(211, 40, False), (1009, 16, False), (251, 21, True), (331, 8, True)]
)
def test_rows_of_prime_length_are_done_together(kind: str, n: int, rows: int, wide: bool) -> None:
    """Where they fill vectors, full groups and others; in both directions, real ones by complex ones."""
    x = operand(kind, (rows,), (n,), wide, n)
    (got,), _, after = run([(kind, (n,), x)])
    check(got, kind, (n,), x)
    assert cyclic(after) == [for_cpu().vector_bytes // (8 if wide else 4) <= rows]


def test_pairs_of_real_numbers_of_which_there_are_a_prime_number_are_done_together() -> None:
    for kind in ("RFFT", "IRFFT"):
        x = operand(kind, (32,), (2018,), False, 0)
        (got,), _, after = run([(kind, (2018,), x)])
        check(got, kind, (2018,), x)
        assert cyclic(after) == [True]


def test_few_rows_of_prime_length_are_done_one_by_one() -> None:
    """They would not fill vectors."""
    x = operand("FFT", (3,), (1009,), False, 0)
    assert cyclic(run([("FFT", (1009,), x)])[2]) == [False]


def test_large_numbers_of_rows_of_prime_length() -> None:
    """The first number of a row, which is apart from the others, may be as large as the results can be."""
    x = np.zeros((16, 1009), np.complex64)
    x[:, 0] = 1e38 * (1 + 2j)
    ((got,), _, after) = run([("FFT", (1009,), x)])
    assert cyclic(after) == [True]
    np.testing.assert_array_equal(got, np.broadcast_to(x[:, :1], x.shape))


def of_each_kind() -> Iterator[list[tuple[str, Sequence[int], Array]]]:
    """Programs with groups that are full and others."""
    for n, rows in (
        *(
            (12, 21),
            (17, 16),
            (37, 3),
            (96, 1),
            (360, 19),
            (1024, 1),
            (211, 3),
            (211, 21),
            (227, 3),
        ),
    ):
        yield calls_of(n, rows)
    for outer, wide in ((2, False), (17, True)):
        yield [(kind, (20, 18), operand(kind, (outer,), (20, 18), wide, 1)) for kind in KINDS]


@of_each_width
def test_instruction_sets(cpu: str) -> None:
    for calls in of_each_kind():
        for got, call in zip(run(calls, cpu)[0], calls, strict=True):
            check(got, *call)


def test_imaginary_parts_that_a_real_signal_cannot_have_are_ignored() -> None:
    for n, rows in ((8, 3), (9, 3), (4096, 1), (2025, 1), (2018, 1)):
        x = operand("IRFFT", (rows,), (n,), False, n)
        changed = x.copy()
        changed[:, 0] += 100j
        if n % 2 == 0:
            changed[:, -1] -= 50j
        (got,), (other,) = (run([("IRFFT", (n,), a)])[0] for a in (x, changed))
        np.testing.assert_array_equal(got, other)


def test_what_is_not_finite_stays_in_its_row() -> None:
    x = operand("FFT", (40,), (360,), False, 0)
    x[7, 3], x[20, 0] = np.nan, np.inf
    ((got,), *_) = run([("FFT", (360,), x)])
    assert list(np.flatnonzero(~np.isfinite(got).all(1))) == [7, 20]


def test_what_is_not_finite_stays_in_its_row_of_prime_length() -> None:
    x = operand("FFT", (40,), (331,), False, 0)
    x[7, 3], x[20, 0] = np.nan, np.inf
    ((got,), _, after) = run([("FFT", (331,), x)])
    assert cyclic(after) == [True]
    assert list(np.flatnonzero(~np.isfinite(got).all(1))) == [7, 20]
