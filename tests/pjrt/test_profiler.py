"""The Profiler extension: its functions, and the XSpace that they give."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from . import protos, xspace
from .c_api import Api, PjrtError
from .host import Client

KIND = 1  # PJRT_Extension_Type_Profiler
PROGRAM = b"""
module @two_steps {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.tanh %x : tensor<64x64xf32>
    %z = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %z : tensor<64xf32>
  }
}"""
X = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)


class Table(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p)
        for name in (
            "priv",
            "error_destroy",
            "error_message",
            "error_get_code",
            "create",
            "destroy",
            "start",
            "stop",
            "collect_data",
        )
    ]


class ErrorArguments(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("priv", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("message", ctypes.c_void_p),  # or the code
        ("message_size", ctypes.c_size_t),
    ]


class CreateArguments(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("options", ctypes.c_char_p),
        ("options_size", ctypes.c_size_t),
        ("profiler", ctypes.c_void_p),
    ]


class Arguments(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("profiler", ctypes.c_void_p),
        ("buffer", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    ]


class Profilers:
    """The extension's functions. struct_size is left as XLA's client leaves it: not set."""

    def __init__(self, api: Api) -> None:
        address = api.table.extension_start
        while address:
            # struct_size, type, next, profiler_api
            number, kind, following, table = (ctypes.c_size_t * 4).from_address(address)
            if kind & 0xFFFFFFFF == KIND:
                assert number == 40
                self.table = Table.from_address(table)
                assert self.table.struct_size == ctypes.sizeof(Table)
                self.codes = api.codes
                return
            address = following
        pytest.fail("the plugin has no Profiler extension")

    def call(self, function: str, args: ctypes.Structure | None) -> None:
        prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        address = None if args is None else ctypes.addressof(args)
        error = prototype(getattr(self.table, function))(address)
        if error is None:
            return
        about = ErrorArguments(error=error)
        prototype(self.table.error_get_code)(ctypes.addressof(about))
        code = self.codes[ctypes.c_int.from_buffer(about, ErrorArguments.message.offset).value]
        void = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        void(self.table.error_message)(ctypes.addressof(about))
        message = ctypes.string_at(about.message, about.message_size).decode()
        void(self.table.error_destroy)(ctypes.addressof(about))
        raise PjrtError(function, code, message)

    def create(self, options: bytes = b"") -> int:
        args = CreateArguments(options=options, options_size=len(options))
        self.call("create", args)
        return int(args.profiler)

    def do(self, function: str, profiler: int | None) -> None:
        self.call(function, Arguments(profiler=profiler))

    def collect(self, profiler: int) -> bytes:
        """The data, asked for in both ways that are in use."""
        args = Arguments(profiler=profiler)
        self.call("collect_data", args)
        data = ctypes.string_at(args.buffer, args.size)
        mine = ctypes.create_string_buffer(args.size + 1)
        mine[args.size] = b"!"
        args.buffer = ctypes.addressof(mine)
        self.call("collect_data", args)
        assert mine.raw == data + b"!"
        return data


@pytest.fixture(scope="module")
def profilers(api: Api) -> Profilers:
    return Profilers(api)


@pytest.fixture
def profiler(profilers: Profilers) -> Iterator[int]:
    profiler = profilers.create()
    yield profiler
    profilers.do("destroy", profiler)


@pytest.fixture(scope="module")
def program(client: Client) -> Iterator[int]:
    program = client.compile(PROGRAM)
    yield program
    client.destroy_executable(program)


def run(client: Client, program: int) -> None:
    x = client.buffer(X)
    ((z,),) = client.execute(program, [x])
    np.testing.assert_allclose(client.get(z), np.tanh(X).sum(0), rtol=1e-4, atol=1e-5)
    client.destroy(x, z)


def profile(
    profilers: Profilers, profiler: int, client: Client, program: int
) -> dict[str, xspace.Plane]:
    profilers.do("start", profiler)
    run(client, program)
    profilers.do("stop", profiler)
    return xspace.read(profilers.collect(profiler))


def test_the_device_has_its_programs_and_instructions(
    client: Client, profilers: Profilers, profiler: int, program: int
) -> None:
    before = time.time_ns()
    planes = profile(profilers, profiler, client, program)
    after = time.time_ns()
    plane = planes["/device:CUSTOM:XPU:0"]
    (execution,) = plane.lines["XLA Modules"]
    assert execution.name == "two_steps"
    ops = plane.lines["XLA Ops"]
    assert ops
    for op in ops:
        assert op.stats["hlo_module"] == "two_steps"
        assert op.stats["hlo_category"]
        assert execution.start <= op.start
        assert op.start + op.duration <= execution.start + execution.duration
    # The clock of profiles may have been set a little since the process began: a second is generous.
    assert before - 1e9 <= execution.start <= after + 1e9
    (reduce,) = [o for o in ops if "64,64" in o.stats.get("long_name", "")]
    assert reduce.stats["hlo_category"] in ("reduce fusion", "row fusion")
    assert reduce.stats["hlo_op"] == reduce.name
    assert reduce.stats["long_name"].startswith(f"%{reduce.name} = f32[64] fusion(")
    assert reduce.stats["flops"] >= 64 * 63
    assert reduce.stats["bytes_accessed"] == (64 * 64 + 64) * 4


def test_the_program_comes_along(
    client: Client, profilers: Profilers, profiler: int, program: int
) -> None:
    planes = profile(profilers, profiler, client, program)
    (execution,) = planes["/device:CUSTOM:XPU:0"].lines["XLA Modules"]
    number = execution.stats["program_id"]
    hlo = planes["/host:metadata"].kinds[f"two_steps({number})"]["Hlo Proto"]
    (module,) = [value for field, value in protos.fields(hlo) if field == 1]
    assert b"two_steps" in module  # type: ignore[operator]


def test_transfers_and_compiles_are_on_their_threads(
    client: Client, profilers: Profilers, profiler: int, program: int
) -> None:
    profilers.do("start", profiler)
    run(client, program)
    client.destroy_executable(client.compile(PROGRAM))
    profilers.do("stop", profiler)
    planes = xspace.read(profilers.collect(profiler))
    events = {e.name: e for line in planes["/host:CPU"].lines.values() for e in line}
    assert events["Tripont::HostToDevice"].stats["bytes_transferred"] == X.nbytes
    assert events["Tripont::DeviceToHost"].stats["bytes_transferred"] == 64 * 4
    assert events["Tripont::Compile"].stats["hlo_module"] == "two_steps"


def test_only_what_the_options_ask_for(client: Client, profilers: Profilers, program: int) -> None:
    host, device, programs = 2, 3, 7
    expected = {
        host: {"/host:CPU"},
        device: {"/device:CUSTOM:XPU:0"},
        programs: set(),
    }
    for wanted, planes in expected.items():
        options = b"".join(protos.number(f, int(f == wanted)) for f in expected)
        profiler = profilers.create(options + protos.message(10, b"repository"))
        assert set(profile(profilers, profiler, client, program)) == planes
        profilers.do("destroy", profiler)


def test_a_profiler_starts_again_and_forgets(
    client: Client, profilers: Profilers, profiler: int, program: int
) -> None:
    profile(profilers, profiler, client, program)
    profilers.do("start", profiler)
    profilers.do("stop", profiler)
    assert profilers.collect(profiler) == b""
    planes = profile(profilers, profiler, client, program)
    assert len(planes["/device:CUSTOM:XPU:0"].lines["XLA Modules"]) == 1


def test_calls_out_of_order(profilers: Profilers, profiler: int) -> None:
    def refused(function: str, message: str, of: int = profiler) -> None:
        with pytest.raises(PjrtError, match=message) as error:
            profilers.do(function, of)
        assert error.value.code == "FAILED_PRECONDITION"

    refused("stop", "not started")
    refused("collect_data", "never started")
    profilers.do("start", profiler)
    refused("start", "started already")
    refused("collect_data", "stop it before")
    other = profilers.create()
    refused("start", "only one at a time", other)
    refused("stop", "not started", other)
    profilers.do("destroy", other)
    profilers.do("stop", profiler)
    refused("stop", "not started")


def test_destroying_a_started_profiler_stops_it(profilers: Profilers, profiler: int) -> None:
    started = profilers.create()
    profilers.do("start", started)
    profilers.do("destroy", started)
    profilers.do("start", profiler)


def test_bad_arguments(profilers: Profilers) -> None:
    with pytest.raises(PjrtError, match="ProfileOptions"):
        profilers.create(b"\xff\xff")
    for function in ("start", "stop", "collect_data"):
        with pytest.raises(PjrtError, match="`profiler` is null"):
            profilers.do(function, None)
        with pytest.raises(PjrtError, match="no arguments"):
            profilers.call(function, None)
    profilers.do("destroy", None)


def test_profiles_while_programs_run(
    client: Client, profilers: Profilers, profiler: int, program: int
) -> None:
    """Executions that run when a profile starts or stops are in it or not, and harm nothing."""
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            run(client, program)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(20):
            profilers.do("start", profiler)
            run(client, program)
            profilers.do("stop", profiler)
            device = xspace.read(profilers.collect(profiler))["/device:CUSTOM:XPU:0"]
            assert {e.name for e in device.lines["XLA Modules"]} == {"two_steps"}
    finally:
        stopped.set()
        worker.join()


def test_devices_have_planes_of_their_own(
    client4: Client, profilers: Profilers, profiler: int
) -> None:
    programs: list[Any] = []
    profilers.do("start", profiler)
    for device in (0, 2):
        options = protos.compile_options([[device]])
        programs.append(client4.compile(PROGRAM, options=options))
        x = client4.put(X, device=client4.devices[device]).buffer
        ((z,),) = client4.execute(programs[-1], [x])
        client4.get(z)
        client4.destroy(x, z)
    profilers.do("stop", profiler)
    planes = xspace.read(profilers.collect(profiler))
    assert {n for n in planes if n.startswith("/device")} == {
        "/device:CUSTOM:XPU:0",
        "/device:CUSTOM:XPU:2",
    }
    for loaded in programs:
        client4.destroy_executable(loaded)
