"""A linker: ELF64 relocatable objects in, one flat position-independent image out.

:func:`read` takes an object apart into its sections, each with what it refers to. :func:`link` makes an image of some
functions, from any objects, and of what they use; of equal sections one. So an image depends on the code of its
functions alone, whatever they were compiled together with (:mod:`.parts`).

The image holds code and read-only data in one piece; everything in it is reached relative to the program counter, so
it runs wherever it is mapped at a multiple of a page: AArch64 reaches data by the number of pages between (ADRP) and
the data's place in its page, which is part of the instruction. References to functions outside go through stubs that
jump by way of 8-byte slots, which the loader fills with addresses before the image becomes read-only and executable.

Layout: functions in their order, each before those that it calls, then data, then a stub and a slot for each import.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...ir.errors import CompileError, internal
from ..image import Image

# Functions that the loader provides; LLVM makes calls of the mem* functions for loops and copies by itself.
IMPORTABLE: Final = frozenset({"memcpy", "memset", "memmove", "fmod", "fmodf"})

# Of a section, at most: a page as ADRP counts them, however large the system's are.
ALIGNMENT: Final = 4096
X86_ALIGNMENT: Final = 64  # the same on x86, whose instructions know no pages
EM_X86_64: Final = 62
EM_AARCH64: Final = 183
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR, _SHF_MERGE, _SHF_STRINGS = 1, 2, 4, 16, 32
_STB_GLOBAL: Final = 1
_X86_FROM_HERE: Final = (2, 4)  # R_X86_64_PC32, R_X86_64_PLT32
_LEA: Final = 0x8D  # the operation, two bytes in front of an address
_VECTOR: Final = 64  # bytes of the longest vectors
_STT_SECTION, _STT_FILE = 3, 4

_EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR: Final = struct.Struct("<IIQQQQIIQQ")
_SYM: Final = struct.Struct("<IBBHQQ")
_RELA: Final = struct.Struct("<QQq")


@dataclass(slots=True, eq=False)
class Section:
    """Code or data of an object: a section of ELF, or one of the equally long constants in it.

    ``references``: the relocation, where in ``code`` it is, to which section or imported function, and the addend.
    ``identity``: equal for sections that are equal with all that they refer to; empty if those refer back.
    """

    code: bytes
    alignment: int
    is_code: bool
    references: list[tuple[int, int, Section | str, int]] = field(default_factory=list)
    identity: bytes = b""


@dataclass(slots=True)
class Object:
    """An object's external functions: the section, and where in it. ``optimised_ir``, ``assembly``: as of an image."""

    functions: dict[str, tuple[Section, int]]
    optimised_ir: str = ""
    assembly: str = ""


@dataclass(slots=True)
class _Header:
    """A section as the object describes it. ``parts``: what is made of it, each of ``length`` bytes."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    length: int
    before: int = 0  # how far in front of a part its addends may lie
    parts: list[Section] = field(default_factory=list)

    def at(self, offset: int) -> tuple[Section, int]:
        """What stands at an offset of the section, and where in it."""
        if len(self.parts) == 1:
            return self.parts[0], offset
        number = min((offset + self.before) // self.length, len(self.parts) - 1)
        return self.parts[number], offset - number * self.length


# What a symbol means: a place in a section, a whole section of the object, or an imported function.
_Target = tuple[Section, int] | _Header | str
# In which section of the object, where there, of which kind, to what, and the addend.
_Relocation = tuple[_Header, int, int, _Target, int]


def read(obj: bytes) -> Object:
    """The functions of the ELF object ``obj``, with all that they use.

    Raises CompileError INTERNAL if the object needs something that an image cannot hold: writable data, an absolute
    address, or a function that is not in IMPORTABLE.
    """
    header = _EHDR.unpack_from(obj)
    machine, sections_at, count, names_index = header[2], header[6], header[12], header[13]
    if obj[:4] != b"\x7fELF" or machine not in (EM_X86_64, EM_AARCH64):
        raise internal(f"linker: not an x86-64 or AArch64 ELF object (machine {machine})")
    headers = []
    name_offsets = []
    for i in range(count):
        name, kind, flags, _, offset, size, link_, info, alignment, length = _SHDR.unpack_from(
            obj, sections_at + i * _SHDR.size
        )
        name_offsets.append(name)
        headers.append(
            _Header("", kind, flags, offset, size, link_, info, max(alignment, 1), length)
        )
    names_base = headers[names_index].offset
    for section, name in zip(headers, name_offsets, strict=True):
        section.name = _string(obj, names_base + name)
    largest = X86_ALIGNMENT if machine == EM_X86_64 else ALIGNMENT
    for section in headers:
        if section.flags & _SHF_ALLOC and section.size and section.name != ".eh_frame":
            _cut(obj, section, largest)
    functions, targets = _read_symbols(obj, headers)
    relocations: list[_Relocation] = []
    for section in headers:
        if section.kind != _SHT_RELA or not headers[section.info].parts:
            continue
        for at in range(section.offset, section.offset + section.size, _RELA.size):
            offset, info, addend = _RELA.unpack_from(obj, at)
            target = targets.get(info >> 32)
            if target is None:
                raise internal(
                    f"linker: relocation against symbol {info >> 32}, which is not in the image"
                )
            relocations.append((headers[section.info], offset, info & 0xFFFFFFFF, target, addend))
    if machine == EM_X86_64:
        for section in headers:
            if section.name == ".rodata" and section.parts:
                _cut_vectors(section, relocations, targets)
    for source, offset, kind, target, addend in relocations:
        part, place = source.at(offset)
        used: Section | str
        if isinstance(target, _Header):  # the addend says which of its parts
            if machine == EM_X86_64 and not _says_which(target, addend):
                raise internal(f"linker: an instruction reads {target.name}, and no constant in it")
            used, addend = target.at(addend)
        elif isinstance(target, str):
            used = target
        else:
            used, addend = target[0], target[1] + addend
        part.references.append((kind, place, used, addend))
    for used, _ in functions.values():
        identify(used)
    return Object(functions)


def _cut(obj: bytes, section: _Header, largest: int) -> None:
    """Make sections of one that is in the image: constants of one length are a section each."""
    if section.flags & _SHF_WRITE or section.kind == _SHT_NOBITS:
        raise internal(f"linker: writable section {section.name} of {section.size} bytes")
    if section.alignment > largest:
        raise internal(
            f"linker: section {section.name} is to lie at a multiple of {section.alignment} bytes"
        )
    merged = section.flags & (_SHF_MERGE | _SHF_STRINGS) == _SHF_MERGE and section.length
    step = section.length if merged else section.size
    is_code = bool(section.flags & _SHF_EXECINSTR)
    for at in range(section.offset, section.offset + section.size, step):
        section.parts.append(Section(obj[at : at + step], section.alignment, is_code))


def _says_which(section: _Header, addend: int) -> bool:
    """Whether an addend says which part of a section an x86-64 instruction reads: the addend is less than the place by
    as many bytes as are left of the instruction.

    LLVM names constants of one length by symbols, unless nothing is to be added to the symbol: where an instruction
    reads what stands as many bytes behind a constant's begin as are left of the instruction (4 or more).
    """
    reads_inside = section.length >= 8 and addend % section.length == 0
    return len(section.parts) == 1 or section.before > 0 or reads_inside


def _cut_vectors(
    section: _Header, relocations: Sequence[_Relocation], targets: Mapping[int, _Target]
) -> None:
    """Make a section of each vector of 64 bytes, which LLVM keeps together with data that has no length of its own.

    Nothing says where each begins but the instructions that read it: 4 or 5 bytes (with an operand of a byte) behind
    the addend. If there is anything else in the section, or an instruction takes an address in it, from which others
    are reached, it stays whole: its functions then bring along what they do not need.
    """
    if section.alignment != _VECTOR or section.size % _VECTOR:
        return
    whole = section.parts[0]
    if any(isinstance(target, tuple) and target[0] is whole for target in targets.values()):
        return
    for source, offset, kind, target, addend in relocations:
        if source is section:  # a table of jumps
            return
        if target is section:
            if kind not in _X86_FROM_HERE or addend % _VECTOR not in (_VECTOR - 4, _VECTOR - 5):
                return
            reader, place = source.at(offset)
            if reader.code[place - 2] == _LEA:
                return
    section.parts = [
        Section(whole.code[at : at + _VECTOR], _VECTOR, False)
        for at in range(0, section.size, _VECTOR)
    ]
    section.length, section.before = _VECTOR, 5


def identify(section: Section) -> None:
    """Set the identity of a section and of all that it uses."""
    _identify(section, set())


def _identify(section: Section, under_way: set[Section]) -> bytes:
    if section.identity or section in under_way:
        return section.identity
    under_way.add(section)
    size = len(section.code)
    digest = hashlib.sha256(b"%d %d %d " % (section.alignment, section.is_code, size))
    digest.update(section.code)
    known = True
    for kind, place, target, addend in section.references:
        name = target.encode() if isinstance(target, str) else _identify(target, under_way)
        known &= bool(name)
        digest.update(b"%d %d %d %s " % (kind, place, addend, name))
    if known:
        section.identity = digest.digest()
    return section.identity


def _string(obj: bytes, offset: int) -> str:
    return obj[offset : obj.index(b"\0", offset)].decode()


def _read_symbols(
    obj: bytes, headers: list[_Header]
) -> tuple[dict[str, tuple[Section, int]], dict[int, _Target]]:
    """Global symbols by name, and what each symbol means, by its index."""
    functions: dict[str, tuple[Section, int]] = {}
    targets: dict[int, _Target] = {}
    for table in headers:
        if table.kind != _SHT_SYMTAB:
            continue
        strings = headers[table.link].offset
        for index in range(1, table.size // _SYM.size):
            name, info, _, number, value, _ = _SYM.unpack_from(
                obj, table.offset + index * _SYM.size
            )
            kind = info & 15
            if kind == _STT_FILE:
                continue
            if number == 0:
                targets[index] = _string(obj, strings + name)
            elif number < len(headers) and headers[number].parts:
                if kind == _STT_SECTION:
                    targets[index] = headers[number]
                    continue
                targets[index] = place = headers[number].at(value)
                if info >> 4 == _STB_GLOBAL:
                    functions[_string(obj, strings + name)] = place
    unknown = {target for target in targets.values() if isinstance(target, str)} - IMPORTABLE
    if unknown:
        raise internal(f"linker: undefined symbol {', '.join(sorted(unknown))}")
    return functions, targets


def link(functions: Mapping[str, tuple[Section, int]], machine: int) -> Image:
    """The image of functions, in their order, and of what they use, for a machine of this number in ELF.

    Raises CompileError INTERNAL for an unknown relocation, UNIMPLEMENTED if something is too far away.
    """
    order: dict[object, Section] = {}  # by what is the same for equal ones
    imported: set[str] = set()
    stack = [section for section, _ in reversed(list(functions.values()))]
    while stack:
        section = stack.pop()
        key = _key(section)
        if key in order:
            continue
        order[key] = section
        for _, _, target, _ in reversed(section.references):
            if isinstance(target, str):
                imported.add(target)
            elif _key(target) not in order:
                stack.append(target)
    code = bytearray()
    addresses: dict[object, int] = {}
    # Data behind the code, what wants the largest alignment first.
    for key, section in sorted(
        order.items(), key=lambda item: 0 if item[1].is_code else 1 + ALIGNMENT - item[1].alignment
    ):
        code += bytes(-len(code) % section.alignment)
        addresses[key] = len(code)
        code += section.code
    imports: list[tuple[str, int]] = []
    for name in sorted(imported):
        code += bytes(-len(code) % 16)
        addresses[name] = len(code)
        if machine == EM_X86_64:
            code += b"\xff\x25\x02\x00\x00\x00\x0f\x0b"  # jmp *2(%rip); ud2
        else:
            code += struct.pack("<II", 0x58000050, 0xD61F0200)  # ldr x16, .+8; br x16
        imports.append((name, len(code)))
        code += bytes(8)
    apply = _apply_x86_64 if machine == EM_X86_64 else _apply_aarch64
    for key, section in order.items():
        base = addresses[key]
        for kind, place, target, addend in section.references:
            to = addresses[target if isinstance(target, str) else _key(target)]
            apply(code, kind, base + place, to, addend)
    symbols = {
        name: addresses[_key(section)] + offset for name, (section, offset) in functions.items()
    }
    return Image(bytes(code), symbols, imports)


def _key(section: Section) -> object:
    """The same for sections of which an image has one."""
    return section.identity or section


def _apply_x86_64(code: bytearray, kind: int, place: int, target: int, addend: int) -> None:
    if kind in _X86_FROM_HERE:
        struct.pack_into("<i", code, place, target + addend - place)
    elif kind == 24:  # R_X86_64_PC64
        struct.pack_into("<q", code, place, target + addend - place)
    elif kind in (9, 41, 42) and code[place - 2] == 0x8B:
        # GOTPCREL, GOTPCRELX, REX_GOTPCRELX: `mov symbol@GOT(%rip), r` becomes `lea symbol(%rip), r`.
        code[place - 2] = 0x8D
        struct.pack_into("<i", code, place, target + addend - place)
    else:
        raise internal(f"linker: x86-64 relocation {kind} is not position-independent or not known")


# AArch64 relocation -> log2 of the access size, for the 12 low bits of an address in a load or store.
_LOW12_SCALE: Final = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}


def _too_far(what: str, distance: int, reach: str) -> CompileError:
    return CompileError(
        "UNIMPLEMENTED",
        f"the program is too large for AArch64: {what} would have to reach {distance} bytes, and reaches {reach}",
    )


def _apply_aarch64(code: bytearray, kind: int, place: int, target: int, addend: int) -> None:
    value = target + addend
    (word,) = struct.unpack_from("<I", code, place)
    if kind in (282, 283):  # JUMP26, CALL26
        distance = value - place
        if distance % 4 or not -(1 << 27) <= distance < 1 << 27:
            raise _too_far("a jump or call", distance, "128 MB")
        word |= (distance >> 2) & 0x3FFFFFF
    elif kind == 275:  # ADR_PREL_PG_HI21
        pages = (value >> 12) - (place >> 12)
        if not -(1 << 20) <= pages < 1 << 20:
            raise _too_far("an address", value - place, "4 GB")
        word |= (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5
    elif kind in _LOW12_SCALE:  # ADD_ABS_LO12_NC, LDST*_ABS_LO12_NC
        if value % (1 << _LOW12_SCALE[kind]):
            raise internal(
                f"linker: AArch64 relocation {kind} to an address {value:#x} that is not aligned"
            )
        word |= ((value & 0xFFF) >> _LOW12_SCALE[kind]) << 10
    elif kind == 261:  # PREL32
        if not -(1 << 31) <= value - place < 1 << 31:
            raise _too_far("data", value - place, "2 GB")
        word = (value - place) & 0xFFFFFFFF
    else:
        raise internal(
            f"linker: AArch64 relocation {kind} is not position-independent or not known"
        )
    struct.pack_into("<I", code, place, word)
