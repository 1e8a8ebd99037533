"""The Shardings extension, which XLA's client asks at every compile."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from . import programs
from .c_api import Api
from .host import Client
from .protos import message, number

SHARDINGS = 19  # PJRT_Extension_Type_Shardings
Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Base(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
    )


class ShardingsArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("executable", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("sizes", ctypes.POINTER(ctypes.c_size_t)),
    )


def extension(api: Api, kind: int) -> int:
    address: int | None = api.table.extension_start
    while address is not None and Base.from_address(address).type != kind:
        address = Base.from_address(address).next
    assert address is not None
    return address


def function(table: int, index: int) -> Any:
    """Function ``index`` of an extension, which must say that it has it."""
    place = ctypes.sizeof(Base) + 8 * index
    assert Base.from_address(table).struct_size >= place + 8
    return Function(ctypes.c_void_p.from_address(table + place).value or 0)


def shardings(api: Api, executable: int, index: int) -> list[bytes] | None:
    args = ShardingsArgs(ctypes.sizeof(ShardingsArgs), None, executable)
    assert function(extension(api, SHARDINGS), index)(ctypes.addressof(args)) is None
    if not args.data:
        assert not args.sizes
        return None
    return [ctypes.string_at(args.data[i] or 0, args.sizes[i]) for i in range(args.count)]


REPLICATED = b""
DIVIDED = number(1, 3) + message(3, b"\x02")


@pytest.mark.parametrize(
    ("fields", "parameters", "outputs"),
    [
        (b"", None, None),
        (message(12, DIVIDED), None, [DIVIDED]),
        (message(14, REPLICATED) + message(14, DIVIDED), [REPLICATED, DIVIDED], None),
        (
            message(12, message(5, DIVIDED) + message(5, REPLICATED) + number(1, 2)),
            None,
            [DIVIDED, REPLICATED],
        ),
    ],
    ids=["none", "one result", "parameters", "results"],
)
def test_how_arrays_are_divided(
    api: Api,
    client: Client,
    fields: bytes,
    parameters: list[bytes] | None,
    outputs: list[bytes] | None,
) -> None:
    module = message(1, b"add_one") + message(4, message(1, b"\x10\x0b")) + fields
    loaded = client.load(programs.add_one(program=module))
    executable = client.executable(loaded)
    assert shardings(api, executable, 0) == parameters
    assert shardings(api, executable, 1) == outputs
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)
