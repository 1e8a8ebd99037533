"""What JAX offers around programs: many arguments, large constants, deep nesting, donation of every dtype, analyses."""

from __future__ import annotations

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

DTYPES = [
    "bool",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float4_e2m1fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


def test_five_hundred_arguments_and_results(xpu):
    values = [jax.device_put(np.float32(n), xpu) for n in range(500)]
    results = jax.jit(lambda *a: [x + n for n, x in enumerate(a)])(*values)
    assert [float(r) for r in results] == [2.0 * n for n in range(500)]


def test_a_constant_of_a_hundred_megabytes(xpu):
    big = np.arange(25_000_000, dtype=np.int32)
    x = jax.device_put(np.int32(3), xpu)
    assert int(jax.jit(lambda x: jnp.max(jnp.asarray(big) * x))(x)) == 3 * (25_000_000 - 1)


@pytest.mark.parametrize("depth", [1, 60])
def test_conditionals_in_conditionals(xpu, depth):
    def nested(n):
        if n == 0:
            return lambda y: y * 2
        return lambda y: lax.cond(y > n, nested(n - 1), lambda z: z - 1, y)

    function = jax.jit(nested(depth))
    assert float(function(jax.device_put(np.float32(100), xpu))) == 200
    assert float(function(jax.device_put(np.float32(depth), xpu))) == depth - 1


def test_loops_in_loops(xpu):
    def nested(n):
        if n == 0:
            return lambda y: y + 1
        return lambda y: lax.fori_loop(0, 2, lambda _, z: nested(n - 1)(z), y)

    assert int(jax.jit(nested(12))(jax.device_put(np.int32(0), xpu))) == 2**12


@pytest.mark.parametrize("name", DTYPES)
def test_donation_of_every_dtype(xpu, name):
    """A donated argument is gone, and an elementwise result is in its place."""
    x = jax.device_put(np.ones((8, 16), jnp.dtype(name)), xpu)
    place = x.unsafe_buffer_pointer()
    result = jax.jit(lambda x: jnp.where(x == x, x, x), donate_argnums=0)(x)
    assert x.is_deleted()
    assert result.unsafe_buffer_pointer() == place
    np.testing.assert_array_equal(np.asarray(result), np.ones((8, 16), jnp.dtype(name)))
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_without_elements(xpu, name):
    x = jax.device_put(np.zeros((0, 5), jnp.dtype(name)), xpu)
    assert jax.jit(lambda x: x.T)(x).shape == (5, 0)
    assert jax.jit(lambda x: jnp.concatenate([x, jnp.ones((2, 5), x.dtype)]))(x).shape == (2, 5)


def test_sums_and_sorts_without_elements(xpu):
    x = jax.device_put(np.zeros((0, 5), np.float32), xpu)
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.sum(x, 0))(x), np.zeros(5))
    np.testing.assert_array_equal(jax.jit(lambda x: x.T @ x)(x), np.zeros((5, 5)))
    assert jax.jit(lambda x: jnp.sort(x, 0))(x).shape == (0, 5)


def test_weak_types(xpu):
    with jax.default_device(xpu):
        assert jax.jit(lambda x: x + 1)(jnp.bfloat16(1)).dtype == jnp.bfloat16
        assert jax.jit(lambda x: x * 2.5)(jnp.int32(1)).dtype == jnp.float32


@pytest.mark.parametrize("x64", [False, True])
def test_promotion_follows_x64(xpu, x64):
    with jax.enable_x64(x64), jax.default_device(xpu):
        result = jax.jit(lambda: jnp.arange(3) / 2)()
        assert result.dtype == (jnp.float64 if x64 else jnp.float32)
        np.testing.assert_array_equal(result, [0.0, 0.5, 1.0])


def test_debug_nans(xpu):
    x = jax.device_put(np.float32(-1), xpu)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jax.jit(jnp.log)(x)


def test_log_compiles(xpu, caplog):
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        jax.jit(lambda x: x * 3 - 7)(jax.device_put(np.float32(1), xpu))
    assert any("Finished XLA compilation" in r.getMessage() for r in caplog.records)


def test_cost_analysis_before_compiling(xpu, cpu):
    """What flax's tabulate(compute_flops=True) asks for: JAX refuses it to plugins."""
    costs = []
    for device in (xpu, cpu):
        with jax.default_device(device):
            lowered = jax.jit(lambda x: jnp.tanh(x @ x)).lower(jnp.ones((64, 64)))
        costs.append(lowered.cost_analysis())
    assert costs[0]["flops"] >= 2 * 64**3
    assert costs[0] == costs[1]


def test_analyses_of_a_compiled_program(xpu):
    x = jax.device_put(np.ones((64, 64), np.float32), xpu)
    compiled = jax.jit(lambda x: jnp.tanh(x @ x)).lower(x).compile()
    assert compiled.cost_analysis()["flops"] >= 2 * 64**3
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 64 * 64 * 4
    assert memory.generated_code_size_in_bytes > 0
    assert "f32[64,64]" in compiled.as_text()


def test_checkpoint_and_custom_derivatives(xpu):
    @jax.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))

    @jax.custom_jvp
    def doubled(x):
        return 2 * x

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), 5 * tangents[0]))
    x = jax.device_put(np.float32(3), xpu)
    assert float(jax.jit(jax.grad(lambda x: 10 * clipped(x)))(x)) == 1
    assert float(jax.jit(jax.grad(doubled))(x)) == 5
    plain = jax.jit(jax.grad(lambda x: jnp.sin(jnp.sin(x))))(x)
    assert float(jax.jit(jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))))(x)) == plain


def test_excess_precision_can_be_refused(xpu):
    """f16 is computed in f32 inside kernels, as XLA may too, but not if it is told not to."""
    x = jnp.float32([3.00001])
    lowered = jax.jit(lambda x: jnp.sqrt(x.astype(jnp.float16)).astype(jnp.float32)).lower(x)
    exact = lowered.compile(compiler_options={"xla_allow_excess_precision": False})
    assert float(exact(x)[0]) == np.float32(np.sqrt(np.float16(3)))
    assert float(lowered.compile()(x)[0]) == np.sqrt(np.float32(3))
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_allow_excess_precision"):
        lowered.compile(compiler_options={"xla_allow_excess_precision": "perhaps"})
