"""The wire format of protocol buffers, written and read back, and damaged bytes."""

from __future__ import annotations

import struct

import pytest
from tripont.core.compiler.formats import wire_format as wire


@pytest.mark.parametrize("value", [1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_integers(value: int) -> None:
    (field,) = wire.fields(wire.integer(5, value))
    assert field.number == 5
    assert field.value == value % 2**64


def test_absent_when_empty() -> None:
    assert wire.integer(1, 0) == wire.text(1, "") == wire.integers(1, []) == b""
    assert wire.message(1, b"") == b"\x0a\x00"


def test_fields_in_order() -> None:
    parts = [
        wire.integer(1, 7),
        wire.text(2, "ü"),
        wire.float32(3, 1.5),
        wire.integers(4, [1, 300]),
    ]
    found = list(wire.fields(b"".join(parts)))
    assert [f.number for f in found] == [1, 2, 3, 4]
    assert [bytes(f.whole) for f in found] == parts
    assert bytes(found[1].value).decode() == "ü"
    assert struct.unpack("<f", found[2].value) == (1.5,)
    assert wire.unpacked(found[3]) == [1, 300]
    assert wire.unpacked(found[0]) == [7]


def test_replaced() -> None:
    given = wire.integer(1, 7) + wire.text(2, "a") + wire.text(3, "b") + wire.text(2, "c")
    changes = {2: lambda field: wire.text(9, bytes(field.value).decode() * 2), 3: lambda _: b""}
    assert wire.replaced(given, changes) == wire.integer(1, 7) + wire.text(9, "aa") + wire.text(
        9, "cc"
    )
    assert wire.replaced(given, {}) == given


def test_submessages() -> None:
    inner = wire.message(9, wire.text(1, "a")) + wire.integer(9, 3) + wire.message(8, b"")
    assert [bytes(m) for m in wire.submessages(inner, 9)] == [b"\x0a\x01a"]


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x80", b"\x0b", b"\x09\x00", b"\xff" * 11])
def test_damaged(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"field|number"):
        list(wire.fields(data))


def test_values_of_a_message() -> None:
    data = (
        wire.integer(1, 300)
        + wire.text(36, "ab")
        + wire.float32(3, 1.5)
        + wire.integers(4, [1, -2])
    )
    found = wire.values(data)
    assert found[1] == 300
    assert found[36] == b"ab"
    assert wire.float32_value(found[3]) == 1.5
    assert wire.unpacked_numbers(found[4]) == [1, -2]


def test_values_that_are_repeated() -> None:
    data = wire.message(4, b"\1") + wire.message(4, b"\2\3") + wire.integer(4, 4)
    found = wire.values(data, repeated=frozenset((4,)))
    assert wire.unpacked_numbers(found[4]) == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="two fields"):
        wire.values(data)


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x0a\x05abc", b"\x0b", b"\x80", b"\x0a\xff\xff", b"\x0d\1"]
)
def test_values_of_a_damaged_message(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"field|number"):
        wire.values(data)


def test_values_of_a_part_end_with_it() -> None:
    data = wire.text(1, "abc") + wire.integer(2, 5)
    assert wire.values(data, 5) == {2: 5}
    with pytest.raises(ValueError, match="after its message"):
        wire.values(data, 0, 4)
