"""How a vector of a matrix product's result is accumulated: the instructions of each CPU for sums of products.

A :class:`ProductForm` multiplies *groups*: ``group`` neighbouring elements along the contracted dimension, which one
instruction multiplies and sums. A group of lhs is one scalar of ``scalar`` (a float, or an integer that holds two or
four elements), repeated in all lanes; ``lanes`` groups of rhs are one vector, packed so by :mod:`.pack`. All forms of
integers are exact modulo 2**32, whatever the values and however long the sums are:

===========  =====  ===========================================================================================
form         group  instruction
===========  =====  ===========================================================================================
fma          1      multiply-add of f32 or f64
multiply     1      multiplication and addition of integers as wide as the result
pairs        2      s16 by s16: pmaddwd sums a pair in 32 bits (AVX-512 VNNI and AVX-VNNI: vpdpwssd adds it too)
quadruples   4      u8 by s8: vpdpbusd, which adds four products of 16 bits in 32 bits without saturation
bf16 pairs   2      bf16 by bf16 in f32: vdpbf16ps, which adds two exact products, one after the other, rounding twice.
                    Subnormal operands, products and sums are zero
matrix       2, 4   AMX: bf16 by bf16 in f32, 8-bit by 8-bit integers in 32 bits. One instruction multiplies up to 16
                    rows of lhs by 16 columns of rhs, 16 groups deep (:mod:`.matrix_tiles`)
===========  =====  ===========================================================================================

vpdpbusd wants one operand without sign and one with. Where both have a sign, or neither, the bytes of rhs are packed
with their highest bit flipped, which adds or subtracts 128: ``correction`` times the sum of lhs's row makes up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...ir import dtypes
from ...ir.dtypes import DType
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from ..representation import memory_type

if TYPE_CHECKING:
    from ...targets.costs import Memory, Tiles
    from ...targets.target import Target

# The most rows that a tile can have, by the number of registers and of vectors in a row: the accumulators, the vectors
# of rhs, and what an instruction needs besides have to fit.
_ROWS: Final = {
    32: {1: 20, 2: 14, 3: 9, 4: 6, 5: 5, 6: 4, 7: 3},
    16: {1: 10, 2: 6, 3: 4},
}
_LINE: Final = 64  # bytes
#: The name of the form with an instruction for pairs of bf16.
BF16_PAIRS: Final = "bf16 pairs"
# Wider tiles than that read more of rhs for each product: they are for results that such a tile is as wide as.
_NARROW: Final = 3
# The same where panels are copied from where they lie: with AVX-512 so many vectors have whole lines of bytes.
_COPIED: Final = 4
# The part of all vectors that tiles of another width for the last panel save, at least.
_LEAST_SKIPPED: Final = 1 / 32
# Tiles of one width are preferred to those of two, which are twice the code, unless they take so many times as long.
_TWO_WIDTHS: Final = 1.05
_BYTES: Final = frozenset((dtypes.S8, dtypes.U8))
_SHORTS: Final = frozenset((dtypes.S8, dtypes.U8, dtypes.S16))


@dataclass(frozen=True, slots=True)
class ProductForm:
    """One way to accumulate; see the module's docstring.

    ``lhs`` and ``rhs`` are the element types that the kernel reads, ``result`` the accumulator's.
    """

    name: str
    lhs: DType
    rhs: DType
    result: DType
    group: int
    lanes: int
    rows: int  # of a tile of two vectors at most: for the number of registers
    correction: int = 0
    instruction: str = ""
    depth: int = 1  # groups that an instruction sums

    @property
    def is_matrix(self) -> bool:
        """Whether an instruction multiplies matrices: AMX."""
        return self.depth > 1

    @property
    def step(self) -> int:
        """Neighbours along the contracted dimension that an instruction sums."""
        return self.group * self.depth

    def groups(self, k: int) -> int:
        """The groups of a packed sum of ``k`` products: whole steps, zeros behind the last product."""
        return -(-k // self.step) * self.depth

    @property
    def scalar(self) -> str:
        """The LLVM type of a group of lhs."""
        if self.group == 1:
            return memory_type(self.lhs)
        return f"i{self.group * self.lhs.size * 8}"

    @property
    def flips(self) -> bool:
        """Whether rhs is packed with the highest bit of each byte flipped."""
        return self.correction != 0

    @property
    def turns_words(self) -> bool:
        """Whether a rhs of [n, k] is turned while it is packed, in words of a group, and may be computed then."""
        return self.is_matrix or self.name in (BF16_PAIRS, "quadruples")

    @property
    def accumulator(self) -> str:
        return llvm_ir.vector(memory_type(self.result), self.lanes)

    @property
    def vector(self) -> str:
        """The LLVM type of a vector of rhs as it is loaded."""
        return llvm_ir.vector(memory_type(self.rhs), self.lanes * self.group)

    @property
    def registers(self) -> int:
        """How many registers of vectors there are."""
        return 32 if self.rows > 6 else 16

    def most_rows(self, vectors: int) -> int:
        """The most rows of a tile that is ``vectors`` wide."""
        most = _ROWS[self.registers]
        return max(1, most[vectors] * self.rows // most[2])

    def repeated(self, b: Builder, scalar: Value) -> Value:
        """A group of lhs in all lanes."""
        return b.cast("bitcast", b.splat(scalar, self.lanes), self.vector)

    def multiply_add(self, b: Builder, left: Value, right: Value, total: Value) -> Value:
        """``total`` plus the products of the groups in ``left`` (see :meth:`repeated`) and ``right``."""
        name = self.name
        if name == "fma":
            if self.instruction:
                return b.intrinsic("fma", [left, right, total])
            return b.binary("fadd", b.binary("fmul", left, right), total)
        if name == "multiply":
            return b.binary("add", b.binary("mul", left, right), total)
        if name == "quadruples":
            # The operand without sign comes first: rhs, if lhs has one.
            first, second = (left, right) if self.lhs is dtypes.U8 else (right, left)
            return b.call(self.accumulator, self.instruction, [total, first, second])
        if name == BF16_PAIRS:
            # The last operand may be a pair in memory, repeated by the instruction: one that is used once has no other
            # instruction then, which would take a third longer.
            pair = [b.cast("bitcast", v, f"<{2 * self.lanes} x bfloat>") for v in (right, left)]
            return b.call(self.accumulator, self.instruction, [total, *pair])
        if "vpdpwssd" in self.instruction:
            return b.call(self.accumulator, self.instruction, [total, left, right])
        if self.instruction:
            products = b.call(self.accumulator, self.instruction, [left, right])
            return b.binary("add", products, total)
        for part in range(2):  # no instruction for it: each half of the pairs by itself
            places = range(part, 2 * self.lanes, 2)
            halves = [
                b.cast("sext", b.shuffle(v, v, places), self.accumulator) for v in (left, right)
            ]
            total = b.binary("add", b.binary("mul", *halves), total)
        return total


def choose_matrix(target: Target, lhs: DType, rhs: DType, result: DType) -> ProductForm | None:
    """The form of AMX for a product of these element types on ``target``; None if there is none."""
    if lhs is rhs is dtypes.BF16 and result is dtypes.F32 and target.has("amx-bf16"):
        return ProductForm("matrix", lhs, rhs, result, 2, 16, 32, 0, "tdpbf16ps", 16)
    if lhs in _BYTES and rhs in _BYTES and result is dtypes.S32 and target.has("amx-int8"):
        signs = "".join("s" if t.is_signed else "u" for t in (lhs, rhs))
        return ProductForm("matrix", lhs, rhs, result, 4, 16, 32, 0, f"tdpb{signs}d", 16)
    return None


def choose_pairs(target: Target, lhs: DType, rhs: DType, result: DType) -> ProductForm | None:
    """The form of bf16's instruction for vectors, where that is faster than multiply-adds of f32; None elsewhere."""
    is_faster = target.has("avx512bf16") and target.costs.products.pairs_bf16
    if not (is_faster and lhs is rhs is dtypes.BF16 and result is dtypes.F32):
        return None
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    return ProductForm(BF16_PAIRS, lhs, rhs, result, 2, 16, 14, 0, name)


def choose_dot(target: Target, lhs: DType, rhs: DType, result: DType) -> ProductForm | None:
    """The form of a packed product of these element types on ``target``; None if there is none."""
    types = (lhs, rhs, result)
    return choose_matrix(target, *types) or choose_pairs(target, *types) or choose(target, *types)


def choose(target: Target, lhs: DType, rhs: DType, result: DType) -> ProductForm | None:
    """The form of vectors for a product of these element types on ``target``; None if there is none.

    The operands have to be converted to the form's types, which hold all their values.
    """
    rows = 14 if target.vector_bytes >= 64 or not target.is_x86 else 6
    width = target.vector_bytes
    bits = 8 * width
    if result is dtypes.S32 and lhs in _SHORTS and rhs in _SHORTS:
        lanes = width // 4
        vnni = (target.has("avx512vnni") and (width == 64 or target.has("avx512vl"))) or (
            target.has("avxvnni") and width == 32
        )
        if vnni and lhs in _BYTES and rhs in _BYTES:
            correction = 0 if lhs is not rhs else -128 if lhs is dtypes.S8 else 128
            name = f"llvm.x86.avx512.vpdpbusd.{bits}"
            return ProductForm("quadruples", lhs, rhs, result, 4, lanes, rows, correction, name)
        name = ""
        if target.is_x86:
            name = {16: "llvm.x86.sse2.pmadd.wd", 32: "llvm.x86.avx2.pmadd.wd"}.get(
                width, "llvm.x86.avx512.pmaddw.d.512"
            )
            rows = rows if width == 64 else 6 if width == 32 else 4
        if vnni:
            name, rows = f"llvm.x86.avx512.vpdpwssd.{bits}", rows if width == 64 else 6
        return ProductForm("pairs", dtypes.S16, dtypes.S16, result, 2, lanes, rows, 0, name)
    if result.is_integer and result.bits >= 32 and lhs.is_integer and rhs.is_integer:
        if lhs.bits > result.bits or rhs.bits > result.bits:
            return None
        lanes = width // result.size
        return ProductForm(
            "multiply", result, result, result, 1, lanes, min(rows, 5 if width < 64 else 12)
        )
    if not (lhs.is_float and rhs.is_float and result in (dtypes.F32, dtypes.F64)):
        return None
    if lhs.bits > result.bits or rhs.bits > result.bits:
        return None
    has_fma = target.has("fma") or not target.is_x86
    lanes = width // result.size
    rows = rows if has_fma else 4
    return ProductForm("fma", result, result, result, 1, lanes, rows, 0, "fma" if has_fma else "")


@dataclass(frozen=True, slots=True)
class TileSize:
    """``rows`` by ``vectors`` vectors of the result, which are accumulated in registers together."""

    rows: int
    vectors: int


def rows_in_place(memory: Memory, stride: int) -> int | None:
    """The most rows of a tile of lhs, whose rows lie ``stride`` bytes apart; None if any number will do.

    Rows that are a multiple of a way apart compete for one place of the nearest cache: more of them than it has ways
    push one another out, and each of their lines is read again for every element.
    """
    return memory.ways if stride and stride % memory.way == 0 else None


def last_vectors(n: int, vectors: int, lanes: int) -> int:
    """The vectors of the tiles of the last panel of an ``n`` wide result, whose other panels have ``vectors``.

    They end with the result, as the panel does, whose first vectors were computed in the panel before. A kernel with
    tiles of two widths is longer: with many panels there is nothing to be gained by it.
    """
    panels = -(-n // (vectors * lanes))
    needed = -(-(n - (panels - 1) * vectors * lanes) // lanes)
    gains = panels > 1 and vectors - needed >= _LEAST_SKIPPED * panels * vectors
    return needed if gains else vectors


def choose_tile(
    costs: Tiles,
    form: ProductForm,
    m: int,
    n: int,
    most_rows: int | None = None,
    *,
    waits: bool = False,
) -> TileSize | None:
    """The tile with which an ``m`` by ``n`` result takes the least time; None if ``n`` is less than a vector.

    The last tile of a dimension is moved back to end with it, so that some elements are computed twice. A result of a
    few vectors may be as wide as a tile: 80 columns of f32 are 5 vectors, of which tiles of 2 would compute 6. Where
    there are at most ``most_rows`` rows (:func:`rows_in_place`) any tile may be wide. ``waits``: panels are copied
    from where they lie while they are multiplied, and each part of a row has to be waited for: wide ones have fewer.
    """
    if n < form.lanes or m < 1:
        return None
    if form.is_matrix:
        return choose_matrix_tile(form, m, n)[1]
    most_rows = most_rows or form.most_rows(1)
    narrow = _NARROW if most_rows >= form.most_rows(2) else len(_ROWS[form.registers])
    runs = form.group * costs.copied_run if waits else 0.0
    if runs:
        narrow = max(narrow, _COPIED)
    best: tuple[float, TileSize] | None = None
    for vectors in (2, 3, 1, *range(_NARROW + 1, len(_ROWS[form.registers]) + 1)):
        if n < vectors * form.lanes:
            continue
        if vectors > narrow and n > vectors * form.lanes:
            continue
        panels = -(-n // (vectors * form.lanes))
        for rows in range(min(m, most_rows, form.most_rows(vectors)), 0, -1):
            last = last_vectors(n, vectors, form.lanes)
            cost = costs.cycles(rows * vectors, rows + vectors) * (panels - 1) + costs.step * panels
            cost = -(-m // rows) * (cost + costs.cycles(rows * last, rows + last))
            if last < vectors:
                cost *= _TWO_WIDTHS
            if panels > 1 and vectors * form.lanes * form.result.size % _LINE:
                cost *= costs.parts_of_lines
            cost += runs * panels
            if best is None or cost < best[0] * 0.995:
                best = cost, TileSize(rows, vectors)
    return best[1] if best else None


def choose_matrix_tile(form: ProductForm, m: int, n: int) -> tuple[int, TileSize]:
    """The tile of an ``m`` by ``n`` result with AMX's registers (four for sums, two each for lhs and rhs), and half
    cycles that a step of all tiles takes. ``n`` is at least the columns of a register.

    A multiplication takes a cycle for each row of lhs, two loads of a register as many as it has rows.
    """
    best: tuple[int, TileSize] | None = None
    for vectors, most_rows in ((2, 32), (1, 32), (4, 16), (3, 16)):
        if n < vectors * form.lanes:
            continue
        rows = -(-m // -(-m // most_rows))
        parts = -(-rows // 16)
        part = -(-rows // parts)
        multiplied = parts * vectors * part
        loaded = parts * part + vectors * form.depth
        tiles = -(-m // rows) * -(-n // (vectors * form.lanes))
        cost = tiles * (2 * max(multiplied, loaded // 2) + loaded)
        if best is None or cost < best[0]:
            best = cost, TileSize(rows, vectors)
    assert best is not None  # one vector is always narrow enough
    return best
