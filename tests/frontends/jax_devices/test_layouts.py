"""Arrays that are not row-major, over several devices: each device's part lies as the layout says."""

from __future__ import annotations

import ctypes

import jax
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def in_memory(part: jax.Array) -> bytes:
    return ctypes.string_at(part.unsafe_buffer_pointer(), part.nbytes)


def test_parts_of_arrays_and_results() -> None:
    mesh = Mesh(np.array(jax.devices("xpu")), ("x",))
    wanted = Format(Layout(major_to_minor=(1, 0)), NamedSharding(mesh, P("x")))
    x = jax.device_put(X, wanted)
    y = jax.jit(lambda x: x * 2 + x.sum(), out_shardings=wanted)(x)
    for array, expected in ((x, X), (y, X * 2 + X.sum())):
        assert array.format.layout.major_to_minor == (1, 0)
        np.testing.assert_array_equal(array, expected)
        for n, shard in enumerate(array.addressable_shards):
            assert in_memory(shard.data) == expected[2 * n : 2 * n + 2].T.tobytes()


def test_a_layout_to_choose() -> None:
    mesh = Mesh(np.array(jax.devices("xpu")), ("x",))
    f = jax.jit(lambda x: (x + 1).T, out_shardings=Format(Layout.AUTO, NamedSharding(mesh, P())))
    g = jax.jit(lambda x: (x + 1).T, out_shardings=Format(Layout.AUTO))
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    for compiled in (f.lower(x).compile(), g.lower(x).compile()):
        y = compiled(x)
        assert y.format == compiled.output_formats
        np.testing.assert_array_equal(y, (X + 1).T)
    assert g.lower(x).compile().output_formats.layout.major_to_minor == (1, 0)
