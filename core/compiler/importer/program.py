"""Program formats: bytes -> MLIR module -> (legalising passes where needed) -> HLO module.

Formats, as the PJRT C API names them:

``mlir``
    StableHLO as text, MLIR bytecode or a portable artifact of any version that jaxlib reads.
``hlo``
    A serialized HloModuleProto.
"""

from __future__ import annotations

import contextlib
import threading

from ..ir import hlo, registry
from ..ir.errors import CompileError, internal, invalid_argument
from ..ir.recursion import deep_recursion
from ..targets import accuracy
from ..targets.accuracy import Ulps
from . import bindings, bytecode, hlo_module, hlo_reader, legalize, signature
from .bindings import MLIRError, ir
from .reading_limit import reading_limit
from .stablehlo import NeedsPasses, ProgramReader

FORMATS = ("mlir", "hlo")

# What a portable artifact's producer starts with.
_PORTABLE_PRODUCER = "StableHLO_v"

# MLIR's context is shared, and Python's recursion limit is one for the process.
_one_at_a_time = threading.Lock()


def read_program(program: bytes, format: str, target_ulps: Ulps = accuracy.ulps) -> hlo.Module:
    """The HLO module that ``program`` means.

    ``format`` is ``"mlir"`` or ``"hlo"``; ``target_ulps``: :meth:`..targets.target.Target.ulps`. Raises
    :class:`CompileError`: INVALID_ARGUMENT for bytes that are not such a program, UNIMPLEMENTED (with op, shapes and
    source line) for what we cannot compile.
    """
    if format not in FORMATS:
        raise invalid_argument(f"unknown program format {format!r}; known are {', '.join(FORMATS)}")
    if not program:
        raise invalid_argument("the program is empty")
    with _one_at_a_time:
        return _read(program, format, target_ulps)


def read_signature(program: bytes, format: str) -> signature.Signature:
    """What ``program`` says of its devices, without reading the rest. Raises as :func:`read_program`."""
    with _one_at_a_time, reading_limit(len(program)):
        return signature.signature_of(read_mlir(program, format, bindings.context()))


def _read(program: bytes, format: str, target_ulps: Ulps) -> hlo.Module:
    context = bindings.context()
    # Diagnostics travel in the exceptions; nothing of them is for the process's standard error.
    handler = context.attach_diagnostic_handler(lambda diagnostic: True)
    try:
        if format == "hlo" and (direct := hlo_reader.read_module(program)) is not None:
            direct.buffer_donors = hlo_module.buffer_donors(program)
            return direct
        with reading_limit(len(program)):
            module = read_mlir(program, format, context)
        read = _read_module(module, target_ulps)
        if format == "hlo":
            read.buffer_donors = hlo_module.buffer_donors(program)
        return read
    except CompileError:
        raise
    except (UnicodeDecodeError, RuntimeError) as error:
        # The bindings found text that is not UTF-8, in names or locations.
        raise invalid_argument(f"the program is damaged: {error}") from error
    except Exception as error:
        raise internal(f"the program could not be read: {type(error).__name__}: {error}") from error
    finally:
        handler.detach()


def warm_up() -> None:
    """Read a small program of each format's kind, so that the first real one finds every module loaded."""
    read_program(
        b"func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }", "mlir"
    )
    with contextlib.suppress(CompileError):
        # A nameless HloModuleProto: loads the reader, and is refused.
        read_program(b"\n\x01m", "hlo")


def read_mlir(program: bytes, format: str, context: ir.Context) -> ir.Module:
    """The MLIR module in ``program``, verified but not yet legalised; raises INVALID_ARGUMENT."""
    try:
        if format == "hlo":
            return _read_hlo(program, context)
        if bytecode.is_bytecode(program):
            bytecode.check_envelope(program)
            if is_portable_artifact(program):
                return bindings.deserialize_portable_artifact(program, context)
            return bindings.parse_module(program, context)
        try:
            text = program.decode("utf-8")
        except UnicodeDecodeError as error:
            raise invalid_argument("the program is neither MLIR bytecode nor UTF-8 text") from error
        return bindings.parse_module(text, context)
    except CompileError:
        raise
    except (MLIRError, ValueError, RuntimeError, TypeError, SystemError) as error:
        what = "a valid HloModuleProto" if format == "hlo" else "valid StableHLO"
        raise bindings.malformed(what, error) from error


def _read_hlo(program: bytes, context: ir.Context) -> ir.Module:
    with contextlib.suppress(ValueError):  # bytes that are no message: the conversion says so
        program = hlo_module.convertible(registry.rewritten_proto(program))
    try:
        return bindings.parse_module(bindings.hlo_to_stablehlo(program), context)
    except (MLIRError, ValueError, RuntimeError):
        with contextlib.suppress(
            ValueError
        ):  # bytes that are no message: the first error says more
            modern = hlo_module.modernize(program)
            if modern is not program:
                return bindings.parse_module(bindings.hlo_to_stablehlo(modern), context)
        raise


def is_portable_artifact(program: bytes) -> bool:
    """Whether bytes are StableHLO's versioned serialization (VHLO), as opposed to plain MLIR bytecode."""
    return bytecode.is_bytecode(program) and bytecode.producer(program).startswith(
        _PORTABLE_PRODUCER
    )


def _read_module(module: ir.Module, target_ulps: Ulps) -> hlo.Module:
    """Read the module; what the reader cannot take as it is goes through passes first, once each."""
    done: set[str] = set()
    with deep_recursion():
        while True:
            try:
                return ProgramReader(module, target_ulps).read()
            except NeedsPasses as need:
                if need.stage in done:
                    raise need.error from None
                done.add(need.stage)
                try:
                    module = legalize.STAGES[need.stage](module)
                except (MLIRError, ValueError, RuntimeError) as error:
                    raise CompileError(
                        need.error.code, f"{need.error.message}: {error}"[:2000]
                    ) from error
