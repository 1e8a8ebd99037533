"""The development install: what `make build` links into the package tree."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = {"tool": {"scikit-build": {"wheel": {"packages": {"pack/core": "core"}}}}}


@pytest.fixture
def develop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """cmake/develop.py, for a checkout of its own that has one package."""
    spec = importlib.util.spec_from_file_location("develop", ROOT / "cmake" / "develop.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "TREE", tmp_path / "build" / "dev")
    make_package(tmp_path / "core" / "first")
    (tmp_path / "core" / "one.py").touch()
    (tmp_path / "core" / "notes.md").touch()
    return module


def make_package(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()


def linked(module: types.ModuleType) -> dict[str, Path]:
    return {p.name: p.resolve() for p in (module.TREE / "pack" / "core").iterdir()}


def test_packages_and_modules_are_linked(develop: types.ModuleType) -> None:
    develop.make_tree(PYPROJECT)
    core = develop.ROOT / "core"
    assert linked(develop) == {"first": core / "first", "one.py": core / "one.py"}


def test_a_build_links_new_packages(
    develop: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make build` is enough after a pull: no module is missing, none that is gone is left."""
    monkeypatch.setattr(develop, "read_pyproject", lambda: PYPROJECT)
    monkeypatch.setattr(develop, "build", lambda jobs, options: None)
    monkeypatch.setattr(sys, "argv", ["develop.py", "--build"])
    develop.main()
    make_package(develop.ROOT / "core" / "second")
    (develop.ROOT / "core" / "one.py").unlink()
    (develop.TREE / "pack" / "core" / "library.so").touch()  # what the build puts there stays
    develop.main()
    assert sorted(linked(develop)) == ["first", "library.so", "second"]
