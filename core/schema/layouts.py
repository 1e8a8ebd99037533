"""The versions of what ``artifact.py`` and ``messages.py`` define, each with a digest of its layout.

Readers refuse artifacts and messages of another version. The version of a module is the last one of its table: whoever
changes a layout adds a line, and ``tests/core/schema/test_layouts.py`` says which line. A line that is there is never
changed, because artifacts of that version may lie somewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import ModuleType, UnionType
from typing import Final

from .records import alternatives, definitions, fields_of

LAYOUTS: Final = {
    "artifact": {
        2: "eba02ba7f649fc47",
        3: "12f87b559df264ee",
        4: "b6db0c3771b57c67",
        5: "cb3b53c406e645ad",
    },
    "messages": {
        5: "cca92ef463860824",
        6: "92f5c6355ba356a4",
        7: "b2c741f9263e32d9",
    },
}


def version(module: str) -> int:
    """The version of a module of this package: "artifact" or "messages"."""
    return max(LAYOUTS[module])


def layout(module: ModuleType) -> Iterator[str]:
    """What a reader of the module's records must know, as lines: the records' fields, their order, names and types."""
    for name, value in definitions(module):
        if isinstance(value, UnionType):
            yield f"{name} = {alternatives(name, module)}"
        elif hasattr(value, "__members__"):
            yield f"{name}: {[(m.name, m.value) for m in value]}"
        else:
            yield f"{name} {getattr(value, 'NUMBER', '')}"
            yield from (f"  {f.name}: {f.type} {f.section}" for f in fields_of(value, module))


def digest(module: ModuleType) -> str:
    """16 hexadecimal digits of the layout's SHA-256."""
    return hashlib.sha256("\n".join(layout(module)).encode()).hexdigest()[:16]
