"""LLVM's versions: which are refused, and that one form of the kernels' text is for all others."""

from __future__ import annotations

import pathlib
import tomllib

import llvmlite.binding as llvm
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.llvm_ir import text
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets import host, llvm_library, sycl
from tripont.core.compiler.targets.sycl import target as sycl_target


@pytest.fixture
def llvm_of(monkeypatch):
    """Sets the version that LLVM says it is, for targets that are made anew."""
    started = llvm_library.initialise, host.for_cpu, sycl_target._for_device

    def clear():
        for function in started:
            function.cache_clear()

    clear()
    yield lambda *version: monkeypatch.setattr(llvm, "llvm_version_info", version)
    clear()


def test_an_old_llvm_is_refused_before_it_is_used(llvm_of):
    llvm_of(15, 0, 7)
    with pytest.raises(
        CompileError, match=r"has LLVM 15\.0\.7, .*compiler needs LLVM 20 .*>=0\.45"
    ) as e:
        llvm_library.initialise()
    assert e.value.code == "FAILED_PRECONDITION"


def test_spirv_wants_a_newer_llvm_than_native_code(llvm_of):
    llvm_of(20, 1, 8)
    assert host.for_cpu("x86-64-v3").vector_bytes == 32
    with pytest.raises(CompileError, match=r"the target sycl needs LLVM 22 .*llvmlite>=0\.48") as e:
        sycl.for_device()
    assert e.value.code == "FAILED_PRECONDITION"


def test_the_package_asks_for_what_is_tested():
    root = pathlib.Path(__file__).parents[4]
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"llvmlite>={llvm_library.LLVMLITE[20]}" in wanted


def test_alignments_of_masked_accesses_are_arguments():
    # As LLVM 20 wants it, which ends the process over LLVM 22's own form.
    result, p = llvm_ir.Value("<4 x float>", "%r"), llvm_ir.Value("ptr", "%p")
    operands = (p, llvm_ir.Value("<4 x i1>", "%m"), llvm_ir.zero(result.type))
    line = text.line(llvm_ir.Instruction("masked load", result, operands, "", 4))
    assert "(ptr %p, i32 4, <4 x i1> %m, <4 x float> zeroinitializer)" in line
