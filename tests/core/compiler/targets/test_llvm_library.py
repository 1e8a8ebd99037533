"""LLVM's versions: which are refused, and that one form of the kernels' text is for all others."""

from __future__ import annotations

import pathlib
import tomllib

import llvmlite.binding as llvm
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.llvm_ir import text
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets import host, llvm_library


@pytest.fixture
def as_if_not_started():
    started = llvm_library.initialise, host.for_cpu
    for function in started:
        function.cache_clear()
    yield
    for function in started:
        function.cache_clear()


def test_an_old_llvm_is_refused_before_it_is_used(as_if_not_started, monkeypatch):
    monkeypatch.setattr(llvm, "llvm_version_info", (15, 0, 7))
    with pytest.raises(
        CompileError, match=r"has LLVM 15\.0\.7, .*needs LLVM 20 .*llvmlite>=0\.45"
    ) as e:
        llvm_library.initialise()
    assert e.value.code == "FAILED_PRECONDITION"


def test_the_package_asks_for_what_is_tested():
    root = pathlib.Path(__file__).parents[4]
    wanted = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"llvmlite>={llvm_library.OLDEST_LLVMLITE}" in wanted


def test_llvm_20_and_later_are_used():
    for version in (20, 1, 8), (21, 0, 0), (22, 1, 0), llvm.llvm_version_info:
        llvm_library.check_version(version)


def test_alignments_of_masked_accesses_are_arguments():
    # As LLVM 20 wants it, which ends the process over LLVM 22's own form.
    result, p = llvm_ir.Value("<4 x float>", "%r"), llvm_ir.Value("ptr", "%p")
    operands = (p, llvm_ir.Value("<4 x i1>", "%m"), llvm_ir.zero(result.type))
    line = text.line(llvm_ir.Instruction("masked load", result, operands, "", 4))
    assert "(ptr %p, i32 4, <4 x i1> %m, <4 x float> zeroinitializer)" in line
