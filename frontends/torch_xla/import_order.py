"""TensorFlow and torch_xla in one process, whichever is imported first.

TensorFlow opens its libraries for the whole process (RTLD_GLOBAL): the dynamic linker then answers a later library's
references with TensorFlow's symbols, before that library's own of the same name. torch_xla's library holds LLVM and
hides nothing of it. Imported after TensorFlow, 6,000 of its references end in TensorFlow's LLVM, whose options it then
registers a second time ("CommandLine Error: Option ... registered more than once"), and the process ends, with or
without tripont. Imported before TensorFlow, it keeps to itself.

RTLD_DEEPBIND puts a library's own symbols first. The finder of this module opens torch_xla's library with it if
TensorFlow came first, so that both orders bind alike. PyTorch puts the finder in place: ``import torch`` calls what the
entry points of the group ``torch.backends`` name, here :func:`install`, and torch_xla imports torch before its library.

Where RTLD_DEEPBIND would lead astray (:func:`obstacle`), the import of torch_xla is an ImportError that says what to
do.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from types import ModuleType

# The module that loads TensorFlow's libraries.
_TENSORFLOW = "tensorflow.python.pywrap_tensorflow"
# torch_xla's library.
_TORCH_XLA = "_XLAC"


def tensorflow_came_first() -> bool:
    """Whether TensorFlow is in this process and torch_xla is not yet."""
    return _TORCH_XLA not in sys.modules and _TENSORFLOW in sys.modules


def obstacle() -> str:
    """Why torch_xla cannot be imported after TensorFlow in this process; empty if it can.

    Its library must see the process's Python and its allocator, which RTLD_DEEPBIND goes past if they are not where the
    library itself would find them: Python in the executable while torch_xla names libpython, or a preloaded library.
    """
    if not hasattr(os, "RTLD_DEEPBIND"):
        return "this system's C library has no RTLD_DEEPBIND"
    if preloaded := os.environ.get("LD_PRELOAD"):
        return f"LD_PRELOAD is set, to {preloaded}"
    if not _python_is_a_library():
        return f"{sys.executable} does not use a shared libpython"
    return ""


def _python_is_a_library() -> bool:
    address = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            addresses, *_, path = line.split()
            first, last = (int(a, 16) for a in addresses.split("-"))
            if first <= address < last:
                return os.path.basename(path).startswith("libpython")
    return False


def check() -> None:
    """Raises ImportError if importing torch_xla now would end the process."""
    if tensorflow_came_first() and (reason := obstacle()):
        raise ImportError(
            "TensorFlow was imported before torch_xla, and the import of torch_xla would now end the process: both "
            f"hold LLVM, and tripont cannot keep them apart because {reason}. Put `import torch_xla`, or "
            "`import tripont.torch_xla`, before `import tensorflow`",
            name="torch_xla",
        )


class _OwnSymbolsFirst(ExtensionFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        flags = sys.getdlopenflags()
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
        try:
            return super().create_module(spec)
        finally:
            sys.setdlopenflags(flags)


class _Finder:
    """Finds torch_xla's library after TensorFlow's, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in ("torch_xla", _TORCH_XLA) or not tensorflow_came_first():
            return None
        check()
        if fullname != _TORCH_XLA:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            spec.loader = _OwnSymbolsFirst(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Have every later import of torch_xla in this process go this way. Imports nothing, and cannot fail."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
