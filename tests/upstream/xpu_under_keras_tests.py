"""A pytest plugin that runs Keras's own tests on ``XPU``; :mod:`tests.upstream.keras_suite` loads it.

With ``SUITE_DEVICE=cpu`` in the environment they run on TensorFlow's CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from checkout_files import find_in_checkout  # type: ignore[import-not-found]


def pytest_sessionstart() -> None:
    find_in_checkout("keras")


def pytest_configure(config: pytest.Config) -> None:
    """The marks of Keras's ``conftest.py``, which is not read, as it imports the checkout's Keras."""
    for mark in ("requires_trainable_backend", "multi_device"):
        config.addinivalue_line("markers", f"{mark}: Keras's")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Keras's ``conftest.py`` leaves out, and a method of TensorFlow's base class that is no test."""
    items[:] = [
        i
        for i in items
        if i.name != "test_session" and i.get_closest_marker("multi_device") is None
    ]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    import tensorflow as tf

    if os.environ.get("SUITE_DEVICE") == "cpu":
        yield
        return
    with tf.device("XPU:0"):
        yield
