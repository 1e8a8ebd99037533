"""Runs one kernel on NumPy arrays: emit, compile, map into memory, call."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Sequence
from typing import Final

import numpy as np
from tripont.core.compiler.codegen.kernels.emit import EmittedKernel, emit_kernel
from tripont.core.compiler.ir import hlo, registry
from tripont.core.compiler.targets import host
from tripont.core.compiler.targets.image import Image
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.codegen.native import needs

registry.load()  # as reading a program does, which tests of kernels leave out

_libc = ctypes.CDLL(None)
_libm = ctypes.CDLL("libm.so.6")


class LoadedImage:
    """An image in executable memory."""

    def __init__(self, image: Image) -> None:
        code = bytearray(image.code)
        for name, offset in image.imports:
            function = getattr(_libm if name.startswith("fmod") else _libc, name)
            address = ctypes.cast(function, ctypes.c_void_p).value
            code[offset : offset + 8] = address.to_bytes(8, "little")
        self.memory = mmap.mmap(
            -1, max(len(code), 1), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        )
        self.memory.write(bytes(code))
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.symbols = image.symbols

    def function(self, name: str):
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        return kind(self.base + self.symbols[name])


_PATTERN: Final = 0xA5


def aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array at a multiple of 64 bytes, surrounded by guard bytes, filled with a pattern."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.full(size + 192, _PATTERN, np.uint8)
    start = -raw.ctypes.data % 64 + 64
    return np.ndarray(tuple(shape), dtype, raw.data, start)


def check_guards(array: np.ndarray) -> None:
    """That nothing was written beside an array of :func:`aligned`."""
    raw = np.frombuffer(array.base, np.uint8)  # type: ignore[call-overload]
    start = array.ctypes.data - raw.ctypes.data
    outside = np.concatenate([raw[:start], raw[start + array.nbytes :]])
    assert (outside == _PATTERN).all(), f"a kernel wrote beside its {array.dtype}{array.shape}"


class Kernel:
    """A compiled kernel of ``instruction``, called with NumPy arrays."""

    def __init__(
        self, instruction: hlo.Instruction, target: Target | None = None, dump: bool = False
    ) -> None:
        self.instruction = instruction
        self.target = target or host.for_cpu()
        module = self.target.module()
        self.emitted: EmittedKernel = emit_kernel(module, self.target, instruction, "kernel")
        self.ir = str(module)
        self.image = self.target.compile(module, dump=dump)
        self.loaded = LoadedImage(self.image)
        self.function = self.loaded.function(self.emitted.function)

    def run(self, arguments: Sequence[np.ndarray], splits: Sequence[int] = ()) -> list[np.ndarray]:
        """The results; the range of work is cut at ``splits``, and the pieces are done last first."""
        results = [aligned(s.dims, s.dtype.numpy) for s in self.instruction.result_shapes]
        inputs = []
        for operand, argument in zip(self.instruction.operands, arguments, strict=True):
            array = aligned(operand.dims, operand.dtype.numpy)
            array[...] = argument
            inputs.append(array)
        self.call([*inputs, *results], splits)
        return results

    def call(self, arrays: Sequence[np.ndarray], splits: Sequence[int] = ()) -> None:
        needs(self.target)
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        count = self.emitted.work_count
        cuts = sorted({0, count, *(s for s in splits if 0 < s < count)})
        for begin, end in reversed(list(itertools.pairwise(cuts))):
            self.function(ctypes.addressof(pointers), begin, end)
        for array in arrays:
            if isinstance(array.base, memoryview):
                check_guards(array)


def runnable(cpu: str) -> Target:
    """The target of a CPU, for code that runs here; skips the test if this CPU lacks instructions of that one."""
    target = host.for_cpu(cpu)
    needs(target)
    return target


def fusion(
    kind: str, parameters: Sequence[hlo.Instruction], *roots: hlo.Instruction
) -> hlo.Instruction:
    """A fusion instruction whose operands are parameters of the same shapes."""
    operands = [hlo.parameter(p.attributes["index"], p.shape) for p in parameters]
    if len(roots) == 1:
        root = roots[0]
    else:
        root = hlo.Instruction("tuple", hlo.TupleShape(tuple(r.shape for r in roots)), roots)
    computation = hlo.Computation.from_root("fused", parameters, root)
    return hlo.Instruction("fusion", root.shape, operands, {"kind": kind}, [computation])


def op(
    opcode: str, shape: hlo.Shape, *operands: hlo.Instruction, called=(), **attributes
) -> hlo.Instruction:
    return hlo.Instruction(opcode, shape, operands, attributes, called)
