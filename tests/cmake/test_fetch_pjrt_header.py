"""Where the build finds TensorFlow's headers: the cache folder, and what is downloaded into it."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from collections.abc import Callable, Sequence
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
    module.looks_for_tensorflow = module.installed_tensorflow
    monkeypatch.setattr(module, "installed_tensorflow", lambda minors: None)
    module.downloads = []

    def fetch_part(
        wheel: str, prefix: str, wanted: Sequence[str], folder: Path, expected: str
    ) -> None:
        assert expected == module.DIGESTS[wanted]
        module.downloads.append(list(wanted))
        for name in wanted:
            if name in module.HEADERS:
                make(folder / name)
            else:
                make(folder / name / "header.h")
        if "tensorflow/" in wanted:
            for header in (*module.HEADERS, module.ADAPTER_HEADER):
                make(folder / header)

    monkeypatch.setattr(module, "fetch_part", fetch_part)
    return module


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@pytest.fixture
def run(
    fetch: types.ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    def run(*arguments: str) -> Path:
        monkeypatch.setattr(sys, "argv", ["fetch_pjrt_header.py", *arguments])
        assert fetch.main() == 0
        return Path(capsys.readouterr().out.strip())

    return run


def test_every_header_that_the_plugin_includes_is_named(fetch: types.ModuleType) -> None:
    included = {
        header
        for folder in ("core/runtime", "core/bindings", "pjrt")
        for path in (CMAKE.parent / folder).rglob("*")
        if path.suffix in {".cc", ".h"}
        for header in re.findall(r'^#include "(xla/[^"]+)"', path.read_text(), re.M)
    }
    assert included
    assert included <= set(fetch.HEADERS)


def test_headers_are_downloaded_once(fetch: types.ModuleType, run: Callable[..., Path]) -> None:
    first = run()
    assert all((first / header).is_file() for header in fetch.HEADERS)
    assert run() == first
    assert fetch.downloads == [list(fetch.HEADERS)]


def test_only_the_adapter_downloads_tensorflows_headers(
    fetch: types.ModuleType, run: Callable[..., Path]
) -> None:
    small = run()
    large = run("--tensorflow")
    assert not (small / fetch.ADAPTER_HEADER).exists()
    assert (large / fetch.ADAPTER_HEADER).is_file()
    assert fetch.downloads == [list(fetch.HEADERS), list(fetch.FOLDERS)]
    assert run() == large  # which holds the two of the PJRT C API as well


def test_a_cache_with_fewer_folders_of_the_wheel_is_not_taken(
    fetch: types.ModuleType, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run("--tensorflow")
    monkeypatch.setattr(fetch, "FOLDERS", (*fetch.FOLDERS, "external/another/"))
    monkeypatch.setitem(fetch.DIGESTS, fetch.FOLDERS, "another")
    after = run("--tensorflow")
    assert not (before / "external" / "another" / "header.h").exists()
    assert (after / "external" / "another" / "header.h").is_file()


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("tensorflow_cpu-2.21.1", "2.21.1"),
        ("tensorflow-2.22.0", "2.22.0"),
        ("tensorflow_cpu-2.22.0rc0", "2.22.0-rc0"),  # TensorFlow's own name
        ("tensorflow-2.99.0", None),
        ("tensorflow_io-2.22.0", None),
    ],
)
def test_an_installed_tensorflow_comes_first_and_is_what_the_adapter_is_built_for(
    fetch: types.ModuleType,
    run: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    package: str,
    version: str | None,
) -> None:
    include = tmp_path / "site" / "tensorflow" / "include"
    for header in (*fetch.HEADERS, fetch.ADAPTER_HEADER):
        make(include / header)
    make(include.parent / "__init__.py")
    make(tmp_path / "site" / f"{package}.dist-info" / "METADATA")
    monkeypatch.setattr(fetch, "installed_tensorflow", fetch.looks_for_tensorflow)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    if version is None:
        assert str(run("--installed")) == "."  # an empty line
        assert str(run("--version")) == fetch.VERSION
        assert run("--tensorflow") == fetch.cached_headers(fetch.FOLDERS)
        return
    assert run("--installed") == run("--tensorflow") == include
    assert str(run("--version")) == version
    # The plugin has the version of the PJRT C API that every supported framework accepts.
    assert (run() == include) == version.startswith("2.21.")


def test_a_given_folder_without_what_is_needed_is_an_error(
    fetch: types.ModuleType,
    run: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for header in fetch.HEADERS:
        make(tmp_path / "given" / header)
    monkeypatch.setenv("TRIPONT_PJRT_INCLUDE_DIR", str(tmp_path / "given"))
    assert run() == tmp_path / "given"
    monkeypatch.setattr(sys, "argv", ["fetch_pjrt_header.py", "--tensorflow"])
    assert fetch.main() == 1
    assert "does not hold tensorflow/c/kernels.h" in capsys.readouterr().err
