"""A pytest plugin for test files of a checkout beside the installed package; :mod:`tests.upstream.suites` loads it.

pytest alone takes a file's folders for packages, and would run the ``__init__.py`` of each in the checkout. Here a file
is a module by itself, under the name that it has in the checkout. A file of TensorFlow's that is a script adds most of
its tests where it begins to run, and here they are added too.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

#: Endings of modules of TensorFlow's that are there in some builds of its tests: a package without them has none, and
#: where they can be imported all of a test is compiled by XLA.
SWITCHES = tuple(
    f".is_{of}_test_{is_so}" for of in ("xla", "mlir_bridge") for is_so in ("true", "false")
)


def _adds_tests(statement: ast.stmt) -> bool:
    """Whether ``statement`` of a script's last block adds tests, or may be what such a statement reads."""
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) for target in statement.targets)
    if not isinstance(statement, ast.Expr):
        return isinstance(statement, ast.For)
    function = getattr(statement.value, "func", None)
    name = str(getattr(function, "attr", None) or getattr(function, "id", ""))
    return name == "setattr" or name.lower().replace("_", "").startswith("addtest")


def added_tests(source: str) -> ast.Module:
    """The statements of ``if __name__ == "__main__":`` in ``source``, up to the call of a ``main``, that add tests.

    What such a block sets for its whole process is not among them, as the process has tests of other files.
    """
    kept: list[ast.stmt] = []
    for block in ast.parse(source).body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "__name__ == '__main__'":
            continue
        for statement in block.body:
            calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
            if any(ast.unparse(call.func).split(".")[-1] == "main" for call in calls):
                break
            if _adds_tests(statement):
                kept.append(statement)
    return ast.Module(kept, [])


class File(pytest.Module):
    def _getobj(self) -> ModuleType:
        name = ".".join(self.path.relative_to(Path.cwd()).with_suffix("").parts)
        spec = importlib.util.spec_from_file_location(name, self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            if name.startswith("tensorflow."):
                adding = added_tests(self.path.read_text())
                exec(compile(adding, self.path, "exec"), module.__dict__)
        except Exception:
            said = pytest.ExceptionInfo.from_current().getrepr(style="native")
            raise self.CollectError(str(said)) from None
        return module


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return File.from_parent(parent, path=module_path)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector:
    return pytest.Dir.from_parent(parent, path=path)


class Finder:
    """Finds modules of a package that only tests need, and that are not installed, in the checkout.

    ``sys.meta_path`` has it as the last, so that what is installed comes first.
    """

    def __init__(self, package: str, folder: Path) -> None:
        self._package, self._folder = package, folder

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if not fullname.startswith(f"{self._package}.") or fullname.endswith(SWITCHES):
            return None
        path = self._folder.joinpath(*fullname.split("."))
        if path.with_suffix(".py").exists():
            return importlib.util.spec_from_file_location(fullname, path.with_suffix(".py"))
        if not path.is_dir():
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(path)]
        return spec


def find_in_checkout(package: str) -> None:
    """Let ``package`` have the modules of the checkout, the folder where pytest runs, that are not installed."""
    sys.meta_path.append(Finder(package, Path.cwd()))
