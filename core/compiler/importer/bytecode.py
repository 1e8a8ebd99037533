"""The envelope of MLIR bytecode: enough of the format to refuse damaged bytes before MLIR sees them.

MLIR's own reader reports most damage as an error, but some makes it abort. Checking that the header is text and that
the sections fill the file exactly catches truncated and arbitrary bytes; damage inside a section can still end the
process, which is one reason why compiling happens in a worker process.

Layout: magic ``ML\\xefR``, version (varint), producer (text ended by a zero byte), sections. A section: number (one
byte, the high bit says that an alignment follows), length (varint), alignment (varint) and padding if any, data. A
varint keeps its length in the trailing zero bits of its first byte.
"""

from __future__ import annotations

from typing import Final

from ..ir.errors import CompileError, invalid_argument

MAGIC: Final = b"ML\xefR"
_NEWEST_VERSION: Final = 64  # far above any that exists; MLIR itself says which it reads
_SECTIONS: Final = 16
_MAX_PRODUCER: Final = 256
_ALIGNED: Final = 0x80


def is_bytecode(program: bytes) -> bool:
    """Whether bytes start like MLIR bytecode."""
    return program.startswith(MAGIC)


def producer(program: bytes) -> str:
    """Who wrote the bytecode; a StableHLO portable artifact says ``StableHLO_v1.2.3``. INVALID_ARGUMENT if damaged."""
    return _header(program)[0]


def check_envelope(program: bytes) -> None:
    """Raise INVALID_ARGUMENT unless the header is sound and the sections fill ``program`` exactly."""
    _, position = _header(program)
    seen: set[int] = set()
    while position < len(program):
        number = program[position]
        length, position = _varint(program, position + 1)
        if number & _ALIGNED:
            alignment, position = _varint(program, position)
            if alignment == 0 or alignment & (alignment - 1) or alignment > 1 << 20:
                raise _damaged(f"section alignment {alignment}")
            position = (position + alignment - 1) & -alignment
        number &= _ALIGNED - 1
        if number >= _SECTIONS or number in seen:
            raise _damaged(f"unexpected section {number}")
        seen.add(number)
        position += length
    if position != len(program):
        raise _damaged(f"{position - len(program)} bytes are missing at the end")


def _header(program: bytes) -> tuple[str, int]:
    """The producer, and where the sections start."""
    version, position = _varint(program, len(MAGIC))
    if version > _NEWEST_VERSION:
        raise _damaged(f"bytecode version {version}")
    end = program.find(b"\0", position, position + _MAX_PRODUCER)
    name = program[position:end]
    if end < 0 or not name.isascii() or not name.decode("ascii").isprintable():
        raise _damaged("the producer is not text")
    return name.decode("ascii"), end + 1


def _varint(program: bytes, position: int) -> tuple[int, int]:
    """The number at ``position`` and the position after it."""
    if position >= len(program):
        raise _damaged("it ends early")
    first = program[position]
    size = 9 if first == 0 else (first & -first).bit_length()
    raw = program[position : position + size]
    if len(raw) < size:
        raise _damaged("it ends early")
    value = (
        int.from_bytes(raw[1:], "little") if size == 9 else int.from_bytes(raw, "little") >> size
    )
    return value, position + size


def _damaged(what: str) -> CompileError:
    return invalid_argument(f"the program is damaged MLIR bytecode: {what}")
