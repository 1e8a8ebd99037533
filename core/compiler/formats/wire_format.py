"""The wire format of protocol buffers: numbers in base 128, and fields that are a number and a value.

Simple enough to write by hand, which spares a dependency and reads a field out of megabytes without parsing the rest.
https://protobuf.dev/programming-guides/encoding defines it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

# ------------------------------------------------------------------------------------------------------- writing


def varint(value: int) -> bytes:
    """An integer in base 128; negative ones as 64-bit two's complement."""
    if 0 <= value < 128:
        return _SMALL[value]
    if 0 <= value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 0:
        value += 1 << 64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(bytes((i,)) for i in range(128))
_VARINT_KEYS: Final = tuple(varint(n << 3 | VARINT) for n in range(100))
_BYTES_KEYS: Final = tuple(varint(n << 3 | BYTES) for n in range(100))


def integer(field: int, value: int) -> bytes:
    """An integer, boolean or enumeration field; absent when zero, as proto3 has it."""
    return _VARINT_KEYS[field] + varint(value) if value else b""


def message(field: int, payload: bytes) -> bytes:
    """A message, string or bytes field; present even when empty."""
    size = len(payload)
    return _BYTES_KEYS[field] + (_SMALL[size] if size < 128 else varint(size)) + payload


def text(field: int, value: str) -> bytes:
    """A string field; absent when empty."""
    if not value:
        return b""
    return message(field, value.encode("utf-8", "replace"))


def integers(field: int, values: Iterable[int]) -> bytes:
    """A packed repeated integer field; absent when empty."""
    payload = b"".join(map(varint, values))
    return message(field, payload) if payload else b""


def record(value: Any, **fields: int) -> bytes:
    """Fields of integers and of lists of them: the attributes of ``value`` with these names and field numbers."""
    values = ((number, getattr(value, name)) for name, number in fields.items())
    return b"".join(integers(n, v) if isinstance(v, tuple) else integer(n, v) for n, v in values)


def float32(field: int, value: float) -> bytes:
    """A ``float`` field; present even when zero."""
    return varint(field << 3 | FIXED32) + struct.pack("<f", value)


# ------------------------------------------------------------------------------------------------------- reading


class Field(NamedTuple):
    """A field of a message: its number, its value, and the bytes of both as they stand in the message.

    ``value`` is an int for a varint and a view of the bytes for everything else.
    """

    number: int
    value: int | memoryview
    whole: memoryview


def fields(data: bytes | memoryview) -> Iterator[Field]:
    """The fields of a message, in order. Raises ValueError if it is damaged."""
    view = memoryview(data)
    for number, kind, value, start, end in _places(view):
        field_value = value if kind == VARINT else view[value:end]
        yield Field(number, field_value, view[start:end])


def submessages(data: bytes | memoryview, number: int) -> Iterator[memoryview]:
    """The values of the fields of this number, but for those that are varints."""
    view = memoryview(data)
    for found, kind, value, _, end in _places(view):
        if found == number and kind != VARINT:
            yield view[value:end]


def _places(view: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """Each field's number, its wire type, the value of a varint or else where the value starts, and where the field
    starts and ends.
    """
    length = len(view)
    position = 0
    while position < length:
        start = position
        key = view[position]
        position += 1
        if key > 127:  # most keys and numbers are a byte
            key, position = read_varint(view, start)
        kind = key & 7
        if kind in (VARINT, BYTES):
            if position == length:
                raise ValueError("a field without a value")
            size = view[position]
            position += 1
            if size > 127:
                size, position = read_varint(view, position - 1)
            if kind == VARINT:
                yield key >> 3, kind, size, start, position
                continue
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"a field of the unknown wire type {kind}")
        end = position + size
        if end > length:
            raise ValueError("a field that ends after its message")
        yield key >> 3, kind, position, start, end
        position = end


def replaced(data: bytes | memoryview, changes: Mapping[int, Callable[[Field], bytes]]) -> bytes:
    """The message with what ``changes`` makes of the fields of its numbers; all others stay as they are."""
    return b"".join(
        changes[field.number](field) if field.number in changes else bytes(field.whole)
        for field in fields(data)
    )


def unpacked(field: Field) -> list[int]:
    """The integers of a repeated field, which writers may pack into one or give one by one."""
    if isinstance(field.value, int):
        return [field.value]
    numbers, position = [], 0
    while position < len(field.value):
        number, position = read_varint(field.value, position)
        numbers.append(number)
    return numbers


def values(
    data: bytes, position: int = 0, end: int | None = None, repeated: frozenset[int] = frozenset()
) -> dict[int, Any]:
    """The values of a message's fields by their numbers, where each field stands once: an int for a varint, bytes for
    everything else. Those of ``repeated`` may stand several times, and are then a list of such values.

    The message is ``data[position:end]``. Raises ValueError if it is damaged or has a field twice.
    """
    found: dict[int, Any] = {}
    if end is None:
        end = len(data)
    try:
        # This is most of the work of reading a program: numbers of one and of two bytes are read in place.
        while position < end:
            key = data[position]
            position += 1
            if key > 127:
                second = data[position]
                position += 1
                if second > 127:
                    key, position = read_varint(data, position - 2)
                else:
                    key += (second << 7) - 128
            kind = key & 7
            value: Any
            if kind in (VARINT, BYTES):
                value = data[position]
                position += 1
                if value > 127:
                    second = data[position]
                    position += 1
                    if second > 127:
                        value, position = read_varint(data, position - 2)
                    else:
                        value += (second << 7) - 128
                if kind == BYTES:
                    start = position
                    position += value
                    value = data[start:position]
            elif kind in (FIXED32, FIXED64):
                start = position
                position += 4 if kind == FIXED32 else 8
                value = data[start:position]
            else:
                raise ValueError(f"a field of the unknown wire type {kind}")
            number = key >> 3
            if number not in found:
                found[number] = value
            elif number not in repeated:
                raise ValueError(f"two fields of the number {number}")
            elif isinstance(found[number], list):
                found[number].append(value)
            else:
                found[number] = [found[number], value]
    except IndexError:
        raise ValueError("a field that ends after its message") from None
    if position != end:
        raise ValueError("a field that ends after its message")
    return found


def each(value: Any) -> list[Any]:
    """All values of a repeated field of :func:`values`."""
    return value if isinstance(value, list) else [value]


def unpacked_numbers(value: Any) -> list[int]:
    """The integers of a repeated field of :func:`values`, packed or one by one, of 64 bits and signed."""
    if isinstance(value, bytes):
        if value.isascii():  # each is a byte
            return list(value)
        numbers, position = [], 0
        length = len(value)
        while position < length:
            number = value[position]
            position += 1
            if number > 127:
                if position < length and value[position] < 128:  # two bytes: most ids
                    number += (value[position] << 7) - 128
                    position += 1
                else:
                    number, position = read_varint(value, position - 1)
                    number = signed(number)
            numbers.append(number)
        return numbers
    if isinstance(value, int):
        return [signed(value)]
    return [number for part in value for number in unpacked_numbers(part)]


def signed(number: int) -> int:
    """The integer of 64 bits in two's complement that a varint says."""
    return number if number < 1 << 63 else number - (1 << 64)


def float32_value(data: bytes) -> float:
    """The number of a ``float`` field. Raises ValueError for a field of another type."""
    if not isinstance(data, bytes) or len(data) != 4:
        raise ValueError("a float of other than 4 bytes")
    return float(struct.unpack("<f", data)[0])


def read_varint(view: memoryview | bytes, position: int) -> tuple[int, int]:
    """The number at ``position`` and where it ends. Raises ValueError for one that does not end."""
    if position + 1 < len(view):  # most are of one or two bytes
        value, second = view[position], view[position + 1]
        if value < 128:
            return value, position + 1
        if second < 128:
            return value + (second << 7) - 128, position + 2
    value = shift = 0
    while position < len(view) and shift < 70:
        byte = view[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("a number that does not end")
