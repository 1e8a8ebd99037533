"""Device buffers that are not row-major: made, read, copied, and given to programs and by them."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

from .c_api import Api, PjrtError, int64_array
from .host import Client

PROGRAM = """
func.func @main(%x: tensor<2x3xf32> {{mhlo.layout_mode = "{}"}}) -> (tensor<2x3xf32> {{mhlo.layout_mode = "{}"}}) {{
  %y = stablehlo.add %x, %x : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}}"""


def sample(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def layout_text(api: Api, client: Client, buffer: int) -> str:
    layout = api.call("PJRT_Layouts_PJRT_Buffer_MemoryLayout", buffer=buffer).layout
    text = api.call("PJRT_Layouts_MemoryLayout_Serialize", layout=layout)
    again = api.call("PJRT_Buffer_GetMemoryLayout", buffer=buffer).layout.tiled
    order = (ctypes.c_int64 * again.minor_to_major_size).from_address(again.minor_to_major or 0)
    found = text.blob("serialized_bytes").decode()
    assert found == "{" + ",".join(map(str, order)) + "}"
    return found


def in_memory(api: Api, buffer: int, size: int) -> bytes:
    address = api.call("PJRT_Buffer_UnsafePointer", buffer=buffer).buffer_pointer
    return ctypes.string_at(address, size)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (1, 3, 1), (200, 300)])
def test_every_order_of_dimensions(
    api: Api, client: Client, dtype: Any, shape: tuple[int, ...]
) -> None:
    array = sample(dtype, shape)
    for order in itertools.permutations(range(len(shape))):
        wanted = client.tiled_layout(order)
        slowest_first = order[::-1]
        for source in (array, np.asfortranarray(array)):
            buffer = client.buffer(source, device_layout=wanted)
            assert client.shape(buffer) == shape
            assert layout_text(api, client, buffer) == "{" + ",".join(map(str, order)) + "}"
            assert in_memory(api, buffer, array.nbytes) == array.transpose(slowest_first).tobytes()
            np.testing.assert_array_equal(client.get(buffer), array)
            for host in itertools.permutations(range(len(shape))):
                got = client.get(buffer, client.tiled_layout(host))
                assert got.tobytes() == array.transpose(host[::-1]).tobytes()
            client.destroy(buffer)


def test_a_copy_has_the_layout(api: Api, client4: Client) -> None:
    array = sample(np.float32, (3, 5))
    buffer = client4.buffer(array, device_layout=client4.tiled_layout([0, 1]))
    copy = api.call(
        "PJRT_Buffer_CopyToDevice", buffer=buffer, dst_device=client4.devices[1]
    ).dst_buffer
    assert layout_text(api, client4, copy) == "{0,1}"
    np.testing.assert_array_equal(client4.get(copy), array)
    client4.destroy(buffer, copy)


def test_programs(api: Api, client: Client) -> None:
    """Each pair of layouts is a program of its own, on the same numbers."""
    array = sample(np.float32, (2, 3))
    orders = {"{1,0}": [1, 0], "{0,1}": [0, 1]}
    for parameter, result in itertools.product(orders, orders):
        program = client.compile(PROGRAM.format(parameter, result).encode())
        x = client.buffer(array, device_layout=client.tiled_layout(orders[parameter]))
        ((y,),) = client.execute(program, [x])
        assert client.shape(y) == (2, 3)
        assert layout_text(api, client, y) == result
        np.testing.assert_array_equal(client.get(y), 2 * array)
        executable = client.executable(program)
        found = api.call("PJRT_Layouts_PJRT_Executable_GetOutputLayouts", executable=executable)
        (layout,) = found.pointers("layouts", "num_outputs")
        text = api.call("PJRT_Layouts_MemoryLayout_Serialize", layout=layout)
        assert text.blob("serialized_bytes").decode() == result
        dims = api.call("PJRT_Executable_OutputDimensions", executable=executable)
        assert dims.int64s("dims", "num_outputs") == [2]  # of one output, the first dimension
        api.call("PJRT_Executable_Destroy", executable=executable)
        other = client.buffer(array, device_layout=client.tiled_layout(orders[parameter][::-1]))
        with pytest.raises(PjrtError, match=r"has the layout .*, but the program was compiled for"):
            client.execute(program, [other])
        client.destroy(x, y, other)
        client.destroy_executable(program)


def test_buffers_that_are_row_major_only(api: Api, client: Client) -> None:
    with pytest.raises(PjrtError, match="row-major") as caught:
        api.call(
            "PJRT_Client_CreateUninitializedBuffer",
            client=client.handle,
            shape_dims=int64_array([2, 3]),
            shape_num_dims=2,
            shape_element_type=client.type_of(np.float32),
            shape_layout=client.tiled_layout([0, 1]),
            device=client.devices[0],
        )
    assert caught.value.code == "UNIMPLEMENTED"
