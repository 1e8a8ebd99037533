"""A pytest plugin: which tests of a file are run. The suites of other people's tests load it (``-p chosen_tests``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only-tests",
        help="a file with the names of tests, Class.test or file.test: no others are run",
    )
    parser.addoption(
        "--cases", type=int, default=0, help="at most so many tests of a file; 0 is all"
    )
    parser.addoption("--seed", default="0", help="which tests --cases chooses")


def order(names: Iterable[str], seed: str) -> list[str]:
    """``names`` in an order that a hash of each name and ``seed`` decides: the same on every machine."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())


def name_of(test: str) -> str:
    """What the results call a test with pytest's id ``test``: ``Class.test[parameters]``, or its file in place of a
    class.
    """
    path, bracket, parameters = test.partition("[")
    names = path.split("::")
    names[0] = names[0].removesuffix(".py").replace("/", ".")
    return f"{'.'.join(names[:-1]).rsplit('.', 1)[-1]}.{names[-1]}{bracket}{parameters}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--only-tests")
    if path:
        names = set(Path(path).read_text().splitlines())
        # A test that ended its process has the ending of its file for a class.
        items[:] = [i for i in items if not names.isdisjoint((name_of(i.nodeid), f"py.{i.name}"))]
    cases = config.getoption("--cases")
    if cases:
        files: dict[str, list[str]] = {}
        for item in items:
            files.setdefault(item.nodeid.split("::")[0], []).append(item.nodeid)
        seed = config.getoption("--seed")
        keep = {name for names in files.values() for name in order(names, seed)[:cases]}
        items[:] = [i for i in items if i.nodeid in keep]
