"""The package's copy of oneDNN asks for nothing of the Intel compiler's runtime."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

import tripont

CMAKE = Path(__file__).resolve().parents[2] / "cmake"


@pytest.fixture
def fetch_onednn(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(CMAKE))
    monkeypatch.delitem(sys.modules, "fetch_onednn", raising=False)
    import fetch_onednn

    return fetch_onednn


def test_the_names_of_two_libraries_are_replaced(fetch_onednn: types.ModuleType) -> None:
    library = b"\x7fELF\0libtbb.so.12\0libimf.so\0expf\0libintlc.so.5\0end"
    changed = fetch_onednn.without_intel_runtime(library)
    assert changed == b"\x7fELF\0libtbb.so.12\0libm.so.6\0expf\0libtripont.so\0end"
    assert len(changed) == len(library)


@pytest.mark.parametrize("library", [b"\0libimf.so\0", b"\0libimf.so\0libimf.so\0libintlc.so.5\0"])
def test_another_library_is_left_alone(fetch_onednn: types.ModuleType, library: bytes) -> None:
    with pytest.raises(ValueError, match="in another way"):
        fetch_onednn.without_intel_runtime(library)


def test_the_installed_library_asks_for_our_own() -> None:
    installed = Path(tripont.library_path()).with_name("libdnnl.so.3")
    if not installed.exists():
        pytest.skip("there is no oneDNN for this CPU")
    names = installed.read_bytes()
    assert b"\0libtripont.so\0" in names
    assert b"\0libimf.so\0" not in names
    assert b"\0libintlc.so.5\0" not in names
