"""The PJRT C API from Python, by ctypes structures generated from the header: the tests test what it says.

``Header`` parses ``pjrt_c_api.h`` (and the Layouts extension's header): every struct becomes a
``ctypes.Structure``, every enum a dict. ``Api`` calls the functions of a plugin::

    api = Api(library_path())
    client = api.call("PJRT_Client_Create").client
    name = api.call("PJRT_Client_PlatformName", client=client).text("platform_name")

An error that a function returns is raised as PjrtError with the code's name and the message.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_SCALARS: dict[str, Any] = {
    "size_t": ctypes.c_size_t,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "intptr_t": ctypes.c_ssize_t,
    "uintptr_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "bool": ctypes.c_bool,
}


class PjrtError(Exception):
    """An error that a function of the API returned."""

    def __init__(self, function: str, code: str, message: str) -> None:
        super().__init__(f"{function}: {code}: {message}")
        self.code = code
        self.message = message


class Header:
    """structs: name -> Structure. enums: name -> {enumerator: number}. traits: struct -> last field."""

    def __init__(self, *paths: Path) -> None:
        text = "\n".join(path.read_text() for path in paths)
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        text = re.sub(r"//[^\n]*", "", text)
        text = re.sub(r"\\\n", " ", text)
        self.version = tuple(
            int(re.search(rf"#define PJRT_API_{part} (\d+)", text)[1])  # type: ignore[index]
            for part in ("MAJOR", "MINOR")
        )
        text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
        self.traits = dict(
            re.findall(r"PJRT_DEFINE_STRUCT_TRAITS\(\s*(\w+)\s*,\s*(\w+)\s*\)", text)
        )
        self.enums: dict[str, dict[str, int]] = {}
        for body, name in re.findall(r"typedef enum\s*\{(.*?)\}\s*(\w+);", text, flags=re.DOTALL):
            self.enums[name] = self._enum(body)
        self.functions = re.findall(r"_PJRT_API_STRUCT_FIELD\((\w+)\);", text)
        self.structs: dict[str, Any] = {}
        for match in re.finditer(r"struct\s*(\w*)\s*\{", text):
            end = self._closing(text, match.end())
            name = match[1] or re.match(r"\s*(\w+)", text[end + 1 :])[1]  # type: ignore[index]
            fields = self._fields(text[match.end() : end])
            self.structs[name] = type(
                name,
                (_Struct,),
                {"_fields_": fields, "_anonymous_": ["union_"] * ("union_" in dict(fields))},
            )

    @staticmethod
    def _enum(body: str) -> dict[str, int]:
        values, number = {}, 0
        for entry in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = (part.strip() for part in entry.partition("="))
            number = int(value) if value else number
            values[name] = number
            number += 1
        return values

    @staticmethod
    def _closing(text: str, start: int) -> int:
        depth = 1
        for i in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                return i
        raise ValueError("unbalanced braces")

    def _fields(self, body: str) -> list[tuple[str, Any]]:
        fields: list[tuple[str, Any]] = []
        union = re.search(r"union\s*\{(.*?)\}\s*;", body, flags=re.DOTALL)
        if union:
            body = body.replace(union[0], "UNION union_;")
        body = re.sub(r"\(\*\s*(\w+)\)\s*\([^;]*\)", r"*\1", body)  # function pointers
        for declaration in filter(None, (part.strip() for part in body.split(";"))):
            call = re.match(r"_PJRT_API_STRUCT_FIELD\((\w+)\)", declaration)
            if call:
                fields.append((call[1], ctypes.c_void_p))
                continue
            match = re.fullmatch(r"(.*?)\s*(\*?)\s*(\w+)", declaration, flags=re.DOTALL)
            assert match is not None, declaration
            type_name, star, name = match[1].replace("const", "").strip(), match[2], match[3]
            if type_name == "UNION":
                assert union is not None
                fields.append(
                    (name, type("Union", (ctypes.Union,), {"_fields_": self._fields(union[1])}))
                )
            else:
                fields.append(
                    (name, ctypes.c_void_p if star or "*" in type_name else self._type(type_name))
                )
        return fields

    def _type(self, name: str) -> Any:
        if name in _SCALARS:
            return _SCALARS[name]
        if name in self.enums:
            return ctypes.c_int
        name = name.removeprefix("struct ")
        return self.structs.get(name, ctypes.c_void_p)  # else a function pointer's typedef

    def full_size(self, name: str) -> int:
        """PJRT's <name>_STRUCT_SIZE: up to the end of the last field, without padding."""
        struct = self.structs[name]
        field = getattr(struct, self.traits.get(name) or struct._fields_[-1][0])
        return int(field.offset + field.size)


class _Struct(ctypes.Structure):
    _keep: Any

    def text(self, field: str) -> str:
        """The string in `field`, whose length is in `<field>_size`."""
        return self.blob(field).decode()

    def blob(self, field: str, size_field: str = "") -> bytes:
        size = getattr(self, size_field or f"{field}_size")
        return ctypes.string_at(getattr(self, field), size) if size else b""

    def pointers(self, field: str, count: str) -> list[int]:
        n = getattr(self, count)
        return list((ctypes.c_void_p * n).from_address(getattr(self, field))) if n else []

    def int64s(self, field: str, count: str) -> list[int]:
        n = getattr(self, count)
        return list((ctypes.c_int64 * n).from_address(getattr(self, field))) if n else []


@cache
def header() -> Header:
    command = [sys.executable, str(ROOT / "cmake" / "fetch_pjrt_header.py")]
    folder = Path(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    )
    names = ("pjrt_c_api.h", "pjrt_c_api_layouts_extension.h")
    return Header(*(folder / "xla" / "pjrt" / "c" / name for name in names))


def int64_array(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def pointer_array(values: Sequence[int | None]) -> Any:
    return (ctypes.c_void_p * max(1, len(values)))(*values)


class Api:
    def __init__(self, path: str) -> None:
        self.header = header()
        self.library = ctypes.CDLL(path)
        self.library.GetPjrtApi.restype = ctypes.c_void_p
        self.table = self.header.structs["PJRT_Api"].from_address(self.library.GetPjrtApi())
        self.codes = {
            number: name.removeprefix("PJRT_Error_Code_")
            for name, number in self.header.enums["PJRT_Error_Code"].items()
        }

    def make(self, struct: str, **fields: Any) -> Any:
        """A struct of the header with struct_size set. Byte strings and arrays become pointers and are kept alive."""
        value = self.header.structs[struct]()
        value._keep = []
        if struct in self.header.traits:
            value.struct_size = self.header.full_size(struct)
        for name, field in fields.items():
            if isinstance(field, bytes):
                field = ctypes.create_string_buffer(field, len(field))
            if isinstance(field, (ctypes.Array, ctypes.Structure)) and not isinstance(
                getattr(value, name), ctypes.Structure
            ):
                value._keep.append(field)
                field = ctypes.addressof(field)
            setattr(value, name, field)
        return value

    def layouts_extension(self) -> Any:
        extension = self.header.structs["PJRT_Layouts_Extension"].from_address(
            self.table.extension_start
        )
        kind = self.header.enums["PJRT_Extension_Type"]["PJRT_Extension_Type_Layouts"]
        assert extension.base.type == kind
        return extension

    def pointer(self, function: str) -> int:
        """Its address; functions of the Layouts extension have names PJRT_Layouts_..."""
        if function.startswith("PJRT_Layouts_"):
            return int(getattr(self.layouts_extension(), function))
        return int(getattr(self.table, function))

    def raw_call(self, function: str, args: Any) -> int | None:
        """The PJRT_Error* that the function returns, to be freed by take_error."""
        prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        address = None if args is None else ctypes.addressof(args)
        return prototype(self.pointer(function))(address)  # type: ignore[no-any-return]

    def take_error(self, function: str, error: int) -> PjrtError:
        code = self.make("PJRT_Error_GetCode_Args", error=error)
        assert self.raw_call("PJRT_Error_GetCode", code) is None
        message = self.make("PJRT_Error_Message_Args", error=error)
        self.raw_void("PJRT_Error_Message", message)
        result = PjrtError(function, self.codes[code.code], message.text("message"))
        self.raw_void("PJRT_Error_Destroy", self.make("PJRT_Error_Destroy_Args", error=error))
        return result

    def raw_void(self, function: str, args: Any) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.pointer(function))(ctypes.addressof(args))

    def call(self, function: str, **fields: Any) -> Any:
        """Calls the function with these fields of its argument struct and returns the struct. Raises PjrtError."""
        args = self.make(f"{function}_Args", **fields)
        return self.call_with(function, args)

    def call_with(self, function: str, args: Any) -> Any:
        error = self.raw_call(function, args)
        if error is not None:
            raise self.take_error(function, error)
        return args

    def named_values(self, values: dict[str, str | int | bool | float | list[int]]) -> Any:
        types = self.header.enums["PJRT_NamedValue_Type"]
        array = (self.header.structs["PJRT_NamedValue"] * max(1, len(values)))()
        array._keep = []  # type: ignore[attr-defined]
        for slot, (name, value) in zip(array, values.items(), strict=False):
            slot.struct_size = self.header.full_size("PJRT_NamedValue")
            text = ctypes.create_string_buffer(name.encode(), len(name))
            array._keep.append(text)  # type: ignore[attr-defined]
            slot.name, slot.name_size, slot.value_size = ctypes.addressof(text), len(name), 1
            if isinstance(value, bool):
                slot.type, slot.bool_value = types["PJRT_NamedValue_kBool"], value
            elif isinstance(value, int):
                slot.type, slot.int64_value = types["PJRT_NamedValue_kInt64"], value
            elif isinstance(value, float):
                slot.type, slot.float_value = types["PJRT_NamedValue_kFloat"], value
            elif isinstance(value, str):
                data = ctypes.create_string_buffer(value.encode(), len(value.encode()))
                slot.type, slot.string_value = (
                    types["PJRT_NamedValue_kString"],
                    ctypes.addressof(data),
                )
                slot.value_size = len(value.encode())
                array._keep.append(data)  # type: ignore[attr-defined]
            else:
                numbers = int64_array(value)
                slot.type, slot.value_size = types["PJRT_NamedValue_kInt64List"], len(value)
                slot.int64_array_value = ctypes.addressof(numbers)
                array._keep.append(numbers)  # type: ignore[attr-defined]
        return array

    def read_named_values(self, address: int, count: int) -> dict[str, Any]:
        types = {
            number: name.removeprefix("PJRT_NamedValue_k")
            for name, number in self.header.enums["PJRT_NamedValue_Type"].items()
        }
        result: dict[str, Any] = {}
        for slot in (
            (self.header.structs["PJRT_NamedValue"] * count).from_address(address) if count else ()
        ):
            match types[slot.type]:
                case "String":
                    value: Any = ctypes.string_at(slot.string_value, slot.value_size).decode()
                case "Int64":
                    value = slot.int64_value
                case "Int64List":
                    value = list(
                        (ctypes.c_int64 * slot.value_size).from_address(slot.int64_array_value)
                    )
                case "Float":
                    value = slot.float_value
                case _:
                    value = slot.bool_value
            result[slot.text("name")] = value
        return result
