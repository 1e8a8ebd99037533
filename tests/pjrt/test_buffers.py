"""Transfers of every type and layout, and the life of buffers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from .c_api import Api, PjrtError, int64_array, pointer_array
from .host import NUMPY_TYPES, Client, aligned

SEMANTICS = [
    "ImmutableOnlyDuringCall",
    "ImmutableUntilTransferCompletes",
    "ImmutableZeroCopy",
    "MutableZeroCopy",
]


def sample(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Any bytes that are a value of the type: below 8 bits only the low bits may be set."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    bits = next(
        (int(n) for n in "246" if dtype.name.startswith((f"int{n}", f"uint{n}", f"float{n}_"))), 8
    )
    data = rng.integers(0, 2**bits, (*shape, dtype.itemsize)).astype(np.uint8)
    return data.reshape(-1).view(dtype).reshape(shape)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", sorted(NUMPY_TYPES))
@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (2, 3, 4, 5), (0,), (3, 0, 2)])
def test_round_trip(api: Api, client: Client, name: str, shape: tuple[int, ...]) -> None:
    array = sample(NUMPY_TYPES[name], shape)
    without_strides = client.buffer(array, strides=False)
    assert same(client.get(without_strides), array)
    client.destroy(without_strides)
    buffer = client.buffer(array)
    assert same(client.get(buffer), array)
    assert client.shape(buffer) == shape
    args = api.call("PJRT_Buffer_UnpaddedDimensions", buffer=buffer)
    assert tuple(args.int64s("unpadded_dims", "num_dims")) == shape
    assert api.call("PJRT_Buffer_DynamicDimensionIndices", buffer=buffer).num_dynamic_dims == 0
    size = api.call("PJRT_Buffer_OnDeviceSizeInBytes", buffer=buffer).on_device_size_in_bytes
    assert size == array.nbytes
    assert api.call("PJRT_Buffer_IsOnCpu", buffer=buffer).is_on_cpu
    assert api.call("PJRT_Buffer_Device", buffer=buffer).device == client.devices[0]
    assert api.call("PJRT_Buffer_Memory", buffer=buffer).memory == client.default_memory(
        client.devices[0]
    )
    client.destroy(buffer)


def views() -> dict[str, np.ndarray]:
    base = sample(np.float32, (6, 8, 10))
    return {
        "transposed": base.transpose(2, 0, 1),
        "fortran": np.asfortranarray(base),
        "swapped": base.swapaxes(0, 1),
        "sliced": base[::2, 1:7:3, ::5],
        "reversed": base[::-1, :, ::-1],
        "broadcast": np.broadcast_to(base[:, :1, :], base.shape),
        "scalar broadcast": np.broadcast_to(np.float32(7), (3, 5)),
        "one row": base[3:4, :, ::2],
        "empty": base[:0, ::2],
        "bytes": sample(np.int8, (33, 65)).T,
        "complex": sample(np.complex128, (9, 4)).T,
        "large": sample(np.float32, (700, 900)).T,
        "wide": sample(np.int16, (3, 400, 500)).transpose(2, 1, 0),
    }


@pytest.mark.parametrize("name", sorted(views()))
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_strides(client: Client, name: str, semantics: str) -> None:
    array = views()[name]
    args = client.put(array, semantics=semantics)
    client.wait(args.done_with_host_buffer)  # never an alias: the array is not dense
    assert same(client.get(args.buffer), np.ascontiguousarray(array))
    client.destroy(args.buffer)


@pytest.mark.parametrize("shape", [(), (4,), (3, 5), (2, 3, 4), (300, 500)])
def test_host_layouts(client: Client, shape: tuple[int, ...]) -> None:
    """To the host in any order of dimensions: JAX always asks for one, row-major."""
    import itertools

    array = sample(np.float32, shape)
    buffer = client.buffer(array)
    for order in itertools.permutations(range(len(shape))):
        got = client.get(buffer, client.tiled_layout(order))
        major_to_minor = order[::-1]
        expected = np.ascontiguousarray(array.transpose(major_to_minor)) if shape else array
        assert got.tobytes() == expected.tobytes()
    if shape:
        strides = np.cumprod([1, *shape[:-1]]) * 4  # column-major
        assert client.get(
            buffer, client.strides_layout(strides.tolist())
        ).tobytes() == array.tobytes("F")
    client.destroy(buffer)


def test_bad_host_layouts(api: Api, client: Client) -> None:
    buffer = client.buffer(sample(np.float32, (3, 5)))
    nowhere = client.tiled_layout([1, 0])
    nowhere.tiled.minor_to_major = None  # two dimensions, and no list of them
    bad = {
        "permutation": [
            nowhere,
            client.tiled_layout([0, 0]),
            client.tiled_layout([0]),
            client.tiled_layout([0, 2]),
            client.tiled_layout([-1, 0]),
        ],
        "tiled": [client.tiled_layout([1, 0], num_tiles=1)],
        "stride": [
            client.strides_layout([4]),
            client.strides_layout([-20, 4]),
            client.strides_layout([2**62, 2**62]),
        ],
        "needs": [client.strides_layout([400, 4])],
    }
    for text, layouts in bad.items():
        for layout in layouts:
            with pytest.raises(PjrtError, match=text):
                client.get(buffer, layout)
    client.destroy(buffer)


def test_reading_into_too_little_room(api: Api, client: Client) -> None:
    buffer = client.buffer(sample(np.float32, (3, 5)))
    room = np.zeros(59, np.uint8)
    with pytest.raises(PjrtError) as error:
        api.call("PJRT_Buffer_ToHostBuffer", src=buffer, dst=room.ctypes.data, dst_size=59)
    assert error.value.code == "INVALID_ARGUMENT"
    assert "60" in error.value.message
    client.destroy(buffer)


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_small_arrays_are_copied_at_once(client: Client, semantics: str) -> None:
    array = aligned(np.arange(16, dtype=np.float32))
    args = client.put(array, semantics=semantics)
    assert client.is_ready(args.done_with_host_buffer)
    client.wait(args.done_with_host_buffer)
    array[:] = -1
    assert same(client.get(args.buffer), np.arange(16, dtype=np.float32))
    client.destroy(args.buffer)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("offset", [0, 4])
def test_large_arrays_are_aliased_if_that_is_allowed(
    api: Api, client: Client, semantics: str, offset: int
) -> None:
    array = aligned(np.arange(65536, dtype=np.float32), offset=offset)
    args = client.put(array, semantics=semantics)
    event = args.done_with_host_buffer
    address = api.call("PJRT_Buffer_UnsafePointer", buffer=args.buffer).buffer_pointer
    aliased = semantics.endswith("ZeroCopy") and offset == 0
    assert (address == array.ctypes.data) == aliased
    assert client.is_ready(event) != aliased
    assert same(client.get(args.buffer), array)
    client.destroy(args.buffer)
    assert client.is_ready(event)
    client.wait(event)


def test_views_of_foreign_memory(api: Api, client: Client) -> None:
    deleted: list[tuple[int, int]] = []
    on_delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        lambda d, a: deleted.append((d, a))
    )
    callback = ctypes.cast(on_delete, ctypes.c_void_p).value

    def view(array: np.ndarray, **fields: Any) -> int:
        return int(
            api.call(
                "PJRT_Client_CreateViewOfDeviceBuffer",
                client=client.handle,
                dims=int64_array(array.shape),
                device_buffer_ptr=array.ctypes.data,
                num_dims=array.ndim,
                on_delete_callback_arg=42,
                element_type=client.type_of(array.dtype),
                on_delete_callback=callback,
                **fields,
            ).buffer
        )

    array = aligned(sample(np.int32, (4, 6)))
    memory = client.default_memory(client.devices[0])
    for fields in (
        {"memory": memory},
        {"device": client.devices[0]},
        {"memory": memory, "layout": client.tiled_layout([1, 0])},
    ):
        buffer = view(array, **fields)
        assert (
            api.call("PJRT_Buffer_UnsafePointer", buffer=buffer).buffer_pointer == array.ctypes.data
        )
        assert same(client.get(buffer), array)
        assert not deleted
        api.call("PJRT_Buffer_Delete", buffer=buffer)
        assert deleted.pop() == (array.ctypes.data, 42)
        client.destroy(buffer)
        assert not deleted

    # Kernels need 64-byte alignment and rows in order: otherwise a copy, and the memory is free at once.
    for other, fields in (
        (aligned(array, offset=4), {"memory": memory}),
        (
            aligned(np.ascontiguousarray(array.T)).T,
            {"memory": memory, "layout": client.tiled_layout([0, 1])},
        ),
    ):
        buffer = view(other, **fields)
        assert deleted.pop() == (other.ctypes.data, 42)
        assert same(client.get(buffer), array)
        client.destroy(buffer)
    assert not deleted
    with pytest.raises(PjrtError, match="memory"):
        view(array)


def test_a_view_without_elements_of_any_size(api: Api, client: Client) -> None:
    """Its strides are beyond 64 bits, which the undefined-behaviour sanitizer reported (make test-ubsan)."""
    dims = (0, 2**63 - 1, 2**29)
    buffer = api.call(
        "PJRT_Client_CreateViewOfDeviceBuffer",
        client=client.handle,
        dims=int64_array(dims),
        num_dims=len(dims),
        element_type=client.type_of(np.dtype(np.int8)),
        memory=client.default_memory(client.devices[0]),
    ).buffer
    made = api.call("PJRT_Buffer_Dimensions", buffer=buffer).int64s("dims", "num_dims")
    assert tuple(made) == dims
    client.destroy(buffer)


def test_uninitialized_buffer(api: Api, client: Client) -> None:
    args = api.call(
        "PJRT_Client_CreateUninitializedBuffer",
        client=client.handle,
        shape_dims=int64_array([4, 5]),
        shape_num_dims=2,
        shape_element_type=client.type_of(np.float64),
        device=client.devices[0],
    )
    assert client.shape(args.buffer) == (4, 5)
    address = api.call(
        "PJRT_Buffer_OpaqueDeviceMemoryDataPointer", buffer=args.buffer
    ).device_memory_ptr
    assert address % 64 == 0
    array = np.arange(20.0).reshape(4, 5)
    ctypes.memmove(address, array.ctypes.data, array.nbytes)
    assert same(client.get(args.buffer), array)
    client.destroy(args.buffer)


def test_error_buffer(api: Api, client: Client) -> None:
    fields = {
        "client": client.handle,
        "shape_dims": int64_array([3]),
        "shape_num_dims": 1,
        "shape_element_type": client.type_of(np.float32),
        "memory": client.default_memory(client.devices[0]),
        "error_message": b"lost it",
        "error_message_size": 7,
    }
    code = api.header.enums["PJRT_Error_Code"]["PJRT_Error_Code_DATA_LOSS"]
    buffer = api.call("PJRT_Client_CreateErrorBuffer", error_code=code, **fields).buffer
    event = api.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event
    with pytest.raises(PjrtError, match="lost it") as error:
        client.wait(event)
    assert error.value.code == "DATA_LOSS"
    with pytest.raises(PjrtError, match="lost it"):
        client.get(buffer)
    client.destroy(buffer)
    with pytest.raises(PjrtError, match="error_code"):
        api.call("PJRT_Client_CreateErrorBuffer", error_code=0, **fields)
    silent = fields | {"error_message": None, "error_message_size": 0}
    buffer = api.call("PJRT_Client_CreateErrorBuffer", error_code=code, **silent).buffer
    with pytest.raises(PjrtError, match="says nothing"):
        client.get(buffer)
    client.destroy(buffer)


def test_device_layouts_without_a_list(api: Api, client: Client) -> None:
    array, layout = aligned(np.zeros((2, 3), np.float32)), client.tiled_layout([0, 1])
    layout.tiled.minor_to_major = None
    with pytest.raises(PjrtError, match="permutation"):
        client.put(array, device_layout=layout)


def test_memory_layout_of_a_buffer(api: Api, client: Client) -> None:
    buffer = client.buffer(sample(np.float32, (2, 3, 4)))
    layout = api.call("PJRT_Buffer_GetMemoryLayout", buffer=buffer).layout
    assert layout.type == 0  # tiled, without tiles
    assert layout.tiled.num_tiles == 0
    order = (ctypes.c_int64 * 3).from_address(layout.tiled.minor_to_major)
    assert list(order) == [2, 1, 0]
    args = api.call("PJRT_Layouts_PJRT_Buffer_MemoryLayout", buffer=buffer)
    text = api.call("PJRT_Layouts_MemoryLayout_Serialize", layout=args.layout).text(
        "serialized_bytes"
    )
    assert text == "{2,1,0}"
    client.destroy(buffer)


def test_deleted_buffer(api: Api, client: Client) -> None:
    """After Delete only its description, IsDeleted and Destroy are left."""
    buffer = client.buffer(sample(np.float32, (3,)))
    event = api.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event
    client.wait(event)
    assert not client.is_deleted(buffer)
    for _ in range(2):
        api.call("PJRT_Buffer_Delete", buffer=buffer)
        assert client.is_deleted(buffer)
    assert client.shape(buffer) == (3,)
    destination = np.zeros(3, np.float32)
    for function, fields in (
        (
            "PJRT_Buffer_ToHostBuffer",
            {"src": buffer, "dst": destination.ctypes.data, "dst_size": 12},
        ),
        (
            "PJRT_Buffer_CopyRawToHost",
            {"buffer": buffer, "dst": destination.ctypes.data, "transfer_size": 4},
        ),
        ("PJRT_Buffer_CopyToDevice", {"buffer": buffer, "dst_device": client.devices[0]}),
        ("PJRT_Buffer_UnsafePointer", {"buffer": buffer}),
        ("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", {"buffer": buffer}),
        ("PJRT_Buffer_IncreaseExternalReferenceCount", {"buffer": buffer}),
    ):
        with pytest.raises(PjrtError, match="deleted") as error:
            api.call(function, **fields)
        assert error.value.code == "INVALID_ARGUMENT", function
    event = api.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event
    assert client.is_ready(event)
    with pytest.raises(PjrtError, match="deleted"):
        client.wait(event)
    client.destroy(buffer)


def test_external_references(api: Api, client: Client) -> None:
    """Memory that somebody outside knows stays, also when the buffer is deleted."""
    array = sample(np.float32, (100_000,))
    buffer = client.buffer(array)
    with pytest.raises(PjrtError) as error:
        api.call("PJRT_Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    assert error.value.code == "FAILED_PRECONDITION"
    api.call("PJRT_Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    address = api.call("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", buffer=buffer).device_memory_ptr
    used = client.bytes_in_use()
    api.call("PJRT_Buffer_Delete", buffer=buffer)
    assert client.bytes_in_use() == used
    assert ctypes.string_at(address, array.nbytes) == array.tobytes()
    api.call("PJRT_Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    assert client.bytes_in_use() <= used - array.nbytes
    client.destroy(buffer)


def test_memory_comes_back(client: Client) -> None:
    before = client.bytes_in_use()
    buffers = [client.buffer(sample(np.float32, (1000,))) for _ in range(100)]
    assert client.bytes_in_use() >= before + 100 * 4000
    client.destroy(*buffers)
    assert client.bytes_in_use() == before


def test_copies_between_devices_and_memories(api: Api, client4: Client) -> None:
    array = sample(np.float32, (50, 60))
    source = client4.buffer(array, device=client4.devices[1])
    copies = []
    for device in client4.devices:
        copy = api.call("PJRT_Buffer_CopyToDevice", buffer=source, dst_device=device).dst_buffer
        assert api.call("PJRT_Buffer_Device", buffer=copy).device == device
        copies.append(copy)
    for memory in client4.memories(client4.devices[2]).values():
        copy = api.call("PJRT_Buffer_CopyToMemory", buffer=source, dst_memory=memory).dst_buffer
        assert api.call("PJRT_Buffer_Memory", buffer=copy).memory == memory
        assert api.call("PJRT_Buffer_Device", buffer=copy).device == client4.devices[2]
        copies.append(copy)
    client4.destroy(source)
    for copy in copies:
        assert same(client4.get(copy), array)
    client4.destroy(*copies)


def test_put_into_a_memory(api: Api, client4: Client) -> None:
    for device in client4.devices[:2]:
        for memory in client4.memories(device).values():
            buffer = client4.buffer(sample(np.int32, (3,)), memory=memory)
            assert api.call("PJRT_Buffer_Memory", buffer=buffer).memory == memory
            assert api.call("PJRT_Buffer_Device", buffer=buffer).device == device
            client4.destroy(buffer)


def test_things_of_another_client(api: Api, client: Client, client4: Client) -> None:
    array = sample(np.float32, (3,))
    with pytest.raises(PjrtError, match="another client"):
        client.put(array, device=client4.devices[0])
    with pytest.raises(PjrtError, match="another client"):
        client.put(array, memory=client4.default_memory(client4.devices[0]))
    buffer = client.buffer(array)
    for function, fields in (
        ("PJRT_Buffer_CopyToDevice", {"dst_device": client4.devices[0]}),
        ("PJRT_Buffer_CopyToMemory", {"dst_memory": client4.default_memory(client4.devices[0])}),
    ):
        with pytest.raises(PjrtError, match="another client") as error:
            api.call(function, buffer=buffer, **fields)
        assert error.value.code == "INVALID_ARGUMENT"
    client.destroy(buffer)


def test_raw_copies(api: Api, client: Client) -> None:
    array = np.arange(100, dtype=np.int32)
    buffer = client.buffer(array)
    destination = np.zeros(10, np.int32)
    args = api.call(
        "PJRT_Buffer_CopyRawToHost",
        buffer=buffer,
        dst=destination.ctypes.data,
        offset=80,
        transfer_size=40,
    )
    client.wait(args.event)
    assert destination.tolist() == list(range(20, 30))
    for offset, size in ((-4, 4), (0, -1), (0, 404), (404, 0), (396, 8), (2**62, 2**62)):
        for function in ("PJRT_Buffer_CopyRawToHost", "PJRT_Buffer_CopyRawToHostFuture"):
            with pytest.raises(PjrtError, match="400 bytes") as error:
                api.call(function, buffer=buffer, offset=offset, transfer_size=size)
            assert error.value.code == "INVALID_ARGUMENT"
    with pytest.raises(PjrtError, match="`dst` is null"):
        api.call("PJRT_Buffer_CopyRawToHost", buffer=buffer, dst=None, transfer_size=4)
    args = api.call("PJRT_Buffer_CopyRawToHost", buffer=buffer, dst=None, transfer_size=0)
    client.wait(args.event)
    client.destroy(buffer)


@pytest.mark.parametrize("fails", [False, True])
def test_raw_copy_to_a_destination_that_comes_later(api: Api, client: Client, fails: bool) -> None:
    buffer = client.buffer(np.arange(100, dtype=np.int32))
    args = api.call("PJRT_Buffer_CopyRawToHostFuture", buffer=buffer, offset=4, transfer_size=8)
    client.destroy(buffer)  # the transfer keeps the memory
    assert not client.is_ready(args.event)
    destination = np.zeros(2, np.int32)
    message = b"no room"
    ready = api.make(
        "PJRT_Buffer_CopyRawToHostFuture_Callback_Args",
        callback_data=args.callback_data,
        dst=destination.ctypes.data,
        error_code=8 if fails else 0,
        error_message=message,
        error_message_size=len(message),
    )
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.future_ready_callback)(ctypes.addressof(ready))
    if fails:
        with pytest.raises(PjrtError, match="no room") as error:
            client.wait(args.event)
        assert error.value.code == "RESOURCE_EXHAUSTED"
    else:
        client.wait(args.event)
        assert destination.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"type": 0}, "INVALID_ARGUMENT", "element type"),
        ({"type": 999}, "INVALID_ARGUMENT", "element type"),
        ({"type": -1}, "INVALID_ARGUMENT", "element type"),
        ({"type": "TOKEN"}, "INVALID_ARGUMENT", "element type"),
        ({"dims": [-1, 2]}, "INVALID_ARGUMENT", "-1"),
        ({"dims": [2**40, 2**40]}, "RESOURCE_EXHAUSTED", "bytes|fit|room|memory"),
        ({"dims": [2**31, 2**31]}, "RESOURCE_EXHAUSTED", "bytes|fit|room|memory"),
        ({"dims": [2**45]}, "RESOURCE_EXHAUSTED", "bytes|fit|room|memory"),
        ({"dims": [1] * 65}, "INVALID_ARGUMENT", "65 dimensions"),
        ({"data": None}, "INVALID_ARGUMENT", "null"),
        ({"strides": [4]}, "INVALID_ARGUMENT", "strides"),
        ({"order": [1, 0], "tiles": 1}, "UNIMPLEMENTED", "tiled"),
        ({"order": [0, 0]}, "INVALID_ARGUMENT", "permutation"),
    ],
)
def test_bad_arrays(api: Api, client: Client, fields: dict[str, Any], code: str, text: str) -> None:
    array = sample(np.float32, (2, 3))
    dims = fields.get("dims", [2, 3])
    strides = fields.get("strides", [])
    type_ = fields.get("type", client.type_of(np.float32))
    if type_ == "TOKEN":
        type_ = api.header.enums["PJRT_Buffer_Type"]["PJRT_Buffer_Type_TOKEN"]
    with pytest.raises(PjrtError, match=text) as error:
        api.call(
            "PJRT_Client_BufferFromHostBuffer",
            client=client.handle,
            data=fields.get("data", array.ctypes.data),
            type=type_,
            dims=int64_array(dims),
            num_dims=len(dims),
            byte_strides=int64_array(strides),
            num_byte_strides=len(strides),
            device=client.devices[0],
            device_layout=client.tiled_layout(fields["order"], fields.get("tiles", 0))
            if "order" in fields
            else None,
        )
    assert error.value.code == code


def test_null_lists(api: Api, client: Client) -> None:
    """A count without its list is an error of the caller's, not a read at address 0."""
    array = sample(np.float32, (2, 3))
    with pytest.raises(PjrtError, match="byte_strides"):
        api.call(
            "PJRT_Client_BufferFromHostBuffer",
            client=client.handle,
            data=array.ctypes.data,
            type=client.type_of(np.float32),
            dims=int64_array([2, 3]),
            num_dims=2,
            num_byte_strides=2,
            device=client.devices[0],
        )
    with pytest.raises(PjrtError, match="shape_specs"):
        api.call(
            "PJRT_Client_CreateBuffersForAsyncHostToDevice",
            client=client.handle,
            num_shape_specs=2,
            memory=client.default_memory(client.devices[0]),
        )
    with pytest.raises(PjrtError, match="create_options"):
        api.call("PJRT_TopologyDescription_Create", num_options=1)
    buffer = client.buffer(array)
    layout = client.strides_layout([12, 4])
    layout.strides.byte_strides = None
    with pytest.raises(PjrtError, match="byte_strides"):
        client.get(buffer, layout)
    client.destroy(buffer)


# ---------------------------------------------------------------------------------------------- buffers in pieces


def make_manager(api: Api, client: Client, shapes: list[tuple[tuple[int, ...], Any]]) -> int:
    specs = (api.header.structs["PJRT_ShapeSpec"] * len(shapes))()
    dims = [int64_array(shape) for shape, _ in shapes]
    for spec, (shape, dtype), array in zip(specs, shapes, dims, strict=True):
        spec.struct_size = api.header.full_size("PJRT_ShapeSpec")
        spec.dims, spec.num_dims, spec.element_type = (
            ctypes.addressof(array),
            len(shape),
            client.type_of(dtype),
        )
    return int(
        api.call(
            "PJRT_Client_CreateBuffersForAsyncHostToDevice",
            client=client.handle,
            shape_specs=specs,
            num_shape_specs=len(shapes),
            memory=client.default_memory(client.devices[0]),
        ).transfer_manager
    )


def retrieve(api: Api, manager: int, index: int) -> int:
    args = api.call(
        "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer",
        transfer_manager=manager,
        buffer_index=index,
    )
    return int(args.buffer_out)


def send(
    api: Api, client: Client, manager: int, index: int, data: bytes, offset: int, last: bool
) -> None:
    args = api.call(
        "PJRT_AsyncHostToDeviceTransferManager_TransferData",
        transfer_manager=manager,
        buffer_index=index,
        data=data,
        offset=offset,
        transfer_size=len(data),
        is_last_transfer=last,
    )
    client.wait(args.done_with_h2d_transfer)


def test_transfer_in_pieces(api: Api, client: Client) -> None:
    array, other = sample(np.float32, (10, 10)), sample(np.int8, (7,))
    manager = make_manager(api, client, [(array.shape, array.dtype), (other.shape, other.dtype)])
    fields = {"transfer_manager": manager}
    assert api.call("PJRT_AsyncHostToDeviceTransferManager_BufferCount", **fields).buffer_count == 2
    size = api.call(
        "PJRT_AsyncHostToDeviceTransferManager_BufferSize", buffer_index=0, **fields
    ).buffer_size
    assert size == array.nbytes
    assert (
        api.call("PJRT_AsyncHostToDeviceTransferManager_Device", **fields).device_out
        == client.devices[0]
    )
    api.call("PJRT_AsyncHostToDeviceTransferManager_AddMetadata", **fields)

    buffer = retrieve(api, manager, 0)
    event = api.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event
    data = array.tobytes()
    send(api, client, manager, 0, data[:100], 0, last=False)
    send(api, client, manager, 0, data[250:], 250, last=False)
    assert not client.is_ready(event)
    send(api, client, manager, 0, data[100:250], 100, last=True)
    client.wait(event)
    assert same(client.get(buffer), array)

    send(api, client, manager, 1, other.tobytes(), 0, last=True)
    second = retrieve(api, manager, 1)
    assert same(client.get(second), other)
    with pytest.raises(PjrtError, match="retrieved already"):
        retrieve(api, manager, 1)
    with pytest.raises(PjrtError, match="complete"):
        send(api, client, manager, 1, b"x", 0, last=True)
    api.call("PJRT_AsyncHostToDeviceTransferManager_Destroy", **fields)
    assert same(client.get(buffer), array)
    client.destroy(buffer, second)


def test_transfer_of_a_literal(api: Api, client: Client) -> None:
    array = sample(np.float32, (4, 6))
    manager = make_manager(api, client, [(array.shape, array.dtype)] * 2)
    fields = {
        "transfer_manager": manager,
        "shape_num_dims": 2,
        "shape_element_type": client.type_of(array.dtype),
    }
    with pytest.raises(PjrtError, match=r"f32\[6,4\]"):
        api.call(
            "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral",
            data=array.ctypes.data,
            **fields,
            shape_dims=int64_array((6, 4)),
        )
    columns = np.asfortranarray(array)
    for index, (data, order) in enumerate(((array, [1, 0]), (columns, [0, 1]))):
        args = api.call(
            "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral",
            data=data.ctypes.data,
            **fields,
            shape_dims=int64_array(array.shape),
            buffer_index=index,
            shape_layout=client.tiled_layout(order),
        )
        client.wait(args.done_with_h2d_transfer)
        buffer = retrieve(api, manager, index)
        assert same(client.get(buffer), array)
        client.destroy(buffer)
    api.call("PJRT_AsyncHostToDeviceTransferManager_Destroy", transfer_manager=manager)


def test_buffer_that_failed_gives_its_memory_back(api: Api, client: Client) -> None:
    before = client.bytes_in_use()
    manager = make_manager(api, client, [((1 << 20,), np.float32)])
    buffer = retrieve(api, manager, 0)
    api.call(
        "PJRT_AsyncHostToDeviceTransferManager_SetBufferError",
        transfer_manager=manager,
        buffer_index=0,
        error_code=15,
        error_message=b"bad tape",
        error_message_size=8,
    )
    assert client.bytes_in_use() > before
    api.call("PJRT_Buffer_Delete", buffer=buffer)
    assert client.bytes_in_use() == before  # the manager does not hold it
    api.call("PJRT_AsyncHostToDeviceTransferManager_Destroy", transfer_manager=manager)
    client.destroy(buffer)


def test_transfers_that_fail(api: Api, client: Client) -> None:
    manager = make_manager(api, client, [((4,), np.float32)] * 2)
    for index, offset, size in ((2, 0, 4), (-1, 0, 4), (0, 16, 1), (0, -1, 4), (0, 12, 8)):
        with pytest.raises(PjrtError) as error:
            send(api, client, manager, index, bytes(size), offset, last=False)
        assert error.value.code == "INVALID_ARGUMENT"
    failed, abandoned = retrieve(api, manager, 0), retrieve(api, manager, 1)
    api.call(
        "PJRT_AsyncHostToDeviceTransferManager_SetBufferError",
        transfer_manager=manager,
        buffer_index=0,
        error_code=15,
        error_message=b"bad tape",
        error_message_size=8,
    )
    with pytest.raises(PjrtError, match="bad tape"):
        client.get(failed)
    api.call("PJRT_AsyncHostToDeviceTransferManager_Destroy", transfer_manager=manager)
    with pytest.raises(PjrtError, match="before all") as error:
        client.get(abandoned)
    assert error.value.code == "CANCELLED"
    client.destroy(failed, abandoned)
    assert pointer_array([])  # an empty list of pointers is a valid argument
