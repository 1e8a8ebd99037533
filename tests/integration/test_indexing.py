"""Data movement: shapes, slices, gather, scatter, sort, top_k, padding. Nothing is computed, so results are equal."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.integration.comparison import Config, check
from tests.integration.tolerances import Normwise, Ulps

MOVEMENT = [
    Config("reshape", lambda x: x.reshape(6, 20), "f32[4,5,6]"),
    Config("transpose", jnp.transpose, "f32[33,65]"),
    Config("transpose-large", jnp.transpose, "f32[700,900]"),
    Config("transpose-021", lambda x: x.transpose(0, 2, 1), "f32[5,33,17]"),
    Config("transpose-3d", lambda x: x.transpose(2, 0, 1), "bf16[5,33,17]"),
    Config("transpose-4d", lambda x: x.transpose(3, 1, 0, 2), "s8[3,4,5,6]"),
    Config("transpose-heads", lambda x: x.reshape(2, 9, 4, 8).transpose(0, 2, 1, 3), "f32[2,9,32]"),
    Config("transpose-pairs", lambda x: x.transpose(1, 0, 2) + 0, "f32[65,64,2]"),
    Config("transpose-pairs-of-even", lambda x: (x * 2).transpose(1, 0, 2) * 2, "f32[60,64,2]"),
    Config(
        "transpose-qubits",
        lambda x: x.reshape((2,) * 13).transpose(3, 7, 0, 12, 5, 9, 1, 11, 2, 10, 6, 8, 4),
        "c64[8192]",
    ),
    Config("broadcast", lambda x: jnp.broadcast_to(x, (4, 5, 6)), "f32[5,1]"),
    Config("broadcast-in-dim", lambda x: lax.broadcast_in_dim(x, (4, 3, 5), (0, 2)), "f32[4,5]"),
    Config("reverse", lambda x: (x[::-1], x[:, ::-1], lax.rev(x, (0, 1))), "f32[5,33]"),
    Config("concatenate", lambda x, y: jnp.concatenate([x, y, x], 1), "f32[5,7] f32[5,9]"),
    Config("concatenate-axis-0", lambda x, y: jnp.concatenate([x, y + 1]), "f32[5,7] f32[3,7]"),
    Config("stack", lambda x, y: jnp.stack([x, y], 1), "f32[5,7] f32[5,7]"),
    Config("slice", lambda x: x[1:4, 2:9:3], "f32[5,13]"),
    Config("split", lambda x: jnp.split(x, 3, 1), "f32[5,12]"),
    Config("pad", lambda x: jnp.pad(x, ((1, 2), (0, 3))), "f32[5,7]"),
    Config("pad-interior", lambda x: lax.pad(x, 2.0, ((1, 2, 1), (-1, 3, 2))), "f32[5,7]"),
    Config("pad-negative", lambda x: lax.pad(x, 2.0, ((-2, 1, 0), (1, -3, 0))), "f32[5,7]"),
    Config(
        "pad-modes",
        lambda x: [jnp.pad(x, 2, mode=m) for m in ("edge", "wrap", "reflect")],
        "f32[5,7]",
    ),
    Config(
        "iota",
        lambda: (
            jnp.arange(17),
            jnp.arange(7, dtype=jnp.float32),
            jnp.arange(5, dtype=jnp.bfloat16),
        ),
    ),
    Config("iota-2d", lambda: lax.broadcasted_iota(jnp.int32, (5, 7), 1)),
    Config("eye-tri", lambda: (jnp.eye(5), jnp.tri(5), jnp.ones((3, 3)))),
    Config("linspace", lambda: jnp.linspace(0.0, 1.0, 17), (), Ulps(4)),
    Config("tile-repeat", lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 2, 1)), "f32[5,7]"),
    Config("roll", lambda x: jnp.roll(x, 3, 1), "f32[5,7]"),
    Config("triu-tril", lambda x: (jnp.triu(x), jnp.tril(x, -1)), "f32[7,7]"),
    Config("diagonal", lambda x: (jnp.diagonal(x), jnp.diag(x[0])), "f32[7,7]"),
    Config("one-hot", lambda x: jax.nn.one_hot(x, 10), "s32[33]:-1..11"),
    Config(
        "where-mask",
        lambda x: jnp.where(jnp.tril(jnp.ones((9, 9), bool)), x, -jnp.inf),
        "f32[2,9,9]",
    ),
    Config("identity", lambda x: x, "f32[5]"),
    Config("same-result-twice", lambda x: (x + 1, x + 1, x), "f32[5]"),
    Config("constant", lambda: jnp.asarray(np.arange(50, dtype=np.float32).reshape(5, 10))),
    Config("nested-results", lambda x: {"a": (x, [x + 1]), "b": x * 2}, "f32[5]"),
]

DYNAMIC = [
    Config("dynamic-slice", lambda x, i: lax.dynamic_slice(x, (i, i + 1), (2, 3)), "f32[9,11] s32[]:1..3"),
    Config("dynamic-slice-clamps", lambda x: lax.dynamic_slice(x, (100, -5), (2, 3)), "f32[9,11]"),
    Config("dynamic-index", lambda x, i: x[i], "f32[9,11] s32[]:0..9"),
    Config("dynamic-update-slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)),
           "f32[9,11] f32[2,3] s32[]:0..5"),
    Config("dynamic-update-clamps", lambda x, u: lax.dynamic_update_slice(x, u, (100, -5)), "f32[9,11] f32[2,3]"),
    Config("dynamic-update-in-loop", lambda x: lax.fori_loop(0, 9, lambda i, x: x.at[i].set(i * 2.0), x), "f32[9,11]"),
    Config("slices-and-update-overlap", lambda x: lax.dynamic_update_slice(x, x[:3] + 1, (2, 0)), "f32[9,11]"),
]  # fmt: skip

GATHER = [
    Config("take-rows", lambda x, i: x[i], "f32[20,7] s32[13]:0..20"),
    Config("take-columns", lambda x, i: x[:, i], "f32[7,20] s32[13]:0..20"),
    Config("take-2d-indices", lambda x, i: x[i], "f32[20,7] s32[3,4]:0..20"),
    Config(
        "take-clip", lambda x, i: jnp.take(x, i, axis=0, mode="clip"), "f32[5,7] s32[13]:-9..20"
    ),
    Config(
        "take-fill", lambda x, i: jnp.take(x, i, axis=0, mode="fill"), "f32[5,7] s32[13]:-9..20"
    ),
    Config("take-negative", lambda x, i: x[i], "f32[20,7] s32[13]:-20..20"),
    Config("take-pairs", lambda x, i, j: x[i, j], "f32[9,11] s32[6]:0..9 s32[6]:0..11"),
    Config("take-mixed", lambda x, i: x[1:4, i, ::2], "f32[5,9,7] s32[6]:0..9"),
    Config("take-along-axis", lambda x, i: jnp.take_along_axis(x, i, 1), "f32[5,9] s32[5,3]:0..9"),
    Config("take-u8-indices", lambda x, i: x[i], "f32[20,7] u8[13]:0..20"),
    Config("embedding", lambda w, t: w[t], "bf16[50,16] s32[4,9]:0..50"),
    Config("boolean-as-index", lambda x, i: x[i.astype(int)], "f32[2,3] pred[5]"),
    Config(
        "vmap-dynamic-slice",
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))),
        "f32[5,9] s32[5]:0..7",
    ),
]

SCATTER = [
    Config("set-rows", lambda x, u: x.at[jnp.array([1, 3, 5])].set(u), "f32[9,7] f32[3,7]"),
    Config("add-rows", lambda x, i, u: x.at[i].add(u), "s32[9,7] s32[13]:0..9 s32[13,7]"),
    Config("add-f32-duplicates", lambda x, i, u: x.at[i].add(u), "f32[9,7] s32[130]:0..9 f32[130,7]", Normwise(64)),
    Config("multiply", lambda x, i, u: x.at[i].multiply(u), "s32[9,7] s32[5]:0..9 s32[5,7]:1..3"),
    Config("min-max", lambda x, i, u: (x.at[i].min(u), x.at[i].max(u)), "f32[9] s32[13]:0..9 f32[13]"),
    Config("apply", lambda x: x.at[jnp.array([1, 4])].apply(jnp.negative), "f32[9]"),
    Config("out-of-bounds-dropped", lambda x, i, u: x.at[i].set(u, mode="drop"), "f32[9] s32[1]:20..30 f32[1]"),
    Config("pairs", lambda x, i, j, u: x.at[i, j].add(u), "s32[9,11] s32[6]:0..9 s32[6]:0..11 s32[6]"),
    Config("slice-set", lambda x: x.at[2:5, ::2].set(1.0), "f32[9,7]"),
    Config("segment-sum", lambda x, i: jax.ops.segment_sum(x, i, 5), "s32[13,3] s32[13]:0..5"),
    Config("bincount", lambda i: jnp.bincount(i, length=10), "s32[100]:0..10"),
    Config("embedding-gradient", lambda w, t: jax.grad(lambda w: (w[t] ** 2).sum())(w), "f32[50,16] s32[90]:0..50",
           Normwise(32)),
    Config("bf16-add", lambda x, i, u: x.at[i].add(u), "bf16[9] s32[5]:0..9 bf16[5]", Normwise(8)),
    Config("segment-sum-of-many", lambda x, i: jax.ops.segment_sum(x, i, 50), "s32[40009] s32[40009]:-3..55"),
    Config("segment-max-of-many", lambda x, i: jax.ops.segment_max(x, i, 50), "f32[40009] s32[40009]:0..49"),
    Config("segment-sum-of-many-rows", lambda x, i: jax.ops.segment_sum(x, i, 50), "s32[30011,40] s32[30011]:-3..55"),
    Config("segment-max-of-many-rows", lambda x, i: jax.ops.segment_max(x, i, 50), "f32[30011,40] s32[30011]:-3..55"),
    Config("add-many-rows", lambda x, i, u: x.at[i].add(2 * u, mode="drop"), "f32[50,9,5] s32[30011]:-3..55 f32[30011,9,5]",
           Normwise(30011)),
    Config("bincount-of-many", lambda i: jnp.bincount(i, length=256), "s32[100003]:-3..300"),
    Config("count-pairs", lambda i, j: jnp.zeros((9, 11), int).at[i, j].add(1, mode="drop"), "s32[70000]:-9..9 s32[70000]:0..20"),
    Config("scatter-itself", lambda x, i: (x + 1).at[jnp.argsort(i)].set(x + 1), "s32[5000] s32[5000]:0..4999"),
    Config("scatter-what-it-changes", lambda x, i: x.at[i].add(x[::-1] * 2), "s32[30000] s32[30000]:0..29999"),
    Config("scatter-into-window", lambda x, u: lax.scatter(
        x, jnp.array([[2]]), u, lax.ScatterDimensionNumbers((1, 2), (), (0,))), "f32[9,7] f32[1,3,7]"),
]  # fmt: skip

SORT = [
    Config("sort", jnp.sort, "f32[100]"),
    Config("sort-rows", lambda x: jnp.sort(x, 1), "f32[33,65]"),
    Config("sort-columns", lambda x: jnp.sort(x, 0), "f32[33,65]"),
    Config("sort-large", jnp.sort, "f32[50000]"),
    Config("sort-special", jnp.sort, "f32[100]:-9..9!"),
    Config("sort-s32", jnp.sort, "s32[1000]"),
    Config("sort-u8", jnp.sort, "u8[1000]:0..255"),
    Config("sort-bf16", jnp.sort, "bf16[1000]"),
    Config("sort-pred", jnp.sort, "pred[100]"),
    Config("sort-descending", lambda x: jnp.sort(x, descending=True), "f32[100]"),
    Config("argsort", jnp.argsort, "f32[1000]"),
    Config("argsort-stable", lambda x: jnp.argsort(x, stable=True), "s32[1000]:0..5"),
    Config("sort-pairs", lambda k, v: lax.sort((k, v), num_keys=1), "s32[1000]:0..9 f32[1000]"),
    Config(
        "sort-two-keys",
        lambda a, b, c: lax.sort((a, b, c), num_keys=2),
        "s32[500]:0..9 f32[500] s8[500]",
    ),
    Config("lexsort", lambda a, b: jnp.lexsort((a, b)), "s32[500]:0..9 s32[500]:0..9"),
    Config("sort-one", jnp.sort, "f32[1]"),
    Config("sort-empty", jnp.sort, "f32[0]"),
    Config("top-k", lambda x: lax.top_k(x, 5), "f32[9,65]"),
    Config("top-k-ties", lambda x: lax.top_k(x, 5), "s32[9,65]:0..4"),
    Config("median", jnp.median, "f32[33]"),
    Config("unique-size", lambda x: jnp.unique(x, size=8), "s32[50]:0..6"),
    Config("searchsorted", lambda x, q: jnp.searchsorted(jnp.sort(x), q), "f32[50] f32[20]"),
    Config("nonzero-size", lambda x: jnp.nonzero(x > 0, size=20), "f32[33]"),
]

ALL = MOVEMENT + DYNAMIC + GATHER + SCATTER + SORT


@pytest.mark.parametrize("config", ALL, ids=str)
def test_indexing(config: Config, xpu: Any, cpu: Any) -> None:
    check(config, xpu, cpu)
