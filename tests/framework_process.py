"""Test files that need a process of their own.

TensorFlow and PyTorch/XLA register the same options with LLVM, so that no process can hold them in just any order, and
each brings a plugin up once in a process. A folder's conftest.py says so with::

    from tests.framework_process import make_module

    def pytest_pycollect_makemodule(module_path, parent):
        return make_module(module_path, parent)

Then the files of the folder are one item of the whole suite, which runs pytest on all of them in a child: importing
TensorFlow takes six seconds of the CPU. Files that ``apart`` names are in other children: those that choose a number of
devices, and those that take minutes, which other files should not wait for. When every argument of a pytest command
lies in that folder (``pytest tests/frontends/tensorflow -k while``), the files are collected as they are, and nothing
is started.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

# tests/conftest.py removes settings that start with TRIPONT_.
_CHILD = "FRAMEWORK_TEST_CHILD"
# A file's whole time in the child, in seconds; its tests have pytest's own limit each.
_LIMIT = 1800
# pytest's exit status when nothing was selected.
_NOTHING_RUN = 5
# Keras imports them where they are installed, which is a quarter of what importing TensorFlow costs. Only examples use
# them, which run as users run them (``with_all_packages``).
_HIDDEN_PACKAGES = ("matplotlib", "sklearn")
_FOLDER_THAT_HIDES = "FRAMEWORK_TEST_HIDDEN_PACKAGES"
_TEST = re.compile(r"^\s*def (test\w*)\(", re.MULTILINE)


def make_module(
    module_path: Path,
    parent: pytest.Collector,
    apart: Collection[Sequence[str]] = (),
    first: Collection[str] = (),
) -> pytest.Collector | None:
    """The collector for a test file that must not be imported here; None where it may be.

    ``apart``: the names of files that share a process which is not that of the others, for each such process.
    ``first``: of those that begin the others' process.
    """
    if os.environ.get(_CHILD) or _all_inside(parent.config, module_path.parent):
        return None
    file: _ChildFile = _ChildFile.from_parent(parent, path=module_path)
    file.company = next((tuple(names) for names in apart if module_path.name in names), ())
    file.is_first = module_path.name in first
    return file


def in_few_processes(items: list[pytest.Item], workers: int = 1) -> list[pytest.Item]:
    """The items with one in place of those of a folder whose files share a process.

    These items come first: they take longest, and nothing should wait for them in the end. With several ``workers``,
    to each of which xdist's worksteal gives a part of the list, they are the first ones of every other part: so they
    do not wait for one another, and short tests run beside them.
    """
    groups: dict[tuple[pytest.Collector, Sequence[str]], list[_ChildItem]] = {}
    others = []
    for item in items:
        if isinstance(item, _ChildItem):
            assert isinstance(item.parent, _ChildFile)
            folder = item.parent.parent
            assert folder is not None
            groups.setdefault((folder, item.parent.company), []).append(item)
        else:
            others.append(item)
    long = [_together(folder, company, group) for (folder, company), group in groups.items()]
    return spread(long, others, workers)


def spread(long: list[pytest.Item], others: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The items with the long ones first in every other part of as many as there are workers."""
    turns = (workers + 1) // 2
    left = len(long) + len(others)
    items: list[pytest.Item] = []
    rest = iter(others)
    for worker in range(workers):
        size = left // (workers - worker)
        left -= size
        first = long[worker // 2 :: turns] if worker % 2 == 0 else []
        items += [*first, *itertools.islice(rest, max(size - len(first), 0))]
    return [*items, *rest]


def _together(
    folder: pytest.Collector, company: Sequence[str], items: list[_ChildItem]
) -> pytest.Item:
    if len(items) == 1:
        return items[0]
    name = "in_one_process"
    if company:
        name += f"[{', '.join(Path(file).stem for file in company)}]"
    files = sorted(items, key=_comes_later)
    return _ChildItem.from_parent(folder, name=name, files=[item.path for item in files])


def _comes_later(item: _ChildItem) -> bool:
    assert isinstance(item.parent, _ChildFile)
    return not item.parent.is_first


def _all_inside(config: pytest.Config, folder: Path) -> bool:
    start = config.invocation_params.dir
    paths = [(start / a.split("::")[0]).resolve() for a in config.args]
    top = folder.resolve()
    return bool(paths) and all(p == top or top in p.parents for p in paths)


def _without_packages(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment of a Python in which ``folder`` hides packages."""
    for name in _HIDDEN_PACKAGES:
        text = f"raise ImportError('tests/framework_process.py hides {name}')\n"
        Path(folder, f"{name}.py").write_text(text)
    path = os.pathsep.join(filter(None, [str(folder), environment.get("PYTHONPATH")]))
    return {**environment, "PYTHONPATH": path, _FOLDER_THAT_HIDES: str(folder)}


def with_all_packages(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a user's Python, in which no package is hidden."""
    hiding = environment.get(_FOLDER_THAT_HIDES)
    if hiding is None:
        return dict(environment)
    path = [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p != hiding]
    return {**environment, "PYTHONPATH": os.pathsep.join(path)}


class _ChildFile(pytest.File):
    company: Sequence[str] = ()
    is_first = False

    def collect(self) -> Iterable[pytest.Item]:
        yield _ChildItem.from_parent(self, name="in_a_process_of_its_own")


class _ChildItem(pytest.Item):
    def __init__(self, files: Sequence[Path] = (), **arguments: Any) -> None:
        super().__init__(**arguments)
        self._files = files or [self.path]
        self.add_marker(pytest.mark.timeout(_LIMIT + 60))
        # So that -k finds the file by the names of its tests.
        for file in self._files:
            self.extra_keyword_matches.update(_test_names(file))

    def runtest(self) -> None:
        files = [str(file.relative_to(self.config.rootpath)) for file in self._files]
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", *files]
        option = self.config.option
        for flag, value in (("-k", option.keyword), ("-m", option.markexpr)):
            if value:
                command += [flag, value]
        if self.config.getoption("--nightly", False):
            command.append("--nightly")
        # Examples that this process has imported set the level, which would hide warnings that tests look for.
        left_out = ("PYTEST_", "TF_CPP_MIN_LOG_LEVEL")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        with tempfile.TemporaryDirectory() as hiding:
            done = subprocess.run(
                command,
                cwd=self.config.rootpath,
                env=_without_packages(environment, Path(hiding)) | {_CHILD: "1"},
                capture_output=True,
                text=True,
                timeout=_LIMIT,
                check=False,
            )
        self.add_report_section("call", "child", done.stdout[-200_000:] + done.stderr[-20_000:])
        if done.returncode == _NOTHING_RUN:
            pytest.skip("nothing in this file is selected")
        if done.returncode:
            failed = [s for s in done.stdout.splitlines() if s.startswith(("FAILED ", "ERROR "))]
            last = f"{_last_line(done.stdout)} (exit status {done.returncode})"
            raise _ChildError("\n".join([" ".join(command[1:]), *failed, last]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, _ChildError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


class _ChildError(Exception):
    """A test in the child failed, or the child died."""


@functools.cache
def _test_names(path: Path) -> list[str]:
    return _TEST.findall(path.read_text())


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
