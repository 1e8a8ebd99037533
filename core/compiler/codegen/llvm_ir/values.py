"""Types, values and constants of the kernel IR.

Types are LLVM's own spelling (``"float"``, ``"<16 x float>"``, ``"i64"``, ``"ptr"``). A :class:`Value` is what an
instruction may take: the result of another one, an argument of the function, a global or a constant. What is known of
it are its fields: whoever asks whether a value is a constant, which number it is, or whether it was made before another
one, reads a field and not the name that the value has in LLVM's text.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

Constant = int | float | str | tuple[int, ...]


class Value(NamedTuple):
    """An operand. Two values of a function are equal if they are the same one.

    ``ref`` is the name or constant that stands for it in LLVM's text. ``number`` says which value of its function it
    is: results of instructions have 1, 2, ... in the order in which they were made, arguments -1, -2, ..., constants
    and globals 0. ``constant`` is None for what is not a constant; else the number in every lane (0 or 1 for truth
    values, 0 for null), the numbers of the lanes if they differ, or :data:`POISON`.
    """

    type: str
    ref: str
    number: int = 0
    constant: Constant | None = None

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

    @property
    def is_global(self) -> bool:
        return self.number == 0 and self.constant is None


POISON: Final = "poison"


@functools.cache
def vector(scalar: str, lanes: int) -> str:
    """The type of ``lanes`` elements of ``scalar``; one lane is the scalar type itself."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@functools.cache
def lanes_of(type_: str) -> int:
    """How many elements a type has; 1 for a scalar."""
    return int(type_[1 : type_.index(" ")]) if type_[0] == "<" else 1


@functools.cache
def scalar_of(type_: str) -> str:
    """The element type of a vector, or the scalar type itself."""
    return type_[type_.index("x ") + 2 : -1] if type_[0] == "<" else type_


_SCALAR_BYTES: Final = {"ptr": 8, "double": 8, "float": 4, "half": 2, "bfloat": 2}


@functools.cache
def bytes_of(type_: str) -> int:
    """The bytes of a scalar, a vector or an array (``[8 x i32]``) in memory; a bit is counted as a byte."""
    if type_[0] in "<[":
        count, element = type_[1:-1].split(" x ", 1)
        return int(count) * bytes_of(element)
    return _SCALAR_BYTES[type_] if type_ in _SCALAR_BYTES else -(-int(type_[1:]) // 8)


@functools.cache
def mangle(type_: str) -> str:
    """The suffix of an overloaded intrinsic's name: float -> f32, <16 x float> -> v16f32, ptr -> p0."""
    scalar = scalar_of(type_)
    name = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}.get(
        scalar, scalar
    )
    return name if type_[0] != "<" else f"v{lanes_of(type_)}{name}"


def aggregate_type(types: Sequence[str]) -> str:
    """The type of several values that are handled as one."""
    return f"{{ {', '.join(types)} }}"


def _constant(type_: str, text: str, number: Constant) -> Value:
    if type_[0] == "<":
        text = f"splat ({scalar_of(type_)} {text})"
    return Value(type_, text, 0, number)


def integer(type_: str, value: int) -> Value:
    """An integer constant, or a splat of it; the value is wrapped to the type's width."""
    bits = int(scalar_of(type_)[1:])
    value &= (1 << bits) - 1
    if bits == 1:
        return _constant(type_, "true" if value else "false", value)
    if value >> (bits - 1):
        value -= 1 << bits
    return _constant(type_, str(value), value)


_NAN: Final = float("nan")  # always this one, so that values which are NaN are equal


def floating(type_: str, value: float) -> Value:
    """A floating-point constant, or a splat of it, rounded to the type. Types: half, float, double."""
    scalar = scalar_of(type_)
    if scalar == "double":
        rounded = value
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    elif scalar == "float":
        try:
            rounded = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            rounded = float("inf") if value > 0 else float("-inf")
        text = f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    elif scalar == "half":
        try:
            bits = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            bits = 0x7C00 if value > 0 else 0xFC00
        rounded = struct.unpack("<e", struct.pack("<H", bits))[0]
        text = f"0xH{bits:04X}"
    else:
        raise ValueError(f"no constants of type {type_}")
    return _constant(type_, text, rounded if rounded == rounded else _NAN)


def is_float_zero(value: Value, sign: int) -> bool:
    """Whether it is the floating-point zero of this sign (1 or -1) in every lane."""
    number = value.constant
    return isinstance(number, float) and number == 0 and math.copysign(1, number) == sign


def zero(type_: str) -> Value:
    text = "zeroinitializer" if type_[0] == "<" else _ZERO.get(type_, "0")
    return Value(type_, text, 0, 0.0 if scalar_of(type_) in _FLOATS else 0)


_FLOATS: Final = frozenset(("half", "bfloat", "float", "double"))
_ZERO: Final = {"float": "0.0", "double": "0.0", "half": "0xH0000", "ptr": "null", "i1": "false"}


def poison(type_: str) -> Value:
    """A value that means nothing: lanes and elements of it are put in later."""
    return Value(type_, POISON, 0, POISON)


def lanes_constant(scalar: str, numbers: Sequence[int]) -> Value:
    """A vector of integers or truth values (``scalar`` i1), one a lane."""
    texts = ("true" if n else "false" for n in numbers) if scalar == "i1" else map(str, numbers)
    text = ", ".join(f"{scalar} {t}" for t in texts)
    return Value(vector(scalar, len(numbers)), f"<{text}>", 0, tuple(map(int, numbers)))


def lane_numbers(value: Value) -> tuple[int, ...] | None:
    """The number in each lane of a vector of integers or truth values, if they are known."""
    number = value.constant
    if isinstance(number, tuple) or value.type[0] != "<" or scalar_of(value.type)[0] != "i":
        return number if isinstance(number, tuple) else None
    return (number,) * lanes_of(value.type) if isinstance(number, int) else None


TRUE: Final = Value("i1", "true", 0, 1)
FALSE: Final = Value("i1", "false", 0, 0)


def i64(value: int) -> Value:
    return Value("i64", str(value), 0, value)
