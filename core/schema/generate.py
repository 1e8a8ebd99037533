"""Writes the C++ side of core/schema: ``python -m schema.generate FOLDER`` in core/, which CMake runs.

Headers go to ``FOLDER/core/schema``. A header that would not change is left alone, so that nothing is compiled again.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

from . import artifact as artifact_module
from . import messages as messages_module
from .element_types import ELEMENT_TYPES
from .records import NUMBERS, Field, Type, alternatives, definitions, fields_of
from .status_codes import STATUS_CODES

ROOT = Path(__file__).resolve().parents[2]  # of the checkout


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
            (f"{t.name.upper()}, {type_constant(t.name)}" for t in ELEMENT_TYPES if not t.pjrt),
        ),
        "// X(PJRT_Buffer_Type, enumerator) of the types that the PJRT C API has named later",
        *for_each(
            "TRIPONT_FOR_EACH_LATER_PJRT_TYPE",
            (f"{t.pjrt}, {type_constant(t.name)}" for t in ELEMENT_TYPES if t.pjrt),
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


# C++'s types that are not made of others.
PLAIN = {
    "str": "std::string",
    "bytes": "Bytes",
    "large": "std::string_view",
    "shape": "Shape",
    "section": "std::string_view",
}


def cpp_type(type_: Type) -> str:
    """C++'s name of a type of records.py."""
    if type_.kind == "number":
        return NUMBERS[type_.name][1]
    if type_.element is not None:
        element = cpp_type(type_.element)
        return f"std::vector<{element if type_.kind == 'list' else f'std::pair<std::string, {element}>'}>"
    return PLAIN.get(type_.kind, type_.name)


def member(field: Field) -> str:
    """The declaration of a field. Numbers without a default are 0."""
    default = field.default
    if field.type.kind in ("number", "enum"):
        value = "{}" if default is None else " = " + str(default).lower()
        return f"  {cpp_type(field.type)} {field.name}{value};"
    return f"  {cpp_type(field.type)} {field.name}{f' = {chr(34)}{default}{chr(34)}' if default else ''};"


def comment(definition: Any) -> list[str]:
    """A docstring as a comment."""
    text = inspect.getdoc(definition) or ""
    return [f"// {line}".rstrip() for line in text.replace("``", "`").splitlines()]


def table(name: str, record: str, fields: list[Field]) -> list[str]:
    """A function that gives the name and the member of each field."""
    members = ", ".join(f'std::pair("{f.name}", &{record}::{f.name})' for f in fields)
    return [f"  static constexpr auto {name}() {{ return std::make_tuple({members}); }}"]


def struct(name: str, record: type, module: ModuleType) -> list[str]:
    fields = fields_of(record, module)
    written = [f for f in fields if f.type.kind != "section"]
    number = getattr(record, "NUMBER", None)
    constants = [] if number is None else [f"  static constexpr uint32_t kNumber = 0x{number:X};"]
    lines = [*comment(record), f"struct {name} {{", *constants, *(member(f) for f in fields), ""]
    for section in dict.fromkeys(["", *(f.section for f in written)]):
        function = f"FieldsIn{section.capitalize()}" if section else "Fields"
        lines += table(function, name, [f for f in written if f.section == section])
    return [*lines, "};", ""]


def words(name: str) -> str:
    """ "library call" of LibraryCall."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def union(name: str, module: ModuleType) -> list[str]:
    types = alternatives(name, module)
    variant = f"std::variant<{', '.join(map(cpp_type, types))}>"
    lines = [f"// One of the types of {name} in core/schema.", f"struct {name} : {variant} {{"]
    lines += [f"  using Union = {variant};", "  using Union::Union;", "  using Union::operator=;"]
    if all(t.kind == "record" for t in types):
        kinds = [t.name for t in types]
        lines = [
            f"enum class {name}Kind : uint8_t {{ {', '.join(f'k{kind}' for kind in kinds)} }};",
            f"inline constexpr std::string_view k{name}KindNames[] = {{",
            *(f'    "{words(kind)}",' for kind in kinds),
            "};",
            *lines,
            f"  {name}Kind kind() const {{ return static_cast<{name}Kind>(index()); }}",
        ]
    return [*lines, "};", ""]


def records(module: ModuleType) -> list[str]:
    """All enums, structs and unions of a module."""
    lines = ["namespace schema {", ""]
    defined = definitions(module)
    lines += [f"struct {name};" for name, value in defined if isinstance(value, UnionType)] + [""]
    for name, value in defined:
        if isinstance(value, UnionType):
            lines += union(name, module)
        elif hasattr(value, "__members__"):
            members = ", ".join(f"{constant(m)} = {e.value}" for m, e in value.__members__.items())
            lines += [*comment(value), f"enum class {name} : uint8_t {{ {members} }};"]
            lines += [f"constexpr uint8_t NumberOf({name}) {{ return {len(value)}; }}", ""]
        else:
            lines += struct(name, value, module)
    return [*lines, "}  // namespace schema"]


def plain_types() -> list[str]:
    lines = ["namespace schema {", "", "// Bytes of any content, where std::string is text."]
    lines += ["struct Bytes : std::string {", "  using std::string::string;"]
    lines += ["  explicit Bytes(std::string bytes) : std::string(std::move(bytes)) {}", "};", ""]
    return [*lines, "}  // namespace schema"]


def versioned(constant: str, version: int, module: ModuleType) -> list[str]:
    return [f"inline constexpr uint32_t {constant} = {version};", "", *records(module)]


def artifact() -> list[str]:
    return versioned("kArtifactFormatVersion", artifact_module.FORMAT_VERSION, artifact_module)


def messages() -> list[str]:
    return versioned("kProtocolVersion", messages_module.PROTOCOL_VERSION, messages_module)


def backend_abi(root: Path) -> list[str]:
    """A digest of all that a backend shares with the runtime: the declarations in the headers that it includes.

    ``root``: the folder that headers are included from, a checkout.
    """
    read: dict[str, str] = {}

    def follow(name: str) -> None:
        if name in read or name == "core/schema/backend_abi.h":
            return
        path = root / name
        made = HEADERS.get(path.stem) if name.startswith("core/schema/") else None
        text = "\n".join(made()) if made else path.read_text()
        read[name] = "".join(re.sub(r"//.*|/\*(?s:.*?)\*/", "", text).split())
        for included in (*re.findall(r'#include "(.+)"', text), *INCLUDES.get(path.stem, ())):
            follow(included)

    follow("core/runtime/backend_registry.h")
    digest = hashlib.sha256("\n".join(sorted(f"{n} {t}" for n, t in read.items())).encode())
    number = int.from_bytes(digest.digest()[:4], "little") >> 1
    return [
        "// A digest of the declarations that a library of TRIPONT_BACKENDS shares with this one. Such a",
        "// library has their layout and vtables compiled in, whatever the version of the release.",
        f"inline constexpr int kBackendAbi = 0x{number:X};",
    ]


HEADERS: dict[str, Callable[[], list[str]]] = {
    "element_types": element_types,
    "status_codes": status_codes,
    "records": plain_types,
    "artifact": artifact,
    "messages": messages,
}
# What a header of records needs besides what every header needs.
STANDARD = {
    "records": ("string", "utility"),
    "artifact": ("string", "tuple", "utility", "variant", "vector"),
    "messages": ("string", "tuple", "utility", "vector"),
}
INCLUDES = {
    "artifact": ("core/runtime/shape.h", "core/schema/records.h"),
    "messages": ("core/schema/records.h",),
}
# What the others are made from is the module of the same name.
SOURCES = {"backend_abi": "the headers of core/runtime"}


def main(folder: Path, root: Path = ROOT) -> None:
    folder = folder / "core" / "schema"
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in (HEADERS | {"backend_abi": lambda: backend_abi(root)}).items():
        source = SOURCES.get(name, f"core/schema/{name}.py")
        guard = f"TRIPONT_CORE_SCHEMA_{name.upper()}_H_"
        text = "\n".join(
            [
                f"// Made by core/schema/generate.py from {source}, which is the place to change.",
                f"#ifndef {guard}",
                f"#define {guard}",
                "",
                *(
                    f"#include <{header}>"
                    for header in sorted(("cstdint", "string_view", *STANDARD.get(name, ())))
                ),
                "",
                *(f'#include "{header}"\n' for header in INCLUDES.get(name, ())),
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
