"""The side under test: our compiler in this process, and a device of the target that the environment names."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from tripont.core import _tripont
from tripont.core.compiler import artifact
from tripont.core.compiler.artifact import Executable
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.hlo import Module
from tripont.core.compiler.importer.program import read_program

# host, sycl or sycl:cpu-as-gpu (the kernels of a GPU on the SYCL CPU device); a program is compiled for it and runs on
# its first device.
TARGET = os.environ.get("TRIPONT_CONFORMANCE_TARGET") or "host"
_OPTIONS = {"target": TARGET.split(":")[0]}
if TARGET == "sycl:cpu-as-gpu":
    _OPTIONS["sycl_device"] = "gpu,fp16,fp64,sub-groups"


@functools.cache
def device() -> Any:
    """The device. Made before anything is loaded: a process has devices of one kind."""
    return _tripont.Client({"device": TARGET}).devices[0]


def compile_text(program: str) -> tuple[Module, Executable]:
    """The module as read, and the executable. Raises CompileError."""
    module = read_program(program.encode(), "mlir")
    return module, compile_module(module, _OPTIONS)


def run(executable: Executable, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    on = device()
    loaded = _tripont.Executable.load(artifact.serialize(executable))
    return [np.asarray(r) for r in loaded.run(on, list(arguments))]


def how_done(executable: Executable) -> str:
    """``generated code``, the names of library calls, or ``copies`` for a program that only moves data about."""
    names = sorted({name for thunk in _thunks(executable.thunks) if (name := _library_name(thunk))})
    if names:
        return "library: " + ", ".join(names)
    return "generated code" if executable.code else "copies"


def _thunks(thunks: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for thunk in thunks:
        found.append(thunk)
        for field in ("condition", "body", "branches"):
            inner = getattr(thunk, field, ())
            for part in inner:
                found += _thunks(part if isinstance(part, tuple | list) else (part,))
    return found


def _library_name(thunk: Any) -> str:
    return str(thunk.name) if isinstance(thunk, artifact.LibraryCall) else ""
