"""torch_xla's own tests on ``xpu``, PyTorch's table of operators (op_db) among them.

    python -m tests.upstream.torch_suite                         clones the installed torch_xla's version, and runs 20
                                                                 tests of each file
    python -m tests.upstream.torch_suite --minutes 30 --seed 7   others, as many as fit into half an hour
    python -m tests.upstream.torch_suite --cases 0 test_ops      all tests of the files of such a name
    python -m tests.upstream.torch_suite --report --table        runs nothing: what earlier results say

The packages bring no tests: they are those of a checkout (BSD 3-Clause; nothing of them is kept here), run with
``PJRT_DEVICE=XPU``. What fails runs again with ``PJRT_DEVICE=CPU``, torch_xla's own device. ``suites.py`` says how the
tests are judged; the known failures are in ``known_failures_of_torch.toml``.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping

from . import suites
from .jax_suite import HERE


def environment(device: str) -> Mapping[str, str]:
    return {
        "PJRT_DEVICE": device.upper(),
        "CPU_NUM_DEVICES": "1",
        "TORCH_TEST_DEVICES": "test/pytorch_test_base.py",  # from the checkout, where pytest runs
    }


FOLDERS = "ds dynamo eager pjrt quantized_ops scan spmd stablehlo"
SUITE = suites.Suite(
    name="torch",
    repository="https://github.com/pytorch/xla",
    version=lambda: importlib.metadata.version("torch_xla"),
    folders=("test",),
    patterns=("test/test_*.py", *(f"test/{folder}/test_*.py" for folder in FOLDERS.split())),
    plugin="xpu_under_torch_tests",
    environment=environment,
    known=HERE / "known_failures_of_torch.toml",
    description=__doc__ or "",
)

if __name__ == "__main__":
    sys.exit(suites.main(SUITE, sys.argv[1:]))
