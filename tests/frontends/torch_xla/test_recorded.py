"""No call of PyTorch's table of operators is recorded though it cannot be computed, and none ends the process."""

from __future__ import annotations

import pytest

from tests.starter import Starter

from . import recorded

_PROGRAM = """
import warnings

warnings.simplefilter("ignore")
import torch_xla
import tripont.torch_xla
from tests.frontends.torch_xla import recorded

torch_xla.device()
recorded.main()
"""


@pytest.mark.nightly
def test_no_call_is_recorded_that_cannot_be_computed(
    starter: Starter, subprocess_environment: dict[str, str]
) -> None:
    done = starter.run(_PROGRAM, subprocess_environment, timeout=1800)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    assert done.returncode == 0, f"{lines[-1]}\n{done.stderr[-4000:]}"
    assert [line for line in lines if line.startswith(recorded.LATE)] == []
