"""A function's machine code as bytes: what is read is what was written, and links to the same image."""

from __future__ import annotations

import pytest
from tripont.core.compiler.targets import host
from tripont.core.compiler.targets.host import linker
from tripont.core.compiler.targets.host.linker import Section
from tripont.core.compiler.targets.host.section_bytes import from_bytes, to_bytes

# Constants of two sizes, a call of the C library, and functions that call one another.
TEXT = """
target triple = "{triple}"
target datalayout = "{layout}"
@table = internal constant [4 x double] [double 1.0, double 2.5, double 3.0, double 7.0]
declare double @fmod(double, double)
define internal double @even(i64 %n, double %x) noinline {{
  %stop = icmp eq i64 %n, 0
  br i1 %stop, label %end, label %go
go:
  %m = sub i64 %n, 1
  %r = call double @odd(i64 %m, double %x)
  ret double %r
end:
  ret double %x
}}
define internal double @odd(i64 %n, double %x) noinline {{
  %y = fmul double %x, 1.25
  %m = and i64 %n, 3
  %p = getelementptr [4 x double], ptr @table, i64 0, i64 %m
  %t = load double, ptr %p
  %z = call double @fmod(double %y, double %t)
  %r = call double @even(i64 %n, double %z)
  ret double %r
}}
define double @first(i64 %n, double %x) {{
  %r = call double @even(i64 %n, double %x)
  ret double %r
}}
define void @second(ptr %p) {{
  %v = load <8 x float>, ptr %p, align 4
  %w = fmul <8 x float> %v, <float 1.5, float 2.5, float 3.5, float 4.5, float 5.5, float 6.5, float 7.5, float 8.5>
  store <8 x float> %w, ptr %p, align 4
  ret void
}}
"""


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v4", "aarch64"])
def test_what_is_read_links_to_the_same_image(cpu: str) -> None:
    target = host.for_cpu("generic-aarch64" if cpu == "aarch64" else cpu, False)
    text = TEXT.format(triple=target.triple, layout=target.data_layout)
    functions = target.compile_object(text).functions
    again = {
        name: (from_bytes(to_bytes(section)), offset)
        for name, (section, offset) in functions.items()
    }
    image, other = (linker.link(each, target.machine) for each in (functions, again))
    assert (image.code, image.symbols, image.imports) == (other.code, other.symbols, other.imports)
    assert image.imports[0][0] == "fmod"
    for name, (section, _) in functions.items():
        assert again[name][0].identity == section.identity


def test_sections_that_refer_to_one_another() -> None:
    first, second = Section(b"12345678", 16, True), Section(b"abcd", 4, False)
    first.references = [(2, 0, second, -4), (4, 4, "memcpy", 1 << 40)]
    second.references = [(2, 0, first, 3), (2, 0, second, 0)]
    made = from_bytes(to_bytes(first))
    assert (made.code, made.alignment, made.is_code, made.identity) == (b"12345678", 16, True, b"")
    (kind, place, other, addend), imported = made.references
    assert isinstance(other, Section)
    assert (kind, place, addend, imported) == (2, 0, -4, (4, 4, "memcpy", 1 << 40))
    assert (other.code, other.alignment, other.is_code) == (b"abcd", 4, False)
    assert other.references == [(2, 0, made, 3), (2, 0, other, 0)]


def test_other_bytes_are_refused() -> None:
    data = to_bytes(Section(b"12345678", 16, True, [(2, 0, "memset", 0)]))
    for end in range(len(data)):
        with pytest.raises(ValueError, match="section"):
            from_bytes(data[:end])
    with pytest.raises(ValueError, match="1 bytes are left"):
        from_bytes(data + b"x")
