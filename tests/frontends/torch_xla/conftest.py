"""PyTorch/XLA's tests run in processes of their own, and start the device before PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.framework_process import make_module
from tests.starter import Starter


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    # The results of some operators have a sign that depends on what was drawn before.
    return make_module(module_path, parent, first=["test_operators.py"])


@pytest.fixture(scope="session", autouse=True)
def _started() -> None:
    """PyTorch counts the devices at its first backward pass; torch_xla's are there once its runtime has started."""
    import torch_xla

    import tripont.torch_xla  # noqa: F401

    torch_xla.device()


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    """Runs programs that need a process of their own, and may begin it where PyTorch has been imported."""
    started = Starter("torch._dynamo", "torch._inductor.fx_passes.post_grad")  # as torch_xla does
    yield started
    started.end()
