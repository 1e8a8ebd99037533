"""Compiling in one place and running in another: topologies, serialized executables, jax.export."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import serialize_executable, topologies
from jax.sharding import SingleDeviceSharding

from tests.sycl_packages import needs_sycl

XPU = jax.devices("xpu")[0]
TARGET = XPU.target
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def function(x: Any, y: Any) -> Any:
    return {"tanh": jnp.tanh(x @ y), "sum": (x + y).sum(0)}


EXPECTED = {"tanh": np.tanh(X @ X.T), "sum": (X + X.T).sum(0)}


def check(result: Any) -> None:
    assert set(result) == set(EXPECTED)
    for name, expected in EXPECTED.items():
        np.testing.assert_allclose(np.asarray(result[name]), expected, rtol=2e-6, atol=1e-6)


def run_elsewhere(code: str, platforms: str, *arguments: Path, **environment: str) -> None:
    """Run Python in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | {"JAX_PLATFORMS": platforms} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def compile_for(name: str) -> bytes:
    """A serialized executable for a topology, with the trees that JAX needs to load it."""
    topology = topologies.get_topology_desc(name, platform="xpu")
    sharding = SingleDeviceSharding(topology.devices[0])
    argument = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=sharding)
    compiled = jax.jit(function).lower(argument, argument).compile()
    assert "tanh" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 512
    return pickle.dumps(serialize_executable.serialize(compiled))


def load(data: bytes) -> Any:
    return serialize_executable.deserialize_and_load(
        *pickle.loads(data), backend="xpu", execution_devices=[XPU]
    )


# Loads and runs a serialized executable where no worker can start.
LOAD_AND_RUN = """
import os, pickle, sys
import numpy as np
os.environ["TRIPONT_PYTHON"] = "/no/such/python"
os.environ["TRIPONT_PRESTART_WORKER"] = "0"
import jax
from jax.experimental import serialize_executable
data = pickle.load(open(sys.argv[1], "rb"))
f = serialize_executable.deserialize_and_load(*data, backend="xpu", execution_devices=jax.devices("xpu")[:1])
x = np.load(sys.argv[2])
device = jax.devices("xpu")[0]
result = f(jax.device_put(x, device), jax.device_put(np.ascontiguousarray(x.T), device))
np.testing.assert_allclose(result["tanh"], np.tanh(x @ x.T), rtol=2e-6, atol=1e-6)
"""

# ------------------------------------------------------------------------------------------- topologies


MACHINES = {"host": ["", "host", "host:x86-64-v2"], "sycl": ["", "sycl", "sycl:cpu,fp64"]}
OTHER_MACHINES = {
    "host": [
        ("host:neoverse-n1", "the artifact is for aarch64"),
        ("sycl", "the artifact is for target 'sycl', this device is 'host'"),
    ],
    "sycl": [("host", "the artifact is for target 'host', this device is 'sycl'")],
}


@pytest.mark.parametrize("name", MACHINES[TARGET])
def test_compiled_for_a_topology(name: str) -> None:
    check(load(compile_for(name))(X, X.T))


@needs_sycl
@pytest.mark.parametrize(("name", "device"), [("host", "host"), ("sycl", "sycl:cpu")])
def test_compiled_for_the_devices_of_another_process(
    tmp_path: Path, name: str, device: str
) -> None:
    """Whatever the devices of this process are, and there without a compiler."""
    path = tmp_path / "executable"
    path.write_bytes(compile_for(name))
    np.save(tmp_path / "x.npy", X)
    run_elsewhere(LOAD_AND_RUN, "xpu,cpu", path, tmp_path / "x.npy", TRIPONT_DEVICE=device)


@pytest.mark.parametrize(("name", "reason"), OTHER_MACHINES[TARGET])
def test_compiled_for_another_machine(name: str, reason: str) -> None:
    data = compile_for(name)
    with pytest.raises(Exception, match=reason):
        load(data)


def test_the_devices_of_a_topology() -> None:
    topology = topologies.get_topology_desc("host:x86-64-v3", platform="xpu", num_devices=2)
    assert [d.id for d in topology.devices] == [0, 1]
    assert topology.devices[0].platform == "xpu"
    assert topology.devices[0].device_kind == "host (x86-64-v3)"


def test_no_such_topology() -> None:
    with pytest.raises(Exception, match="the targets are host and sycl"):
        topologies.get_topology_desc("abacus", platform="xpu")


# ------------------------------------------------------------------------------- serialized executables


def test_serialized_executable() -> None:
    compiled = jax.jit(function).lower(X, X.T).compile()
    loaded = load(pickle.dumps(serialize_executable.serialize(compiled)))
    check(loaded(X, X.T))


def test_serialized_executable_keeps_donation() -> None:
    step = jax.jit(lambda w, x: w + x, donate_argnums=0)
    loaded = load(pickle.dumps(serialize_executable.serialize(step.lower(X, X).compile())))
    w = jnp.asarray(X)
    np.testing.assert_array_equal(loaded(w, jnp.asarray(X)), X + X)
    assert w.is_deleted()


def test_serialized_executable_in_another_process(tmp_path: Path) -> None:
    """There it runs without a compiler: no worker can start."""
    compiled = jax.jit(function).lower(X, X.T).compile()
    path = tmp_path / "executable"
    path.write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
    np.save(tmp_path / "x.npy", X)
    run_elsewhere(LOAD_AND_RUN, "xpu,cpu", path, tmp_path / "x.npy")


# ------------------------------------------------------------------------------------------- jax.export


def test_export_and_back() -> None:
    exported = jax.export.export(jax.jit(function))(X, X.T)
    assert exported.platforms == ("xpu",)
    restored = jax.export.deserialize(exported.serialize())
    check(restored.call(X, X.T))


def test_export_for_several_platforms() -> None:
    exported = jax.export.export(jax.jit(function), platforms=["xpu", "cpu"])(X, X.T)
    restored = jax.export.deserialize(exported.serialize())
    for device in (XPU, jax.devices("cpu")[0]):
        result = jax.jit(restored.call)(jax.device_put(X, device), jax.device_put(X.T, device))
        assert result["sum"].devices() == {device}
        check(result)


def test_what_depends_on_the_platform() -> None:
    """jax.lax.platform_dependent in a program for several platforms: the right branch is taken."""

    def f(x: Any) -> Any:
        return jax.lax.platform_dependent(x, xpu=lambda x: x + 1, cpu=lambda x: x - 1)

    exported = jax.export.export(jax.jit(f), platforms=["xpu", "cpu"])(X)
    restored = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(restored.call(jax.device_put(X, XPU)), X + 1)


def test_export_where_there_is_no_device(tmp_path: Path) -> None:
    """A process that has only the CPU makes a program for xpu."""
    code = """
import sys
import jax, jax.numpy as jnp, jax.export
assert [d.platform for d in jax.devices()] == ["cpu"]
f = jax.jit(lambda x, y: {"tanh": jnp.tanh(x @ y), "sum": (x + y).sum(0)})
a = jax.ShapeDtypeStruct((8, 8), jnp.float32)
open(sys.argv[1], "wb").write(jax.export.export(f, platforms=["xpu"])(a, a).serialize())
"""
    path = tmp_path / "exported"
    run_elsewhere(code, "cpu", path)
    restored = jax.export.deserialize(path.read_bytes())
    assert restored.platforms == ("xpu",)
    check(restored.call(X, X.T))


def test_export_with_unknown_sizes() -> None:
    (n,) = jax.export.symbolic_shape("n")
    argument = jax.ShapeDtypeStruct((n, 8), jnp.float32)
    exported = jax.export.export(jax.jit(lambda x: jnp.tanh(x).sum(0) * x.shape[0]))(argument)
    restored = jax.export.deserialize(exported.serialize())
    for size in (1, 5):
        x = X[:size]
        np.testing.assert_allclose(restored.call(x), np.tanh(x).sum(0) * size, rtol=2e-6, atol=1e-6)


def test_export_of_a_gradient() -> None:
    exported = jax.export.export(jax.jit(lambda x: jnp.sin(x).sum()))(X)
    restored = jax.export.deserialize(exported.serialize(vjp_order=1))
    np.testing.assert_allclose(jax.grad(restored.call)(X), np.cos(X), rtol=1e-6, atol=1e-6)


def test_an_exported_program_of_another_platform_is_refused() -> None:
    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(X, X.T)
    with pytest.raises(ValueError, match="xpu"):
        exported.call(jax.device_put(X, XPU), jax.device_put(X.T, XPU))
