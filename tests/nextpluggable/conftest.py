"""TensorFlow's tests run in processes of their own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.framework_process import make_module
from tests.starter import Starter

# It measures the process's memory, in which programs of other files' tests would still be made and let go.
_FIRST = ["test_many_operations.py"]


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    return make_module(module_path, parent, first=_FIRST)


Run = Callable[..., subprocess.CompletedProcess[str]]

_MODULE = "tests.tensorflow_without_plugins"
_BEGIN = f"from {_MODULE} import load_plugins; load_plugins()\n"


@contextmanager
def runner(**variables: str) -> Iterator[Run]:
    """What ``run_program`` is, in an environment with these variables."""
    # TensorFlow reads its level once. Examples that this process has imported set it, which would hide warnings.
    started = Starter(_MODULE, TF_CPP_MIN_LOG_LEVEL="0", **variables)
    yield lambda program, *arguments, **options: started.run(
        _BEGIN + program, *arguments, **options
    )
    started.end()


@pytest.fixture(scope="session")
def run_program() -> Iterator[Run]:
    """``run_program(program, environment, *arguments)``, in a process that has TensorFlow and no plugin yet."""
    with runner() as run:
        yield run


@pytest.fixture(scope="session")
def test_ops_library() -> Iterator[Path]:
    """data/test_ops.cc, compiled with the flags that users get."""
    import tripont.tensorflow

    source = Path(__file__).parent / "data" / "test_ops.cc"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "test_ops.so")
        command = ["c++", "-O1", str(source), *tripont.tensorflow.compile_flags()]
        command += ["-o", str(library), *tripont.tensorflow.link_flags()]
        subprocess.run(command, check=True)
        yield library


@pytest.fixture(scope="session")
def test_ops(test_ops_library: Path) -> Any:
    """Its ops."""
    import tensorflow as tf

    return tf.load_op_library(str(test_ops_library))
