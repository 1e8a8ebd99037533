"""Reading and writing records by their definitions."""

from __future__ import annotations

import pytest
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import ArtifactError, deserialize, serialize
from tripont.core.schema import artifact as schema
from tripont.core.schema import records

from ..compiler.formats.test_artifact_reader import data, meta, replaced  # noqa: F401


def test_what_is_written_is_read(data: bytes) -> None:  # noqa: F811
    executable = deserialize(data)
    assert serialize(executable) == data
    executable.imports = (("memcpy", 8),)  # any tuple does for a NamedTuple
    executable.visible_results = 1
    executable.dynamic_results = (schema.DynamicDimension(0, 1, 1),)
    executable.size_checks = ((1, "too large"),)
    again = deserialize(serialize(executable))
    assert again == executable
    assert again.size_checks[0].message == "too large"


def test_attributes_are_written_as_lists_bytes_or_functions(data: bytes) -> None:  # noqa: F811
    executable = deserialize(data)
    values = {
        "number": 3,
        "flag": True,
        "float": 1.5,
        "floats": [1, 2.5],
        "text": "abc",
        "bytes": b"\xff",
        "function": artifact.FunctionOffset(0),
    }
    executable.thunks = (artifact.LibraryCall("sort", (), (), values, 1.0),)
    (call,) = deserialize(serialize(executable)).thunks
    assert isinstance(call, artifact.LibraryCall)
    assert call.attributes == {
        "number": (3,),
        "flag": (1,),
        "float": (1.5,),
        "floats": (1.0, 2.5),
        "text": b"abc",
        "bytes": b"\xff",
        "function": artifact.FunctionOffset(0),
    }


def test_errors_name_the_field(data: bytes) -> None:  # noqa: F811
    executable = deserialize(data)
    thunks, executable.thunks = executable.thunks, ()
    size = meta(serialize(executable))[1]  # thunks are the last field of META
    executable.thunks = thunks
    first = meta(data)[0] + size
    with pytest.raises(ArtifactError, match=r"section META: thunks\[0\]: unknown Thunk kind 9"):
        deserialize(replaced(data, first, b"\x09"))
    executable.parameters = (
        executable.parameters[0],
        artifact.Value(executable.parameters[0].shape, "Ä"),
    )
    damaged = serialize(executable)
    with pytest.raises(ArtifactError, match=r"META: parameters\[1\]\.memory_kind: a string is not"):
        deserialize(replaced(damaged, damaged.index("Ä".encode()), b"\xc3\xc3"))


def test_types_that_records_cannot_have() -> None:
    with pytest.raises(TypeError, match="'list\\[int\\]' is not a type that a record's field can"):
        records.parse("list[int]", schema)
