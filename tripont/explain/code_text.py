"""Where in LLVM IR, assembly and SPIR-V text each function stands."""

from __future__ import annotations

import re
from typing import Final

Ranges = dict[str, tuple[int, int]]  # function -> its first and last line, from 0, both included

_LLVM_DEFINE: Final = re.compile(r"^define [^@]*@\"?([\w.$-]+)\"?\(")
_ASSEMBLY_LABEL: Final = re.compile(r"^\"?([A-Za-z_][\w.$-]*)\"?:")
_ASSEMBLY_END: Final = re.compile(r"^\s*\.size\s|^\.Lfunc_end")
_SPIRV_ENTRY: Final = re.compile(r"OpEntryPoint Kernel (%[\w.]+) \"([^\"]+)\"")
_SPIRV_FUNCTION: Final = re.compile(r"^\s*(%[\w.]+) = OpFunction ")


def llvm_functions(text: str) -> Ranges:
    """Functions of LLVM IR. A kernel's body that is a function by itself (``name.body``) belongs to the kernel."""
    ranges: Ranges = {}
    start, name = -1, ""
    for number, line in enumerate(text.split("\n")):
        if start < 0:
            if match := _LLVM_DEFINE.match(line):
                start, name = number, match[1]
        elif line == "}":
            ranges[name] = (start, number)
            start = -1
    return ranges


def assembly_functions(text: str) -> Ranges:
    """Functions of assembly as LLVM prints it for ELF."""
    ranges: Ranges = {}
    start, name = -1, ""
    for number, line in enumerate(text.split("\n")):
        if match := _ASSEMBLY_LABEL.match(line):
            if start < 0 and "@function" not in line and not match[1].startswith(".L"):
                start, name = number, match[1]
        elif start >= 0 and _ASSEMBLY_END.match(line):
            ranges[name] = (start, number)
            start = -1
    return ranges


def spirv_functions(text: str) -> Ranges:
    """Kernels of disassembled SPIR-V, by the names of their entry points."""
    names = {match[1]: match[2] for match in _SPIRV_ENTRY.finditer(text)}
    ranges: Ranges = {}
    start, name = -1, ""
    for number, line in enumerate(text.split("\n")):
        if start < 0:
            if match := _SPIRV_FUNCTION.match(line):
                start, name = number, names.get(match[1], match[1].lstrip("%"))
        elif "OpFunctionEnd" in line:
            ranges[name] = (start, number)
            start = -1
    return ranges
