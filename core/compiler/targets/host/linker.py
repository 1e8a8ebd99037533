"""A linker of one object file: ELF64 relocatable in, flat position-independent image out.

The image holds the object's code and read-only data in one piece; everything in it is reached relative to the
program counter, so it runs wherever it is mapped, and wherever it stands in a larger image, at a multiple of
ALIGNMENT: AArch64 reaches data by the number of pages between (ADRP) and the data's place in its page, which is
part of the instruction. References to functions outside go through stubs that jump by way of 8-byte slots, which the
loader fills with addresses before the image becomes read-only and executable.

Layout: allocated sections in the object's order, then a stub and a slot for each import.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...ir.errors import CompileError, internal
from ..image import Image

# Functions that the loader provides; LLVM makes calls of the mem* functions for loops and copies by itself.
IMPORTABLE: Final = frozenset({"memcpy", "memset", "memmove", "fmod", "fmodf"})

# Of an image: a page as ADRP counts them, however large the system's are.
ALIGNMENT: Final = 4096
X86_ALIGNMENT: Final = 64  # of a section, at most
_EM_X86_64: Final = 62
_EM_AARCH64: Final = 183
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_SHF_WRITE, _SHF_ALLOC = 1, 2
_STB_GLOBAL: Final = 1
_STT_SECTION, _STT_FILE = 3, 4

_EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR: Final = struct.Struct("<IIQQQQIIQQ")
_SYM: Final = struct.Struct("<IBBHQQ")
_RELA: Final = struct.Struct("<QQq")


@dataclass(slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    address: int = -1  # in the image


def link(obj: bytes) -> Image:
    """The image of the ELF object ``obj``.

    Raises CompileError INTERNAL if the object needs something that an image cannot hold: writable data, an absolute
    address, an unknown relocation, or a function that is not in IMPORTABLE.
    """
    header = _EHDR.unpack_from(obj)
    machine, sections_at, count, names_index = header[2], header[6], header[12], header[13]
    if obj[:4] != b"\x7fELF" or machine not in (_EM_X86_64, _EM_AARCH64):
        raise internal(f"linker: not an x86-64 or AArch64 ELF object (machine {machine})")
    sections = []
    name_offsets = []
    for i in range(count):
        name, kind, flags, _, offset, size, link_, info, alignment, _ = _SHDR.unpack_from(
            obj, sections_at + i * _SHDR.size
        )
        name_offsets.append(name)
        sections.append(_Section("", kind, flags, offset, size, link_, info, alignment))
    names_base = sections[names_index].offset
    for section, name in zip(sections, name_offsets, strict=True):
        section.name = _string(obj, names_base + name)

    code = bytearray()
    for section in sections:
        if not section.flags & _SHF_ALLOC or section.size == 0 or section.name == ".eh_frame":
            continue
        if section.flags & _SHF_WRITE or section.kind == _SHT_NOBITS:
            raise internal(f"linker: writable section {section.name} of {section.size} bytes")
        if section.alignment > (X86_ALIGNMENT if machine == _EM_X86_64 else ALIGNMENT):
            raise internal(
                f"linker: section {section.name} is to lie at a multiple of {section.alignment} bytes"
            )
        code += bytes(-len(code) % max(section.alignment, 1))
        section.address = len(code)
        code += obj[section.offset : section.offset + section.size]

    symbols, undefined, addresses = _read_symbols(obj, sections)
    imports: list[tuple[str, int]] = []
    stubs: dict[str, int] = {}
    unknown = sorted(set(undefined.values()) - IMPORTABLE)
    if unknown:
        raise internal(f"linker: undefined symbol {', '.join(unknown)}")
    for name_ in sorted(set(undefined.values())):
        code += bytes(-len(code) % 16)
        stubs[name_] = len(code)
        if machine == _EM_X86_64:
            code += b"\xff\x25\x02\x00\x00\x00\x0f\x0b"  # jmp *2(%rip); ud2
        else:
            code += struct.pack("<II", 0x58000050, 0xD61F0200)  # ldr x16, .+8; br x16
        imports.append((name_, len(code)))
        code += bytes(8)
    for index, name_ in undefined.items():
        addresses[index] = stubs[name_]

    apply = _apply_x86_64 if machine == _EM_X86_64 else _apply_aarch64
    for section in sections:
        if section.kind != _SHT_RELA or sections[section.info].address < 0:
            continue
        base = sections[section.info].address
        for at in range(section.offset, section.offset + section.size, _RELA.size):
            offset, info, addend = _RELA.unpack_from(obj, at)
            target = addresses.get(info >> 32)
            if target is None:
                raise internal(
                    f"linker: relocation against symbol {info >> 32}, which is not in the image"
                )
            apply(code, info & 0xFFFFFFFF, base + offset, target, addend)
    return Image(bytes(code), symbols, imports)


def _string(obj: bytes, offset: int) -> str:
    return obj[offset : obj.index(b"\0", offset)].decode()


def _read_symbols(
    obj: bytes, sections: list[_Section]
) -> tuple[dict[str, int], dict[int, str], dict[int, int]]:
    """Global symbols by name, undefined ones by index, and the image address of each defined symbol index."""
    symbols: dict[str, int] = {}
    undefined: dict[int, str] = {}
    addresses: dict[int, int] = {}
    for table in sections:
        if table.kind != _SHT_SYMTAB:
            continue
        strings = sections[table.link].offset
        for index in range(1, table.size // _SYM.size):
            name, info, _, section_index, value, _ = _SYM.unpack_from(
                obj, table.offset + index * _SYM.size
            )
            if info & 15 == _STT_FILE:
                continue
            if section_index == 0:
                undefined[index] = _string(obj, strings + name)
            elif section_index < len(sections) and sections[section_index].address >= 0:
                addresses[index] = sections[section_index].address + value
                if info >> 4 == _STB_GLOBAL and info & 15 != _STT_SECTION:
                    symbols[_string(obj, strings + name)] = addresses[index]
    return symbols, undefined, addresses


def _apply_x86_64(code: bytearray, kind: int, place: int, target: int, addend: int) -> None:
    if kind in (2, 4):  # R_X86_64_PC32, R_X86_64_PLT32
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


def concatenate(images: Sequence[Image], is_x86: bool = False) -> Image:
    """One image that holds several, which have no external function in common, each at a multiple of ALIGNMENT (on x86,
    whose instructions know no pages, of X86_ALIGNMENT).
    """
    code, whole = bytearray(), Image(b"", {})
    alignment = X86_ALIGNMENT if is_x86 else ALIGNMENT
    for image in images:
        code += bytes(-len(code) % alignment)
        base = len(code)
        code += image.code
        whole.symbols |= {name: base + offset for name, offset in image.symbols.items()}
        whole.imports += [(name, base + offset) for name, offset in image.imports]
    whole.code = bytes(code)
    return whole
