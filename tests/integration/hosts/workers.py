"""What the processes of a job do in the tests: ``python -m tests.integration.hosts.workers FUNCTION PROCESS ...``.

Each function joins the job and then does its work. Results are what it prints or writes; tests compare them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.integration.hosts.presence import Presence

P = PartitionSpec


def join(process: int, processes: int, coordinator: str) -> None:
    """``coordinator``: a port of this machine, or an address with one."""
    if processes > 1:
        address = coordinator if ":" in coordinator else f"localhost:{coordinator}"
        jax.distributed.initialize(address, processes, process)


def shard(mesh: Mesh, spec: PartitionSpec, value: np.ndarray) -> jax.Array:
    return jax.make_array_from_callback(
        value.shape, NamedSharding(mesh, spec), lambda index: value[index]
    )


def everywhere(mesh: Mesh, function: Callable[..., Any], *arguments: jax.Array) -> np.ndarray:
    """The replicated result of ``function``, jitted."""
    result = jax.jit(function, out_shardings=NamedSharding(mesh, P()))(*arguments)
    return np.asarray(result.addressable_data(0))


# ----------------------------------------------------------------------------------------------------------------
# results that one process must have too


def collectives(folder: str) -> None:
    """Every collective over four devices, written to FOLDER/PROCESS.npz."""
    devices = np.array(jax.devices())
    line = Mesh(devices, "x")
    square = Mesh(devices.reshape(2, 2), ("x", "y"))
    random = np.random.default_rng(0)
    results = {}

    def gathered(name: str, mesh: Mesh, body: Callable[..., Any], *values: np.ndarray) -> None:
        spec = P(mesh.axis_names)
        mapped = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        results[name] = everywhere(mesh, mapped, *(shard(mesh, spec, v) for v in values))

    for dtype in (
        "float32",
        "float64",
        "bfloat16",
        "float16",
        "float8_e4m3fn",
        "complex64",
        "int8",
    ):
        # 8 elements a device are exchanged at once, 40,001 in parts
        for size in (8, 40_001):
            value = random.standard_normal((4, size)) * 4
            value = value.astype(jnp.dtype(dtype))
            gathered(f"psum {dtype} {size}", line, lambda x: jax.lax.psum(x, "x"), value)
    value = random.standard_normal((4, 6)).astype(np.float32)
    large = random.standard_normal((16, 9_000)).astype(np.float32)
    for name, x in {"small": value, "large": large}.items():
        gathered(f"pmax {name}", line, lambda x: jax.lax.pmax(x, "x"), x)
        for axis in ("x", "y"):
            gathered(f"psum {axis} {name}", square, partial(jax.lax.psum, axis_name=axis), x)
            gathered(
                f"all_gather {axis} {name}", square, partial(jax.lax.all_gather, axis_name=axis), x
            )
        gathered(f"all_gather {name}", line, lambda x: jax.lax.all_gather(x, "x"), x)
        gathered(
            f"ppermute {name}",
            line,
            lambda x: jax.lax.ppermute(x, "x", [(0, 1), (1, 2), (3, 0)]),
            x,
        )
    gathered("psum_scatter", line, lambda x: jax.lax.psum_scatter(x, "x", tiled=True), large)
    gathered("all_to_all", line, lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True), large)
    gathered(
        "tree",
        line,
        lambda x: sum(jax.tree.leaves(jax.lax.psum({"a": x, "b": x[:, :3] * 2}, "x")["a"])),
        large,
    )
    gathered(
        "loop",
        line,
        lambda x: jax.lax.fori_loop(0, 5, lambda i, y: jnp.sin(jax.lax.psum(y, "x")) + i, x),
        value,
    )
    # HLO's rng, whose state is the device's
    for draw in range(2):
        gathered(
            f"rng {draw}",
            line,
            lambda x: jax.lax.rng_uniform(x[0, 0] * 0, x[0, 0] * 0 + 1, (1, 50)),
            np.ones((4, 1), np.float32),
        )
    a = random.standard_normal((32, 64)).astype(np.float32)
    b = random.standard_normal((64, 16)).astype(np.float32)
    results["matmul"] = everywhere(
        square,
        lambda a, b: jnp.tanh(a @ b),
        shard(square, P("x", "y"), a),
        shard(square, P("y"), b),
    )
    saved = {k: v.view(np.uint8) for k, v in results.items()}  # NumPy's files know no bfloat16
    np.savez(Path(folder) / f"{jax.process_index()}.npz", **saved)


# ----------------------------------------------------------------------------------------------------------------
# what frameworks ask for


def jax_interface() -> None:
    """What JAX says of the processes, and its helpers for several of them."""
    from jax.experimental import multihost_utils

    process = jax.process_index()
    count = jax.process_count()
    assert count == 2
    assert [d.id for d in jax.devices()] == list(range(2 * count))
    assert [d.process_index for d in jax.devices()] == [0, 0, 1, 1]
    assert [d.id for d in jax.local_devices()] == [2 * process, 2 * process + 1]
    assert jax.local_device_count() == 2
    assert jax.local_devices(process_index=1 - process)[0].id == 2 * (1 - process)
    # programs of one process
    assert float(jnp.arange(5.0).sum()) == 10
    put = jax.device_put(np.arange(3), jax.local_devices()[1])
    assert put.devices() == {jax.local_devices()[1]}
    assert np.array_equal(put + 1, [1, 2, 3])
    mesh = Mesh(np.array(jax.local_devices()), "x")
    local = jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
    assert float(jax.jit(jnp.sum)(local)) == 28
    # helpers
    gathered = multihost_utils.process_allgather(np.full((2,), process))
    assert np.array_equal(gathered, [[0, 0], [1, 1]])
    assert np.array_equal(multihost_utils.broadcast_one_to_all(np.array([process + 7])), [7])
    mesh = Mesh(np.array(jax.devices()), "x")
    sharding = NamedSharding(mesh, P("x"))
    mine = np.arange(4.0) + 10 * process
    array = jax.make_array_from_process_local_data(sharding, mine)
    assert array.shape == (8,)
    assert everywhere(mesh, jnp.sum, array) == 6 + 46
    multihost_utils.assert_equal(np.array([1, 2]))
    multihost_utils.sync_global_devices("end")
    # A device of another process is known, and no more.
    other = jax.devices()[2 * (1 - process)]
    assert repr(other) == f"XpuDevice(id={other.id}, process={1 - process})"
    print("OK")


def detected() -> None:
    """JAX finds its arguments in what a launcher tells (join)."""
    mesh = Mesh(np.array(jax.devices()), "x")
    total = np.asarray(_psum(mesh).addressable_data(0))[0, 0]
    # One write: the launcher mixes what its processes write.
    print(
        f"PROCESS {jax.process_index()} of {jax.process_count()} sum {total}\n", end="", flush=True
    )


def transfers() -> None:
    """jax.device_put to devices of the other process: small and large arrays, both ways at once, and dtypes."""
    process = jax.process_index()
    first, second = (
        Mesh(np.array(jax.local_devices(process_index=p)), "x") for p in range(jax.process_count())
    )
    shape = (4, 70_000)
    for dtype in ("float32", "bfloat16", "int4", "bool"):
        for size in (0, 3, 70_000):
            value = (np.arange(4 * size) % 5 - 2).reshape(4, size).astype(jnp.dtype(dtype))
            there = jax.device_put(
                jax.device_put(value, NamedSharding(first, P("x"))), NamedSharding(second, P("x"))
            )
            for part in there.addressable_shards:
                assert process == 1
                assert np.array_equal(np.asarray(part.data), value[part.index])
            back = jax.device_put(there, NamedSharding(first, P("x")))
            for part in back.addressable_shards:
                assert process == 0
                assert np.array_equal(np.asarray(part.data), value[part.index])
    # Both directions at once, of arrays too large to be sent before they are received.
    a = jax.device_put(np.full(shape, 1.0), NamedSharding(first, P("x")))
    b = jax.device_put(np.full(shape, 2.0), NamedSharding(second, P("x")))
    moved = [
        jax.device_put(a, NamedSharding(second, P("x"))),
        jax.device_put(b, NamedSharding(first, P("x"))),
    ]
    for array, value in zip(moved, (1.0, 2.0), strict=True):
        for part in array.addressable_shards:
            assert np.array_equal(np.asarray(part.data), np.full((2, shape[1]), value))
    # Collectives on the same two devices have an order of their own.
    mesh = Mesh(np.array([first.devices[0], second.devices[0]]), "x")
    ones = shard(mesh, P("x"), np.ones((2, 3), np.float32))
    assert everywhere(mesh, jnp.sum, ones) == 6
    print("OK")


def overlaps(folder: str) -> None:
    """A program that begins an all-reduce and then calls back: process 1 launches it only when process 0 calls back."""
    mesh = Mesh(np.array(jax.devices()), "x")
    reached = Path(folder) / "reached"

    def call(x: np.ndarray) -> np.ndarray:
        reached.touch()
        return x + 1

    def body(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = jax.lax.psum(x * 2, "x")
        other = jax.pure_callback(call, jax.ShapeDtypeStruct(y.shape, y.dtype), y)
        return total + 1, other * 2

    specs = (P("x"), P("x"))
    mapped = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False)
    x, y = (shard(mesh, P("x"), np.full((2, 100_000), v, np.float32)) for v in (3, 5))
    program = jax.jit(mapped).lower(x, y).compile()
    while jax.process_index() == 1 and not reached.exists():
        time.sleep(0.01)
    total, other = (np.asarray(r.addressable_data(0)) for r in program(x, y))
    assert np.array_equal(total, np.full((1, 100_000), 13)), total
    assert np.array_equal(other, np.full((1, 100_000), 12)), other
    print("OK")


def trains(folder: str) -> None:
    """Steps of a small network whose gradients are exchanged in several pieces beside the backward pass, written to
    FOLDER/PROCESS.npz.
    """
    mesh = Mesh(np.array(jax.devices()), "x")
    random = np.random.default_rng(0)
    whole = NamedSharding(mesh, P())
    weights = [random.standard_normal((600, 600)).astype(np.float32) / 25 for _ in range(8)]
    weights = [shard(mesh, P(), w) for w in weights]
    batch = shard(mesh, P("x"), random.standard_normal((32, 600)).astype(np.float32))

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    def step(weights: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return [w - 0.5 * g for w, g in zip(weights, gradients, strict=True)], value

    compiled = jax.jit(step, donate_argnums=0, out_shardings=whole).lower(weights, batch).compile()
    print("DONES", compiled.as_text().count("tripont$collective-done"))
    losses = []
    for _ in range(5):
        weights, value = compiled(weights, batch)
        losses.append(np.asarray(value.addressable_data(0)))
    saved = {f"weight {n}": np.asarray(w.addressable_data(0)) for n, w in enumerate(weights)}
    np.savez(Path(folder) / f"{jax.process_index()}.npz", losses=np.array(losses), **saved)


def all_reduce_in_batches() -> None:
    """One all-reduce of arrays of more than 64 MB together, of which no two fit into a batch with the third."""
    mesh = Mesh(np.array(jax.devices()), "x")
    sizes = (7_500_000, 100, 9_000_001, 8_000_000)  # 30 MB, 400 bytes, 36 MB, 32 MB

    def body(*arrays: jax.Array) -> list[jax.Array]:
        return [jax.lax.psum(x, "x") for x in arrays]

    values = [np.arange(size, dtype=np.float32) % 1000 + n for n, size in enumerate(sizes)]
    arrays = [shard(mesh, P("x"), np.stack([v, 3 * v])) for v in values]
    mapped = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False)
    options = {"overlap_collectives": "false"}  # joins what may be exchanged at once
    program = jax.jit(mapped).lower(*arrays).compile(options)
    print("ALL-REDUCES", program.as_text().count(" all-reduce("))
    for value, result in zip(values, program(*arrays), strict=True):
        assert np.array_equal(np.asarray(result.addressable_data(0))[0], 4 * value)
    print("OK")


def checkpoint(folder: str, what: str) -> None:
    """Sums of a sharded array over all devices, again and again; ``what``: "dies" (process 1 is killed behind the
    checkpoint), "goes on" from it, or "whole" without a break. Writes FOLDER/WHAT.npz.
    """
    import orbax.checkpoint as ocp

    mesh = Mesh(np.array(jax.devices()), "x")
    sharding = NamedSharding(mesh, P("x"))
    values = np.random.default_rng(0).standard_normal((16, 50_000)).astype(np.float32)
    state = {"x": shard(mesh, P("x"), values), "step": jnp.zeros((), jnp.int32)}
    state["step"] = jax.device_put(np.int32(0), NamedSharding(mesh, P()))

    @jax.jit
    def step(state: dict[str, jax.Array]) -> dict[str, jax.Array]:
        x = state["x"]
        x = jnp.sin(x + x.sum(axis=0) / 3)
        return {"x": jax.lax.with_sharding_constraint(x, sharding), "step": state["step"] + 1}

    path = Path(folder) / "checkpoint"
    with ocp.StandardCheckpointer() as checkpointer:
        if what == "goes on":
            like = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), state
            )
            state = checkpointer.restore(path, like)
            assert state["x"].sharding == sharding
        else:
            state = step(step(state))
        if what == "dies":
            checkpointer.save(path, state)
            checkpointer.wait_until_finished()
            if jax.process_index() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            report(lambda: step(state)["x"].block_until_ready())
    assert int(state["step"].addressable_data(0)) == 2
    state = step(step(state))
    result = everywhere(mesh, lambda x: x, state["x"])
    if jax.process_index() == 0:
        np.savez(Path(folder) / f"{what}.npz", x=result)
    print("OK")


def network_breaks() -> None:
    """Sums over the network until there is an error."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh, 100_000).block_until_ready()
    print("READY", flush=True)

    def sums() -> None:
        last = time.monotonic()
        try:
            while True:
                _psum(mesh, 100_000).block_until_ready()
                last = time.monotonic()
        finally:
            print(f"QUIET for {time.monotonic() - last:.1f} s")

    report(sums)


def fails_in_flight() -> None:
    """Process 1's program fails in a callback while its all-reduce, and that of process 0, is in flight."""
    mesh = Mesh(np.array(jax.devices()), "x")

    def call(x: np.ndarray) -> np.ndarray:
        if jax.process_index() == 1:
            raise ValueError("bad batch")
        return x

    def body(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        first = jax.lax.psum(x * 2, "x")
        other = jax.pure_callback(call, jax.ShapeDtypeStruct(y.shape, y.dtype), y)
        return first + 1, jax.lax.psum(other, "x")

    specs = (P("x"), P("x"))
    mapped = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False)
    x, y = (shard(mesh, P("x"), np.full((2, 100_000), v, np.float32)) for v in (3, 5))
    program = jax.jit(mapped).lower(x, y).compile()
    report(lambda: jax.block_until_ready(program(x, y)))


# ----------------------------------------------------------------------------------------------------------------
# what goes wrong


def _psum(mesh: Mesh, size: int = 4, name: str = "sum") -> jax.Array:
    def body(x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, "x")

    body.__name__ = name
    value = np.ones((len(jax.devices()), size), np.float32)
    mapped = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P())
    return jax.jit(mapped)(shard(mesh, P("x"), value))


def leave() -> None:
    """End as soon as no other process can ask this one why something failed, without JAX's farewell to the others."""
    presence.leave()
    os._exit(0)


def report(action: Callable[[], object], then: Callable[[], object] = leave) -> None:
    """Print the error that ``action`` raises, and how long it took, and leave."""
    start = time.monotonic()
    try:
        action()
        print("NO ERROR")
    except Exception as error:
        print(f"ERROR after {time.monotonic() - start:.1f} s: {error}")
    sys.stdout.flush()
    then()


def dies() -> None:
    """Process 1 is killed; process 0 waits for it in a collective."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    if jax.process_index() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    report(lambda: _psum(mesh, 100_000).block_until_ready())


def dies_under_threads() -> None:
    """Process 1 is killed; two threads of process 0 wait for its devices, and a program comes later."""
    devices = np.array(jax.devices())
    pairs = [Mesh(devices[[i, 2 + i]], "x") for i in range(2)]
    values = [shard(m, P("x"), np.ones((2, 4), np.float32)) for m in pairs]
    programs = [
        jax.jit(
            jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=m, in_specs=P("x"), out_specs=P())
        )
        for m in pairs
    ]
    for program, value in zip(programs, values, strict=True):
        program(value).block_until_ready()
    if jax.process_index() == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def wait(number: int) -> None:
        start = time.monotonic()
        try:
            programs[number](values[number]).block_until_ready()
        except Exception as error:
            text = f"THREAD {number} after {time.monotonic() - start:.1f} s: {error}"
            # One write for each line: print() writes the end of the line apart from its text, so
            # that two threads can write their texts into one line.
            os.write(1, (text.replace("\n", " ") + "\n").encode())

    threads = [threading.Thread(target=wait, args=(i,), daemon=True) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    report(lambda: _psum(Mesh(devices, "x")).block_until_ready())


def client_again() -> None:
    """A client goes, with the key-value store that it brought; the next one agrees on a channel by its own."""
    import gc

    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    del mesh
    jax.clear_caches()
    jax.extend.backend.clear_backends()
    gc.collect()
    mesh = Mesh(np.array(jax.devices()[::-1]), "x")
    report(lambda: print(np.asarray(_psum(mesh).addressable_data(0))[0, 0]))


def stops() -> None:
    """Process 1 is stopped, as if its machine had gone; it goes on in the end, so that the job can end."""
    from jax.experimental import multihost_utils

    mesh = Mesh(np.array(jax.devices()), "x")
    pids = multihost_utils.process_allgather(np.array(os.getpid())).tolist()
    if jax.process_index() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)

    def go_on() -> None:
        os.kill(pids[1], signal.SIGCONT)
        leave()

    report(lambda: _psum(mesh).block_until_ready(), go_on)


def other_program() -> None:
    """The processes run different programs on the same devices."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    name = ["red", "blue"][jax.process_index()]
    report(lambda: _psum(mesh, 8, name).block_until_ready())


def other_sizes() -> None:
    """The processes run programs of one name on arrays of different sizes, of which one fits into one message."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    size = [8, 100_000][jax.process_index()]
    report(lambda: _psum(mesh, size).block_until_ready())


def other_large_sizes() -> None:
    """The processes run programs of one name on arrays of different sizes, both in messages of their own."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    size = [60_000, 100_000][jax.process_index()]
    report(lambda: _psum(mesh, size).block_until_ready())


def same_collectives() -> None:
    """Two programs that differ in name and have equal collectives; the processes load them in opposite orders."""
    mesh = Mesh(np.array(jax.devices()), "x")
    value = shard(mesh, P("x"), np.ones((len(jax.devices()), 4), np.float32))

    def load(name: str, factor: int) -> Callable[..., jax.Array]:
        def body(x: jax.Array) -> jax.Array:
            return jax.lax.psum(factor * x, "x")

        body.__name__ = name
        mapped = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P())
        return jax.jit(mapped).lower(value).compile()

    given = [("red", 1), ("blue", 3)]
    loaded = {n: load(n, f) for n, f in (given if jax.process_index() == 0 else given[::-1])}
    report(lambda: print("sums", *(loaded[n](value).addressable_data(0)[0, 0] for n, _ in given)))


def other_collectives(what: str, pause: str = "0") -> None:
    """The processes run programs of one name with as many sums of the same shape, which are not the same sums.

    ``what``: "members" (other ones wait for the first, so that others can be joined), "operation", "number".
    ``pause``: for how many seconds process 1 is stopped once it waits, before process 0 begins.
    """
    from jax.experimental import multihost_utils

    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    is_first = jax.process_index() == 0

    def body(x: jax.Array) -> list[jax.Array]:
        sums = [jax.lax.psum(x, "x")]
        waits = {2, 3} if is_first or what != "members" else {1, 3}
        for n in range(1, 4):
            sums.append(jax.lax.psum(x * (n + 1) + (sums[0] if n in waits else 0), "x"))
        if not is_first:
            if what == "operation":
                sums[-1] = jax.lax.pmax(x * 4 + sums[0], "x")
            if what == "number":
                sums.pop()
        return sums

    mapped = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False)
    value = shard(mesh, P("x"), np.ones((len(jax.devices()), 4), np.float32))
    program = jax.jit(mapped).lower(value).compile()
    pids = multihost_utils.process_allgather(np.array(os.getpid())).tolist()
    if float(pause) > 0 and is_first:
        time.sleep(2)
        os.kill(pids[1], signal.SIGSTOP)
        subprocess.Popen(["sh", "-c", f"sleep {pause}; kill -CONT {pids[1]}"])
    report(lambda: print([np.asarray(r.addressable_data(0)) for r in program(value)]))


def other_group() -> None:
    """Process 1 waits in a collective of other devices."""
    devices = np.array(jax.devices())
    both = Mesh(devices, "x")
    _psum(both).block_until_ready()
    if jax.process_index() == 0:
        report(lambda: _psum(both, 8, "all_four").block_until_ready())
    inner = Mesh(devices[1:3], "x")
    value = np.ones((2, 4), np.float32)

    def two_of_them(x: jax.Array) -> jax.Array:
        return jax.lax.psum(x, "x")

    mapped = jax.jit(jax.shard_map(two_of_them, mesh=inner, in_specs=P("x"), out_specs=P()))
    report(lambda: mapped(shard(inner, P("x"), value)).block_until_ready())


def callback_fails(length: str = "0") -> None:
    """A Python function of process 1's program raises before the collective, with so many more letters to say."""
    mesh = Mesh(np.array(jax.devices()), "x")

    def check(x: np.ndarray) -> np.ndarray:
        if jax.process_index() == 1:
            raise ValueError(f"bad batch {'ä' * int(length)} in the end")
        return x

    def body(x: jax.Array) -> jax.Array:
        x = jax.pure_callback(check, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return jax.lax.psum(x, "x")

    mapped = jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False)
    )
    value = np.ones((len(jax.devices()), 4), np.float32)
    report(lambda: mapped(shard(mesh, P("x"), value)).block_until_ready())


def late(seconds: str) -> None:
    """Process 1 comes later than the others."""
    mesh = Mesh(np.array(jax.devices()), "x")
    if jax.process_index() == 1:
        time.sleep(float(seconds))
    report(lambda: print(np.asarray(_psum(mesh).addressable_data(0))[0, 0]))


def paused() -> None:
    """All processes are stopped for ten seconds, as by Ctrl-Z, while process 0 waits for process 1."""
    from jax.experimental import multihost_utils

    mesh = Mesh(np.array(jax.devices()), "x")
    pids = multihost_utils.process_allgather(np.array(os.getpid())).tolist()
    if jax.process_index() == 0:
        # Process 0 has asked how process 1 is when it is stopped itself.
        script = "sleep 3; kill -STOP {1}; sleep 2; kill -STOP {0}; sleep 9; kill -CONT {0} {1}"
        script = script.format(*pids)
        subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        time.sleep(15)
    report(lambda: print(np.asarray(_psum(mesh).addressable_data(0))[0, 0]))


def alone_too() -> None:
    """A second client of the process, which is of no job: a collective over its own two devices, and HLO's rng."""
    from jaxlib import xla_client

    mesh = Mesh(np.array(jax.devices()), "x")
    assert np.asarray(_psum(mesh).addressable_data(0))[0, 0] == 4
    devices = xla_client.make_c_api_client("xpu", {}, None).local_devices()
    assert [d.id for d in devices] == [0, 1]
    alone = Mesh(np.array(devices), "x")
    parts = [jax.device_put(np.full((1, 4), 1.0 + d.id, np.float32), d) for d in devices]
    whole = jax.make_array_from_single_device_arrays((2, 4), NamedSharding(alone, P("x")), parts)
    mapped = jax.shard_map(
        lambda x: jax.lax.psum(x, "x"), mesh=alone, in_specs=P("x"), out_specs=P()
    )
    result = jax.jit(mapped)(whole)
    draw = jax.jit(lambda low: jax.lax.rng_uniform(low, low + 1, (4,)))
    print("drawn", np.asarray(draw(jax.device_put(np.float32(0), devices[0]))))
    print("in the job", np.asarray(draw(jax.device_put(np.float32(0), jax.local_devices()[0]))))
    report(lambda: print("alone", np.asarray(result.addressable_data(0))))


def forked() -> None:
    """A forked child is refused at once, and ends; its parent goes on."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    program = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )
    value = shard(mesh, P("x"), np.ones((2, 4), np.float32))
    program(value).block_until_ready()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        report(lambda: program(value).block_until_ready(), lambda: os._exit(0))
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print("parent", np.asarray(program(value).addressable_data(0))[0, 0])


def no_mpi() -> None:
    """Local programs work without MPI, those that span processes name what is missing."""
    print("local", float(jnp.arange(3.0).sum()))
    mesh = Mesh(np.array(jax.devices()), "x")
    report(lambda: _psum(mesh).block_until_ready())


def sums_twice() -> None:
    """A sum of large arrays, and after its error a small one, which would end well in a job that has not failed."""
    mesh = Mesh(np.array(jax.devices()), "x")

    def sums() -> None:
        try:
            _psum(mesh, 100_000).block_until_ready()
        finally:
            try:
                _psum(mesh).block_until_ready()
                print("LATER no error")
            except Exception as error:
                print("LATER", str(error).replace("\n", " "))

    report(sums)


def hands_on() -> None:
    """Process 0 hands a large array to process 1, and receives nothing."""
    mesh = Mesh(np.array(jax.devices()), "x")

    def body(x: jax.Array) -> jax.Array:
        return jax.lax.ppermute(x, "x", [(0, 1)])

    mapped = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    value = shard(mesh, P("x"), np.ones((len(jax.devices()), 100_000), np.float32))
    report(lambda: jax.jit(mapped)(value).block_until_ready())


def listening() -> None:
    """Print the addresses of the sockets that this process listens on, but JAX's coordinator."""
    mesh = Mesh(np.array(jax.devices()), "x")
    _psum(mesh).block_until_ready()
    inodes = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                print("LISTENS", table, int(fields[1].split(":")[1], 16))
    # os.environ is what there was when Python started.
    inherited = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
    print(
        "ENVIRONMENT", [v for v in inherited.splitlines() if v.startswith(("PMI_", "UCX_", "FI_"))]
    )
    files = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if "mpich_shm" in line
    ]
    print("LEFT", [line for line in files if not line.endswith("(deleted)")], len(files) > 0)


def main() -> None:
    global presence
    function, process, processes, coordinator, *rest = sys.argv[1:]
    presence = Presence(int(process), int(processes))
    if function == "detected":
        jax.distributed.initialize()
    else:
        join(int(process), int(processes), coordinator)
    globals()[function](*rest)


if __name__ == "__main__":
    main()
