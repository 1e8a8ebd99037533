"""Clients, devices, memories, topologies."""

from __future__ import annotations

import pytest

from .c_api import Api, PjrtError, int64_array
from .host import Client


def test_platform(api: Api, client: Client) -> None:
    assert api.call("PJRT_Client_PlatformName", client=client.handle).text("platform_name") == "xpu"
    version = api.call("PJRT_Client_PlatformVersion", client=client.handle).text("platform_version")
    assert version.startswith("tripont ")
    assert api.call("PJRT_Client_ProcessIndex", client=client.handle).process_index == 0


def test_the_compiler_is_part_of_the_platform_version(api: Api) -> None:
    client = Client(api, compiler_fingerprint="abc123")
    version = api.call("PJRT_Client_PlatformVersion", client=client.handle).text("platform_version")
    assert "abc123" in version
    client.close()


def test_unknown_option(api: Api) -> None:
    with pytest.raises(PjrtError) as error:
        Client(api, num_device=2)
    assert error.value.code == "INVALID_ARGUMENT"
    assert "'num_device'" in error.value.message
    assert "num_devices" in error.value.message.split("known options")[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_devices", 0), ("num_devices", 100000), ("num_devices", "two"), ("cache", "perhaps")],
)
def test_bad_option_value(api: Api, name: str, value: int | str) -> None:
    with pytest.raises(PjrtError, match=name) as error:
        Client(api, **{name: value})
    assert error.value.code == "INVALID_ARGUMENT"


def test_unknown_device_kind(api: Api, client: Client) -> None:
    """The same error whether or not the process has devices already (here it has)."""
    with pytest.raises(PjrtError, match="toaster") as error:
        Client(api, device="toaster")
    assert error.value.code == "INVALID_ARGUMENT"


def test_devices(api: Api, client4: Client) -> None:
    assert len(client4.devices) == 4
    listed = api.call("PJRT_Client_Devices", client=client4.handle)
    assert listed.pointers("devices", "num_devices") == client4.devices
    kinds = set()
    for index, device in enumerate(client4.devices):
        assert api.call("PJRT_Device_IsAddressable", device=device).is_addressable
        assert api.call("PJRT_Device_LocalHardwareId", device=device).local_hardware_id == index
        assert (
            api.call("PJRT_Client_LookupDevice", client=client4.handle, id=index).device == device
        )
        found = api.call(
            "PJRT_Client_LookupAddressableDevice", client=client4.handle, local_hardware_id=index
        )
        assert found.addressable_device == device
        description = api.call("PJRT_Device_GetDescription", device=device).device_description
        assert api.call("PJRT_DeviceDescription_Id", device_description=description).id == index
        assert (
            api.call(
                "PJRT_DeviceDescription_ProcessIndex", device_description=description
            ).process_index
            == 0
        )
        kinds.add(
            api.call("PJRT_DeviceDescription_Kind", device_description=description).text(
                "device_kind"
            )
        )
        debug = api.call("PJRT_DeviceDescription_DebugString", device_description=description)
        assert debug.text("debug_string").startswith(f"xpu:{index}")
        text = api.call("PJRT_DeviceDescription_ToString", device_description=description).text(
            "to_string"
        )
        assert text == f"XpuDevice(id={index})"
        attributes = api.call("PJRT_DeviceDescription_Attributes", device_description=description)
        assert (
            api.read_named_values(attributes.attributes, attributes.num_attributes)["target"]
            == "host"
        )
        assert api.call("PJRT_Device_CreateAsyncTrackingEvent", device=device).event is None
    assert len(kinds) == 1
    for function, field in (
        ("PJRT_Client_LookupDevice", "id"),
        ("PJRT_Client_LookupAddressableDevice", "local_hardware_id"),
    ):
        for number in (-1, 4):
            with pytest.raises(PjrtError, match=str(number)) as error:
                api.call(function, client=client4.handle, **{field: number})
            assert error.value.code == "INVALID_ARGUMENT"


def test_memories(api: Api, client4: Client) -> None:
    ids = set()
    for index, device in enumerate(client4.devices):
        memories = client4.memories(device)
        assert set(memories) == {"device", "pinned_host", "unpinned_host"}
        assert client4.default_memory(device) == memories["device"]
        for kind, memory in memories.items():
            ids.add(api.call("PJRT_Memory_Id", memory=memory).id)
            args = api.call("PJRT_Memory_AddressableByDevices", memory=memory)
            assert args.pointers("devices", "num_devices") == [device]
            for function, field in (
                ("PJRT_Memory_DebugString", "debug_string"),
                ("PJRT_Memory_ToString", "to_string"),
            ):
                text = api.call(function, memory=memory).text(field)
                assert f"xpu:{index}" in text
                assert kind in text
    assert len(ids) == 12
    kind_ids = {
        api.call("PJRT_Memory_Kind_Id", memory=m).kind_id
        for m in client4.memories(client4.devices[0]).values()
    }
    assert len(kind_ids) == 3
    args = api.call("PJRT_Client_AddressableMemories", client=client4.handle)
    assert len(args.pointers("addressable_memories", "num_addressable_memories")) == 12


def test_memory_stats(api: Api, client: Client) -> None:
    args = api.call("PJRT_Device_MemoryStats", device=client.devices[0])
    assert args.peak_bytes_in_use_is_set
    assert args.peak_bytes_in_use >= args.bytes_in_use
    assert args.bytes_limit_is_set
    assert args.bytes_limit > 1 << 20
    assert not args.largest_free_block_bytes_is_set


def test_default_device_assignment(api: Api, client4: Client) -> None:
    import ctypes

    def ask(replicas: int, partitions: int, room: int) -> list[int]:
        array = (ctypes.c_int * max(room, 1))()
        api.call(
            "PJRT_Client_DefaultDeviceAssignment",
            client=client4.handle,
            num_replicas=replicas,
            num_partitions=partitions,
            default_assignment_size=room,
            default_assignment=array,
        )
        return list(array)[: replicas * partitions]

    assert ask(1, 1, 1) == [0]
    assert ask(2, 2, 4) == [0, 1, 2, 3]
    for replicas, partitions, room in ((5, 1, 5), (0, 1, 1), (2, 2, 3)):
        with pytest.raises(PjrtError) as error:
            ask(replicas, partitions, room)
        assert error.value.code == "INVALID_ARGUMENT"


def test_things_that_have_nothing_to_do(api: Api, client: Client) -> None:
    api.call("PJRT_Client_UpdateGlobalProcessInfo", client=client.handle)
    api.call("PJRT_Client_DmaMap", client=client.handle)
    api.call("PJRT_Client_DmaUnmap", client=client.handle)
    context = api.call("PJRT_ExecuteContext_Create").context
    api.call("PJRT_ExecuteContext_Destroy", context=context)


# ---------------------------------------------------------------------------------------------------- topologies


def describe(api: Api, topology: int) -> list[str]:
    args = api.call("PJRT_TopologyDescription_GetDeviceDescriptions", topology=topology)
    return [
        api.call("PJRT_DeviceDescription_ToString", device_description=d).text("to_string")
        for d in args.pointers("descriptions", "num_descriptions")
    ]


def serialize(api: Api, topology: int) -> bytes:
    import ctypes

    args = api.call("PJRT_TopologyDescription_Serialize", topology=topology)
    data = args.blob("serialized_bytes")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.serialized_topology_deleter)(
        args.serialized_topology
    )
    return bytes(data)


def test_topology_of_a_client(api: Api, client4: Client) -> None:
    topology = api.call("PJRT_Client_TopologyDescription", client=client4.handle).topology
    name = api.call("PJRT_TopologyDescription_PlatformName", topology=topology)
    assert name.text("platform_name") == "xpu"
    version = api.call("PJRT_TopologyDescription_PlatformVersion", topology=topology)
    assert version.text("platform_version").startswith("tripont ")
    assert describe(api, topology) == [f"XpuDevice(id={i})" for i in range(4)]
    args = api.call("PJRT_TopologyDescription_Attributes", topology=topology)
    assert api.read_named_values(args.attributes, args.num_attributes)["target"] == "host"

    data = serialize(api, topology)
    copy = api.call(
        "PJRT_TopologyDescription_Deserialize",
        serialized_topology=data,
        serialized_topology_size=len(data),
    ).topology
    assert describe(api, copy) == describe(api, topology)
    assert serialize(api, copy) == data
    api.call("PJRT_TopologyDescription_Destroy", topology=copy)


def test_topology_without_devices(api: Api) -> None:
    options = api.named_values({"num_devices": 3})
    topology = api.call(
        "PJRT_TopologyDescription_Create", create_options=options, num_options=1
    ).topology
    assert len(describe(api, topology)) == 3
    api.call("PJRT_TopologyDescription_Destroy", topology=topology)
    for bad in ({"num_devices": 0}, {"colour": "red"}):
        with pytest.raises(PjrtError, match=next(iter(bad))):
            api.call(
                "PJRT_TopologyDescription_Create",
                create_options=api.named_values(bad),
                num_options=1,
            )


@pytest.mark.parametrize("part", ["name", "string_value", "int64_array_value"])
@pytest.mark.parametrize("function", ["PJRT_Client_Create", "PJRT_TopologyDescription_Create"])
def test_null_options(api: Api, function: str, part: str) -> None:
    options = api.named_values({"device": [1, 2] if part == "int64_array_value" else "host"})
    setattr(options[0], part, None)
    with pytest.raises(PjrtError, match="is null") as error:
        api.call(function, create_options=options, num_options=1)
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"garbage", b"\x4a\xff\xff\xff\xff\x0f", b"\x12\x03xpu"]
)
def test_damaged_topology(api: Api, data: bytes) -> None:
    with pytest.raises(PjrtError) as error:
        api.call(
            "PJRT_TopologyDescription_Deserialize",
            serialized_topology=data or None,
            serialized_topology_size=len(data),
        )
    assert error.value.code == "INVALID_ARGUMENT"


# ------------------------------------------------------------------------------------------------------- layouts


def layout_text(api: Api, layout: int) -> str:
    import ctypes

    args = api.call("PJRT_Layouts_MemoryLayout_Serialize", layout=layout)
    text = args.text("serialized_bytes")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.serialized_layout_deleter)(args.serialized_layout)
    api.call("PJRT_Layouts_MemoryLayout_Destroy", layout=layout)
    return str(text)


@pytest.mark.parametrize(
    ("dims", "text"), [([], "{}"), ([5], "{0}"), ([2, 3, 4], "{2,1,0}"), ([1] * 12, None)]
)
def test_default_layouts(api: Api, client: Client, dims: list[int], text: str | None) -> None:
    text = text or "{" + ",".join(map(str, reversed(range(len(dims))))) + "}"
    fields = {"type": client.type_of("float32"), "dims": int64_array(dims), "num_dims": len(dims)}
    args = api.call("PJRT_Layouts_PJRT_Client_GetDefaultLayout", client=client.handle, **fields)
    assert layout_text(api, args.layout) == text
    topology = api.call("PJRT_Client_TopologyDescription", client=client.handle).topology
    args = api.call(
        "PJRT_Layouts_PJRT_Topology_GetDefaultLayout", topology_description=topology, **fields
    )
    assert layout_text(api, args.layout) == text


def test_layout_of_too_many_dimensions(api: Api, client: Client) -> None:
    with pytest.raises(PjrtError, match="65 dimensions"):
        api.call(
            "PJRT_Layouts_PJRT_Client_GetDefaultLayout",
            client=client.handle,
            type=client.type_of("float32"),
            dims=int64_array([1] * 65),
            num_dims=65,
        )
