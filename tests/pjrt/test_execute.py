"""Running programs: results, donation, devices, and every wrong way to call Execute. No compiler is involved."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

from . import programs
from .c_api import Api, PjrtError, pointer_array
from .host import Client
from .protos import compile_options

X = np.arange(8, dtype=np.float32)


def run(client: Client, loaded: int, *arrays: np.ndarray) -> np.ndarray:
    arguments = [client.buffer(a) for a in arrays]
    [[out]] = client.execute(loaded, arguments)
    result = client.get(out)
    client.destroy(out, *arguments)
    return result


def test_add_one(client: Client) -> None:
    loaded = client.load(programs.add_one())
    for events in (False, True):
        x = client.buffer(X)
        [[out]] = client.execute(loaded, [x], events=events)
        np.testing.assert_array_equal(client.get(out), X + 1)
        np.testing.assert_array_equal(client.get(x), X)
        client.destroy(x, out)
    client.destroy_executable(loaded)


@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
def test_add(client: Client, size: int) -> None:
    """Small programs run on the caller's thread, large ones on several."""
    loaded = client.load(programs.add(size))
    a, b = np.random.default_rng(0).random((2, size), np.float32)
    np.testing.assert_array_equal(run(client, loaded, a, b), a + b)
    client.destroy_executable(loaded)


def test_results_feed_the_next_program(client: Client) -> None:
    """A chain of asynchronous executions, each given the results of the one before."""
    size = 300_000
    loaded = client.load(programs.add_one(size))
    x = client.buffer(np.zeros(size, np.float32))
    for _ in range(50):
        [[out]] = client.execute(loaded, [x])
        client.destroy(x)
        x = out
    assert set(client.get(x).tolist()) == {50.0}
    client.destroy(x)
    client.destroy_executable(loaded)


def test_ready_event_of_a_result(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one(500_000))
    x = client.buffer(np.zeros(500_000, np.float32))
    [[out]] = client.execute(loaded, [x])
    event = api.call("PJRT_Buffer_ReadyEvent", buffer=out).event
    client.wait(event)
    event = api.call("PJRT_Buffer_ReadyEvent", buffer=out).event
    assert client.is_ready(event)
    client.wait(event)
    assert api.call("PJRT_Buffer_Device", buffer=out).device == client.devices[0]
    assert client.shape(out) == (500_000,)
    assert client.dtype(out) == np.float32
    client.destroy(x, out)
    client.destroy_executable(loaded)


# ------------------------------------------------------------------------------------------------------ donation


@pytest.mark.parametrize("size", [8, 200_000])
def test_donation(api: Api, client: Client, size: int) -> None:
    """A donated argument is deleted and its memory becomes the result's."""
    loaded = client.load(programs.add_one(size, donate=True))
    array = np.arange(size, dtype=np.float32)
    x = client.buffer(array)
    address = api.call("PJRT_Buffer_UnsafePointer", buffer=x).buffer_pointer
    [[out]] = client.execute(loaded, [x])
    assert client.is_deleted(x)
    np.testing.assert_array_equal(client.get(out), array + 1)
    assert api.call("PJRT_Buffer_UnsafePointer", buffer=out).buffer_pointer == address
    for attempt in (lambda: client.execute(loaded, [x]), lambda: client.get(x)):
        with pytest.raises(PjrtError, match="donated") as error:
            attempt()
        assert error.value.code == "INVALID_ARGUMENT"
    client.destroy(x, out)
    client.destroy_executable(loaded)


def test_an_argument_that_must_not_be_donated(client: Client) -> None:
    loaded = client.load(programs.add_one(donate=True))
    x = client.buffer(X)
    [[out]] = client.execute(loaded, [x], non_donatable=[0])
    assert not client.is_deleted(x)
    np.testing.assert_array_equal(client.get(x), X)
    np.testing.assert_array_equal(client.get(out), X + 1)
    client.destroy(x, out)
    client.destroy_executable(loaded)


def test_donating_memory_that_somebody_sees(api: Api, client: Client) -> None:
    """The buffer is deleted, but its content stays as it is as long as there is an external reference."""
    loaded = client.load(programs.add_one(donate=True))
    x = client.buffer(X)
    api.call("PJRT_Buffer_IncreaseExternalReferenceCount", buffer=x)
    address = api.call("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", buffer=x).device_memory_ptr
    [[out]] = client.execute(loaded, [x])
    assert client.is_deleted(x)
    np.testing.assert_array_equal(client.get(out), X + 1)
    assert ctypes.string_at(address, X.nbytes) == X.tobytes()
    api.call("PJRT_Buffer_DecreaseExternalReferenceCount", buffer=x)
    client.destroy(x, out)
    client.destroy_executable(loaded)


def test_a_donated_buffer_twice_in_one_call(client: Client) -> None:
    loaded = client.load(programs.add(donate=True))
    x = client.buffer(X)
    with pytest.raises(PjrtError) as error:
        client.execute(loaded, [x, x])
    assert error.value.code == "INVALID_ARGUMENT"
    assert not client.is_deleted(x)
    [[out]] = client.execute(loaded, [x, x], non_donatable=[0])
    np.testing.assert_array_equal(client.get(out), X + X)
    client.destroy(x, out)
    client.destroy_executable(loaded)


# ------------------------------------------------------------------------------------------------------- devices


def test_the_assigned_device_runs_it(api: Api, client4: Client) -> None:
    for index, device in enumerate(client4.devices):
        loaded = client4.load(programs.add_one(), compile_options([[index]]))
        args = api.call("PJRT_LoadedExecutable_AddressableDevices", executable=loaded)
        assert args.pointers("addressable_devices", "num_addressable_devices") == [device]
        x = client4.buffer(X, device=device)
        for requested in (None, device):
            [[out]] = client4.execute(loaded, [x], device=requested)
            assert api.call("PJRT_Buffer_Device", buffer=out).device == device
            np.testing.assert_array_equal(client4.get(out), X + 1)
            client4.destroy(out)
        other = client4.devices[(index + 1) % 4]
        with pytest.raises(PjrtError, match="other devices"):
            client4.execute(loaded, [x], device=other)
        foreign = client4.buffer(X, device=other)
        with pytest.raises(PjrtError) as error:
            client4.execute(loaded, [foreign])
        assert error.value.code == "INVALID_ARGUMENT"
        client4.destroy(x, foreign)
        client4.destroy_executable(loaded)


def test_portable_executable(api: Api, client4: Client) -> None:
    """Compiled for no device in particular, as TensorFlow does: each call names one."""
    loaded = client4.load(programs.add_one(), compile_options(portable=True))
    args = api.call("PJRT_LoadedExecutable_AddressableDevices", executable=loaded)
    assert args.num_addressable_devices == 0
    for device in client4.devices:
        x = client4.buffer(X, device=device)
        for requested in (device, None):
            [[out]] = client4.execute(loaded, [x], device=requested)
            assert api.call("PJRT_Buffer_Device", buffer=out).device == device
            client4.destroy(out)
        client4.destroy(x)
    client4.destroy_executable(loaded)


def test_no_assignment_means_the_first_device_unless_a_call_names_one(
    api: Api, client4: Client
) -> None:
    loaded = client4.load(programs.add_one(), b"")
    for requested, runs in ((None, client4.devices[0]), (client4.devices[3], client4.devices[3])):
        x = client4.buffer(X, device=runs)
        [[out]] = client4.execute(loaded, [x], device=requested)
        assert api.call("PJRT_Buffer_Device", buffer=out).device == runs
        client4.destroy(x, out)
    client4.destroy_executable(loaded)


def test_replicas(api: Api, client4: Client) -> None:
    """Two replicas: launched together, or one at a time as PyTorch/XLA does."""
    loaded = client4.load(programs.add_one(num_replicas=2), compile_options([[2], [0]]))
    devices = [client4.devices[2], client4.devices[0]]
    args = api.call("PJRT_LoadedExecutable_AddressableDevices", executable=loaded)
    assert args.pointers("addressable_devices", "num_addressable_devices") == devices
    xs = [client4.buffer(X * (i + 1), device=d) for i, d in enumerate(devices)]
    outs = client4.execute(loaded, *[[x] for x in xs], events=True)
    for i, ([out], device) in enumerate(zip(outs, devices, strict=True)):
        assert api.call("PJRT_Buffer_Device", buffer=out).device == device
        np.testing.assert_array_equal(client4.get(out), X * (i + 1) + 1)
        client4.destroy(out)
    for x, device in zip(xs, devices, strict=True):
        [[out]] = client4.execute(loaded, [x], device=device)
        client4.destroy(out)
    with pytest.raises(PjrtError, match="2 devices"):
        client4.execute(loaded, [xs[0]])
    # The second launch fails: the call fails, and the first one's results do not leak.
    before = client4.bytes_in_use(devices[0])
    with pytest.raises(PjrtError):
        client4.execute(loaded, [xs[0]], [xs[0]], events=True)
    assert client4.bytes_in_use(devices[0]) == before
    client4.destroy(*xs)
    client4.destroy_executable(loaded)


def test_an_assignment_to_devices_that_are_not_there(client: Client) -> None:
    with pytest.raises(PjrtError, match="device 3") as error:
        client.load(programs.add_one(), compile_options([[3]]))
    assert error.value.code == "INVALID_ARGUMENT"
    assert "TRIPONT_NUM_DEVICES" in error.value.message


# ----------------------------------------------------------------------------------------------------- bad calls


def test_wrong_arguments(api: Api, client: Client, client4: Client) -> None:
    loaded = client.load(programs.add())
    x = client.buffer(X)
    short, ints = client.buffer(X[:4]), client.buffer(X.astype(np.int32))
    matrix = client.buffer(X.reshape(2, 4))
    deleted = client.buffer(X)
    api.call("PJRT_Buffer_Delete", buffer=deleted)
    foreign = client4.buffer(X)
    for arguments, texts in (
        ([], ["add", "2", "0"]),
        ([x], ["add", "2", "1"]),
        ([x, x, x], ["add", "2", "3"]),
        ([x, short], ["add", "1", "f32[8]", "f32[4]"]),
        ([ints, x], ["add", "0", "f32[8]", "s32[8]"]),
        ([x, matrix], ["add", "1", "f32[2,4]"]),
        ([x, deleted], ["deleted"]),
        ([foreign, x], ["argument 0", "add", "another client"]),
        ([x, 0], ["argument 1", "null"]),
    ):
        with pytest.raises(PjrtError) as error:
            client.execute(loaded, arguments)
        assert error.value.code == "INVALID_ARGUMENT"
        for text in texts:
            assert text in error.value.message
    [[out]] = client.execute(loaded, [x, x])  # and it still works
    np.testing.assert_array_equal(client.get(out), X + X)
    client.destroy(x, short, ints, matrix, deleted, out)
    client4.destroy(foreign)
    client.destroy_executable(loaded)


def test_wrong_calls(api: Api, client: Client, client4: Client) -> None:
    loaded = client.load(programs.add_one())
    x = client.buffer(X)
    with pytest.raises(PjrtError, match="num_devices"):
        client.execute(loaded, [x], [x])
    with pytest.raises(PjrtError, match="another client"):
        client.execute(loaded, [x], device=client4.devices[0])
    with pytest.raises(PjrtError, match="null"):
        api.call("PJRT_LoadedExecutable_Execute", executable=loaded, num_devices=1, num_args=1)
    with pytest.raises(PjrtError, match="device 0 is null"):
        api.call(
            "PJRT_LoadedExecutable_Execute",
            executable=loaded,
            argument_lists=pointer_array([0]),
            output_lists=pointer_array([0]),
            num_devices=1,
            num_args=1,
        )
    options = api.make("PJRT_ExecuteOptions", num_send_ops=1)
    with pytest.raises(PjrtError, match="send") as error:
        api.call(
            "PJRT_LoadedExecutable_Execute",
            executable=loaded,
            options=options,
            argument_lists=pointer_array([0]),
            output_lists=pointer_array([0]),
            num_devices=1,
            num_args=1,
        )
    assert error.value.code == "UNIMPLEMENTED"
    for ignored in ([-1], [1], [2**40]):  # numbers that are no parameter's are not followed
        [[out]] = client.execute(loaded, [x], non_donatable=ignored)
        client.destroy(out)
    client.destroy(x)
    client.destroy_executable(loaded)


def test_execute_options_of_an_older_caller(api: Api, client: Client) -> None:
    """A PJRT_ExecuteOptions that ends before non_donatable_input_indices: what lies behind it is not read."""
    loaded = client.load(programs.add_one(donate=True))
    x = client.buffer(X)
    options = api.make("PJRT_ExecuteOptions")
    struct = api.header.structs["PJRT_ExecuteOptions"]
    options.struct_size = struct.non_donatable_input_indices.offset
    options.non_donatable_input_indices, options.num_non_donatable_input_indices = 1, 2**60
    outputs, inputs = pointer_array([None]), pointer_array([x])
    api.call(
        "PJRT_LoadedExecutable_Execute",
        executable=loaded,
        options=options,
        num_devices=1,
        num_args=1,
        argument_lists=pointer_array([ctypes.addressof(inputs)]),
        output_lists=pointer_array([ctypes.addressof(outputs)]),
    )
    np.testing.assert_array_equal(client.get(outputs[0]), X + 1)
    client.destroy(x, outputs[0])
    client.destroy_executable(loaded)


def test_execute_options_without_a_list(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one(donate=True))
    x = client.buffer(X)
    options = api.make(
        "PJRT_ExecuteOptions", non_donatable_input_indices=None, num_non_donatable_input_indices=1
    )
    outputs, inputs = pointer_array([None]), pointer_array([x])
    with pytest.raises(PjrtError, match="`non_donatable_input_indices` is null") as error:
        api.call(
            "PJRT_LoadedExecutable_Execute",
            executable=loaded,
            options=options,
            num_devices=1,
            num_args=1,
            argument_lists=pointer_array([ctypes.addressof(inputs)]),
            output_lists=pointer_array([ctypes.addressof(outputs)]),
        )
    assert error.value.code == "INVALID_ARGUMENT"
    client.destroy(x)
    client.destroy_executable(loaded)


def test_an_argument_that_failed(api: Api, client: Client) -> None:
    """The error of an argument becomes the error of the results."""
    from .c_api import int64_array

    loaded = client.load(programs.add_one())
    x = api.call(
        "PJRT_Client_CreateErrorBuffer",
        client=client.handle,
        error_code=15,
        error_message=b"lost it",
        error_message_size=7,
        shape_dims=int64_array([8]),
        shape_num_dims=1,
        shape_element_type=client.type_of(np.float32),
        memory=client.default_memory(client.devices[0]),
    ).buffer
    [[out]] = client.execute(loaded, [x])
    with pytest.raises(PjrtError, match="lost it"):
        client.get(out)
    client.destroy(x, out)
    client.destroy_executable(loaded)


def test_a_deleted_executable(api: Api, client: Client) -> None:
    loaded = client.load(programs.add_one())
    x = client.buffer(X)
    assert not api.call("PJRT_LoadedExecutable_IsDeleted", executable=loaded).is_deleted
    api.call("PJRT_LoadedExecutable_Delete", executable=loaded)
    assert api.call("PJRT_LoadedExecutable_IsDeleted", executable=loaded).is_deleted
    with pytest.raises(PjrtError, match="deleted") as error:
        client.execute(loaded, [x])
    assert error.value.code == "INVALID_ARGUMENT"
    client.destroy(x)
    client.destroy_executable(loaded)


def test_nothing_leaks(client: Client) -> None:
    """Thousands of executions and transfers leave as many bytes in use as before."""
    import resource

    loaded = client.load(programs.add_one(1000))
    array = np.arange(1000, dtype=np.float32)
    before = client.bytes_in_use()

    def work(count: int) -> None:
        for _ in range(count):
            x = client.buffer(array)
            [[out]] = client.execute(loaded, [x], events=True)
            client.get(out)
            client.destroy(x, out)

    work(200)
    gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(2000)
    assert client.bytes_in_use() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 4096  # KiB
    client.destroy_executable(loaded)


def test_buffers_and_executables_outlive_their_client(api: Api) -> None:
    client = Client(api)
    loaded, x = client.load(programs.add_one()), client.buffer(X)
    [[out]] = client.execute(loaded, [x])
    client.close()
    client.destroy(x, out)
    client.destroy_executable(loaded)
