"""Topologies: what they say, that they survive serialization, and compiling for machines that are not here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tripont.core.compiler.formats import artifact

from .c_api import Api, PjrtError
from .host import Client
from .protos import fields
from .test_client import serialize
from .test_compile import ADD_ONE, check_add_one


@pytest.fixture(scope="module")
def compiler(api: Api) -> Iterator[Client]:
    client = Client(api, python=sys.executable, cache=False)
    yield client
    client.close()


def create(api: Api, name: str = "", **options: str | int) -> int:
    data = name.encode()
    return api.call(
        "PJRT_TopologyDescription_Create",
        topology_name=data or None,
        topology_name_size=len(data),
        create_options=api.named_values(options) if options else None,
        num_options=len(options),
    ).topology


def attributes(api: Api, topology: int) -> dict[str, Any]:
    args = api.call("PJRT_TopologyDescription_Attributes", topology=topology)
    return api.read_named_values(args.attributes, args.num_attributes)


def destroy(api: Api, topology: int) -> None:
    api.call("PJRT_TopologyDescription_Destroy", topology=topology)


def compiled(api: Api, topology: int, client: int | None, program: bytes = ADD_ONE) -> int:
    given = api.make(
        "PJRT_Program", code=program, code_size=len(program), format=b"mlir", format_size=4
    )
    return api.call("PJRT_Compile", topology=topology, program=given, client=client).executable


def serialized(api: Api, executable: int) -> bytes:
    return bytes(
        api.call("PJRT_Executable_Serialize", executable=executable).blob("serialized_bytes")
    )


def artifact_of(data: bytes) -> artifact.Executable:
    """The artifact in a serialized executable (ExecutableAndOptionsProto, field 1)."""
    return artifact.deserialize(dict(fields(data))[1])


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("", {}, {"target": "host"}),
        ("host", {}, {"target": "host"}),
        ("host:x86-64-v3", {}, {"target": "host", "cpu": "x86-64-v3"}),
        ("sycl:gpu,fp64", {}, {"target": "sycl", "device": "gpu,fp64"}),
        ("sycl", {"sycl_device": "gpu"}, {"target": "sycl", "device": "gpu"}),  # its older name
        ("sycl:gpu", {"cpu": "znver4"}, {"target": "sycl", "device": "gpu", "cpu": "znver4"}),
        ("", {"cpu": "znver4"}, {"target": "host", "cpu": "znver4"}),
        ("", {"target": "sycl"}, {"target": "sycl"}),
    ],
)
def test_what_it_says(
    api: Api, name: str, options: dict[str, str], expected: dict[str, str]
) -> None:
    topology = create(api, name, **options)
    assert attributes(api, topology) == expected
    data = serialize(api, topology)
    copy = api.call(
        "PJRT_TopologyDescription_Deserialize",
        serialized_topology=data,
        serialized_topology_size=len(data),
    ).topology
    assert attributes(api, copy) == expected
    assert serialize(api, copy) == data
    destroy(api, copy)
    destroy(api, topology)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("abacus", {}, "abacus"),
        ("abacus:3", {}, "the targets are host and sycl"),
        ("", {"target": "quantum"}, "quantum"),
        ("", {"colour": "red"}, "colour"),
        ("host", {"device": "gpu"}, "a topology of target 'host' has no option 'device'"),
        ("host", {"num_devices": 65537}, "num_devices=65537"),
    ],
)
def test_topologies_that_do_not_exist(
    api: Api, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PjrtError, match=message) as error:
        create(api, name, **options)
    assert error.value.code == "INVALID_ARGUMENT"


def test_a_serialized_topology_with_options_of_another_kind(api: Api) -> None:
    topology = create(api, "host:x86-64-v3")
    data = serialize(api, topology)
    destroy(api, topology)
    assert data.count(b"host") > 0
    for old, new in ((b"\x04host", b"\x04tape"), (b"\x03cpu", b"\x03tap")):
        changed = data.replace(old, new)
        assert changed != data
        with pytest.raises(PjrtError) as error:
            api.call(
                "PJRT_TopologyDescription_Deserialize",
                serialized_topology=changed,
                serialized_topology_size=len(changed),
            )
        assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("with_client", [True, False])
def test_an_older_cpu(api: Api, compiler: Client, with_client: bool) -> None:
    """Compiled for less than this machine has: it says so, and runs here."""
    topology = create(api, "host:x86-64-v2", python=sys.executable)
    executable = compiled(api, topology, compiler.handle if with_client else None)
    name = api.call("PJRT_Executable_Name", executable=executable)
    assert name.text("executable_name") == "add_one"
    stats = api.call("PJRT_Executable_GetCompiledMemoryStats", executable=executable)
    assert stats.argument_size_in_bytes == stats.output_size_in_bytes == 32
    data = serialized(api, executable)
    assert artifact_of(data).cpu == "x86-64-v2"
    assert "avx" not in artifact_of(data).cpu_features
    api.call("PJRT_Executable_Destroy", executable=executable)
    loaded = compiler.load(data)
    check_add_one(compiler, loaded)
    destroy(api, topology)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "host:neoverse-n1",
            "the artifact is for aarch64-unknown-linux-gnu, this machine is x86_64",
        ),
        ("sycl", "the artifact is for target 'sycl', this device is 'host'; TRIPONT_DEVICE=sycl"),
        ("sycl:gpu,fp64", "the artifact is for target 'sycl', this device is 'host'"),
    ],
)
def test_another_machine(api: Api, compiler: Client, name: str, reason: str) -> None:
    """It compiles and serializes, and loading it here is refused with the reason."""
    topology = create(api, name)
    executable = compiled(api, topology, compiler.handle)
    data = serialized(api, executable)
    assert artifact_of(data).target == name.split(":")[0]
    assert artifact_of(data).code
    with pytest.raises(PjrtError, match=reason) as error:
        compiler.load(data)
    assert error.value.code == "FAILED_PRECONDITION"
    api.call("PJRT_Executable_Destroy", executable=executable)
    destroy(api, topology)


def test_an_unknown_cpu(api: Api, compiler: Client) -> None:
    topology = create(api, "host:z80")
    with pytest.raises(PjrtError, match="unknown CPU 'z80'; known: host, x86-64-v2") as error:
        compiled(api, topology, compiler.handle)
    assert error.value.code == "INVALID_ARGUMENT"
    destroy(api, topology)


def test_the_topology_of_a_client_compiles_for_it(api: Api, compiler: Client) -> None:
    topology = api.call("PJRT_Client_TopologyDescription", client=compiler.handle).topology
    executable = compiled(api, topology, compiler.handle)
    loaded = compiler.load(serialized(api, executable))
    check_add_one(compiler, loaded)
    api.call("PJRT_Executable_Destroy", executable=executable)
