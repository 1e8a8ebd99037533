"""What is kept of LLVM's work from one run of the tests to the next is what LLVM would make again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler import kept_objects
from tests.core.compiler.kept_objects import LIFE, KeptObjects

TEXT = """
define i64 @f(i64 %x) {
  %y = mul i64 %x, 3
  ret i64 %y
}
"""


@pytest.fixture
def kept(tmp_path: Path) -> KeptObjects:
    return KeptObjects(tmp_path / "objects")


def fresh(kept: KeptObjects, text: str) -> bytes:
    """What LLVM makes of a text now."""
    folder = kept.folder.with_name("another")
    another = KeptObjects(folder)
    made = another.elf_object(for_cpu(), text, False)
    assert another.found == 0
    return made


def test_an_object_is_made_once(kept: KeptObjects) -> None:
    target = for_cpu()
    made = kept.elf_object(target, TEXT, False)
    assert kept.found == 0
    assert kept.elf_object(target, TEXT, False) == made
    assert kept.found == 1
    assert KeptObjects(kept.folder).elf_object(target, TEXT, False) == made == fresh(kept, TEXT)
    assert oct(kept.folder.stat().st_mode & 0o777) == "0o700"


def test_what_llvm_makes_depends_on_is_the_key(
    kept: KeptObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text, the machine and the effort; and the compiler's call of LLVM with LLVM's version."""
    host = for_cpu()
    kept.elf_object(host, TEXT, False)
    kept.elf_object(host, TEXT.replace("3", "5"), False)
    kept.elf_object(host, TEXT, True)
    kept.elf_object(for_cpu("neoverse-n1"), TEXT, False)
    kept.elf_object(for_cpu("x86-64-v2"), TEXT, False)
    monkeypatch.setenv("TRIPONT_VERIFY", "0")  # without a look at what LLVM's passes made
    kept.elf_object(host, TEXT, False)
    monkeypatch.setattr(kept_objects, "_how", lambda: "with another pass")
    kept.elf_object(host, TEXT, False)
    assert kept.found == 0
    assert len(list(kept.folder.iterdir())) == 7


def test_an_error_is_not_kept(kept: KeptObjects) -> None:
    for _ in range(2):
        with pytest.raises(CompileError, match="LLVM rejects the generated IR"):
            kept.elf_object(for_cpu(), "define nothing", False)
    assert list(kept.folder.iterdir()) == []


@pytest.mark.parametrize("damage", ["shorter", "another byte", "empty"])
def test_a_damaged_object_is_made_again(kept: KeptObjects, damage: str) -> None:
    made = kept.elf_object(for_cpu(), TEXT, False)
    (file,) = kept.folder.iterdir()
    content = file.read_bytes()
    changed = {
        "shorter": content[:-1],
        "another byte": content[:99] + bytes([content[99] ^ 1]) + content[100:],
        "empty": b"",
    }
    file.write_bytes(changed[damage])
    assert kept.elf_object(for_cpu(), TEXT, False) == made
    assert kept.found == 0
    assert kept.elf_object(for_cpu(), TEXT, False) == made
    assert kept.found == 1


def test_objects_that_nobody_asks_for_go(kept: KeptObjects) -> None:
    for factor in (3, 5, 7):
        kept.elf_object(for_cpu(), TEXT.replace("3", str(factor)), False)
    first, second, third = kept.folder.iterdir()
    now = time.time()
    os.utime(first, (now, now - LIFE - 60))
    os.utime(second, (now, now - LIFE + 60))
    kept.forget_old_ones()
    assert {*kept.folder.iterdir()} == {second, third}
    for factor in (3, 5, 7):  # to be asked for makes them young
        kept.elf_object(for_cpu(), TEXT.replace("3", str(factor)), False)
    assert all(file.stat().st_mtime > now - 60 for file in kept.folder.iterdir())


def test_the_tests_of_the_compiler_keep_what_llvm_makes(
    kept: KeptObjects, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--nightly"):
        pytest.skip("every object is LLVM's of this night")
    folder = kept_objects.usual_folder()
    for_cpu().compile_object(TEXT)
    assert (folder / kept_objects.key_of(for_cpu(), TEXT, False)).exists()
