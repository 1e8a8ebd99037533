"""Reductions with any body, cumulative operations, windows, pooling and its gradient."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.integration.comparison import Config, check
from tests.integration.tolerances import Accumulated, Exact, Normwise, Ulps


def total(name: str, function: Any, argument: str, terms: int) -> Config:
    """A sum: the magnitude is the same sum of absolute values."""
    return Config(name, function, [argument], Accumulated(terms, function))


REDUCE = [
    total("sum-all", jnp.sum, "f32[33,65]", 33 * 65),
    total("sum-all-large", jnp.sum, "f32[1000,700]", 700_000),
    total("sum-rows", lambda x: x.sum(1), "f32[33,650]", 650),
    total("sum-columns", lambda x: x.sum(0), "f32[330,65]", 330),
    total("sum-middle", lambda x: x.sum(1), "f32[5,33,7]", 33),
    total("sum-outer-two", lambda x: x.sum((0, 1)), "f32[5,33,7]", 165),
    total("sum-first-and-last", lambda x: x.sum((0, 2)), "f32[5,33,17]", 85),
    total("sum-keepdims", lambda x: x.sum(1, keepdims=True), "f32[33,65]", 65),
    total("sum-empty", lambda x: x.sum(0), "f32[0,5]", 1),
    total("sum-of-one", lambda x: x.sum(1), "f32[7,1]", 1),
    total("sum-vector", jnp.sum, "f32[100003]", 100_003),
    Config("sum-of-squares", lambda x: (x * x).sum(1), "f32[33,65]", Accumulated(66, lambda x: (x * x).sum(1))),
    Config("mean", lambda x: x.mean(0), "f32[33,65]", Accumulated(34, lambda x: x.mean(0))),
    Config("variance", lambda x: x.var(1), "f32[33,65]", Accumulated(140, lambda x: (x * x).mean(1) + 1)),
    Config("sum-s32", jnp.sum, "s32[33,65]"),
    Config("sum-u8", lambda x: x.sum(0, dtype=jnp.uint8), "u8[33,65]"),
    Config("sum-pred", jnp.sum, "pred[33,65]"),
    Config("sum-bf16", lambda x: x.sum(1), "bf16[33,65]", Accumulated(65, lambda x: x.sum(1))),
    Config("sum-f16", lambda x: x.sum(0), "f16[33,65]", Accumulated(33, lambda x: x.sum(0))),
    Config("sum-c64", lambda x: x.sum(0), "c64[33,65]", Accumulated(33, lambda x: x.sum(0))),
    Config("max", lambda x: x.max(1), "f32[33,65]"),
    Config("max-nan", lambda x: x.max(), "f32[33,65]:-9..9!"),
    Config("min", lambda x: x.min(0), "f32[33,65]"),
    Config("max-s32", lambda x: x.max(1), "s32[33,65]"),
    Config("max-bf16", lambda x: x.max(1), "bf16[33,65]"),
    Config("prod", lambda x: x.prod(1), "f32[33,20]:0.5..1.5", Ulps(40)),
    Config("prod-s32", lambda x: x.prod(1), "s32[33,20]:1..4"),
    Config("all-any", lambda x: (x.all(1), x.any(0)), "pred[33,65]"),
    Config("reduce-and-or-xor", lambda x: [
        lax.reduce(x, np.int32(init), op, (1,)) for op, init in
        ((lax.bitwise_and, -1), (lax.bitwise_or, 0), (lax.bitwise_xor, 0))], "s32[33,65]"),
    Config("argmax", lambda x: x.argmax(1), "f32[33,65]"),
    Config("argmax-ties", lambda x: x.argmax(1), "s32[33,65]:0..3"),
    Config("argmax-nan", lambda x: x.argmax(0), "f32[33,65]:-9..9!"),
    Config("argmin-all", lambda x: x.argmin(), "f32[33,65]"),
    Config("argmax-axis-0", lambda x: x.argmax(0), "f32[33,65]"),
    Config("reduce-own-body", lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.maximum(jnp.abs(a), jnp.abs(b)), (1,)),
           "f32[33,65]"),
    Config("reduce-two-operands", lambda x, y: lax.reduce(
        (x, y), (np.float32(-np.inf), np.int32(0)),
        lambda a, b: (jnp.maximum(a[0], b[0]), a[1] + b[1]), (1,)), "f32[33,65] s32[33,65]"),
    Config("softmax", lambda x: jax.nn.softmax(x, -1), "f32[33,65]:-5..5", Normwise(80)),
    Config("log-softmax", lambda x: jax.nn.log_softmax(x, 0), "f32[33,65]:-5..5", Normwise(80)),
    Config("softmax-bf16", lambda x: jax.nn.softmax(x, -1), "bf16[33,65]:-5..5", Normwise(4)),
    Config("logsumexp", lambda x: jax.nn.logsumexp(x, 1), "f32[33,65]:-50..50", Normwise(16)),
    Config("layer-norm", lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
           "f32[33,65]", Normwise(80)),
    Config("norm", lambda x: jnp.linalg.norm(x, axis=1), "f32[33,65]", Normwise(70)),
]  # fmt: skip

CUMULATIVE = [
    # Scans by halves: every element is a sum of at most all terms.
    Config(
        "cumsum",
        lambda x: jnp.cumsum(x, 1),
        "f32[33,65]",
        Accumulated(65, lambda x: jnp.cumsum(x, 1)),
    ),
    Config(
        "cumsum-axis-0",
        lambda x: jnp.cumsum(x, 0),
        "f32[330,5]",
        Accumulated(330, lambda x: jnp.cumsum(x, 0)),
    ),
    Config("cumsum-reverse", lambda x: lax.cumsum(x, 1, reverse=True), "s32[33,65]"),
    Config("cumsum-long", jnp.cumsum, "s32[10007]"),
    Config("cumprod", lambda x: jnp.cumprod(x, 1), "f32[33,20]:0.5..1.5", Ulps(60)),
    Config("cummax", lambda x: lax.cummax(x, 1), "f32[33,65]"),
    Config("cummin", lambda x: lax.cummin(x, 0), "f32[33,65]"),
    Config("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), "f32[33,65]", Normwise(200)),
    Config("associative-scan", lambda x: lax.associative_scan(jnp.maximum, x), "f32[65,3]"),
]


def pool(name: str, reducer: Any, argument: str, tolerance: Any = None, **options: Any) -> Config:
    return Config(f"pool-{name}", lambda x: reducer(x, **options), [argument], tolerance or Exact())


def window(
    name: str, init: Any, body: Any, argument: str, tolerance: Any = None, **options: Any
) -> Config:
    options = {"window_strides": None, "padding": "VALID"} | options
    rank = argument.count(",") + 1
    options["window_strides"] = options["window_strides"] or (1,) * rank
    return Config(
        f"window-{name}",
        lambda x: lax.reduce_window(x, init, body, **options),
        [argument],
        tolerance or Exact(),
    )


NINE = Accumulated(
    9, lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
)
WINDOWS = [
    pool("max", nn.max_pool, "f32[2,9,11,5]", window_shape=(2, 2), strides=(2, 2)),
    pool("max-overlapping", nn.max_pool, "f32[2,9,11,5]", window_shape=(3, 3), strides=(2, 2), padding="SAME"),
    pool("max-bf16", nn.max_pool, "bf16[2,9,11,5]", window_shape=(3, 3), strides=(1, 1)),
    pool("avg", nn.avg_pool, "f32[2,9,11,5]", NINE, window_shape=(3, 3), strides=(2, 2), padding="SAME"),
    window("sum", 0.0, lax.add, "f32[7,9]", Accumulated(6, lambda x: lax.reduce_window(
        x, 0.0, lax.add, (2, 3), (1, 1), "VALID")), window_dimensions=(2, 3)),
    window("min-padded", np.float32(np.inf), lax.min, "f32[7,9]", window_dimensions=(3, 3), padding=((2, 1), (0, 2))),
    window("dilated", -np.inf, lax.max, "f32[9,9]", window_dimensions=(3, 2), window_dilation=(2, 3)),
    window("base-dilated", -np.inf, lax.max, "f32[5,5]", window_dimensions=(3, 2), base_dilation=(2, 3)),
    window("s32", np.int32(0), lax.add, "s32[7,9]", window_dimensions=(3, 3), window_strides=(2, 2)),
    window("own-body", np.float32(0), lambda a, b: jnp.maximum(a, jnp.abs(b)), "f32[7,9]", window_dimensions=(3, 3)),
    Config("max-pool-gradient", jax.grad(lambda x: (nn.max_pool(x, (2, 2), (2, 2)) ** 2).sum()), "f32[2,8,10,5]", Ulps(2)),
    Config("max-pool-gradient-overlapping", jax.grad(lambda x: nn.max_pool(x, (3, 3), (2, 2), "SAME").sum()),
           "f32[2,9,11,5]", Ulps(4)),
    Config("avg-pool-gradient", jax.grad(lambda x: (nn.avg_pool(x, (3, 3), (2, 2)) ** 2).sum()), "f32[2,9,11,5]",
           Normwise(32)),
    Config("pool-then-add", lambda x, s: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID") + s,
           "f32[8,8] f32[4,4]"),
]  # fmt: skip

ALL = REDUCE + CUMULATIVE + WINDOWS


@pytest.mark.parametrize("config", ALL, ids=str)
def test_reduce_and_window(config: Config, xpu: Any, cpu: Any) -> None:
    check(config, xpu, cpu)
