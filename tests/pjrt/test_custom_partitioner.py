"""The Custom Partitioner extension: what is registered, what its callbacks are given, and what of theirs comes back."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from .c_api import Api, PjrtError
from .host import Client
from .protos import compile_options, message, number

KIND = 2  # PJRT_Extension_Type_Custom_Partitioner
FAILED_PRECONDITION = 9
# And use_spmd_partitioning, use_shardy_partitioner.
OPTIONS = compile_options([[0, 1]]) + message(3, number(6, 1) + number(19, 1))


class Extension(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("register_custom_partitioner", ctypes.c_void_p),
        ("register_batch_partitionable", ctypes.c_void_p),
    ]


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def read(self) -> bytes:
        return ctypes.string_at(self.data, self.size) if self.size else b""


class Aval(ctypes.Structure):
    _fields_ = [("shape", Text), ("has_sharding", ctypes.c_bool), ("sharding", Text)]


class Header(ctypes.Structure):
    _fields_ = [
        ("api_version", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("cleanup", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("has_error", ctypes.c_bool),
        ("code", ctypes.c_int),
        ("error", Text),
    ]


class PartitionArguments(ctypes.Structure):
    _fields_ = [
        ("header", Header),
        ("num_args", ctypes.c_size_t),
        ("op_args", ctypes.POINTER(Aval)),
        ("op_result", Aval),
        ("backend_config", Text),
        ("mlir_module", Text),
        ("args_sharding", ctypes.POINTER(Text)),
        ("result_sharding", Text),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Callbacks(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int64),
        ("private_data", ctypes.c_void_p),
        ("dtor", ctypes.c_void_p),
        ("partition", CALLBACK),
        ("infer_sharding", CALLBACK),
        ("propagate_user_sharding", CALLBACK),
        ("may_be_replicated", ctypes.c_bool),
    ]


class Register(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("callbacks", ctypes.c_void_p),
    ]


def program(target: str, config: str) -> bytes:
    return f"""
module attributes {{mhlo.num_partitions = 2 : i32}} {{
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> tensor<4xf32> {{
    %y = stablehlo.custom_call @{target}(%x) {{
      backend_config = "{config}", has_side_effect = true,
      sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {{i=4}}, custom>
    }} : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }}
}}""".encode()


def text(data: bytes, kept: list[Any]) -> Text:
    buffer = ctypes.create_string_buffer(data, len(data))
    kept.append(buffer)
    return Text(ctypes.addressof(buffer), len(data))


@pytest.fixture(scope="module")
def extension(api: Api) -> Extension:
    address = api.table.extension_start
    while address:
        found = Extension.from_address(address)
        if found.type == KIND:
            return found
        address = found.next
    pytest.fail("the plugin has no Custom Partitioner extension")


def register(api: Api, extension: Extension, name: bytes, callbacks: Callbacks | None) -> None:
    args = Register(ctypes.sizeof(Register), name, len(name))
    args.callbacks = None if callbacks is None else ctypes.addressof(callbacks)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    error = function(extension.register_custom_partitioner)(ctypes.addressof(args))
    if error is not None:
        raise api.take_error("Register_Custom_Partitioner", error)


class HalfAndHalf:
    """A partitioner that adds 1, half on each device; or fails with ``error``."""

    forever: list[Any] = []  # noqa: RUF012 - the plugin keeps what is registered

    def __init__(self) -> None:
        self.error = b""
        self.configs: list[bytes] = []
        self.calls = 0
        self.cleaned = 0
        self.kept: list[Any] = []
        self.cleanup = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._cleanup)
        partition, unused = CALLBACK(self._partition), CALLBACK(lambda *_: None)
        self.callbacks = Callbacks(0, None, None, partition, unused, unused, True)
        self.forever.append(self)

    def _cleanup(self, data: int | None) -> None:
        self.cleaned += 1

    def _partition(self, itself: int, address: int) -> None:
        args = PartitionArguments.from_address(address)
        self.calls += 1
        args.header.cleanup = self.cleanup
        self.configs.append(args.backend_config.read())
        operand, result = args.op_args[0], args.op_result
        given = (args.num_args, operand.has_sharding, result.has_sharding, args.header.api_version)
        same = operand.shape.read() == result.shape.read()
        if self.error or given != (1, True, True, 0) or not same:
            args.header.has_error = True
            args.header.code = FAILED_PRECONDITION
            args.header.error = text(self.error or repr(given).encode(), self.kept)
            return
        module = b"""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<2xf32>
  %y = stablehlo.add %x, %one : tensor<2xf32>
  return %y : tensor<2xf32>
}"""
        args.mlir_module = text(module, self.kept)
        shardings = (Text * 1)(text(operand.sharding.read(), self.kept))
        self.kept.append(shardings)
        args.args_sharding = shardings
        args.result_sharding = text(operand.sharding.read(), self.kept)


def test_the_callbacks_partition(api: Api, client4: Client, extension: Extension) -> None:
    name = b"test.half_and_half"
    half = HalfAndHalf()
    register(api, extension, name, half.callbacks)
    code = program(name.decode(), "not \\00 text")
    for times in (1, 2):  # the artifact is in no cache
        client4.destroy_executable(client4.compile(code, options=OPTIONS))
        assert (half.calls, half.cleaned) == (times, times)
    assert half.configs == [b"not \0 text"] * 2
    half.error = b"not today"
    with pytest.raises(PjrtError, match="partitioning for 2 devices: not today") as caught:
        client4.compile(code, options=OPTIONS)
    assert caught.value.code == "FAILED_PRECONDITION"
    assert half.cleaned == 3
    # A later one of the same name takes its place.
    other = HalfAndHalf()
    register(api, extension, name, other.callbacks)
    client4.destroy_executable(client4.compile(code, options=OPTIONS))
    assert (half.calls, other.calls) == (3, 1)


def test_bad_registrations(api: Api, extension: Extension) -> None:
    with pytest.raises(PjrtError, match="`callbacks` is null"):
        register(api, extension, b"test.bad", None)
    good = HalfAndHalf().callbacks
    with pytest.raises(PjrtError, match="needs the name"):
        register(api, extension, b"", good)
    with pytest.raises(PjrtError, match="has a meaning already"):
        register(api, extension, b"InspectSharding", good)
    newer = Callbacks(1, None, None, good.partition, good.partition, good.partition, True)
    with pytest.raises(PjrtError, match="of version 1, known is 0"):
        register(api, extension, b"test.bad", newer)
    empty = Callbacks(0, None, None, good.partition, good.partition, CALLBACK(), True)
    with pytest.raises(PjrtError, match="a callback is null"):
        register(api, extension, b"test.bad", empty)


def test_addresses_in_a_program_are_not_called(client4: Client) -> None:
    """Nobody has said here that functions may inspect shardings; that they exist does not help them."""
    called: list[object] = []
    function = CALLBACK(lambda *arguments: called.append(arguments))
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    config = "".join(f"\\{byte:02X}" for byte in struct.pack("<QQ", address, address))
    # The second where another test of this process imported JAX.
    refused = "not where the program is compiled|made by another process"
    for target in ("InspectSharding", '"Inspect\\53harding"'):
        with pytest.raises(PjrtError, match=refused) as caught:
            client4.compile(program(target, config), options=OPTIONS)
        assert caught.value.code in ("UNIMPLEMENTED", "INVALID_ARGUMENT")
    assert not called
