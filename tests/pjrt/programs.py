"""Executables made without the compiler: kernels in C, compiled by the system's C compiler into an artifact's image.

They let the API be tested by itself, and they show that an artifact needs no compiler to run.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from tripont.core.compiler.formats import artifact as a
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

# out = x + 1 in "add_one", out = x + y in "add": 16 floats a unit of work would be faster; one is simpler.
_SOURCE = """
#include <stdint.h>
__attribute__((section(".text.0"))) void add_one(void* const* a, int64_t begin, int64_t end) {
  const float* x = (const float*)a[0]; float* out = (float*)a[1];
  for (int64_t i = begin; i < end; ++i) out[i] = x[i] + 1.0f;
}
__attribute__((section(".text.1"))) void add(void* const* a, int64_t begin, int64_t end) {
  const float* x = (const float*)a[0]; const float* y = (const float*)a[1]; float* out = (float*)a[2];
  for (int64_t i = begin; i < end; ++i) out[i] = x[i] + y[i];
}
"""
_LINKER_SCRIPT = """
SECTIONS {
  .code : { *(.text.0) . = ALIGN(64); add_at = .; *(.text.1) *(.text*) *(.rodata*) }
  /DISCARD/ : { *(.note*) *(.comment*) *(.eh_frame*) }
}
"""


@cache
def _image() -> tuple[bytes, int]:
    """The flat image, and the offset of `add` in it (`add_one` is at 0)."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    with tempfile.TemporaryDirectory() as folder:
        source, script, linked, image = (Path(folder, n) for n in ("k.c", "k.ld", "k.elf", "k.bin"))
        source.write_text(_SOURCE)
        script.write_text(_LINKER_SCRIPT)
        flags = [
            "-O1",
            "-fPIC",
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-fno-stack-protector",
            "-fcf-protection=none",
        ]
        subprocess.run(
            [compiler, *flags, f"-Wl,-T,{script}", "-Wl,-e,0", "-o", linked, source],
            check=True,
            capture_output=True,
        )
        subprocess.run(["objcopy", "-O", "binary", "-j", ".code", linked, image], check=True)
        symbols = subprocess.run(["nm", linked], check=True, capture_output=True, text=True).stdout
        add = next(
            int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" add")
        )
        return image.read_bytes(), add


def add_one(
    size: int = 8, *, donate: bool = False, program: bytes = b"", num_replicas: int = 1
) -> bytes:
    """An artifact: f32[size] -> f32[size], x + 1. With `donate`, the result takes the parameter's memory."""
    code, _ = _image()
    shape = Shape(dtypes.F32, (size,))
    if donate:
        allocations = [a.Allocation(a.ALLOCATION_RESULT, 0, shape.bytes, aliased_parameter=0)]
        x, out = a.Slice(0, 0, shape.bytes), a.Slice(0, 0, shape.bytes)
    else:
        allocations = [
            a.Allocation(a.ALLOCATION_PARAMETER, 0, shape.bytes),
            a.Allocation(a.ALLOCATION_RESULT, 0, shape.bytes),
        ]
        x, out = a.Slice(0, 0, shape.bytes), a.Slice(1, 0, shape.bytes)
    return _artifact(
        "add_one",
        [shape],
        [shape],
        allocations,
        a.Kernel(0, (x, out), size, 32768, 2.0 * size),
        code,
        (0,) if donate else (),
        program,
        num_replicas,
    )


def add(size: int = 8, *, donate: bool = False) -> bytes:
    """An artifact: f32[size], f32[size] -> f32[size], x + y. With `donate`, the result takes the memory of x."""
    code, offset = _image()
    shape = Shape(dtypes.F32, (size,))
    aliased = 0 if donate else -1
    allocations = [
        a.Allocation(a.ALLOCATION_PARAMETER, 1, shape.bytes),
        a.Allocation(a.ALLOCATION_RESULT, 0, shape.bytes, aliased_parameter=aliased),
    ]
    if not donate:
        allocations.append(a.Allocation(a.ALLOCATION_PARAMETER, 0, shape.bytes))
    arguments = tuple(a.Slice(i, 0, shape.bytes) for i in (1 if donate else 2, 0, 1))
    kernel = a.Kernel(offset, arguments, size, 32768, 2.0 * size)
    donatable = (0,) if donate else ()
    return _artifact("add", [shape, shape], [shape], allocations, kernel, code, donatable)


def _artifact(
    name: str,
    parameters: list[Shape],
    results: list[Shape],
    allocations: list[a.Allocation],
    kernel: a.Kernel,
    code: bytes,
    donatable: tuple[int, ...] = (),
    program: bytes = b"",
    num_replicas: int = 1,
) -> bytes:
    return a.serialize(
        a.Executable(
            name=name,
            target="host",
            triple=f"{platform.machine()}-unknown-linux-gnu",
            cpu="generic",
            cpu_features=(),
            compiler_version="test",
            fingerprint=f"fingerprint of {name}",
            parameters=tuple(map(a.Value, parameters)),
            results=tuple(map(a.Value, results)),
            allocations=tuple(allocations),
            thunks=(kernel,),
            code=code,
            constants=b"",
            donatable_parameters=donatable,
            num_replicas=num_replicas,
            costs=a.Costs(
                flops=8.0, transcendentals=0.0, bytes_accessed=64.0, optimal_nanoseconds=10.0
            ),
            program=program,
        )
    )
