"""Our declarations of the FFI's C ABI are those of jaxlib's headers: sizes and offsets, by the compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[4]

#: Our struct, XLA's, and pairs of fields.
STRUCTS = {
    ("Buffer", "XLA_FFI_Buffer"): "dtype data rank dims",
    ("Scalar", "XLA_FFI_Scalar"): "dtype value",
    ("Array", "XLA_FFI_Array"): "dtype size data",
    ("ByteSpan", "XLA_FFI_ByteSpan"): "ptr len",
    ("Arguments", "XLA_FFI_Args"): "size types values:args",
    ("Arguments", "XLA_FFI_Rets"): "size types values:rets",
    ("Attributes", "XLA_FFI_Attrs"): "size types names values:attrs",
    ("CallFrame", "XLA_FFI_CallFrame"): (
        "struct_size extension_start api context:ctx stage arguments:args results:rets attributes:attrs future"
    ),
    ("TypeInfo", "XLA_FFI_TypeInfo"): "deleter",
    ("Metadata", "XLA_FFI_Metadata"): "struct_size api_version traits state_type_id",
    ("MetadataExtension", "XLA_FFI_Metadata_Extension"): "metadata",
    ("ErrorCreateArgs", "XLA_FFI_Error_Create_Args"): "message code:errc",
    ("TypeRegisterArgs", "XLA_FFI_Type_Register_Args"): "name type_id type_info",
    ("StateArgs3", "XLA_FFI_State_Set_Args"): "context:ctx stage type_id state",
    ("StateArgs3", "XLA_FFI_State_Get_Args"): "context:ctx stage type_id state",
    ("StreamGetArgs", "XLA_FFI_Stream_Get_Args"): "context:ctx stream",
    ("MemoryAllocateArgs", "XLA_FFI_DeviceMemory_Allocate_Args"): "context:ctx size alignment data",
    ("MemoryFreeArgs", "XLA_FFI_DeviceMemory_Free_Args"): "context:ctx size data",
    ("ScheduleArgs", "XLA_FFI_ThreadPool_Schedule_Args"): "context:ctx task data",
    ("NumThreadsArgs", "XLA_FFI_ThreadPool_NumThreads_Args"): "context:ctx num_threads",
    ("FutureSetErrorArgs", "XLA_FFI_Future_SetError_Args"): "future error",
    ("RunIdArgs", "XLA_FFI_RunId_Get_Args"): "context:ctx run_id",
    ("DeviceOrdinalArgs", "XLA_FFI_DeviceOrdinal_Get_Args"): "context:ctx device_ordinal",
}
#: What a later version has renamed (ours, theirs, fields), by its name before.
OLD_NAMES = {
    "XLA_FFI_Error_GetMessage": (
        "ErrorGetDetailsArgs",
        "XLA_FFI_Error_GetDetails",
        "error message",
    ),
    "XLA_FFI_ExecutionContext_Get": (
        "ExecutionContextGetArgs",
        "XLA_FFI_InvokeContext_Get",
        "context:ctx type_id data",
    ),
}
#: What a later version has made longer, or added.
GROWN = {
    ("HandlerBundle", "XLA_FFI_Handler_Bundle"): "instantiate prepare initialize execute",
    ("HandlerRegisterArgs", "XLA_FFI_Handler_Register_Args"): "name platform bundle",
}
ADDED = {
    ("ErrorGetDetailsArgs", "XLA_FFI_Error_GetDetails_Args"): "error message code:errc",
    ("FindExtensionArgs", "XLA_FFI_InvokeContext_FindExtension_Args"): (
        "context:ctx extension_type extension"
    ),
    ("CustomOptionsArgs", "XLA_FFI_CustomOptions_Get_Args"): "context:ctx options:attrs",
}
FUNCTIONS = {
    "error_create": "Error_Create",
    "handler_register": "Handler_Register",
    "stream_get": "Stream_Get",
    "type_register": "Type_Register",
    "state_set": "State_Set",
    "memory_allocate": "DeviceMemory_Allocate",
    "num_threads": "ThreadPool_NumThreads",
    "future_set_error": "Future_SetError",
    "device_ordinal": "DeviceOrdinal_Get",
}


def test_layouts(tmp_path: Path) -> None:
    lines = [
        '#include "core/runtime/ffi/c_api.h"',
        '#include "xla/ffi/api/c_api.h"',
        "#include <cstddef>",
    ]
    lines.append("namespace t = tripont::ffi;")
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    functions = dict(FUNCTIONS)

    def compare(ours: str, theirs: str, fields: str) -> None:
        for field in fields.split():
            mine, _, other = field.partition(":")
            lines.append(
                f"static_assert(offsetof(t::{ours}, {mine}) == offsetof({theirs}, {other or mine}), "
                f'"{theirs}.{mine}");'
            )

    for (ours, theirs), fields in STRUCTS.items():
        lines.append(f'static_assert(sizeof(t::{ours}) == sizeof({theirs}), "{theirs}");')
        compare(ours, theirs, fields)
    for (ours, theirs), fields in GROWN.items():
        lines.append(f'static_assert(sizeof(t::{ours}) <= sizeof({theirs}), "{theirs}");')
        compare(ours, theirs, fields)
    for old, (ours, new, fields) in OLD_NAMES.items():
        name = new if f"struct {new}_Args" in header else old
        compare(ours, f"{name}_Args", fields)
        mine = "error_get_details" if ours == "ErrorGetDetailsArgs" else "execution_context_get"
        functions[mine] = name.removeprefix("XLA_FFI_")
    for (ours, theirs), fields in ADDED.items():
        if f"struct {theirs}" in header:
            lines.append(f'static_assert(sizeof(t::{ours}) == sizeof({theirs}), "{theirs}");')
            compare(ours, theirs, fields)
    for mine, other in (
        ("find_extension", "InvokeContext_FindExtension"),
        ("custom_options", "CustomOptions_Get"),
    ):
        if f"_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_{other})" in header:
            functions[mine] = other
    for mine, other in functions.items():
        lines.append(
            f"static_assert(offsetof(t::Api, {mine}) == offsetof(XLA_FFI_Api, XLA_FFI_{other}), "
            f'"{other}");'
        )
    lines += [
        "static_assert(t::kCallFrameSize == XLA_FFI_CallFrame_STRUCT_SIZE);",
        "static_assert(t::kMetadataSize == XLA_FFI_Metadata_STRUCT_SIZE);",
        "static_assert(sizeof(t::Api) >= XLA_FFI_Api_STRUCT_SIZE);",
        "static_assert(t::kApiMajor == XLA_FFI_API_MAJOR);",
    ]
    source = tmp_path / "layouts.cc"
    source.write_text("\n".join(lines) + "\n")
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wno-invalid-offsetof"]
    done = subprocess.run(
        [*command, "-I", str(ROOT), "-I", jax.ffi.include_dir(), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(done.stderr)
