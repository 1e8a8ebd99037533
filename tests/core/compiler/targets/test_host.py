"""The host target: CPU models, the linker, and what it refuses."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from tripont.core.compiler.codegen.elements import elementwise
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, F32, F64, S8
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets import host
from tripont.core.compiler.targets.host import cpu, linker
from tripont.core.compiler.targets.target import Image

from ..codegen.harness import Kernel, LoadedImage, aligned, fusion, op

S = hlo.Shape


def remainder(dtype=F32, n=20):
    x, y = hlo.parameter(0, S(dtype, (n,))), hlo.parameter(1, S(dtype, (n,)))
    return fusion("loop", [x, y], op("remainder", x.shape, x, y))


def test_models():
    assert host.for_cpu("x86-64-v2").vector_bytes == 16
    assert host.for_cpu("x86-64-v3").vector_bytes == 32
    assert host.for_cpu("x86-64-v4").vector_bytes == 64
    assert host.for_cpu("x86-64-v3").lanes(F32) == 8
    assert host.for_cpu("x86-64-v3").has("fma")
    assert not host.for_cpu("x86-64-v2").has("avx")
    fingerprints = {host.for_cpu(m).fingerprint for m in cpu.known_models()}
    assert len(fingerprints) == len(cpu.known_models())
    assert host.for_cpu() is host.for_cpu()


def test_unknown_cpu():
    with pytest.raises(CompileError, match=r"unknown CPU 'pentium'.*x86-64-v2") as error:
        host.for_cpu("pentium")
    assert error.value.code == "INVALID_ARGUMENT"


def test_every_model_compiles():
    for model in cpu.known_models():
        target = host.for_cpu(model)
        module = target.module()
        for n, dtype in enumerate([F32, BF16, F64, S8]):
            x = hlo.parameter(0, S(dtype, (1000,)))
            emit_kernel(module, target, fusion("loop", [x], op("add", x.shape, x, x)), f"k{n}")
        x = hlo.parameter(0, S(F32, (1000,)))
        emit_kernel(module, target, fusion("loop", [x], op("tanh", x.shape, x)), "tanh")
        image = target.compile(module)
        assert set(image.symbols) == {"k0", "k1", "k2", "k3", "tanh"}


def test_imports_are_called_through_slots():
    kernel = Kernel(remainder())
    assert [name for name, _ in kernel.image.imports] == ["fmodf"]
    assert all(offset % 8 == 0 for _, offset in kernel.image.imports)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20).astype(np.float32) * 10, rng.normal(size=20).astype(np.float32)
    np.testing.assert_array_equal(kernel.run([x, y])[0], np.fmod(x, y))


def run(image, name, values):
    source, result = aligned(values.shape, np.float32), aligned(values.shape, np.float32)
    source[...] = values
    pointers = np.array([source.ctypes.data, result.ctypes.data], np.uintp)
    image.function(name)(pointers.ctypes.data, 0, 1)
    return result


def test_tables_and_several_functions():
    target = host.for_cpu()
    module = target.module()
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=33).astype(np.float32) for _ in range(3)]
    x = hlo.parameter(0, S(F32, (33,)))
    for n, table in enumerate(tables):
        emit_kernel(
            module,
            target,
            fusion("loop", [x], op("add", x.shape, x, hlo.constant(table, F32))),
            f"k{n}",
        )
    loaded = LoadedImage(target.compile(module))
    for n, table in enumerate(tables):
        np.testing.assert_array_equal(run(loaded, f"k{n}", np.ones(33)), table + 1)


def test_the_same_module_gives_the_same_bytes():
    images = []
    for _ in range(2):
        target = host.for_cpu()
        module = target.module()
        emit_kernel(module, target, remainder(), "k")
        images.append(target.compile(module).code)
    assert images[0] == images[1]


def sines(module, target, name, count):
    """A kernel of ``count`` different sines."""
    x = hlo.parameter(0, S(F32, (40,)))
    values = [op("sine", x.shape, op("multiply", x.shape, x, splat(x, n))) for n in range(count)]
    total = functools.reduce(lambda a, b: op("add", x.shape, a, b), values)
    emit_kernel(module, target, fusion("loop", [x], total), name)


def splat(x, value):
    return op("broadcast", x.shape, hlo.constant(np.float32(value), F32), dimensions=())


def test_functions_that_occur_often_are_called(monkeypatch):
    target, results = host.for_cpu(), []
    for often in (elementwise.WRITTEN_OUT, 1000):
        monkeypatch.setattr(elementwise, "WRITTEN_OUT", often)
        module = target.module()
        sines(module, target, "k", 20)
        assert ("@tripont.sin." in str(module)) == (often < 1000)
        image = LoadedImage(target.compile(module))
        results.append(run(image, "k", np.linspace(-1e6, 1e6, 40)))
    np.testing.assert_array_equal(*results)


def test_dump():
    kernel = Kernel(remainder(), dump=True)
    assert "define void @kernel" in kernel.image.optimised_ir
    assert "fmodf" in kernel.image.assembly
    assert not Kernel(remainder()).image.assembly


def compile_text(*parts: str) -> Image:
    """The image of LLVM IR that code generation does not write."""
    target = host.for_cpu()
    return target.compile_text("\n".join([*target.module().header, *parts]))


def test_refused():
    with pytest.raises(CompileError, match="undefined symbol system"):
        compile_text(
            "declare i32 @system(ptr)",
            "define i32 @f(ptr %a0) {\n  %v = call i32 @system(ptr %a0)\n  ret i32 %v\n}",
        )
    with pytest.raises(CompileError, match="writable section"):
        compile_text("@state = internal global i32 1", "define ptr @f() {\n  ret ptr @state\n}")
    with pytest.raises(CompileError, match="LLVM rejects"):
        compile_text("define void @f() {\n  nonsense\n}")
    with pytest.raises(CompileError, match="not an x86-64 or AArch64 ELF object"):
        linker.read(b"\x7fELF" + bytes(200))


def test_internal_functions_are_linked_but_not_exported():
    image = compile_text(
        "define internal i32 @twice(i32 %a0) noinline {\n  %v = shl i32 %a0, 1\n  ret i32 %v\n}",
        "define i32 @f(i32 %a0) {\n  %v = call i32 @twice(i32 %a0)\n  ret i32 %v\n}",
    )
    assert list(image.symbols) == ["f"]


def test_code_for_another_architecture_is_dumped():
    target = host.for_cpu("neoverse-n1")
    module = target.module()
    emit_kernel(module, target, remainder(), "k")
    image = target.compile(module, dump=True)
    again = target.module()
    emit_kernel(again, target, remainder(), "k")
    assert image.code == target.compile(again).code
    assert "define void @k" in image.optimised_ir
    assert re.search(r"^k:", image.assembly, re.MULTILINE)


@pytest.mark.parametrize(
    ("kind", "nearest", "too_far"),
    [
        (283, (1 << 27) - 4, 1 << 27),  # CALL26
        (283, -(1 << 27), -(1 << 27) - 4),
        (275, (1 << 32) - 4096, 1 << 32),  # ADR_PREL_PG_HI21
        (261, (1 << 31) - 1, 1 << 31),  # PREL32
    ],
)
def test_aarch64_code_that_is_too_far_away(kind: int, nearest: int, too_far: int) -> None:
    """Where the distance does not fit, the other bits were cut off: the call went somewhere else."""
    code = bytearray(4)
    linker._apply_aarch64(code, kind, 0, nearest, 0)
    with pytest.raises(CompileError, match="too large for AArch64") as error:
        linker._apply_aarch64(code, kind, 0, too_far, 0)
    assert error.value.code == "UNIMPLEMENTED"


def stores_of_one_lane(mask: str) -> str:
    return f"""
    define void @f(ptr %x, ptr %y) {{
      %v = load <16 x i32>, ptr %x, align 4
      %t = trunc <16 x i32> %v to <16 x i16>
      call void @llvm.masked.store.v16i16.p0(<16 x i16> %t, ptr %y, i32 2, <16 x i1> {mask})
      ret void
    }}
    declare void @llvm.masked.store.v16i16.p0(<16 x i16>, ptr, i32, <16 x i1>)
    """


def test_stores_that_llvm_widens_are_found():
    target = host.for_cpu("x86-64-v4")
    lanes = ["i1 true", *["i1 false"] * 15]
    with pytest.raises(CompileError, match=r"LLVM would write more than one element of %t"):
        target.compile_object(stores_of_one_lane(f"<{', '.join(lanes)}>"))
    lanes[1] = "i1 true"
    assert target.compile_object(stores_of_one_lane(f"<{', '.join(lanes)}>")).functions


def test_constants_of_one_length_are_read_by_their_symbols():
    """An addend alone would say which constant, less the length of the rest of the instruction."""
    target = host.for_cpu("x86-64-v2")
    lines = [
        ".section .rodata.cst4, \\22aM\\22, @progbits, 4",
        ".Lfirst: .long 1",
        ".Lsecond: .long 2",
        ".text",
        ".globl f",
        "f: movl {}(%rip), %eax",
        "ret",
    ]

    def compiled(place: str):
        return target.compile_object("\n".join(f'module asm "{x.format(place)}"' for x in lines))

    section, _ = compiled(".Lsecond").functions["f"]
    ((_, _, constant, addend),) = section.references
    assert (constant.code, addend) == (b"\2\0\0\0", -4)
    with pytest.raises(CompileError, match=r"an instruction reads \.rodata\.cst4"):
        compiled(".rodata.cst4 + 4")


def test_a_constant_is_read_from_its_second_number_on():
    """What LLVM adds to it is what is left of the instruction, so that it names the section in the constant's stead."""
    lines = [
        ".section .rodata.cst16, \\22aM\\22, @progbits, 16",
        ".Lfirst: .long 1, 2, 3, 4",
        ".Lsecond: .long 5, 6, 7, 8",
        ".text",
        ".globl f",
        "f: movl .Lsecond + 4(%rip), %eax",  # 4 bytes are left
        "cmpl $0, .Lfirst + 8(%rip)",  # 5: a number of one byte is behind the place
        "cmpl $1, .Lsecond + 5(%rip)",
        "movl %eax, (%rdx)",
        "ret",
    ]
    text = "\n".join(f'module asm "{line}"' for line in lines)
    section, _ = host.for_cpu("x86-64-v2").compile_object(text).functions["f"]
    read = [(constant.code[0], addend) for _, _, constant, addend in section.references]
    assert read == [(5, 0), (1, 3), (5, 0)]
