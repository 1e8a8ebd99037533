"""Finding and opening oneDNN: the errors when there is none, and life after fork()."""

from __future__ import annotations

import ctypes.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.library_cpu import ENVIRONMENT

from .calls import run
from .test_gemm import attributes, normal

_SCRIPT = """
import os
import numpy as np
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_program

program = b'''
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
    : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}'''
client = _tripont.Client({"prestart_worker": False, "cache": False})
if MUST_CALL:
    artifact = compile_program(program, "mlir", b"", {"onednn": "1", "cpu": os.environ.get("TRIPONT_CPU", "host")})
else:
    artifact, _ = client.compile(program)
print("calls gemm:", b"gemm" in artifact)
x = np.ones((512, 512), np.float32)
try:
    (y,) = _tripont.Executable.load(artifact).run(client.devices[0], [x])
    print("result:", y[0, 0])
except _tripont.StatusError as error:
    print(error.code, error)
"""


def run_script(must_call: bool, path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"MUST_CALL = {must_call}\n{_SCRIPT}"],
        env=os.environ | ENVIRONMENT | {"TRIPONT_ONEDNN_PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def test_without_the_library_dots_are_generated(tmp_path):
    out = run_script(False, str(tmp_path))
    assert "calls gemm: False" in out
    assert "result: 512.0" in out


def test_a_program_that_needs_the_library_is_refused(tmp_path):
    out = run_script(True, str(tmp_path))
    assert "calls gemm: True" in out
    assert "UNAVAILABLE" in out
    assert f"{tmp_path}/libdnnl.so.3" in out
    assert "install tripont again" in out


def test_another_library_is_refused():
    name = ctypes.util.find_library("m")
    paths = [
        p
        for f in ("/lib64", "/lib/x86_64-linux-gnu", "/usr/lib64")
        for p in Path(f).glob(str(name))
    ]
    if not paths:
        pytest.skip("libm is not in a folder that this test knows")
    out = run_script(True, str(paths[0]))
    assert "UNAVAILABLE" in out
    assert "has no function dnnl_" in out


JAX = """
import jax, numpy as np
x = jax.numpy.ones((512, 512), np.float32, device=jax.devices("xpu")[0])
times = jax.jit(lambda x, y: x @ y.T)  # oneDNN's on every CPU
print("result:", times(x, x)[0, 0], times(x[:400], x)[3, 3])
"""


@pytest.mark.parametrize("path", ["/nowhere", str(Path(_tripont.__file__))])
def test_a_framework_s_programs_run_without_the_library(path, subprocess_environment):
    """A library that is missing, or there but another one: generated code takes its place, which is said once."""
    done = subprocess.run(
        [sys.executable, "-c", JAX],
        env=subprocess_environment | ENVIRONMENT | {"TRIPONT_ONEDNN_PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "result: 512.0 512.0" in done.stdout, done.stderr
    assert done.stderr.count("computed without oneDNN") == 1
    assert path in done.stderr


def test_the_library_is_listed_once_it_is_open(device):
    multiply(device)
    versions = dict(_tripont.library_versions())
    assert versions["oneDNN"].startswith("3.")


def multiply(device):
    m = n = k = 200
    lhs, rhs = normal(m, k), normal(k, n)
    (got,) = run(device, "gemm", [lhs, rhs], [Shape(dtypes.F32, (m, n))], attributes([], m, n, k))
    np.testing.assert_allclose(got, lhs @ rhs, rtol=1e-4, atol=1e-4)


def test_after_fork(device):
    multiply(device)  # the parent's threads exist, the child has none of them
    pid = os.fork()
    if pid == 0:
        try:
            multiply(device)
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


CAPPED = """
import ctypes
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_program

program = b'''
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.dot %x, %x : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}'''
artifact = compile_program(program, "mlir", b"", {"onednn": "1", "cpu": "x86-64-v2"})
assert b"gemm" in artifact
_tripont.Executable.load(artifact)
(path,) = {line.split()[-1] for line in open("/proc/self/maps") if "libdnnl" in line}
print(ctypes.CDLL(path).dnnl_get_effective_cpu_isa())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN and x86-64-v2 are for x86-64")
def test_a_program_that_is_loaded_before_any_client_keeps_to_the_cpu(subprocess_environment):
    """oneDNN is opened for the CPU that TRIPONT_CPU names, SSE 4.1 here, whoever opens it first."""
    done = subprocess.run(
        [sys.executable, "-c", CAPPED],
        env=subprocess_environment | {"TRIPONT_CPU": "x86-64-v2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "1", done.stderr
