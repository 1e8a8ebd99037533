"""SPIR-V as text, one instruction a line, in the syntax of the Khronos tools (``spirv-dis``), with readable names."""

from __future__ import annotations

import re
import struct
from typing import Final

from .spirv import ENUMERATIONS, MASKS, OTHERS, VALUES, Instruction, instructions, string

_NUMBER: Final = re.compile(r"[^\w]+")
_INTEGERS: Final = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
_FLOATS: Final = {16: "half", 32: "float", 64: "double"}
_NAME, _TYPE_VOID, _TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR = 5, 19, 20, 21, 22, 23
_TYPE_ARRAY, _TYPE_POINTER, _CONSTANT, _CONSTANT_TRUE, _CONSTANT_FALSE = 28, 32, 43, 41, 42
_COLUMN: Final = 24  # where the instructions start, after "%result = "


def disassemble(spirv: bytes, *, raw: bool = False) -> str:
    """The text of a module; with ``raw``, ids are numbers. Raises ValueError for bytes that are not SPIR-V."""
    return _Disassembler(raw).run(spirv)


class _Disassembler:
    def __init__(self, raw: bool) -> None:
        self.raw = raw
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.numeric: dict[int, tuple[str, int]] = {}  # types of numbers: "int" or "float", bits
        self.types: dict[int, int] = {}  # value -> its type
        self.aliases: dict[int, str] = {}  # names of types and constants

    def run(self, spirv: bytes) -> str:
        found = list(instructions(spirv))
        lines = [
            "; SPIR-V",
            f"; Version: {spirv[6]}.{spirv[5]}",
            f"; Bound: {int.from_bytes(spirv[12:16], 'little')}",
        ]
        for instruction in found:
            if instruction.opcode == _NAME:
                self.call(instruction.operands[0], string(instruction.operands[1:])[0])
        for instruction in found:
            self.learn(instruction)
        for instruction in found:
            result, text = self.line(instruction)
            head = f"{result} = " if result else ""
            lines.append(head + text if self.raw else f"{head:>{_COLUMN}}{text}")
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------------------------------------- names
    def call(self, number: int, name: str) -> None:
        """Let ``number`` be shown as ``name``, or nearly so if that is taken."""
        if number in self.names:
            return
        name = _NUMBER.sub("_", name) or "_"
        if name in self.taken or name.isdigit():
            name = f"{name}_{number}"
        self.names[number] = name
        self.taken.add(name)

    def id(self, number: int) -> str:
        return f"%{number}" if self.raw else f"%{self.names.get(number, number)}"

    def learn(self, instruction: Instruction) -> None:
        """Types of numbers, and names that say what a type or constant is."""
        opcode, _, operands = instruction
        if opcode in VALUES or (opcode in OTHERS and OTHERS[opcode][1].startswith("t r")):
            self.types[operands[1]] = operands[0]
        name = ""
        result = operands[0] if operands else 0
        if opcode == _TYPE_VOID:
            name = "void"
        elif opcode == _TYPE_BOOL:
            name = "bool"
        elif opcode == _TYPE_INT:
            self.numeric[result] = ("int", operands[1])
            name = _INTEGERS.get(operands[1], f"i{operands[1]}")
        elif opcode == _TYPE_FLOAT:
            self.numeric[result] = ("float", operands[1])
            name = _FLOATS.get(operands[1], f"f{operands[1]}")
        elif opcode == _TYPE_VECTOR:
            name = f"v{operands[2]}{self.names.get(operands[1], operands[1])}"
        elif opcode == _TYPE_ARRAY:
            name = f"arr_{self.names.get(operands[1], operands[1])}_{operands[2]}"
        elif opcode == _TYPE_POINTER:
            storage = ENUMERATIONS["storage-class"].get(operands[1], str(operands[1]))
            name = f"ptr_{storage}_{self.names.get(operands[2], operands[2])}"
        elif opcode in (_CONSTANT, _CONSTANT_TRUE, _CONSTANT_FALSE):
            result = operands[1]
            if opcode == _CONSTANT:
                value = self.constant(operands[0], operands[2:])
                type_ = self.names.get(operands[0], str(operands[0]))
                name = f"{type_}_{value.replace('-', 'n').replace('+', '')}"
            else:
                name = "true" if opcode == _CONSTANT_TRUE else "false"
        if name:
            self.call(result, name)

    # ------------------------------------------------------------------------------------------------- lines
    def line(self, instruction: Instruction) -> tuple[str, str]:
        """The result ("" if there is none), and the instruction."""
        opcode, _, words = instruction
        name, pattern = OTHERS.get(opcode) or (VALUES.get(opcode, f"Unknown{opcode}"), "t r *")
        if name.startswith("Unknown"):
            pattern = "L"
        result, parts = "", [f"Op{name}"]
        at = 0
        for kind in pattern.split():
            if at >= len(words):
                break
            if kind == "r":
                result = self.id(words[at])
                at += 1
            elif kind in ("t", "i"):
                parts.append(self.id(words[at]))
                at += 1
            elif kind == "l":
                parts.append(str(words[at]))
                at += 1
            elif kind == "s":
                text, length = string(words[at:])
                parts.append('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
                at += length
            elif kind == "n":
                parts.append(self.constant(words[0], words[at:]))
                at = len(words)
            elif kind == "*":
                parts += [self.id(w) for w in words[at:]]
                at = len(words)
            elif kind == "L":
                parts += [str(w) for w in words[at:]]
                at = len(words)
            elif kind == "c":
                parts += self.cases(words[0], words[at:])
                at = len(words)
            elif kind == "<decoration>":
                parts += self.decoration(words[at:])
                at = len(words)
            else:
                parts.append(_enumerated(kind[1:-1], words[at]))
                at += 1
        return result, " ".join(parts)

    def constant(self, type_: int, words: tuple[int, ...]) -> str:
        """A number of a scalar type."""
        kind, bits = self.numeric.get(type_, ("int", 32 * len(words)))
        value = sum(w << (32 * n) for n, w in enumerate(words)) & ((1 << bits) - 1)
        if kind == "int":
            return str(value)
        if bits == 64:
            number = struct.unpack("<d", value.to_bytes(8, "little"))[0]
            return _float(number, f"{number:.17g}", value, 11, 52)
        if bits == 32:
            number = struct.unpack("<f", value.to_bytes(4, "little"))[0]
            return _float(number, f"{number:.9g}", value, 8, 23)
        return _hexadecimal(value, 5, 10)

    def cases(self, selector: int, words: tuple[int, ...]) -> list[str]:
        """The values and labels of a switch."""
        _, bits = self.numeric.get(self.types.get(selector, 0), ("int", 32))
        step = max(1, bits // 32)
        parts = []
        for at in range(0, len(words), step + 1):
            value = sum(w << (32 * n) for n, w in enumerate(words[at : at + step]))
            parts += [str(value), self.id(words[at + step])]
        return parts

    @staticmethod
    def decoration(words: tuple[int, ...]) -> list[str]:
        name = _enumerated("decoration", words[0])
        if name == "LinkageAttributes":
            text, length = string(words[1:])
            return [name, f'"{text}"', _enumerated("linkage", words[1 + length])]
        kinds = {"BuiltIn": "builtin", "FuncParamAttr": "parameter-attribute"}
        if name in kinds:
            return [name, _enumerated(kinds[name], words[1])]
        return [name, *map(str, words[1:])]


def _enumerated(kind: str, value: int) -> str:
    if kind in MASKS:
        names = [name for bit, name in MASKS[kind].items() if value & bit]
        return "|".join(names) or "None"
    return ENUMERATIONS[kind].get(value, str(value))


def _float(number: float, text: str, bits: int, exponent_bits: int, mantissa_bits: int) -> str:
    """A number in decimal if it is finite and not subnormal."""
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    if 0 < exponent < (1 << exponent_bits) - 1 or number == 0:
        return text
    return _hexadecimal(bits, exponent_bits, mantissa_bits)


def _hexadecimal(bits: int, exponent_bits: int, mantissa_bits: int) -> str:
    """A float of any width, exactly: 0x1.8p+3. Infinity and NaN have the exponent after the largest."""
    bias = (1 << (exponent_bits - 1)) - 1
    sign = "-" if bits >> (exponent_bits + mantissa_bits) else ""
    exponent = ((bits >> mantissa_bits) & ((1 << exponent_bits) - 1)) - bias
    mantissa = bits & ((1 << mantissa_bits) - 1)
    if exponent == -bias:
        if mantissa == 0:
            return f"{sign}0x0p+0"
        shift = mantissa_bits - mantissa.bit_length() + 1
        exponent, mantissa = 1 - bias - shift, (mantissa << shift) & ((1 << mantissa_bits) - 1)
    digits = -(-mantissa_bits // 4)
    text = f"{mantissa << (4 * digits - mantissa_bits):0{digits}x}".rstrip("0")
    return f"{sign}0x1{'.' + text if text else ''}p{exponent:+d}"
