"""Programs in a process of their own: a process uses devices of one kind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The finished process of some Python code. A variable with an empty value is unset."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_", "ONEAPI_", "JAX_"))}
    wanted = {k: v for k, v in (keep | environment).items() if v}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=wanted,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def output(code: str, **environment: str) -> str:
    """What the code prints, on the SYCL CPU device if the environment says nothing else."""
    result = run(code, **{"TRIPONT_DEVICE": "sycl:cpu", **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout
