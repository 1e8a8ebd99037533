"""Masks that become numbers, written so that LLVM 22.1.0 compiles them right with AVX-512.

Whether the numbers of a vector are negative is a mask (``vpmovd2m``), and to branch on it, to take one of its lanes or
to go over its lanes, the mask is moved to a general register (``kmov``). LLVM 22 makes one instruction of both,
``vmovmskps`` or ``vpmovmskb``, which exists for the first sixteen vector registers only, and does not look which
register it is: the program then tests another one (llvm/llvm-project#191304, #198197; mended after 22.1.0, which is the
LLVM of llvmlite 0.48 to 0.50). A scatter whose indices are all out of range wrote them all that way.

So no such mask is known to LLVM as a comparison with zero: it is made a vector of numbers, which an empty piece of
assembly hides, and compared anew. That is three instructions more, off the critical path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final

import llvmlite.binding as llvm

# The instructions that move a mask: the reduction to one truth value, a lane, and masked accesses that LLVM takes apart
# because the machine has none for elements of 8 and 16 bits. Constant masks need nothing.
_MOVE: Final = re.compile(
    r"@llvm\.vector\.reduce\.(?:or|and)\.v\d+i1\(|= extractelement <\d+ x i1> |"
    r"@llvm\.masked\.(?:gather|scatter)\.v\d+(?:i8|i16|f16|bf16)\."
)
# How each of them begins: few lines have one of these, and plain words are found sooner than patterns.
_WORDS: Final = (
    "@llvm.vector.reduce.or.",
    "@llvm.vector.reduce.and.",
    "= extractelement <",
    "@llvm.masked.gather.",
    "@llvm.masked.scatter.",
)
_MASK: Final = re.compile(r"<(\d+) x i1> (%[\w.]+)")
# Comparisons and logic, behind the mask that they define.
_DEFINED: Final = re.compile(r"(fcmp|icmp|and|or|xor) (.*?)<\d+ x \w+> ([^,\n]+), (.*)")
# A function's name and its first parameter, and what is given for it, where they are masks.
_BEGIN: Final = re.compile(r"^define [^@\n]*@([\w.]+)\(<\d+ x i1> (%[\w.]+)", re.MULTILINE)
_CALL: Final = re.compile(r"call [^@\n]*@([\w.]+)\(<\d+ x i1> (%[\w.]+|splat|zeroinitializer|<)")
_CONSTANT: Final = re.compile(r"splat \(i(\d+) (-?\d+)\)$")


def are_moved_wrongly(features: Sequence[str]) -> bool:
    """Whether this LLVM may move masks wrongly for a CPU of these features."""
    return llvm.llvm_version_info[0] == 22 and "avx512vl" in features


def hidden(text: str) -> str:
    """A module's text with its masks hidden where they are moved and may be tests of signs."""
    if not _has_words(text):
        return text
    return "\n}\n".join(function.hidden() for function in _Module(text).functions)


def _has_words(text: str) -> bool:
    """Whether a mask may be moved there."""
    return any(word in text for word in _WORDS)


class _Module:
    def __init__(self, text: str) -> None:
        self.functions = [_Function(part, self) for part in text.split("\n}\n")]

    @functools.cached_property
    def calls(self) -> Mapping[str, Sequence[tuple[_Function, str]]]:
        """By the names of functions that masks are given to: who calls them, and with which mask."""
        calls: dict[str, list[tuple[_Function, str]]] = {}
        for function in self.functions:
            for name, mask in _CALL.findall(function.text):
                calls.setdefault(name, []).append((function, mask))
        return calls


class _Function:
    """A function's text, and what its masks are: those of comparisons and logic, and its first parameter."""

    def __init__(self, text: str, module: _Module) -> None:
        self.text = text
        self.module = module

    @functools.cached_property
    def begin(self) -> Sequence[str]:
        """The function's name, and the parameter if that is a mask."""
        begin = _BEGIN.search(self.text)
        return begin.groups() if begin else ("", "")

    def defined(self, mask: str) -> Sequence[str] | None:
        """What a mask is, if comparisons or logic define it."""
        start = f"\n  {mask} = "
        place = self.text.find(start)
        found = _DEFINED.match(self.text, place + len(start)) if place >= 0 else None
        return found and found.groups()

    def hidden(self) -> str:
        if not _has_words(self.text):
            return self.text
        number = 0
        lines = self.text.split("\n")
        for n, line in enumerate(lines):
            if not _has_words(line) or _MOVE.search(line) is None:
                continue
            for lanes, mask in dict.fromkeys(_MASK.findall(line)):
                count = int(lanes)
                # Vectors of more lanes are compared in whole registers, whose masks are moved rightly.
                if count > 64 or not self.may_test_signs(mask):
                    continue
                bits = 64 if count == 2 else max(8, min(32, 512 // count))
                type_ = f"<{count} x i{bits}>"
                name = f"%mask.{number}"
                number += 1
                shown = (
                    f"  {name}.wide = sext <{count} x i1> {mask} to {type_}",
                    f'  {name}.hidden = call {type_} asm "", "=v,0"({type_} {name}.wide)',
                    f"  {name} = icmp ne {type_} {name}.hidden, zeroinitializer",
                )
                pattern = rf"(<{count} x i1> ){re.escape(mask)}(?![\w.])"
                lines[n] = "\n".join((*shown, re.sub(pattern, rf"\g<1>{name}", lines[n])))
        return "\n".join(lines)

    def may_test_signs(self, mask: str) -> bool:
        """Whether a mask could become a comparison with zero: all do but comparisons of floating-point numbers,
        unsigned ones with what is not the least or the largest signed number, and what is made of those alone.
        """
        name, parameter = self.begin
        if mask == parameter:
            sites = self.module.calls.get(name, ())
            return not sites or any(site.may_test_signs(given) for site, given in sites)
        defined = self.defined(mask) if mask.startswith("%") else None
        if defined is None:
            return mask.startswith("%")
        opcode, kind, first, second = defined
        if opcode == "fcmp":
            return False
        if opcode != "icmp":
            return self.may_test_signs(first) or self.may_test_signs(second)
        if not kind.startswith("u"):
            return True
        constant = _CONSTANT.match(second)
        if constant is None:
            return not second.startswith("%")
        bits, value = int(constant[1]), int(constant[2])
        return (value % (1 << bits)) in ((1 << bits - 1) - 1, 1 << bits - 1)
