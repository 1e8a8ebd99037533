"""Sparse matrices of jax.experimental.sparse by dense ones, against NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

Array = np.ndarray[Any, Any]


def entries(rows: int, columns: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Places and whole numbers, whose sums are exact: rows without any, and a place that is named twice."""
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, rows * columns, 4 * rows)
    chosen[-1] = chosen[0]
    chosen = np.sort(chosen[chosen // columns % 5 != 2])
    places = np.stack([chosen // columns, chosen % columns], 1).astype(np.int32)
    values = generator.integers(-4, 5, len(chosen)).astype(np.float32)
    dense = np.zeros((rows, columns), np.float32)
    np.add.at(dense, tuple(places.T), values)
    return places, values, dense


def right_side(*dims: int) -> Array:
    return np.random.default_rng(1).integers(-4, 5, dims).astype(np.float32)


@pytest.mark.parametrize("columns", [0, 1, 3, 8, 37, 128])
@pytest.mark.parametrize("form", ["bcoo", "bcoo, in any order", "bcsr"])
@pytest.mark.parametrize("rows", [70, 1500])
def test_by_a_dense_matrix(rows: int, form: str, columns: int) -> None:
    places, values, dense = entries(rows, 90)
    if form == "bcoo, in any order":
        order = np.random.default_rng(2).permutation(len(values))
        places, values = places[order], values[order]
    matrix: Any = sparse.BCOO((jnp.asarray(values), jnp.asarray(places)), shape=dense.shape)
    if form == "bcsr":
        starts = np.searchsorted(places[:, 0], np.arange(rows + 1)).astype(np.int32)
        matrix = sparse.BCSR(
            (jnp.asarray(values), jnp.asarray(places[:, 1]), jnp.asarray(starts)),
            shape=dense.shape,
        )
    x = right_side(90, columns) if columns else right_side(90)
    result = jax.jit(lambda a, x: a @ x)(matrix, x)
    np.testing.assert_array_equal(np.asarray(result), dense @ x)


@pytest.mark.parametrize("columns", [8, 37])
def test_padded_entries_count_nothing(columns: int) -> None:
    """Entries behind the end, as JAX pads with, whose places are outside of the matrix."""
    places, values, dense = entries(60, 50)
    places = np.concatenate([places, np.full((9, 2), [60, 50], np.int32)])
    values = np.concatenate([values, np.ones(9, np.float32)])
    matrix = sparse.BCOO((jnp.asarray(values), jnp.asarray(places)), shape=dense.shape)
    x = right_side(50, columns)
    result = jax.jit(lambda a, x: a @ x)(matrix, x)
    np.testing.assert_array_equal(np.asarray(result), dense @ x)


def test_gradients() -> None:
    places, values, dense = entries(200, 50)
    x, weights = right_side(50, 8), right_side(200, 8)

    def loss(values: Any, x: Any) -> Any:
        matrix = sparse.BCOO((values, jnp.asarray(places)), shape=dense.shape)
        return jnp.sum((matrix @ x) * weights)

    of_values, of_x = jax.jit(jax.grad(loss, (0, 1)))(values, x)
    np.testing.assert_array_equal(np.asarray(of_x), dense.T @ weights)
    rows, columns = places.T
    np.testing.assert_array_equal(np.asarray(of_values), np.sum(weights[rows] * x[columns], 1))


def test_messages_of_a_graph() -> None:
    generator = np.random.default_rng(3)
    senders, receivers = generator.integers(-3, 305, (2, 4000)).astype(np.int32)
    nodes = right_side(300, 16)

    @jax.jit
    def largest_and_sum(nodes: Any, senders: Any, receivers: Any) -> Any:
        messages = nodes.at[senders].get(mode="clip") * 2
        start = jnp.full((300, 16), -99.0)
        return (
            start.at[receivers].max(messages, mode="drop", wrap_negative_indices=False),
            jnp.zeros((300, 16)).at[receivers].add(messages, mode="drop"),
        )

    found, total = largest_and_sum(nodes, senders, receivers)
    messages = nodes[np.clip(np.where(senders < 0, senders + 300, senders), 0, 299)] * 2
    expected, sums = np.full((300, 16), -99, np.float32), np.zeros((300, 16), np.float32)
    inside = (receivers >= 0) & (receivers < 300)
    np.maximum.at(expected, receivers[inside], messages[inside])
    wrapped = np.where(receivers < 0, receivers + 300, receivers)
    np.add.at(sums, wrapped[wrapped < 300], messages[wrapped < 300])
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(np.asarray(total), sums)
