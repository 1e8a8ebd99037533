"""Names of Python functions in programs, which the compiler and the cache do not see."""

from __future__ import annotations

import struct
import zlib

import pytest
from tripont.core._tripont import testing

NAME = b"tripont.callback."


def name(number: int) -> bytes:
    return NAME + b"%016x" % number


def sealed(content: bytes) -> bytes:
    """Bytes with the header of an artifact: what PutBack knows of one is where its checksum is."""
    return bytes(12) + struct.pack("<IQ", zlib.crc32(content), 24 + len(content)) + content


def test_names_become_numbers_by_their_first_occurrence() -> None:
    numbers = 0xEA638487FD000001, 0xEA638487FD000002
    a, b = map(name, numbers)
    program = b"\0x" + b + b + b"\xff" + a + b" " + b
    artifact = sealed(name(1) + b"padding" + name(0) + name(1))
    masked, restored = testing.without_callback_names(program, artifact, numbers)
    assert masked == b"\0x" + name(0) + name(0) + b"\xff" + name(1) + b" " + name(0)
    assert restored == sealed(a + b"padding" + b + a)


def test_more_names_than_a_digit_counts() -> None:
    numbers = [(1 << 63) + 7 * n for n in range(300)]
    names = list(map(name, numbers))
    masked, restored = testing.without_callback_names(
        b"".join(names), sealed(b"".join(map(name, range(300)))), numbers
    )
    assert masked == b"".join(map(name, range(300)))
    assert restored == sealed(b"".join(names))


def test_what_stands_for_no_name_of_the_program_stays() -> None:
    number = 1 << 63
    _, restored = testing.without_callback_names(name(number), sealed(name(1) + name(0)), [number])
    assert restored == sealed(name(1) + name(number))


def test_data_in_the_form_of_a_name_stays() -> None:
    """A constant of bytes may look like a name, or like what stands for one: the compiler must see it as it is."""
    number, other = 0xEA638487FD000001, 0xEA638487FD000002
    data = name(other) + name(0) + name(2)
    masked, restored = testing.without_callback_names(
        data + name(number), sealed(name(1) + data + name(1)), [number]
    )
    assert masked == data + name(1)
    assert restored == sealed(name(number) + data + name(number))
    assert testing.without_callback_names(data, sealed(data), []) == (data, sealed(data))


@pytest.mark.parametrize(
    "program",
    [b"", NAME, NAME + b"0123", NAME + b"0123456789abcdeX", NAME + b"0123456789ABCDEF", NAME * 3],
)
def test_what_is_no_name_stays(program: bytes) -> None:
    artifact = b"no artifact, shorter"
    assert testing.without_callback_names(program, artifact, [1]) == (program, artifact)


def test_bytes_that_are_no_artifact() -> None:
    assert testing.without_callback_names(name(1 << 63), b"short", [1 << 63])[1] == b"short"
