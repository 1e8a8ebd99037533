"""What bad input gets: an error that the user understands, or it just works. Never an abort, a hang or a wrong number."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.starter import run_with_jax

PREAMBLE = """
import os, signal, subprocess, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
xpu = jax.devices("xpu")[0]

def workers():
    "The compile workers that this process started."
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = open(f"/proc/{pid}/cmdline").read()
            parent = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if "tripont.core.compiler import worker" in command and parent == os.getpid():
            found.append(int(pid))
    return found

def large(x, layers=800):  # takes seconds to compile
    for i in range(layers):
        x = jnp.sin(x) @ x + i
    return x

def works():
    assert jax.jit(lambda x: x + 1)(np.ones(3, np.float32)).tolist() == [2, 2, 2]
"""


def run_python(
    code: str, environment: dict[str, str], timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    if not options:
        return run_with_jax(PREAMBLE + code, environment, timeout)
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


@pytest.fixture(scope="module")
def client() -> Any:
    """The runtime itself: JAX parses program bytes in its own process before a plugin sees them."""
    from tripont.core import _tripont

    return _tripont.Client({"python": sys.executable})


def portable_program() -> bytes:
    from jaxlib.mlir.dialects import stablehlo

    lowered = jax.jit(lambda x: jnp.tanh(x) @ x).lower(np.ones((4, 4), np.float32))
    module = lowered.compiler_ir("stablehlo")
    with module.context:
        return bytes(stablehlo.serialize_portable_artifact(module, stablehlo.get_minimum_version()))


GARBAGE = {
    "empty": b"",
    "nul": b"\0",
    "text": b"garbage",
    "magic-only": b"ML\xefR",
    "magic-and-noise": b"ML\xefR" + bytes(range(256)),
    "open-brace": b"module {",
    "ones": b"\xff" * 1000,
}


@pytest.mark.parametrize("form", ["mlir", "hlo"])
@pytest.mark.parametrize("program", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_programs(client: Any, program: bytes, form: str) -> None:
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT"):
        client.compile(program, form)


def test_unknown_format(client: Any) -> None:
    with pytest.raises(Exception, match=r"(INVALID_ARGUMENT|UNIMPLEMENTED).*fortran"):
        client.compile(b"module {}", "fortran")


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.6, 0.9, 0.99])
def test_truncated_programs(client: Any, fraction: float) -> None:
    program = portable_program()
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT"):
        client.compile(program[: int(len(program) * fraction)])


@pytest.mark.slow  # one of these programs takes the reader to its time limit
def test_flipped_bytes(client: Any, xpu: Any) -> None:
    """A damaged program is refused, or happens to be another valid program; the process and the device live on."""
    program = portable_program()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(15):
        damaged = bytearray(program)
        for position in rng.integers(4, len(damaged), 8):
            damaged[position] ^= 1 << int(rng.integers(8))
        try:
            client.compile(bytes(damaged))
        except Exception:
            refused += 1
    assert refused > 0
    assert float(jax.jit(lambda x: x + 1)(jax.device_put(np.float32(1), xpu))) == 2


def test_unknown_custom_call(xpu: Any) -> None:
    """Names the target, the shape and the place in the user's program."""
    call = jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((3,), np.float32))
    with jax.default_device(xpu), pytest.raises(Exception, match="no_such_target") as caught:
        jax.jit(lambda x: call(x))(np.ones(3, np.float32))
    assert "NOT_FOUND" in str(caught.value)
    assert "[3]" in str(caught.value)


def test_wrong_number_of_arguments(xpu: Any) -> None:
    with jax.default_device(xpu):
        compiled = jax.jit(lambda x, y: x + y).lower(np.ones(3), np.ones(3)).compile()
    executable = compiled.runtime_executable()
    x = jax.device_put(np.ones(3, np.float32), xpu)
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT|argument"):
        executable.execute_sharded([x])
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT|argument"):
        executable.execute_sharded([x, x, x])


def test_wrong_shape_of_an_argument(xpu: Any) -> None:
    """JAX checks this itself; here it is handed past JAX's check."""
    with jax.default_device(xpu):
        compiled = jax.jit(lambda x: x + 1).lower(np.ones(3, np.float32)).compile()
    wrong = jax.device_put(np.ones(2, np.float32), xpu)
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT|argument|shape|size"):
        compiled.runtime_executable().execute_sharded([wrong])


def test_array_larger_than_memory(xpu: Any) -> None:
    with jax.default_device(xpu), pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        jax.jit(lambda: jnp.zeros((1 << 24, 1 << 24), jnp.float32))().block_until_ready()


@pytest.mark.parametrize(
    "dims", ["2147483648x1073741824", "2147483648x2147483648x64", "9223372036854775807"]
)
def test_shape_that_overflows(client: Any, dims: str) -> None:
    """More bytes than 64 bits can count. (JAX itself aborts on such shapes, on every device.)"""
    program = f"""
        func.func @main(%x: tensor<f32>) -> tensor<{dims}xf32> {{
          %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<{dims}xf32>
          return %0 : tensor<{dims}xf32>
        }}"""
    with pytest.raises(Exception, match=r"RESOURCE_EXHAUSTED|INVALID_ARGUMENT"):
        client.compile(program.encode())


def test_killed_worker_while_compiling(subprocess_environment: dict[str, str]) -> None:
    """The compile in progress fails with an error; the next one works."""
    result = run_python(
        """
works()
def busy(pid):  # hundredths of a second that it has computed
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
idle = {pid: busy(pid) for pid in workers()}
def kill():
    while not any(busy(pid) > before + 10 for pid, before in idle.items()):
        time.sleep(0.002)
    for pid in idle:
        os.kill(pid, signal.SIGKILL)
threading.Thread(target=kill).start()
lowered = jax.jit(large).lower(np.ones((4, 4), np.float32))
try:
    lowered.compile()
except Exception as error:
    print("failed:", str(error).splitlines()[0])
else:
    print("compiled before it was killed")
print("next:", jax.jit(lambda x: x * 3)(np.ones(2, np.float32)).tolist())
""",
        subprocess_environment | {"TRIPONT_CACHE": "0"},
    )
    assert result.returncode == 0, result.stderr
    assert "failed:" in result.stdout, result.stdout
    assert "worker" in result.stdout
    assert "next: [3.0, 3.0]" in result.stdout


def test_killed_worker_while_idle(subprocess_environment: dict[str, str]) -> None:
    result = run_python(
        """
works()
for pid in workers():
    os.kill(pid, signal.SIGKILL)
print("next:", jax.jit(lambda x: x * 3)(np.ones(2, np.float32)).tolist())
""",
        subprocess_environment | {"TRIPONT_CACHE": "0"},
    )
    assert result.returncode == 0, result.stderr
    assert "next: [3.0, 3.0]" in result.stdout


def test_a_python_that_does_not_exist(subprocess_environment: dict[str, str]) -> None:
    """The worker cannot start: each compile says so."""
    result = run_python(
        """
try:
    works()
except Exception as error:
    print("failed:", str(error).splitlines()[0])
""",
        subprocess_environment | {"TRIPONT_PYTHON": "/no/such/python"},
    )
    assert "failed:" in result.stdout, result.stderr
    assert "/no/such/python" in result.stdout


def test_cache_folder_that_cannot_be_made(
    subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    environment = subprocess_environment | {"TRIPONT_CACHE_DIR": str(tmp_path / "file" / "cache")}
    result = run_python("works(); works(); print('fine')", environment)
    assert result.stdout.strip() == "fine", result.stderr


def test_read_only_cache_folder(subprocess_environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    folder.chmod(0o500)
    result = run_python(
        "works(); print('fine')", subprocess_environment | {"TRIPONT_CACHE_DIR": str(folder)}
    )
    folder.chmod(0o700)
    assert result.stdout.strip() == "fine", result.stderr


def test_full_disk(subprocess_environment: dict[str, str]) -> None:
    """Nothing can be written to any file: compiled programs still run."""

    def no_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    environment = subprocess_environment | {"PYTHONDONTWRITEBYTECODE": "1"}
    result = run_python("works(); print('fine')", environment, preexec_fn=no_files)
    assert result.stdout.strip() == "fine", result.stderr


def cache_entries(environment: dict[str, str]) -> list[Path]:
    folder = Path(environment["TRIPONT_CACHE_DIR"])
    return [f for f in folder.rglob("*") if f.is_file() and f.stat().st_size > 1000]


def test_the_cache_serves_a_second_process(subprocess_environment: dict[str, str]) -> None:
    """The second process has no working compiler at all, and needs none."""
    first = run_python("works(); print('fine')", subprocess_environment)
    assert first.stdout.strip() == "fine", first.stderr
    assert cache_entries(subprocess_environment)
    second = run_python(
        "works(); print('fine')", subprocess_environment | {"TRIPONT_PYTHON": "/no/such/python"}
    )
    assert second.stdout.strip() == "fine", second.stderr


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "noise"])
def test_corrupted_cache_entries(subprocess_environment: dict[str, str], damage: str) -> None:
    """They are compiled again, the log says so, and the entries are good afterwards."""
    run_python("works()", subprocess_environment).check_returncode()
    entries = cache_entries(subprocess_environment)
    assert entries
    for entry in entries:
        data = bytearray(entry.read_bytes())
        if damage == "truncate":
            data = data[: len(data) // 2]
        elif damage == "flip":
            data[len(data) // 2] ^= 0xFF
        elif damage == "empty":
            data = bytearray()
        else:
            data = bytearray(os.urandom(len(data)))
        entry.write_bytes(data)
    result = run_python("works(); print('fine')", subprocess_environment)
    assert result.stdout.strip() == "fine", result.stderr
    assert "cache" in result.stderr, "the log says that an entry was unusable"
    again = run_python(
        "works(); print('fine')", subprocess_environment | {"TRIPONT_PYTHON": "/no/such/python"}
    )
    assert again.stdout.strip() == "fine", again.stderr


def test_several_processes_share_the_cache(subprocess_environment: dict[str, str]) -> None:
    code = (
        PREAMBLE
        + "\nfor i in range(5):\n    jax.jit(lambda x: x * i)(np.ones(3))\nworks(); print('fine')"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=subprocess_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert output.strip() == "fine", errors


def test_fork(subprocess_environment: dict[str, str]) -> None:
    """A child that does something else is undisturbed, and so is its parent; one that computes gets an error or a result.

    The child compiles with the runtime itself: compiling through JAX in a child hangs with JAX's own CPU backend too,
    because JAX's compile threads do not exist there.
    """
    result = run_python(
        """
import warnings
warnings.simplefilter("ignore")
works()
def child(body):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            body()
            os._exit(0)
        except BaseException as error:
            os.write(1, f"child: {type(error).__name__}: {error}\\n".encode())
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print("idle child:", child(lambda: None))
compiled = jax.jit(lambda x: x * 2)
x = jax.device_put(np.ones(3, np.float32), xpu)
compiled(x)
print("running child:", child(lambda: compiled(x).block_until_ready()))
from tripont.core import _tripont
client = _tripont.Client({"python": sys.executable})
program = b"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
print("compiling child:", child(lambda: client.compile(program)))
works()
print("parent:", jax.jit(lambda x: x * 7)(x).tolist())
""",
        subprocess_environment | {"TRIPONT_CACHE": "0"},
    )
    assert result.returncode == 0, result.stderr
    assert "idle child: 0" in result.stdout
    for kind in ("running", "compiling"):
        assert f"{kind} child: 0" in result.stdout or f"{kind} child: 7" in result.stdout, (
            result.stdout
        )
    assert "parent: [7.0, 7.0, 7.0]" in result.stdout


@pytest.mark.parametrize(
    "ending",
    [
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "sys.exit(0)",
    ],
)
def test_exit_in_the_middle_of_a_compile(
    subprocess_environment: dict[str, str], ending: str
) -> None:
    """The process ends, and its workers with it.

    Not tested: sys.exit while a daemon thread compiles, which aborts in JAX itself (with its own CPU backend too).
    """
    layers = 200 if ending == "sys.exit(0)" else 800  # Python waits for the thread to compile them
    result = run_python(
        f"""
works()
print(*workers(), flush=True)
lowered = jax.jit(large, static_argnums=1).lower(np.ones((4, 4), np.float32), {layers})
threading.Thread(target=lowered.compile).start()
time.sleep(0.3)
{ending}
""",
        subprocess_environment | {"TRIPONT_CACHE": "0"},
        timeout=60,
    )
    assert result.returncode in (0, -signal.SIGTERM, -signal.SIGKILL), result.stderr
    pids = [int(pid) for pid in result.stdout.split()]
    assert pids
    deadline = time.monotonic() + 100
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [
        pid
        for pid in pids
        if Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text()
    ]
    assert not left, f"workers {left} outlived the process"
