"""Reading the files that the commands are given, with errors that say what is wrong with them."""

from __future__ import annotations

import stat
from pathlib import Path

from .terminal import fail

MLIR_BYTECODE = b"ML\xefR"
HLO_TEXT = "HloModule"


def read(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            fail(f"cannot read {path}: it is a device")
        return path.read_bytes()
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")


def guess_format(data: bytes, path: Path) -> str:
    """``mlir`` for StableHLO (bytecode, portable artifact or text), ``hlo`` for a serialized HloModuleProto."""
    if data.startswith(MLIR_BYTECODE) or path.suffix in {".mlir", ".stablehlo", ".mlirbc"}:
        return "mlir"
    if path.suffix in {".hlo", ".pb"}:
        return "hlo"
    try:
        text = data[:4096].decode(errors="strict" if len(data) <= 4096 else "ignore")
    except UnicodeDecodeError:
        return "hlo"
    if text.lstrip().startswith(HLO_TEXT):
        return "hlo"
    return "mlir" if "module" in text or "func.func" in text else "hlo"


def program_bytes(data: bytes, format: str) -> bytes:
    """The program as the compiler takes it: HLO text (what XLA prints) becomes a HloModuleProto."""
    if format != "hlo" or not data.lstrip().startswith(HLO_TEXT.encode()):
        return data
    from jaxlib import _hlo

    try:
        return bytes(_hlo.hlo_module_from_text(data.decode()).as_serialized_hlo_module_proto())
    except Exception as error:  # jaxlib's own error classes
        fail(f"this is not HLO text that XLA reads: {str(error).splitlines()[0]}")
