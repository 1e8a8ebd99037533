"""The runtime, for the commands: the pybind11 module with an error that says how to get it."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from tripont.fingerprint import compiler_fingerprint

from .terminal import fail


def bindings() -> Any:
    """The module ``tripont.core._tripont``. Ends the command if it was not built for this Python."""
    try:
        module = importlib.import_module("tripont.core._tripont")
    except ImportError as error:
        fail(f"{error}: build it for this Python with `pip install .`, or `make dev` in a checkout")
    return module


def make_client() -> Any:
    """A client of the runtime whose compile workers run on this Python."""
    options: dict[str, Any] = {"compiler_fingerprint": compiler_fingerprint()}
    if "TRIPONT_PYTHON" not in os.environ:
        options["python"] = sys.executable
    module = bindings()
    try:
        return module.Client(options)
    except module.StatusError as error:
        fail(str(error))
