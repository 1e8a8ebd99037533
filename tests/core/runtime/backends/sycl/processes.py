"""Programs in a process of their own: a process uses devices of one kind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from tests.starter import Starter


def run(
    code: str, starter: Starter | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The finished process of some Python code; ``starter`` may begin it. A variable with an empty value is unset."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_", "ONEAPI_", "JAX_"))}
    wanted = {k: v for k, v in (keep | environment).items() if v}
    if starter is not None:
        return starter.run(textwrap.dedent(code), wanted, timeout=200)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=wanted,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def output(code: str, starter: Starter | None = None, **environment: str) -> str:
    """What the code prints, on the SYCL CPU device if the environment says nothing else."""
    result = run(code, starter, **{"TRIPONT_DEVICE": "sycl:cpu", **environment})
    assert result.returncode == 0, result.stderr
    return result.stdout
