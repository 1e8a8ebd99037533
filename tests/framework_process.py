"""Test files that need a process of their own.

TensorFlow and PyTorch/XLA register the same options with LLVM, so that no process can hold them in just any order, and
each brings a plugin up once in a process. A folder's conftest.py says so with::

    from tests.framework_process import make_module

    def pytest_pycollect_makemodule(module_path, parent):
        return make_module(module_path, parent)

Then each test file of the folder is one item of the whole suite, which runs pytest on the file in a child. When every
argument of a pytest command lies in that folder (``pytest tests/frontends/tensorflow -k while``), the files are
collected as they are, and nothing is started.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

# tests/conftest.py removes settings that start with TRIPONT_.
_CHILD = "FRAMEWORK_TEST_CHILD"
# A file's whole time in the child, in seconds; its tests have pytest's own limit each.
_LIMIT = 1800
# pytest's exit status when nothing was selected.
_NOTHING_RUN = 5


def make_module(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector for a test file that must not be imported here; None where it may be."""
    if os.environ.get(_CHILD) or _all_inside(parent.config, module_path.parent):
        return None
    return _ChildFile.from_parent(parent, path=module_path)


def _all_inside(config: pytest.Config, folder: Path) -> bool:
    start = config.invocation_params.dir
    paths = [(start / a.split("::")[0]).resolve() for a in config.args]
    top = folder.resolve()
    return bool(paths) and all(p == top or top in p.parents for p in paths)


class _ChildFile(pytest.File):
    def collect(self) -> Iterable[pytest.Item]:
        yield _ChildItem.from_parent(self, name="in_a_process_of_its_own")


class _ChildItem(pytest.Item):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.add_marker(pytest.mark.timeout(_LIMIT + 60))
        # So that -k finds the file by the names of its tests.
        self.extra_keyword_matches.update(_test_names(self.path))

    def runtest(self) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", str(self.path)]
        option = self.config.option
        for flag, value in (("-k", option.keyword), ("-m", option.markexpr)):
            if value:
                command += [flag, value]
        # Examples that this process has imported set the level, which would hide warnings that tests look for.
        left_out = ("PYTEST_", "TF_CPP_MIN_LOG_LEVEL")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        done = subprocess.run(
            command,
            cwd=self.config.rootpath,
            env=environment | {_CHILD: "1"},
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
        self.add_report_section("call", "child", done.stdout[-200_000:] + done.stderr[-20_000:])
        if done.returncode == _NOTHING_RUN:
            pytest.skip("nothing in this file is selected")
        if done.returncode:
            raise _ChildError(
                f"{self.path.name}: {_last_line(done.stdout)} (exit status {done.returncode})"
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, _ChildError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


class _ChildError(Exception):
    """A test in the child failed, or the child died."""


def _test_names(path: Path) -> list[str]:
    tree = ast.parse(path.read_bytes())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [function.name for function in functions if function.name.startswith("test")]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
