"""What goes wrong with SYCL devices, and what is said about it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tripont.core import _tripont

from .processes import output, run

ERROR = """
from tripont.core import _tripont
try:
    _tripont.Client({})
except _tripont.StatusError as error:
    print(error)
"""

# A program of one kernel, compiled for a device, and its bytes.
COMPILE = """
from tripont.core import _tripont
from tripont.core.compiler import compile
from tripont.core.compiler.formats import artifact
client = _tripont.Client({"prestart_worker": False, "cache": False})
type = b"tensor<4xf32>"
body = b"%0 = stablehlo.negate %a : TYPE\\nreturn %0 : TYPE"
text = (b"func.func @main(%a: TYPE) -> TYPE {\\n" + body + b"\\n}").replace(b"TYPE", type)
def compiled(options):
    return compile.compile_program(text, "mlir", b"", options)
"""


@pytest.mark.parametrize("device", ["sycl:tpu", "cuda"])
def test_unknown_device(device: str) -> None:
    assert "expected host, sycl, sycl:cpu or sycl:gpu" in output(ERROR, TRIPONT_DEVICE=device)


CPU, GPU, SECOND_GPU, GPU_AGAIN = (
    ("opencl", "cpu"),
    ("level_zero", "gpu"),
    ("level_zero", "gpu"),
    ("opencl", "gpu"),
)


def choose(choice: str, devices: list[tuple[str, str]]) -> list[int]:
    """The numbers of the devices, (backend, kind) each, that TRIPONT_DEVICE=sycl:choice means."""
    facts = [
        (f"device {n}", {"name": f"device {n}", "backend": backend, "kind": kind})
        for n, (backend, kind) in enumerate(devices)
    ]
    return list(_tripont.choose_devices("sycl", choice, facts))


@pytest.mark.parametrize(
    ("choice", "devices", "chosen"),
    [
        ("", [CPU], [0]),
        ("", [CPU, GPU], [1]),
        ("", [GPU_AGAIN, CPU, GPU], [0]),
        ("gpu", [CPU, GPU, SECOND_GPU, GPU_AGAIN], [1, 2]),
        ("cpu", [GPU, CPU], [1]),
        ("", [("opencl", "accelerator"), CPU], [1]),
    ],
)
def test_the_devices_that_a_choice_means(
    choice: str, devices: list[tuple[str, str]], chosen: list[int]
) -> None:
    """GPUs before CPUs; devices of one backend, because the same GPU may be there through two."""
    assert choose(choice, devices) == chosen


@pytest.mark.parametrize(
    ("choice", "devices", "message"),
    [
        (
            "gpu",
            [CPU],
            "=sycl:gpu: there is no SYCL gpu; the SYCL runtime has device 0 (opencl:cpu)",
        ),
        ("", [("opencl", "accelerator")], "=sycl: there is no SYCL cpu"),
        ("", [], "the SYCL runtime has no device"),
    ],
)
def test_a_choice_that_no_device_meets(
    choice: str, devices: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(_tripont.StatusError) as error:
        choose(choice, devices)
    assert error.value.code == "NOT_FOUND"
    assert message in str(error.value)


def test_no_device() -> None:
    """A SYCL runtime that finds no device: the variable hides the CPU."""
    text = output(ERROR, TRIPONT_DEVICE="sycl", ONEAPI_DEVICE_SELECTOR="level_zero:gpu")
    assert "TRIPONT_DEVICE=sycl: there is no SYCL cpu; the SYCL runtime has no device" in text


def test_without_a_sycl_runtime() -> None:
    text = output(ERROR, TRIPONT_DPCTL_PATH="/nowhere")
    assert "no SYCL runtime is installed" in text
    assert "/nowhere" in text
    assert "pip install" in text


@pytest.mark.parametrize("device", ["", "host"])
def test_the_host_needs_no_sycl_runtime(device: str) -> None:
    code = (
        COMPILE
        + """
    import numpy as np
    x = np.arange(4, dtype=np.float32)
    print(client.devices[0].target, _tripont.Executable.load(compiled({})).run(client.devices[0], [x])[0])
    """.replace("\n    ", "\n")
    )
    text = output(code, TRIPONT_DEVICE=device, TRIPONT_DPCTL_PATH="/nowhere")
    assert text.split(maxsplit=1) == ["host", "[-0. -1. -2. -3.]\n"]


def test_host_and_sycl_in_one_process_are_refused() -> None:
    code = """
    from tripont.core import _tripont
    client = _tripont.Client({"device": "host"})
    try:
        _tripont.Client({"device": "sycl"})
    except _tripont.StatusError as error:
        print(error)
    """
    assert "this process uses host devices already" in output(code)


def test_an_artifact_for_something_else_is_refused() -> None:
    code = (
        COMPILE
        + """
for options in ({}, {"target": "sycl", "device": "gpu"}):
    try:
        _tripont.Executable.load(compiled(options))
    except _tripont.StatusError as error:
        print(error)
"""
    )
    text = output(code)
    assert "the artifact is for target 'host'" in text
    assert "compiled for a SYCL gpu" in text


def test_a_build_failure_says_why_and_names_the_kernel() -> None:
    """A SPIR-V module that the device's compiler refuses: an error, not an abort."""
    code = (
        COMPILE
        + """
executable = artifact.deserialize(compiled({"target": "sycl"}))
code = bytearray(executable.code)
code[16 + 20 : 16 + 28] = (0x00020011).to_bytes(4, "little") + (5000).to_bytes(4, "little")  # OpCapability 5000
executable.code = bytes(code)
try:
    _tripont.Executable.load(artifact.serialize(executable))
except _tripont.StatusError as error:
    print(error)
"""
    )
    text = output(code)
    assert "the SYCL device's compiler refuses the kernel negate_fusion of" in text
    assert "requires unsupported capability 5000" in text  # the compiler's own words


LOST = """
// dpctl's interface, whose commands never complete once RAN_INTO_TROUBLE is set.
#include <stdlib.h>
int DPCTLEvent_GetCommandExecutionStatus(void* event) {
  (void)event;
  return getenv("RAN_INTO_TROUBLE") != NULL ? 0 : 3;
}
"""


def test_a_lost_device(tmp_path: Path) -> None:
    """The execution fails, and so does everything after it, until the process ends."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a library with")
    environment = Path(sys.prefix, "lib")
    (real,) = environment.glob("python3*/site-packages/dpctl/libDPCTLSyclInterface.so")
    source, library = tmp_path / "lost.c", tmp_path / "libDPCTLSyclInterface.so"
    source.write_text(LOST)
    folder = str(real.parent)
    link = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-l:libDPCTLSyclInterface.so"]
    name = "-Wl,-soname,libLost.so,--no-as-needed"
    command = [compiler, "-shared", "-fPIC", str(source), name, *link, "-o", str(library)]
    subprocess.run([*command, "-Wl,--allow-shlib-undefined"], check=True)
    code = (
        COMPILE
        + """
import ctypes
import numpy as np
x = np.ones(4, np.float32)
program = _tripont.Executable.load(compiled({"target": "sycl"}))
print(program.run(client.devices[0], [x])[0])
ctypes.CDLL(None).setenv(b"RAN_INTO_TROUBLE", b"1", 1)
for _ in range(2):
    try:
        program.run(client.devices[0], [x])
    except _tripont.StatusError as error:
        print(error.code, error)
"""
    )
    text = output(
        code,
        TRIPONT_DPCTL_PATH=str(tmp_path),
        OCL_ICD_FILENAMES=str(environment / "libintelocl.so"),
    )
    good, first, second = text.strip().splitlines()
    assert good == "[-1. -1. -1. -1.]"
    assert first.startswith("UNAVAILABLE")
    assert "the device was lost while it ran the program" in first
    assert second.startswith("UNAVAILABLE")
    assert "the device was lost; start the process again" in second


def test_a_child_of_fork_is_told_to_spawn() -> None:
    code = (
        COMPILE
        + """
import os
import numpy as np
x = np.ones(4, np.float32)
program = _tripont.Executable.load(compiled({"target": "sycl"}))
program.run(client.devices[0], [x])
child = os.fork()
if child == 0:
    try:
        program.run(client.devices[0], [x])
    except _tripont.StatusError as error:
        print(error, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(program.run(client.devices[0], [x])[0])
"""
    )
    child, parent = output(code).strip().splitlines()
    assert "cannot be used in a child of fork()" in child
    assert "spawn" in child
    assert parent == "[-1. -1. -1. -1.]"


def test_jax_says_why_there_is_no_device() -> None:
    result = run("import jax; jax.devices('xpu')", TRIPONT_DEVICE="sycl", TRIPONT_DPCTL_PATH="/no")
    assert result.returncode != 0
    assert "no SYCL runtime is installed" in result.stderr
