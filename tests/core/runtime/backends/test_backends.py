"""The suite (suite/) on every backend (registered.py), each in a process of its own."""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import os
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from tripont.core import _tripont
from tripont.core.compiler import targets

from . import suite
from .registered import BACKENDS, Backend
from .suite.context import LIMIT, Context

SUBJECTS = [m.name for m in pkgutil.iter_modules(suite.__path__) if m.name != "context"]
CHECKS = [
    f"{subject}.{name}"
    for subject in SUBJECTS
    for name, _ in inspect.getmembers(
        importlib.import_module(f"{suite.__name__}.{subject}"), inspect.isfunction
    )
    if name.startswith("check_")
]

_context: Context | None = None  # of a process of a backend


def _start(environment: dict[str, str]) -> None:
    os.environ.update(environment)
    global _context
    options = {"num_devices": 2, "memory_limit": LIMIT, "allocator_cache": 32 << 20}
    _context = Context(_tripont.Client(options))
    expected = environment["TRIPONT_DEVICE"].partition(":")[0]
    assert {device.target for device in _context.client.devices} == {expected}


def _check(name: str) -> None:
    assert _context is not None
    subject, _, check = name.partition(".")
    getattr(importlib.import_module(f"{suite.__name__}.{subject}"), check)(_context)


class Process:
    """A process of a backend; another one after it has died."""

    def __init__(self, backend: Backend, cache: Path) -> None:
        self.environment = {
            **backend.environment(),
            "TRIPONT_DEVICE": backend.device,
            "TRIPONT_CACHE_DIR": str(cache),
        }
        self.pool: ProcessPoolExecutor | None = None

    def check(self, name: str) -> None:
        if self.pool is None:
            # The path that a child starts with is that of the environment: entry points are found by it.
            keep = {key: os.environ.get(key) for key in self.environment}
            os.environ.update(self.environment)
            try:
                context = multiprocessing.get_context("spawn")
                self.pool = ProcessPoolExecutor(1, context, _start, (self.environment,))
                self.pool.submit(int).result(timeout=200)
            finally:
                for key, value in keep.items():
                    os.environ.pop(key) if value is None else os.environ.update({key: value})
        try:
            self.pool.submit(_check, name).result(timeout=250)
        except BrokenProcessPool:
            self.pool = None
            raise

    def end(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda backend: backend.device)
def process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Backend, Process]]:
    backend = request.param
    if reason := backend.missing():
        pytest.skip(reason)
    started = Process(backend, tmp_path_factory.mktemp("cache"))
    yield backend, started
    started.end()


@pytest.mark.parametrize("name", CHECKS)
def test_backend(process: tuple[Backend, Process], name: str) -> None:
    backend, started = process
    if name in backend.failing:
        pytest.xfail(backend.failing[name])
    started.check(name)


def test_every_registered_backend_is_tested() -> None:
    registered = {backend["name"] for backend in _tripont.backends()}
    assert registered <= {backend.name for backend in BACKENDS}
    assert {name for backend in BACKENDS for name in backend.failing} <= set(CHECKS)


@pytest.mark.parametrize("backend", _tripont.backends(), ids=lambda backend: backend["name"])
def test_the_compiler_has_a_target_for_each_backend(backend: dict[str, object]) -> None:
    """What both sides say of a kind of device is the same."""
    target = targets.REGISTERED[str(backend["name"])]
    assert target.device_option == backend["device_option"]
    assert target.kernel_format == backend["kernel_format"]
