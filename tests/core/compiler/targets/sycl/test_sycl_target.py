"""The sycl target without a device: the layout of the code, what is legal, and what is refused."""

from __future__ import annotations

import re
import struct

import llvmlite.binding as llvm
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets.sycl import for_device, spirv, target
from tripont.core.compiler.targets.sycl.disassemble import disassemble
from tripont.core.compiler.targets.sycl.legalize import legalize, merge_extensions

from .khronos import validate
from .programs import PROGRAMS, SORT, compiled, program, spirv_of


def test_kernels_are_found_by_the_offset_of_their_name() -> None:
    executable = compiled(PROGRAMS["exp"])
    (thunk,) = executable.thunks
    assert isinstance(thunk, artifact.Kernel)
    name = executable.code[thunk.function : executable.code.index(b"\0", thunk.function)].decode()
    assert spirv.kernel_names(spirv_of(executable))[name] + 16 == thunk.function
    assert (executable.target, executable.triple) == ("sycl", "spirv64-unknown-unknown")
    assert (executable.cpu, executable.cpu_features) == ("cpu", ("fp64",))


def test_comparators_are_native_code() -> None:
    executable = compiled(SORT)
    spirv_size, image_size = struct.unpack_from("<QQ", executable.code)
    start = -(-(16 + spirv_size) // 4096) * 4096
    assert len(executable.code) == start + image_size
    (thunk,) = [t for t in executable.thunks if isinstance(t, artifact.LibraryCall)]
    comparator = thunk.attributes["comparator"]
    assert isinstance(comparator, artifact.FunctionOffset)
    assert start <= comparator.offset < len(executable.code)


def test_programs_that_differ_in_comparators_differ() -> None:
    """Their kernels are the same (there are none)."""
    ascending, descending = (
        compiled(SORT.replace(b"compare LT", b"compare " + c)) for c in (b"LT", b"GT")
    )
    assert ascending.code != descending.code


def test_many_modules_of_one_process_are_valid() -> None:
    """LLVM's backend keeps state between modules; ours starts anew for each."""
    first = spirv_of(compiled(PROGRAMS["sine"]))
    for _ in range(5):
        compiled(PROGRAMS["dot"])
        compiled(PROGRAMS["i8"])
    assert spirv_of(compiled(PROGRAMS["sine"])) == first
    validate(first)


def test_constants_that_would_be_split_into_registers() -> None:
    """LLVM makes vectors of constant expressions of these, and then no SPIR-V."""
    bits = ", ".join("true" if i % 3 else "false" for i in range(64))
    body = f"""%0 = stablehlo.constant dense<0x0123456789ABCDEF> : tensor<f64>
%1 = stablehlo.optimization_barrier %0 : tensor<f64>
%2 = stablehlo.bitcast_convert %1 : (tensor<f64>) -> tensor<64xi1>
%3 = stablehlo.constant dense<[{bits}]> : tensor<64xi1>
return %2, %3 : tensor<64xi1>, tensor<64xi1>"""
    validate(spirv_of(compiled(program(body, "", "(tensor<64xi1>, tensor<64xi1>)"))))


WITHOUT_DOUBLE = [name for name in PROGRAMS if name != "sine-f64"]


@pytest.mark.parametrize("name", WITHOUT_DOUBLE)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_kernels_for_a_device_without_fp64_and_fp16(name: str, device: str) -> None:
    """Sines of large numbers, powers and divisions of integers use 64-bit floats only where there are some."""
    module = spirv_of(compiled(PROGRAMS[name], device))
    assert not spirv.capabilities(module) & {"Float64", "Float16"}
    validate(module)


@pytest.mark.parametrize("device", ["cpu,fp16", "gpu"])
def test_programs_of_f64_are_refused_without_fp64(device: str) -> None:
    text = PROGRAMS["sine-f64"].replace(b"\nreturn", b' loc("model.py":12:4)\nreturn')
    with pytest.raises(CompileError) as error:
        compiled(text, device)
    assert error.value.code == "UNIMPLEMENTED"
    message = str(error.value)
    assert "sine %sine(f64[7]) -> f64[7]" in message
    assert f"64-bit floats, which the device ({device[:3]}) does not have" in message
    assert "model.py:12" in message
    assert "Float64" in spirv.capabilities(spirv_of(compiled(text, f"{device},fp64")))


@pytest.mark.parametrize("device", ["tpu", "cpu,fp128", "cpu fp64"])
def test_unknown_device(device: str) -> None:
    with pytest.raises(CompileError, match="unknown SYCL device") as error:
        compiled(PROGRAMS["exp"], device)
    assert error.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("bad", ["i24", "i4", "i128", "<32 x float>", "bfloat"])
def test_illegal_types_are_refused(bad: str) -> None:
    with pytest.raises(CompileError, match="SPIR-V has no"):
        target.check_legal(f"  %x = freeze {bad} %y")
    target.check_legal("loop.i24:  ; preds = %a.i7\n  %x.i24 = add i32 %a.i7, 1")


def test_gathers_become_scalar_loads() -> None:
    module = for_device().module()
    b = llvm_ir.Builder(module, "f", ["ptr", "i64", "i64"], arrays=1)
    data = b.load("ptr", b.arguments[0], 8)
    index = b.lane_offsets(4, 3)
    addresses = b.gep("float", data, index)
    b.gather("<4 x float>", addresses, 4, llvm_ir.lanes_constant("i1", [1, 1, 0, 1]))
    b.ret()
    b.finish()
    text = legalize(module, "nounwind")
    assert "masked" not in text
    assert text.count("load float, ptr addrspace(4)") == 3
    assert "define spir_kernel void @f(ptr addrspace(1) %p0, i64 %count, i64 %chunk)" in text


def test_products_and_sums_that_allow_it_become_one_instruction() -> None:
    """a * b + c with one rounding, as on the host; not where a product is used twice, or where rounding counts."""
    module = for_device().module()
    types = ["<4 x float>", "<4 x float>", "float", "float", "float"]
    b = llvm_ir.Builder(module, "f", types, linkage="internal")
    u, v, x, y, z = b.arguments
    b.binary("fadd contract", b.binary("fmul contract", u, llvm_ir.zero(u.type)), v)
    difference = b.binary("fsub contract", z, b.binary("fmul contract", x, y))
    square = b.binary("fmul contract", difference, difference)
    twice = b.binary("fadd contract", square, square)
    b.binary("fadd contract", b.binary("fmul", twice, x), x)
    b.ret()
    b.finish()
    text = legalize(module, "nounwind")
    (body,) = re.findall(r"entry.1:\n(.*)  ret void", text, re.DOTALL)
    assert body.split("\n") == [
        "  %v2 = call <4 x float> @llvm.fma.v4f32(<4 x float> %a0, <4 x float> zeroinitializer, <4 x float> %a1)",
        "  %v9 = fneg float %a2",
        "  %v4 = call float @llvm.fma.f32(float %v9, float %a3, float %a4)",
        "  %v5 = fmul contract float %v4, %v4",
        "  %v6 = fadd contract float %v5, %v5",
        "  %v7 = fmul float %v6, %a2",
        "  %v8 = fadd contract float %v7, %a2",
        "",
    ]
    assert "declare float @llvm.fma.f32(float, float, float)" in text


def test_instructions_go_when_they_are_legalised() -> None:
    """A second compilation of the module has the text of the first."""
    sycl = for_device()
    module = sycl.module()
    b = llvm_ir.Builder(module, "f", ["ptr", "i64", "i64"], arrays=1)
    b.store(llvm_ir.i64(7), b.load("ptr", b.arguments[0], 8), 8)
    b.ret()
    b.finish()
    assert module.functions["f"].blocks
    first = sycl.compile(module)
    assert not module.functions["f"].blocks
    assert sycl.compile(module).code == first.code


def test_low_bits_are_taken_in_the_type_of_their_value() -> None:
    """A zext of a trunc's result has no three widths: in scalars and vectors, one after another, with a number for a
    name. Two widths, signs, bools and other functions' values stay.
    """
    text = """define i32 @f(i64 %x, <2 x i32> %v) {
  %1 = trunc i64 %x to i16
  %2 = zext i16 %1 to i32
  %3 = zext i16 %1 to i64
  %4 = sext i16 %1 to i32
  %n = trunc nuw <2 x i32> %v to <2 x i8>
  %t = zext <2 x i8> %n to <2 x i16>
  %u = zext nneg <2 x i16> %t to <2 x i64>
  %b = trunc i64 %x to i1
  %c = zext i1 %b to i32
  ret i32 %c
}
define i32 @g(i8 %n) {
  %s = zext i8 %n to i32
  ret i32 %s
}
"""
    merged = merge_extensions(text)
    llvm.parse_assembly(merged, llvm.context.create_context()).verify()
    assert [line.strip() for line in merged.split("\n") if line not in text.split("\n")] == [
        "%low.2 = and i64 %x, 65535",
        "%2 = trunc i64 %low.2 to i32",
        "%low.t = and <2 x i32> %v, splat (i32 255)",
        "%t = trunc <2 x i32> %low.t to <2 x i16>",
        "%low.u = and <2 x i32> %low.t, splat (i32 65535)",
        "%u = zext <2 x i32> %low.u to <2 x i64>",
    ]


def test_nan_becomes_zero() -> None:
    """Devices differ in what a saturating conversion makes of NaN: the kernel says it."""
    text = program(
        "%0 = stablehlo.convert %a : (tensor<64xf32>) -> tensor<64xui32>\nreturn %0 : tensor<64xui32>",
        "%a: tensor<64xf32>",
        "tensor<64xui32>",
    )
    module = disassemble(spirv_of(compiled(text)))
    unordered = re.search(r"(%\w+) = OpUnordered ", module)
    assert unordered is not None
    assert re.search(rf"OpSelect %v16uint {unordered[1]} ", module)


def test_fingerprints_differ() -> None:
    fingerprints = {for_device(d).fingerprint for d in ("cpu", "cpu,fp64", "gpu", "gpu,fp64")}
    assert len(fingerprints) == 4
