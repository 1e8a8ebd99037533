"""Integers that four bits of a word decide: weights of four bits, in arrays of them or in words that programs unpack.

The generator knows of such a value which word it is made of, and which of 16 numbers it is for which bits. What is
computed of it and constants is another such value. The numbers are residues, modulo 2 to the power of the register's
bits: a register has no sign, and the same register may be read as another dtype (``bitcast_convert``, and ``convert``
between integers of one width, write no instruction). Whoever asks for the numbers names the dtype.

To convert such a value to f32 is one lookup then (``vpermps`` of AVX-512, which looks at the four lowest bits of each
lane alone), whatever masks, shifts to the sign and zero points the program has written. Where there is no such lookup,
codes of words of 32 bits are masked, or extended by shifts, in the word's own lanes; bytes of four bits are extended by
shifts of the words that they become. Instructions that nobody reads any more are LLVM's to drop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ...ir import hlo
from ...ir.dtypes import DType
from .. import llvm_ir
from ..llvm_ir import Value, lanes_of, vector

if TYPE_CHECKING:
    from ..generator import Generator

_BITS: Final = 4
_CODES: Final = range(1 << _BITS)
# Every integer up to here is a f32.
_LARGEST: Final = 1 << 24
_FOLDED: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "and": operator.and_,
    "multiply": operator.mul,
    "or": operator.or_,
    "subtract": operator.sub,
    "xor": operator.xor,
}


class Nibble(NamedTuple):
    """What is known of a value: for each code, the four lowest bits of ``word``, the register's bits as a number."""

    word: Value
    numbers: tuple[int, ...]


def note_wrapped(g: Generator, raw: Value, value: Value, dtype: DType) -> None:
    """``value`` is ``raw`` wrapped to ``dtype``, an integer type of at most four bits."""
    if dtype.bits > _BITS:
        return
    known = g.nibbles.get(raw.number)
    word, numbers = known if known is not None else (raw, tuple(_CODES))
    _note(g, value, word, [_read_as(n, dtype) for n in numbers])


def note_converted(g: Generator, value: Value, result: Value, source: DType) -> None:
    """``result`` is ``value``, an integer of dtype ``source``, in the width of another dtype's register."""
    known = g.nibbles.get(value.number)
    if known is not None and result is not value:
        _note(g, result, known.word, [_read_as(n, source) for n in known.numbers])


def note_result(g: Generator, i: hlo.Instruction, operands: list[Value], result: Value) -> None:
    """``result`` is what an elementwise instruction on integers gives for ``operands``."""
    if i.dtype.bits < 8 or len(operands) != 2:
        return
    fold = _FOLDED.get(i.opcode)
    for place, (value, other) in enumerate((operands, operands[::-1])):
        constant = other.constant
        if fold is None or not isinstance(constant, int):
            continue
        known = g.nibbles.get(value.number)
        if known is None and i.opcode == "and" and constant in _CODES:
            known = Nibble(value, tuple(_CODES))  # the mask leaves nothing else
        if known is not None:
            numbers = [
                fold(n, constant) if place == 0 else fold(constant, n) for n in known.numbers
            ]
            _note(g, result, known.word, numbers)
            return
    # The highest bits, moved down.
    if operands[1].constant == i.dtype.bits - _BITS:
        if i.opcode == "shift-right-logical":
            _note(g, result, result, _CODES)
        elif i.opcode == "shift-right-arithmetic":
            signed = [n - len(_CODES) * (n >> (_BITS - 1)) for n in _CODES]
            _note(g, result, result, signed)


def convert_to_float(g: Generator, value: Value, source: DType) -> Value | None:
    """``value``, an integer of dtype ``source``, as f32 by the four bits that decide it.

    None if they are not known, if that is not faster than to convert ``value``, or if f32 does not hold its numbers.
    """
    known = g.nibbles.get(value.number)
    if known is None or not g.target.is_x86:
        return None
    numbers = tuple(_read_as(n, source) for n in known.numbers)
    if any(abs(n) > _LARGEST for n in numbers):
        return None  # the conversion rounds
    b, lanes = g.builder, lanes_of(value.type)
    type_ = vector("i32", lanes)
    if lanes == 16 and g.target.vector_bytes >= 64:
        words = _extended(g, known.word, type_)
        table = _floats(numbers)
        return b.call(table.type, "llvm.x86.avx512.permvar.sf.512", [table, words])
    if lanes == 1 or lanes_of(known.word.type) != lanes:
        return None
    start = numbers[0]
    if _bits(known.word) == 32 and numbers == tuple(start + n for n in _CODES):
        # LLVM would take the words apart into bytes, where programs compute the numbers, and extend these again.
        code = b.binary("and", known.word, llvm_ir.integer(type_, len(_CODES) - 1))
        return b.cast("sitofp", b.add(code, llvm_ir.integer(type_, start)), vector("float", lanes))
    half = len(_CODES) // 2
    signed = numbers == (*range(half), *range(-half, 0))
    if signed and _bits(known.word) in (8, 32):
        by = llvm_ir.integer(type_, 32 - _BITS)
        shifted = b.binary("shl", _extended(g, known.word, type_), by)
        return b.cast("sitofp", b.binary("ashr", shifted, by), vector("float", lanes))
    return None


def _note(g: Generator, value: Value, word: Value, numbers: Sequence[int]) -> None:
    if value.number > 0:
        mask = (1 << _bits(value)) - 1
        g.nibbles[value.number] = Nibble(word, tuple(n & mask for n in numbers))


def _read_as(number: int, dtype: DType) -> int:
    """The number that the lowest bits of ``number`` are in ``dtype``."""
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if dtype.is_signed and number >> (dtype.bits - 1) else number


def _bits(value: Value) -> int:
    return int(llvm_ir.scalar_of(value.type)[1:])


def _extended(g: Generator, word: Value, type_: str) -> Value:
    bits = _bits(word)
    if bits == 32:
        return word
    return g.builder.cast("zext" if bits < 32 else "trunc", word, type_)


def _floats(numbers: tuple[int, ...]) -> Value:
    text = ", ".join(f"float {n}.0" for n in numbers)
    return Value(vector("float", len(numbers)), f"<{text}>", 0, numbers)
