"""A pytest plugin that runs chosen tests in a given order and writes down each one as it happens.

:mod:`tests.upstream.package_suites` loads it in environments without ``tests``, so it imports pytest alone. It writes
one JSON object a line, and each line before the next test starts: the line of a test stays when its process ends. Each
line also has the time when it was written, ``"at"``: seconds since 1970.

| line | when |
|---|---|
| ``{"collected": id}`` | with ``--collect-only``: a test, or a file that cannot be imported |
| ``{"started": id}`` | before a test |
| ``{"test": id, "outcome": "passed", "skipped" or "failed", "error": first line, "seconds": s}`` | after it |
| ``{"ended": exit status}`` | when pytest has run all of its tests, or has stopped for another reason |
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TextIO

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chosen", help="a file with the ids of the tests to run, in this order")
    parser.addoption("--record", help="the file to write lines to")
    parser.addoption("--until", type=float, help="seconds since 1970: no test starts later")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record"):
        config.pluginmanager.register(Recorder(config), "tripont-recorder")


class Recorder:
    def __init__(self, config: pytest.Config) -> None:
        self._file: TextIO = Path(config.getoption("--record")).open("a")  # noqa: SIM115
        chosen = config.getoption("--chosen")
        names = Path(chosen).read_text().splitlines() if chosen else []
        self._order = {name: place for place, name in enumerate(names)} if chosen else None
        self._until: float = config.getoption("--until") or float("inf")
        self._only_collects: bool = config.getoption("--collect-only")
        self._session: pytest.Session | None = None
        self._outcome, self._error, self._start = "", "", 0.0

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line | {"at": time.time()}) + "\n")
        self._file.flush()

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported counts as one test; tests that were found in it before have failed."""
        if self._only_collects:
            if report.failed:
                self._write(collected=report.nodeid)
            return
        error = _first_line(report) if report.failed else ""
        outcome = "failed" if report.failed else "passed"
        for test in self._order or ():
            is_inside = report.failed and test.startswith(f"{report.nodeid}::")
            if test == report.nodeid or is_inside:
                self._write(test=test, outcome=outcome, error=error, seconds=0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self._only_collects:
            for item in items:
                self._write(collected=item.nodeid)
        if self._order is not None:
            order = self._order
            chosen = [item for item in items if item.nodeid in order]
            items[:] = sorted(chosen, key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome, self._error, self._start = "passed", "", time.monotonic()
        self._write(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcome, self._error = "failed", self._error or _first_line(report)
        elif report.skipped and self._outcome == "passed":
            self._outcome = "skipped"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds = round(time.monotonic() - self._start, 2)
        self._write(test=nodeid, outcome=self._outcome, error=self._error, seconds=seconds)
        if time.time() > self._until and self._session is not None:
            self._session.shouldstop = "the time is over"

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write(ended=int(exitstatus))


def _first_line(report: pytest.CollectReport | pytest.TestReport) -> str:
    """What went wrong: the first line of the error's message, or the last line of all that is known."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else str(report.longrepr)).strip().splitlines()
    return str((lines or [""])[0 if crash is not None else -1])[:400]
