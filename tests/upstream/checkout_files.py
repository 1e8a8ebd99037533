"""A pytest plugin for test files of a checkout beside the installed package; :mod:`tests.upstream.suites` loads it.

pytest alone takes a file's folders for packages, and would run the ``__init__.py`` of each in the checkout. Here a file
is a module by itself, under the name that it has in the checkout.
"""

from __future__ import annotations

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
