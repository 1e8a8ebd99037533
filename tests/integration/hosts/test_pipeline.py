"""examples/pipeline: schedules, and a transformer over four processes with the losses of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "examples" / "pipeline"


@pytest.fixture(scope="module")
def schedules() -> ModuleType:
    """examples/pipeline/schedule.py, which is in no package."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("pipeline_schedule", FOLDER / "schedule.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved"])
@pytest.mark.parametrize("processes", [1, 2, 4, 8])
@pytest.mark.parametrize("microbatches", [8, 16])
def test_schedules(schedules: ModuleType, name: str, processes: int, microbatches: int) -> None:
    """Every action once, on its chunk's process, after what it needs; the bubble is that of theory."""
    actions = schedules.schedule(name, processes, microbatches)
    chunks = processes * schedules.chunks_of_process(name)
    assert len(set().union(*actions)) == sum(map(len, actions)) == 2 * chunks * microbatches
    assert all(a.chunk % processes == p for p, own in enumerate(actions) for a in own)
    times = schedules.simulate(actions)
    for action, (begin, _) in times.items():
        assert all(times[needed][1] <= begin for needed in action.needs(chunks))
    end = max(end for _, end in times.values())
    busy = sum(end - begin for begin, end in times.values())
    assert 1 - busy / end / processes == pytest.approx(
        schedules.bubble(name, processes, microbatches)
    )
    # Gradients are added in one order, whatever the schedule.
    for own in actions:
        for chunk in range(chunks):
            backward = [a.microbatch for a in own if not a.forward and a.chunk == chunk]
            assert backward == sorted(backward)


@pytest.mark.parametrize("microbatches", [8, 16])
def test_1f1b_holds_few_microbatches(schedules: ModuleType, microbatches: int) -> None:
    """At most as many as there are processes behind, where GPipe holds all."""
    for name in ("gpipe", "1f1b"):
        for process, own in enumerate(schedules.schedule(name, 4, microbatches)):
            held = most = 0
            for action in own:
                held += 1 if action.forward else -1
                most = max(most, held)
            assert most == (microbatches if name == "gpipe" else 4 - process)


def test_what_no_schedule_can_be(schedules: ModuleType) -> None:
    with pytest.raises(ValueError, match="a multiple of 4 microbatches, not 6"):
        schedules.schedule("interleaved", 4, 6)
    forward, backward = schedules.Action(True, 0, 0), schedules.Action(False, 0, 0)
    with pytest.raises(ValueError, match="never ends"):
        schedules.simulate([[backward, forward]])


@pytest.mark.slow
def test_four_processes_have_the_losses_of_one() -> None:
    """The schedule with the most arrays under way; the others differ in their order only."""
    command = [sys.executable, str(FOLDER / "main.py"), "--schedule", "interleaved"]
    result = subprocess.run(
        [*command, "--steps", "2", "--microbatches", "4"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "They are those of one process, bit for bit." in result.stdout
    assert result.stdout.count("process 3 ") == 2
