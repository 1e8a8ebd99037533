"""LLVM as it comes with llvmlite: which versions the compiler can use, and its start."""

from __future__ import annotations

import functools
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from ..ir.errors import CompileError

# The first llvmlite with each LLVM. numba, and whatever is built on it, asks for an llvmlite of its own time. An older
# LLVM does not know all that kernels are written with, and may end the process over it.
LLVMLITE: Final = {20: "0.45", 22: "0.48"}


@functools.cache
def initialise(needed_by: str = "tripont's compiler", oldest: int = 20) -> None:
    """Start LLVM's targets.

    Raises CompileError FAILED_PRECONDITION for an LLVM before ``oldest`` (a key of :data:`LLVMLITE`).
    """
    version = llvm.llvm_version_info
    if version[0] < oldest:
        raise CompileError(
            "FAILED_PRECONDITION",
            f"llvmlite {llvmlite.__version__} at {llvmlite.__path__[0]} has LLVM {'.'.join(map(str, version))}, and "
            f"{needed_by} needs LLVM {oldest} or newer: pip install 'llvmlite>={LLVMLITE[oldest]}'",
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
