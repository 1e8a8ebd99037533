"""Small executables for tests of the runtime alone: kernels written in C, artifacts put together by hand.

The compiler takes no part, so a failure here is the runtime's.
"""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_CONSTANT,
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    ALLOCATION_TEMP,
    ALLOCATION_VIEW,
    Allocation,
    Conditional,
    Copy,
    DebugInfo,
    Executable,
    Kernel,
    Slice,
    Stride,
    Value,
    View,
    While,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

_SOURCE = r"""
typedef long long i64;
typedef float f32;
#define KERNEL(name) void name(void* const* a, i64 begin, i64 end)

/* Slots that the loader fills: 8 bytes of code each, addressed relative to the code. */
asm(".balign 8\n.globl import_memcpy\nimport_memcpy: .quad 0\n"
    ".globl import_fmod\nimport_fmod: .quad 0\n");
extern void* import_memcpy __attribute__((visibility("hidden")));
extern void* import_fmod __attribute__((visibility("hidden")));

KERNEL(add) { const f32 *x = a[0], *y = a[1]; f32* z = a[2]; for (i64 i = begin; i < end; ++i) z[i] = x[i] + y[i]; }
KERNEL(add_one) { const f32* x = a[0]; f32* z = a[1]; for (i64 i = begin; i < end; ++i) z[i] = x[i] + 1; }
/* in place: a[0] holds the parameter and takes the result */
KERNEL(double_in_place) { f32* x = a[0]; for (i64 i = begin; i < end; ++i) x[i] *= 2; }
KERNEL(copy_by_memcpy) {
  void* (*f)(void*, const void*, unsigned long) = *(void* volatile*)&import_memcpy;
  f((char*)a[1] + 4 * begin, (const char*)a[0] + 4 * begin, 4 * (end - begin));
}
KERNEL(fmod_kernel) {
  double (*f)(double, double) = *(void* volatile*)&import_fmod;
  const double *x = a[0], *y = a[1]; double* z = a[2];
  for (i64 i = begin; i < end; ++i) z[i] = f(x[i], y[i]);
}
/* counter in a[0] (s32), limit in a[1], predicate in a[2] */
KERNEL(less_than) { *(char*)a[2] = *(int*)a[0] < *(const int*)a[1]; }
KERNEL(store_before) { ((int*)a[1])[-1] = 7; }
KERNEL(running_sum) {
  const f32* x = a[0];
  f32* z = a[1];
  for (i64 i = begin; i < end; ++i) z[i] = x[i] + (i > 0 ? z[i - 1] : 0);
}
KERNEL(increment) { ++*(int*)a[0]; }
KERNEL(store_7) { *(int*)a[0] = 7; }
KERNEL(store_8) { *(int*)a[0] = 8; }
/* busy for a[0][0] million steps, then z = x + 1 */
KERNEL(slow_add_one) {
  const f32* x = a[0]; f32* z = a[1];
  for (i64 i = 0; i < 100000000; ++i) asm volatile("" ::: "memory");
  for (i64 i = begin; i < end; ++i) z[i] = x[i] + 1;
}
/* z = x + 1, as soon as x[0] is not 0 */
KERNEL(add_one_when_told) {
  const f32* x = a[0]; f32* z = a[1];
  while (*(const volatile f32*)x == 0) asm volatile("" ::: "memory");
  for (i64 i = begin; i < end; ++i) z[i] = x[i] + 1;
}
/* Who did each unit: the address of the thread's own memory. Long enough for other threads to come. */
KERNEL(thread_of_unit) {
  i64* z = a[0];
  for (i64 i = begin; i < end; ++i) {
    for (i64 j = 0; j < 2000000; ++j) asm volatile("" ::: "memory");
    z[i] = (i64)__builtin_thread_pointer();
  }
}
/* Touches the most memory that a function may have on the stack, for each unit. */
KERNEL(fill_stack) {
  i64* z = a[0];
  volatile char array[1048576];
  for (i64 i = begin; i < end; ++i) {
    for (i64 j = 0; j < 1048576; j += 512) array[j] = 1;
    z[i] = array[512];
  }
}
"""

F32_8 = Shape(dtypes.F32, (8,))
# A feature that every CPU of this kind has.
FEATURE = "sse2" if platform.machine() == "x86_64" else "neon"


@functools.cache
def code() -> tuple[bytes, dict[str, int]]:
    """The kernels' code as a flat image, and the offset of each symbol in it."""
    x86 = FEATURE == "sse2"
    # In an emulator the tools of the machine around it are the cross compiler's.
    prefix = "" if x86 or not shutil.which("aarch64-linux-gnu-gcc") else "aarch64-linux-gnu-"
    tools = [f"{prefix}{name}" for name in ("gcc", "ld", "objcopy", "nm")]
    if not all(map(shutil.which, tools)):
        pytest.skip(f"needs {', '.join(tools)} to make kernels")
    gcc, ld, objcopy, nm = tools
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "k.c").write_text(_SOURCE)
        flags = "-O1 -fPIC -ffreestanding -fno-asynchronous-unwind-tables -fno-stack-protector"
        if x86:
            flags += " -fcf-protection=none"
        commands = [
            f"{gcc} {flags} -c k.c -o k.o",
            f"{ld} -z noseparate-code -Ttext=0 -e 0 -o k.elf k.o",
            f"{objcopy} -O binary -j .text -j .rodata k.elf k.bin",
        ]
        for command in commands:
            subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
        symbols = subprocess.run([nm, "k.elf"], cwd=folder, check=True, capture_output=True).stdout
        offsets = {
            f[2]: int(f[0], 16)
            for f in map(str.split, symbols.decode().splitlines())
            if len(f) == 3
        }
        return (folder / "k.bin").read_bytes(), offsets


def function(name: str) -> int:
    return code()[1][name]


def whole(allocation: int, size: int) -> Slice:
    return Slice(allocation, 0, size)


def executable(**changes: object) -> Executable:
    """f32[8] + f32[8] as one kernel on the caller's thread; fields can be replaced."""
    base = Executable(
        name="add",
        target="host",
        triple=f"{platform.machine()}-unknown-linux-gnu",
        cpu="x86-64" if FEATURE == "sse2" else "generic-aarch64",
        cpu_features=(FEATURE,),
        compiler_version="test",
        fingerprint="f00d",
        parameters=(Value(F32_8), Value(F32_8)),
        results=(Value(F32_8),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, 32),
            Allocation(ALLOCATION_PARAMETER, 1, 32),
            Allocation(ALLOCATION_RESULT, 0, 32),
        ),
        thunks=(
            Kernel(function("add"), (whole(0, 32), whole(1, 32), whole(2, 32)), 8, 1024, 10.0),
        ),
        code=code()[0],
        constants=b"",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def unary(kernel: str, elements: int, *, grain: int = 1 << 40, cost_ns: float = 10.0) -> Executable:
    """f32[elements] -> f32[elements] by one kernel."""
    shape = Shape(dtypes.F32, (elements,))
    size = 4 * elements
    return executable(
        name=kernel,
        parameters=(Value(shape),),
        results=(Value(shape),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, size),
            Allocation(ALLOCATION_RESULT, 0, size),
        ),
        thunks=(
            Kernel(function(kernel), (whole(0, size), whole(1, size)), elements, grain, cost_ns),
        ),
    )


def in_place(elements: int, *, cost_ns: float = 10.0) -> Executable:
    """Doubles its donatable parameter in place."""
    shape = Shape(dtypes.F32, (elements,))
    size = 4 * elements
    return executable(
        name="double",
        parameters=(Value(shape),),
        results=(Value(shape),),
        allocations=(Allocation(ALLOCATION_RESULT, 0, size, aliased_parameter=0),),
        thunks=(
            Kernel(function("double_in_place"), (whole(0, size),), elements, 1 << 40, cost_ns),
        ),
        donatable_parameters=(0,),
    )


def identity() -> Executable:
    """f32[8] copied to the result: an executable without code."""
    return executable(
        name="identity",
        parameters=(Value(F32_8),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, 32),
            Allocation(ALLOCATION_RESULT, 0, 32),
        ),
        thunks=(Copy(whole(0, 32), whole(1, 32)),),
        code=b"",
    )


def rich() -> Executable:
    """An executable with every kind of thunk but a library's call, and every kind of allocation."""
    kernel = Kernel(
        function("add"), (whole(0, 32), whole(1, 32), whole(2, 32)), 8, 1024, 10.0, debug=0
    )
    size = 32
    return executable(
        thunks=(
            kernel,
            Copy(Slice(3, 0, 32), whole(0, size), debug=1),
            While((kernel,), (kernel, Copy(Slice(3, 0, 8), Slice(0, 0, 8))), Slice(3, 0, 1), 3),
            Conditional(Slice(3, 4, 4), False, ((kernel,), (), (kernel, kernel))),
            View(whole(5, 64), whole(3, 256), (Stride(Slice(3, 4, 4), 3, 64),)),
        ),
        allocations=(
            *executable().allocations,
            Allocation(ALLOCATION_TEMP, 0, 256),
            Allocation(ALLOCATION_CONSTANT, 0, 32, offset=64),
            Allocation(ALLOCATION_VIEW, 0, 64),
        ),
        constants=bytes(range(96)),
        imports=(("memcpy", function("import_memcpy")),),
        debug=(DebugInfo("a", "b", "c.py", 3, "text"), DebugInfo("d")),
        donatable_parameters=(1,),
        program=b"hlo",
    )


def serialize(program: Executable) -> bytes:
    return artifact.serialize(program)


def ones(elements: int) -> np.ndarray:
    return np.ones(elements, np.float32)
