"""The development install: what `make build` links into the package tree."""

from __future__ import annotations

import importlib.util
import sys
import threading
import tomllib
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
    folder = module.TREE / "pack" / "core"
    return {p.name: p.resolve() for p in folder.iterdir() if p.name != "__pycache__"}


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


def test_modules_are_compiled_where_python_does_not_write_bytecode(
    develop: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    develop.make_tree(PYPROJECT)
    develop.write_bytecode(PYPROJECT)
    core = develop.ROOT / "core"
    for module in (core / "first" / "__init__.py", develop.TREE / "pack" / "core" / "one.py"):
        bytecode = Path(importlib.util.cache_from_source(str(module)))
        assert bytecode.stat().st_mtime >= module.stat().st_mtime


def test_extras_that_ask_for_extras_and_no_requirement_twice(develop: types.ModuleType) -> None:
    project = {
        "name": "pack",
        "dependencies": ["numpy>=2"],
        "optional-dependencies": {"jax": ["jax", "pack[more]"], "more": ["numpy>=2", "rich"]},
    }
    assert develop.requirements_of(project, ["jax"]) == ["numpy>=2", "jax", "rich"]


def test_the_extra_jax_leaves_the_sycl_runtime_out(develop: types.ModuleType) -> None:
    """It is 1.9 GB that a CPU's user never opens."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = " ".join(develop.requirements_of(project, ["jax"]))
    assert "dpctl" not in asked
    assert "opencl" not in asked
    assert "dpctl" in " ".join(develop.requirements_of(project, ["sycl"]))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "  Downloading jaxlib-0.10.2-cp311-cp311-manylinux_2_27_x86_64.whl (95.1 MB)\n",
            "downloading jaxlib-0.10.2 (95.1 MB)",
        ),
        (
            "  Downloading https://mirror.example/x/jaxlib-0.10.2-py3-none-any.whl (95.1 MB)\n",
            "downloading jaxlib-0.10.2 (95.1 MB)",
        ),
        ("  Downloading rich-14.0.0-py3-none-any.whl (243 kB)\n", None),
        ("Installing collected packages: a, b, c\n", "unpacking 3 packages"),
        ("Requirement already satisfied: numpy in x\n", None),
    ],
)
def test_progress_of_pip(develop: types.ModuleType, line: str, shown: str | None) -> None:
    assert develop.progress(line) == shown


class Pip:
    """pip, which is not there."""

    stdout: tuple[str, ...] = ()
    returncode = 0
    commands: list[list[str]]

    def __init__(self, command: list[str], **_: Any) -> None:
        self.commands.append(command)

    def __enter__(self) -> Pip:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def pip(develop: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Pip]:
    Pip.returncode, Pip.commands = 0, []
    monkeypatch.setattr(develop.subprocess, "Popen", Pip)
    monkeypatch.setattr(develop.sys, "prefix", str(tmp_path))
    return Pip


def test_what_is_installed_is_not_installed_again(
    develop: types.ModuleType, pip: type[Pip], tmp_path: Path
) -> None:
    """Also after a command that installed more: `make dev` after `make frameworks` asks pip for nothing."""
    develop.install(["one>=1", "two"])
    develop.install(["two"])
    develop.install(["three", "two"])
    asked = [[a for a in c if a in {"one>=1", "two", "three"}] for c in pip.commands]
    assert asked == [["one>=1", "two"], ["three"]]
    pip.returncode = 1
    with pytest.raises(SystemExit, match="could not install"):
        develop.install(["four"])
    assert "four" not in (tmp_path / "tripont-requirements.txt").read_text()


def test_a_package_without_what_it_asks_for(
    develop: types.ModuleType, pip: type[Pip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only with a Python for which that has no packages."""
    monkeypatch.setattr(develop, "ALONE", {"old": ((9, 0), ("x",)), "new": ((3, 0), ("y", "z"))})
    develop.install(["one", "old>=1", "new>=2"])
    asked = [c[c.index("--progress-bar=off") + 1 :] for c in pip.commands]
    assert asked == [["one", "old>=1", "y", "z"], ["--no-deps", "new>=2"]]


def test_extras_without_packages_are_left_out_and_named(
    develop: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(develop, "BEFORE", {"sycl": (3, 0), "torch": (9, 0), "tensorflow": (3, 0)})
    assert develop.available(["jax", "sycl", "torch", "tensorflow"]) == ["jax", "torch"]
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    assert f"dpctl 0.22 and TensorFlow 2.21 for {python}: left out" in capsys.readouterr().out
    assert develop.available(["jax"]) == ["jax"]
    assert capsys.readouterr().out == ""


def test_each_extra_that_may_be_missing_has_a_name(develop: types.ModuleType) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*develop.BEFORE} == {*develop.PACKAGES}
    assert {*develop.BEFORE} <= {*project["optional-dependencies"]}


def test_both_of_two_at_once_end_before_an_error_is_raised(develop: types.ModuleType) -> None:
    ended = threading.Event()

    def fail() -> None:
        raise SystemExit("no network")

    with pytest.raises(SystemExit, match="no network"):
        develop.at_once(fail, ended.set)
    assert ended.is_set()
    with pytest.raises(SystemExit, match="no network"):
        develop.at_once(lambda: None, fail)


def test_an_environment_fits_while_the_requirements_are_the_same(
    develop: types.ModuleType,
) -> None:
    def key(*dependencies: str) -> str:
        project = {"name": "pack", "dependencies": [*dependencies], "optional-dependencies": {}}
        return develop.environment_key({"build-system": {"requires": []}, "project": project})

    assert key("one", "two") == key("two", "one")
    assert key("one") != key("one>=1")
