"""Results whose sizes depend on values: a caller gets arrays of the sizes that the program computed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from .c_api import Api, PjrtError
from .host import Client
from .protos import compile_options

_BOUNDED = "tensor<?x3xf32, #stablehlo.bounds<5, ?>>"
_COUNT = f"""
  %n = stablehlo.reduce(%mask init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
  %y = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<5x3xf32>, tensor<i32>) -> {_BOUNDED}
"""
# The first rows, as many as a mask has ones; their sum; their number.
PROGRAM = f"""
func.func @main(%x: tensor<5x3xf32>, %mask: tensor<5xi32>) -> ({_BOUNDED}, tensor<3xf32>, tensor<i32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  {_COUNT}
  %s = stablehlo.reduce(%y init: %none) applies stablehlo.add across dimensions = [0]
      : ({_BOUNDED}, tensor<f32>) -> tensor<3xf32>
  return %y, %s, %n : {_BOUNDED}, tensor<3xf32>, tensor<i32>
}}
""".encode()
X = np.arange(15, dtype=np.float32).reshape(5, 3)


@pytest.fixture(scope="module")
def client(api: Api) -> Iterator[Client]:
    client = Client(api, python=sys.executable, cache=False, num_devices=2)
    yield client
    client.close()


@pytest.fixture(scope="module")
def loaded(client: Client) -> Iterator[int]:
    loaded = client.compile(PROGRAM)
    yield loaded
    client.destroy_executable(loaded)


def _mask(count: int) -> np.ndarray:
    return np.concatenate([np.ones(count, np.int32), np.zeros(5 - count, np.int32)])


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("count", range(6))
def test_results_are_as_large_as_the_program_says(
    api: Api, client: Client, loaded: int, count: int, events: bool
) -> None:
    arguments = [client.buffer(X), client.buffer(_mask(count))]
    [[rows, total, number]] = client.execute(loaded, arguments, events=events)
    assert client.shape(rows) == (count, 3)
    args = api.call("PJRT_Buffer_UnpaddedDimensions", buffer=rows)
    assert args.int64s("unpadded_dims", "num_dims") == [count, 3]
    args = api.call("PJRT_Buffer_DynamicDimensionIndices", buffer=rows)
    assert args.num_dynamic_dims == 0  # the buffer is no larger than what is there
    args = api.call("PJRT_Buffer_OnDeviceSizeInBytes", buffer=rows)
    assert args.on_device_size_in_bytes == count * 3 * 4
    np.testing.assert_array_equal(client.get(rows), X[:count])
    np.testing.assert_array_equal(client.get(total), X[:count].sum(0))
    assert client.get(number) == count
    client.destroy(rows, total, number, *arguments)


def test_the_sizes_themselves_are_no_results(api: Api, client: Client, loaded: int) -> None:
    assert client.num_outputs(loaded) == 3
    executable = client.executable(loaded)
    args = api.call("PJRT_Executable_OutputDimensions", executable=executable)
    assert args.int64s("dim_sizes", "num_outputs") == [2, 1, 0]
    bounds = (ctypes.c_int64 * 3).from_address(args.dims)
    assert list(bounds) == [5, 3, 3]
    api.call("PJRT_Executable_Destroy", executable=executable)


def test_the_result_is_an_argument_like_any_other(client: Client, loaded: int) -> None:
    arguments = [client.buffer(X), client.buffer(_mask(2))]
    [[rows, *others]] = client.execute(loaded, arguments)
    double = client.compile(
        b"func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {"
        b" %r = stablehlo.add %x, %x : tensor<2x3xf32> return %r : tensor<2x3xf32> }"
    )
    [[doubled]] = client.execute(double, [rows])
    np.testing.assert_array_equal(client.get(doubled), X[:2] * 2)
    client.destroy(doubled, rows, *others, *arguments)
    client.destroy_executable(double)


def test_no_memory_stays(client: Client, loaded: int) -> None:
    arguments = [client.buffer(X), client.buffer(_mask(2))]
    before = client.bytes_in_use()
    for _ in range(3):
        [results] = client.execute(loaded, arguments)
        client.destroy(*results)
    assert client.bytes_in_use() == before
    bad = client.buffer(np.full(5, 2, np.int32))
    before = client.bytes_in_use()
    with pytest.raises(PjrtError):
        client.execute(loaded, [arguments[0], bad])
    assert client.bytes_in_use() == before
    client.destroy(bad, *arguments)


def test_a_size_out_of_its_bound_is_an_error(client: Client, loaded: int) -> None:
    arguments = [client.buffer(X), client.buffer(np.full(5, 2, np.int32))]
    with pytest.raises(PjrtError, match="dimension 0 of result 0 was given the size 10") as caught:
        client.execute(loaded, arguments)
    assert caught.value.code == "INVALID_ARGUMENT"
    client.destroy(*arguments)


def test_a_program_for_several_devices_runs_on_one_at_a_time(client: Client) -> None:
    loaded = client.compile(PROGRAM, options=compile_options([[0], [1]]))
    arguments = [
        [client.buffer(X, device=device), client.buffer(_mask(3), device=device)]
        for device in client.devices
    ]
    with pytest.raises(PjrtError, match="launched on one device at a time"):
        client.execute(loaded, *arguments)
    for device, given in zip(client.devices, arguments, strict=True):
        [results] = client.execute(loaded, given, device=device)
        assert client.shape(results[0]) == (3, 3)
        client.destroy(*results, *given)
    client.destroy_executable(loaded)
