"""jax.profiler on xpu: what a trace holds, as JAX's own ProfileData reads it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.profiler import ProfileData

PLANE = "/device:CUSTOM:XPU:0"


def trace(folder: Path, run: Any, **levels: int) -> ProfileData:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # one event a Python call would drown the others
    for name, level in levels.items():
        setattr(options, name, level)
    with jax.profiler.trace(folder, profiler_options=options, create_perfetto_trace=True):
        run()
    (file,) = folder.glob("plugins/profile/*/*.xplane.pb")
    return ProfileData.from_file(str(file))


def events(data: ProfileData, plane: str, line: str) -> list[Any]:
    found = data.find_plane_with_name(plane)
    assert found is not None, [p.name for p in data.planes]
    return [event for one in found.lines if one.name == line for event in one.events]


@pytest.fixture
def step(xpu: Any) -> Any:
    @jax.jit
    def step(x: Any) -> Any:
        return jnp.tanh(jnp.einsum("ik,jk->ij", x, x)).sum(0)

    x = jax.device_put(np.ones((512, 512), np.float32), xpu)
    step(x).block_until_ready()
    return lambda: step(x).block_until_ready()


def test_programs_and_their_instructions(tmp_path: Path, step: Any) -> None:
    data = trace(tmp_path, lambda: [step() for _ in range(3)])
    modules = events(data, PLANE, "XLA Modules")
    assert [m.name for m in modules] == ["jit_step"] * 3
    ops = events(data, PLANE, "XLA Ops")
    assert len(ops) % 3 == 0
    inside = [dict(op.stats) for op in ops]
    assert {stats["hlo_module"] for stats in inside} == {"jit_step"}
    assert sum(stats.get("flops", 0) for stats in inside) >= 3 * 2 * 512**3
    lines = {stats["source"].rpartition(":")[0] for stats in inside if "source" in stats}
    assert lines == {__file__}
    assert any("dot_general" in stats["tf_op"] for stats in inside)
    for op in ops:
        (around,) = [m for m in modules if m.start_ns <= op.start_ns < m.end_ns]
        assert op.end_ns <= around.end_ns


def test_a_loop_spans_its_iterations(tmp_path: Path, xpu: Any) -> None:
    x = jax.device_put(np.ones((256, 256), np.float32), xpu)
    # An even number: a loop that takes two steps at a time does one that is left over before it begins.
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 6, lambda _, y: jnp.tanh(y @ x), x))
    loop(x).block_until_ready()
    data = trace(tmp_path, lambda: loop(x).block_until_ready())
    ops = events(data, PLANE, "XLA Ops")
    (around,) = [op for op in ops if dict(op.stats)["hlo_category"] == "while"]
    inside = [op for op in ops if around.start_ns < op.start_ns < around.end_ns]
    products = [op for op in inside if dict(op.stats).get("flops", 0) >= 2 * 256**3]
    assert len(products) == 6
    assert all(op.end_ns <= around.end_ns for op in inside)


def test_compiles_and_transfers_are_nested_in_what_jax_records(tmp_path: Path, xpu: Any) -> None:
    # Small enough to be copied: a larger one is used where it stands if it stands at a multiple of 64.
    x = np.ones((32, 32), np.float32)

    def run() -> None:
        np.asarray(jax.jit(lambda x: x * 3 - 7)(jax.device_put(x, xpu)))

    data = trace(tmp_path, run)
    found = {}
    for line in data.find_plane_with_name("/host:CPU").lines:
        on_line = list(line.events)
        for event in on_line:
            if event.name.startswith("Tripont::"):
                found[event.name] = dict(event.stats), {e.name for e in on_line}
    stats, beside = found["Tripont::HostToDevice"]
    assert stats["bytes_transferred"] == x.nbytes
    assert any("BufferFromHostBuffer" in name for name in beside)
    stats, beside = found["Tripont::Compile"]
    assert stats["hlo_module"] == "jit__lambda"
    assert any("CompileAndLoad" in name for name in beside)


def test_executions_and_compiles_name_their_callers(tmp_path: Path, xpu: Any, step: Any) -> None:
    """By these numbers XProf draws arrows from JAX's calls to what came of them."""

    def run() -> None:
        step()
        step()
        jax.jit(lambda x: x * 5 - 9).lower(1.0).compile()

    with jax.default_device(xpu):
        data = trace(tmp_path, run)
    on_host = [e for one in data.find_plane_with_name("/host:CPU").lines for e in one.events]
    calls = {
        what: [dict(e.stats)["_p"] for e in on_host if e.name == f"PJRT_{what} linkage"]
        for what in ("LoadedExecutable_Execute", "Client_Compile")
    }
    executions = [dict(m.stats) for m in events(data, PLANE, "XLA Modules")]
    assert [m["_c"] for m in executions] == calls["LoadedExecutable_Execute"]
    compiles = [dict(e.stats) for e in on_host if e.name == "Tripont::Compile"]
    assert [c["_c"] for c in compiles] == calls["Client_Compile"]
    assert {e["_ct"] for e in executions + compiles} == {14}  # calls of the PJRT API


def test_the_viewer_gets_the_device(tmp_path: Path, step: Any) -> None:
    """TensorBoard and Perfetto show planes of some names only; what they get is beside the XSpace."""
    trace(tmp_path, step)
    (file,) = tmp_path.glob("plugins/profile/*/perfetto_trace.json.gz")
    shown = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    (device,) = [
        e["pid"] for e in shown if e.get("name") == "process_name" and e["args"]["name"] == PLANE
    ]
    names = {e["name"]: e.get("args", {}) for e in shown if e.get("pid") == device}
    assert "jit_step" in names
    assert any("f32[512,512]" in args.get("long_name", "") for args in names.values())


def test_the_options_reach_the_plugin(tmp_path: Path, xpu: Any, step: Any) -> None:
    def run() -> None:
        jax.device_put(np.ones(10, np.float32), xpu)
        step()

    data = trace(tmp_path, run, host_tracer_level=0)
    assert not [
        e for p in data.planes for one in p.lines for e in one.events if "Tripont::" in e.name
    ]
    assert len(events(data, PLANE, "XLA Modules")) == 1


def test_traces_follow_each_other(tmp_path: Path, step: Any) -> None:
    for number in range(2):
        data = trace(tmp_path / str(number), step)
        assert len(events(data, PLANE, "XLA Modules")) == 1
