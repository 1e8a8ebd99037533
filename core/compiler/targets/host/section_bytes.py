"""A function's machine code with all that it uses, as bytes: what :mod:`..code_store` keeps."""

from __future__ import annotations

import struct
from typing import Final

from .linker import IMPORTABLE, Section, identify

_COUNT: Final = struct.Struct("<I")
# Alignment, whether it is code, bytes of it, number of references.
_SECTION: Final = struct.Struct("<H?II")
# The relocation, the place, the number of the section that is meant (or _IMPORTED), the addend.
_REFERENCE: Final = struct.Struct("<IIIq")
_IMPORTED: Final = 1 << 31  # with the number of the function in _IMPORTS
_IMPORTS: Final = tuple(sorted(IMPORTABLE))


def to_bytes(section: Section) -> bytes:
    """What :func:`from_bytes` makes a section of that is equal, with all that it refers to."""
    numbers: dict[Section, int] = {section: 0}
    order = [section]
    parts = []
    for each in order:  # which grows
        parts += [
            _SECTION.pack(each.alignment, each.is_code, len(each.code), len(each.references)),
            each.code,
        ]
        for kind, place, target, addend in each.references:
            if isinstance(target, str):
                number = _IMPORTED | _IMPORTS.index(target)
            else:
                number = numbers.setdefault(target, len(order))
                if number == len(order):
                    order.append(target)
            parts.append(_REFERENCE.pack(kind, place, number, addend))
    return b"".join([_COUNT.pack(len(order)), *parts])


def from_bytes(data: bytes) -> Section:
    """The section that :func:`to_bytes` wrote. ValueError for other bytes."""
    try:
        (count,) = _COUNT.unpack_from(data)
        sections, numbered = [], []
        at = _COUNT.size
        for _ in range(count):
            alignment, is_code, size, references = _SECTION.unpack_from(data, at)
            at += _SECTION.size
            sections.append(Section(data[at : at + size], alignment, is_code))
            at += size
            numbered.append(
                [_REFERENCE.unpack_from(data, at + i * _REFERENCE.size) for i in range(references)]
            )
            at += references * _REFERENCE.size
        for section, wanted in zip(sections, numbered, strict=True):
            section.references = [
                (
                    kind,
                    place,
                    _IMPORTS[number ^ _IMPORTED] if number & _IMPORTED else sections[number],
                    addend,
                )
                for kind, place, number, addend in wanted
            ]
        first = sections[0]
    except (struct.error, IndexError) as error:
        raise ValueError(f"these {len(data)} bytes do not describe a section: {error}") from None
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes are left behind a section")
    identify(first)
    return first


__all__ = ["from_bytes", "to_bytes"]
