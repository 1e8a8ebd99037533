"""PJRT_Client_Compile with the real compile worker: program formats, options, and programs that are none."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from .c_api import Api, PjrtError
from .host import Client
from .protos import compile_options, message, number

ADD_ONE = b"""
module @add_one {
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %sum = stablehlo.add %arg0, %one : tensor<8xf32>
    return %sum : tensor<8xf32>
  }
}
"""
DONATED = ADD_ONE.replace(
    b"%arg0: tensor<8xf32>)", b"%arg0: tensor<8xf32> {tf.aliasing_output = 0 : i32})"
)
X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def compiler(api: Api) -> Iterator[Client]:
    """A client that can compile, of two devices and without the on-disk cache."""
    client = Client(api, python=sys.executable, cache=False, num_devices=2)
    yield client
    client.close()


def check_add_one(client: Client, loaded: int, device: int | None = None) -> None:
    x = client.buffer(X, device=device or client.devices[0])
    [[out]] = client.execute(loaded, [x], device=device)
    np.testing.assert_array_equal(client.get(out), X + 1)
    client.destroy(x, out)
    client.destroy_executable(loaded)


def test_stablehlo_text(compiler: Client) -> None:
    check_add_one(compiler, compiler.compile(ADD_ONE))


def portable_artifact() -> bytes:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context():
        module = ir.Module.parse(ADD_ONE)
        return bytes(stablehlo.serialize_portable_artifact(module, "1.9.0"))


def test_portable_artifact(compiler: Client) -> None:
    check_add_one(compiler, compiler.compile(portable_artifact()))


def hlo_proto() -> bytes:
    import jax

    lowered = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((8,), np.float32))
    return bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def test_hlo(compiler: Client) -> None:
    """HloModuleProto, without a device assignment: what TensorFlow sends."""
    loaded = compiler.compile(hlo_proto(), "hlo", compile_options(portable=True))
    check_add_one(compiler, loaded, compiler.devices[1])


def test_assigned_device(api: Api, compiler: Client) -> None:
    loaded = compiler.compile(ADD_ONE, options=compile_options([[1]]))
    x = compiler.buffer(X, device=compiler.devices[1])
    [[out]] = compiler.execute(loaded, [x])
    assert api.call("PJRT_Buffer_Device", buffer=out).device == compiler.devices[1]
    compiler.destroy(x, out)
    compiler.destroy_executable(loaded)


def test_donation(compiler: Client) -> None:
    loaded = compiler.compile(DONATED)
    x = compiler.buffer(X)
    [[out]] = compiler.execute(loaded, [x])
    assert compiler.is_deleted(x)
    np.testing.assert_array_equal(compiler.get(out), X + 1)
    compiler.destroy(x, out)
    compiler.destroy_executable(loaded)


def test_the_optimised_program_is_a_module(api: Api, compiler: Client) -> None:
    """XLA's own reader takes it: jaxlib parses the module out of the HloModuleProtoWithConfig."""
    from jaxlib import _jax

    from .protos import fields
    from .test_executable import optimized_program

    loaded = compiler.compile(ADD_ONE)
    executable = compiler.executable(loaded)
    format_, code = optimized_program(api, executable)
    assert format_ == "hlo_with_config"
    module = dict(fields(code))[1]
    assert isinstance(module, bytes)
    assert "add" in _jax.mlir.hlo_to_stablehlo(module).decode(errors="replace")
    api.call("PJRT_Executable_Destroy", executable=executable)
    compiler.destroy_executable(loaded)


def test_compile_for_a_topology(api: Api, compiler: Client) -> None:
    """Ahead of time: an executable that is serialized and loaded by a client later."""
    topology = api.call("PJRT_TopologyDescription_Create").topology
    program = api.make(
        "PJRT_Program", code=ADD_ONE, code_size=len(ADD_ONE), format=b"mlir", format_size=4
    )
    executable = api.call(
        "PJRT_Compile", topology=topology, program=program, client=compiler.handle
    ).executable
    args = api.call("PJRT_Executable_Serialize", executable=executable)
    check_add_one(compiler, compiler.load(bytes(args.blob("serialized_bytes"))))
    api.call("PJRT_Executable_Destroy", executable=executable)
    api.call("PJRT_TopologyDescription_Destroy", topology=topology)


# ----------------------------------------------------------------------------------------------- what is no program


def _programs_that_are_none() -> dict[str, tuple[bytes, str]]:
    bytecode = b"ML\xefR\x01" + bytes(range(200))
    return {
        "nothing parses": (b"this is not a program", "mlir"),
        "binary garbage": (bytes(range(256)) * 10, "mlir"),
        "bytecode garbage": (bytecode, "mlir"),
        "truncated text": (ADD_ONE[: len(ADD_ONE) // 2], "mlir"),
        "type error": (
            ADD_ONE.replace(b"%sum : tensor<8xf32>\n", b"%sum : tensor<9xf32>\n"),
            "mlir",
        ),
        "unknown op": (ADD_ONE.replace(b"stablehlo.add", b"stablehlo.frobnicate"), "mlir"),
        "hlo garbage": (b"\xff\xfe" * 100, "hlo"),
        "hlo of other bytes": (ADD_ONE, "hlo"),
    }


@pytest.mark.parametrize("name", sorted(_programs_that_are_none()))
def test_garbage(compiler: Client, name: str) -> None:
    code, format_ = _programs_that_are_none()[name]
    with pytest.raises(PjrtError) as error:
        compiler.destroy_executable(compiler.compile(code, format_))
    assert error.value.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED")
    assert len(error.value.message) > 10
    check_add_one(compiler, compiler.compile(ADD_ONE))  # the worker lives


def test_truncated_programs(compiler: Client) -> None:
    whole = {"mlir": portable_artifact(), "hlo": hlo_proto()}
    for format_, code in whole.items():
        for size in range(1, len(code), max(1, len(code) // 12)):
            try:
                loaded = compiler.compile(code[:size], format_)
            except PjrtError as error:
                refused = error.code
            else:  # protobuf cannot tell that trailing fields are missing
                refused = "loaded"
                compiler.destroy_executable(loaded)
            assert refused in ("INVALID_ARGUMENT", "UNIMPLEMENTED") or format_ == "hlo", size
    check_add_one(compiler, compiler.compile(ADD_ONE))


def test_wrong_calls(api: Api, compiler: Client) -> None:
    for code, format_, text in (
        (ADD_ONE, "onnx", "'onnx'"),
        (ADD_ONE, "", "''"),
        (b"", "mlir", "empty"),
    ):
        with pytest.raises(PjrtError, match=text) as error:
            compiler.compile(code, format_)
        assert error.value.code == "INVALID_ARGUMENT"
    with pytest.raises(PjrtError, match="program"):
        api.call("PJRT_Client_Compile", client=compiler.handle)
    with pytest.raises(PjrtError, match="compile options"):
        compiler.compile(ADD_ONE, options=b"\xff\xff\xff")


@pytest.mark.parametrize("devices", [[[0], [1]], [[0, 1]]], ids=["replicas", "partitions"])
def test_several_devices_without_collectives(
    api: Api, compiler: Client, devices: list[list[int]]
) -> None:
    loaded = compiler.compile(ADD_ONE, options=compile_options(devices))
    xs = [compiler.buffer(X, device=d) for d in compiler.devices]
    outs = compiler.execute(loaded, *[[x] for x in xs], events=True)
    for [out] in outs:
        np.testing.assert_array_equal(compiler.get(out), X + 1)
        compiler.destroy(out)
    compiler.destroy(*xs)
    compiler.destroy_executable(loaded)


# ---------------------------------------------------------------------------------------------------- the worker


def test_no_interpreter(api: Api) -> None:
    client = Client(api, python="/no/such/python", cache=False)
    with pytest.raises(PjrtError, match="/no/such/python") as error:
        client.compile(ADD_ONE)
    assert error.value.code in ("UNAVAILABLE", "NOT_FOUND")
    client.close()


def _workers() -> list[int]:
    """Compile workers that are children of this process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            status = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if (
            int(status.rpartition(")")[2].split()[1]) == os.getpid()
            and b"compiler import worker" in command
        ):
            found.append(int(entry.name))
    return found


def test_a_killed_worker(compiler: Client) -> None:
    """The compile that it was doing, or the next one, fails with an error or works; the one after works."""
    check_add_one(compiler, compiler.compile(ADD_ONE))
    for pid in _workers():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    try:
        loaded = compiler.compile(ADD_ONE)
    except PjrtError as error:
        died = error.code
    else:
        died = "nothing noticed"
        compiler.destroy_executable(loaded)
    assert died in ("INTERNAL", "UNAVAILABLE", "nothing noticed")
    check_add_one(compiler, compiler.compile(ADD_ONE))


# A portable artifact with flipped bits: a dictionary attribute that holds itself twice, so that MLIR's reader would
# take until the end of the world.
ENDLESS = Path(__file__).with_name("endless_to_read.mlirbc")


def test_a_program_that_takes_for_ever_to_read(compiler: Client) -> None:
    with pytest.raises(PjrtError, match="worker") as error:
        compiler.compile(ENDLESS.read_bytes())
    assert error.value.code == "INTERNAL"
    check_add_one(compiler, compiler.compile(ADD_ONE))


def test_compiles_from_several_threads(compiler: Client) -> None:
    errors: list[Exception] = []

    def work(seed: int) -> None:
        try:
            code = ADD_ONE.replace(b"dense<1.0>", f"dense<{seed}.0>".encode())
            loaded = compiler.compile(code)
            x = compiler.buffer(X)
            [[out]] = compiler.execute(loaded, [x])
            np.testing.assert_array_equal(compiler.get(out), X + seed)
            compiler.destroy(x, out)
            compiler.destroy_executable(loaded)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# ----------------------------------------------------------------------------------------------------- the cache


def test_the_cache_ignores_devices_and_flags_of_xla(api: Api, tmp_path: Path) -> None:
    """The program for another device, or with other debug options, needs no second compile."""
    client = Client(api, python=sys.executable, cache_dir=str(tmp_path), num_devices=2)

    def entries() -> int:
        return sum(1 for path in tmp_path.rglob("*") if path.is_file())

    client.destroy_executable(client.compile(ADD_ONE, options=compile_options([[0]])))
    first = entries()
    assert first >= 1
    flags = message(3, message(3, number(109 + 200, 1)) + number(4, 1) + number(5, 1))
    for options in (compile_options([[1]]), compile_options(portable=True), b"", flags):
        client.destroy_executable(client.compile(ADD_ONE, options=options))
        assert entries() == first
    client.destroy_executable(client.compile(DONATED))
    assert entries() > first
    client.close()
