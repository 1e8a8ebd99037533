"""Whole attention layers as models have them: projections to heads, in one matrix or several, positions that rotate
queries and keys, a cache of keys and values, heads that are joined again, and a projection behind; in a loop over
layers or tokens, and the gradients of the weights.

The compiler finds attention among what splits, turns and joins heads around it. Heads are few or many, lie in every
order in the projections, and share keys; caches are written at a place that is known when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

_LENGTHS: Final = [1, 2, 5, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 100, 128, 129]
_DEPTHS: Final = [2, 4, 8, 12, 16, 24, 32, 64]
_HEADS: Final = [1, 2, 3, 4, 6, 8]
_SCORES: Final = 30_000  # of a layer at most
_WEIGHTS: Final = 40_000  # numbers of a projection at most
_DTYPES: Final = ["float32", "float32", "float32", "float32", "bfloat16", "float64"]


class Layer:
    """An attention layer, by the numbers that were drawn for it. ``arguments``: its input, its weights by name."""

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        choose = self.chances.choice
        self.dtype = jnp.dtype(choose(_DTYPES))
        self.batch, self.heads, self.depth = choose([1, 1, 2, 3]), choose(_HEADS), choose(_DEPTHS)
        self.groups = choose([g for g in (1, 1, 2, 3, self.heads) if self.heads % g == 0])
        self.kv = self.heads // self.groups
        width = self.heads * self.depth
        self.width = choose([w for w in (width, width, 16, 33, 64) if w * width <= _WEIGHTS] or [8])
        room = _SCORES // (self.batch * self.heads)
        self.cached = self.chance(0.35)
        self.queries = choose(
            [1, 1, 1, 2, 5] if self.cached else [n for n in _LENGTHS if n * n <= room]
        )
        self.keys = self.queries
        if self.cached:
            fits = [n for n in _LENGTHS if self.queries <= n and n * self.queries <= room]
            self.keys = choose(fits)
        self.projected = choose(["one", "one", "of heads", "three"])
        self.order = choose(["bnhd", "bhnd", "joined"])
        self.cache_order = choose(["bnhd", "bhnd"])
        self.rotates = choose(["no", "no", "halves", "pairs"])
        self.normed, self.biased, self.residual = (self.chance(0.25) for _ in range(3))
        self.grouped = choose(["repeat", "einsum", "broadcast"])
        self.scaled = choose(["queries", "scores", "scores", "no"])
        self.causal = self.cached or self.chance(0.5)
        self.least = choose([-1e9, -np.inf, "least"])
        self.wide = self.chance(0.25) and self.dtype.itemsize < 4

    def chance(self, share: float) -> bool:
        return self.chances.random() < share

    def weights(self, lead: tuple[int, ...] = ()) -> dict[str, np.ndarray]:
        """The matrices and vectors, ``lead`` in front of their dimensions."""
        q, kv, w = self.heads * self.depth, self.kv * self.depth, self.width
        shapes: dict[str, tuple[int, ...]] = {"out": (q, w)}
        if self.projected == "one":
            shapes["qkv"] = (w, q + 2 * kv)
        elif self.projected == "of heads" and self.groups == 1:
            shapes["qkv"] = (w, self.heads, 3, self.depth)
        else:
            shapes |= {"q": (w, q), "k": (w, kv), "v": (w, kv)}
        if self.biased:
            shapes["bias"] = (w,)
        if self.normed:
            shapes |= {"norm_q": (self.depth,), "norm_k": (self.depth,)}
        return {name: self.new((*lead, *shape), len(shape) > 1) for name, shape in shapes.items()}

    def new(self, shape: tuple[int, ...], scaled: bool = False) -> np.ndarray:
        values = self.rng.standard_normal(shape)
        if scaled:  # so that what comes out is about as large as what goes in
            values = values / np.sqrt(self.width)
        return np.asarray(values).astype(self.dtype)

    def project(self, x: Array, w: dict[str, Array]) -> list[Array]:
        """Queries, keys and values, [batch, position, head, depth]."""
        q, kv = self.heads * self.depth, self.kv * self.depth
        if "qkv" not in w:
            parts = [x @ w[name] for name in "qkv"]
        elif w["qkv"].ndim == 2:
            parts = jnp.split(x @ w["qkv"], [q, q + kv], -1)
        else:
            made = jnp.einsum("bnw,whtd->bnhtd", x, w["qkv"])
            return [made[..., i, :] for i in range(3)]
        return [p.reshape(*x.shape[:2], -1, self.depth) for p in parts]

    def turned(self, x: Array, positions: Array) -> Array:
        """``x`` with pairs of its depth rotated by its positions."""
        if self.rotates == "no":
            return x
        rates = jnp.asarray(100.0 ** -np.linspace(0, 1, self.depth // 2), self.dtype)
        angles = positions.astype(self.dtype)[:, None, None] * rates
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        if self.rotates == "halves":
            a, b = jnp.split(x, 2, -1)
            return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        a, b = x[..., ::2], x[..., 1::2]
        return jnp.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)

    def norm(self, x: Array, w: dict[str, Array], name: str) -> Array:
        if name not in w:
            return x
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return (wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-3)).astype(x.dtype) * w[
            name
        ]

    def attend(self, q: Array, k: Array, v: Array, first: Array) -> Array:
        """The joined heads, [batch, position, head * depth]. ``first``: the position of the first query."""
        if self.groups > 1 and self.grouped != "einsum":
            spread = self.repeated if self.grouped == "repeat" else self.broadcast
            k, v = spread(k), spread(v)
        if self.scaled == "queries":
            q = q * jnp.asarray(self.depth**-0.5, q.dtype)
        result = jnp.float32 if self.wide else None
        groups = k.shape[2] != q.shape[2]
        if groups:
            q = q.reshape(*q.shape[:2], self.kv, self.groups, self.depth)
            s = jnp.einsum("bqhgd,bkhd->bhgqk", q, k, preferred_element_type=result)
        elif self.order == "bnhd":
            s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=result)
        else:
            q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
            if self.order == "joined":
                q, k, v = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
            s = jnp.matmul(q, jnp.swapaxes(k, -1, -2), preferred_element_type=result)
        if self.scaled == "scores":
            s = s * jnp.asarray(self.depth**-0.5, s.dtype)
        if self.causal:
            at = first + lax.broadcasted_iota(jnp.int32, (self.queries, self.keys), 0)
            seen = lax.broadcasted_iota(jnp.int32, (self.queries, self.keys), 1) <= at
            least = jnp.finfo(s.dtype).min if self.least == "least" else self.least
            s = jnp.where(seen, s, jnp.asarray(least, s.dtype))
        p = jax.nn.softmax(s, -1).astype(self.dtype)
        if groups:
            y = jnp.einsum("bhgqk,bkhd->bqhgd", p, v)
        elif self.order == "bnhd":
            y = jnp.einsum("bhqk,bkhd->bqhd", p, v)
        else:
            y = (
                (p @ v)
                .reshape(self.batch, self.heads, self.queries, self.depth)
                .transpose(0, 2, 1, 3)
            )
        return y.reshape(self.batch, self.queries, -1)

    def repeated(self, x: Array) -> Array:
        return jnp.repeat(x, self.groups, 2)

    def broadcast(self, x: Array) -> Array:
        dims = (*x.shape[:3], self.groups, self.depth)
        return jnp.broadcast_to(x[:, :, :, None], dims).reshape(*x.shape[:2], -1, self.depth)

    def apply(
        self, x: Array, w: dict[str, Array], caches: list[Array], first: Array
    ) -> tuple[Array, list[Array]]:
        """What comes out, and the caches with the keys and values of ``x`` from the position ``first`` on."""
        q, k, v = self.project(x, w)
        at = first + jnp.arange(self.queries)
        q, k = self.norm(q, w, "norm_q"), self.norm(k, w, "norm_k")
        q, k = self.turned(q, at), self.turned(k, at)
        if caches:
            of_heads = self.cache_order == "bhnd"
            written = []
            for cache, new in zip(caches, (k, v), strict=True):
                new = new.transpose(0, 2, 1, 3) if of_heads else new
                axis = 2 if of_heads else 1
                written.append(lax.dynamic_update_slice_in_dim(cache, new, first, axis))
            k, v = (c.transpose(0, 2, 1, 3) if of_heads else c for c in written)
            caches = written
        y = self.attend(q, k, v, first) @ w["out"]
        if "bias" in w:
            y = y + w["bias"]
        return (x + y if self.residual else y), caches

    def caches(self, lead: tuple[int, ...] = ()) -> list[np.ndarray]:
        dims = (self.batch, self.keys, self.kv, self.depth)
        if self.cache_order == "bhnd":
            dims = (self.batch, self.kv, self.keys, self.depth)
        return [self.new((*lead, *dims)) for _ in range(2)]

    def input(self) -> np.ndarray:
        return self.new((self.batch, self.queries, self.width))


def _with_caches(layer: Layer) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A step of decoding, or some of them in a loop; places behind the end of the cache are moved back."""
    weights, steps = layer.weights(), layer.chances.choice([0, 0, 2, 3])
    first = np.int32(layer.rng.integers(0, layer.keys - layer.queries + 2))
    names = list(weights)

    def function(x: Array, k: Array, v: Array, first: Array, *given: Array) -> Any:
        w = dict(zip(names, given, strict=True))
        if not steps:
            y, caches = layer.apply(x, w, [k, v], first)
            return y, *caches

        def body(i: Array, carry: Any) -> Any:
            x, caches = carry
            y, caches = layer.apply(x, w, caches, first + i.astype(first.dtype))
            return jnp.tanh(y), caches

        y, caches = lax.fori_loop(0, steps, body, (x, [k, v]))
        return y, *caches

    return function, [layer.input(), *layer.caches(), np.asarray(first), *weights.values()]


def _of_layers(layer: Layer) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """Two or three layers in a loop, or one; the result, or the gradients of the input and the weights."""
    layers = layer.chances.choice([1, 1, 1, 2, 3])
    weights = layer.weights((layers,) if layers > 1 else ())
    names, arguments = list(weights), [layer.input(), *weights.values()]
    zero = jnp.int32(0)

    def run(x: Array, *given: Array) -> Array:
        w = dict(zip(names, given, strict=True))
        if layers == 1:
            return layer.apply(x, w, [], zero)[0]
        return lax.scan(lambda x, w: (jnp.tanh(layer.apply(x, w, [], zero)[0]), None), x, w)[0]

    if layer.chance(0.5):
        return run, arguments
    towards = layer.input()
    which = tuple(
        sorted(
            layer.chances.sample(range(len(arguments)), layer.chances.randint(1, len(arguments)))
        )
    )

    def gradients(towards: Array, *given: Array) -> list[Array]:
        def of_some(*some: Array) -> Array:
            whole = list(given)
            for n, a in zip(which, some, strict=True):
                whole[n] = a
            return run(*whole)

        _, back = jax.vjp(of_some, *[given[n] for n in which])
        return list(back(towards))

    return gradients, [towards, *arguments]


def make(seed: int) -> Case:
    """An attention layer as JAX lowers it."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    layer = Layer(seed)
    function, arguments = (_with_caches if layer.cached else _of_layers)(layer)
    donated = (1, 2) if layer.cached and layer.chance(0.7) else ()
    return Case(lowered(function, arguments, donated), arguments, exact=False)
