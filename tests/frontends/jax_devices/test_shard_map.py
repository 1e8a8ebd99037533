"""Programs that say what each device does: shard_map and pmap with collectives, as on four devices of JAX's CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax, shard_map
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from .test_sharding import both, compare, place, values

RING = [(n, (n + 1) % 4) for n in range(4)]


def mapped(
    function: Callable[..., Any], arrays: Any, in_specs: Any, out_specs: Any
) -> Callable[[Mesh], Any]:
    """What runs ``function`` on the parts of ``arrays`` on a mesh."""

    def run(m: Mesh) -> Any:
        f = shard_map(function, mesh=m, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        return jax.jit(f)(*place(m, arrays, in_specs))

    return run


# name -> function of the part of an array f32[8, 12] that one of four devices has, and the result's spec
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], P]] = {
    "psum": (lambda v: lax.psum(v, "x"), P()),
    "pmean": (lambda v: lax.pmean(v, "x"), P()),
    "pmax": (lambda v: lax.pmax(v, "x"), P()),
    "pmin": (lambda v: lax.pmin(v, "x"), P()),
    "psum_of_groups": (
        lambda v: lax.psum(v, "x", axis_index_groups=[[0, 3], [2, 1]]),
        P("x"),
    ),
    "all_gather": (lambda v: lax.all_gather(v, "x"), P(None, "x")),
    "all_gather_last": (lambda v: lax.all_gather(v, "x", axis=1, tiled=True), P("x")),
    "all_gather_new_last": (lambda v: lax.all_gather(v, "x", axis=2), P("x")),
    "all_gather_of_groups": (
        lambda v: lax.all_gather(v, "x", tiled=True, axis_index_groups=[[0, 1], [3, 2]]),
        P("x"),
    ),
    "psum_scatter": (lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True), P("x")),
    "psum_scatter_whole": (
        lambda v: lax.psum_scatter(jnp.concatenate([v, v]), "x", scatter_dimension=0),
        P("x"),
    ),
    "all_to_all": (lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True), P("x")),
    "all_to_all_same": (
        lambda v: lax.all_to_all(v, "x", split_axis=1, concat_axis=1, tiled=True),
        P("x"),
    ),
    "all_to_all_whole": (
        lambda v: lax.all_to_all(jnp.concatenate([v, v + 1]), "x", 0, 1),
        P("x"),
    ),
    "all_to_all_of_groups": (
        lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True, axis_index_groups=[[0, 2], [1, 3]]),
        P("x"),
    ),
    "ppermute_ring": (lambda v: lax.ppermute(v, "x", RING), P("x")),
    "ppermute_some": (lambda v: lax.ppermute(v, "x", [(3, 0), (0, 2)]), P("x")),
    "pshuffle": (lambda v: lax.pshuffle(v, "x", [2, 0, 3, 1]), P("x")),
    "axis_index": (lambda v: v * lax.axis_index("x"), P("x")),
    "axis_size": (lambda v: v * lax.axis_size("x"), P("x")),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collective(name: str) -> None:
    function, out_spec = COLLECTIVES[name]
    both(mapped(function, (values(8, 12),), (P("x"),), out_spec))


def test_pbroadcast() -> None:
    """JAX has no rule of it for its CPU."""
    m = Mesh(np.array(jax.devices("xpu")), ("x",))
    out = mapped(lambda v: lax.pbroadcast(v, "x", 2), (values(8, 12),), (P("x"),), P("x"))(m)
    np.testing.assert_array_equal(out, np.concatenate([values(8, 12)[4:6]] * 4))


DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    array = (values(8, 6) * 5).astype(kind)

    def f(v: Any) -> Any:
        results = [
            lax.all_gather(v, "x"),
            lax.ppermute(v, "x", RING),
            lax.all_to_all(v.reshape(4, 3), "x", 0, 0, tiled=True),
        ]
        if kind.kind != "c":
            results += [lax.pmax(v, "x"), lax.pmin(v, "x")]
        if kind.kind != "b":
            results += [lax.psum(v, "x"), lax.psum_scatter(v.reshape(4, 3), "x")]
        return results

    count = 3 + 2 * (kind.kind != "c") + 2 * (kind.kind != "b")
    # Three additions of half-precision numbers, in an order that is not said: each rounds once.
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(dtype, 1e-6)
    both(
        mapped(f, (array,), (P("x"),), [P("x")] * count),
        tolerance=4 * unit,
    )


def test_wide_dtypes() -> None:
    with jax.enable_x64(True):
        for dtype in (np.int64, np.uint64, np.float64, np.complex128):
            array = (values(8, 6, dtype=np.float64) * 1e6).astype(dtype)
            both(mapped(lambda v: lax.psum(v, "x"), (array,), (P("x"),), P()), tolerance=1e-14)


def test_sum_of_a_tree() -> None:
    """Many arrays of several dtypes and sizes meet as few times as can be."""
    tree = {
        "a": values(4, 5),
        "b": values(8, seed=1),
        "n": np.arange(12, dtype=np.int32),
        "h": values(4, 3).astype(np.float16),
        "empty": np.zeros((4, 0), np.float32),
    }
    specs = dict.fromkeys(tree, P("x"))

    def run(m: Mesh) -> Any:
        f = shard_map(
            lambda t: lax.psum(t, "x"),
            mesh=m,
            in_specs=(specs,),
            out_specs=dict.fromkeys(tree, P()),
        )
        return jax.jit(f)(place(m, tree, specs))

    both(run, tolerance=2e-3)


def test_sums_that_wait_for_one_another() -> None:
    def f(v: Any) -> Any:
        a = lax.psum(v, "x")
        b = lax.psum(v * a, "x")
        c = lax.psum(v + 1, "x")
        return lax.psum(b * c + v, "x")

    both(mapped(f, (values(8, 3),), (P("x"),), P()), tolerance=1e-5)


def test_two_axes() -> None:
    def f(v: Any) -> Any:
        return (
            lax.psum(v, "x"),
            lax.psum(v, "y"),
            lax.psum(v, ("x", "y")),
            lax.psum(v, ("y", "x")),
            lax.all_gather(v, "y", tiled=True),
            lax.all_gather(v, ("y", "x"), tiled=True),
            lax.ppermute(v, "y", [(0, 1), (1, 0)]),
            lax.axis_index(("y", "x")) * v,
        )

    spec = P("x", "y")
    outs = (P(None, "y"), P("x"), P(), P(), P("x", "y"), P(None, None), spec, spec)
    both(mapped(f, (values(4, 6),), (spec,), outs), (2, 2), "xy")


def test_in_loops_and_branches() -> None:
    def f(v: Any) -> Any:
        def body(n: Any, c: Any) -> Any:
            c = lax.ppermute(c, "x", RING) + lax.psum(c, "x") * 0.01
            return lax.cond(n % 2 == 0, lambda a: a + lax.pmax(a, "x"), lambda a: a * 0.5, c)

        return lax.fori_loop(0, 7, body, v)

    both(mapped(f, (values(8, 3),), (P("x"),), P("x")), tolerance=1e-5)


def test_devices_that_take_different_branches() -> None:
    """Groups of two in a branch that only those two take."""

    def f(v: Any) -> Any:
        first = lax.axis_index("x") < 2
        groups = [[0, 1], [2, 3]]
        return lax.cond(
            first,
            lambda a: lax.psum(a, "x", axis_index_groups=groups) * 10,
            lambda a: a - 1,
            v,
        )

    both(mapped(f, (values(8, 3),), (P("x"),), P("x")))


def test_derivatives_go_through_collectives() -> None:
    def run(m: Mesh) -> Any:
        def loss(w: Any, x: Any) -> Any:
            f = shard_map(
                lambda w, x: lax.psum(jnp.sum(jnp.sin(lax.ppermute(x @ w, "x", RING))), "x"),
                mesh=m,
                in_specs=(P(), P("x")),
                out_specs=P(),
            )
            return f(w, x)

        w, x = place(m, (values(6, 5), values(8, 6, seed=1)), (P(), P("x")))
        return jax.jit(jax.grad(loss, (0, 1)))(w, x)

    both(run, tolerance=1e-5)


def test_ring_attention_like_pipeline() -> None:
    """Blocks of keys travel around the ring while each device computes with the one that it has."""

    def f(q: Any, k: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            block, total = carry
            total = total + jnp.tanh(q @ block.T).sum(1)
            return (lax.ppermute(block, "x", RING), total), None

        (_, total), _ = lax.scan(step, (k, jnp.zeros(q.shape[0])), None, length=4)
        return total

    arrays = (values(8, 6), values(8, 6, seed=1))
    (ours,) = both(mapped(f, arrays, (P("x"), P("x")), P("x")), tolerance=1e-5)
    compare(np.asarray(ours), np.tanh(arrays[0] @ arrays[1].T).sum(1), 1e-5)


# ------------------------------------------------------------------------------------------------------------ pmap


def pmap_both(function: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> None:
    ours = jax.pmap(function, axis_name="i", devices=jax.devices("xpu"), **options)(*arrays)
    theirs = jax.pmap(function, axis_name="i", devices=jax.devices("cpu"), **options)(*arrays)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert len(a.sharding.device_set) == 4
        compare(np.asarray(a), np.asarray(b), 1e-6)


def test_pmap() -> None:
    pmap_both(lambda v: v * 2 + lax.axis_index("i"), values(4, 3))
    pmap_both(lambda v: lax.psum(v, "i"), values(4, 3))
    pmap_both(lambda v, w: (lax.all_gather(v, "i"), lax.pmean(w, "i")), values(4, 3), values(4, 2))
    pmap_both(lambda v: lax.ppermute(v, "i", RING), values(4, 3))


def test_pmap_of_some_devices() -> None:
    devices = jax.devices("xpu")[1:3]
    out = jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i", devices=devices)(values(2, 3))
    assert out.sharding.device_set == set(devices)
    np.testing.assert_allclose(out, np.broadcast_to(values(2, 3).sum(0), (2, 3)), rtol=1e-6)


# ----------------------------------------------------------------------------------------------------- many at once


def test_threads_that_launch_at_the_same_time() -> None:
    """Each device must see the programs of all threads in one order, or they would wait for one another."""
    import concurrent.futures

    m = Mesh(np.array(jax.devices("xpu")), ("x",))
    spec = P("x")

    def program(k: int) -> Callable[[Any], Any]:
        return jax.jit(
            shard_map(
                lambda v: lax.ppermute(lax.psum(v * k, "x") + v, "x", RING),
                mesh=m,
                in_specs=spec,
                out_specs=spec,
            )
        )

    programs = [program(k) for k in range(3)]
    x = place(m, values(8, 5), spec)
    expected = [np.asarray(p(x)) for p in programs]

    def work(thread: int) -> None:
        for n in range(30):
            k = (thread + n) % 3
            np.testing.assert_array_equal(np.asarray(programs[k](x)), expected[k])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_many_launches_in_a_row() -> None:
    m = Mesh(np.array(jax.devices("xpu")), ("x",))
    f = jax.jit(
        shard_map(lambda v: lax.pmean(v, "x") + 1, mesh=m, in_specs=P("x"), out_specs=P("x"))
    )
    x = place(m, np.zeros(4, np.float32), P("x"))
    for _ in range(300):
        x = f(x)
    np.testing.assert_array_equal(x, np.full(4, 300, np.float32))
