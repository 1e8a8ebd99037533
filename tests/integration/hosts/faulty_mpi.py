"""Builds the environment's MPI behind faulty_mpi.c."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tripont.cli.hosts import mpi_library


def build(folder: Path) -> str:
    """The library in ``folder``, for TRIPONT_MPI_PATH; without a C compiler the test is skipped."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler, for an MPI with faults")
    real = Path(mpi_library()).resolve()
    library = folder / "faulty_mpi.so"
    # One of the faults is an exception, which comes through functions in C.
    command = [compiler, "-shared", "-fPIC", "-O1", "-fexceptions"]
    command += [str(Path(__file__).with_name("faulty_mpi.c")), "-o", str(library)]
    command += ["-Wl,--no-as-needed", str(real), f"-Wl,-rpath,{real.parent}"]
    subprocess.run([*command, "-Wl,-soname,faulty_mpi", "-ldl"], check=True)
    return str(library)
