"""Programs for the compiler's tests: of JAX (a name, a function and example arguments each), and a deep one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_rng = np.random.default_rng(7)


def _f(*dims: int) -> np.ndarray:
    return _rng.standard_normal(dims).astype(np.float32)


def _i(*dims: int, high: int = 10) -> np.ndarray:
    return _rng.integers(0, high, dims).astype(np.int32)


def layer_norm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gamma + beta


def mlp_loss(parameters, x, y):
    h = x
    for w, b in parameters[:-1]:
        h = jax.nn.gelu(h @ w + b)
    w, b = parameters[-1]
    logits = h @ w + b
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))


def _mlp():
    return [(_f(12, 16), _f(16)), (_f(16, 16), _f(16)), (_f(16, 5), _f(5))]


def adam_step(parameters, m, v, x, y):
    gradient = jax.grad(mlp_loss)(parameters, x, y)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, gradient)
    parameters = jax.tree.map(lambda p, a, b: p - 0.1 * a / (jnp.sqrt(b) + 1e-8), parameters, m, v)
    return parameters, m, v


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30))
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


def swap_loop(a, b, n):
    return lax.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1]), (a, b))


def rotate_loop(a, b, c):
    def body(s):
        i, x, y, z = s
        return i + 1, y, z, x

    return lax.while_loop(lambda s: s[0] < 4, body, (0, a, b, c))[1:]


def nested_loop(x):
    def inner(i, s):
        return s * 1.5 + i

    def outer(s):
        i, a, b = s
        return i + 1, lax.fori_loop(0, 3, inner, a) + b, a

    return lax.while_loop(lambda s: s[0] < 3, outer, (0, x, x * 2))


def lstm(xs, w, u, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], u.shape[0]))
    return lax.scan(step, (zero, zero), xs)[1]


def lstm_gradient(xs, w, u, b):
    return jax.grad(lambda *p: jnp.sum(lstm(xs, *p) ** 2), argnums=(0, 1, 2))(w, u, b)


def branches(i, x, y):
    return lax.switch(i, [lambda a, b: (a, b), lambda a, b: (a + b, a), lambda a, b: (b, a)], x, y)


def branches_that_move(p, q, x, y):
    """A branch's result waits for its move while parameters are moved to other results."""
    product = x @ y

    def keep(product, x, y):
        return product, x, y

    def swap(product, x, y):
        return product @ y, y, x

    a, b, c = lax.cond(p < q, keep, swap, product, x, y)
    return a @ b + b @ c


def branch_in_loop(x):
    def body(i, s):
        return lax.cond(i % 2 == 0, lambda a: a.at[i].add(1.0), lambda a: a * 2, s)

    return lax.fori_loop(0, 5, body, x)


def updates(x, u, i):
    y = x.at[i].set(u)
    z = y.at[i + 1].add(u * 2)
    return y, z, x.sum()


def cumulative(x):
    return jnp.cumsum(x), jnp.cumprod(x), lax.associative_scan(jnp.maximum, x)


def batch_norm(x, scale, offset):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset


def power_iteration(a, v):
    def body(s):
        i, v, _ = s
        w = a @ v
        n = jnp.linalg.norm(w)
        return i + 1, w / n, n

    return lax.while_loop(lambda s: s[0] < 5, body, (0, v, 0.0))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x, y: jnp.tanh(x * 2 + y), (_f(8), _f(8))),
    "identity": (lambda x: (x, x, 3.0, jnp.ones(4), x + 1), (_f(5),)),
    "broadcasts": (lambda x, y: (x[:, None] + y[None, :]) * x[:, None], (_f(6), _f(9))),
    "softmax": (lambda x: jax.nn.softmax(x), (_f(4, 7),)),
    "softmax_gradient": (jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum()), (_f(4, 7),)),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, axis=1), (_f(4, 7, 3),)),
    "layer_norm": (layer_norm, (_f(5, 16), _f(16), _f(16))),
    "layer_norm_gradient": (
        jax.grad(lambda *a: (layer_norm(*a) ** 2).sum(), argnums=(0, 1, 2)),
        (_f(5, 16), _f(16), _f(16)),
    ),
    "batch_norm": (batch_norm, (_f(2, 5, 5, 4), _f(4), _f(4))),
    "batch_norm_gradient": (
        jax.grad(lambda *a: (batch_norm(*a) ** 3).sum(), argnums=(0, 1, 2)),
        (_f(2, 5, 5, 4), _f(4), _f(4)),
    ),
    "mlp_gradient": (jax.grad(mlp_loss), (_mlp(), _f(8, 12), _i(8, high=5))),
    "adam": (adam_step, (_mlp(), _mlp(), jax.tree.map(np.abs, _mlp()), _f(8, 12), _i(8, high=5))),
    "attention": (attention, (_f(2, 2, 6, 4), _f(2, 2, 6, 4), _f(2, 2, 6, 4))),
    "attention_gradient": (
        jax.grad(lambda *a: (attention(*a) ** 2).sum(), argnums=(0, 1, 2)),
        (_f(2, 2, 6, 4), _f(2, 2, 6, 4), _f(2, 2, 6, 4)),
    ),
    "swap_loop": (swap_loop, (_f(3), _f(3), np.int32(5))),
    "rotate_loop": (rotate_loop, (_f(3), _f(3), _f(3))),
    "nested_loop": (nested_loop, (_f(4),)),
    "lstm": (lstm, (_f(5, 2, 3), _f(3, 16), _f(4, 16), _f(16))),
    "lstm_gradient": (lstm_gradient, (_f(5, 2, 3), _f(3, 16), _f(4, 16), _f(16))),
    "branches": (branches, (np.int32(2), _f(4), _f(4))),
    "branches_that_move": (
        branches_that_move,
        (np.int32(2), np.int32(3), _f(20, 20), _f(20, 20)),
    ),
    "branch_in_loop": (branch_in_loop, (_f(6),)),
    "updates": (updates, (_f(5, 3), _f(3), np.int32(1))),
    "cumulative": (cumulative, (_f(13),)),
    "power_iteration": (power_iteration, (_f(6, 6), _f(6))),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), x.max()), (_f(6, 9),)),
    "gather": (lambda x, i: x[i] * 2 + x[i + 1], (_f(12, 3), _i(7))),
    "scatter_add": (lambda x, i, u: (x.at[i].add(u), x), (_f(12, 3), _i(7), _f(7, 3))),
    "concatenate": (lambda x, y: jnp.concatenate([x * 2, jnp.exp(y), x]) + 1, (_f(3, 4), _f(2, 4))),
    "pad": (lambda x: jnp.pad(jnp.exp(x), ((1, 2), (0, 1)), constant_values=3), (_f(3, 4),)),
    "transposes": (lambda x: (x.T * 2 + 1).reshape(3, -1).T, (_f(6, 4),)),
    "integers": (lambda x, y: (x // y, x % y, x << 2, (x * 7) ^ y), (_i(9, high=90), _i(9, high=9) + 1)),
    "reductions": (lambda x: (x.sum(), x.sum(0), x.max(1), (x * x).sum(0), x.mean()), (_f(7, 5),)),
    "random": (lambda s: jax.random.normal(jax.random.wrap_key_data(s), (4, 5)), (np.array([1, 2], np.uint32),)),
    "convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (_f(2, 6, 5, 3), _f(3, 3, 3, 4)),
    ),
    "max_pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (_f(2, 4, 4, 3),),
    ),
    "bfloat16": (
        lambda x, y: jax.nn.softmax(x.astype(jnp.bfloat16) * 2) @ y.astype(jnp.bfloat16),
        (_f(4, 6), _f(6, 3)),
    ),
    "empty": (lambda x: (x[:, :0] * 2, x[:, :0].sum(), x.sum()), (_f(3, 4),)),
    "scalars": (lambda a, b: (jnp.exp(a) * b, a * b + 1, jnp.where(a > b, a, b)), (np.float32(1), np.float32(2))),
}  # fmt: skip


def stablehlo(name: str, donate: tuple[int, ...] = ()) -> bytes:
    """The program as StableHLO text."""
    function, arguments = PROGRAMS[name]
    with jax.enable_x64(False):
        lowered = (
            jax.jit(function, donate_argnums=donate, keep_unused=True)
            .trace(*arguments)
            .lower(lowering_platforms=("cpu",))
        )
    return str(lowered.compiler_ir("stablehlo")).encode()


def arguments_of(name: str) -> list[np.ndarray]:
    """The flat arguments."""
    return [np.asarray(a) for a in jax.tree.leaves(PROGRAMS[name][1])]


def expected(name: str) -> list[np.ndarray]:
    """What JAX's own CPU backend computes."""
    function, arguments = PROGRAMS[name]
    with jax.enable_x64(False), jax.default_device(jax.devices("cpu")[0]):
        return [np.asarray(r) for r in jax.tree.leaves(jax.jit(function)(*arguments))]


def nested_branches(depth: int) -> str:
    """StableHLO: a program whose branches have branches, ``depth`` deep."""
    lines = ["func.func public @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {"]
    lines += [f'%r{n} = "stablehlo.if"(%p) ({{' for n in range(depth)]
    lines.append("%y = stablehlo.add %x, %x : tensor<f32>")
    inner = "%y"
    for n in reversed(range(depth)):
        lines.append(
            f"stablehlo.return {inner} : tensor<f32> }}, {{ stablehlo.return %x : tensor<f32>"
        )
        lines.append("}) : (tensor<i1>) -> tensor<f32>")
        inner = f"%r{n}"
    lines.append(f"return {inner} : tensor<f32> }}")
    return "\n".join(lines)
