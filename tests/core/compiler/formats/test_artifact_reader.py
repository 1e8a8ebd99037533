"""The Python reader of artifacts: whatever the bytes, an executable or an ArtifactError."""

from __future__ import annotations

import contextlib
import random
import struct
import zlib

import pytest
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import ArtifactError, Conditional, While, deserialize

PROGRAM = """
func.func @main(%x: tensor<8x300xf32>, %n: tensor<i32>) -> (tensor<8x300xf32>, tensor<8x5xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %table = stablehlo.constant dense<[1.0, 2.0, 3.0, 5.0]> : tensor<4xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<8x300xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %b = "stablehlo.sort"(%a) ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %less : tensor<i1>
      }) {dimension = 1 : i64} : (tensor<8x300xf32>) -> tensor<8x300xf32>
      stablehlo.return %j, %b : tensor<i32>, tensor<8x300xf32>
    }
  %values, %indices = chlo.top_k(%x, k = 5) : tensor<8x300xf32> -> (tensor<8x5xf32>, tensor<8x5xi32>)
  return %r#1, %values : tensor<8x300xf32>, tensor<8x5xf32>
}
"""
SECTIONS = 32  # offset of the table


@pytest.fixture(scope="module")
def data() -> bytes:
    return compile_program(PROGRAM.encode(), "mlir", b"", {})


def repaired(data: bytes) -> bytes:
    """With size and checksum made right, so that damage gets past them."""
    return data[:12] + struct.pack("<IQ", zlib.crc32(data[24:]), len(data)) + data[24:]


def meta(data: bytes) -> tuple[int, int]:
    """Offset and size of META, the first section."""
    return struct.unpack_from("<QQ", data, SECTIONS + 8)


def replaced(data: bytes, position: int, new: bytes) -> bytes:
    return repaired(data[:position] + new + data[position + len(new) :])


def test_damage_with_a_right_checksum(data: bytes) -> None:
    generator = random.Random(3)
    offset, size = meta(data)
    debug = data.index(b"sort")  # names of operations
    read = 0
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(generator.choice((1, 1, 2, 5))):
            first, count = generator.choice(
                ((24, 130), (offset, size), (offset, size), (debug - 200, 400))
            )
            where = generator.randrange(first, min(first + count, len(data)))
            damaged[where] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        with contextlib.suppress(ArtifactError):
            deserialize(repaired(bytes(damaged)))
            read += 1
    assert 0 < read < 3000


def test_truncation_with_a_right_checksum(data: bytes) -> None:
    for size in [*range(24, 400), *range(400, len(data), 97)]:
        with pytest.raises(ArtifactError):
            deserialize(repaired(data[:size]))


def test_sections(data: bytes) -> None:
    entry = struct.Struct("<IIQQ")
    kind, zero, offset, size = entry.unpack_from(data, SECTIONS)
    assert kind == artifact.SectionKind.META
    for changed, message in (
        ((artifact.SectionKind.CODE, zero, offset, size), "there twice"),
        ((99, zero, offset, size), "unknown"),
        ((0, zero, offset, size), "unknown"),
        ((kind, zero, offset, len(data)), "is outside"),
        ((kind, zero, len(data) + 1, 0), "is outside"),
    ):
        with pytest.raises(ArtifactError, match=message):
            deserialize(replaced(data, SECTIONS, entry.pack(*changed)))
    with pytest.raises(ArtifactError, match="4294967295 sections do not fit"):
        deserialize(replaced(data, 24, b"\xff" * 4))
    with pytest.raises(ArtifactError, match="META is missing"):
        deserialize(replaced(data, 24, bytes(4)))


def test_names_that_are_not_utf8(data: bytes) -> None:
    """Both readers refuse them: who describes the executable gets text."""
    from tripont.core import _tripont

    offset, _ = meta(data)  # it begins with the name, "main"
    assert data[offset : offset + 8] == struct.pack("<I", 4) + b"main"
    good = ("Zoë", "€", "𝄞", "\x7f")
    bad = (
        b"\xff\xfe",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
    )
    for text in (*(g.encode() for g in good), *bad):
        name = text.rjust(4, b"a")[:4] if len(text) <= 4 else text
        changed = replaced(data, offset + 4, name)
        if text in bad:
            with pytest.raises(ArtifactError, match="not UTF-8"):
                deserialize(changed)
            with pytest.raises(_tripont.StatusError, match="not UTF-8"):
                _tripont.Executable.load(changed)
        else:
            assert deserialize(changed).name == name.decode()
            assert _tripont.Executable.load(changed).describe()["name"] == name.decode()


def test_nesting(data: bytes) -> None:
    """As deep as the runtime takes it, and no deeper: there Python would end, not only the reading."""
    executable = deserialize(data)

    def nested(depth: int) -> bytes:
        thunk = None
        for n in range(depth):
            inner = (thunk,) if thunk is not None else ()
            slice_ = artifact.Slice(0, 0, 4)
            thunk = While((), inner, slice_, 1) if n % 2 else Conditional(slice_, False, (inner,))
        executable.thunks = (thunk,)
        from tripont.core.compiler.ir.recursion import deep_recursion

        with deep_recursion():
            return artifact.serialize(executable)

    assert len(deserialize(nested(1500)).thunks) == 1
    with pytest.raises(ArtifactError, match="nest more than 2000 deep"):
        deserialize(nested(2500))
