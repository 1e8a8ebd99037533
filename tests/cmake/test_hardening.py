"""The C++ libraries are built with the compiler's and the linker's protections (cmake/compile_options.cmake)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tripont.core import _tripont

import tripont

LIBRARIES = [Path(tripont.library_path()), Path(_tripont.__file__)]
SHT_DYNSYM = 11
PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
EXECUTABLE = 1
DT_FLAGS, BIND_NOW = 30, 8


def segments(data: bytes) -> dict[int, tuple[int, int, int]]:
    """Type of a segment of a 64-bit little-endian ELF file -> (flags, offset, size)."""
    assert data[:6] == b"\x7fELF\x02\x01"
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = {}
    for n in range(count):
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, start + n * size)
        found[kind] = (flags, offset, length)
    return found


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name.split(".")[0])
def test_protections(library: Path) -> None:
    data = library.read_bytes()
    found = segments(data)
    assert PT_GNU_RELRO in found
    assert not found[PT_GNU_STACK][0] & EXECUTABLE
    _, offset, size = found[PT_DYNAMIC]
    dynamic = dict(struct.iter_unpack("<qQ", data[offset : offset + size]))
    assert dynamic.get(DT_FLAGS, 0) & BIND_NOW  # so that RELRO covers all of the table of addresses
    assert b"\0__stack_chk_fail\0" in data
    if library.name == "libtripont.so":  # the bindings make no call that could be checked
        assert b"_chk\0" in data.replace(b"\0__stack_chk_fail\0", b"")  # _FORTIFY_SOURCE


def shown(data: bytes) -> set[str]:
    """The names of the dynamic symbols that a 64-bit little-endian ELF file defines."""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQII", data, start + n * size) for n in range(count)]
    names: set[str] = set()
    for _, kind, _, _, offset, length, link, _ in headers:
        if kind == SHT_DYNSYM:
            strings = headers[link][4]
            for name, _, _, section, _, _ in struct.iter_unpack(
                "<IBBHQQ", data[offset : offset + length]
            ):
                if section:
                    end = data.index(b"\0", strings + name)
                    names.add(data[strings + name : end].decode())
    return names


def test_libraries_show_nothing_of_the_cxx_library() -> None:
    """What they showed of it would take the place of libstdc++'s own in the process."""
    assert shown(Path(_tripont.__file__).read_bytes()) == {"PyInit__tripont"}
    runtime = shown(Path(tripont.library_path()).read_bytes())
    assert "GetPjrtApi" in runtime
    assert not [
        name
        for name in runtime
        if "tripont" not in name and name != "GetPjrtApi" and not name.startswith("_intel_fast_")
    ]
