"""Python functions that take part in partitioning: custom_partitioning and the inspection of shardings.

The partitioner runs in the compile worker and asks this process, in the middle of a compile.
"""

from __future__ import annotations

import ctypes
import gc
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import xla_client
from jaxlib.mlir import ir
from tripont.core import _tripont
from tripont.frontends.jax import inspection

# One worker: what a function compiles while the worker waits for it needs another. Read when the first xpu is used,
# which is after this.
os.environ["TRIPONT_MAX_WORKERS"] = "1"

VALUES = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture
def sharded(mesh: Mesh) -> jax.Array:
    return jax.device_put(VALUES, NamedSharding(mesh, P("x")))


@pytest.fixture
def gspmd() -> Iterator[None]:
    """XLA's older partitioner, which asks how results are sharded; Shardy has sharding_rule instead."""
    with jax._src.config.use_shardy_partitioner(False):
        yield


def partitioned(
    lower: Callable[..., Any],
    on_partition: Callable[[Any], None] = lambda shapes: None,
    infer: Callable[..., Any] = lambda mesh, operands, result: operands[0].sharding,
    propagate: Callable[..., Any] | None = None,
) -> Any:
    """x + 1 by rows; ``lower`` is what each device runs for its part."""

    @custom_partitioning
    def f(x: Any) -> Any:
        return x + 1

    def partition(mesh: Mesh, operands: Any, result: Any) -> Any:
        on_partition((operands, result))
        by_rows = NamedSharding(mesh, P("x"))
        return mesh, lower, by_rows, (by_rows,)

    f.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        propagate_user_sharding=propagate,
        sharding_rule="i j -> i j",
    )
    return f


def compiled_anew(lowered: Any) -> Any:
    """The program compiled without what JAX has kept; the disk cache is on, as always."""
    jax.clear_caches()
    return lowered.compile(compiler_options={"xla_cpu_enable_fast_math": False})


def device_number(x: Any) -> Any:
    return x + 1 + 100 * lax.axis_index("x")


NUMBERED = VALUES + 1 + 100 * np.repeat(np.arange(4, dtype=np.float32), 2)[:, None]


def test_each_device_runs_what_the_function_gives(sharded: jax.Array) -> None:
    given: list[Any] = []
    f = partitioned(device_number, given.append)
    y = jax.jit(lambda x: f(x * 2) * 3)(sharded / 2)
    np.testing.assert_array_equal(y, 3 * NUMBERED)
    ((operands, result),) = given
    for array in (*operands, result):
        assert (array.shape, array.dtype, array.sharding.spec) == ((8, 4), np.float32, P("x", None))
    # On one device there is nothing to partition.
    one = jax.device_put(VALUES, jax.devices("xpu")[0])
    np.testing.assert_array_equal(jax.jit(f)(one), VALUES + 1)


@pytest.mark.usefixtures("gspmd")
def test_functions_that_infer_and_propagate(mesh: Mesh, sharded: jax.Array) -> None:
    asked: list[str] = []

    def infer(mesh: Mesh, operands: Any, result: Any) -> Any:
        asked.append("infer")
        assert operands[0].sharding.spec == P("x", None)
        return operands[0].sharding

    def propagate(mesh: Mesh, user: Any) -> Any:
        asked.append("propagate")
        return user.sharding

    f = partitioned(
        device_number, lambda shapes: asked.append("partition"), infer=infer, propagate=propagate
    )
    y = jax.jit(lambda x: f(x) * 2, out_shardings=NamedSharding(mesh, P("x")))(sharded)
    np.testing.assert_array_equal(y, 2 * NUMBERED)
    assert {"infer", "partition"} <= set(asked) <= {"infer", "propagate", "partition"}


def test_several_operands_and_results_with_a_collective(mesh: Mesh) -> None:
    """A product split along what is summed."""

    @custom_partitioning
    def product(a: Any, b: Any) -> Any:
        c = a @ b
        return c, c + 1

    def partition(mesh: Mesh, operands: Any, results: Any) -> Any:
        whole = NamedSharding(mesh, P())

        def lower(a: Any, b: Any) -> Any:
            c = lax.psum(a @ b, "x")
            return c, c + 1

        shardings = (NamedSharding(mesh, P(None, "x")), NamedSharding(mesh, P("x")))
        return mesh, lower, (whole, whole), shardings

    product.def_partition(partition=partition, sharding_rule="i j, j k -> i k, i k")
    a, b = VALUES.T, VALUES
    shardings = (NamedSharding(mesh, P(None, "x")), NamedSharding(mesh, P("x")))
    c, d = jax.jit(product, in_shardings=shardings)(a, b)
    np.testing.assert_array_equal(c, a @ b)  # of integers: exact
    np.testing.assert_array_equal(d, a @ b + 1)


def test_functions_are_asked_at_each_compile(sharded: jax.Array) -> None:
    """The same program after a function has changed its mind: no cache may have it."""
    addend = 10
    given: list[Any] = []
    f = partitioned(lambda x: x + addend, given.append)
    lowered = jax.jit(f).lower(sharded)
    np.testing.assert_array_equal(lowered.compile()(sharded), VALUES + 10)
    addend = 20
    for times in (2, 3):
        np.testing.assert_array_equal(compiled_anew(lowered)(sharded), VALUES + 20)
        assert len(given) == times


@pytest.mark.parametrize("question", ["partition", "infer", "propagate"])
def test_an_error_is_that_of_the_compile(
    sharded: jax.Array, question: str, request: pytest.FixtureRequest
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("cannot be halved")

    if question == "partition":
        f = partitioned(device_number, fail)
    else:
        request.getfixturevalue("gspmd")
        f = partitioned(device_number, **{question: fail})
    deaths = _tripont.worker_counters()["deaths"]
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"partitioning for 4 devices[^$]*ValueError: cannot be"
    ):
        jax.jit(lambda x: f(jnp.sin(x)).sum())(sharded)
    assert _tripont.worker_counters()["deaths"] == deaths
    np.testing.assert_array_equal(jax.jit(partitioned(device_number))(sharded), NUMBERED)


def test_a_program_of_other_shapes_than_promised(sharded: jax.Array) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="Mismatch in result shapes"):
        jax.jit(partitioned(lambda x: x[:1]))(sharded)


def test_a_function_may_compile_itself(sharded: jax.Array) -> None:
    """There is one worker at a time, and it waits for the function."""
    sums: list[float] = []

    def compile_more(shapes: Any) -> None:
        x = jax.device_put(VALUES, jax.devices("xpu")[0])
        sums.append(float(jax.jit(lambda x: (x * 7 + 5).sum())(x)))

    y = jax.jit(partitioned(device_number, compile_more))(sharded)
    np.testing.assert_array_equal(y, NUMBERED)
    assert sums == [float((VALUES * 7 + 5).sum())]


def test_inspection_at_each_compile(mesh: Mesh, sharded: jax.Array) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x * 2, callback=seen.append)
        y = lax.with_sharding_constraint(x + 1, NamedSharding(mesh, P(None, "x")))
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        return y

    lowered = jax.jit(f).lower(sharded)
    for times in (1, 2):
        np.testing.assert_array_equal(compiled_anew(lowered)(sharded), VALUES + 1)
        by_rows, by_columns = str(P("x")), str(P(None, "x"))
        assert sorted(str(s.spec) for s in seen) == sorted([by_rows, by_columns] * times)
    assert all(s.mesh.axis_names == ("x",) for s in seen)


def test_inspection_and_partitioning_in_one_program(sharded: jax.Array) -> None:
    seen: list[Any] = []
    f = partitioned(device_number)

    @jax.jit
    def g(x: Any) -> Any:
        y = f(x)
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        return y

    np.testing.assert_array_equal(g(sharded), NUMBERED)
    assert [s.spec for s in seen] == [P("x")]


def test_an_error_of_an_inspection(sharded: jax.Array) -> None:
    def fail(sharding: Any) -> None:
        raise KeyError("no such sharding")

    @jax.jit
    def f(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x, callback=fail)
        return x

    with pytest.raises(jax.errors.JaxRuntimeError, match="no such sharding"):
        f(sharded)


def _escaped(data: bytes) -> str:
    """As MLIR prints a string."""
    with ir.Context():
        return str(ir.StringAttr.get(data))[1:-1]


def test_a_program_names_an_inspection_and_has_no_addresses(sharded: jax.Array) -> None:
    """A program from elsewhere: the address in it is a function's of this process, and is not called."""
    called: list[object] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    function = kind(lambda *arguments: called.append(arguments))
    foreign = struct.pack("<QQ", ctypes.cast(function, ctypes.c_void_p).value or 0, 0)
    seen: list[Any] = []

    def inspect(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x, callback=seen.append)
        return x

    lowered = jax.jit(inspect).lower(sharded)
    text = lowered.as_text()
    (own,) = [config for config in inspection._inspectors if _escaped(config) in text]
    escaped = _escaped(own)
    options = xla_client.CompileOptions()
    options.num_partitions = len(jax.devices())
    build = options.executable_build_options
    build.num_partitions = options.num_partitions
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(options.num_partitions)[None]
    )

    def compile_text(text: str) -> None:
        client = jax.devices()[0].client
        client.compile_and_load(text, xla_client.DeviceList(tuple(jax.devices())), options)

    compile_text(text)
    assert len(seen) == 1
    for name in ("@InspectSharding", '@"Inspect\\53harding"'):
        elsewhere = text.replace(escaped, "".join(f"\\{byte:02X}" for byte in foreign))
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=r"made by another process|is compiled"
        ):
            compile_text(elsewhere.replace("@InspectSharding", name))
    assert (called, len(seen)) == ([], 1)
    # The program has outlived its function, whose address is anything now.
    del lowered
    jax.clear_caches()
    gc.collect()
    assert own not in inspection._inspectors
    with pytest.raises(jax.errors.JaxRuntimeError, match="that is still there"):
        compile_text(text)


def test_visualization(sharded: jax.Array, capsys: pytest.CaptureFixture[str]) -> None:
    @jax.jit
    def f(x: Any) -> Any:
        jax.debug.visualize_array_sharding(x, use_color=False)
        return x

    f(sharded)
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if "XPU" in line]
    assert [row.strip("│ ") for row in rows] == ["XPU 0", "XPU 1", "XPU 2", "XPU 3"], printed
