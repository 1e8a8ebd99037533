"""The FFI extension: handlers, types and user data for programs that do not come through Python."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from .c_api import Api, PjrtError
from .host import Client

KIND = 5  # PJRT_Extension_Type_FFI

SOURCE = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
struct Offset {
  static ffi::TypeId id;
  float value;
};
ffi::TypeId Offset::id = {};
static ffi::Error Add(Offset* offset, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = x.typed_data()[i] + offset->value;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add_offset, Add, ffi::Ffi::Bind().Ctx<ffi::UserData<Offset>>()
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
extern "C" void SetId(int64_t id) { Offset::id.type_id = id; }
"""
PROGRAM = b"""
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.custom_call @test.add_offset(%x) {api_version = 4 : i32, backend_config = {}}
      : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}"""


class Extension(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("type_register", ctypes.c_void_p),
        ("user_data_add", ctypes.c_void_p),
        ("register_handler", ctypes.c_void_p),
    ]


class TypeRegister(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("type_id", ctypes.c_int64),
        ("type_info", ctypes.c_void_p),
    ]


class UserDataAdd(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("type_id", ctypes.c_int64),
        ("data", ctypes.c_void_p),
    ]


class RegisterHandler(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("handler", ctypes.c_void_p),
        ("platform", ctypes.c_char_p),
        ("platform_size", ctypes.c_size_t),
        ("traits", ctypes.c_int),
    ]


@pytest.fixture(scope="module")
def extension(api: Api) -> Extension:
    address = api.table.extension_start
    while address:
        found = Extension.from_address(address)
        if found.type == KIND:
            return found
        address = found.next
    pytest.fail("the plugin has no FFI extension")


def call(api: Api, function: int, args: ctypes.Structure) -> None:
    args.struct_size = ctypes.sizeof(args)
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    error = prototype(function)(ctypes.addressof(args))
    if error is not None:
        raise api.take_error("FFI", error)


def register_type(api: Api, extension: Extension, name: bytes, number: int = 0) -> int:
    args = TypeRegister(name=name, name_size=len(name), type_id=number)
    call(api, extension.type_register, args)
    return int(args.type_id)


def register(api: Api, extension: Extension, handler: Any, platform: bytes = b"xpu") -> None:
    name = b"test.add_offset"
    args = RegisterHandler(name=name, name_size=len(name), handler=handler)
    args.platform, args.platform_size = platform, len(platform)
    call(api, extension.register_handler, args)


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("ffi")
    (folder / "handler.cc").write_text(SOURCE)
    command = ["g++", "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-I", jax.ffi.include_dir()]
    subprocess.run(
        [*command, str(folder / "handler.cc"), "-o", str(folder / "handler.so")], check=True
    )
    return ctypes.CDLL(str(folder / "handler.so"))


def test_user_data_reaches_the_handler(
    api: Api, client: Client, extension: Extension, handler: ctypes.CDLL
) -> None:
    number = register_type(api, extension, b"test.Offset")
    assert register_type(api, extension, b"test.Offset") == number > 0
    handler.SetId(ctypes.c_int64(number))
    register(api, extension, ctypes.cast(handler.add_offset, ctypes.c_void_p))
    program = client.compile(PROGRAM)
    x = client.buffer(np.float32([1, 2, 3]))
    for value in (10.0, 0.5):
        offset = ctypes.c_float(value)
        context = api.call("PJRT_ExecuteContext_Create").context
        data = UserDataAdd(context=context, type_id=number, data=ctypes.addressof(offset))
        call(api, extension.user_data_add, data)
        with pytest.raises(PjrtError, match="already"):
            call(api, extension.user_data_add, data)
        ((y,),) = client.execute(program, [x], context=context)
        np.testing.assert_array_equal(client.get(y), np.float32([1, 2, 3]) + value)
        api.call("PJRT_ExecuteContext_Destroy", context=context)
        client.destroy(y)
    with pytest.raises(PjrtError, match="no user data of type"):
        client.execute(program, [x])
    client.destroy(x)
    client.destroy_executable(program)


def test_bad_registrations(api: Api, extension: Extension, handler: ctypes.CDLL) -> None:
    address = ctypes.cast(handler.add_offset, ctypes.c_void_p)
    with pytest.raises(PjrtError, match="platform 'Host'"):
        register(api, extension, address, b"Host")
    with pytest.raises(PjrtError, match="`handler` is null"):
        register(api, extension, None)
    number = register_type(api, extension, b"test.One")
    with pytest.raises(PjrtError, match=r"is that of type 'test\.One'"):
        register_type(api, extension, b"test.Two", number)
    with pytest.raises(PjrtError, match="has the number"):
        register_type(api, extension, b"test.One", number + 1)
    context = api.call("PJRT_ExecuteContext_Create").context
    with pytest.raises(PjrtError, match="not registered"):
        call(api, extension.user_data_add, UserDataAdd(context=context, type_id=987654321))
    api.call("PJRT_ExecuteContext_Destroy", context=context)
