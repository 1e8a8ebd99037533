"""A pytest plugin that runs TensorFlow's own tests on ``XPU``; :mod:`tests.upstream.tensorflow_suite` loads it.

The tests of ``tensorflow/compiler/tests`` are told a device's name. Those of kernels ask for a GPU, where there is one:
here such a session, a ``use_gpu()`` and everything that runs eagerly without a device's name is placed on
``XPU``, and what asks for the CPU by name stays there. With ``SUITE_DEVICE=cpu`` in the environment the former run on
TensorFlow's device ``XLA_CPU``, and the latter on its CPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from _pytest.unittest import TestCaseFunction
from checkout_files import find_in_checkout  # type: ignore[import-not-found]

ON_XPU = os.environ.get("SUITE_DEVICE") != "cpu"
XPU = "/device:XPU:0"
#: ``build_defs.bzl`` of the tests gives these, without the last, for CPUs.
TYPES = "HALF,FLOAT,DOUBLE,UINT8,QUINT8,INT8,QINT8,INT32,QINT32,INT64,BOOL,COMPLEX64,COMPLEX128,BFLOAT16"


def _place_on_xpu() -> None:
    """Have TensorFlow's base class of tests place on ``XPU`` what it would place on a GPU."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops, test_util

    @contextmanager
    def constrain(self: Any, session: Any, use_gpu: bool, force_gpu: bool) -> Iterator[Any]:
        if context.executing_eagerly():
            yield None
            return
        name = XPU if use_gpu or force_gpu else "/device:CPU:0"
        with session.graph.as_default(), session.as_default(), session.graph.device(name):
            yield session

    @contextmanager
    def device(use_gpu: bool) -> Iterator[None]:
        with ops.device(XPU if use_gpu else "/device:CPU:0"):
            yield

    case: Any = test_util.TensorFlowTestCase
    case._constrain_devices_and_set_default = constrain
    test_util.device = device
    test_util.force_gpu = lambda: device(use_gpu=True)


def _xpu() -> Any:
    """The attributes of ``XPU``, as ``device_lib.list_local_devices()`` has them."""
    from tensorflow.python.client import device_lib

    return next(d for d in device_lib.list_local_devices() if d.device_type == "XPU")


def pytest_sessionstart() -> None:
    find_in_checkout("tensorflow")
    # TensorFlow's decorators that look for leaks read these of unittest's result. pytest has its own class for it.
    TestCaseFunction.errors = TestCaseFunction.skipped = ()  # type: ignore[attr-defined]
    if os.environ.get("PYTEST_XDIST_WORKER") is None and "-n" in sys.argv:
        return  # the process that hands tests out runs none
    import tensorflow  # noqa: F401
    from absl import flags
    from tensorflow.compiler.tests import xla_test  # noqa: F401

    flags.FLAGS.mark_as_parsed()
    given: Any = flags.FLAGS
    given.test_device = "XPU" if ON_XPU else "XLA_CPU"
    given.types = ",".join(f"DT_{name}" for name in TYPES.split(","))
    if ON_XPU:
        _place_on_xpu()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``test_session``, ``test_scope`` and ``testing_platform`` are methods of classes of tests, and no tests.

    The last says which of CPU, GPU and TPU the device is, and ends at another: it says CPU of ``XPU``. A function
    ``xla_device`` of a file looks for a device among those of XLA that TensorFlow knows: it finds ``XPU``.
    """
    methods = ("test_session", "test_scope", "testing_platform")
    items[:] = [i for i in items if i.name not in methods]
    for item in items:
        module: Any = getattr(item, "module", None)
        if ON_XPU and hasattr(module, "xla_device"):
            module.xla_device = _xpu
        case: Any = getattr(item, "cls", None)
        if hasattr(case, "testing_platform"):
            case.testing_platform = lambda self: "CPU"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Runs a test where eager operations without a device's name are on ``XPU``.

    What XPU has no kernel of is on the CPU. TensorFlow has that off in a process whose first operation is in a graph,
    as that of another file's tests may be.
    """
    from tensorflow.python.framework import config, ops

    if not ON_XPU or "/compiler/tests/" in str(item.path):
        yield
        return
    config.set_soft_device_placement(True)
    with ops.device(XPU):
        yield
