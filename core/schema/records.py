"""The language that records are defined in.

A record is a class with annotated fields, a dataclass or a NamedTuple. Its fields are written in order, little-endian:

====================  ============================================================================================
``U8`` to ``F64``     the number
``bool``              u8: 0 or 1
``str``               u32 size in bytes, UTF-8
``bytes``             u32 size, content
``Large``             u64 size, content; C++ has it as a view of the bytes that it is read from
an Enum               u8; its members are numbered from 0
``tuple[T, ...]``     u32 number of elements, the elements
``dict[str, T]``      u32 number of entries, key and value of each
a record              its fields
``A | B | C``         u8 number of the alternative, then its value; such a union has a name in its module
``Shape``             u8 element type, u32 rank, i64 dimensions; each language has a class of its own for it
``Section``           nothing: the content is a section of the file
====================  ============================================================================================

``codec.py`` reads and writes records by this. ``generate.py`` makes C++ structs, which the templates of
``core/runtime/record_reader.h`` read.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from dataclasses import dataclass
from functools import cache
from types import GenericAlias, ModuleType, UnionType
from typing import Any, Final

U8 = int
U32 = int
U64 = int
I32 = int
I64 = int
F64 = float
Section = bytes
Large = bytes

# By the name of each type of numbers: the letter of Python's struct, C++'s name.
NUMBERS: Final = {
    "U8": ("B", "uint8_t"),
    "U32": ("I", "uint32_t"),
    "U64": ("Q", "uint64_t"),
    "I32": ("i", "int32_t"),
    "I64": ("q", "int64_t"),
    "F64": ("d", "double"),
    "bool": ("?", "bool"),
}


# Metadata of a dataclass's field that is written before, or after, the record's others.
FIRST: Final = {"order": -1}
LAST: Final = {"order": 1}


def in_section(section: str) -> dict[str, str]:
    """Metadata of a field that is written in another section of the file than the record's others."""
    return {"section": section}


@dataclass(frozen=True)
class Type:
    """``kind``: "number", "str", "bytes", "large", "shape", "section", "enum", "record", "union", "list" or "map"."""

    kind: str
    name: str = ""  # of numbers and of what the module defines
    element: Type | None = None  # of a list or map


@dataclass(frozen=True)
class Field:
    """One field of a record. ``default``: a number or a string, else None."""

    name: str
    type: Type
    default: Any = None
    section: str = ""  # where it is written; "": with the record


def parse(text: str, module: ModuleType) -> Type:
    """The type that the annotation ``text`` in ``module`` means. TypeError for one that records cannot have."""
    if text in NUMBERS:
        return Type("number", text)
    if text in ("str", "bytes", "Large", "Shape", "Section"):
        return Type(text.lower())
    if found := re.fullmatch(r"tuple\[(.+), \.\.\.\]", text):
        return Type("list", element=parse(found[1], module))
    if found := re.fullmatch(r"dict\[str, (.+)\]", text):
        return Type("map", element=parse(found[1], module))
    defined = getattr(module, text, None)
    if isinstance(defined, UnionType):
        return Type("union", text)
    if isinstance(defined, type):
        return Type("enum" if issubclass(defined, enum.Enum) else "record", text)
    raise TypeError(f"{module.__name__}: {text!r} is not a type that a record's field can have")


@cache
def fields_of(record: type, module: ModuleType) -> tuple[Field, ...]:
    """The fields of a record that ``module`` defines, in the order in which they are written."""
    if not dataclasses.is_dataclass(record):  # a NamedTuple
        hints = record.__annotations__.items()
        return tuple(
            Field(n, parse(str(getattr(t, "__forward_arg__", t)), module)) for n, t in hints
        )
    ordered = sorted(dataclasses.fields(record), key=lambda f: f.metadata.get("order", 0))
    return tuple(
        Field(
            f.name,
            parse(str(f.type), module),
            f.default if isinstance(f.default, int | float | str) else None,
            f.metadata.get("section", ""),
        )
        for f in ordered
    )


@cache
def alternatives(name: str, module: ModuleType) -> tuple[Type, ...]:
    """The types of the union ``name`` of ``module``, in the order of their numbers."""
    texts = []
    for each in getattr(module, name).__args__:
        if isinstance(each, GenericAlias):
            texts.append("tuple[I64, ...]" if each.__args__[0] is int else "tuple[F64, ...]")
        else:
            texts.append(each.__name__)
    return tuple(parse(text, module) for text in texts)


def definitions(module: ModuleType) -> list[tuple[str, Any]]:
    """The enums, records and unions that ``module`` defines, in its order."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if isinstance(value, UnionType)
        or (isinstance(value, type) and value.__module__ == module.__name__)
    ]
