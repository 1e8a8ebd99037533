"""TensorFlow, imported by a process that forks for each program, whose device the program starts (tests/starter.py).

TensorFlow opens plugins at the end of its import, and ours has a thread from then on and has read its settings. So the
import does not see the folder of plugins; :func:`load_plugins` does in the program what it left out.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from typing import Final
from unittest import mock

_PLUGINS: Final = os.path.join(sysconfig.get_path("purelib"), "tensorflow-plugins")


def _exists_but_for_plugins(
    path: str | os.PathLike[str], exists: Callable[[str | os.PathLike[str]], bool] = os.path.exists
) -> bool:
    return os.fspath(path) != _PLUGINS and exists(path)


with mock.patch("os.path.exists", _exists_but_for_plugins):
    from tensorflow.python.framework import load_library


def load_plugins() -> None:
    """The end of ``import tensorflow``."""
    load_library.load_library(_PLUGINS)
    load_library.load_pluggable_device_library(_PLUGINS)
    if another := os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH"):
        load_library.load_pluggable_device_library(another)
