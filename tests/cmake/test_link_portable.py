"""Linking for an old glibc: what of GCC's arguments reaches the linker."""

from __future__ import annotations

import importlib.util
import shutil
import types
from pathlib import Path
from typing import Any

import pytest

CMAKE = Path(__file__).resolve().parents[2] / "cmake"


@pytest.fixture
def link_portable() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("link_portable", CMAKE / "link_portable.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_what_the_linker_knows_is_left(link_portable: types.ModuleType) -> None:
    given = [
        *("-fPIC", "-O2", "-g1", "-DNDEBUG", "-shared"),
        *("-Wl,--exclude-libs,ALL", "-Wl,-z,relro,-z,now", "-Wl,--version-script=a.map"),
        *("-Wl,-z,defs,--exclude-libs,ALL", "-Wl,-soname,l.so", "-o", "l.so", "a.o", "-ldl"),
    ]
    assert list(link_portable.linker_arguments(given)) == [
        *("-shared", "-Wl,-z,relro,-z,now", "-Wl,--version-script=a.map"),
        *("-Wl,-z,defs", "-Wl,-soname,l.so", "-o", "l.so", "a.o", "-ldl"),
    ]


@pytest.mark.skipif(not shutil.which("gcc"), reason="make wheel needs GCC, which is not here")
def test_a_library_that_gcc_lacks_is_named(link_portable: types.ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"has no libnothing\.a"):
        link_portable.library("gcc", "libnothing.a")
