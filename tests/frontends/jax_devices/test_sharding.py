"""Sharded programs on four devices: the same arrays, in the same places, as on four devices of JAX's CPU."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Arrays = Any


def mesh(platform: str, shape: tuple[int, ...] = (4,), names: str = "x") -> Mesh:
    return Mesh(np.array(jax.devices(platform)).reshape(shape), tuple(names))


def place(m: Mesh, arrays: Arrays, specs: Any) -> Arrays:
    return jax.tree.map(
        lambda a, s: jax.device_put(a, NamedSharding(m, s)),
        arrays,
        specs,
        is_leaf=lambda v: isinstance(v, P),
    )


def both(
    run: Callable[[Mesh], Arrays],
    shape: tuple[int, ...] = (4,),
    names: str = "x",
    tolerance: float = 2e-6,
) -> Arrays:
    """What ``run`` gives on a mesh of ours, once it is seen to be what JAX's CPU gives: values, dtypes and places."""
    ours = jax.tree.leaves(run(mesh("xpu", shape, names)))
    theirs = jax.tree.leaves(run(mesh("cpu", shape, names)))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert a.sharding.spec == b.sharding.spec
        assert {d.platform for d in a.sharding.device_set} == {"xpu"}
        for mine, other in zip(a.addressable_shards, b.addressable_shards, strict=True):
            assert mine.index == other.index
            assert mine.device.id == other.device.id
            compare(np.asarray(mine.data), np.asarray(other.data), tolerance)
    return ours


def compare(mine: np.ndarray, other: np.ndarray, tolerance: float) -> None:
    if mine.dtype.kind in "biu":
        np.testing.assert_array_equal(mine, other)
        return
    wide = np.complex128 if mine.dtype.kind == "c" else np.float64
    scale = max(1.0, float(np.max(np.abs(other.astype(wide)), initial=0.0)))
    np.testing.assert_allclose(mine.astype(wide), other.astype(wide), atol=tolerance * scale)


def values(*dims: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


# ------------------------------------------------------------------------------------------------------ training


def mlp_step(parameters: Arrays, x: Any, y: Any) -> tuple[Arrays, Any]:
    def loss(p: Arrays) -> Any:
        hidden = jnp.tanh(x @ p["w1"] + p["b1"])
        logits = hidden @ p["w2"] + p["b2"]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda p, g: p - 0.5 * g, parameters, gradients), value


def mlp() -> tuple[Arrays, np.ndarray, np.ndarray]:
    parameters = {
        "w1": values(16, 32, seed=1),
        "b1": np.zeros(32, np.float32),
        "w2": values(32, 8, seed=2),
        "b2": np.zeros(8, np.float32),
    }
    return parameters, values(64, 16, seed=3), np.arange(64, dtype=np.int32) % 8


def test_data_parallel_training() -> None:
    def run(m: Mesh) -> Arrays:
        parameters, x, y = mlp()
        p = place(m, parameters, dict.fromkeys(parameters, P()))
        x, y = place(m, (x, y), (P("x"), P("x")))
        step = jax.jit(mlp_step, donate_argnums=0)
        losses = []
        for _ in range(5):
            p, value = step(p, x, y)
            losses.append(value)
        return p, losses

    ours = both(run, tolerance=1e-5)
    parameters, x, y = mlp()
    losses = []
    for _ in range(5):  # one device, the same arithmetic but for the order of sums
        parameters, value = jax.jit(mlp_step)(parameters, x, y)
        losses.append(float(value))
    np.testing.assert_allclose([float(v) for v in ours[-5:]], losses, rtol=1e-5)


def test_tensor_parallel_training() -> None:
    specs = {"w1": P(None, "y"), "b1": P("y"), "w2": P("y", None), "b2": P()}

    def run(m: Mesh) -> Arrays:
        parameters, x, y = mlp()
        p = place(m, parameters, specs)
        x, y = place(m, (x, y), (P("x"), P("x")))
        shardings = jax.tree.map(
            lambda s: NamedSharding(m, s), specs, is_leaf=lambda v: isinstance(v, P)
        )
        step = jax.jit(mlp_step, out_shardings=(shardings, NamedSharding(m, P())))
        for _ in range(3):
            p, value = step(p, x, y)
        return p, value

    both(run, (2, 2), "xy", tolerance=1e-5)


def test_a_donated_array_that_fits_no_result_lives_on() -> None:
    """JAX leaves it to the compiler where the results' shardings are the compiler's: it only offers the array."""
    x = jax.device_put(values(8, 2), NamedSharding(mesh("xpu"), P("x")))
    product = jax.jit(lambda x: x @ x.T, donate_argnums=0)
    for _ in range(2):
        np.testing.assert_allclose(product(x), values(8, 2) @ values(8, 2).T, rtol=1e-6, atol=1e-6)
        assert not x.is_deleted()


def test_donated_arrays_are_deleted_and_reused() -> None:
    m = mesh("xpu")
    a = jax.device_put(values(8, 1024), NamedSharding(m, P("x")))
    pointers = [s.data.unsafe_buffer_pointer() for s in a.addressable_shards]
    b = jax.jit(lambda v: v + 1, donate_argnums=0)(a)
    assert a.is_deleted()
    assert [s.data.unsafe_buffer_pointer() for s in b.addressable_shards] == pointers
    with pytest.raises(RuntimeError, match="deleted"):
        jax.jit(lambda v: v + 1)(a)


# ---------------------------------------------------------------------------------------------------- operations

OPERATIONS: dict[str, tuple[Callable[..., Any], list[np.ndarray], list[P]]] = {
    "matmul_contracted": (jnp.matmul, [values(8, 16), values(16, 12)], [P(None, "x"), P("x")]),
    "matmul_columns": (jnp.matmul, [values(8, 16), values(16, 12)], [P(), P(None, "x")]),
    "sum": (jnp.sum, [values(8, 12)], [P("x")]),
    "softmax": (lambda v: jax.nn.softmax(v, 0), [values(8, 12)], [P("x")]),
    "argmax": (lambda v: jnp.argmax(v, 0), [values(8, 12)], [P("x")]),
    "sort": (lambda v: jnp.sort(v, 0), [values(8, 12)], [P("x")]),
    "cumsum": (lambda v: jnp.cumsum(v, 0), [values(8, 12)], [P("x")]),
    "transpose": (lambda v: v.T * 2, [values(8, 12)], [P("x")]),
    "roll": (lambda v: jnp.roll(v, 3, 0), [values(8, 12)], [P("x")]),
    "reverse": (lambda v: v[::-1], [values(8, 12)], [P("x")]),
    "gather": (lambda v, i: v[i], [values(16, 6), np.arange(9) * 5 % 16], [P("x"), P()]),
    "scatter_add": (
        lambda v, i: jnp.zeros((16, 6)).at[i].add(v),
        [values(8, 6), np.arange(8) * 3 % 16],
        [P("x"), P("x")],
    ),
    "concatenate": (lambda a, b: jnp.concatenate([a, b]), [values(8), values(4)], [P("x"), P()]),
    "pad": (lambda v: jnp.pad(v, ((1, 2), (0, 0))), [values(8, 3)], [P("x")]),
    "uneven_slice": (lambda v: v[1:7] * 2, [values(8, 3)], [P("x")]),
    "convolution": (
        lambda v, k: lax.conv(v, k, (1, 1), "SAME"),
        [values(4, 3, 8, 8), values(5, 3, 3, 3)],
        [P("x"), P()],
    ),
    "spatial_convolution": (
        lambda v, k: lax.conv(v, k, (1, 1), "SAME"),
        [values(2, 3, 8, 8), values(5, 3, 3, 3)],
        [P(None, None, "x"), P()],
    ),
    "random": (
        lambda v: v + jax.random.normal(jax.random.key(3), v.shape),
        [values(8, 12)],
        [P("x")],
    ),
    "complex": (
        lambda v: v @ v.conj().T,
        [values(8, 8) + 1j * values(8, 8, seed=1)],
        [P(None, "x")],
    ),
    "any": (lambda v: (jnp.any(v > 2), jnp.all(v < 9)), [values(8, 8)], [P("x")]),
    "integers": (lambda v: v.sum(0), [np.arange(32, dtype=np.int32).reshape(8, 4)], [P("x")]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name: str) -> None:
    function, arrays, specs = OPERATIONS[name]
    both(lambda m: jax.jit(function)(*place(m, arrays, specs)), tolerance=1e-5)


def test_scan_with_sharded_state() -> None:
    def f(w: Any, x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=5)

    both(
        lambda m: jax.jit(f)(
            *place(m, (values(8, 8), values(8, 8, seed=1)), (P(None, "x"), P("x")))
        )
    )


def test_while_that_ends_by_what_all_devices_have() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: jnp.sum(v) < 1000, lambda v: v * 1.5 + 1, x)

    both(lambda m: jax.jit(f)(place(m, np.abs(values(16)), P("x"))))


def test_constraint_changes_the_places() -> None:
    def run(m: Mesh) -> Any:
        def f(x: Any) -> Any:
            y = lax.with_sharding_constraint(x * 2, NamedSharding(m, P(None, "x")))
            return lax.with_sharding_constraint(y + 1, NamedSharding(m, P("y", "x")))

        return jax.jit(f)(place(m, values(8, 8), P(("x", "y"))))

    (out,) = both(run, (2, 2), "xy")
    assert out.sharding.spec == P("y", "x")


def test_large_arrays_take_all_pieces() -> None:
    """Pieces of a reduction, and what is left of the last: more elements than one piece, and no multiple of it."""
    both(lambda m: jax.jit(jnp.sum, static_argnums=1)(place(m, values(4, 70001), P("x")), 0))


def test_aot_tells_what_it_does() -> None:
    m = mesh("xpu")
    sharding = NamedSharding(m, P("x"))
    compiled = (
        jax.jit(lambda v: (v.sum(), v + 1)).lower(
            jax.ShapeDtypeStruct((8, 4), "f4", sharding=sharding)
        )
    ).compile()
    assert "all-reduce" in compiled.as_text()
    assert compiled.input_shardings[0][0].is_equivalent_to(sharding, 2)
    assert compiled.output_shardings[0].is_fully_replicated
    assert compiled.output_shardings[1].is_equivalent_to(sharding, 2)
    assert compiled.memory_analysis().argument_size_in_bytes == 8 * 4 * 4 // 4  # of one device
    total, more = compiled(jax.device_put(values(8, 4), sharding))
    np.testing.assert_allclose(total, values(8, 4).sum(), rtol=1e-5)
    np.testing.assert_array_equal(more, values(8, 4) + 1)


def test_serialized_program_of_several_devices() -> None:
    from jax.experimental import serialize_executable

    m = mesh("xpu")
    sharding = NamedSharding(m, P("x"))
    compiled = jax.jit(jnp.sum).lower(jax.ShapeDtypeStruct((8,), "f4", sharding=sharding)).compile()
    payload = pickle.loads(pickle.dumps(serialize_executable.serialize(compiled)))
    loaded = serialize_executable.deserialize_and_load(
        *payload, backend="xpu", execution_devices=jax.devices("xpu")
    )
    assert float(loaded(jax.device_put(np.arange(8, dtype=np.float32), sharding))) == 28.0


# --------------------------------------------------------------------------------------------------------- places


def test_copies_between_devices() -> None:
    devices = jax.devices("xpu")
    assert len(devices) == 4
    x = jax.device_put(values(1000), devices[1])
    for device in (devices[3], devices[0], devices[1]):
        y = jax.device_put(x, device)
        assert y.devices() == {device}
        np.testing.assert_array_equal(y, values(1000))
        z = jax.jit(lambda v: v * 2)(y)
        assert z.devices() == {device}
        np.testing.assert_array_equal(z, values(1000) * 2)


def test_resharding() -> None:
    def run(m: Mesh) -> Any:
        x = place(m, values(8, 12), P("x"))
        places = [P(None, "y"), P(("x", "y")), P(), P("y", "x"), P("x")]
        out = []
        for spec in places:
            x = jax.device_put(x, NamedSharding(m, spec))
            out.append(x)
        return out

    both(run, (2, 2), "xy")


def test_a_part_of_the_devices_in_another_order() -> None:
    devices = jax.devices("xpu")
    for chosen in ([devices[2], devices[0]], [devices[3]], [devices[1], devices[3], devices[2]]):
        m = Mesh(np.array(chosen), ("x",))
        n = 6 * len(chosen)
        x = jax.device_put(np.arange(n, dtype=np.float32), NamedSharding(m, P("x")))
        assert [s.device for s in x.global_shards] == chosen
        assert float(jax.jit(jnp.sum)(x)) == n * (n - 1) / 2
        np.testing.assert_array_equal(jax.jit(lambda v: v[::-1])(x), np.arange(n)[::-1])


def test_array_from_callback() -> None:
    m = mesh("xpu")
    full = values(8, 8)
    x = jax.make_array_from_callback((8, 8), NamedSharding(m, P("x")), lambda index: full[index])
    np.testing.assert_array_equal(jax.jit(lambda v: v.T)(x), full.T)


# --------------------------------------------------------------------------------------------------------- errors


def test_uneven_sharding_is_refused() -> None:
    with pytest.raises(ValueError, match="evenly divide"):
        jax.device_put(values(6), NamedSharding(mesh("xpu"), P("x")))


def test_arrays_on_other_devices_are_refused() -> None:
    devices = jax.devices("xpu")
    a, b = (jax.device_put(values(4), d) for d in devices[:2])
    with pytest.raises(ValueError, match="incompatible devices"):
        jax.jit(jnp.add)(a, b)


def test_a_program_goes_on_after_one_that_failed() -> None:
    m = mesh("xpu")
    x = place(m, values(8, 8), P("x"))
    with pytest.raises(Exception, match="nonsense_on_purpose"):
        jax.jit(
            lambda v: jax.ffi.ffi_call("nonsense_on_purpose", jax.ShapeDtypeStruct((), np.float32))(
                v.sum()
            )
        )(x).block_until_ready()
    np.testing.assert_allclose(jax.jit(jnp.sum)(x), values(8, 8).sum(), rtol=1e-5)


# ------------------------------------------------------------------------------------------------- linear algebra

BATCHED: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a: jnp.linalg.cholesky(a @ a.mT + 8 * jnp.eye(4)),
    "eigh": lambda a: jnp.linalg.eigvalsh(a + a.mT),
    "inverse": lambda a: jnp.linalg.inv(a + 8 * jnp.eye(4)),
    "lu": lambda a: lax.linalg.lu(a),
    "qr": lambda a: jnp.linalg.qr(a),
    "schur": lambda a: abs(lax.linalg.schur(a + a.mT)[0]),
    "singular_values": lambda a: jnp.linalg.svd(a, compute_uv=False),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_matrices_stay_where_they_are(name: str) -> None:
    a = values(8, 4, 4)
    functions = []

    def run(m: Mesh) -> Any:
        functions.append(jax.jit(BATCHED[name], out_shardings=NamedSharding(m, P("x"))))
        return functions[-1](place(m, a, P("x")))

    both(run, tolerance=2e-5)
    text = functions[0].lower(place(mesh("xpu"), a, P("x"))).compile().as_text()
    assert "all-gather" not in text
    assert "all-reduce" not in text
