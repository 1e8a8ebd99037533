"""The SPIR-V that comes out: valid, and shown as text."""

from __future__ import annotations

import re

import pytest
from tripont.core.compiler.targets.sycl.disassemble import disassemble

from .khronos import disassembled, validate
from .programs import PROGRAMS, compiled, spirv_of, unary

DEVICES = ("cpu,fp64", "gpu,fp64", "gpu,fp64,sub-groups")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", DEVICES)
def test_kernels_are_valid_and_shown_as_they_are(name: str, device: str) -> None:
    spirv = spirv_of(compiled(PROGRAMS[name], device))
    validate(spirv)
    text = disassemble(spirv, raw=True).split("\n", 3)[3]
    assert text == disassembled(spirv)


def test_names_of_the_disassembly() -> None:
    text = disassemble(spirv_of(compiled(PROGRAMS["exp"])))
    assert "%count = OpFunctionParameter %ulong" in text
    assert "OpTypeVector %float 16" in text
    assert "OpCapability Vector16" in text
    assert "Unknown" not in text


@pytest.mark.parametrize("bad", [b"", b"not a module", b"\x03\x02\x23\x07" + bytes(20)])
def test_what_is_not_spirv(bad: bytes) -> None:
    with pytest.raises(ValueError, match="SPIR-V"):
        disassemble(bad)


def test_large_arrays_are_written_past_the_caches() -> None:
    """Whole aligned vectors, and a barrier behind them, where more is moved than caches hold."""
    spirv = spirv_of(compiled(unary("stablehlo.exponential", "tensor<8388608xf32>")))
    validate(spirv)
    text = disassemble(spirv)
    assert re.search(r"OpStore .* Aligned\|Nontemporal 64\n", text)
    assert text.count("OpMemoryBarrier") == 1
    small = disassemble(spirv_of(compiled(unary("stablehlo.exponential"))))
    assert "Nontemporal" not in small
    assert "OpMemoryBarrier" not in small
