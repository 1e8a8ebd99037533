"""A small PJRT host: what a framework does with the C API, in terms of NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .c_api import Api, int64_array, pointer_array
from .key_value_store import Store

# The element types of the API, with the NumPy type that a host array of them has (one byte an element below 8 bits).
NUMPY_TYPES: dict[str, Any] = {
    "PRED": np.bool_,
    "S8": np.int8,
    "S16": np.int16,
    "S32": np.int32,
    "S64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    "C64": np.complex64,
    "C128": np.complex128,
    "F8E5M2": ml_dtypes.float8_e5m2,
    "F8E4M3FN": ml_dtypes.float8_e4m3fn,
    "F8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "F8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "S4": ml_dtypes.int4,
    "U4": ml_dtypes.uint4,
    "S2": ml_dtypes.int2,
    "U2": ml_dtypes.uint2,
    "F8E4M3": ml_dtypes.float8_e4m3,
    "F8E3M4": ml_dtypes.float8_e3m4,
    "F8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "F4E2M1FN": ml_dtypes.float4_e2m1fn,
    "F6E2M3FN": ml_dtypes.float6_e2m3fn,
    "F6E3M2FN": ml_dtypes.float6_e3m2fn,
}
# Numbers of types that the header of the oldest TensorFlow does not have: pjrt_c_api.h's of jaxlib 0.11.
LATER = {"PJRT_Buffer_Type_F6E2M3FN": 32, "PJRT_Buffer_Type_F6E3M2FN": 33}


def aligned(array: np.ndarray, alignment: int = 64, offset: int = 0) -> np.ndarray:
    """A dense copy whose address is `offset` past a multiple of `alignment`."""
    raw = np.empty(array.nbytes + 2 * alignment, np.uint8)
    start = -raw.ctypes.data % alignment + offset
    result = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


class Client:
    """One client of the plugin. Handles are plain integers; what is not destroyed by a test is destroyed by close()."""

    def __init__(
        self, api: Api, *, store: Store | None = None, **options: str | int | bool
    ) -> None:
        self.api = api
        # No test here waits for a compile worker that it does not need, or finds another test's artifacts.
        values = {"prestart_worker": False, **options}
        self.handle = api.call(
            "PJRT_Client_Create",
            create_options=api.named_values(values),
            num_options=len(values),
            **(store.fields() if store else {}),
        ).client
        listed = api.call("PJRT_Client_AddressableDevices", client=self.handle)
        self.devices = listed.pointers("addressable_devices", "num_addressable_devices")
        self._types = LATER | api.header.enums["PJRT_Buffer_Type"]
        self._numpy_types = {
            np.dtype(v): self._types[f"PJRT_Buffer_Type_{k}"] for k, v in NUMPY_TYPES.items()
        }
        self._dtypes = {number: dtype for dtype, number in self._numpy_types.items()}
        self._semantics = api.header.enums["PJRT_HostBufferSemantics"]

    def close(self) -> None:
        self.api.call("PJRT_Client_Destroy", client=self.handle)

    def type_of(self, dtype: Any) -> int:
        return self._numpy_types[np.dtype(dtype)]

    def default_memory(self, device: int) -> int:
        return int(self.api.call("PJRT_Device_DefaultMemory", device=device).memory)

    def memories(self, device: int) -> dict[str, int]:
        args = self.api.call("PJRT_Device_AddressableMemories", device=device)
        return {
            self.api.call("PJRT_Memory_Kind", memory=m).text("kind"): m
            for m in args.pointers("memories", "num_memories")
        }

    # ------------------------------------------------------------------------------------------------ events

    def is_ready(self, event: int) -> bool:
        return bool(self.api.call("PJRT_Event_IsReady", event=event).is_ready)

    def wait(self, event: int) -> None:
        """Waits for the event and destroys it. Raises its error."""
        try:
            self.api.call("PJRT_Event_Await", event=event)
        finally:
            self.api.call("PJRT_Event_Destroy", event=event)

    # ----------------------------------------------------------------------------------------------- buffers

    def put(
        self,
        array: np.ndarray,
        *,
        device: int | None = None,
        memory: int | None = None,
        semantics: str = "ImmutableOnlyDuringCall",
        strides: bool = True,
        **fields: Any,
    ) -> Any:
        """PJRT_Client_BufferFromHostBuffer: the argument struct, with `buffer` and `done_with_host_buffer`."""
        if device is None and memory is None:
            device = self.devices[0]
        return self.api.call(
            "PJRT_Client_BufferFromHostBuffer",
            client=self.handle,
            data=array.ctypes.data,
            type=self.type_of(array.dtype),
            dims=int64_array(array.shape),
            num_dims=array.ndim,
            byte_strides=int64_array(array.strides),
            num_byte_strides=array.ndim if strides else 0,
            host_buffer_semantics=self._semantics[f"PJRT_HostBufferSemantics_k{semantics}"],
            device=device,
            memory=memory,
            **fields,
        )

    def buffer(self, array: np.ndarray, **options: Any) -> int:
        """A buffer that is a copy of `array`."""
        args = self.put(array, **options)
        self.api.call("PJRT_Event_Destroy", event=args.done_with_host_buffer)
        return int(args.buffer)

    def shape(self, buffer: int) -> tuple[int, ...]:
        return tuple(
            self.api.call("PJRT_Buffer_Dimensions", buffer=buffer).int64s("dims", "num_dims")
        )

    def dtype(self, buffer: int) -> np.dtype:
        return self._dtypes[self.api.call("PJRT_Buffer_ElementType", buffer=buffer).type]

    def get(self, buffer: int, layout: Any = None) -> np.ndarray:
        """The buffer's content as a dense array (in the order that `layout` gives the bytes)."""
        result = np.empty(self.shape(buffer), self.dtype(buffer))
        size = self.api.call("PJRT_Buffer_ToHostBuffer", src=buffer).dst_size
        assert size == result.nbytes
        if size == 0:
            return result
        args = self.api.call(
            "PJRT_Buffer_ToHostBuffer",
            src=buffer,
            host_layout=layout,
            dst=result.ctypes.data,
            dst_size=result.nbytes,
        )
        self.wait(args.event)
        return result

    def tiled_layout(self, minor_to_major: Sequence[int], num_tiles: int = 0) -> Any:
        layout = self.api.make("PJRT_Buffer_MemoryLayout")
        layout.type = self.api.header.enums["PJRT_Buffer_MemoryLayout_Type"][
            "PJRT_Buffer_MemoryLayout_Type_Tiled"
        ]
        order = int64_array(minor_to_major)
        layout._keep.append(order)
        layout.tiled.minor_to_major = ctypes.addressof(order)
        layout.tiled.minor_to_major_size = len(minor_to_major)
        layout.tiled.num_tiles = num_tiles
        return layout

    def strides_layout(self, byte_strides: Sequence[int]) -> Any:
        layout = self.api.make("PJRT_Buffer_MemoryLayout")
        layout.type = self.api.header.enums["PJRT_Buffer_MemoryLayout_Type"][
            "PJRT_Buffer_MemoryLayout_Type_Strides"
        ]
        strides = int64_array(byte_strides)
        layout._keep.append(strides)
        layout.strides.byte_strides = ctypes.addressof(strides)
        layout.strides.num_byte_strides = len(byte_strides)
        return layout

    def is_deleted(self, buffer: int) -> bool:
        return bool(self.api.call("PJRT_Buffer_IsDeleted", buffer=buffer).is_deleted)

    def destroy(self, *buffers: int) -> None:
        for buffer in buffers:
            self.api.call("PJRT_Buffer_Destroy", buffer=buffer)

    def bytes_in_use(self, device: int | None = None) -> int:
        return int(
            self.api.call("PJRT_Device_MemoryStats", device=device or self.devices[0]).bytes_in_use
        )

    # ------------------------------------------------------------------------------------------- executables

    def compile(self, code: bytes, format_: str = "mlir", options: bytes = b"") -> int:
        program = self.api.make(
            "PJRT_Program",
            code=code,
            code_size=len(code),
            format=format_.encode(),
            format_size=len(format_),
        )
        return int(
            self.api.call(
                "PJRT_Client_Compile",
                client=self.handle,
                program=program,
                compile_options=options,
                compile_options_size=len(options),
            ).executable
        )

    def load(self, serialized: bytes, options: bytes | None = None) -> int:
        fields: dict[str, Any] = {}
        if options is not None:
            fields = {
                "overridden_serialized_compile_options": options,
                "overridden_serialized_compile_options_size": len(options),
            }
        return int(
            self.api.call(
                "PJRT_Executable_DeserializeAndLoad",
                client=self.handle,
                serialized_executable=serialized,
                serialized_executable_size=len(serialized),
                **fields,
            ).loaded_executable
        )

    def executable(self, loaded: int) -> int:
        return int(
            self.api.call(
                "PJRT_LoadedExecutable_GetExecutable", loaded_executable=loaded
            ).executable
        )

    def num_outputs(self, loaded: int) -> int:
        executable = self.executable(loaded)
        count = int(self.api.call("PJRT_Executable_NumOutputs", executable=executable).num_outputs)
        self.api.call("PJRT_Executable_Destroy", executable=executable)
        return count

    def execute(
        self,
        loaded: int,
        *arguments: Sequence[int],
        device: int | None = None,
        non_donatable: Sequence[int] = (),
        events: bool = False,
        context: int | None = None,
    ) -> list[list[int]]:
        """One list of arguments a device; one list of results a device. Waits for `events` if they are asked for."""
        lists = arguments or ([],)
        outputs = [pointer_array([None] * self.num_outputs(loaded)) for _ in lists]
        inputs = [pointer_array(a) for a in lists]
        done = pointer_array([None] * len(lists))
        options = self.api.make(
            "PJRT_ExecuteOptions",
            non_donatable_input_indices=int64_array(non_donatable),
            num_non_donatable_input_indices=len(non_donatable),
            launch_id=-7,
            context=context,
        )
        self.api.call(
            "PJRT_LoadedExecutable_Execute",
            executable=loaded,
            options=options,
            argument_lists=pointer_array([ctypes.addressof(a) for a in inputs]),
            num_devices=len(lists),
            num_args=len(lists[0]),
            output_lists=pointer_array([ctypes.addressof(o) for o in outputs]),
            device_complete_events=done if events else None,
            execute_device=device,
        )
        if events:
            for event in done[: len(lists)]:
                self.wait(event)
        count = self.num_outputs(loaded)
        return [list(o[:count]) for o in outputs]

    def destroy_executable(self, loaded: int) -> None:
        self.api.call("PJRT_LoadedExecutable_Destroy", executable=loaded)
