"""Steps of language models: tokens one after another with a cache of keys and values, which is updated in place.

A call feeds some given tokens behind a prompt, whose keys and values are in the cache since the first call, so that
everybody multiplies the same numbers, and returns the scores after the last one. Weights are random: of f32 or bf16; of
s8, with a scale for each column; of s4, with a scale for each 32 terms of a column. The table of tokens, which is the
last matrix too, is of s8 where the others are of s8 or s4. The numbers of the large model are not compared, only those
of the small one: a reference in double precision would take 20 GB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from .. import llama_cpp
from ..layers import MATRIX, OTHER, arranged, rotary_tables
from ..llama import Llama
from ..program import Arrangement, Registry

PROGRAMS = Registry("language models", __name__)
START: Final = 64  # tokens of the prompt
LENGTH: Final = 256  # of the cache
TOKENS: Final = 8  # of a call
GROUP: Final = 32  # terms that share a scale of s4


SMALL: Final = Llama(30, 576, 9, 3, 1536, 49_152)  # SmolLM2-135M
LARGE: Final = Llama(16, 2048, 32, 8, 8192, 128_256)  # the shape of Llama 3.2 1B
BITS: Final = {"f32": 32, "bf16": 16, "s8": 8, "s4": 4}


def weights(
    model: Llama, form: str, random: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """(kind, array): the table, each layer's two norms and matrices, the last norm. Scales follow their matrix."""
    import ml_dtypes

    floats = np.dtype(np.float32) if form == "f32" else np.dtype(ml_dtypes.bfloat16)

    def norm() -> tuple[str, np.ndarray]:
        return OTHER, (1 + 0.1 * random.standard_normal(model.width, np.float32)).astype(floats)

    def whole(end: int, *shape: int) -> np.ndarray:
        return random.integers(-end, end, shape, np.int8)

    if form in ("s8", "s4"):
        yield OTHER, whole(127, model.tokens, model.width)
        yield OTHER, np.full(model.tokens, 2.0**-7, floats)
    else:
        yield OTHER, random.standard_normal((model.tokens, model.width), np.float32).astype(floats)
    for _ in range(model.layers):
        for index, (terms, columns) in enumerate(model.matrices()):
            if index in (0, 4):
                yield norm()
            scale = 2.0 ** -round(np.log2(terms) / 2)
            if form == "s8":
                yield MATRIX, whole(127, terms, columns)
                yield OTHER, np.full(columns, scale / 64, floats)
            elif form == "s4":
                yield MATRIX, whole(8, terms, columns).astype(ml_dtypes.int4)
                yield MATRIX, np.full((terms // GROUP, columns), scale / 4, floats)
            else:
                values = random.standard_normal((terms, columns), np.float32)
                yield MATRIX, (np.float32(scale) * values).astype(floats)
    yield norm()


def jax_steps(model: Llama, form: str) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def wide(x: Any) -> Any:
        return x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x

    def norm(x: Any, weight: Any) -> Any:
        y = wide(x)
        return (y * jax.lax.rsqrt((y**2).mean() + 1e-5)).astype(x.dtype) * weight

    def linear(x: Any, take: Iterator[Any]) -> Any:
        matrix = next(take)
        if form == "s8":
            return (x @ matrix.astype(x.dtype)) * next(take)
        if form == "s4":
            groups = (
                matrix.reshape(-1, GROUP, matrix.shape[1]).astype(x.dtype) * next(take)[:, None]
            )
            return x @ groups.reshape(matrix.shape)
        return x @ matrix

    cosines, sines = rotary_tables(LENGTH, model.head)

    def rotate(x: Any, position: Any) -> Any:
        first, second = jnp.split(x, 2, -1)
        cos, sin = (jnp.asarray(t, x.dtype)[position] for t in (cosines, sines))
        return x * cos + jnp.concatenate([-second, first], -1) * sin

    def step(caches: Any, tokens: Any, index: Any, arrays: Any) -> Any:
        take = iter(arrays)
        table = next(take)
        scales = next(take) if form in ("s8", "s4") else None
        token, position = tokens[index], index
        x = table[token]
        if scales is not None:
            x = x.astype(scales.dtype) * scales[token]
        seen = jnp.arange(LENGTH) <= position
        kept = []
        for keys, values in caches:
            y = norm(x, next(take))
            q, k, v = (linear(y, take).reshape(-1, model.head) for _ in range(3))
            q, k = rotate(q, position), rotate(k, position)
            keys = jax.lax.dynamic_update_index_in_dim(keys, k, position, 0)
            values = jax.lax.dynamic_update_index_in_dim(values, v, position, 0)
            kept.append((keys, values))
            q = q.reshape(model.shared, -1, model.head)
            scores = wide(jnp.einsum("ghd,lgd->ghl", q, keys)) * model.head**-0.5
            shares = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)).astype(x.dtype)
            x = x + linear(jnp.einsum("ghl,lgd->ghd", shares, values).reshape(-1), take)
            y = norm(x, next(take))
            gate = jax.nn.silu(linear(y, take))
            x = x + linear(gate * linear(y, take), take)
        x = norm(x, next(take))
        scores = table.astype(x.dtype) @ x
        return (scores if scales is None else scores * scales), kept

    compiled = jax.jit(step, donate_argnums=0)
    state: list[Any] = []

    def run(tokens: Any, *arrays: Any) -> Any:
        state_is_filled = bool(state)
        if not state_is_filled:
            shape = (LENGTH, model.shared, model.head)
            like = arrays[-1]
            state[:] = [
                tuple(jax.device_put(np.zeros(shape, like.dtype), like.device) for _ in range(2))
                for _ in range(model.layers)
            ]
        scores, caches = None, list(state)
        for index in range(START if state_is_filled else 0, START + TOKENS):
            scores, caches = compiled(caches, tokens, index, arrays)
        state[:] = caches
        return scores

    return run


def torch_steps(model: Llama, form: str) -> Callable[..., Any]:
    import torch
    from torch.nn import functional

    def linear(x: Any, take: Iterator[Any]) -> Any:
        matrix = next(take)
        if form == "s8":  # as gpt-fast's WeightOnlyInt8Linear does it
            return functional.linear(x, matrix.to(x.dtype)) * next(take)
        return functional.linear(x, matrix)

    tables: list[Any] = []

    def rotate(x: Any, position: int) -> Any:
        first, second = x.chunk(2, -1)
        cos, sin = tables
        return x * cos[position] + torch.cat([-second, first], -1) * sin[position]

    def step(caches: Any, token: Any, position: int, arrays: Any) -> Any:
        take = iter(arrays)
        table = next(take)
        scales = next(take) if form == "s8" else None
        x = table[token]
        if scales is not None:
            x = x.to(scales.dtype) * scales[token]
        for keys, values in caches:
            y = functional.rms_norm(x, x.shape[-1:], next(take), 1e-5)
            q, k, v = (linear(y, take).unflatten(-1, (-1, model.head)) for _ in range(3))
            keys[:, position] = rotate(k, position)
            values[:, position] = v
            q = rotate(q, position)[:, None]
            seen = slice(0, position + 1)
            y = functional.scaled_dot_product_attention(
                q[None], keys[None, :, seen], values[None, :, seen], enable_gqa=True
            )
            x = x + linear(y.flatten(), take)
            y = functional.rms_norm(x, x.shape[-1:], next(take), 1e-5)
            gate = functional.silu(linear(y, take))
            x = x + linear(gate * linear(y, take), take)
        x = functional.rms_norm(x, x.shape[-1:], next(take), 1e-5)
        scores = functional.linear(x, table.to(x.dtype))
        return scores if scales is None else scores * scales

    state: list[Any] = []

    def run(tokens: Any, *arrays: Any) -> Any:
        with torch.no_grad():  # tensors of inference_mode are not what torch.compile has guarded
            state_is_filled = bool(state)
            if not state_is_filled:
                like = arrays[-1]
                tables[:] = [
                    torch.from_numpy(t).to(like.dtype) for t in rotary_tables(LENGTH, model.head)
                ]
                shape = (model.shared, LENGTH, model.head)
                state[:] = [
                    (like.new_zeros(shape), like.new_zeros(shape)) for _ in range(model.layers)
                ]
            scores = None
            for index in range(START if state_is_filled else 0, START + TOKENS):
                scores = step(state, tokens[index], index, arrays)
            return scores

    return run


def finite(results: list[np.ndarray]) -> str:
    return "" if all(np.isfinite(r).all() for r in results) else "a score is not finite"


def least_bytes(model: Llama, form: str) -> float:
    """What a call reads of weights."""
    matrices = model.layers * sum(terms * columns for terms, columns in model.matrices())
    bits = BITS[form] + (16 / GROUP if form == "s4" else 0)
    table = max(BITS[form], 8) * model.tokens * model.width
    return TOKENS * (matrices * bits + table) / 8


def add(name: str, title: str, model: Llama, form: str) -> None:
    kinds = [OTHER]

    def inputs(random: np.random.Generator) -> tuple[Any, ...]:
        tokens = random.integers(0, model.tokens, START + TOKENS, np.int32)
        pairs = list(weights(model, form, random))
        kinds[1:] = [kind for kind, _ in pairs]
        return tokens, *(array for _, array in pairs)

    def held(arrays: Sequence[Any]) -> Sequence[Any]:
        return [arranged(kind, array) for kind, array in zip(kinds, arrays, strict=True)]

    makers: dict[str, Any] = {"jax": lambda: jax_steps(model, form)}
    if form != "s4":  # PyTorch itself multiplies no 4-bit weights on a CPU
        makers["torch"] = lambda: torch_steps(model, form)
    makers["llama.cpp"] = lambda: llama_cpp.steps(model, form, START, LENGTH)
    PROGRAMS.add(
        f"{name}_{form}",
        f"{title}, weights of {form}: {TOKENS} tokens one after another",
        inputs,
        arrangements={"torch": Arrangement(held, lambda results: results)},
        bytes=least_bytes(model, form),
        terms=model.wide,
        check=finite if model is LARGE else None,
        jit=False,
        **makers,
    )


for form in BITS:
    add("smollm2_tokens", "SmolLM2-135M", SMALL, form)
for form in ("bf16", "s8", "s4"):
    add("llama_1b_tokens", "Llama of 1.2 billion weights", LARGE, form)
