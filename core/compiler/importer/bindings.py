"""The one place that knows where jaxlib keeps its MLIR bindings.

Everything that we take from jaxlib goes through this file: the ``ir`` module, the dialects' attribute classes, the
portable-artifact reader, the HloModuleProto reader and the pass manager. jaxlib's private modules have moved before
(``xla_extension`` became ``_jax``); when they move again, this file changes and nothing else.

MLIR objects must not outlive the interpreter's shutdown, so no module of the importer keeps one in a global for
longer than a program is read, but for the context here, which an ``atexit`` hook drops.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any, Final

# jaxlib logs a stack trace for each malformed HloModuleProto; what is wrong with it is in the exception anyway. The
# level is read when the library is loaded, and a process that has loaded it (or set a level) keeps its own.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from jaxlib import _jax
from jaxlib import version as _version
from jaxlib.mlir import ir as ir

if _version.__version_info__ >= (0, 11):
    # _sdy imports this module of Python before it has its own classes: imported first itself, it would leave the module
    # without them, and JAX, which takes them from there, could not lower a custom call in this process.
    import jaxlib.mlir.dialects.sdy  # noqa: F401
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _sdy, _stablehlo

from ..ir.errors import invalid_argument, unimplemented

# A context keeps every type and attribute that it ever saw. Making one costs about as much as reading a small program,
# so one serves this many programs and is then replaced.
PROGRAMS_PER_CONTEXT: Final = 64

_lock = threading.Lock()
_context: ir.Context | None = None
_context_uses = 0
_passes_registered = False

MLIRError: Final = ir.MLIRError


def context() -> ir.Context:
    """A context with every dialect that a program may hold; shared, and replaced now and then."""
    global _context, _context_uses
    with _lock:
        if _context is None or _context_uses >= PROGRAMS_PER_CONTEXT:
            _context = _new_context()
            _context_uses = 0
        _context_uses += 1
        return _context


def _new_context() -> ir.Context:
    new = ir.Context()
    # Threads of MLIR's own would cost more than they gain on programs of this size.
    new.enable_multithreading(False)
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    new.append_dialect_registry(registry)
    new.load_all_available_dialects()
    _stablehlo.register_dialect(new)
    _chlo.register_dialect(new)
    _mlirHlo.register_mhlo_dialect(new)
    _sdy.register_dialect(new)
    return new


@atexit.register
def _drop_context() -> None:
    global _context
    _context = None


def parse_module(program: bytes | str, in_context: ir.Context) -> ir.Module:
    """An MLIR module from text or bytecode; raises ``MLIRError`` or ``ValueError``."""
    try:
        return ir.Module.parse(program, in_context)
    except MLIRError as error:
        if "quant" not in str(error):
            raise
        load_quantized_types(in_context)
        return ir.Module.parse(program, in_context)


def load_quantized_types(context: ir.Context) -> None:
    """Let a context know the dialect ``quant``.

    jaxlib registers it nowhere, but the reader of portable artifacts brings it along, whatever it reads.
    """
    deserialize_portable_artifact(
        _jax.mlir.serialize_portable_artifact("module {}", "1.0.0"), context
    )


def deserialize_portable_artifact(program: bytes, in_context: ir.Context) -> ir.Module:
    """An MLIR module from a StableHLO portable artifact of any version that this jaxlib reads."""
    return _stablehlo.deserialize_portable_artifact(in_context, program)


def hlo_to_stablehlo(program: bytes) -> bytes:
    """MLIR bytecode or text of the StableHLO for a serialized HloModuleProto."""
    return bytes(_jax.mlir.hlo_to_stablehlo(program))


def stablehlo_to_hlo(module: ir.Module) -> bytes:
    """A module as a serialized HloModuleProto."""
    computation = _jax.mlir.mlir_module_to_xla_computation(
        module.operation.get_asm(binary=True), use_tuple_args=False, return_tuple=False
    )
    return bytes(computation.as_serialized_hlo_module_proto())


def hlo_text(program: bytes) -> str:
    """A serialized HloModuleProto as XLA prints it."""
    from jaxlib import _hlo

    return str(_hlo.HloModule.from_serialized_hlo_module_proto(program).to_string())


def run_passes(module: ir.Module, pipeline: str) -> None:
    """Run ``builtin.module(<pipeline>)`` on the module in place; raises ``MLIRError``."""
    global _passes_registered
    from jaxlib.mlir.passmanager import PassManager

    with _lock:
        if not _passes_registered:
            _stablehlo.register_stablehlo_passes()
            _mlirHlo.register_mhlo_passes()
            _passes_registered = True
    with module.context:
        PassManager.parse(f"builtin.module({pipeline})").run(module.operation)


# ----------------------------------------------------------------------------------------- dialect attributes
# MLIR hands out a dialect's attribute as a plain Attribute; these classes read its fields.

ResultAccuracy: Final = _stablehlo.ResultAccuracyAttr
ComparisonDirection: Final = _stablehlo.ComparisonDirectionAttr
ComparisonType: Final = _stablehlo.ComparisonTypeAttr
Precision: Final = _stablehlo.PrecisionAttr
FftType: Final = _stablehlo.FftTypeAttr
Transpose: Final = _stablehlo.TransposeAttr
RngDistribution: Final = _stablehlo.RngDistributionAttr
RngAlgorithm: Final = _stablehlo.RngAlgorithmAttr
ChannelHandle: Final = _stablehlo.ChannelHandle
DotDimensionNumbers: Final = _stablehlo.DotDimensionNumbers
DotAlgorithm: Final = _stablehlo.DotAlgorithm
ConvDimensionNumbers: Final = _stablehlo.ConvDimensionNumbers
GatherDimensionNumbers: Final = _stablehlo.GatherDimensionNumbers
ScatterDimensionNumbers: Final = _stablehlo.ScatterDimensionNumbers
OutputOperandAlias: Final = _stablehlo.OutputOperandAlias
TokenType: Final = _stablehlo.TokenType


def is_token(mlir_type: Any) -> bool:
    """Whether a type is StableHLO's or MHLO's token."""
    return str(mlir_type) in ("!stablehlo.token", "!mhlo.token")


def malformed(what: str, error: Exception) -> Exception:
    """The error for a program that jaxlib refused, with the first lines of what it said.

    INVALID_ARGUMENT, or UNIMPLEMENTED for an operation or type of a dialect that jaxlib does not have, and for an
    instruction of HLO that it does not convert.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:4])[:800]
    unknown = (
        "unregistered dialect",
        "not found in this MLIRContext",
        "'mhlo.unknown'",
        "dialect 'quant'",
    )
    if any(word in said for word in unknown):
        return unimplemented(
            f"the program uses an operation or type that is not known here: {said}"
        )
    return invalid_argument(f"the program is not {what}: {said}")
