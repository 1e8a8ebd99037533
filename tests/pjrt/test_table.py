"""The table of functions, and what every one of them does with arguments that it cannot work on."""

from __future__ import annotations

import ctypes

import pytest

from .c_api import Api, PjrtError, header
from .host import Client

# Answer PJRT_Error_Code_UNIMPLEMENTED. This list may only shrink.
UNIMPLEMENTED = {
    "PJRT_Client_CreateAliasBuffer",  # buffers that are promised to a program before they exist
    "PJRT_Client_FulfillAliasBuffer",
    "PJRT_Buffer_DonateWithControlDependency",
    "PJRT_Device_PoisonExecution",
    "PJRT_CopyToDeviceStream_Destroy",  # send and recv in programs
    "PJRT_CopyToDeviceStream_AddChunk",
    "PJRT_CopyToDeviceStream_TotalBytes",
    "PJRT_CopyToDeviceStream_GranuleSize",
    "PJRT_CopyToDeviceStream_CurrentBytes",
}
ERROR_FUNCTIONS = {"PJRT_Error_Destroy", "PJRT_Error_Message", "PJRT_Error_GetCode"}
FUNCTIONS = sorted(set(header().functions) - ERROR_FUNCTIONS)
LAYOUT_FUNCTIONS = [
    n for n, _ in header().structs["PJRT_Layouts_Extension"]._fields_ if n.startswith("PJRT_")
]
IMPLEMENTED = [n for n in FUNCTIONS + LAYOUT_FUNCTIONS if n not in UNIMPLEMENTED]
# Functions that have no handle, or whose handle may be null.
NULL_IS_FINE = {
    "PJRT_Plugin_Initialize",
    "PJRT_Plugin_Attributes",
    "PJRT_Event_Destroy",
    "PJRT_Event_Create",
    "PJRT_Client_Create",
    "PJRT_Client_Destroy",
    "PJRT_AsyncTrackingEvent_Destroy",
    "PJRT_ExecuteContext_Create",
    "PJRT_ExecuteContext_Destroy",
    "PJRT_Executable_Destroy",
    "PJRT_LoadedExecutable_Destroy",
    "PJRT_Buffer_Destroy",
    "PJRT_AsyncHostToDeviceTransferManager_Destroy",
    "PJRT_TopologyDescription_Create",
    "PJRT_TopologyDescription_Destroy",
    "PJRT_Layouts_MemoryLayout_Destroy",
}


def test_version(api: Api) -> None:
    version = api.table.pjrt_api_version
    assert api.header.version == (0, 90)
    # That of the Shardings extension, which is all that 0.91 adds: XLA's client asks for it only then.
    assert (version.major_version, version.minor_version) == (0, 91)
    assert api.table.struct_size == ctypes.sizeof(api.header.structs["PJRT_Api"])
    assert version.struct_size == api.header.full_size("PJRT_Api_Version")


@pytest.mark.parametrize("function", sorted(header().functions) + LAYOUT_FUNCTIONS)
def test_no_function_is_null(api: Api, function: str) -> None:
    assert api.pointer(function)


@pytest.mark.parametrize("function", sorted(UNIMPLEMENTED))
def test_unimplemented_functions_name_themselves(api: Api, function: str) -> None:
    with pytest.raises(PjrtError) as error:
        api.call(function)
    assert error.value.code == "UNIMPLEMENTED"
    assert function in error.value.message


@pytest.mark.parametrize("function", IMPLEMENTED)
def test_null_arguments(api: Api, function: str) -> None:
    error = api.raw_call(function, None)
    assert error is not None
    taken = api.take_error(function, error)
    assert taken.code == "INVALID_ARGUMENT"
    assert function in taken.message


@pytest.mark.parametrize("function", IMPLEMENTED)
@pytest.mark.parametrize("size", [0, 15])
def test_struct_too_short(api: Api, function: str, size: int) -> None:
    args = api.make(f"{function}_Args")
    args.struct_size = size
    with pytest.raises(PjrtError, match="struct_size") as error:
        api.call_with(function, args)
    assert error.value.code == "INVALID_ARGUMENT"
    assert function in error.value.message
    assert f"struct_size is {size}" in error.value.message


@pytest.mark.parametrize("function", [n for n in IMPLEMENTED if n not in NULL_IS_FINE])
def test_null_handle(api: Api, function: str) -> None:
    with pytest.raises(PjrtError, match="is null") as error:
        api.call(function)
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("function", sorted(n for n in NULL_IS_FINE if n.endswith("_Destroy")))
def test_destroying_null_is_fine(api: Api, function: str) -> None:
    api.call(function)


def _with_guard(api: Api, struct: str, size: int) -> tuple[ctypes.Array, ctypes.Structure]:
    """A struct of `size` bytes in a larger array of 0xa5, as a caller that knows only so many fields has it."""
    storage = (ctypes.c_uint8 * 4096)(*([0xA5] * 4096))
    ctypes.memset(storage, 0, size)
    args = api.header.structs[struct].from_buffer(storage)
    args.struct_size = size
    return storage, args


def test_shorter_struct_of_an_older_caller(api: Api, client: Client) -> None:
    """MemoryStats of a caller that knows nothing after bytes_in_use: only that is written."""
    struct = api.header.structs["PJRT_Device_MemoryStats_Args"]
    size = struct.bytes_in_use.offset + struct.bytes_in_use.size
    storage, args = _with_guard(api, "PJRT_Device_MemoryStats_Args", size)
    args.device = client.devices[0]
    api.call_with("PJRT_Device_MemoryStats", args)
    assert args.bytes_in_use >= 0
    assert set(storage[size:]) == {0xA5}


def test_older_structs_of_other_functions(api: Api) -> None:
    """Create of a caller from before the try-get callback, CompiledMemoryStats from before the peak."""
    struct = api.header.structs["PJRT_Client_Create_Args"]
    size = struct.client.offset + struct.client.size
    storage, args = _with_guard(api, "PJRT_Client_Create_Args", size)
    options = api.named_values({"prestart_worker": False})
    args.create_options, args.num_options = ctypes.addressof(options), 1
    api.call_with("PJRT_Client_Create", args)
    assert set(storage[size:]) == {0xA5}
    api.call("PJRT_Client_Destroy", client=args.client)


def test_longer_struct_of_a_newer_caller(api: Api, client: Client) -> None:
    """What comes after the fields that we know is left alone."""
    size = api.header.full_size("PJRT_Client_PlatformName_Args")
    storage = (ctypes.c_uint8 * 4096)(*([0xA5] * 4096))
    args = api.header.structs["PJRT_Client_PlatformName_Args"].from_buffer(storage)
    args.struct_size = size + 64
    args.client = client.handle
    api.call_with("PJRT_Client_PlatformName", args)
    assert args.text("platform_name") == "xpu"
    assert set(storage[size:]) == {0xA5}


def test_error_functions(api: Api) -> None:
    error = api.raw_call("PJRT_Client_Devices", None)
    code = api.make("PJRT_Error_GetCode_Args", error=error)
    code.struct_size = 8
    short = api.raw_call("PJRT_Error_GetCode", code)
    assert short is not None
    assert api.take_error("PJRT_Error_GetCode", short).code == "INVALID_ARGUMENT"
    assert api.take_error("PJRT_Client_Devices", error).code == "INVALID_ARGUMENT"  # type: ignore[arg-type]
    api.raw_void("PJRT_Error_Destroy", api.make("PJRT_Error_Destroy_Args"))  # null is fine


def test_plugin_attributes(api: Api) -> None:
    api.call("PJRT_Plugin_Initialize")
    args = api.call("PJRT_Plugin_Attributes")
    attributes = api.read_named_values(args.attributes, args.num_attributes)
    assert attributes["stablehlo_current_version"] == [1, 17, 0]
    assert attributes["stablehlo_minimum_version"] == [0, 9, 0]
    assert attributes["xla_version"] == 2
