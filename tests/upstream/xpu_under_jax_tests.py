"""A pytest plugin that runs JAX's own tests on the platform ``xpu``; :mod:`tests.upstream.jax_suite` loads it.

JAX's tests choose by the platform's name what they expect: ``@jtu.run_on_devices("cpu", "gpu")``, ``if
jtu.test_device_matches(["cpu"])``. They know no ``xpu``, and would leave out hundreds of tests that it should pass. So
our device also answers to "cpu" where a test asks what it is to expect; what is to be skipped on XLA:CPU
(``@jtu.skip_on_devices("cpu")``) is run. A test that compares the name itself sees ``xpu``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import jax._src.test_util as jtu
from absl import flags

#: What our device is called in the conditions of JAX's tests.
TAGS = frozenset(["xpu", "cpu"])


def pytest_configure() -> None:
    """Flags of absl's own runner of tests have their defaults; without this they may not be read."""
    flags.FLAGS.mark_as_parsed()


class _Checkout(MetaPathFinder):
    """Finds modules that only tests need, and that JAX's packages leave out, in the checkout."""

    def __init__(self) -> None:
        self._folder = Path.cwd()  # where pytest runs

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        path = self._folder.joinpath(*fullname.split(".")).with_suffix(".py")
        if not fullname.startswith("jax.") or not path.exists():
            return None
        return importlib.util.spec_from_file_location(fullname, path)


def _skip_on_devices(*names: str, skip_reason: str | None = None) -> Any:
    reason = skip_reason or f"Skipped on {', '.join(names)}"
    return jtu._device_filter(lambda: "xpu" not in names, reason)


def _request_devices(number: int) -> None:
    """JAX's, and as many of ours: the file asks before anything has made a client."""
    os.environ["TRIPONT_NUM_DEVICES"] = str(number)
    _request_cpu_devices(number)


_request_cpu_devices = jtu.request_cpu_devices
jtu._get_device_tags = lambda: set(TAGS)
jtu.skip_on_devices = _skip_on_devices
jtu.request_cpu_devices = _request_devices


def _capture(stream: str) -> Any:
    """JAX's, of the stream as it is when a test asks: pytest has other ones while it loads plugins."""
    return lambda: jtu._capture_output(getattr(sys, stream))


jtu.capture_stdout, jtu.capture_stderr = _capture("stdout"), _capture("stderr")

sys.meta_path.append(_Checkout())  # the last: what is installed comes first
