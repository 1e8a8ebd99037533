"""Writes and reads records as ``records.py`` defines them."""

from __future__ import annotations

import dataclasses
import operator
import struct
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from .records import NUMBERS, Field, Type, alternatives, fields_of

# The size of what follows.
_SIZE: Final = struct.Struct("<I").pack


class FormatError(ValueError):
    """Bytes that are not what the definition says: ``message`` about the field ``path``, from the outermost inwards."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = []

    def __str__(self) -> str:
        path = "".join(part if part[0] == "[" else f".{part}" for part in reversed(self.path))
        return f"{path[1:]}: {self.message}" if path else self.message


class Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = memoryview(data)
        self.position = 0
        self.depth = 0  # of values of one union in each other

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise FormatError("the bytes end early")
        self.position += size
        return bytes(self.data[self.position - size : self.position])


Writer = Callable[[list[bytes], Any], None]
Reader = Callable[[Bytes], Any]


class Codec:
    """The codec of the records of one module.

    ``shapes``: the writer and the reader of Shape, if the module's records have shapes. ``choices``: for a union whose
    values are not of its alternatives' types, a function that gives the number of the alternative and the value to
    write. ``most_nested``: a union, how deep its values may stand in each other, and what is said of deeper values.
    """

    def __init__(
        self,
        module: ModuleType,
        shapes: tuple[Writer, Reader] | None = None,
        choices: Mapping[str, Callable[[Any], tuple[int, Any]]] | None = None,
        most_nested: tuple[str, int, str] = ("", 0, ""),
    ) -> None:
        self.module = module
        self.choices = choices or {}
        self.most_nested = most_nested
        self._writers: dict[Type, Writer] = {Type("shape"): shapes[0]} if shapes else {}
        self._readers: dict[Type, Reader] = {Type("shape"): shapes[1]} if shapes else {}

    def fields(self, record: type, section: str) -> list[Field]:
        """Those that stand in a section ("": with the record)."""
        fields = fields_of(record, self.module)
        return [f for f in fields if f.section == section and f.type.kind != "section"]

    def parts(self, record: Any, section: str = "") -> list[bytes]:
        """The fields of ``record`` that stand in ``section``, in parts: large values are not copied."""
        out: list[bytes] = []
        for field in self.fields(type(record), section):
            self._writer(field.type)(out, getattr(record, field.name))
        return out

    def write(self, record: Any, section: str = "") -> bytes:
        """The fields of ``record`` that stand in ``section``."""
        return b"".join(self.parts(record, section))

    def read(self, record: type, data: bytes | bytearray, section: str = "") -> dict[str, Any]:
        """The values of those fields, by name. FormatError, with the field; also if something is left over."""
        source = Bytes(data)
        values = {}
        for field in self.fields(record, section):
            try:
                values[field.name] = self._reader(field.type)(source)
            except FormatError as error:
                error.path.append(field.name)
                raise
        if source.position != len(data):
            raise FormatError("there are bytes after its end")
        return values

    # ------------------------------------------------------------------------------------------------ writing

    def _writer(self, type_: Type) -> Writer:
        found = self._writers.get(type_)
        if found is None:
            found = self._writers[type_] = getattr(self, f"_write_{type_.kind}")(type_)
        return found

    def _write_number(self, type_: Type) -> Writer:
        pack = struct.Struct("<" + NUMBERS[type_.name][0]).pack
        return lambda out, value: out.append(pack(value))

    def _write_enum(self, type_: Type) -> Writer:
        return lambda out, value: out.append(struct.pack("<B", value))

    def _write_bytes(self, type_: Type) -> Writer:
        def write(out: list[bytes], value: bytes) -> None:
            out += (_SIZE(len(value)), value)

        return write

    def _write_large(self, type_: Type) -> Writer:
        def write(out: list[bytes], value: bytes) -> None:
            out += (struct.pack("<Q", len(value)), value)

        return write

    def _write_str(self, type_: Type) -> Writer:
        def write(out: list[bytes], value: str) -> None:
            data = value.encode()
            out += (_SIZE(len(data)), data)

        return write

    def _write_list(self, type_: Type) -> Writer:
        assert type_.element is not None
        write_element = self._writer(type_.element)

        def write(out: list[bytes], values: Any) -> None:
            out.append(_SIZE(len(values)))
            for value in values:
                write_element(out, value)

        return write

    def _write_map(self, type_: Type) -> Writer:
        assert type_.element is not None
        write_key, write_value = self._writer(Type("str")), self._writer(type_.element)

        def write(out: list[bytes], entries: Mapping[str, Any]) -> None:
            out.append(_SIZE(len(entries)))
            for key, value in entries.items():
                write_key(out, key)
                write_value(out, value)

        return write

    def _write_record(self, type_: Type) -> Writer:
        record = getattr(self.module, type_.name)
        fields = self.fields(record, "")
        if all(f.type.kind == "number" for f in fields) and dataclasses.is_dataclass(record):
            pack = struct.Struct("<" + "".join(NUMBERS[f.type.name][0] for f in fields)).pack
            if len(fields) > 1:
                get = operator.attrgetter(*[f.name for f in fields])
                return lambda out, value: out.append(pack(*get(value)))
            (name,) = [f.name for f in fields]
            return lambda out, value: out.append(pack(getattr(value, name)))
        steps = [(f.name, self._writer(f.type)) for f in fields]

        def write(out: list[bytes], value: Any) -> None:
            if isinstance(value, tuple):  # for a NamedTuple any tuple will do
                for (_, step), item in zip(steps, value, strict=True):
                    step(out, item)
                return
            for name, step in steps:
                step(out, getattr(value, name))

        return write

    def _write_union(self, type_: Type) -> Writer:
        types = alternatives(type_.name, self.module)
        numbers = {getattr(self.module, t.name, None): n for n, t in enumerate(types)}
        choose = self.choices.get(type_.name, lambda value: (numbers[type(value)], value))
        tags = [struct.pack("<B", n) for n in range(len(types))]

        def write(out: list[bytes], value: Any) -> None:
            number, chosen = choose(value)
            out.append(tags[number])
            self._writer(types[number])(out, chosen)  # looked up now: unions stand in themselves

        return write

    # ------------------------------------------------------------------------------------------------ reading

    def _reader(self, type_: Type) -> Reader:
        found = self._readers.get(type_)
        if found is None:
            found = self._readers[type_] = getattr(self, f"_read_{type_.kind}")(type_)
        return found

    def _read_number(self, type_: Type) -> Reader:
        layout = struct.Struct("<" + NUMBERS[type_.name][0])
        unpack, size = layout.unpack, layout.size
        return lambda source: unpack(source.take(size))[0]

    def _read_enum(self, type_: Type) -> Reader:
        members = getattr(self.module, type_.name)

        def read(source: Bytes) -> Any:
            number = source.take(1)[0]
            if number >= len(members):
                raise FormatError(f"unknown {type_.name} {number}")
            return members(number)

        return read

    def _read_bytes(self, type_: Type) -> Reader:
        return lambda source: source.take(*struct.unpack("<I", source.take(4)))

    def _read_large(self, type_: Type) -> Reader:
        return lambda source: source.take(*struct.unpack("<Q", source.take(8)))

    def _read_str(self, type_: Type) -> Reader:
        read_bytes = self._read_bytes(type_)

        def read(source: Bytes) -> str:
            try:
                return str(read_bytes(source), "utf-8")
            except UnicodeDecodeError as error:
                raise FormatError("a string is not UTF-8") from error

        return read

    def _read_list(self, type_: Type) -> Reader:
        assert type_.element is not None
        read_element = self._reader(type_.element)

        def read(source: Bytes) -> tuple[Any, ...]:
            values = []
            (count,) = struct.unpack("<I", source.take(4))
            try:
                for _ in range(count):  # no generator: each level of it would take from the C stack
                    values.append(read_element(source))
            except FormatError as error:
                error.path.append(f"[{len(values)}]")
                raise
            return tuple(values)

        return read

    def _read_map(self, type_: Type) -> Reader:
        assert type_.element is not None
        read_key, read_value = self._reader(Type("str")), self._reader(type_.element)

        def read(source: Bytes) -> dict[str, Any]:
            entries: dict[str, Any] = {}
            (count,) = struct.unpack("<I", source.take(4))
            for _ in range(count):
                key = read_key(source)
                try:
                    entries[key] = read_value(source)
                except FormatError as error:
                    error.path.append(f"[{key!r}]")
                    raise
            return entries

        return read

    def _read_record(self, type_: Type) -> Reader:
        record = getattr(self.module, type_.name)
        steps = [(f.name, self._reader(f.type)) for f in self.fields(record, "")]

        def read(source: Bytes) -> Any:
            values = {}
            for name, step in steps:
                try:
                    values[name] = step(source)
                except FormatError as error:
                    error.path.append(name)
                    raise
            return record(**values)

        return read

    def _read_union(self, type_: Type) -> Reader:
        types = alternatives(type_.name, self.module)
        nested, limit, too_deep = self.most_nested

        def read(source: Bytes) -> Any:
            number = source.take(1)[0]
            if number >= len(types):
                raise FormatError(f"unknown {type_.name} kind {number}")
            if type_.name != nested:
                return self._reader(types[number])(source)
            if source.depth > limit:
                raise FormatError(too_deep)
            source.depth += 1
            value = self._reader(types[number])(source)
            source.depth -= 1
            return value

        return read
