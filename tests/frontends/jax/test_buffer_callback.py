"""jax.experimental.buffer_callback on xpu. JAX's own tests of it run too (tests/upstream)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.buffer_callback import ExecutionStage, buffer_callback


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.default_device(xpu):
        yield


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "bfloat16", "float32", "complex64"])
def test_a_function_writes_its_result(dtype: str) -> None:
    given = []

    def copies(context: Any, out: Any, x: Any) -> None:
        given.append((context.stage, x.dtype, x.shape, x.ndim, x.writeable, out.writeable))
        np.asarray(out)[...] = np.asarray(x)

    x = jnp.arange(6).reshape(2, 3).astype(dtype)
    np.testing.assert_array_equal(buffer_callback(copies, jax.ShapeDtypeStruct.like(x))(x), x)
    assert given == [(ExecutionStage.EXECUTE, x.dtype, (2, 3), 2, False, True)]


def test_trees_keywords_and_a_program_around() -> None:
    def adds(context: Any, out: Any, pair: Any, *, scale: Any) -> None:
        del context
        a, b = map(np.asarray, pair)
        np.asarray(out["sum"])[...] = (a + b).sum()
        np.from_dlpack(out["product"])  # as other libraries read it
        np.multiply(a, np.asarray(scale), out=np.asarray(out["product"]))

    shapes = {
        "sum": jax.ShapeDtypeStruct((), jnp.float32),
        "product": jax.ShapeDtypeStruct((3,), jnp.float32),
    }
    called = buffer_callback(adds, shapes)
    x = jnp.arange(3.0)
    result = jax.jit(lambda x: called((x, x + 1), scale=x[1] + 1))(x)
    assert float(result["sum"]) == 9
    assert result["product"].tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
)
def test_vmap(method: str) -> None:
    def doubles(context: Any, out: Any, x: Any) -> None:
        del context
        np.asarray(out)[...] = 2 * np.asarray(x)

    x = jnp.arange(12.0).reshape(4, 3)
    doubled = buffer_callback(doubles, jax.ShapeDtypeStruct.like(x[0]), vmap_method=method)
    np.testing.assert_array_equal(jax.vmap(doubled)(x), 2 * x)


def test_an_operand_that_is_the_result() -> None:
    def increments(context: Any, out: Any, x: Any, y: Any) -> None:
        del context
        assert np.asarray(out).ctypes.data == np.asarray(x).ctypes.data
        np.asarray(out)[...] += np.asarray(y)

    x = jnp.arange(3.0)
    incremented = buffer_callback(
        increments, jax.ShapeDtypeStruct.like(x), input_output_aliases={0: 0}
    )
    np.testing.assert_array_equal(incremented(x, x + 1), 2 * x + 1)
    assert x.tolist() == [0, 1, 2]  # the buffer was a copy


def test_a_side_effect_without_operands() -> None:
    calls = []
    run = buffer_callback(
        lambda *_: calls.append(1), jax.ShapeDtypeStruct((), jnp.float32), has_side_effect=True
    )
    jax.block_until_ready(jax.jit(run)())
    assert calls == [1]


def test_misuse() -> None:
    def reads_a_stream(context: Any, out: Any) -> None:
        del out
        print(context.stream)

    def writes_its_operand(context: Any, out: Any, x: Any) -> None:
        del context, out
        np.asarray(x)[...] = 0

    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    failure = (ValueError, jax.errors.JaxRuntimeError)
    with pytest.raises(failure, match="the device has no CUDA stream"):
        jax.block_until_ready(buffer_callback(reads_a_stream, scalar)())
    with pytest.raises(failure, match="read-only"):
        jax.block_until_ready(buffer_callback(writes_its_operand, scalar)(jnp.ones(3)))
    with pytest.raises(failure, match="must not return any values"):
        jax.block_until_ready(buffer_callback(lambda *_: 3, scalar)())
