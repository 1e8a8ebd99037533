"""What a check of ``tripont doctor`` finds, and the means to look."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from dataclasses import dataclass

from tripont import helper_process

OK, WARNING, ERROR = "ok", "warning", "error"


@dataclass(frozen=True)
class Finding:
    """status: OK, WARNING (works, but) or ERROR (the device does not work). fix: what to do about it."""

    name: str
    status: str
    detail: str
    fix: str = ""


def in_process(code: str, timeout: float = 120, **variables: str) -> tuple[bool, str]:
    """Run Python code in a process of its own, with more variables in its environment.

    Returns success, and its output or the last line of its error.
    """
    try:
        result = subprocess.run(
            helper_process.command(code),
            env=os.environ | {"JAX_TRACEBACK_FILTERING": "off"} | variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {timeout:.0f} s"
    if result.returncode == 0:
        return True, result.stdout.strip()
    if result.returncode < 0:
        return False, f"ended by signal {-result.returncode}"
    lines = [line for line in result.stderr.strip().splitlines() if line.strip()]
    for line in lines:  # the frontend's own warning says more than what JAX makes of it
        if line.startswith("tripont:0: RuntimeWarning: "):
            return False, line.removeprefix("tripont:0: RuntimeWarning: ").removesuffix(
                " (`tripont doctor` says more)"
            )
    return False, lines[-1] if lines else f"exit code {result.returncode}"


def check_package(name: str, needed_for: str, minimum: str) -> Finding:
    fix = f"pip install '{name}>={minimum}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, ERROR, f"missing; needed for {needed_for}", fix)

    def numbers(text: str) -> list[int]:
        return [int(part) if part.isdigit() else 0 for part in text.split("+")[0].split(".")]

    if numbers(version) < numbers(minimum):
        return Finding(name, ERROR, f"{version} is older than {minimum}", fix)
    return Finding(name, OK, f"{version} ({needed_for})")
