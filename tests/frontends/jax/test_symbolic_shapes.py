"""Programs that jax.export made for sizes that were not known, called with several sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

Function = Callable[[jax.Array], Any]

_MOVES: Final[dict[str, Function]] = {
    "the last two": lambda x: x[-2:],
    "every other": lambda x: x[::2],
    "reversed": lambda x: x[::-1],
    "roll": lambda x: jnp.roll(x, -1, 0),
    "concatenate": lambda x: jnp.concatenate([x, x, x[:1]]),
    "repeat": lambda x: jnp.repeat(x, 2, 0),
    "reflected": lambda x: jnp.pad(x, ((1, 1), (0, 0)), mode="reflect"),
    "reshape": lambda x: x.reshape(x.shape[0], 2, -1),
    "take": lambda x: jnp.take(x, jnp.arange(x.shape[0])[::-1], axis=0),
    "negative indices": lambda x: x[jnp.array([-1, -2])],
    "update": lambda x: x.at[1:].add(x[:-1]),
    "dynamic slice": lambda x: jax.lax.dynamic_slice(x, (x.shape[0] - 2, 0), (2, 4)),
    "halves": lambda x: jnp.zeros(x.shape[0] // 2) + x.shape[0] % 3,
    "nonzero": lambda x: jnp.nonzero(x[:, 0] > 0, size=x.shape[0], fill_value=-1)[0],
    "identity": lambda x: jnp.eye(x.shape[0]),
    "one_hot": lambda x: jax.nn.one_hot(jnp.arange(x.shape[0]), x.shape[0]),
}
_NUMBERS: Final[dict[str, Function]] = {
    "mean": lambda x: x.mean(),
    "variance": lambda x: x.var(0),
    "products": lambda x: (x @ x.T, x.T @ x),
    "softmax": lambda x: jax.nn.softmax(x, 0),
    "sort": lambda x: (jnp.sort(x, 0), x.argmax(0)),
    "cumsum": lambda x: jax.lax.cumsum(x, 0, reverse=True),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.arange(x.shape[0]) % 2, 2),
    "scan": lambda x: jax.lax.scan(lambda c, a: (c + a, c), jnp.zeros(4), x),
    "loop": lambda x: jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(4)),
    "convolution": lambda x: jax.lax.conv_general_dilated(
        x[None, None], jnp.ones((1, 1, 3, 2)), (2, 1), "SAME"
    ),
    "window": lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 2), (2, 1), "SAME"),
    "top_k": lambda x: jax.lax.top_k(x.T, 2),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 10 * jnp.eye(x.shape[0])),
    "bits": lambda x: jax.random.bits(jax.random.key(0), x.shape),
    "gradient": jax.grad(lambda x: (jnp.concatenate([x[-2:], x]) ** 2).mean()),
    "normal": lambda x: jax.random.normal(jax.random.key(0), x.shape),
    "erf_inv": lambda x: jax.lax.erf_inv(x / 4),
    "lgamma": lambda x: jax.lax.lgamma(abs(x) + 1),
    "igamma": lambda x: jax.lax.igamma(abs(x) + 1, abs(x)),
}


@pytest.mark.parametrize("group", [_MOVES, _NUMBERS], ids=["moves", "numbers"])
def test_every_size(group: dict[str, Function]) -> None:
    every = jax.jit(lambda x: {name: f(x) for name, f in group.items()})
    (rows,) = export.symbolic_shape("rows", constraints=["rows >= 2"])
    argument = jax.ShapeDtypeStruct((rows, 4), jnp.float32)
    exported = export.export(every, platforms=["xpu"])(argument)
    again = export.deserialize(exported.serialize())
    for size in (5, 2):
        x = np.random.default_rng(size).uniform(-1, 1, (size, 4)).astype(np.float32)
        with jax.default_device(jax.devices("cpu")[0]):
            expected = every(x)
        actual = again.call(jax.device_put(x, jax.devices("xpu")[0]))
        for name in group:
            jax.tree.map(
                lambda a, e, case=f"{name} of {size} rows": np.testing.assert_allclose(
                    a, e, rtol=1e-4, atol=1e-5, err_msg=case
                ),
                actual[name],
                expected[name],
            )
