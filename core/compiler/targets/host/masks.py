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
_MOVES: Final = re.compile(
    r"^.*(?:@llvm\.vector\.reduce\.(?:or|and)\.v\d+i1\(|= extractelement <\d+ x i1> |"
    r"@llvm\.masked\.(?:gather|scatter)\.v\d+(?:i8|i16|f16|bf16)\.).*$",
    re.MULTILINE,
)
_MASK: Final = re.compile(r"<(\d+) x i1> (%[\w.]+)")
# Comparisons and logic by the masks that they define.
_DEFINED: Final = re.compile(
    r"^  (%[\w.]+) = (fcmp|icmp|and|or|xor) (.*?)<\d+ x \w+> ([^,]+), (.*)$", re.MULTILINE
)
# A function's name and its first parameter, and what is given for it, where they are masks.
_BEGIN: Final = re.compile(r"^define [^@\n]*@([\w.]+)\(<\d+ x i1> (%[\w.]+)", re.MULTILINE)
_CALL: Final = re.compile(r"call [^@\n]*@([\w.]+)\(<\d+ x i1> (%[\w.]+|splat|zeroinitializer|<)")
_CONSTANT: Final = re.compile(r"splat \(i(\d+) (-?\d+)\)$")


def are_moved_wrongly(features: Sequence[str]) -> bool:
    """Whether this LLVM may move masks wrongly for a CPU of these features."""
    return llvm.llvm_version_info[0] == 22 and "avx512vl" in features


def hidden(text: str) -> str:
    """A module's text with its masks hidden where they are moved and may be tests of signs."""
    if _MOVES.search(text) is None:
        return text
    functions = [_Function(part) for part in text.split("\n}\n")]
    calls: dict[str, list[tuple[_Function, str]]] = {}
    for function in functions:
        for name, mask in _CALL.findall(function.text):
            calls.setdefault(name, []).append((function, mask))
    return "\n}\n".join(function.hidden(calls) for function in functions)


class _Function:
    """A function's text, and what its masks are: those of comparisons and logic, and its first parameter."""

    def __init__(self, text: str) -> None:
        self.text = text
        begin = _BEGIN.search(text)
        self.name, self.parameter = begin.groups() if begin else ("", "")

    @functools.cached_property
    def defined(self) -> Mapping[str, Sequence[str]]:
        return {m[1]: m.groups()[1:] for m in _DEFINED.finditer(self.text)}

    def hidden(self, calls: Mapping[str, Sequence[tuple[_Function, str]]]) -> str:
        number = 0

        def hide(line: re.Match[str]) -> str:
            nonlocal number
            found = line.group()
            for lanes, mask in dict.fromkeys(_MASK.findall(found)):
                count = int(lanes)
                # Vectors of more lanes are compared in whole registers, whose masks are moved rightly.
                if count > 64 or not self.may_test_signs(mask, calls):
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
                found = "\n".join((*shown, re.sub(pattern, rf"\g<1>{name}", found)))
            return found

        return _MOVES.sub(hide, self.text)

    def may_test_signs(
        self, mask: str, calls: Mapping[str, Sequence[tuple[_Function, str]]]
    ) -> bool:
        """Whether a mask could become a comparison with zero: all do but comparisons of floating-point numbers,
        unsigned ones with what is not the least or the largest signed number, and what is made of those alone.
        """
        if mask == self.parameter:
            sites = calls.get(self.name, ())
            return not sites or any(site.may_test_signs(given, calls) for site, given in sites)
        if mask not in self.defined:
            return mask.startswith("%")
        opcode, kind, first, second = self.defined[mask]
        if opcode == "fcmp":
            return False
        if opcode != "icmp":
            return self.may_test_signs(first, calls) or self.may_test_signs(second, calls)
        if not kind.startswith("u"):
            return True
        constant = _CONSTANT.match(second)
        if constant is None:
            return not second.startswith("%")
        bits, value = int(constant[1]), int(constant[2])
        return (value % (1 << bits)) in ((1 << bits - 1) - 1, 1 << bits - 1)
