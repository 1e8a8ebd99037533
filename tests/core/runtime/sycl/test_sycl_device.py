"""Programs on a SYCL device, each test in a process of its own: a process uses devices of one kind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_", "ONEAPI_", "JAX_"))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=keep | environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def output(code: str, **environment: str) -> str:
    result = run(code, **{"TRIPONT_DEVICE": "sycl:cpu", **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module", autouse=True)
def device() -> None:
    """These tests need a SYCL CPU device: intel-opencl-rt and dpctl (pip)."""
    from tripont.core import _tripont

    try:
        devices = _tripont.sycl_devices(sys.executable)
    except _tripont.StatusError as error:
        pytest.skip(str(error))
    if not any(d["kind"] == "cpu" for d in devices):
        pytest.skip("the SYCL runtime has no CPU device")


def test_a_program_of_every_kind_of_thunk() -> None:
    """Kernels, copies, loops with a predicate, conditionals, library calls with and without a comparator."""
    text = output(
        """
        import jax, jax.numpy as jnp, numpy as np
        assert "sycl" in jax.devices()[0].device_kind, jax.devices()[0].device_kind
        x = np.linspace(-3, 3, 100_000, dtype=np.float32)
        def f(x):
            y = jnp.exp(x) + 1
            n, _ = jax.lax.while_loop(lambda s: s[1].sum() < 1e6, lambda s: (s[0] + 1, s[1] * 2), (0, jnp.abs(y)))
            z = jax.lax.cond(n > 2, lambda v: jnp.sort(v)[::-1], lambda v: v, y)
            return n, z, x[:10_000].reshape(100, 100) @ x[:10_000].reshape(100, 100).T
        for got, expected in zip(jax.jit(f)(x), jax.jit(f, backend="cpu")(x)):
            np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-4)
        print("the same")
        """
    )
    assert text.strip() == "the same"


def test_donation_and_asynchronous_use() -> None:
    text = output(
        """
        import jax, jax.numpy as jnp
        f = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
        x = jnp.zeros((1000, 1000))
        for _ in range(10):
            x = f(x)
        print(float(x.min()), float(x.max()))
        """
    )
    assert text.split() == ["1023.0", "1023.0"]


def test_several_devices_share_one() -> None:
    text = output(
        """
        import jax, jax.numpy as jnp
        print(len(jax.devices()), [float(jax.device_put(jnp.arange(5.0), d).sum()) for d in jax.devices()])
        """,
        TRIPONT_NUM_DEVICES="2",
    )
    assert text.strip() == "2 [10.0, 10.0]"


ERROR = """
from tripont.core import _tripont
try:
    _tripont.Client({})
except _tripont.StatusError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("sycl:tpu", "expected host, sycl, sycl:cpu or sycl:gpu"),
        ("cuda", "expected host, sycl, sycl:cpu or sycl:gpu"),
    ],
)
def test_unknown_device(device: str, message: str) -> None:
    assert message in output(ERROR, TRIPONT_DEVICE=device)


def test_without_a_sycl_runtime() -> None:
    text = output(ERROR, TRIPONT_DPCTL_PATH="/nowhere")
    assert "no SYCL runtime is installed" in text
    assert "/nowhere" in text
    assert "pip install" in text


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


def test_a_host_artifact_is_refused() -> None:
    code = """
    from tripont.core import _tripont
    from tripont.core.compiler import compile
    client = _tripont.Client({})
    type = b"tensor<4xf32>"
    body = b"%0 = stablehlo.negate %a : TYPE\\nreturn %0 : TYPE"
    text = (b"func.func @main(%a: TYPE) -> TYPE {\\n" + body + b"\\n}").replace(b"TYPE", type)
    for options in ({}, {"target": "sycl", "sycl_device": "gpu"}):
        try:
            _tripont.Executable.load(compile.compile_program(text, "mlir", b"", options))
        except _tripont.StatusError as error:
            print(error)
    """
    text = output(code)
    assert "the artifact is for target 'host'" in text
    assert "compiled for a SYCL gpu" in text


def test_a_build_failure_says_why() -> None:
    """A SPIR-V module that the device's compiler refuses: an error, not an abort."""
    code = """
    from tripont.core import _tripont
    from tripont.core.compiler import artifact, compile
    client = _tripont.Client({})
    type = b"tensor<4xf32>"
    body = b"%0 = stablehlo.negate %a : TYPE\\nreturn %0 : TYPE"
    text = (b"func.func @main(%a: TYPE) -> TYPE {\\n" + body + b"\\n}").replace(b"TYPE", type)
    executable = artifact.deserialize(compile.compile_program(text, "mlir", b"", {"target": "sycl"}))
    code = bytearray(executable.code)
    code[16 + 20 : 16 + 28] = (0x00020011).to_bytes(4, "little") + (5000).to_bytes(4, "little")  # OpCapability 5000
    executable.code = bytes(code)
    try:
        _tripont.Executable.load(artifact.serialize(executable))
    except _tripont.StatusError as error:
        print(error)
    """
    assert "the SYCL device's compiler refuses the kernels of" in output(code)
