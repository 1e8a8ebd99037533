"""Single operations. Results go into a donated buffer, so that both devices reuse memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.harness import Step, benchmark

LARGE = (4 * 1024 * 1024,)


def reusing(function: Callable[..., Any], device: Any, *arguments: Any) -> Step:
    """A step that runs ``function(*arguments)`` into the buffer of its last result."""

    def with_buffer(out: Any, *arguments: Any) -> Any:
        return function(*arguments)

    compiled = jax.jit(with_buffer, donate_argnums=0, keep_unused=True)
    placed = [jax.device_put(a, device) for a in arguments]
    shape = jax.eval_shape(function, *placed)
    out = jax.device_put(np.zeros(shape.shape, shape.dtype), device)

    def step() -> None:
        nonlocal out
        out = compiled(out, *placed)
        out.block_until_ready()

    return step


def normal(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def small_array_program(device: Any) -> tuple[Any, Any]:
    return jax.jit(lambda x: x + 1), jax.device_put(np.zeros(8, np.float32), device)


@benchmark("jit(x + 1) on 8 floats, without waiting", target=1.0, calls=100)
def dispatch(device: Any) -> Step:
    function, x = small_array_program(device)

    def step() -> None:
        y = x
        for _ in range(100):
            y = function(x)
        y.block_until_ready()

    return step


@benchmark("jit(x + 1) on 8 floats, waiting for the result", target=1.0)
def blocking(device: Any) -> Step:
    function, x = small_array_program(device)
    return lambda: function(x).block_until_ready()


ELEMENTWISE = {
    "exp": (jnp.exp, 1, 1.5),
    "tanh": (jnp.tanh, 1, 1.5),
    "gelu": (jax.nn.gelu, 1, 1.5),
    "multiply_add": (lambda a, b, c: a * b + c, 3, 1.1),
}


def elementwise(function: Any, arity: int, device: Any) -> Step:
    return reusing(function, device, *[normal(LARGE) for _ in range(arity)])


for _name, (_function, _arity, _target) in ELEMENTWISE.items():
    benchmark(f"{_name} on 4M f32", target=_target, name=f"{_name}_4m")(
        functools.partial(elementwise, _function, _arity)
    )


@benchmark("f32 GEMM 1024", target=0.97)
def gemm_f32_1024(device: Any) -> Step:
    return reusing(jnp.dot, device, normal((1024, 1024)), normal((1024, 1024)))


@benchmark("bf16 GEMM 1024", target=2.0)
def gemm_bf16_1024(device: Any) -> Step:
    return reusing(
        jnp.dot, device, normal((1024, 1024), jnp.bfloat16), normal((1024, 1024), jnp.bfloat16)
    )


@benchmark("f32 GEMM 32")
def gemm_f32_32(device: Any) -> Step:
    return reusing(jnp.dot, device, normal((32, 32)), normal((32, 32)))


def convolution(x: Any, w: Any, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


@benchmark("convolution 3x3, f32 8x56x56x64", target=1.9)
def conv_3x3(device: Any) -> Step:
    return reusing(convolution, device, normal((8, 56, 56, 64)), normal((3, 3, 64, 64)))


@benchmark("depthwise convolution 3x3, f32 8x56x56x64", target=5.0)
def conv_depthwise(device: Any) -> Step:
    return reusing(
        functools.partial(convolution, groups=64),
        device,
        normal((8, 56, 56, 64)),
        normal((3, 3, 1, 64)),
    )


@benchmark("sum of rows, f32 4096x1024")
def row_sums(device: Any) -> Step:
    return reusing(lambda x: x.sum(1), device, normal((4096, 1024)))


@benchmark("softmax, f32 4096x1024")
def softmax(device: Any) -> Step:
    return reusing(lambda x: jax.nn.softmax(x, -1), device, normal((4096, 1024)))


@benchmark("layer normalisation, f32 4096x1024")
def layer_norm(device: Any) -> Step:
    def normalise(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)

    return reusing(normalise, device, normal((4096, 1024)))


@benchmark("sort of 1M f32")
def sort_1m(device: Any) -> Step:
    return reusing(jnp.sort, device, normal((1_000_000,)))


@benchmark("random.uniform, 4M")
def uniform_4m(device: Any) -> Step:
    key = jax.random.key_data(jax.random.key(0))
    return reusing(
        lambda k: jax.random.uniform(jax.random.wrap_key_data(k), LARGE), device, np.asarray(key)
    )


@benchmark("max pool 2x2, f32 8x56x56x64")
def max_pool(device: Any) -> Step:
    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    return reusing(pool, device, normal((8, 56, 56, 64)))
