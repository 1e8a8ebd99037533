"""Matrix products and convolutions in a SYCL device's queue."""

from __future__ import annotations

import sys
from pathlib import Path

import tripont
from tests.library_cpu import ENVIRONMENT

from .processes import output

# Products whose operands come from kernels and go to kernels, a constant operand, an addition in place, a loop;
# a convolution with both gradients. Compared with JAX's own CPU backend.
PROGRAMS = """
import jax, jax.numpy as jnp, numpy as np
from tripont.core import _tripont
draw = np.random.default_rng(0).standard_normal
x, w = (draw((200, 200)).astype(np.float32) for _ in range(2))
image, kernel = draw((2, 12, 12, 8)).astype(np.float32), draw((3, 3, 8, 16)).astype(np.float32)

def chain(x):
    y = jnp.tanh(x @ w) @ w.T + x
    return jax.nn.relu(jnp.einsum("ij,kj->ik", y, x) + 1)

def loop(x):
    return jax.lax.fori_loop(0, 100, lambda i, v: jnp.tanh(v @ w * 0.01) + x * 0.1, x)

def convolution(image, kernel):
    layout = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=layout)
    return (jnp.tanh(y) ** 2).sum()

def check(f, *arguments):
    host = jax.devices("cpu")[0]
    expected = jax.jit(f)(*(jax.device_put(a, host) for a in arguments))
    got = jax.jit(f)(*(jax.device_put(a, jax.devices("xpu")[-1]) for a in arguments))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-2), got, expected)

check(chain, x)
check(loop, x)
check(jax.value_and_grad(convolution, argnums=(0, 1)), image, kernel)
print(dict(_tripont.library_versions())["oneDNN"])
"""


def test_it_is_the_one_for_sycl() -> None:
    """The second of two devices has a queue of its own."""
    assert f"at {sys.prefix}/lib/libdnnl.so.3" in output(PROGRAMS, TRIPONT_NUM_DEVICES="2")


def test_without_it_the_host_computes(tmp_path: Path) -> None:
    """An environment that has the SYCL runtime, but not this library."""
    environment = Path(sys.prefix, "lib")
    (dpctl,) = environment.glob("python3*/site-packages/dpctl")
    site = tmp_path / "lib" / "python3" / "site-packages"
    site.mkdir(parents=True)
    (site / "dpctl").symlink_to(dpctl)
    text = output(
        PROGRAMS,
        TRIPONT_DPCTL_PATH=str(site / "dpctl"),
        OCL_ICD_FILENAMES=str(environment / "libintelocl.so"),
    )
    assert str(Path(tripont.library_path()).parent / "libdnnl.so.3") in text


LOAD = """
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
options = {"target": client.devices[0].target}
if "TRIPONT_CPU" in os.environ:
    options["cpu"] = os.environ["TRIPONT_CPU"]
try:
    _tripont.Executable.load(compile_program(program, "mlir", b"", options))
except _tripont.StatusError as error:
    print(error.code, error)
"""


def test_the_one_for_the_host_is_refused() -> None:
    path = str(Path(tripont.library_path()).parent / "libdnnl.so.3")
    text = output(LOAD, TRIPONT_ONEDNN_PATH=path)
    assert "UNAVAILABLE" in text
    assert f"{path} is a oneDNN without SYCL" in text
    assert "a process uses one oneDNN" in text


def test_on_the_host_the_one_for_sycl_is_refused() -> None:
    path = f"{sys.prefix}/lib/libdnnl.so.3"
    text = output(LOAD, TRIPONT_ONEDNN_PATH=path, TRIPONT_DEVICE="host", **ENVIRONMENT)
    assert "UNAVAILABLE" in text
    assert "a process uses one oneDNN" in text or "cannot load" in text
