"""JAX with several devices. How many is settled once in a process: these tests have processes of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.framework_process import make_module

if TYPE_CHECKING:
    from jax.sharding import Mesh

NUM_DEVICES = 4


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    collector = make_module(module_path, parent)
    if collector is None:  # this is that process
        os.environ["TRIPONT_NUM_DEVICES"] = str(NUM_DEVICES)
        flag = f" --xla_force_host_platform_device_count={NUM_DEVICES}"
        os.environ["XLA_FLAGS"] = os.environ["XLA_FLAGS"].removesuffix(flag) + flag
    return collector


@pytest.fixture
def mesh() -> Mesh:
    """All devices, in one row."""
    import jax
    import numpy as np
    from jax.sharding import Mesh

    return Mesh(np.array(jax.devices("xpu")), ("x",))
