"""The check of `make test-wheel` sees what it is there to see: changed files, leftovers, the extra's own versions."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "cmake" / "check_install.py"


@pytest.fixture(scope="module")
def module() -> Any:
    spec = importlib.util.spec_from_file_location("check_install", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_install"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def environment(module: Any, tmp_path: Path) -> Any:
    """An environment that holds TensorFlow's files, as far as the check looks."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "tensorflow" / "python"
    package.mkdir(parents=True)
    (package / "one.py").write_text("1")
    return module.Environment(tmp_path)


def test_each_framework_has_the_versions_of_its_extra(module: Any) -> None:
    for framework in module.FRAMEWORKS.values():
        wanted = module.requirements(framework)
        assert [r.partition("==")[0] for r in wanted] == list(framework.own)
        assert all(r.partition("==")[2][0].isdigit() for r in wanted)


def test_changed_and_new_files_are_seen_but_not_bytecode(environment: Any) -> None:
    def files() -> dict[str, str]:
        return environment.files(("tensorflow",))

    before = files()
    assert list(before) == ["tensorflow/python/one.py"]
    folder = environment.site / "tensorflow" / "python"
    (folder / "one.pyc").write_text("compiled")
    assert files() == before
    (folder / "one.py").write_text("2")
    assert files() != before
    (folder / "one.py").write_text("1")
    (folder / "two.py").touch()
    assert files() != before


@pytest.mark.parametrize("name", ["tripont", "tripont-0.1.0.dist-info", "tensorflow-plugins"])
def test_leftovers_are_seen(environment: Any, name: str) -> None:
    assert environment.leftovers() == []
    (environment.site / name).mkdir()
    assert environment.leftovers() == [name]


def test_a_program_that_fails_or_speaks_of_tripont_is_an_error(module: Any) -> None:
    def done(status: int, said: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], status, stdout="", stderr=said)

    module.expect(done(0, "of tripont"), "with it")
    with pytest.raises(SystemExit, match="without it"):
        module.expect(done(0, "of tripont"), "without it", silent=True)
    with pytest.raises(SystemExit, match="exit status 1"):
        module.expect(done(1, ""), "with it")


def test_programs_get_no_variables_but_those_named(
    environment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPONT_NUM_DEVICES", "2")
    program = "import os; print(*sorted(os.environ))"
    said = environment.run("-S", "-c", program, PJRT_DEVICE="XPU").stdout.split()
    assert {"HOME", "PATH", "PJRT_DEVICE"} <= set(said)
    assert "TRIPONT_NUM_DEVICES" not in said
