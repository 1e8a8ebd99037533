"""Runs generated code in the test process: maps a code image and calls its functions through
ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.host.target import HostTarget
from tripont.core.compiler.targets.image import Image
from tripont.core.compiler.targets.target import Target

_LIBC = ctypes.CDLL(None)
_LIBM = ctypes.CDLL("libm.so.6")
# Bits of the register MXCSR, which is the last word of C's fenv_t: results and operands that are denormal count as 0.
_FLUSH, _FENV, _MXCSR = 0x8040, 32, 7

# Functions of tests that code may call: name -> address.
FUNCTIONS: dict[str, int] = {}


def needs(target: Target) -> None:
    """Skip the test if this CPU lacks instructions of ``target``, whose code would end the process."""
    if not set(target.features) <= set(for_cpu().features):
        pytest.skip(f"this CPU cannot run code for {target.cpu}")


class NativeImage:
    """A code image that can be called. Kernels take arrays of addresses, as an artifact's do."""

    def __init__(self, image: Image) -> None:
        code = bytearray(image.code)
        for name, offset in image.imports:
            library = _LIBM if name.startswith("fmod") else _LIBC
            address = FUNCTIONS.get(name)
            if address is None:
                address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            struct.pack_into("<Q", code, offset, address)
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self.memory = mmap.mmap(-1, len(code), prot=protection)
        self.memory.write(bytes(code))
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.symbols = image.symbols

    def function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *arguments)(self.base + self.symbols[name])

    def run_kernel(self, name: str, arrays: Sequence[np.ndarray], begin: int, end: int) -> None:
        kernel = self.function(name, None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        addresses = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        kernel(ctypes.addressof(addresses), begin, end)


@contextlib.contextmanager
def flushing_denormals() -> Iterator[None]:
    """This thread's floating-point operations take denormal operands for 0, and give 0 in place of denormal results."""
    words = (ctypes.c_uint32 * (_FENV // 4))()
    _LIBM.fegetenv(words)
    before = words[_MXCSR]
    words[_MXCSR] = before | _FLUSH
    _LIBM.fesetenv(words)
    try:
        yield
    finally:
        words[_MXCSR] = before
        _LIBM.fesetenv(words)


class _WithoutDouble(HostTarget):
    has_double = False


def without_double() -> Target:
    """This CPU, taken for a device that does not compute with 64-bit floats."""
    host = for_cpu()
    return _WithoutDouble(**{f.name: getattr(host, f.name) for f in dataclasses.fields(host)})


class _WithoutPacking(HostTarget):
    packs_products = False


def without_packing(cpu: str, onednn: bool = True) -> Target:
    """A CPU whose products are oneDNN's wherever oneDNN can compute them."""
    host = for_cpu(cpu, onednn)
    return _WithoutPacking(**{f.name: getattr(host, f.name) for f in dataclasses.fields(host)})


def elementwise(
    function: Callable[..., llvm_ir.Value],
    scalar: str,
    operands: int,
    cpu: str | Target = "host",
    lanes: int = 0,
) -> Callable[..., np.ndarray]:
    """A NumPy function that applies ``function(builder, target, x...)`` to float or double arrays."""
    target: Target = for_cpu(cpu) if isinstance(cpu, str) else cpu
    size = 4 if scalar == "float" else 8
    lanes = lanes or target.vector_bytes // size
    type_ = llvm_ir.vector(scalar, lanes)
    module = target.module()
    b = llvm_ir.Builder(
        module, "f", ["ptr"] * (operands + 1) + ["i64"], attributes=target.function_attributes
    )
    *pointers, count = b.arguments
    with b.loop(llvm_ir.i64(0), count, lanes) as i:
        values = [b.load(type_, b.gep(scalar, p, i), size) for p in pointers[:-1]]
        b.store(function(b, target, *values), b.gep(scalar, pointers[-1], i), size)
    b.ret()
    b.finish()
    needs(target)
    image = NativeImage(target.compile(module))
    dtype = np.float32 if scalar == "float" else np.float64
    call = image.function("f", None, *[ctypes.c_void_p] * (operands + 1), ctypes.c_int64)

    def apply(*arrays: np.ndarray) -> np.ndarray:
        n = len(arrays[0])
        padded = -(-n // lanes) * lanes
        inputs = [np.zeros(padded, dtype) for _ in arrays]
        for a, x in zip(inputs, arrays, strict=True):
            a[:n] = x
        out = np.empty(padded, dtype)
        call(*(a.ctypes.data for a in inputs), out.ctypes.data, padded)
        return out[:n]

    apply.image = image  # type: ignore[attr-defined]
    return apply
