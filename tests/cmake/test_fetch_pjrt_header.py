"""Where the build finds TensorFlow's headers: the cache folder, and what is downloaded into it."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

CMAKE = Path(__file__).resolve().parents[2] / "cmake"


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """cmake/fetch_pjrt_header.py without an installed TensorFlow, with a cache and a wheel of its own."""
    monkeypatch.syspath_prepend(str(CMAKE))
    spec = importlib.util.spec_from_file_location("fetch", CMAKE / "fetch_pjrt_header.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delenv("TRIPONT_PJRT_INCLUDE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "installed_tensorflow", lambda: None)
    monkeypatch.setattr(sys, "argv", ["fetch_pjrt_header.py"])
    module.downloads = []

    def download(
        wheel: str, prefix: str, suffixes: Sequence[str], folder: Path, folders: Sequence[str]
    ) -> None:
        module.downloads.append(list(folders))
        for header in [*module.HEADERS, *(f"{name}header.h" for name in folders)]:
            (folder / header).parent.mkdir(parents=True, exist_ok=True)
            (folder / header).touch()

    monkeypatch.setattr(module, "download", download)
    return module


def run(module: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> Path:
    assert module.main() == 0
    return Path(capsys.readouterr().out.strip())


def test_headers_are_downloaded_once(
    fetch: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(fetch, capsys)
    assert all((first / header).is_file() for header in fetch.HEADERS)
    assert run(fetch, capsys) == first
    assert len(fetch.downloads) == 1


def test_a_cache_with_fewer_folders_of_the_wheel_is_not_taken(
    fetch: types.ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(fetch, capsys)
    monkeypatch.setattr(fetch, "FOLDERS", (*fetch.FOLDERS, "external/another"))
    after = run(fetch, capsys)
    assert not (before / "external" / "another" / "header.h").exists()
    assert (after / "external" / "another" / "header.h").is_file()
