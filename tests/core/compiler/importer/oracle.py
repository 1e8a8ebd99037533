"""Programs from JAX, and XLA as the judge of what we read.

A module that we read is written out as an HloModuleProto, run by JAX's own CPU client, and must give what JAX gives:
that tests the reader and the writer at once, with nothing of our code generator in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax._src.lib import xla_client
from jaxlib import _jax
from tripont.core.compiler.formats import hlo_proto
from tripont.core.compiler.ir.hlo import Module
from tripont.core.compiler.reference.evaluate import evaluate

# Old enough that any StableHLO consumer reads it, new enough for every operation that JAX makes.
ARTIFACT_VERSIONS = ("1.13.7", "1.17.0")


def lower(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The function lowered as for a CPU, whatever devices there are."""
    return jax.jit(function, **options).trace(*arguments).lower(lowering_platforms=("cpu",))


def program_text(lowered: Any) -> str:
    """The StableHLO text of a lowered function, with source locations."""
    text: str = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=True)
    return text


def portable_artifact(text: str, version: str = "") -> bytes:
    """A portable artifact of the oldest usual version that can hold the program."""
    for candidate in (version,) if version else ARTIFACT_VERSIONS:
        try:
            return bytes(_jax.mlir.serialize_portable_artifact(text, candidate))
        except Exception as error:
            failure = error
    raise failure


# Opcodes for which jaxlib has no way from HLO to StableHLO.
WITHOUT_STABLEHLO = {"acos", "asin", "cosh", "erfc", "sinh"}


def run_with_xla(
    module: Module, arguments: Sequence[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> list[np.ndarray]:
    """What XLA:CPU computes from our module; our reference evaluator, where it cannot."""
    if any(i.opcode in WITHOUT_STABLEHLO for c in module.computations() for i in c.instructions):
        return evaluate(module, arguments)
    monkeypatch.setattr(hlo_proto, "MAX_LITERAL_BYTES", 1 << 40)  # XLA needs every constant
    return execute(_jax.mlir.hlo_to_stablehlo(hlo_proto.write_module(module)), arguments)


def execute(program: bytes, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What XLA:CPU computes from StableHLO. LLVM does not optimise the code: it runs once, on a few numbers."""
    device = jax.devices("cpu")[0]
    options = xla_client.CompileOptions()
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    executable = device.client.compile_and_load(program, xla_client.DeviceList((device,)), options)
    return [
        np.asarray(r) for r in executable.execute([jax.device_put(a, device) for a in arguments])
    ]


def kept_arguments(lowered: Any, arguments: Sequence[Any]) -> list[Any]:
    """The flat arguments that the program really takes: JAX drops those that it does not use."""
    flat = jax.tree.leaves(arguments)
    kept = lowered._lowering.compile_args.get("kept_var_idx")
    return [flat[i] for i in sorted(kept)] if kept is not None else flat


def xla_text(proto: bytes) -> str:
    """The HLO text that XLA prints for a serialized HloModuleProto."""
    text: str = xla_client.XlaComputation(proto).as_hlo_text()
    return text


def parse_hlo_text(text: str) -> Any:
    """XLA's parser of HLO text; raises what it raises."""
    return xla_client.hlo.hlo_module_from_text(text)
