"""Attention as users of JAX write it, in every order of dimensions, with masks, biases, factors and dropout.

The compiler makes one kernel of a softmax between two products, forward and backward, where the pattern holds exactly.
Some of these functions are nearly attention, and must take the general way. Lengths lie around those of the kernel's
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

_LENGTHS: Final = [
    1,
    2,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    100,
    127,
    128,
    129,
    200,
    256,
    257,
]
_DEPTHS: Final = [1, 3, 4, 8, 15, 16, 17, 24, 32, 40, 64, 80, 96, 128]
_SCORES: Final = 60_000  # of a program at most
_DTYPES: Final = ["float32", "float32", "float32", "bfloat16", "float16", "float64"]


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def softmax_of_torch(s: Array, axis: int) -> Array:
    """PyTorch's softmax of scores: 0 where all of them are -inf. Its derivative is computed from the weights."""
    empty = (s == -jnp.inf).all(axis, keepdims=True)
    return jnp.where(empty, jnp.zeros((), s.dtype), jax.nn.softmax(s, axis))


def _forward(s: Array, axis: int) -> tuple[Array, Array]:
    weights = softmax_of_torch(s, axis)
    return weights, weights


def _backward(axis: int, weights: Array, slopes: Array) -> tuple[Array]:
    return (weights * (slopes - (slopes * weights).sum(axis, keepdims=True)),)


softmax_of_torch.defvjp(_forward, _backward)


class Attention:
    """One attention of ``heads`` heads, by the numbers that were drawn for it; ``arguments`` are queries, keys, values
    and what it reads besides.
    """

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        choose = self.chances.choice
        self.dtype = jnp.dtype(choose(_DTYPES))
        self.batch, self.heads = choose([1, 1, 2, 3]), choose([1, 2, 4])
        room = _SCORES // (self.batch * self.heads)
        self.queries = choose([n for n in _LENGTHS if n <= room])
        self.keys = choose([n for n in _LENGTHS if n * self.queries <= room])
        self.depth, self.columns = choose(_DEPTHS), choose(_DEPTHS)
        self.groups = (
            choose([1, 1, 2, self.heads]) if self.heads > 1 else 1
        )  # queries' heads for one of keys
        self.arguments: list[np.ndarray] = []

    def new(self, shape: Sequence[int], dtype: Any = None, *, whole: int = 0) -> int:
        """The number of a new argument of random numbers; of whole ones from 0 on, below ``whole``."""
        values = self.rng.integers(0, whole, shape) if whole else self.rng.standard_normal(shape)
        self.arguments.append(np.asarray(values).astype(dtype or self.dtype))
        return len(self.arguments) - 1

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def scored_dims(self) -> tuple[int, ...]:
        """Some of the dimensions of the scores, [batch, head, query, key]: those of a mask or a bias."""
        whole = (self.batch, self.heads, self.queries, self.keys)
        return tuple(n if self.chances.random() < 0.6 else 1 for n in whole[:3]) + whole[3:]

    def positions(self) -> tuple[Array, Array]:
        """Those of queries, which end where the keys do or begin where they do, and of keys."""
        q = lax.broadcasted_iota(jnp.int32, (self.queries, self.keys), 0)
        k = lax.broadcasted_iota(jnp.int32, (self.queries, self.keys), 1)
        return q + self.choose(0, self.keys - self.queries), k

    def mask(self) -> Callable[[Sequence[Array]], Array]:
        """What is true where a query looks at a key; some have no key."""
        kind = self.choose("causal", "causal", "local", "length", "given", "segments")
        if kind == "causal":
            q, k = self.positions()
            return lambda given: q >= k
        if kind == "local":
            q, k = self.positions()
            width = self.choose(0, 1, 4, 17)
            return lambda given: (q >= k) & (q - k <= width)
        if kind == "length":
            lengths = self.new((self.batch, 1, 1, 1), np.int32, whole=self.keys + 1)
            return lambda given: jnp.arange(self.keys) < given[lengths]
        if kind == "given":
            at = self.new(self.scored_dims(), np.int32, whole=4)
            return lambda given: given[at] > 0
        of_queries = self.new((self.batch, 1, self.queries, 1), np.int32, whole=3)
        of_keys = self.new((self.batch, 1, 1, self.keys), np.int32, whole=3)
        return lambda given: given[of_queries] == given[of_keys]

    def change(self) -> Callable[[Array, Sequence[Array]], Array]:
        """Something that is done to the scores."""
        kind = self.choose("scale", "mask", "mask", "bias", "slope", "cap", "as f32")
        if kind == "scale":
            factor = self.choose(self.depth**-0.5, 0.3, 2.0)
            return self.choose(
                lambda s, given: s * jnp.asarray(factor, s.dtype),
                lambda s, given: s / jnp.asarray(1 / factor, s.dtype),
            )
        if kind == "mask":
            mask = self.mask()
            least = self.choose(-1e4, -np.inf, "least")
            added = self.chances.random() < 0.3

            def masked(s: Array, given: Sequence[Array]) -> Array:
                low = jnp.finfo(s.dtype).min if least == "least" else least
                low = jnp.asarray(low, s.dtype)
                if added:
                    return s + jnp.where(mask(given), jnp.zeros((), s.dtype), low)
                return jnp.where(mask(given), s, low)

            return masked
        if kind == "bias":
            at = self.new(self.scored_dims(), self.choose(None, "float32"))
            return lambda s, given: s + given[at].astype(s.dtype)
        if kind == "slope":
            q, k = self.positions()
            at = self.new((self.heads, 1, 1))
            return lambda s, given: (
                s - (given[at] * jnp.abs(q - k).astype(self.dtype)).astype(s.dtype)
            )
        if kind == "cap":
            return lambda s, given: (jnp.tanh(s / 4) * 4).astype(s.dtype)
        return lambda s, given: s.astype(jnp.promote_types(s.dtype, jnp.float32))

    def softmax(self) -> Callable[[Array], Array]:
        """A softmax, as libraries and as people write it, and what is nearly one."""
        last = self.chances.random() < 0.92
        axis = -1 if last else -2

        def by_hand(s: Array) -> Array:
            e = jnp.exp(s - lax.stop_gradient(s.max(axis, keepdims=True)))
            return e / e.sum(axis, keepdims=True)

        def one_more(s: Array) -> Array:  # softmax1: a key of score 0 that has no value
            top = jnp.maximum(s.max(axis, keepdims=True), 0)
            e = jnp.exp(s - top)
            return e / (e.sum(axis, keepdims=True) + jnp.exp(-top))

        # float16 has no exponentials below that of -17: a sum of them is 0, and a quotient NaN, where the compiler may
        # compute in float32, as XLA does.
        least = -8.0 if self.dtype == jnp.float16 else -jnp.inf

        def without_maximum(s: Array) -> Array:
            e = jnp.exp(jnp.clip(s, least, 5))
            return e / e.sum(axis, keepdims=True)

        def usual(s: Array) -> Array:
            return jax.nn.softmax(s, axis)

        def guarded(s: Array) -> Array:
            return softmax_of_torch(s, axis)

        return self.choose(
            usual, usual, usual, by_hand, by_hand, one_more, without_maximum, guarded, guarded
        )

    def after(self) -> Callable[[Array, Sequence[Array]], Array]:
        """Something that is done to the weights."""
        kind = self.choose("none", "none", "none", "dropout", "zeroed", "not linear")
        if kind == "dropout":
            at = self.new((self.batch, self.heads, self.queries, self.keys), np.int32, whole=5)
            return lambda p, given: jnp.where(
                given[at] > 0, p / jnp.asarray(0.8, p.dtype), 0
            ).astype(p.dtype)
        if kind == "zeroed":  # rows without a key
            mask = self.mask()
            return lambda p, given: jnp.where(mask(given), p, 0)
        if kind == "not linear":
            return lambda p, given: jnp.maximum(p, jnp.asarray(0.1, p.dtype))
        return lambda p, given: p

    def written_out(self) -> Callable[..., Array]:
        """Two products around a softmax."""
        kv = self.heads // self.groups
        q_order, k_order, v_order = (self.choose("bnhd", "bhnd", "hbnd", "nbhd") for _ in range(3))
        out_order = self.choose("bnhd", "bhnd", "nbhd", "b(n)hd")
        sizes = {"b": self.batch, "d": self.depth}
        q = self.new([{**sizes, "n": self.queries, "h": self.heads}[c] for c in q_order])
        k = self.new([{**sizes, "n": self.keys, "h": kv}[c] for c in k_order])
        v = self.new([{**sizes, "n": self.keys, "h": kv, "d": self.columns}[c] for c in v_order])
        first = [self.change() for _ in range(self.choose(0, 1, 1, 2, 3))]
        softmax, after = self.softmax(), self.after()
        scaled_before, wide = self.chances.random() < 0.3, self.chances.random() < 0.3
        result = jnp.promote_types(self.dtype, jnp.float32) if wide else None
        returns_weights = self.chances.random() < 0.08
        # Batches and heads are one dimension, as in PyTorch's bmm.
        joined = self.chances.random() < 0.3 and not wide

        def apply(*given: Array) -> Array:
            query, key, value = given[q], given[k], given[v]
            if scaled_before:
                query = query * jnp.asarray(self.depth**-0.5, self.dtype)
            if self.groups > 1:
                key = jnp.repeat(key, self.groups, axis=k_order.index("h"))
                value = jnp.repeat(value, self.groups, axis=v_order.index("h"))
            letters = {"q": q_order.replace("n", "q"), "k": k_order.replace("n", "k")}
            whole = (self.batch, self.heads, self.queries, self.keys)

            def join(x: Array, order: str) -> Array:
                x = jnp.einsum(f"{order}->bhnd", x)
                return x.reshape(-1, *x.shape[2:])

            if joined:
                s = join(query, q_order) @ join(key, k_order).swapaxes(1, 2)
                s = s.reshape(whole)
            else:
                s = jnp.einsum(
                    f"{letters['q']},{letters['k']}->bhqk",
                    query,
                    key,
                    preferred_element_type=result,
                )
            for change in first:
                s = change(s, given)
            p = after(softmax(s), given).astype(self.dtype)
            columns = v_order.replace("n", "k").replace("d", "c")
            to = out_order.replace("(n)", "n").replace("n", "q").replace("d", "c")
            if joined:
                y = p.reshape(-1, *whole[2:]) @ join(value, v_order)
                y = jnp.einsum(f"bhqc->{to}", y.reshape(*whole[:3], self.columns))
            else:
                y = jnp.einsum(f"bhqk,{columns}->{to}", p, value)
            if "(" in out_order:  # heads side by side
                y = y.reshape(self.batch, self.queries, -1)
            return (y, p.max(-1)) if returns_weights else y

        return apply

    def of_library(self) -> Callable[..., Array]:
        """``jax.nn.dot_product_attention``."""
        kv = self.heads // self.groups
        q = self.new((self.batch, self.queries, self.heads, self.depth))
        k = self.new((self.batch, self.keys, kv, self.depth))
        v = self.new((self.batch, self.keys, kv, self.depth))
        named: dict[str, int] = {}
        if self.chances.random() < 0.3:
            named["bias"] = self.new(self.scored_dims())
        if self.chances.random() < 0.3:
            named["mask"] = self.new(self.scored_dims(), np.bool_, whole=2)
        if self.chances.random() < 0.3:
            named["key_value_seq_lengths"] = self.new((self.batch,), np.int32, whole=self.keys + 1)
        if self.chances.random() < 0.2:
            named["query_seq_lengths"] = self.new((self.batch,), np.int32, whole=self.queries + 1)
        options = {
            "is_causal": self.chances.random() < 0.4,
            "local_window_size": self.choose(None, None, None, 3, (5, 2)),
            "scale": self.choose(None, 0.2),
        }

        def apply(*given: Array) -> Array:
            arrays = {name: given[n] for name, n in named.items()}
            return jax.nn.dot_product_attention(given[q], given[k], given[v], **arrays, **options)

        return apply


def make(seed: int) -> Case:
    """An attention as JAX lowers it, or its gradients."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    attention = Attention(seed)
    # JAX lowers its own of float16 for GPUs alone.
    of_library = attention.dtype != jnp.float16 and attention.chances.random() < 0.25
    apply = attention.of_library() if of_library else attention.written_out()
    arguments = attention.arguments
    function = apply
    if attention.chances.random() < 0.4:
        which = attention.choose((0,), (1,), (2,), (0, 1, 2), (1, 2))
        shapes = jax.tree.leaves(jax.eval_shape(apply, *arguments))
        towards = [attention.new(s.shape, s.dtype) for s in shapes]

        def function(*given: Array) -> list[Array]:
            def of_some(*some: Array) -> Array:
                whole = list(given)
                for n, a in zip(which, some, strict=True):
                    whole[n] = a
                return apply(*whole)

            made, back = jax.vjp(of_some, *[given[n] for n in which])
            cotangents = jax.tree.unflatten(jax.tree.structure(made), [given[n] for n in towards])
            return list(back(cotangents))

    text = lowered(function, arguments, ())
    return Case(text, arguments, exact=False)
