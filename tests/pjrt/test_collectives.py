"""Collectives between the devices of one process: every group mode, every way of launching, and what fails."""

from __future__ import annotations

import concurrent.futures
import ctypes
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .c_api import Api, PjrtError, int64_array, pointer_array
from .host import Client
from .protos import compile_options

REPLICAS = [[0], [1], [2], [3]]
PARTITIONS = [[0, 1, 2, 3]]
BOTH = [[0, 1], [2, 3]]  # device of [replica][partition]


@pytest.fixture(scope="module")
def client(api: Api) -> Iterator[Client]:
    client = Client(api, python=sys.executable, cache=False, num_devices=4)
    yield client
    client.close()


def program(body: str, argument: str = "f32[2,3]", result: str = "") -> bytes:
    """A module whose main computes ``%r`` from ``%x``."""
    types = [_tensor(t) for t in (argument, result or argument)]
    body = body.replace("$a", types[0]).replace("$r", types[1])
    return f"""
module @exchange {{
  func.func public @main(%x: {types[0]}) -> {types[1]} {{
    {body}
    return %r : {types[1]}
  }}
}}
""".encode()


def _tensor(shape: str) -> str:
    """``tensor<2x3xf32>`` of ``f32[2,3]``."""
    name, dims = shape.rstrip("]").split("[")
    element = {"pred": "i1"}.get(name) or (
        name.replace("s", "i").replace("u", "ui") if name[0] in "su" else name
    )
    if name[0] == "c":
        element = {"c64": "complex<f32>", "c128": "complex<f64>"}[name]
    return f"tensor<{''.join(d + 'x' for d in dims.split(',') if d)}{element}>"


def attributes(
    groups: Sequence[Sequence[int]] | None = None, channel: int = 0, ids: bool = False
) -> str:
    """Replica groups, channel and use_global_device_ids."""
    rows = [list(g) for g in groups or []]
    width = max(map(len, rows), default=0)
    rows = [r + [-1] * (width - len(r)) for r in rows]
    text = f"replica_groups = dense<{rows if rows else ''}> : tensor<{len(rows)}x{width}xi64>"
    if channel:
        text += f", channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>"
    return text + (", use_global_device_ids" if ids else "")


def reduction(op: str, element: str) -> str:
    return f"""({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %s = stablehlo.{op} %a, %b : tensor<{element}>
        stablehlo.return %s : tensor<{element}>
    }})"""


def all_reduce(given: str, op: str = "add", element: str = "f32") -> str:
    return f'%r = "stablehlo.all_reduce"(%x) <{{{given}}}> {reduction(op, element)} : ($a) -> $r'


def run(client: Client, code: bytes, devices: list[list[int]], arrays: Sequence[Any]) -> list[Any]:
    """Results on all devices, launched by one call."""
    loaded = client.compile(code, options=compile_options(devices))
    flat = list(itertools.chain(*devices))
    buffers = [
        client.buffer(a, device=client.devices[d]) for a, d in zip(arrays, flat, strict=True)
    ]
    outputs = client.execute(loaded, *[[b] for b in buffers], events=True)
    results = [client.get(out) for (out,) in outputs]
    client.destroy(*buffers, *[out for (out,) in outputs])
    client.destroy_executable(loaded)
    return results


def parts(*dims: int, dtype: Any = np.float32, count: int = 4) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(dims) * 4).astype(dtype) for _ in range(count)]


# ------------------------------------------------------------------------------------------------ groups of devices

# (devices of [replica][partition], attributes, the groups of participants that these mean)
MODES: dict[str, tuple[list[list[int]], str, list[list[int]]]] = {
    "cross_replica": (REPLICAS, attributes([[0, 2], [3, 1]]), [[0, 2], [3, 1]]),
    "cross_replica_all": (REPLICAS, attributes(), [[0, 1, 2, 3]]),
    "cross_replica_of_two_partitions": (BOTH, attributes([[1, 0]]), [[2, 0], [3, 1]]),
    "cross_replica_alone": (REPLICAS, attributes([[0], [1], [2], [3]]), [[0], [1], [2], [3]]),
    "cross_replica_and_partition": (BOTH, attributes([[0], [1]], 1), [[0, 1], [2, 3]]),
    "cross_replica_and_partition_all": (BOTH, attributes([[0, 1]], 1), [[0, 2, 1, 3]]),
    "flattened": (BOTH, attributes([[0, 3], [2, 1]], 1, True), [[0, 3], [2, 1]]),
    "flattened_partitions": (PARTITIONS, attributes([[3, 0, 1, 2]], 5, True), [[3, 0, 1, 2]]),
    "uneven": (REPLICAS, attributes([[0, 1, 2], [3]]), [[0, 1, 2], [3]]),
}


@pytest.mark.parametrize("mode", MODES)
def test_all_reduce_groups(client: Client, mode: str) -> None:
    devices, given, groups = MODES[mode]
    arrays = parts(2, 3)
    results = run(client, program(all_reduce(given)), devices, arrays)
    for group in groups:
        expected = arrays[group[0]]
        for member in group[1:]:  # in the order of the group
            expected = expected + arrays[member]
        for member in group:
            np.testing.assert_array_equal(results[member], expected)


@pytest.mark.parametrize("mode", [m for m in MODES if m != "uneven"])
def test_all_gather_groups(client: Client, mode: str) -> None:
    devices, given, groups = MODES[mode]
    arrays, size = parts(2, 3), len(groups[0])
    body = f'%r = "stablehlo.all_gather"(%x) <{{all_gather_dim = 1 : i64, {given}}}> : ($a) -> $r'
    results = run(client, program(body, result=f"f32[2,{3 * size}]"), devices, arrays)
    for group in groups:
        for member in group:
            expected = np.concatenate([arrays[m] for m in group], 1)
            np.testing.assert_array_equal(results[member], expected)


@pytest.mark.parametrize("mode", [m for m in MODES if m != "uneven"])
def test_reduce_scatter_groups(client: Client, mode: str) -> None:
    devices, given, groups = MODES[mode]
    arrays, size = parts(3, 8), len(groups[0])
    body = (
        f'%r = "stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 1 : i64, {given}}}>'
        f" {reduction('maximum', 'f32')} : ($a) -> $r"
    )
    results = run(client, program(body, "f32[3,8]", f"f32[3,{8 // size}]"), devices, arrays)
    for group in groups:
        whole = np.max([arrays[m] for m in group], 0)
        for block, member in zip(np.split(whole, size, 1), group, strict=True):
            np.testing.assert_array_equal(results[member], block)


# For operations whose channel means "across partitions".
PARTITION_MODES: dict[str, tuple[list[list[int]], str, list[list[int]]]] = {
    "cross_replica": (REPLICAS, attributes([[0, 2], [3, 1]]), [[0, 2], [3, 1]]),
    "cross_replica_of_two_partitions": (BOTH, attributes([[1, 0]]), [[2, 0], [3, 1]]),
    "cross_partition": (PARTITIONS, attributes([[2, 0], [1, 3]], 1), [[2, 0], [1, 3]]),
    "cross_partition_of_two_replicas": (BOTH, attributes([[1, 0]], 1), [[1, 0], [3, 2]]),
}


@pytest.mark.parametrize("dimensions", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("mode", PARTITION_MODES)
def test_all_to_all(client: Client, mode: str, dimensions: tuple[int, int]) -> None:
    devices, given, groups = PARTITION_MODES[mode]
    split, concatenate = dimensions
    shape = [4, 6, 2]
    arrays, size = parts(*shape), len(groups[0])
    shape[split] //= size
    shape[concatenate] *= size
    body = (
        f'%r = "stablehlo.all_to_all"(%x) <{{split_dimension = {split} : i64, concat_dimension = '
        f"{concatenate} : i64, split_count = {size} : i64, {given}}}> : ($a) -> $r"
    )
    result = f"f32[{','.join(map(str, shape))}]"
    results = run(client, program(body, "f32[4,6,2]", result), devices, arrays)
    for group in groups:
        for place, member in enumerate(group):
            blocks = [np.split(arrays[m], size, split)[place] for m in group]
            np.testing.assert_array_equal(results[member], np.concatenate(blocks, concatenate))


@pytest.mark.parametrize("mode", PARTITION_MODES)
def test_collective_broadcast(client: Client, mode: str) -> None:
    devices, given, groups = PARTITION_MODES[mode]
    arrays = parts(2, 3)
    body = f'%r = "stablehlo.collective_broadcast"(%x) <{{{given}}}> : ($a) -> $r'
    results = run(client, program(body), devices, arrays)
    for group in groups:
        for member in group:
            np.testing.assert_array_equal(results[member], arrays[group[0]])


def test_collective_broadcast_leaves_others_with_zeros(client: Client) -> None:
    body = f'%r = "stablehlo.collective_broadcast"(%x) <{{{attributes([[2, 1]])}}}> : ($a) -> $r'
    arrays = parts(2, 3)
    results = run(client, program(body), REPLICAS, arrays)
    zeros = np.zeros_like(arrays[0])
    for result, expected in zip(results, (zeros, arrays[2], arrays[2], zeros), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("devices", "channel", "pairs", "sources"),
    [
        (REPLICAS, 0, [[0, 1], [1, 2], [2, 3], [3, 0]], [3, 0, 1, 2]),
        (REPLICAS, 0, [[2, 0]], [2, -1, -1, -1]),
        (REPLICAS, 0, [[1, 1], [3, 2]], [-1, 1, 3, -1]),
        (PARTITIONS, 1, [[0, 3], [3, 0]], [3, -1, -1, 0]),
        (BOTH, 0, [[0, 1]], [-1, -1, 0, 1]),
        (BOTH, 1, [[0, 1]], [-1, 0, -1, 2]),
    ],
)
def test_collective_permute(
    client: Client,
    devices: list[list[int]],
    channel: int,
    pairs: list[list[int]],
    sources: list[int],
) -> None:
    handle = (
        f", channel_handle = #stablehlo.channel_handle<handle = {channel}, type = 1>"
        if channel
        else ""
    )
    body = (
        f'%r = "stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<{pairs}> : '
        f"tensor<{len(pairs)}x2xi64>{handle}}}> : ($a) -> $r"
    )
    arrays = parts(2, 3)
    for result, source in zip(run(client, program(body), devices, arrays), sources, strict=True):
        expected = arrays[source] if source >= 0 else np.zeros_like(arrays[0])
        np.testing.assert_array_equal(result, expected)


def test_device_numbers(client: Client) -> None:
    body = """%p = stablehlo.partition_id : tensor<ui32>
    %i = stablehlo.replica_id : tensor<ui32>
    %ten = stablehlo.constant dense<10> : tensor<ui32>
    %m = stablehlo.multiply %i, %ten : tensor<ui32>
    %n = stablehlo.add %m, %p : tensor<ui32>
    %r = stablehlo.add %x, %n : tensor<ui32>"""
    arrays = [np.zeros((), np.uint32)] * 4
    for devices, expected in (
        (BOTH, [0, 1, 10, 11]),
        (REPLICAS, [0, 10, 20, 30]),
        (PARTITIONS, [0, 1, 2, 3]),
    ):
        assert [int(v) for v in run(client, program(body, "u32[]"), devices, arrays)] == expected


# ---------------------------------------------------------------------------------------------- values and reductions

NUMBERS: dict[str, Any] = {
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
OPERATIONS = {
    "add": np.add,
    "multiply": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


BITWISE = ("and", "or", "xor")


@pytest.mark.parametrize(
    ("op", "name"),
    [(o, n) for o in OPERATIONS for n in NUMBERS if "f" not in n or o not in BITWISE],
)
def test_reduction(client: Client, op: str, name: str) -> None:
    """The elements are reduced in the order of the group, each step rounded to the dtype, as the specification says."""
    element = _tensor(f"{name}[]")[7:-1]
    arrays = parts(5, dtype=np.float64)
    arrays = [a.astype(NUMBERS[name]) for a in arrays]
    code = program(all_reduce(attributes(), op, element), f"{name}[5]")
    expected = arrays[0]
    for array in arrays[1:]:
        expected = OPERATIONS[op](expected, array).astype(NUMBERS[name])
    for result in run(client, code, REPLICAS, arrays):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("op", BITWISE)
def test_reduction_of_truth_values(client: Client, op: str) -> None:
    arrays = [a > 0 for a in parts(40)]
    code = program(all_reduce(attributes(), op, "i1"), "pred[40]")
    expected = OPERATIONS[op].reduce(arrays)
    for result in run(client, code, REPLICAS, arrays):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["c64", "c128"])
def test_reduction_of_complex_numbers(client: Client, name: str) -> None:
    kind = {"c64": np.complex64, "c128": np.complex128}[name]
    arrays = [(a + 1j * b).astype(kind) for a, b in zip(parts(7), parts(7)[::-1], strict=True)]
    element = _tensor(f"{name}[]")[7:-1]
    code = program(all_reduce(attributes(), "add", element), f"{name}[7]")
    expected = arrays[0] + arrays[1] + arrays[2] + arrays[3]
    for result in run(client, code, REPLICAS, arrays):
        np.testing.assert_array_equal(result, expected)


def test_reduction_of_any_body(client: Client) -> None:
    """a * 2 - b, which is neither associative nor commutative, chosen by a comparison."""
    body = """%two = stablehlo.constant dense<2.0> : tensor<f32>
        %m = stablehlo.multiply %a, %two : tensor<f32>
        %d = stablehlo.subtract %m, %b : tensor<f32>
        %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %s = stablehlo.select %c, %d, %a : tensor<i1>, tensor<f32>"""
    code = all_reduce(attributes()).replace("%s = stablehlo.add %a, %b : tensor<f32>", body)
    arrays = parts(6)
    expected = arrays[0]
    for b in arrays[1:]:
        expected = np.where(expected < b, expected * 2 - b, expected)
    for result in run(client, program(code, "f32[6]"), REPLICAS, arrays):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 16384, 100_003])
def test_sizes(client: Client, size: int) -> None:
    """Whole kernels, whole pieces, and what is left of each."""
    arrays = parts(size)
    results = run(client, program(all_reduce(attributes()), f"f32[{size}]"), REPLICAS, arrays)
    expected = arrays[0] + arrays[1] + arrays[2] + arrays[3]
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_several_operands(client: Client) -> None:
    """A variadic all-reduce, and two all-reduces of one operand: one value twice in one meeting."""
    code = f"""
module @variadic {{
  func.func public @main(%x: tensor<3xf32>, %y: tensor<2x2xf32>)
      -> (tensor<3xf32>, tensor<2x2xf32>, tensor<3xf32>) {{
    %u:2 = "stablehlo.all_reduce"(%x, %y) <{{{attributes()}}}> {reduction("add", "f32")}
      : (tensor<3xf32>, tensor<2x2xf32>) -> (tensor<3xf32>, tensor<2x2xf32>)
    %v = "stablehlo.all_reduce"(%x) <{{{attributes([[0, 1], [2, 3]])}}}> {reduction("add", "f32")}
      : (tensor<3xf32>) -> tensor<3xf32>
    return %u#0, %u#1, %v : tensor<3xf32>, tensor<2x2xf32>, tensor<3xf32>
  }}
}}""".encode()
    loaded = client.compile(code, options=compile_options(REPLICAS))
    xs, ys = parts(3), parts(2, 2)
    lists = [
        [client.buffer(x, device=d), client.buffer(y, device=d)]
        for x, y, d in zip(xs, ys, client.devices, strict=True)
    ]
    outputs = client.execute(loaded, *lists, events=True)
    for n, (a, b, c) in enumerate(outputs):
        np.testing.assert_array_equal(client.get(a), xs[0] + xs[1] + xs[2] + xs[3])
        np.testing.assert_array_equal(client.get(b), ys[0] + ys[1] + ys[2] + ys[3])
        np.testing.assert_array_equal(client.get(c), xs[n // 2 * 2] + xs[n // 2 * 2 + 1])
    client.destroy(*itertools.chain(*lists), *itertools.chain(*outputs))
    client.destroy_executable(loaded)


# ------------------------------------------------------------------------------------------------- ways of launching

SUM = program(all_reduce(attributes()), "f32[8]")


def launch(client: Client, loaded: int, device: int, value: float) -> int:
    """One device's launch, by its own call; the result."""
    x = client.buffer(np.full(8, value, np.float32), device=client.devices[device])
    [[out]] = client.execute(loaded, [x], device=client.devices[device])
    client.destroy(x)
    return out


def check(client: Client, out: int, value: float) -> None:
    np.testing.assert_array_equal(client.get(out), np.full(8, value, np.float32))
    client.destroy(out)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_one_thread_launches_device_by_device(client: Client, order: tuple[int, ...]) -> None:
    """A launch returns though its device waits for the others."""
    loaded = client.compile(SUM, options=compile_options(REPLICAS))
    for step in range(3):
        outs = [launch(client, loaded, device, device + step) for device in order]
        for out in outs:
            check(client, out, 6 + 4 * step)
    client.destroy_executable(loaded)


def test_one_device_far_ahead_of_the_other(client: Client) -> None:
    """More launches on one device than its stream takes while it runs: it takes them while it waits."""
    loaded = client.compile(SUM, options=compile_options([[0], [1]]))
    ahead = [launch(client, loaded, 0, step) for step in range(200)]
    behind = [launch(client, loaded, 1, 1000) for _ in range(200)]
    for step, (a, b) in enumerate(zip(ahead, behind, strict=True)):
        check(client, a, 1000 + step)
        check(client, b, 1000 + step)
    client.destroy_executable(loaded)


def test_threads_launch_a_device_each(client: Client) -> None:
    loaded = client.compile(SUM, options=compile_options(REPLICAS))

    def replica(device: int) -> None:
        for step in range(50):
            check(client, launch(client, loaded, device, device * step), 6 * step)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(replica, range(4)))
    client.destroy_executable(loaded)


@pytest.mark.parametrize("names", [("exchange", "exchange"), ("step_3", "step_3_replica_1_7")])
def test_executables_of_one_program_meet(api: Api, names: tuple[str, str]) -> None:
    """A framework may compile the program for each device anew, and TensorFlow names each of them otherwise."""
    # The limit: an error instead of a wait without end, should they not meet.
    client = Client(api, python=sys.executable, num_devices=2, collective_timeout=20)
    loaded = [
        client.compile(
            SUM.replace(b"@exchange", b"@" + name.encode()), options=compile_options([[0], [1]])
        )
        for name in names
    ]
    outs = [launch(client, loaded[n], n, n + 1) for n in range(2)]
    for out in outs:
        check(client, out, 3)
    for executable in loaded:
        client.destroy_executable(executable)
    client.close()


def test_without_an_assignment_the_first_devices_meet(client: Client) -> None:
    """TensorFlow's way: two replicas, no assignment, the device with each launch."""
    loaded = client.compile(SUM, options=compile_options(replicas=2))
    outs = [launch(client, loaded, n, n + 1) for n in (1, 0)]
    for out in outs:
        check(client, out, 3)
    with pytest.raises(PjrtError, match="is not one of them") as error:
        launch(client, loaded, 2, 1.0)
    assert error.value.code == "INVALID_ARGUMENT"
    client.destroy_executable(loaded)


def test_devices_in_any_order(client: Client) -> None:
    """Participants are numbered by the assignment, not by the devices' numbers."""
    body = f'%r = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, {attributes()}}}> : ($a) -> $r'
    arrays = parts(1)
    results = run(client, program(body, "f32[1]", "f32[4]"), [[2], [0], [3], [1]], arrays)
    for result in results:
        np.testing.assert_array_equal(result, np.concatenate(arrays))


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("body", "devices", "text"),
    [
        (all_reduce(attributes([[0, 1, 2, 3, 4]])), REPLICAS, "replica 4, but the program has 4"),
        (all_reduce(attributes([[0, 1]])), REPLICAS, "do not hold each of the program's 4 devices"),
        (all_reduce(attributes([[0, 1], [1, 2]])), REPLICAS, "invalid|more than once"),
        (all_reduce(attributes([[0, 1]])), [[0]], "replica 1, but the program has 1"),
    ],
)
def test_groups_that_cannot_be(
    client: Client, body: str, devices: list[list[int]], text: str
) -> None:
    with pytest.raises(PjrtError, match=text) as error:
        client.compile(program(body), options=compile_options(devices))
    assert error.value.code == "INVALID_ARGUMENT"


def test_more_devices_than_there_are(client: Client) -> None:
    with pytest.raises(PjrtError, match="4 devices") as error:
        client.compile(SUM, options=compile_options([[0], [7]]))
    assert error.value.code == "INVALID_ARGUMENT"


def test_a_device_that_cannot_be_launched_fails_the_others(client: Client) -> None:
    loaded = client.compile(SUM, options=compile_options([[0], [1]]))
    good = client.buffer(np.ones(8, np.float32), device=client.devices[0])
    bad = client.buffer(np.ones(9, np.float32), device=client.devices[1])
    # One call for both: it fails, and nothing of it stays behind.
    with pytest.raises(PjrtError, match=r"f32\[9\]"):
        client.execute(loaded, [good], [bad])
    # A call for each: the one that waits gets the other's error.
    [[out]] = client.execute(loaded, [good], device=client.devices[0])
    with pytest.raises(PjrtError, match=r"f32\[9\]"):
        client.execute(loaded, [bad], device=client.devices[1])
    with pytest.raises(PjrtError, match=r"failed on device xpu:1.*f32\[9\]"):
        client.get(out)
    client.destroy(good, bad, out)
    # The next launch is as if nothing had been.
    outs = [launch(client, loaded, n, n + 1) for n in range(2)]
    for out in outs:
        check(client, out, 3)
    client.destroy_executable(loaded)


@pytest.mark.parametrize("why", ["deleted", "callbacks", "no lists"])
def test_a_call_that_is_refused_fails_the_others(api: Api, why: str) -> None:
    """Also one that is refused for another reason than its arguments: nobody waits until the time is up."""
    client = Client(api, python=sys.executable, num_devices=2, collective_timeout=60)
    loaded, other = (client.compile(SUM, options=compile_options([[0], [1]])) for _ in range(2))
    out = launch(client, loaded, 0, 1.0)
    x = client.buffer(np.ones(8, np.float32), device=client.devices[1])
    inputs, outputs = pointer_array([x]), pointer_array([None])
    call: dict[str, Any] = {"executable": other, "execute_device": client.devices[1]}
    call |= {"num_devices": 1, "num_args": 1}
    if why != "no lists":
        call["argument_lists"] = pointer_array([ctypes.addressof(inputs)])
        call["output_lists"] = pointer_array([ctypes.addressof(outputs)])
    if why == "deleted":
        api.call("PJRT_LoadedExecutable_Delete", executable=other)
    if why == "callbacks":
        call["options"] = api.make("PJRT_ExecuteOptions", num_send_ops=1)
    text = {"deleted": "was deleted", "callbacks": "send and recv", "no lists": "is null"}[why]
    with pytest.raises(PjrtError, match=text):
        api.call("PJRT_LoadedExecutable_Execute", **call)
    with pytest.raises(PjrtError, match=f"failed on device xpu:1.*{text}"):
        client.get(out)
    client.destroy(x, out)
    # The next launch is as if nothing had been.
    outs = [launch(client, loaded, n, n + 1) for n in range(2)]
    for out in outs:
        check(client, out, 3)
    client.destroy_executable(loaded)
    client.destroy_executable(other)
    client.close()


def test_a_failed_input_fails_all(api: Api, client: Client) -> None:
    """What a device gets from something that failed reaches the others as the same error."""
    loaded = client.compile(SUM, options=compile_options([[0], [1]]))
    failed = api.call(
        "PJRT_Client_CreateErrorBuffer",
        client=client.handle,
        error_code=api.header.enums["PJRT_Error_Code"]["PJRT_Error_Code_DATA_LOSS"],
        error_message=b"the disk is gone",
        error_message_size=16,
        shape_dims=int64_array([8]),
        shape_num_dims=1,
        shape_element_type=client.type_of(np.float32),
        memory=client.default_memory(client.devices[0]),
    ).buffer
    good = client.buffer(np.ones(8, np.float32), device=client.devices[1])
    outputs = client.execute(loaded, [failed], [good])
    for (out,) in outputs:
        with pytest.raises(PjrtError, match="the disk is gone") as error:
            client.get(out)
        assert error.value.code == "DATA_LOSS"
        client.destroy(out)
    client.destroy(failed, good)
    client.destroy_executable(loaded)


def test_a_device_that_never_comes(api: Api) -> None:
    client = Client(api, python=sys.executable, cache=False, num_devices=2, collective_timeout=1)
    code = SUM.replace(b"@exchange", b"@never")  # a program of its own: others wait longer
    loaded = client.compile(code, options=compile_options([[0], [1]]))
    start = time.monotonic()
    out = launch(client, loaded, 0, 1.0)
    with pytest.raises(PjrtError, match=r"all-reduce.*never.*xpu:1.*xpu:0 is there") as error:
        client.get(out)
    assert error.value.code == "DEADLINE_EXCEEDED"
    assert "TRIPONT_COLLECTIVE_TIMEOUT" in str(error.value)
    assert time.monotonic() - start >= 1
    # Who comes too late is told so, at once.
    late = launch(client, loaded, 1, 1.0)
    with pytest.raises(PjrtError, match="xpu:1"):
        client.get(late)
    client.destroy(out, late)
    outs = [launch(client, loaded, n, n + 1) for n in range(2)]
    for out in outs:
        check(client, out, 3)
    client.destroy_executable(loaded)
    client.close()
