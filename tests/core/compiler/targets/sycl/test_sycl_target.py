"""The sycl target without a device: legal IR, valid SPIR-V, the layout of the code, and what is refused."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tripont.core.compiler import artifact, compile
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.errors import CompileError
from tripont.core.compiler.targets.sycl import child, for_device, target
from tripont.core.compiler.targets.sycl.legalize import legalize


def program(body: str, parameters: str, result: str) -> bytes:
    return f"func.func @main({parameters}) -> {result} {{\n{body}\n}}".encode()


def unary(op: str, type_: str = "tensor<1000xf32>") -> bytes:
    return program(f"%0 = {op} %a : {type_}\nreturn %0 : {type_}", f"%a: {type_}", type_)


SORT = program(
    """%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %s = stablehlo.sine %x : tensor<f32>
  %t = stablehlo.sine %y : tensor<f32>
  %c = stablehlo.compare LT, %s, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}) : (tensor<1000xf32>) -> tensor<1000xf32>
return %0 : tensor<1000xf32>""",
    "%a: tensor<1000xf32>",
    "tensor<1000xf32>",
)


def compiled(text: bytes, device: str = "cpu,fp64") -> artifact.Executable:
    options = {"target": "sycl", "sycl_device": device}
    return artifact.deserialize(compile.compile_program(text, "mlir", b"", options))


def spirv_of(executable: artifact.Executable) -> bytes:
    size, _ = struct.unpack_from("<QQ", executable.code)
    return executable.code[16 : 16 + size]


def validate(spirv: bytes, folder: Path) -> None:
    """spirv-val, where it is installed."""
    validator = shutil.which("spirv-val")
    if validator is None:
        pytest.skip("spirv-val is not installed")
    path = folder / "module.spv"
    path.write_bytes(spirv)
    result = subprocess.run([validator, path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


PROGRAMS = {
    "exp": unary("stablehlo.exponential"),
    "sine": unary("stablehlo.sine"),
    "sine-f64": unary("stablehlo.sine", "tensor<7xf64>"),
    "bf16": unary("stablehlo.tanh", "tensor<33xbf16>"),
    "f16": unary("stablehlo.tanh", "tensor<33xf16>"),
    "i8": unary("stablehlo.negate", "tensor<100xi8>"),
    "complex": unary("stablehlo.exponential", "tensor<37xcomplex<f32>>"),
    "transpose": program(
        "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<65x33xi16>) -> tensor<33x65xi16>\n"
        "return %0 : tensor<33x65xi16>",
        "%a: tensor<65x33xi16>",
        "tensor<33x65xi16>",
    ),
    "dot": program(
        "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : "
        "(tensor<9x17xf32>, tensor<9x17xf32>) -> tensor<9x9xf32>\nreturn %0 : tensor<9x9xf32>",
        "%a: tensor<9x17xf32>",
        "tensor<9x9xf32>",
    ),
    # What the backend got wrong: an extension of a truncated integer, of another width than both.
    "extend-truncated": program(
        "%0 = stablehlo.convert %a : (tensor<16xi32>) -> tensor<16xui8>\n"
        "%1 = stablehlo.convert %0 : (tensor<16xui8>) -> tensor<16xui16>\nreturn %1 : tensor<16xui16>",
        "%a: tensor<16xi32>",
        "tensor<16xui16>",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", ["cpu,fp64", "gpu,fp64"])
def test_spirv_is_valid(name: str, device: str, tmp_path: Path) -> None:
    validate(spirv_of(compiled(PROGRAMS[name], device)), tmp_path)


def test_kernels_are_found_by_the_offset_of_their_name() -> None:
    executable = compiled(PROGRAMS["exp"])
    (thunk,) = executable.thunks
    assert isinstance(thunk, artifact.Kernel)
    name = executable.code[thunk.function : executable.code.index(b"\0", thunk.function)].decode()
    spirv = spirv_of(executable)
    assert target.kernel_names(spirv)[name] + 16 == thunk.function
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


def test_many_modules_of_one_process_are_valid(tmp_path: Path) -> None:
    """LLVM's backend keeps state between modules; ours starts anew for each."""
    first = spirv_of(compiled(PROGRAMS["sine"]))
    for _ in range(5):
        compiled(PROGRAMS["dot"])
        compiled(PROGRAMS["i8"])
    assert spirv_of(compiled(PROGRAMS["sine"])) == first
    validate(first, tmp_path)


def test_a_device_without_fp64() -> None:
    with pytest.raises(
        CompileError, match=r"64-bit floats.*the device \(cpu\) does not have"
    ) as error:
        compiled(PROGRAMS["sine-f64"], "cpu")
    assert error.value.code == "UNIMPLEMENTED"
    compiled(PROGRAMS["exp"], "cpu")


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


def test_a_child_that_dies_is_an_error() -> None:
    import os

    def die() -> bytes:
        os.write(2, b"LLVM ERROR: cannot select\n")
        os.abort()

    with pytest.raises(CompileError, match="it failed: LLVM ERROR: cannot select"):
        child.run_in_child(die, "it failed")
    assert child.run_in_child(lambda: b"x" * 300_000, "fine") == b"x" * 300_000


def test_gathers_become_scalar_loads() -> None:
    module = llvm_ir.Module()
    b = llvm_ir.Builder(module, "f", ["ptr", "i64", "i64"])
    data = b.load("ptr", b.arguments[0], 8)
    index = b.lane_offsets("i64", 4, 3)
    addresses = b.gep("float", data, index)
    mask = llvm_ir.Value("<4 x i1>", "<i1 true, i1 true, i1 false, i1 true>")
    b.call(
        "<4 x float>", "llvm.masked.gather.v4f32.v4p0",
        [llvm_ir.Value("<4 x ptr> align 4", addresses.ref), mask, llvm_ir.zero("<4 x float>")],
    )  # fmt: skip
    b.ret()
    b.finish()
    text = legalize(module, "nounwind")
    assert "masked" not in text
    assert text.count("load float, ptr addrspace(4)") == 3
    assert "define spir_kernel void @f(ptr addrspace(1) %p0, i64 %count, i64 %chunk)" in text


def test_fingerprints_differ() -> None:
    fingerprints = {for_device(d).fingerprint for d in ("cpu", "cpu,fp64", "gpu", "gpu,fp64")}
    assert len(fingerprints) == 4
