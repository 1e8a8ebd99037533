"""AMX's registers in NumPy: kernels that multiply matrices run on CPUs without them.

Kernels call a function of this module where they have an instruction otherwise. Source of what instructions do: Intel's
Software Developer's Manual, volume 2, LDTILECFG to TILEZERO.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from tripont.core.compiler.codegen.kernels import matrix_tiles
from tripont.core.compiler.codegen.llvm_ir import Builder, Value
from tripont.core.compiler.targets.host import linker

from . import native

_NUMBER, _ADDRESS, _DISTANCE = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64
_COUNT: Final = 8
_SMALLEST: Final = np.finfo(np.float32).tiny

Array = np.ndarray[Any, Any]


def _bytes(address: int, count: int) -> Array:
    return np.frombuffer((ctypes.c_uint8 * count).from_address(address), np.uint8)


def _rows(address: int, distance: int, rows: int, width: int) -> Array:
    """The rows in memory, which begin ``distance`` bytes after one another: nothing between them is touched."""
    if not rows or not width:
        return np.empty((rows, width), np.uint8)
    first = address + min((rows - 1) * distance, 0)
    memory = _bytes(first, abs(distance) * (rows - 1) + width)
    return np.ndarray((rows, width), np.uint8, memory, address - first, (distance, 1))


class Registers:
    """The registers of a thread. What a CPU would answer with an exception is kept in ``problems``."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.widths: list[int] = []
        self.values: list[Array] = []
        self.problems: list[str] = []
        self.multiplications = 0
        signatures: dict[str, tuple[Callable[..., None], list[Any]]] = {
            "ldtilecfg": (self.configure, [_ADDRESS]),
            "tilerelease": (self.release, []),
            "tilezero": (self.zero, [_NUMBER]),
            "tileloadd64": (self.load, [_NUMBER, _ADDRESS, _DISTANCE]),
            "tileloaddt164": (self.load, [_NUMBER, _ADDRESS, _DISTANCE]),
            "tilestored64": (self.store, [_NUMBER, _ADDRESS, _DISTANCE]),
        }
        for name, kinds in (
            ("tdpbssd", (np.int8, np.int8)),
            ("tdpbsud", (np.int8, np.uint8)),
            ("tdpbusd", (np.uint8, np.int8)),
            ("tdpbuud", (np.uint8, np.uint8)),
        ):
            signatures[name] = (self._integers(*kinds), [_NUMBER] * 3)
        signatures["tdpbf16ps"] = (self.bf16, [_NUMBER] * 3)
        self._functions = {
            f"emulated_{name}": ctypes.CFUNCTYPE(None, *types)(self._noted(function))
            for name, (function, types) in signatures.items()
        }

    def install(self, monkeypatch: Any) -> None:
        """Let kernels that are made from now on use these registers."""
        for name, function in self._functions.items():
            address = ctypes.cast(function, ctypes.c_void_p).value
            monkeypatch.setitem(native.FUNCTIONS, name, address)

        def call(b: Builder, name: str, *operands: Value) -> None:
            b.call("void", f"emulated_{name}", operands)

        monkeypatch.setattr(matrix_tiles, "instruction", call)
        monkeypatch.setattr(linker, "IMPORTABLE", linker.IMPORTABLE | set(self._functions))

    def _noted(self, function: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:
            try:
                function(*arguments)
            except Exception as error:  # ctypes would print it and go on
                self.problems.append(f"{type(error).__name__}: {error}")

        return called

    def configure(self, address: int) -> None:
        content = _bytes(address, 64)
        if content[0] != 1 or content[1:16].any() or content[32:48].any() or content[56:].any():
            raise ValueError("a palette, or reserved bytes, that no CPU takes")
        self.widths = [int(n) for n in content[16:32].view(np.uint16)]
        self.rows = [int(n) for n in content[48:56]]
        if max(self.rows) > 16 or max(self.widths) > 64:
            raise ValueError("registers have 16 rows of 64 bytes")
        self.values = [np.zeros((16, 64), np.uint8) for _ in range(_COUNT)]

    def release(self) -> None:
        self.rows, self.widths, self.values = [], [], []

    def zero(self, number: int) -> None:
        self.values[number][...] = 0

    def load(self, number: int, address: int, distance: int) -> None:
        value = self.values[number]
        rows, width = self.rows[number], self.widths[number]
        value[...] = 0
        value[:rows, :width] = _rows(address, distance, rows, width)

    def store(self, number: int, address: int, distance: int) -> None:
        rows, width = self.rows[number], self.widths[number]
        _rows(address, distance, rows, width)[...] = self.values[number][:rows, :width]

    def _shape(self, sums: int, lhs: int, rhs: int) -> tuple[int, int, int]:
        """Rows, columns and depth of a multiplication."""
        rows, columns, depth = self.rows[sums], self.widths[sums] // 4, self.rows[rhs]
        if (self.rows[lhs], self.widths[lhs], self.widths[rhs]) != (rows, 4 * depth, 4 * columns):
            raise ValueError(f"registers {sums}, {lhs} and {rhs} do not fit each other")
        self.multiplications += 1
        return rows, columns, depth

    def _integers(self, lhs_type: Any, rhs_type: Any) -> Callable[[int, int, int], None]:
        def multiply(sums: int, lhs: int, rhs: int) -> None:
            rows, columns, depth = self._shape(sums, lhs, rhs)
            a = self.values[lhs].view(lhs_type)[:rows, : 4 * depth].astype(np.float32)
            b = self.values[rhs].view(rhs_type)[:depth, : 4 * columns].astype(np.float32)
            b = b.reshape(depth, columns, 4).transpose(0, 2, 1).reshape(4 * depth, columns)
            total = self.values[sums].view(np.int32)[:rows, :columns]
            total += (a @ b).astype(np.int32)  # all sums of 64 products of bytes are floats

        return multiply

    def bf16(self, sums: int, lhs: int, rhs: int) -> None:
        """Even and odd terms are added up apart from each other, then their sums to the register."""
        rows, columns, depth = self._shape(sums, lhs, rhs)
        a = _floats(self.values[lhs][:rows, : 4 * depth])
        b = _floats(self.values[rhs][:depth, : 4 * columns]).reshape(depth, columns, 2)
        total = self.values[sums].view(np.float32)[:rows, :columns]
        if _sums_are_exact(a, b):
            total += a @ b.transpose(0, 2, 1).reshape(2 * depth, columns)
            return
        wide = a.astype(np.float64).reshape(rows, depth, 2).transpose(1, 2, 0)
        exact = wide[..., None] * b.astype(np.float64).transpose(0, 2, 1)[..., None, :]
        parts = np.zeros((2, rows, columns), np.float32)
        for terms in exact:  # an even and an odd one for each sum
            parts = (parts + terms).astype(np.float32)
        total += parts[0] + parts[1]


def _sums_are_exact(a: Array, b: Array) -> bool:
    """Whether no sum of products is rounded, in whichever order: they are small integers."""
    if not a.size or not b.size:
        return True
    most = float(np.abs(a).max()) * float(np.abs(b).max()) * a.shape[1]
    return most <= 1 << 24 and bool((np.rint(a) == a).all() and (np.rint(b) == b).all())


def _floats(rows: Array) -> Array:
    """The floats of rows of bf16; the smallest ones count as zero."""
    bits = np.ascontiguousarray(rows).view(np.uint16).astype(np.uint32) << 16
    values = bits.view(np.float32)
    values[np.abs(values) < _SMALLEST] = 0
    return values
