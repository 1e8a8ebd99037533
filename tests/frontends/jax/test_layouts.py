"""Arrays that are not row-major on the device: jax.experimental.layout."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.sharding import SingleDeviceSharding

from tripont import interop
from tripont.interop import ExchangeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(autouse=True)
def _on_xpu(xpu: Any) -> Iterator[None]:
    with jax.default_device(xpu):
        yield


def format_of(xpu: Any, *major_to_minor: int) -> Format:
    return Format(Layout(major_to_minor=major_to_minor), SingleDeviceSharding(xpu))


def order(array: Any) -> tuple[int, ...]:
    return tuple(array.format.layout.major_to_minor)


def in_memory(array: jax.Array) -> bytes:
    return ctypes.string_at(array.unsafe_buffer_pointer(), array.nbytes)


@pytest.mark.parametrize("major_to_minor", list(itertools.permutations(range(3))))
def test_device_put(xpu: Any, major_to_minor: tuple[int, ...]) -> None:
    wanted = format_of(xpu, *major_to_minor)
    for source in (X, jnp.asarray(X), jax.device_put(X, format_of(xpu, 1, 2, 0))):
        y = jax.device_put(source, wanted)
        assert order(y) == major_to_minor
        assert in_memory(y) == X.transpose(major_to_minor).tobytes()
        np.testing.assert_array_equal(y, X)
        np.testing.assert_array_equal(y[1, :, 2], X[1, :, 2])


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "bfloat16", "int32", "complex64"])
def test_dtypes(xpu: Any, dtype: str) -> None:
    x = np.arange(15).reshape(3, 5).astype(dtype)
    y = jax.device_put(x, format_of(xpu, 1, 0))
    assert order(y) == (1, 0)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(jax.jit(lambda x: x.T)(y), x.T)


def test_operations_take_what_is_there(xpu: Any) -> None:
    a = jax.device_put(X, format_of(xpu, 2, 0, 1))
    b = jax.device_put(X + 1, format_of(xpu, 1, 0, 2))
    for f in (
        lambda a, b: a * b - 1,
        lambda a, b: jnp.einsum("ijk,ilk->ijl", a, b),
        lambda a, b: jnp.concatenate([a, b], axis=1)[:, ::2].sum(axis=0),
        lambda a, b: jnp.sort(-a, axis=2) + b[::-1],
    ):
        np.testing.assert_array_equal(jax.jit(f)(a, b), f(jnp.asarray(X), jnp.asarray(X + 1)))
    gradient = jax.grad(lambda a: (jnp.cumsum(a, axis=0) ** 2).sum())
    np.testing.assert_array_equal(jax.jit(gradient)(a), gradient(jnp.asarray(X)))


def test_results_as_they_are_asked_for(xpu: Any) -> None:
    formats = (format_of(xpu, 0, 2, 1), format_of(xpu, 2, 1, 0))
    y, z = jax.jit(lambda x: (x + 1, x * 2), out_shardings=formats)(X)
    assert (order(y), order(z)) == ((0, 2, 1), (2, 1, 0))
    assert in_memory(y) == (X + 1).transpose(0, 2, 1).tobytes()
    assert in_memory(z) == (X * 2).transpose(2, 1, 0).tobytes()
    np.testing.assert_array_equal(y, X + 1)
    np.testing.assert_array_equal(z, X * 2)


def test_results_as_the_program_constrains_them(xpu: Any) -> None:
    """JAX leaves the layout of such a result to the compiler, even where it is asked for."""
    wanted = format_of(xpu, 2, 0, 1)
    for program in (
        jax.jit(lambda x: with_layout_constraint(x * 2, wanted.layout)),
        jax.jit(lambda x: with_layout_constraint(x * 2, wanted.layout), out_shardings=wanted),
    ):
        y = program(X)
        assert order(y) == (2, 0, 1)
        assert in_memory(y) == np.ascontiguousarray((2 * X).transpose(2, 0, 1)).tobytes()
        np.testing.assert_array_equal(y, 2 * X)
    scalar = jax.jit(lambda x: with_layout_constraint(x.sum(), Layout(())))(X)
    assert float(scalar) == X.sum()


def test_a_layout_to_choose_saves_the_transpose(xpu: Any) -> None:
    sharding = SingleDeviceSharding(xpu)
    f = jax.jit(lambda x: (x * 2).transpose(2, 0, 1), out_shardings=Format(Layout.AUTO, sharding))
    compiled = f.lower(X).compile()
    assert compiled.output_formats.layout.major_to_minor == (1, 2, 0)
    y = compiled(X)
    assert order(y) == (1, 2, 0)
    assert in_memory(y) == (X * 2).tobytes()
    np.testing.assert_array_equal(y, (X * 2).transpose(2, 0, 1))


def test_donation(xpu: Any) -> None:
    wanted = format_of(xpu, 2, 1, 0)
    x = jax.device_put(X, wanted)
    f = jax.jit(lambda x: x + 1, in_shardings=wanted, out_shardings=wanted, donate_argnums=0)
    y = f(x)
    assert x.is_deleted()
    assert order(y) == (2, 1, 0)
    np.testing.assert_array_equal(y, X + 1)


def test_a_program_compiled_for_another_layout(xpu: Any) -> None:
    compiled = jax.jit(lambda x: x + 1).lower(X).compile()
    with pytest.raises(ValueError, match="layout"):
        compiled(jax.device_put(X, format_of(xpu, 2, 1, 0)))


def test_a_serialized_program_keeps_its_layouts(xpu: Any) -> None:
    wanted = format_of(xpu, 1, 2, 0)
    f = jax.jit(lambda x: x * 3, in_shardings=wanted, out_shardings=wanted)
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(f.lower(X).compile()), execution_devices=[xpu]
    )
    y = loaded(jax.device_put(X, wanted))
    assert order(y) == (1, 2, 0)
    np.testing.assert_array_equal(y, X * 3)


def test_tiles_are_refused_by_name(xpu: Any) -> None:
    tiled = Layout(major_to_minor=(0, 1), tiling=((8, 128),))
    with pytest.raises(jax.errors.JaxRuntimeError, match="tile"):
        jax.device_put(np.ones((16, 256)), Format(tiled, SingleDeviceSharding(xpu)))


def test_other_frameworks_get_a_copy(xpu: Any) -> None:
    y = jax.device_put(X, format_of(xpu, 2, 0, 1))
    np.testing.assert_array_equal(interop.to_numpy(y), X)
    pytest.importorskip("torch", reason="not in the environment that the wheel is tested in")
    np.testing.assert_array_equal(np.asarray(interop.to_torch(y)), X)
    with pytest.raises(ExchangeError, match="copy"):
        interop.to_torch(y, copy=False)
