"""The ways to tripont in torch_xla, and the order of imports. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tripont.frontends.torch_xla import import_order

from tests.starter import Starter, starter_of
from tripont import library_path

_USE = """
import torch
x = torch.arange(4.0, device="xla")
assert (x * 2 + 1).cpu().tolist() == [1, 3, 5, 7]
from torch_xla.core import xla_model
from tripont.core import _tripont
kind = xla_model.xla_device_hw(torch_xla.device())
print(kind, _tripont.worker_counters()["compiles"] + _tripont.cache_counters()["hits"] > 0)
"""


def _variables(environment: dict[str, str], variables: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k != "PJRT_DEVICE"} | variables


def _run(script: str, environment: dict[str, str], **variables: str) -> subprocess.CompletedProcess:
    """In a new Python: what ``script`` imports before PyTorch is part of the test."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env=_variables(environment, variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _run_after_tensorflow(
    script: str, environment: dict[str, str], **variables: str
) -> subprocess.CompletedProcess:
    """In a process that forks where TensorFlow has been imported, and nothing of PyTorch."""
    starter = starter_of("tests.tensorflow_without_plugins")
    begin = "from tests.tensorflow_without_plugins import load_plugins; load_plugins()\n"
    return starter.run(begin + script, _variables(environment, variables))


@pytest.mark.parametrize(
    ("first", "variables"),
    [
        ("import tripont.torch_xla, torch_xla", {}),
        ("import torch_xla, tripont.torch_xla", {}),
        ("import torch_xla", {"PJRT_DEVICE": "XPU"}),
        ("import torch_xla", {"PJRT_DEVICE": "XPU", "XPU_LIBRARY_PATH": library_path()}),
        ("import torch_xla", {"PJRT_DEVICE": "LIBRARY", "PJRT_LIBRARY_PATH": library_path()}),
    ],
    ids=["import", "import after torch_xla", "entry point", "library path", "PJRT library"],
)
def test_ways_in(first, variables, starter: Starter, subprocess_environment):
    done = starter.run(first + _USE, _variables(subprocess_environment, variables))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["XPU", "True"]


def test_choice_of_another_device_is_respected(starter: Starter, subprocess_environment):
    done = starter.run(
        "import tripont.torch_xla, torch_xla" + _USE,
        _variables(subprocess_environment, {"PJRT_DEVICE": "CPU"}),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["CPU", "False"]


def test_experiments_that_give_wrong_results_are_refused(starter: Starter, subprocess_environment):
    variables = {"PJRT_DEVICE": "XPU", "XLA_EXPERIMENTAL": "nonzero:masked_select"}
    done = starter.run("import torch_xla" + _USE, _variables(subprocess_environment, variables))
    assert done.returncode != 0
    assert "XLA_EXPERIMENTAL=nonzero:masked_select makes PyTorch/XLA compute with" in done.stderr


_BOTH = """
import tensorflow as tf
with tf.device("/device:XPU:0"):
    assert tf.constant([[1.0, 2.0]]).numpy().tolist() == [[1, 2]]
linear = torch.nn.Linear(3, 2).to("xla")
linear(torch.ones(1, 3, device="xla")).sum().backward()
assert linear.weight.grad.cpu().tolist() == [[1, 1, 1], [1, 1, 1]]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        "import tensorflow, torch_xla",
        # torch_xla imports PyTorch first, and tripont.torch_xla torch_xla: the row above goes both ways.
        pytest.param("import torch, tensorflow, torch_xla", marks=pytest.mark.nightly),
        pytest.param("import tensorflow, tripont.torch_xla, torch_xla", marks=pytest.mark.nightly),
        # The order of every other process with both: tests/interop/frameworks, and the examples.
        pytest.param("import torch_xla, tensorflow", marks=pytest.mark.nightly),
    ],
)
def test_tensorflow_and_torch_xla_in_any_order(first, subprocess_environment):
    script = first + _USE + _BOTH
    if first.startswith("import tensorflow"):
        done = _run_after_tensorflow(script, subprocess_environment, PJRT_DEVICE="XPU")
    else:
        done = _run(script, subprocess_environment, PJRT_DEVICE="XPU")
    if first.startswith("import torch_xla") or not import_order.obstacle():
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["XPU", "True"]
    else:
        assert "TensorFlow was imported before torch_xla" in done.stderr
        assert import_order.obstacle() in done.stderr


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import tensorflow, tripont.torch_xla", "TensorFlow was imported before torch_xla"),
        # The ways to import them are those of the test above.
        pytest.param(
            "import tensorflow, torch_xla",
            "TensorFlow was imported before torch_xla",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "import torch, tensorflow, torch_xla",
            "TensorFlow was imported before torch_xla",
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["TensorFlow first", "plain", "plain, and torch first"],
)
def test_refused_after_tensorflow(script, words, subprocess_environment):
    # A preloaded library, any: one of the reasons why torch_xla cannot come after TensorFlow.
    program = f"import os; os.environ['LD_PRELOAD'] = 'libm.so.6'; {script}"
    done = _run_after_tensorflow(program, subprocess_environment)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert words in done.stderr


def test_refused_where_another_device_runs(starter: Starter, subprocess_environment):
    script = "import torch_xla, torch; torch.ones(2, device='xla').cpu(); import tripont.torch_xla"
    done = starter.run(script, _variables(subprocess_environment, {}))
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "runs on CPU already" in done.stderr
