"""Clones of other projects' sources, of which nothing is kept here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


def clone(repository: str, tag: str, path: Path, folders: Sequence[str] = ()) -> Path:
    """``path``, with the sources of ``tag`` cloned into it unless they are there; of ``folders`` alone, if any.

    The clone gets its name when it is whole: one that failed is made again. Raises CalledProcessError.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = ["git", "clone", "--quiet", "--depth", "1", "--branch", tag]
    if folders:
        command += ["--filter=blob:none", "--sparse"]
    subprocess.run([*command, repository, str(partial)], check=True)
    if folders:
        sparse = ["git", "-C", str(partial), "sparse-checkout", "set", *folders]
        subprocess.run(sparse, check=True)
    return partial.rename(path)
