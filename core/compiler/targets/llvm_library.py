"""LLVM as it comes with llvmlite: which versions the compiler can use, and its start."""

from __future__ import annotations

import functools
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from ..ir.errors import CompileError

# LLVM 20 came with llvmlite 0.45; numba, and whatever is built on it, asks for an llvmlite of its own time. An older
# LLVM does not know all that kernels are written with, and may end the process over it.
OLDEST: Final = (20,)
OLDEST_LLVMLITE: Final = "0.45"


@functools.cache
def initialise() -> None:
    """Start LLVM's targets, once in a process.

    Raises CompileError FAILED_PRECONDITION for an LLVM that is older than :data:`OLDEST`.
    """
    check_version(llvm.llvm_version_info)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def check_version(version: tuple[int, ...]) -> None:
    """Raise CompileError FAILED_PRECONDITION for an LLVM of ``version`` if it is too old to be asked for anything."""
    if version < OLDEST:
        raise CompileError(
            "FAILED_PRECONDITION",
            f"llvmlite {llvmlite.__version__} at {llvmlite.__path__[0]} has LLVM {'.'.join(map(str, version))}, and "
            f"tripont's compiler needs LLVM {OLDEST[0]} or newer: pip install 'llvmlite>={OLDEST_LLVMLITE}'",
        )
