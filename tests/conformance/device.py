"""The side under test: our compiler in this process, and two devices of the target that the environment names."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import Executable
from tripont.core.compiler.importer.program import read_program

from tests.core.runtime.backends.checked import build

# host, sycl, sycl:cpu-as-gpu (the kernels of a GPU on the SYCL CPU device), or checked (the CPU, with kernels that are
# caught when they go outside of their arrays: tests/core/runtime/backends/checked); a program is compiled for it.
TARGET = os.environ.get("TRIPONT_CONFORMANCE_TARGET") or "host"
OPTIONS = {"target": TARGET.split(":")[0], "cpu": os.environ.get("TRIPONT_CPU") or "host"}
if TARGET == "sycl:cpu-as-gpu":
    OPTIONS["device"] = "gpu,fp16,fp64,sub-groups"
if TARGET == "checked":
    os.environ.update(build.environment())
    sys.path.append(str(build.package()))


@functools.cache
def devices() -> Any:
    """The devices. Made before anything is loaded: a process has devices of one kind."""
    return _tripont.Client({"device": TARGET, "num_devices": 2}).devices


def is_hlo_text(program: str) -> bool:
    return program.startswith("HloModule")


def as_hlo(program: str) -> bytes:
    """The HloModuleProto that TensorFlow and PyTorch/XLA would hand over for this StableHLO, as XLA itself converts it.

    Raises an exception of jaxlib's for what HLO does not have. HLO text is parsed.
    """
    from jaxlib import _hlo, _jax

    if is_hlo_text(program):
        return bytes(_hlo.hlo_module_from_text(program).as_serialized_hlo_module_proto())
    return bytes(
        _jax.mlir.mlir_module_to_xla_computation(
            program, use_tuple_args=False, return_tuple=False
        ).as_serialized_hlo_module_proto()
    )


def compile_program(program: str | bytes) -> Executable:
    """The executable of StableHLO text, or of the bytes of an HloModuleProto. Raises CompileError."""
    if isinstance(program, bytes):
        return compile_module(read_program(program, "hlo"), OPTIONS)
    return compile_module(read_program(program.encode(), "mlir"), OPTIONS)


def run(
    executable: Executable, arguments: Sequence[np.ndarray], device: int = 0
) -> list[np.ndarray]:
    """The results, from the device of this number."""
    on = devices()[device]
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
