"""Every number of an artifact replaced by -1, 0 and the ends of 32 and 64 bits: refused, or one that may be so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import LibraryCall, Operand, Slice
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.schema import artifact as schema
from tripont.core.schema.records import Type, fields_of

from tests.core.runtime import programs
from tripont.cli.inspect import describe_results, thunk_rows

_BITS = {"U8": (0, 8), "U32": (0, 32), "U64": (0, 64), "I32": (31, 31), "I64": (63, 63)}
_INTEGERS = (-(2**63), -(2**31), -2, -1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_FLOATS = (math.nan, -1.0, math.inf)

Path = tuple[str | int, ...]

# Fields that the reader has nothing to compare with, or that mean something else in another kind of the same record.
# "work_count" is as much code as the function that it is for; a loop may run as often as it says.
_FREE = {
    "costs": "estimates for PJRT's cost analysis",
    "flops": "an estimate for profiles",
    "bytes_accessed": "an estimate for profiles",
    "source_line": "for messages",
    "cost_ns": "an estimate; only numbers that are not a cost are refused",
    "work_count": "",
    "grain": "how finely units may be shared out",
    "trip_count": "",
    "num_threads": "a limit, at most as many as there are",
    "num_replicas": "compared with the devices when it is launched; the product is limited",
    "num_partitions": "as num_replicas",
    "index": "of allocations that are neither parameters nor results",
    "largest": "a truth value",
    "offset": "of allocations that are not constants, and 0, which is inside of everything",
}
# Fields that may be 0, or -1 where that stands for nothing; other numbers are compared.
_MAY_BE_NONE = {
    "allocation": 0,
    "size": 0,
    "function": 0,
    "limit": 0,
    "usual": (0, -1),
    "debug": (0, -1),
    "donatable_parameters": 0,
    "visible_results": 0,
    "dims": 0,
}


# The size of the temporary memory, which has no array that it is for: up to 64 TB.
_TEMPORARY = ("allocations", 3, "size")


def example() -> artifact.Executable:
    """The artifact with every kind of thunk, a library's call among them."""
    rich = programs.rich()
    operand = Operand(Slice(0, 0, 32), programs.F32_8)
    results = [
        Operand(Slice(3, at, 8), Shape(dtype, (2,)))
        for at, dtype in ((128, dtypes.F32), (136, dtypes.S32))
    ]
    call = LibraryCall("topk", (operand,), tuple(results), {"k": (2,), "largest": (1,)}, 1.0)
    executable = replace(rich, thunks=(*rich.thunks, call))
    return artifact.deserialize(programs.serialize(executable))


def numbers(value: Any, type_: Type, path: Path) -> Iterator[tuple[Path, str, Any]]:
    """The path to each number in a value of a record's field, its type and the number."""
    if type_.kind == "number" and type_.name != "bool":
        yield path, type_.name, value
    elif type_.kind == "shape":
        for n, size in enumerate(value.dims):
            yield (*path, "dims", n), "I64", size
    elif type_.kind in ("list", "map"):
        assert type_.element is not None
        for key in value if type_.kind == "map" else range(len(value)):
            yield from numbers(value[key], type_.element, (*path, key))
    elif type_.kind == "union" and isinstance(value, tuple):  # an attribute
        for n, number in enumerate(value):
            yield (*path, n), "I64", number
    elif type_.kind in ("record", "union"):
        record: type = type(value)
        for field in fields_of(record, schema):
            yield from numbers(getattr(value, field.name), field.type, (*path, field.name))


def with_number(value: Any, path: Path, number: Any) -> Any:
    """``value`` with another number at ``path``."""
    if not path:
        return number
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return (*value[:step], with_number(value[step], rest, number), *value[step + 1 :])
    if isinstance(value, dict):
        return value | {step: with_number(value[step], rest, number)}
    inner = with_number(getattr(value, step), rest, number)
    if isinstance(value, tuple):  # a NamedTuple
        return type(value)(*(inner if f == step else getattr(value, f) for f in value._fields))  # type: ignore[attr-defined]
    return replace(value, **{step: inner})


def damaged() -> Iterator[tuple[Path, Any, artifact.Executable]]:
    """Where, what and the example with it."""
    executable = example()
    for path, type_, number in numbers(
        replace(executable, visible_results=len(executable.results)), Type("record"), ()
    ):
        if type_ == "F64":
            candidates: tuple[Any, ...] = _FLOATS
        else:
            below, bits = _BITS[type_]
            least = -(2**below) if below else 0
            candidates = tuple(n for n in _INTEGERS if least <= n < 2**bits)
        for candidate in candidates:
            if candidate != number:
                yield path, candidate, with_number(executable, path, candidate)


def may_load(path: Path, number: Any) -> bool:
    named = [step for step in path if isinstance(step, str)]
    if path == _TEMPORARY:
        return bool(0 <= number <= 2**46)
    if named[0] in _FREE or named[-1] in _FREE:
        return True
    none = _MAY_BE_NONE.get(named[-1], ())
    return bool(number in (none if isinstance(none, tuple) else (none,)))


def test_the_example_loads() -> None:
    assert _tripont.Executable.load(programs.serialize(example())).name == "add"


def test_every_number_is_checked() -> None:
    """A field that is added to the records is refused with such numbers, or stands in the table above."""
    wrong, loaded, refused = [], 0, 0
    for path, number, executable in damaged():
        try:
            _tripont.Executable.load(programs.serialize(executable))
        except _tripont.StatusError as error:
            refused += error.code == "INVALID_ARGUMENT"
            if error.code != "INVALID_ARGUMENT":
                wrong.append((path, number, str(error)))
            continue
        loaded += 1
        if not may_load(path, number):
            wrong.append((path, number, "loaded"))
    assert not wrong
    assert loaded > 100
    assert refused > 500


def test_what_python_reads_can_be_described() -> None:
    """``tripont inspect`` and ``tripont explain`` describe thunks: artifacts whose thunks name allocations, branches or
    debug information that do not exist are refused before.
    """
    refused = 0
    for path, number, executable in damaged():
        data = programs.serialize(executable)
        try:
            read = artifact.deserialize(data)
        except artifact.ArtifactError:
            refused += 1
            continue
        try:
            described = [*thunk_rows(read.thunks, read), *describe_results(read)]
        except Exception as error:
            pytest.fail(f"{path} = {number}: {error!r}")
        assert described
    assert refused > 50


@pytest.mark.parametrize("usual", [3, 2**31 - 1, -2])
def test_both_readers_say_that_a_usual_branch_is_not_there(usual: int) -> None:
    rich = programs.rich()
    thunks = tuple(
        replace(t, usual=usual, debug=1) if isinstance(t, artifact.Conditional) else t
        for t in rich.thunks
    )
    data = programs.serialize(replace(rich, thunks=thunks))
    message = f"artifact: thunk d: the usual branch {usual} of 3"
    with pytest.raises(_tripont.StatusError, match=message):
        _tripont.Executable.load(data)
    with pytest.raises(artifact.ArtifactError, match=message):
        artifact.deserialize(data)
