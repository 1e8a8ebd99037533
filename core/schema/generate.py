"""Writes the C++ side of core/schema: ``python -m schema.generate FOLDER`` in core/, which CMake runs.

Headers go to ``FOLDER/core/schema``. A header that would not change is left alone, so that nothing is compiled again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from .element_types import ELEMENT_TYPES
from .status_codes import STATUS_CODES


def constant(name: str) -> str:
    """C++'s name of an enumerator: kInvalidArgument of INVALID_ARGUMENT."""
    return "k" + "".join(word.capitalize() for word in name.lower().split("_"))


def type_constant(name: str) -> str:
    """kF32, kBF16 and kPred."""
    return "k" + (name.upper() if any(c.isdigit() for c in name) else name.capitalize())


def for_each(macro: str, rows: Iterable[str]) -> list[str]:
    """A macro that calls X with each row's arguments."""
    return [f"#define {macro}(X) \\", *(f"  X({row}) \\" for row in rows), ""]


def element_types() -> list[str]:
    return [
        "// Element types of arrays.",
        "enum class PrimitiveType : uint8_t {",
        "  kInvalid = 0,",
        *(f"  {type_constant(t.name)} = {t.number}," for t in ELEMENT_TYPES),
        "};",
        "// X(enumerator, name, bytes of an element in memory)",
        *for_each(
            "TRIPONT_FOR_EACH_ELEMENT_TYPE",
            (f'{type_constant(t.name)}, "{t.name}", {t.bytes}' for t in ELEMENT_TYPES),
        ),
        "// X(the PJRT C API's name behind PJRT_Buffer_Type_, enumerator)",
        *for_each(
            "TRIPONT_FOR_EACH_PJRT_TYPE",
            (f"{t.name.upper()}, {type_constant(t.name)}" for t in ELEMENT_TYPES if t.in_pjrt),
        ),
    ]


def status_codes() -> list[str]:
    return [
        "// Status codes of errors.",
        "enum class StatusCode : int {",
        *(f"  {constant(name)} = {number}," for number, name in enumerate(STATUS_CODES)),
        "};",
        "inline constexpr std::string_view kStatusCodeNames[] = {",
        *(f'    "{name}",' for name in STATUS_CODES),
        "};",
    ]


HEADERS = {"element_types": element_types, "status_codes": status_codes}


def main(folder: Path) -> None:
    folder = folder / "core" / "schema"
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in HEADERS.items():
        guard = f"TRIPONT_CORE_SCHEMA_{name.upper()}_H_"
        text = "\n".join(
            [
                f"// Made by core/schema/generate.py from core/schema/{name}.py, which is the place to change.",
                f"#ifndef {guard}",
                f"#define {guard}",
                "",
                "#include <cstdint>",
                "#include <string_view>",
                "",
                "namespace tripont {",
                "",
                *body(),
                "",
                "}  // namespace tripont",
                "",
                f"#endif  // {guard}",
                "",
            ]
        )
        path = folder / f"{name}.h"
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
