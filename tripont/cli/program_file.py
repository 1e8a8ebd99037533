"""Reading the files that the commands are given, with errors that say what is wrong with them."""

from __future__ import annotations

from pathlib import Path

from .terminal import fail

MLIR_BYTECODE = b"ML\xefR"


def read(path: Path) -> bytes:
    try:
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
        text = data[:4096].decode()
    except UnicodeDecodeError:
        return "hlo"
    return "mlir" if "module" in text or "func.func" in text else "hlo"
