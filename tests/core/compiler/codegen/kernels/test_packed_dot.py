"""Products that are generated with packing, against NumPy: exact integers, floats within the bound of their sums."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import pack, packed_dot, product_forms
from tripont.core.compiler.codegen.kernels.emit import Frame
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import cpu as cpus
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.host.target import HostTarget

from tests.core.compiler.builders import compare, module, op, priced
from tests.core.compiler.builders import number as filled
from tests.core.compiler.codegen.kernels.test_contraction import dot, reference
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
CPUS = (
    "x86-64-v2",
    "x86-64-v3",
    "x86-64-v3+avxvnni",
    "x86-64-v4",
    "cascadelake",
    "znver3",
    "znver4",
    "znver5",
    "host",
)
S8, U8, S16, S32 = dtypes.S8, dtypes.U8, dtypes.S16, dtypes.S32
BF16, F16, F32, F64 = dtypes.BF16, dtypes.F16, dtypes.F32, dtypes.F64
INTEGERS = [*itertools.product((S8, U8), repeat=2), (S16, S16), (S8, S16), (S32, S32)]


@pytest.fixture(params=CPUS)
def cpu(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    missing = set(cpus.describe(name)[1]) - set(cpus.detect()[1])
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(sorted(missing))}")
    if name != "host" and cpus.describe(name) == cpus.detect():
        pytest.skip("this CPU is one: the row of the host is the same")
    return name


# Kernels that depend on nothing of a CPU but how long its vectors are, and on which instructions it has for floats, are
# the same text for all of CPUS with vectors of one length (codegen/test_widths.py): the host has the longest.
of_each_width = pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "host"], indirect=True)
# Packed products of floats, and of integers of 32 bits, are one text for several of CPUS too: with AVX-VNNI that of
# AVX2, but for a Zen 3, with AVX-512 that of a Zen 4, of a Zen 5 or that of Intel's host. Those of shorter integers are
# a Zen 4's on a Cascade Lake.
OF_FLOATS = ("x86-64-v2", "x86-64-v3", "znver3", "znver4", "znver5", "host")
OF_INTEGERS = tuple(c for c in CPUS if c not in ("cascadelake", "znver3"))
of_floats = pytest.mark.parametrize("cpu", OF_FLOATS, indirect=True)
of_integers = pytest.mark.parametrize("cpu", OF_INTEGERS, indirect=True)


def of_products(*products: tuple[DType, ...]) -> pytest.MarkDecorator:
    """Rows of ``types`` and ``cpu``, one for each text."""
    rows = [
        (types, cpu)
        for types in products
        for cpu in (OF_INTEGERS if types[1] in (S8, U8, S16) else OF_FLOATS)
    ]
    return pytest.mark.parametrize(("types", "cpu"), rows, indirect=["cpu"], ids=str)


def compiled(instruction: hlo.Instruction, cpu: str) -> NativeSimulation:
    """The program that computes ``instruction`` where there is no oneDNN."""
    before = module(instruction.operands, instruction)
    after = pipeline.run(before, for_cpu(cpu, False), Dump())
    found = kinds(after)
    assert "packed-dot" in found, found
    return NativeSimulation(after, cpu)


def kinds(made: hlo.Module) -> list[str]:
    """What the program is made of: opcodes, and kinds of fusions."""
    return [
        i.attributes["kind"] if i.opcode == "fusion" else i.opcode
        for i in made.entry.instructions
        if i.opcode != "parameter"
    ]


def product(
    types: tuple[DType, DType],
    result: DType,
    m: int,
    n: int,
    k: int,
    transposed: tuple[bool, bool] = (False, False),
    batch: int = 0,
) -> hlo.Instruction:
    lhs = (k, m) if transposed[0] else (m, k)
    rhs = (n, k) if transposed[1] else (k, n)
    front = (batch,) if batch else ()
    at = len(front)
    contracting = ((at + (not transposed[0]),), (at + transposed[1],))
    made = dot(
        (*front, *lhs),
        (*front, *rhs),
        contracting,
        ((0,), (0,)) if batch else ((), ()),
        result=result,
    )
    operands = [
        hlo.parameter(i, hlo.Shape(t, o.dims))
        for i, (t, o) in enumerate(zip(types, made.operands, strict=True))
    ]
    return made.replace(operands=operands)


def random(dtype: DType, dims: tuple[int, ...], seed: int) -> Array:
    generator = np.random.default_rng(seed)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        return generator.integers(limits.min, limits.max, dims, endpoint=True).astype(dtype.numpy)
    return generator.standard_normal(dims).astype(dtype.numpy)


# Sizes that no tile, vector or group divides, and one of several pieces of the contracted dimension.
SHAPES = [(87, 90, 83), (64, 64, 130), (9, 257, 301), (33, 40, 2051)]


@of_products(*INTEGERS)
def test_integers(types: tuple[DType, DType], cpu: str) -> None:
    for number, (m, n, k) in enumerate(SHAPES):
        transposed = (number % 2 == 1, number // 2 == 1)
        instruction = product(types, S32, m, n, k, transposed)
        values = [
            random(t, o.dims, i)
            for i, (t, o) in enumerate(zip(types, instruction.operands, strict=True))
        ]
        (got,) = compiled(instruction, cpu).run(values)
        np.testing.assert_array_equal(got, reference(instruction, *values), f"{m} {n} {k}")


@of_products(*(t for t in INTEGERS if S32 not in t))
def test_worst_integers(types: tuple[DType, DType], cpu: str) -> None:
    """Sums of 100,000 extreme products wrap around in 32 bits, and nothing saturates before."""
    m, n, k = 6, 32, 100_001
    instruction = product(types, S32, m, n, k)
    simulation = compiled(instruction, cpu)
    limits = [(int(np.iinfo(t.numpy).min), int(np.iinfo(t.numpy).max)) for t in types]
    for x, y in itertools.product(*limits):
        values = [
            np.full(o.dims, v, t.numpy)
            for o, v, t in zip(instruction.operands, (x, y), types, strict=True)
        ]
        (got,) = simulation.run(values)
        wanted = (k * x * y + 2**31) % 2**32 - 2**31
        assert (got == wanted).all(), (x, y, got[0, 0], wanted)


@pytest.mark.parametrize("result", [S8, S16, dtypes.U32, dtypes.S64], ids=str)
def test_integer_results(result: DType) -> None:
    """Sums wrap to the type of the result, whichever they were done in."""
    given = result if result.bits >= 32 else S8
    instruction = product((given, given), result, 85, 86, 87)
    values = [random(given, o.dims, i) for i, o in enumerate(instruction.operands)]
    (got,) = compiled(instruction, "host").run(values)
    wide = [v.astype(np.uint64) for v in values]
    np.testing.assert_array_equal(got, (wide[0] @ wide[1]).astype(result.numpy))


FLOATS = [
    (F32, F32, F32),
    (F64, F64, F64),
    (BF16, BF16, F32),
    (BF16, BF16, BF16),
    (F16, F16, F32),
    (F16, F16, F16),
]


@of_products(*FLOATS)
def test_floats(types: tuple[DType, DType, DType], cpu: str) -> None:
    for number, (m, n, k) in enumerate([*SHAPES, (257, 300, 520)]):
        transposed = (number % 2 == 1, number // 2 == 1)
        instruction = product(types[:2], types[2], m, n, k, transposed)
        values = [
            random(t, o.dims, i)
            for i, (t, o) in enumerate(zip(types, instruction.operands, strict=False))
        ]
        (got,) = compiled(instruction, cpu).run(values)
        near(got, instruction, values)


def near(got: Array, instruction: hlo.Instruction, values: list[Array]) -> None:
    """Within the bound of sums of k products in f32 (f64), (k + 1) u |a| |b|, and half an ulp of a smaller result."""
    wide = instruction.replace(shape=instruction.shape.with_dtype(F64))
    exact = reference(wide, *values)
    sizes = reference(wide, *(np.abs(v.astype(np.float64)) for v in values))
    k = max(values[0].shape)
    unit = 2.0**-53 if instruction.dtype is F64 else 2.0**-24
    bound = (k + 1) * unit * sizes
    rounding = {BF16: 2.0**-8, F16: 2.0**-10}.get(instruction.dtype, 0.0)
    bound = bound * (1 + rounding) + rounding * np.abs(exact) + 2.0**-24
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


@of_products((F32, F32, F32), (F64, F64, F64), (F16, F16, F32))
def test_long_sums(types: tuple[DType, DType, DType], cpu: str) -> None:
    """Terms of 0.1, whose roundings have one sign in a running sum.

    A term is added to at most ``depth`` others in its piece, which are 32 KB of a panel of one to three vectors, and
    then to the pieces before it: each addition is one rounding.
    """
    m, n, k = 12, 32, 1 << 17
    instruction = product(types[:2], types[2], m, n, k)
    values = [
        np.full(o.dims, v, o.dtype.numpy)
        for o, v in zip(instruction.operands, (0.1, 1), strict=True)
    ]
    (got,) = compiled(instruction, cpu).run(values)
    exact = float(values[0][0, 0]) * k  # a power of two
    depth = (1 << 15) // for_cpu(cpu).vector_bytes
    roundings = depth + 1 + 3 * k // depth + 1
    unit = 2.0**-53 if types[2] is F64 else 2.0**-24
    assert np.abs(got - exact).max() <= roundings * unit * exact


@of_products((S8, S8, S32), (F32, F32, F32), (BF16, BF16, F32))
def test_batches(types: tuple[DType, DType, DType], cpu: str) -> None:
    for transposed in itertools.product((False, True), repeat=2):
        instruction = product(types[:2], types[2], 50, 70, 69, transposed, batch=3)
        values = [
            random(t, o.dims, i)
            for i, (t, o) in enumerate(zip(types, instruction.operands, strict=False))
        ]
        (got,) = compiled(instruction, cpu).run(values)
        if types[2].is_integer:
            np.testing.assert_array_equal(got, reference(instruction, *values))
        else:
            near(got, instruction, values)


@of_products((F32, F32, F32), (F64, F64, F64), (BF16, BF16, BF16))
def test_copied_panels(types: tuple[DType, DType, DType], cpu: str) -> None:
    """Few rows, or a rhs that stays in the second cache: units of work copy the parts of panels, in one piece of k and
    in several, one block of rows and several, where the last tile of a block is the first one, and where it is not.
    """
    shapes = (
        (33, 401, 601, 0),
        (16, 515, 2051, 0),
        (12, 300, 520, 2),
        (9, 515, 2051, 0),
        (120, 130, 2100, 0),
    )
    for m, n, k, batch in shapes:
        instruction = product(types[:2], types[2], m, n, k, batch=batch)
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
        after = pipeline.run(module(instruction.operands, instruction), for_cpu(cpu, False), Dump())
        assert kinds(after)[-1] == "packed-dot"
        form = product_forms.choose_dot(for_cpu(cpu), BF16, BF16, F32)
        half = types[0] is BF16 and form.name == product_forms.BF16_PAIRS and k % 2 != 0
        assert ("pack" in kinds(after)) == half
        (got,) = NativeSimulation(after, cpu).run(values)
        near(got, instruction, values)


@pytest.mark.parametrize("cpu", OF_INTEGERS, indirect=True)
@pytest.mark.parametrize("types", [(S8, S8), (U8, S8), (U8, U8), (S16, S16), (S8, S16)], ids=str)
def test_copied_panels_of_groups(types: tuple[DType, DType], cpu: str) -> None:
    """Groups are put together, and bits flipped, as they are copied: whole groups only."""
    for m, n, k in ((12, 300, 520), (9, 515, 2052), (14, 130, 2100), (12, 300, 519)):
        instruction = product(types, S32, m, n, k)
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
        after = pipeline.run(module(instruction.operands, instruction), for_cpu(cpu, False), Dump())
        form = product_forms.choose_dot(for_cpu(cpu, False), *types, S32)
        if not form.is_matrix:
            assert ("pack" in kinds(after)) == (k % form.group != 0)
        (got,) = NativeSimulation(after, cpu).run(values)
        np.testing.assert_array_equal(got, reference(instruction, *values))


def test_parts_of_lines_are_copied_for_fewer_rows() -> None:
    """A panel of bytes has half a line of each row: the next one reads the line again."""
    target = for_cpu("znver4", False)
    for types, m, copied in (
        ((S8, S8), 256, True),
        ((S8, S8), 257, False),
        ((BF16, BF16), 512, True),
        ((BF16, BF16), 513, False),
    ):
        made = product(types, S32 if types[0] is S8 else F32, m, 512, 512)
        after = pipeline.run(module(made.operands, made), target, Dump())
        assert ("pack" in kinds(after)) is not copied


@pytest.mark.parametrize(
    ("n", "last"), [(100, 1), (96, 2), (72, 1), (32, 2), (33, 1), (520, 2), (488, 1), (1000, 2)]
)
def test_tiles_of_the_last_panel_are_narrower(n: int, last: int) -> None:
    """Where that saves a thirty-second of the vectors: panels of two vectors of 16."""
    assert product_forms.last_vectors(n, 2, 16) == last


@of_products((F32, F32, F32), (BF16, BF16, BF16), (S8, S8, S32), (S32, S32, S32))
def test_narrow_last_panels(types: tuple[DType, DType, DType], cpu: str) -> None:
    """Packed, read where it lies and copied; sums in one piece and in several; with a bias."""
    for m, n, k in ((150, 100, 100), (70, 88, 4100), (20, 136, 2600), (700, 76, 2600)):
        made = product(types[:2], types[2], m, n, k)
        bias = hlo.parameter(2, hlo.Shape(types[2], (n,)))
        across = op("broadcast", bias, dims=made.dims, dimensions=(1,))
        root = op("add", made, across, dtype=types[2])
        after = pipeline.run(module([*made.operands, bias], root), for_cpu(cpu, False), Dump())
        assert kinds(after)[-1] == "packed-dot"
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        zeros = np.zeros(n, types[2].numpy)
        (got,) = NativeSimulation(after, cpu).run([*values, zeros])
        if types[2] is S32:
            np.testing.assert_array_equal(got, reference(made, *values))
            (more,) = NativeSimulation(after, cpu).run([*values, np.arange(n, dtype=np.int32)])
            np.testing.assert_array_equal(more - got, np.arange(n)[None].repeat(m, 0))
        else:
            near(got, made, values)


@of_integers
@pytest.mark.parametrize("types", [(S8, S8), (U8, U8), (U8, S8), (S8, U8)], ids=str)
def test_bytes_are_turned_while_they_are_packed(types: tuple[DType, DType], cpu: str) -> None:
    """A rhs of [n, k], of whole groups and of parts, is read once where an instruction multiplies four bytes."""
    for m, n, k in ((20, 90, 130), (70, 83, 260), (33, 64, 1300)):
        made = product(types, S32, m, n, k, (False, True))
        after = pipeline.run(module(made.operands, made), for_cpu(cpu, False), Dump())
        form = product_forms.choose_dot(for_cpu(cpu, False), *types, S32)
        if form.name == "quadruples":
            assert kinds(after) == ["pack", "packed-dot"]
        values = [random(o.dtype, o.dims, k + i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(after, cpu).run(values)
        np.testing.assert_array_equal(got, reference(made, *values))


@of_integers
@pytest.mark.parametrize("types", [(S8, S8), (U8, U8), (U8, S8), (S8, U8)], ids=str)
def test_bytes_are_computed_while_they_are_turned(types: tuple[DType, DType], cpu: str) -> None:
    """A rhs of [n, k] that is stored bytes and an offset for each of its rows."""
    for m, n, k in ((70, 83, 258), (33, 64, 1300)):
        made = product(types, S32, m, n, k, (False, True))
        offset = hlo.parameter(2, hlo.Shape(types[1], (n,)))
        lhs, stored = made.operands
        wide = op("broadcast", offset, dims=stored.dims, dtype=types[1], dimensions=(0,))
        matrix = op("add", stored, wide, dims=stored.dims, dtype=types[1])
        before = module([lhs, stored, offset], made.replace(operands=[lhs, matrix]))
        after = pipeline.run(before, for_cpu(cpu, False), Dump())
        form = product_forms.choose_dot(for_cpu(cpu, False), *types, S32)
        if form.name == "quadruples":
            assert kinds(after) == ["packed-dot"]
        values = [random(o.dtype, o.dims, k + i) for i, o in enumerate((lhs, stored, offset))]
        (got,) = NativeSimulation(after, cpu).run(values)
        computed = values[1] + values[2][:, None]
        np.testing.assert_array_equal(got, reference(made, values[0], computed))


@pytest.mark.parametrize(("k", "bits"), [(16, 128), (31, 128), (48, 256), (64, 512), (100, 512)])
def test_short_rows_are_summed_in_short_vectors(k: int, bits: int) -> None:
    """Rather than a byte at a time: that took more than half of the time of 48^3."""
    made = product((S8, S8), S32, 64, 64, k)
    target = for_cpu("znver5", False)
    after = pipeline.run(module(made.operands, made), target, Dump())
    (instruction,) = (i for i in after.entry.instructions if i.opcode == "packed-dot")
    code = target.module()
    packed_dot.emit(code, target, instruction, "kernel")
    summed = f"@llvm.x86.avx512.vpdpbusd.{bits}(<{bits // 32} x i32> %"
    assert summed in str(code)


@of_integers
@pytest.mark.parametrize("types", [(S8, S8), (U8, U8)], ids=str)
def test_sums_of_rows(types: tuple[DType, DType], cpu: str) -> None:
    """Operands of one sign are corrected by the sums of rows: of less than a vector, of whole ones, and behind them."""
    for k in (16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 190):
        made = product(types, S32, 60, 80, k)
        values = [random(o.dtype, o.dims, k + i) for i, o in enumerate(made.operands)]
        (got,) = compiled(made, cpu).run(values)
        np.testing.assert_array_equal(got, reference(made, *values))


@of_floats
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_copied_panels_of_many_rows(dtype: DType, cpu: str) -> None:
    target = for_cpu(cpu, False)
    before = target.costs.products
    for m, n, k in ((270, 140, 1030), (530, 160, 930)):
        instruction = product((dtype, dtype), dtype, m, n, k)
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
        after = pipeline.run(module(instruction.operands, instruction), target, Dump())
        is_first = before.first_operands and instruction.operands[1].shape.bytes >= before.first_rhs
        packs = before.copied_rhs == 0 and m > before.copied_rows and not is_first
        assert ("pack" in kinds(after)) == packs
        (got,) = NativeSimulation(after, cpu).run(values)
        near(got, instruction, values)


@pytest.mark.parametrize("cpu", ["znver3"], indirect=True)
@pytest.mark.parametrize(
    ("types", "m", "n", "k"),
    [
        ((F32, F32, F32), 1030, 310, 1030),  # several blocks of rows, and of rows that stay near
        ((F32, F32, F32), 131, 393, 391),  # one piece
        ((F32, F32, F32), 200, 2000, 1100),  # all rows are a unit's
        ((F64, F64, F64), 530, 203, 930),
        ((S8, S8, S32), 700, 600, 1036),
        ((U8, S8, S32), 260, 1030, 524),
    ],
    ids=str,
)
def test_units_of_many_rows_copy_their_panels_first(
    types: tuple[DType, DType, DType], m: int, n: int, k: int, cpu: str
) -> None:
    """Nothing holds a packed rhs, and the numbers are those of one: sums are cut into the same pieces."""
    instruction = product(types[:2], types[2], m, n, k)
    root, operands = instruction, list(instruction.operands)
    if types[2] is not S32:  # masked, so that tiles are left out
        rows, columns = (op("iota", dims=root.dims, dtype=S32, dimension=d) for d in (0, 1))
        half, zeros = (filled(x, *root.dims, dtype=root.dtype) for x in (0.5, 0.0))
        below = compare(rows, columns, "GE")
        root = op("select", below, op("multiply", root, half), zeros, dtype=root.dtype)
    values = [random(o.dtype, o.dims, i) for i, o in enumerate(operands)]
    results = []
    whole = priced(cpu, False, products={"first_operands": 0, "first_lhs": 0})
    for target, packed in ((for_cpu(cpu, False), False), (whole, True)):
        after = pipeline.run(module(operands, root), target, Dump())
        assert [i for i in kinds(after) if "pack" in i] == ["pack"] * packed + ["packed-dot"]
        results += NativeSimulation(after, cpu).run(values)
    np.testing.assert_array_equal(*results)
    exact = values[0].astype(np.float64) @ values[1].astype(np.float64)
    if types[2] is S32:
        np.testing.assert_array_equal(results[0], exact.astype(np.int64).astype(np.int32))
    else:
        np.testing.assert_allclose(results[0], np.tril(exact / 2), rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("cpu", "dtype", "m", "n", "k", "packed"),
    [
        ("znver4", F32, 1030, 530, 1030, False),
        ("znver4", BF16, 1030, 1030, 1040, False),
        ("znver4", F32, 1030, 500, 1030, True),  # less than 2 MB
        ("znver4", F32, 1030, 1030, 1030, True),  # both have more than 8 MB
        ("znver5", F32, 1024, 1024, 1024, False),
        ("znver5", F64, 650, 640, 640, False),
        ("znver5", F32, 1030, 750, 1030, True),  # less than 3 MB
        ("znver5", F32, 1030, 1030, 1030, True),
        ("znver5", BF16, 1030, 1600, 1040, True),  # in pairs
    ],
    ids=str,
)
def test_a_zen_4_or_5_copies_large_panels_first(
    cpu: str, dtype: DType, m: int, n: int, k: int, packed: bool
) -> None:
    instruction = product((dtype, dtype), dtype, m, n, k)
    whole = priced(cpu, False, products={"first_operands": 0})
    programs = [
        pipeline.run(module(instruction.operands, instruction), target, Dump())
        for target in (for_cpu(cpu, False), whole)
    ]
    assert ["pack" in kinds(after) for after in programs] == [packed, True]
    if not packed and not set(cpus.describe(cpu)[1]) - set(cpus.detect()[1]):
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
        results = [NativeSimulation(after, cpu).run(values)[0] for after in programs]
        np.testing.assert_array_equal(*results)
        near(results[0], instruction, values)


@pytest.mark.parametrize("cpu", ["znver3"], indirect=True)
@pytest.mark.parametrize("dtype", [F32, F64, S32], ids=str)
def test_units_of_fewer_rows_copy_their_panels_first(dtype: DType, cpu: str) -> None:
    """In one piece of k and in several, panels that end with the matrix, batches: the numbers are those of units that
    copy one panel after the other.
    """
    one_by_one = priced(cpu, False, products={"first_fewest": 1 << 60})
    for m, n, k, batch in ((64, 515, 601, 0), (128, 300, 2051, 0), (70, 401, 420, 2)):
        instruction = product((dtype, dtype), dtype, m, n, k, batch=batch)
        values = [random(dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
        results = []
        for target, first in ((for_cpu(cpu, False), True), (one_by_one, False)):
            after = pipeline.run(module(instruction.operands, instruction), target, Dump())
            (kernel,) = kernels_of(after, target)
            assert (kernel.copies, kernel.copies_first) == (True, first)
            assert not first or kernel.tall == kernel.tiles
            results += NativeSimulation(after, cpu).run(values)
        np.testing.assert_array_equal(*results)
        if dtype is S32:
            np.testing.assert_array_equal(results[0], reference(instruction, *values))
        else:
            near(results[0], instruction, values)


@pytest.mark.parametrize("cpu", ["znver3"], indirect=True)
@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "batch", "turned"),
    [
        (F32, 256, 128, 256, 0, True),
        (F32, 255, 128, 256, 0, False),  # less than 256 KB of lhs
        (F32, 256, 127, 256, 0, False),  # too few columns
        (F64, 131, 150, 251, 0, True),
        (F32, 300, 130, 301, 2, True),
        (S32, 256, 128, 256, 0, True),
    ],
    ids=str,
)
def test_a_large_lhs_that_lies_the_other_way_is_transposed_before(
    dtype: DType, m: int, n: int, k: int, batch: int, turned: bool, cpu: str
) -> None:
    """The numbers are those of tiles that read its columns."""
    as_it_lies = priced(cpu, False, products={"turned_lhs": 1 << 60})
    instruction = product((dtype, dtype), dtype, m, n, k, (True, False), batch)
    values = [random(dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
    results = []
    for target, wanted in ((for_cpu(cpu, False), turned), (as_it_lies, False)):
        after = pipeline.run(module(instruction.operands, instruction), target, Dump())
        (kernel,) = kernels_of(after, target)
        assert (kernel.lhs_depth == 1) is wanted
        results += NativeSimulation(after, cpu).run(values)
    np.testing.assert_array_equal(*results)
    if dtype is S32:
        np.testing.assert_array_equal(results[0], reference(instruction, *values))
    else:
        near(results[0], instruction, values)


def test_which_units_copy_their_panels_first() -> None:
    """On a Zen 3, from 64 rows on."""
    for name, m, first in (("znver3", 63, False), ("znver3", 64, True), ("x86-64-v3", 128, False)):
        kernel = kernel_of(for_cpu(name, False), m, 3072, 768)
        assert (kernel.copies, kernel.copies_first) == (True, first)
    assert not kernel_of(for_cpu("x86-64-v3", False), 256, 3072, 768).copies


@pytest.mark.parametrize(
    ("types", "m", "n", "k", "packed"),
    [
        ((S8, S8), 1030, 1000, 1040, False),
        ((U8, S8), 24, 1030, 524, False),
        ((S8, U8), 300, 2600, 2052, False),  # 6 MB, but few rows
        ((S8, S8), 1030, 2600, 1028, False),
        ((S8, S8), 1030, 2600, 2052, True),
    ],
    ids=str,
)
def test_an_emerald_rapids_copies_panels_of_bytes_first(
    types: tuple[DType, DType], m: int, n: int, k: int, packed: bool
) -> None:
    """Panels of bytes are half a line wide: their lines are read once. The numbers are exact."""
    cpu = "emeraldrapids"
    instruction = product(types, S32, m, n, k)
    after = pipeline.run(module(instruction.operands, instruction), for_cpu(cpu, False), Dump())
    assert ("pack" in kinds(after)) == packed
    if not packed:
        (kernel,) = kernels_of(after, for_cpu(cpu, False))
        assert (kernel.copies, kernel.copies_first) == (True, True)
    if not set(cpus.describe(cpu)[1]) - set(cpus.detect()[1]):
        values = [np.full(o.dims, -128 if o.dtype is S8 else 255) for o in instruction.operands]
        values[1][::3] = 127
        values = [
            v.astype(o.dtype.numpy) for v, o in zip(values, instruction.operands, strict=True)
        ]
        (got,) = NativeSimulation(after, cpu).run(values)
        exact = values[0].astype(np.float64) @ values[1].astype(np.float64)
        np.testing.assert_array_equal(got, exact.astype(np.int64).astype(np.int32))


def test_where_panels_of_bytes_are_not_copied_first() -> None:
    made = product((S8, S8), S32, 1030, 1000, 1040)
    for cpu in ("cascadelake", "x86-64-v4", "emeraldrapids+amx-int8+amx-bf16", "znver5"):
        target = for_cpu(cpu, False)
        after = pipeline.run(module(made.operands, made), target, Dump())
        assert not any(kernel.copies_first for kernel in kernels_of(after, target))


def test_stack_of_panels_copied_first() -> None:
    """Copies of several panels, and the sums of all rows by their columns."""
    target = for_cpu("znver3", False)
    found = []
    for m, n, k in itertools.product((64, 128, 250, 500), (600, 4096), (500, 767, 6000)):
        kernel = kernel_of(target, m, n, k)
        code = target.module()
        packed_dot.emit(code, target, kernel.dot, "product")
        found.append(stack_bytes(str(code)))
    assert max(found) > 1 << 17
    assert max(found) < 512 << 10


def test_rhs_of_large_products_and_of_conversions_is_packed() -> None:
    """Units read the rows of lhs again for fewer columns than those of a product that is packed, and would convert them
    again.
    """
    for dtype, n, packed in ((F32, 1024, False), (F32, 1040, True), (BF16, 1024, True)):
        made = product((dtype, dtype), F32, 1024, n, 1024)
        after = pipeline.run(module(made.operands, made), for_cpu("znver3", False), Dump())
        assert ("pack" in kinds(after)) is packed


@pytest.mark.parametrize(("n", "packed"), [(512, True), (520, False)])
def test_rows_that_compete_for_places_of_the_second_cache_are_packed(n: int, packed: bool) -> None:
    """Rows of 4 KB, where other products of so large operands copy panels as they lie."""
    made = product((F64, F64), F64, 512, n, 500)
    after = pipeline.run(module(made.operands, made), for_cpu("x86-64-v4", False), Dump())
    assert ("pack" in kinds(after)) == packed


def kernel_of(target: HostTarget, m: int, n: int, k: int) -> packed_dot.PackedDot:
    """The kernel of the f32 product of an [m, k] and a [k, n] matrix."""
    made = product((F32, F32), F32, m, n, k)
    after = pipeline.run(module(made.operands, made), target, Dump())
    (kernel,) = kernels_of(after, target)
    return kernel


def kernels_of(made: hlo.Module, target: HostTarget) -> list[packed_dot.PackedDot]:
    """The kernels of a program's products."""
    return [
        packed_dot.PackedDot(Frame(target.module(), target, i, "kernel", collapsed=False))
        for i in made.entry.instructions
        if i.opcode == "packed-dot"
    ]


@pytest.mark.parametrize(("threads", "units"), [(1, 1), (2, 2), (4, 4)])
def test_units_of_long_sums_have_all_rows(threads: int, units: int) -> None:
    """So each part of the right-hand side is copied once."""
    kernel = kernel_of(for_cpu("x86-64-v4", False, threads), 128, 128, 8192)
    assert (kernel.tall, kernel.wide) == (kernel.tiles, kernel.panels // units)


def test_an_even_number_of_units_has_all_rows() -> None:
    """21 panels in blocks of 5 are 5 blocks, which become 6, not 10 of half the rows."""
    kernel = kernel_of(for_cpu("x86-64-v4", False, 1), 128, 1000, 4096)
    assert (kernel.tall, kernel.panels, kernel.wide) == (kernel.tiles, 21, 4)


def test_short_products_are_shared_by_two_threads() -> None:
    """One that takes some ten microseconds has two units, which the runtime gives to two threads; a shorter one is one
    unit.
    """
    target = for_cpu("x86-64-v4", False)
    for n, units in ((64, 1), (128, 2)):
        kernel = kernel_of(target, 64, n, 128)
        assert -(-kernel.tiles // kernel.tall) * -(-kernel.panels // kernel.wide) == units
    assert kernel.emit().grain == 1


def test_all_lines_of_rows_that_begin_anywhere_are_fetched() -> None:
    target = for_cpu("x86-64-v4", False)
    for n, more in ((896, 0), (900, 1)):
        kernel = kernel_of(target, 16, n, 4096)
        assert kernel.copies
        assert kernel.lying_lines == kernel.width * 4 // 64 + more


@pytest.mark.parametrize(
    ("name", "n", "lies"), [("znver3", 128, False), ("znver3", 144, True), ("x86-64-v3", 128, True)]
)
def test_rows_that_crowd_in_the_nearest_cache_are_not_read_where_they_lie(
    name: str, n: int, lies: bool
) -> None:
    """On a Zen 3: 128 columns of f32 are 512 bytes, 144 are 576."""
    target = for_cpu(name, False)
    for m in (128, 160):
        made = product((F32, F32), F32, m, n, 128)
        after = pipeline.run(module(made.operands, made), target, Dump()).entry.instructions
        (dot,) = (i for i in after if i.opcode == "packed-dot")
        packs = any(i.opcode == "pack" for i in after)
        assert packs is (not lies and m > 128)  # few rows have copies of parts
        assert dot.attributes["config"]["copies"] is (not lies and m <= 128)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver3"], indirect=True)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_products_by_rows_that_crowd(cpu: str, dtype: DType) -> None:
    for m, n, k in ((80, 64, 128), (128, 128, 96), (130, 256, 40), (160, 128, 128)):
        instruction = product((dtype, dtype), dtype, m, n, k)
        values = [random(dtype, o.dims, i) for i, o in enumerate(instruction.operands)]
        (got,) = compiled(instruction, cpu).run(values)
        tolerance = k * np.finfo(dtype.numpy).eps
        bounds = tolerance * (np.abs(values[0]) @ np.abs(values[1]))
        exact = values[0].astype(np.longdouble) @ values[1].astype(np.longdouble)
        assert np.all(np.abs(got - exact) <= bounds), (m, n, k)


def test_rows_of_the_left_hand_side_are_fetched_ahead() -> None:
    """Where the costs say so: of a target whose groups ahead are 0 nothing of it is."""
    made = product((F32, F32), F32, 80, 128, 128)
    prefetches = []
    for name in ("x86-64-v4", "x86-64-v3", "znver4"):
        target = for_cpu(name, False)
        after = pipeline.run(module(made.operands, made), target, Dump())
        (instruction,) = (i for i in after.entry.instructions if i.opcode == "packed-dot")
        code = target.module()
        packed_dot.emit(code, target, instruction, "kernel")
        to_read = re.findall(r"call void @llvm.prefetch.p0\(ptr %[\w.]+, i32 0,", str(code))
        prefetches.append(len(to_read))
    assert prefetches == [1, 0, 1]


@pytest.mark.parametrize(
    ("name", "size", "k", "asked", "steps"),
    [
        ("x86-64-v4", 320, 320, 1, 2),  # one in each iteration, which is two steps
        ("x86-64-v4", 128, 128, 1, 1),  # a product that takes 26 us is not worth the code of two
        ("x86-64-v4", 320, 20, 28, 1),  # there are fewer steps than lines
        ("x86-64-v3", 320, 320, 6, 2),  # a core waits for so many at a time
    ],
)
def test_lines_of_results_are_asked_for_while_sums_are_computed(
    name: str, size: int, k: int, asked: int, steps: int
) -> None:
    target = for_cpu(name, False)
    kernel = kernel_of(target, size, size, k)
    code = target.module()
    packed_dot.emit(code, target, kernel.dot, "kernel")
    text = str(code)
    assert len(re.findall(r"call void @llvm.prefetch.p0\(ptr %[\w.]+, i32 1,", text)) == asked
    assert len(re.findall(r"= call [^@]*@llvm.fma.v", text)) == steps * kernel.rows * kernel.vectors


@of_integers
def test_transposed_result(cpu: str) -> None:
    """The product is computed the other way round; for u8 by s8 that needs another form."""
    for types in ((U8, S8, S32), (F32, F32, F32)):
        made = product(types[:2], types[2], 70, 90, 100)
        turned = op("transpose", made, dims=(90, 70), dimensions=(1, 0))
        after = pipeline.run(module(made.operands, turned), for_cpu(cpu, False), Dump())
        opcodes = [i.opcode for i in after.entry.instructions]
        assert "packed-dot" in opcodes
        assert not any("transpose" in o for o in opcodes)
        values = [
            random(t, o.dims, i) for i, (t, o) in enumerate(zip(types, made.operands, strict=False))
        ]
        (got,) = NativeSimulation(after, cpu).run(values)
        if types[2].is_integer:
            np.testing.assert_array_equal(got, reference(made, *values).T)
        else:
            near(got.T, made, values)


def test_epilogue() -> None:
    """What oneDNN takes in, a factor and an addition or a bias, generated products take in too."""
    made = product((F32, F32), F32, 70, 90, 100)
    other = hlo.parameter(2, made.shape)
    factor = hlo.broadcast(hlo.constant(2.5, F32), made.dims)
    scaled = op("add", op("multiply", made, factor), other)
    bias = hlo.parameter(2, hlo.Shape(F32, (90,)))
    biased = op("add", made, op("broadcast", bias, dims=made.dims, dimensions=(1,)))
    a, b = (random(F32, o.dims, i) for i, o in enumerate(made.operands))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for root, last, wanted in (
        (scaled, other, lambda c: 2.5 * exact + c),
        (biased, bias, lambda c: exact + c),
    ):
        after = pipeline.run(module([*made.operands, last], root), for_cpu("host", False), Dump())
        assert [i.opcode for i in after.entry.instructions if i.opcode != "parameter"][
            -1
        ] == "packed-dot"
        c = random(F32, last.dims, 2)
        (got,) = NativeSimulation(after).run([a, b, c])
        np.testing.assert_allclose(got, wanted(c), rtol=0, atol=2.5 * 102 * 2.0**-24 * 100)


@of_floats
@pytest.mark.parametrize("given", [S8, dtypes.U4, BF16, dtypes.F8E4M3FN], ids=str)
def test_conversions_are_part_of_the_packing(given: DType, cpu: str) -> None:
    """An operand that is converted first is read as it is, and converted where it is packed or copied."""
    for side in (0, 1):
        made = product((F32, F32), F32, 90, 100, 111)
        operands = list(made.operands)
        narrow = hlo.parameter(side, operands[side].shape.with_dtype(given))
        parameters = [narrow if n == side else o for n, o in enumerate(operands)]
        operands[side] = op("convert", narrow, dtype=F32)
        after = pipeline.run(
            module(parameters, made.replace(operands=operands)), for_cpu(cpu, False), Dump()
        )
        opcodes = [i.opcode for i in after.entry.instructions]
        assert "packed-dot" in opcodes
        assert "fusion" not in opcodes
        values = [random(F32, o.dims, n) for n, o in enumerate(parameters)]
        values[side] = np.round(values[side] * 3).clip(0, 15).astype(given.numpy)
        (got,) = NativeSimulation(after, cpu).run(values)
        near(got, made, [v.astype(np.float32) for v in values])


@pytest.mark.parametrize(
    ("types", "k"),
    [
        ((F64, F64, F64), 512),
        ((F32, F32, F32), 1024),
        ((S8, S8, S32), 4096),
        ((S16, S16, S32), 2048),
    ],
    ids=str,
)
@of_integers
def test_rows_that_compete_for_a_place_of_the_cache(
    types: tuple[DType, DType, DType], k: int, cpu: str
) -> None:
    """Tiles of rows that are 4 KB apart are low and wide on a Zen 4; results are right next to 4 KB too."""
    target = for_cpu(cpu, False)
    form = product_forms.choose_matrix(target, *types) or product_forms.choose(target, *types)
    ways = target.costs.memory.ways
    for depth in (k - form.group, k, k + form.group, 2 * k):
        m, n = 131, 4 * form.lanes + 3
        made = product(types[:2], types[2], m, n, depth)
        after = pipeline.run(module(made.operands, made), target, Dump())
        (kernel,) = (i for i in after.entry.instructions if i.opcode == "packed-dot")
        config = kernel.attributes["config"]
        competing = config["lhs_strides"][-2] * form.lhs.size % target.costs.memory.way == 0
        read_in_place = types[0] is form.lhs
        assert competing == (depth % k == 0)
        if competing and read_in_place and not form.is_matrix:
            assert config["rows"] <= ways
        else:
            tile = product_forms.choose_tile(target.costs.tiles, form, m, n)
            assert (config["rows"], config["width"]) == (tile.rows, tile.vectors * form.lanes)
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(after, cpu).run(values)
        if types[2].is_integer:
            np.testing.assert_array_equal(got, reference(made, *values))
        else:
            near(got, made, values)


@of_products((F32, F32, F32), (F64, F64, F64), (S8, S8, S32))
def test_results_do_not_depend_on_threads(
    types: tuple[DType, DType, DType], cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = product(types[:2], types[2], 150, 149, 512)
    values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
    simulation = compiled(made, cpu)
    found = []
    for pieces in (1, 2, 3, 1000):
        monkeypatch.setattr(simulation, "pieces", pieces)
        found.append(simulation.run(values)[0].tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("cpu_name", ["znver4", "znver5"])
def test_tiles_of_few_rows_are_wide(cpu_name: str) -> None:
    zen = for_cpu(cpu_name, False)
    tiles, memory = zen.costs.tiles, zen.costs.memory
    for types in ((F64, F64, F64), (F32, F32, F32), (S8, S8, S32)):
        form = product_forms.choose(zen, *types)
        most = product_forms.rows_in_place(memory, 4096)
        assert most == product_forms.rows_in_place(memory, 3 * 4096) == 6
        tile = product_forms.choose_tile(tiles, form, 512, 512, most)
        assert (tile.rows, tile.vectors) == (6, 4)
        assert product_forms.choose_tile(tiles, form, 512, 512).rows > 6
        for stride in (0, 2048, 4095, 4097, 6144):
            assert product_forms.rows_in_place(memory, stride) is None


@pytest.mark.parametrize(
    ("types", "m", "n", "wide"),
    [
        ((S8, S8), 16, 2048, True),
        ((S8, S8), 16, 512 + 64, True),  # rows of whole lines, of which two vectors have half a one
        ((S8, S8), 16, 1000, False),
        ((S8, S8), 513, 2048, False),  # packed
        ((BF16, BF16), 16, 1024, True),  # rows 2 KB apart
        ((BF16, BF16), 16, 512, False),
        ((BF16, BF16), 16, 1000, False),
        ((F32, F32), 16, 1024, True),
        ((F32, F32), 16, 128, False),  # small enough to be read where it lies
    ],
    ids=str,
)
def test_tiles_that_wait_for_rows_are_wide(
    types: tuple[DType, DType], m: int, n: int, wide: bool
) -> None:
    """On a Zen 5, whose tiles are computed before parts of rows have come that share few places of the caches."""
    made = product(types, S32 if types[0] is S8 else F32, m, n, 1000)
    vectors = {}
    for cpu in ("znver4", "znver5"):
        after = pipeline.run(module(made.operands, made), for_cpu(cpu, False), Dump())
        (found,) = (i for i in after.entry.instructions if i.opcode == "packed-dot")
        vectors[cpu] = found.attributes["config"]["width"] // 16
    assert vectors["znver4"] < 4
    assert vectors["znver5"] == (4 if wide else vectors["znver4"])


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_tiles_end_with_lines_of_the_result(dtype: DType) -> None:
    """With AVX2 three vectors are a line and a half: only a result that is no wider has such tiles."""
    target = for_cpu("x86-64-v3", False)
    form = product_forms.choose(target, dtype, dtype, dtype)
    for m in (384, 512, 1000):
        tile = product_forms.choose_tile(target.costs.tiles, form, m, 4096)
        assert (tile.rows, tile.vectors) == (6, 2)
        tile = product_forms.choose_tile(target.costs.tiles, form, m, 3 * form.lanes)
        assert tile.vectors == 3


@pytest.mark.parametrize("vectors", [5, 7])
@pytest.mark.parametrize(
    "types", [(F32, F32, F32), (F64, F64, F64), (BF16, BF16, F32), (S8, S8, S32)], ids=str
)
def test_results_of_a_few_vectors(types: tuple[DType, DType, DType], vectors: int) -> None:
    """A tile is as wide as the result where tiles of two vectors would compute columns twice."""
    target = for_cpu("neoverse-n1", False)  # 32 registers, as AVX-512 has
    form = product_forms.choose(target, *types)
    n = vectors * form.lanes
    assert product_forms.choose_tile(target.costs.tiles, form, n, n).vectors == vectors
    narrow = product_forms.choose(for_cpu("x86-64-v3", False), *types)
    wide = vectors * narrow.lanes
    assert product_forms.choose_tile(target.costs.tiles, narrow, wide, wide).vectors <= 3
    columns = vectors * product_forms.choose(for_cpu("host", False), *types).lanes
    made = product(types[:2], types[2], 83, columns, 1301)  # large enough with any CPU's vectors
    values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
    (got,) = compiled(made, "host").run(values)
    if types[2] is S32:
        np.testing.assert_array_equal(got, reference(made, *values))
        return
    exact = values[0].astype(np.float64) @ values[1].astype(np.float64)
    unit = 2.0 ** (-24 if types[2] is F32 else -53)
    bound = (
        1302 * unit * (np.abs(values[0]).astype(np.float64) @ np.abs(values[1]).astype(np.float64))
    )
    assert (np.abs(got - exact) <= 2 * bound).all()


def test_results_do_not_depend_on_how_the_work_is_shared_out() -> None:
    made = product((F32, F32), F32, 131, 200, 1025)
    simulation = compiled(made, "host")
    values = [random(F32, o.dims, i) for i, o in enumerate(made.operands)]
    (pieces,) = simulation.run(values)
    simulation.pieces = 1
    (whole,) = simulation.run(values)
    np.testing.assert_array_equal(pieces, whole)


def test_prefetched_addresses_may_lie_behind_the_array() -> None:
    """The rows behind the last ones, and the panel behind the last one, are asked for too: LLVM must not conclude that
    they are there. Only the lines of the result are.
    """
    made = product((BF16, BF16), F32, 300, 130, 1200)
    target = for_cpu("x86-64-v4", False)
    after = pipeline.run(module(made.operands, made), target, Dump())
    for opcode, kernel in (("pack", pack), ("packed-dot", packed_dot)):
        (instruction,) = (i for i in after.entry.instructions if i.opcode == opcode)
        code = target.module()
        kernel.emit(code, target, instruction, "kernel")
        text = str(code)
        fetched = re.findall(r"@llvm.prefetch.p0\(ptr (%[\w.]+), i32 0,", text)  # to read
        assert fetched
        for name in fetched:
            assert re.search(re.escape(name) + r" = getelementptr (\w+)", text)[1] != "inbounds"


def stack_bytes(code: str) -> int:
    """What the ``alloca`` instructions of LLVM assembly take."""
    sizes = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
    total = 0
    for type_, count in re.findall(r"= alloca ([\w]+)(?:, i64 (\d+))?", code):
        total += (sizes.get(type_) or -(-int(type_[1:]) // 8)) * int(count or 1)
    return total


@pytest.mark.parametrize(
    "cpu_name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "cascadelake", "znver4", "znver5"]
)
def test_stack(cpu_name: str) -> None:
    """Threads of frameworks have stacks of 8 MB, 2 MB or less: a kernel takes less than 512 KiB, whatever the shape.

    Narrow results have the longest pieces, tall ones the most rows, and conversions need a copy of them.
    """
    target = for_cpu(cpu_name, False)
    found = {}
    types = [
        (S8, S8, S32),
        (S8, S16, S32),
        (S32, S32, dtypes.S64),
        (F16, F16, F32),
        (F32, F32, F64),
        (BF16, BF16, F32),
    ]
    for given, m, n, k in itertools.product(
        types, (6, 128, 2000), (2, 4, 8, 16, 32, 100, 1000), (250, 700, 1500, 3001, 6000, 100_001)
    ):
        form = product_forms.choose_dot(target, *given)
        tile = product_forms.choose_tile(target.costs.tiles, form, m, n)
        if tile is None:
            continue
        width = tile.vectors * form.lanes
        config = {
            "batch": (), "m": m, "n": n, "k": k, "lhs_strides": (k, 1), "rhs_strides": (), "packed": True,
            "result_strides": (n, 1), "rows": tile.rows, "width": width, "form": form,
        }  # fmt: skip
        packed = (-(-n // width), -(-k // form.group), width, form.group)
        operands = [
            hlo.parameter(0, hlo.Shape(given[0], (m, k))),
            hlo.parameter(1, hlo.Shape(form.rhs, packed)),
        ]
        shape = hlo.Shape(form.result, (m, n))
        instruction = hlo.Instruction("packed-dot", shape, operands, {"config": config})
        code = target.module()
        packed_dot.emit(code, target, instruction, "product")
        found[(given, m, n, k)] = stack_bytes(str(code))
    assert max(found.values()) > 1 << 16
    assert {shape: size for shape, size in found.items() if size >= 512 << 10} == {}


@pytest.mark.parametrize(("m", "n", "k"), [(256, 256, 1024), (8192, 32000, 4096)])
@pytest.mark.parametrize("types", [(S8, S8), (U8, S8), (S8, U8), (BF16, BF16)], ids=str)
def test_products_are_generated_where_onednn_has_amx(
    types: tuple[DType, DType], m: int, n: int, k: int
) -> None:
    """Sums of bytes are exact however long they are, and matrices of any size are cut for the caches."""
    made = product(types, F32 if types[0] is BF16 else S32, m, n, k)
    target = for_cpu("graniterapids+amx-tile+amx-int8+amx-bf16", True)
    after = pipeline.run(module(made.operands, made), target, Dump())
    called = [i for c in after.computations() for i in c.instructions]
    (dot,) = (i for i in called if i.opcode == "packed-dot")
    assert dot.attributes["config"]["form"].is_matrix
    assert not any(i.opcode in ("dot", "library-call") for i in called)


def test_there_is_an_instruction_for_bytes() -> None:
    """Each CPU's own: not one that the next smaller CPU has as well."""
    names = {
        c: product_forms.choose(for_cpu(c), S8, S8, S32).instruction
        for c in ("x86-64-v2", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4", "cascadelake")
    }
    assert [n.rpartition("x86.")[2] for n in names.values()] == [
        "sse2.pmadd.wd",
        "avx2.pmadd.wd",
        "avx512.vpdpbusd.256",
        "avx512.pmaddw.d.512",
        "avx512.vpdpbusd.512",
    ]


@pytest.mark.parametrize("types", [(S8, S8, S32), (F64, F64, F64)], ids=str)
def test_code_for_arm(types: tuple[DType, DType, DType]) -> None:
    """LLVM has instructions for it (nobody runs them here)."""
    made = product(types[:2], types[2], 70, 90, 100)
    target = for_cpu("neoverse-n1", False)
    after = pipeline.run(module(made.operands, made), target, Dump())
    simulation = NativeSimulation.__new__(NativeSimulation)
    simulation.target, simulation.code = target, target.module()
    from tests.core.compiler.simulate import Simulation

    Simulation.__init__(simulation, after)
    assert target.compile(simulation.code).symbols
