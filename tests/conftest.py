"""Fixtures for every test.

The suite must not read or fill the user's caches, and must not depend on settings in the environment: both are
replaced before any test imports JAX.
"""

from __future__ import annotations

import atexit
import difflib
import gc
import importlib.metadata
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.framework_process import in_few_processes, with_all_packages
from tests.sampling import left_out_of_sample
from tests.starter import Starter

_SCRATCH = tempfile.mkdtemp(prefix="tripont-tests-")
atexit.register(shutil.rmtree, _SCRATCH, ignore_errors=True)
# TRIPONT_DEVICE and TRIPONT_CPU stay: the same tests run on every target and CPU.
_KEPT = {
    "TRIPONT_CONFORMANCE",
    "TRIPONT_CONFORMANCE_TARGET",
    "TRIPONT_PJRT_INCLUDE_DIR",
    "TRIPONT_PYTHON",
    "TRIPONT_DEVICE",
    "TRIPONT_CPU",
    "TRIPONT_DPCTL_PATH",
}
for _name in [name for name in os.environ if name.startswith("TRIPONT_")]:
    if _name not in _KEPT:
        del os.environ[_name]
for _name in ("JAX_PLATFORMS", "JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_X64", "XLA_FLAGS"):
    os.environ.pop(_name, None)
os.environ["TRIPONT_CACHE_DIR"] = os.path.join(_SCRATCH, "cache")
# XLA's own CPU backend says what is expected: to optimise its code takes longer than to run it. One module instead of
# parts for threads, and (in the jaxlibs that have it) the older emitter of LLVM instead of those that lower through
# MLIR, take a fifth of the time again. XLA ends the process over a flag that it does not know.
os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
)
if tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2])) < (0, 11):
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"
# NumPy says it too. Its OpenBLAS has as many threads as there are cores, which wait for each other by spinning: beside
# other tests that takes several times as long as to compute. It reads the variable where it is loaded, here; the LAPACK
# of the runtime, another library, keeps its threads.
with mock.patch.dict(os.environ, OPENBLAS_NUM_THREADS="1"):
    import numpy as np  # noqa: F401
# As cmake/develop.py does for the package: every process that tests start, and every run, would compile the same files.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A shell without job control ignores SIGINT in what it starts in the background, and children inherit that: the
# programs that the tests start would never hear Ctrl-C.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--op", help="only the tests of this op (make test-op OP=...)")
    parser.addoption(
        "--nightly",
        action="store_true",
        help="also the tests that take minutes and have hardly ever found anything",
    )
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="of each test with parameters one row in N (tests/sampling.py)",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: while a test waits for a process or for time to pass, another one can run."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Python's search for garbage has nothing to find in what is imported and collected here, now or in any test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)  # -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        left_out = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if (share := config.getoption("--sample")) > 1:
        left_out = left_out_of_sample(items, share)
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    # That of xdist, which only its workers have.
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = in_few_processes(items, workers)
    if name := config.getoption("--op"):
        check_op(name)
        chosen = [item for item in items if is_about(item, name)]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def check_op(name: str) -> None:
    """Raise UsageError, with the closest names, unless an op, or an operation that is read, is called so."""
    from tripont.core.compiler.ir import registry

    def plain(text: str) -> str:
        return re.sub("[-_]", "", text.rpartition(".")[2]).lower()

    registry.load()
    tables = (registry.OPS, registry.READERS, registry.OPCODES_AS_THEY_STAND, registry.CALLS)
    known = {
        plain(known): known.rpartition(".")[2] for table in reversed(tables) for known in table
    }
    if plain(name) not in known:
        close = difflib.get_close_matches(plain(name), known, 3)
        also = f": did you mean {' or '.join(known[c] for c in close)}?" if close else ""
        raise pytest.UsageError(f"no op is called {name!r}{also}")


def is_about(item: pytest.Item, op: str) -> bool:
    """Whether the test names the op, in its name, its parameters or its text; ``topk`` is also ``top_k``."""
    letters = [re.escape(letter) for letter in op if letter not in "-_"]
    pattern = re.compile(rf"(?<![A-Za-z]){'[-_]?'.join(letters)}(?![A-Za-z])", re.IGNORECASE)
    if pattern.search(item.name):
        return True
    function = getattr(item, "function", None)
    # The text of a test over a table of ops names none of them, or all.
    return (
        function is not None
        and not hasattr(item, "callspec")
        and pattern.search(inspect.getsource(function)) is not None
    )


@pytest.fixture(scope="session")
def xpu() -> Any:
    """The first xpu device. A machine where it does not start fails these tests: it does not skip them."""
    import jax

    return jax.devices("xpu")[0]


@pytest.fixture(scope="session")
def cpu() -> Any:
    """The first device of JAX's own CPU backend."""
    import jax

    return jax.devices("cpu")[0]


@pytest.fixture
def subprocess_environment(tmp_path: Any) -> dict[str, str]:
    """An environment for a process of its own: with an empty cache folder, and no settings of JAX or tripont."""
    environment = {
        k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(("TRIPONT_", "JAX_"))
    }
    return environment | {"TRIPONT_CACHE_DIR": str(tmp_path / "cache")}


_AS_PYTHON_DOES = """
import os, runpy, sys
if "tests.three_frameworks" in sys.modules:
    sys.modules["tests.three_frameworks"].load()
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def run_example(subprocess_environment: dict[str, str]) -> Callable[..., str]:
    """Runs an example as its user does: ``run_example("jax_digits", "--dump", folder)`` returns what it printed.

    The arguments are those of ``examples/<name>/main.py``, in a process of its own, which ``starter`` may begin; named
    ones are variables of its environment. Anything but exit status 0 fails the test, with both streams.
    """

    def run(name: str, *arguments: str, starter: Starter | None = None, **variables: str) -> str:
        program = str(Path(__file__).parents[1] / "examples" / name / "main.py")
        environment = with_all_packages(subprocess_environment | variables)
        if starter:
            done = starter.run(_AS_PYTHON_DOES, environment, program, *arguments, timeout=280)
        else:
            done = subprocess.run(
                [sys.executable, program, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
