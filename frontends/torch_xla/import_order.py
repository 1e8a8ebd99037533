"""TensorFlow and torch_xla in one process: torch_xla must be imported first.

Both hold a copy of LLVM that registers its options with the same process-wide table. When TensorFlow came first, the
import of torch_xla ends the process ("CommandLine Error: Option ... registered more than once"), with or without
tripont. An ImportError with the way out is better than that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

# The module that loads TensorFlow's library.
_TENSORFLOW = "tensorflow.python.pywrap_tensorflow"
_MESSAGE = (
    "TensorFlow was imported before torch_xla, and the import of torch_xla would now end the process (both hold LLVM, "
    "which cannot start twice in this order). Put `import torch_xla`, or `import tripont.torch_xla`, before "
    "`import tensorflow`"
)


def tensorflow_came_first() -> bool:
    """Whether importing torch_xla now would end the process."""
    return "_XLAC" not in sys.modules and _TENSORFLOW in sys.modules


def check() -> None:
    """Raises ImportError if :func:`tensorflow_came_first`."""
    if tensorflow_came_first():
        raise ImportError(_MESSAGE, name="torch_xla")


class _Guard(MetaPathFinder):
    """Finds nothing; raises where the import of torch_xla must not go on."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        if fullname in ("torch_xla", "_XLAC"):
            check()
        return None


def install() -> None:
    """Have every later ``import torch_xla`` of this process checked."""
    if not any(isinstance(finder, _Guard) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Guard())
