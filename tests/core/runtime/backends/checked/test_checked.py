"""The backend from outside: that its checks find what they are for, and that everything else takes it as any other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import tripont
from tests.core.runtime.backends.sycl.processes import run as run_process

from . import build

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "it can be built")


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Built before the tests, whose time limits are for themselves."""
    build.library()


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_process(code, TRIPONT_DEVICE="checked", **build.environment(), **environment)


KERNELS = """
import dataclasses, sys
import numpy as np
from tests.core.runtime import programs
from tripont.core import _tripont

def load(program, **changes):
    program = dataclasses.replace(program, target=device.target, **changes)
    return _tripont.Executable.load(programs.serialize(program))

device = _tripont.Client({"prestart_worker": False, "cache": False}).devices[0]
x = np.arange(1, 9, dtype=np.float32)
"""


def test_what_it_counts() -> None:
    result = run(
        KERNELS
        + """
import ctypes, os
counts = (ctypes.c_int64 * 3)()
print(load(programs.unary("add_one", 8)).run(device, [x])[0].tolist())
ctypes.CDLL(os.environ["TRIPONT_BACKENDS"]).checked_counts(counts)
print(counts[0], counts[1], counts[2] > 0)
"""
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]", "1 0 True"]


def test_a_kernel_that_writes_before_its_array() -> None:
    result = run(KERNELS + 'load(programs.unary("store_before", 8)).run(device, [x])')
    assert result.returncode == 1
    assert "wrote before an array of 32 bytes" in result.stderr


def test_a_kernel_that_goes_past_its_array() -> None:
    code = """
program = programs.unary("add_one", 8)
thunk = dataclasses.replace(program.thunks[0], work_count=int(sys.argv[-1]))
load(program, thunks=(thunk,)).run(device, [x])
"""
    within, past = (run(f"import sys; sys.argv = ['', '{n}']\n{KERNELS}{code}") for n in (16, 17))
    assert within.returncode == 0, within.stderr  # arrays end at a multiple of 64 bytes
    assert past.returncode < 0, past.returncode


def test_a_kernel_whose_units_depend_on_each_other() -> None:
    """On the host, where this is one piece of work, nobody would notice."""
    code = (
        KERNELS
        + 'print(load(programs.unary("running_sum", 8, grain=GRAIN)).run(device, [x])[0][-1])'
    )
    whole, pieces = (run(code.replace("GRAIN", grain)) for grain in ("1 << 40", "2"))
    assert whole.stdout.strip() == "36.0", whole.stderr
    assert pieces.returncode == 0, pieces.stderr
    assert pieces.stdout.strip() != "36.0"


def test_jax_runs_on_it() -> None:
    """By the two variables alone."""
    result = run(
        """
        import jax, jax.numpy as jnp, numpy as np
        assert "checked" in jax.devices("xpu")[0].device_kind
        f = jax.jit(lambda x: jax.nn.softmax(jnp.sort(x @ x.T, axis=1)), backend="xpu")
        x = np.linspace(-1, 1, 70 * 30, dtype=np.float32).reshape(70, 30)
        expected = jax.jit(lambda x: jax.nn.softmax(jnp.sort(x @ x.T, axis=1)), backend="cpu")(x)
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-6)
        from jax.experimental import topologies
        print(topologies.get_topology_desc("checked", platform="xpu").devices[0].device_kind)
        """
    )
    assert result.stdout.strip() == "checked", result.stderr


def test_the_command_line_knows_it() -> None:
    """Its devices, doctor's finding of them, and a compilation for it, in one process."""
    result = run(
        """
        from tripont.cli import devices, doctor, machine
        from tripont.core.compiler import targets
        devices.run()
        print([f"{f.status} {f.detail}" for f in doctor.check_backends() if f.name == "checked"])
        print(targets.from_options(machine.target_options("checked", "abacus", "")).name)
        """
    )
    *table, finding, target = result.stdout.splitlines()
    assert any("checks 1" in line for line in table), result.stderr
    assert finding == "['ok checks 0, checks 1']"
    assert target == "checked"


def test_a_topology_before_there_is_a_client() -> None:
    code = """
        from jax.experimental import topologies
        print(topologies.get_topology_desc("checked:abacus", platform="xpu").devices)
        """
    result = run_process(code, **build.environment())
    assert "XpuDevice(id=0)" in result.stdout, result.stderr


def test_two_spellings_of_one_library() -> None:
    library = build.library()
    names = f"{library}:{library.parent}/./{library.name}"
    code = "from tripont.core import _tripont; print(_tripont.Client({'prestart_worker': False}).devices)"
    result = run_process(code, **(build.environment() | {"TRIPONT_BACKENDS": names}))
    assert result.returncode == 0, result.stderr


def test_a_library_of_other_headers(tmp_path: Path) -> None:
    """It has the version of the release, but not the number of the headers."""
    source = tmp_path / "old.cc"
    source.write_text(
        f'''extern "C" const char* tripont_backend_version() {{ return "{tripont.__version__}"; }}
        extern "C" void* tripont_register_backend() {{ return nullptr; }}'''
    )
    library = tmp_path / "libold.so"
    command = [*build.compiler(), "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    code = "from tripont.core import _tripont; _tripont.Client({'prestart_worker': False})"
    result = run_process(code, TRIPONT_BACKENDS=str(library))
    assert result.returncode == 1
    assert "with backends of ABI 0, this is a build with ABI " in result.stderr


@pytest.mark.parametrize(
    ("library", "message"),
    [
        ("/nowhere/libabacus.so", "TRIPONT_BACKENDS: cannot load /nowhere/libabacus.so"),
        ("libc.so.6", "libc.so.6 has no functions tripont_backend_version"),
    ],
)
def test_a_library_that_brings_no_backend(library: str, message: str) -> None:
    code = "from tripont.core import _tripont; _tripont.Client({'prestart_worker': False})"
    result = run_process(code, TRIPONT_BACKENDS=library)
    assert result.returncode == 1
    assert message in result.stderr


def test_strided_loads_end_with_the_last_element_that_they_need() -> None:
    """Vectors of two elements that are four apart read one element more, which may lie on a page that is not there."""
    result = run(
        """
        import itertools, jax, numpy as np
        x = np.arange(256, dtype=np.float32)
        for dims in ((32, 2, 2, 2), (16, 2, 2, 4), (16, 2, 4, 2), (8, 4, 4, 2), (4, 4, 4, 4), (64, 4), (64, 2, 2)):
            for order in itertools.permutations(range(len(dims))):
                f = jax.jit(lambda x: x.reshape(dims).transpose(order), backend="xpu")
                assert (np.asarray(f(x)) == x.reshape(dims).transpose(order)).all(), (dims, order)
        for step in (2, 3, 4):
            for count in (2, 4, 8, 16, 17):
                y = x[: (count - 1) * step + 1][-16:] if count == 2 else x
                f = jax.jit(lambda x: x[::-1][: (count - 1) * step + 1][::step] + 1, backend="xpu")
                assert (np.asarray(f(y)) == y[::-1][: (count - 1) * step + 1][::step] + 1).all()
        print("right")
        """,
        TRIPONT_CACHE="0",
    )
    assert result.stdout.strip() == "right", (result.returncode, result.stderr[-2000:])
