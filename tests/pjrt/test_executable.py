"""What can be asked of an executable, and its way through bytes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tripont.core.compiler.formats.wire_format import varint

from . import programs
from .c_api import Api, PjrtError
from .host import Client
from .protos import compile_options, fields, message, number, read_device_assignment

X = np.arange(8, dtype=np.float32)


def call_deleter(args: object, deleter: str, owner: str) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(getattr(args, deleter))(getattr(args, owner))


def serialize(api: Api, client: Client, loaded: int) -> bytes:
    executable = client.executable(loaded)
    args = api.call("PJRT_Executable_Serialize", executable=executable)
    data = bytes(args.blob("serialized_bytes"))
    call_deleter(args, "serialized_executable_deleter", "serialized_executable")
    api.call("PJRT_Executable_Destroy", executable=executable)
    return data


def assignment(api: Api, loaded: int) -> bytes:
    args = api.call("PJRT_LoadedExecutable_GetDeviceAssignment", executable=loaded)
    data = bytes(args.blob("serialized_bytes"))
    call_deleter(args, "serialized_device_assignment_deleter", "serialized_device_assignment")
    return data


def test_description(api: Api, client: Client) -> None:
    loaded = client.load(programs.add(6))
    executable = client.executable(loaded)
    assert api.call("PJRT_Executable_Name", executable=executable).text("executable_name") == "add"
    assert api.call("PJRT_Executable_NumReplicas", executable=executable).num_replicas == 1
    assert api.call("PJRT_Executable_NumPartitions", executable=executable).num_partitions == 1
    assert (
        api.call("PJRT_Executable_SizeOfGeneratedCodeInBytes", executable=executable).size_in_bytes
        > 0
    )
    args = api.call("PJRT_Executable_OutputElementTypes", executable=executable)
    types = (ctypes.c_int * args.num_output_types).from_address(args.output_types)
    assert list(types) == [client.type_of(np.float32)]
    args = api.call("PJRT_Executable_OutputDimensions", executable=executable)
    assert args.int64s("dim_sizes", "num_outputs") == [1]
    assert ctypes.c_int64.from_address(args.dims).value == 6
    args = api.call("PJRT_Executable_OutputMemoryKinds", executable=executable)
    [kind] = args.pointers("memory_kinds", "num_outputs")
    assert ctypes.string_at(kind, args.int64s("memory_kind_sizes", "num_outputs")[0]) == b"device"
    args = api.call("PJRT_Layouts_PJRT_Executable_GetOutputLayouts", executable=executable)
    [layout] = args.pointers("layouts", "num_outputs")
    assert (
        api.call("PJRT_Layouts_MemoryLayout_Serialize", layout=layout).text("serialized_bytes")
        == "{0}"
    )
    for function, handle in (
        ("PJRT_Executable_Fingerprint", executable),
        ("PJRT_LoadedExecutable_Fingerprint", loaded),
    ):
        assert (
            api.call(function, executable=handle).text("executable_fingerprint")
            == "fingerprint of add"
        )
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)


def test_costs(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one(8))
    executable = client.executable(loaded)
    args = api.call("PJRT_Executable_GetCostAnalysis", executable=executable)
    costs = api.read_named_values(args.properties, args.num_properties)
    assert costs["flops"] == 8.0
    assert costs["bytes accessed"] == 64.0
    assert costs["optimal_seconds"] == pytest.approx(1e-8)
    stats = api.call("PJRT_Executable_GetCompiledMemoryStats", executable=executable)
    assert stats.argument_size_in_bytes == 32
    assert stats.output_size_in_bytes == 32
    assert stats.generated_code_size_in_bytes > 0
    assert stats.total_size_in_bytes >= stats.peak_memory_in_bytes >= 64
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)


def test_memory_stats_of_an_older_caller(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one(8))
    executable = client.executable(loaded)
    struct = api.header.structs["PJRT_Executable_GetCompiledMemoryStats_Args"]
    args = api.make("PJRT_Executable_GetCompiledMemoryStats_Args", executable=executable)
    args.struct_size = struct.peak_memory_in_bytes.offset
    args.peak_memory_in_bytes = args.total_size_in_bytes = -77
    api.call_with("PJRT_Executable_GetCompiledMemoryStats", args)
    assert args.argument_size_in_bytes == 32
    assert args.peak_memory_in_bytes == args.total_size_in_bytes == -77
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)


def test_an_executable_outlives_the_loaded_one(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one())
    executable = client.executable(loaded)
    client.destroy_executable(loaded)
    assert (
        api.call("PJRT_Executable_Name", executable=executable).text("executable_name") == "add_one"
    )
    api.call("PJRT_Executable_Destroy", executable=executable)


# ---------------------------------------------------------------------------------------------- optimised program


def optimized_program(api: Api, executable: int) -> tuple[str, bytes]:
    program = api.make("PJRT_Program")
    api.call("PJRT_Executable_OptimizedProgram", executable=executable, program=program)
    code = ctypes.create_string_buffer(program.code_size)
    program.code = ctypes.addressof(code)
    api.call("PJRT_Executable_OptimizedProgram", executable=executable, program=program)
    program.code_size -= 1
    with pytest.raises(PjrtError, match="code_size"):
        api.call("PJRT_Executable_OptimizedProgram", executable=executable, program=program)
    return program.text("format"), code.raw


def test_optimized_program(api: Api, client: Client) -> None:
    """A HloModuleProtoWithConfig, whose config repeats the module's program shape as entry_computation_layout."""
    shape = b"\x0a\x02\x10\x0b"  # stands for a ProgramShapeProto
    module = message(1, b"add_one") + message(4, shape) + message(3, b"x" * 300)
    loaded = client.load(programs.add_one(program=module))
    executable = client.executable(loaded)
    format_, code = optimized_program(api, executable)
    assert format_ == "hlo_with_config"
    parsed = dict(fields(code))
    assert parsed[1] == module
    config = parsed[2]
    assert isinstance(config, bytes)
    assert dict(fields(config)) == {1: shape, 4: 1, 5: 1}
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)


def test_the_outline_of_a_program(api: Api) -> None:
    """Everything about the module but its computations, and one that only names the arrays: PyTorch/XLA's choice."""
    arrays = [b"\x10\x0b\x1a\x01" + bytes([size]) for size in (8, 9, 200)]  # stand for ShapeProtos
    shape = message(1, arrays[0]) + message(1, arrays[1]) + message(2, arrays[2])
    shape += message(3, b"x") + message(3, b"y")
    alias, sharding = message(8, b"alias"), message(16, b"sharding")
    module = message(1, b"add_one") + message(3, b"a fusion") + message(2, b"main") + number(6, 70)
    module += message(4, shape) + message(3, b"x" * 300) + alias + sharding
    client = Client(api, optimized_programs="outline")
    loaded = client.load(programs.add_one(program=module))
    executable = client.executable(loaded)
    format_, code = optimized_program(api, executable)
    assert format_ == "hlo_with_config"
    parsed = dict(fields(code))
    assert isinstance(parsed[1], bytes)
    assert isinstance(parsed[2], bytes)
    assert dict(fields(parsed[2])) == {1: shape, 4: 1, 5: 1}
    *others, (number_of_entry, entry) = fields(parsed[1])
    assert others == [f for f in fields(module) if f[0] != 3]
    assert number_of_entry == 3
    assert isinstance(entry, bytes)
    of_entry = dict(fields(entry))
    assert {n: of_entry[n] for n in (1, 4, 5, 6)} == {1: b"main", 4: shape, 5: 70, 6: 73}
    instructions = [dict(fields(f)) for n, f in fields(entry) if n == 2 and isinstance(f, bytes)]
    assert instructions == [
        {1: b"parameter.0", 2: b"parameter", 3: arrays[0], 9: 0, 35: 71},
        {1: b"parameter.1", 2: b"parameter", 3: arrays[1], 9: 1, 35: 72},
        {
            1: b"program",
            2: b"custom-call",
            3: arrays[2],
            28: b"tripont$program",
            35: 73,
            36: b"GH",
            43: b"fingerprint of add_one",
        },
    ]
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)
    loaded = client.load(programs.add_one())
    executable = client.executable(loaded)
    with pytest.raises(PjrtError, match="no optimised program"):
        optimized_program(api, executable)
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)
    client.close()


def test_optimised_programs_are_whole_or_outlines(api: Api) -> None:
    with pytest.raises(PjrtError, match="'optimized_programs' is 'half': expected") as error:
        Client(api, optimized_programs="half")
    assert error.value.code == "INVALID_ARGUMENT"


def test_an_executable_without_program(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one())
    executable = client.executable(loaded)
    with pytest.raises(PjrtError, match="no optimised program") as error:
        optimized_program(api, executable)
    assert error.value.code == "UNIMPLEMENTED"
    with pytest.raises(PjrtError, match="program"):
        api.call("PJRT_Executable_OptimizedProgram", executable=executable)
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)


# ------------------------------------------------------------------------------------------ serialize, deserialize


def test_serialized_and_loaded_again(api: Api, client4: Client) -> None:
    options = compile_options([[1]])
    loaded = client4.load(programs.add_one(), options)
    data = serialize(api, client4, loaded)
    client4.destroy_executable(loaded)
    for override, index in ((None, 1), (compile_options([[3]]), 3)):
        again = client4.load(data, override)
        assert read_device_assignment(assignment(api, again)) == [[index]]
        x = client4.buffer(X, device=client4.devices[index])
        [[out]] = client4.execute(again, [x])
        np.testing.assert_array_equal(client4.get(out), X + 1)
        client4.destroy(x, out)
        client4.destroy_executable(again)


def test_compile_options_come_back(api: Api, client: Client) -> None:
    options = compile_options([[0]], overrides={"xla_thing": "yes"})
    loaded = client.load(programs.add_one(), options)
    executable = client.executable(loaded)
    args = api.call("PJRT_Executable_GetCompileOptions", executable=executable)
    assert args.blob("serialized_bytes") == options
    call_deleter(args, "serialized_compile_options_deleter", "serialized_compile_options")
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)


def test_device_assignments(api: Api, client4: Client) -> None:
    for options, expected in (
        (compile_options([[2]]), [[2]]),
        (b"", [[0]]),
        (compile_options([[3], [1]]), [[3], [1]]),
    ):
        loaded = client4.load(programs.add_one(), options)
        assert read_device_assignment(assignment(api, loaded)) == expected
        client4.destroy_executable(loaded)
    loaded = client4.load(programs.add_one(), compile_options(portable=True))
    assert assignment(api, loaded) == b""  # which means that there is none
    client4.destroy_executable(loaded)


@pytest.mark.parametrize(
    "options",
    [
        b"\xff",
        b"\x1a\x05\x08",
        b"\x1a\x02\x4a\x09",
        b"\x0b",  # truncated, or groups
        compile_options([[0]], replicas=2),
        compile_options([[0]], partitions=3),
        compile_options(replicas=-4),
        compile_options(replicas=2**50, partitions=2**50),
        message(3, message(9, b"\x08\x02\x10\x01")),  # an assignment that lists nobody
    ],
)
def test_damaged_options(client: Client, options: bytes) -> None:
    with pytest.raises(PjrtError, match="compile options") as error:
        client.load(programs.add_one(), options)
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("count", [2, 2**20])
def test_more_devices_than_the_client_has(client: Client, count: int) -> None:
    """Found before a list of all the devices is made, which could be endless."""
    with pytest.raises(PjrtError, match="assigned to device 1, but this client has 1") as error:
        client.load(programs.add_one(), compile_options(replicas=count, partitions=count))
    assert error.value.code == "INVALID_ARGUMENT"


def test_damaged_executables(api: Api, client: Client) -> None:
    good = programs.add_one()
    loaded = client.load(good)
    wrapped = serialize(api, client, loaded)
    client.destroy_executable(loaded)
    rng = np.random.default_rng(0)
    damaged = [
        b"x",
        b"TRIPONT\0",
        good[:-1],
        good + b"\0",
        wrapped[:-1],
        wrapped[: len(wrapped) // 2],
    ]
    for data in (good, wrapped):
        for position in rng.integers(0, len(good) - 64, 20):
            flipped = bytearray(data)
            flipped[position] ^= 1 << int(rng.integers(0, 8))
            damaged.append(bytes(flipped))
    for data in damaged:
        with pytest.raises(PjrtError) as error:
            client.destroy_executable(client.load(data))
        assert error.value.code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "DATA_LOSS")
    with pytest.raises(PjrtError, match="null"):
        api.call("PJRT_Executable_DeserializeAndLoad", client=client.handle)


def test_loading_and_destroying_leaves_nothing(client: Client) -> None:
    """Code, constants and handles of a thousand executables go with them."""
    import resource

    def work(count: int) -> None:
        for _ in range(count):
            loaded = client.load(artifact)
            client.api.call("PJRT_Executable_Destroy", executable=client.executable(loaded))
            client.destroy_executable(loaded)

    artifact = programs.add_one()
    work(100)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 2048  # KiB


def test_result_of_tuples_without_end(api: Api, client: Client) -> None:
    """The layouts of a program's results are read from the artifact, whose bytes may say anything."""
    headers, size = [], 0
    for _ in range(200_000):  # a message of one field, which is a message of one field, ...
        headers.append(bytes([4 << 3 | 2]) + varint(size))
        size += len(headers[-1])
    nested = b"".join(reversed(headers))
    program = message(4, message(2, nested))  # host_program_shape, its result
    loaded = client.load(programs.add_one(program=program))
    executable = client.executable(loaded)
    args = api.call("PJRT_Executable_OutputDimensions", executable=executable)
    assert args.int64s("dims", "num_outputs") == [8]
    api.call("PJRT_Executable_Destroy", executable=executable)
    client.destroy_executable(loaded)
