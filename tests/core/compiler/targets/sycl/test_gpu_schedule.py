"""Kernels scheduled for GPUs: what they ask of the device, and (on the CPU device) what they compute."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest
from tripont.core.compiler.targets.sycl import for_device
from tripont.core.compiler.targets.sycl.disassemble import disassemble

from .programs import PROGRAMS, binary, compiled, spirv_of

SHARED = ("row-sum", "all", "softmax", "loop")  # rows that the work-items of a group do together


def text_of(name: str, device: str) -> str:
    return disassemble(spirv_of(compiled(PROGRAMS[name], device)))


@pytest.mark.parametrize("name", SHARED)
def test_work_groups_share_rows(name: str) -> None:
    text = text_of(name, "gpu,fp64")
    assert "LocalSize 64 1 1" in text
    assert "OpControlBarrier" in text
    assert re.search(r"OpVariable %ptr_Workgroup_\w+ Workgroup", text)
    assert "Shuffle" not in text.replace("OpVectorShuffle", "")


@pytest.mark.parametrize("name", SHARED)
def test_sub_groups_shuffle(name: str) -> None:
    text = text_of(name, "gpu,fp64,sub-groups")
    assert "SubgroupSize 16" in text
    assert text.count("OpGroupNonUniformShuffleXor") >= 4


def test_elementwise_kernels_take_a_vector_a_work_item() -> None:
    text = text_of("exp", "gpu")
    assert "LocalSize" not in text  # the device chooses
    assert "OpTypeVector %float 4" in text
    assert "OpTypeVector %float 8" not in text
    (thunk,) = compiled(PROGRAMS["exp"], "gpu").thunks
    assert thunk.work_count == 250


def test_kernels_of_cpus_have_groups_of_one() -> None:
    text = text_of("softmax", "cpu,fp64")
    assert "LocalSize 1 1 1" in text
    assert "OpControlBarrier" not in text


@pytest.mark.parametrize("name", ["exp", "softmax", "loop"])
def test_only_kernels_of_cpus_say_that_they_compute_with_vectors(name: str) -> None:
    """Else a CPU device's compiler spends most of its time on variants for several work-items."""
    assert re.search(r"OpExecutionMode %\w+ VecTypeHint ", text_of(name, "cpu"))
    assert "VecTypeHint" not in text_of(name, "gpu")


def test_schedules_are_told_apart() -> None:
    devices = ("gpu", "gpu,sub-groups", "cpu")
    assert len({for_device(d).fingerprint for d in devices}) == 3


@pytest.mark.parametrize("device", ["sycl:cpu", "sycl:cpu-as-gpu"])
def test_results_on_the_cpu_device(device: str) -> None:
    """The same results as XLA's CPU backend, as for a CPU and with 64 work-items a row, barriers and shuffles."""
    code = """
        import jax, jax.numpy as jnp, numpy as np
        kind = jax.devices()[0].device_kind
        assert "sycl" in kind, kind
        rng = np.random.default_rng(0)
        x = rng.standard_normal((40, 1003)).astype(np.float32)
        y = rng.standard_normal((37, 64, 3)).astype(np.float32)
        functions = [
            jnp.exp, jax.nn.gelu, lambda x: jnp.tanh(x.reshape(-1)[:40001]) * 2,
            lambda x: (x.sum(1), x.sum(0), x.sum()), lambda x: jax.nn.softmax(x, -1),
            lambda x: (jnp.argmax(x, 1), (x > -3).all(1), (x > 3).any(1)),
            lambda x: ((x * 10).astype(jnp.int32).sum(1), x.astype(jnp.bfloat16).max(1).astype(jnp.float32)),
            lambda x: (x.T + 1, x[:9, :17] @ x[:9, :17].T, jnp.var(x, -1)),
            lambda x: jax.lax.fori_loop(0, 5, lambda i, s: jax.nn.softmax(s * i), x[0, :128]),
            lambda x: jax.lax.while_loop(lambda s: s.sum() < 1e3, lambda s: s * 2, jnp.abs(x[0, :200])),
            lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x[0, :100]),
        ]
        def small_steps(x):  # one launch
            y = jnp.sin(x[:32, :32])
            for _ in range(3):
                y = jnp.roll(y - y.mean(1, keepdims=True), 1, 0) @ y / 4
            return y, y.sum(0), y.argmax(1)

        functions.append(small_steps)
        cpu = jax.devices("cpu")[0]
        for f in functions:
            got = jax.tree.leaves(jax.jit(f)(x))
            with jax.default_device(cpu):
                expected = jax.tree.leaves(jax.jit(f)(jax.device_put(x, cpu)))
            for g, e in zip(got, expected, strict=True):
                np.testing.assert_allclose(g, e, rtol=2e-5, atol=2e-5)
        print("the same")
    """
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_", "ONEAPI_", "JAX_"))}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=keep | {"TRIPONT_DEVICE": device},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    if "no SYCL runtime is installed" in result.stderr or "there is no SYCL cpu" in result.stderr:
        pytest.skip("there is no OpenCL CPU device")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "the same"


@pytest.mark.parametrize(
    ("device", "exact"), [("gpu", False), ("gpu,fp64", False), ("cpu,fp64", True)]
)
def test_remainders_and_integers_do_not_trust_a_gpus_division(device: str, exact: bool) -> None:
    """A quotient of 6 / 3 that is a little below 2 would leave 3: OpenCL C allows an error of 2.5 ulp."""
    assert for_device(device).divides_exactly is exact
    for op, type_, own in [("remainder", "f32", "OpFRem"), ("divide", "i16", "OpSDiv")]:
        program = binary(f"stablehlo.{op}", f"tensor<1000x{type_}>")
        text = disassemble(spirv_of(compiled(program, device)))
        assert ("OpFDiv" in text) is exact
        assert exact or own in text
