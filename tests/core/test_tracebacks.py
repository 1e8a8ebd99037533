"""Exceptions as text without carets (core/tracebacks.py)."""

from __future__ import annotations

import logging
import sys
import threading
import traceback

import pytest
from tripont.core.tracebacks import PlainTracebacks, format_exception


def failing() -> None:
    numbers = {"one": 1}
    try:
        raise ValueError(numbers["one"] + numbers["two"] * 3)
    except KeyError as error:
        raise ExceptionGroup("several", [RuntimeError("inner"), error]) from error


def caught() -> tuple[type[BaseException], BaseException, object]:
    try:
        failing()
    except ExceptionGroup:
        return sys.exc_info()  # type: ignore[return-value]
    raise AssertionError


def test_it_is_what_python_prints_without_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, error, trace = caught()
    whole = "".join(traceback.format_exception(kind, error, trace))  # type: ignore[arg-type]
    text = format_exception(kind, error, trace)  # type: ignore[arg-type]
    marks = [
        line
        for line in whole.splitlines()
        if set(line.strip(" |")) and not set(line.strip(" |")) - set("^~")
    ]
    assert marks
    assert [line for line in whole.splitlines() if line not in marks] == text.splitlines()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_records_of_other_threads_get_their_text(elsewhere: bool) -> None:
    def record() -> None:
        records.append(logging.LogRecord("x", 40, "file", 1, "failed", (), caught()))  # type: ignore[arg-type]
        assert PlainTracebacks().filter(records[0])

    records: list[logging.LogRecord] = []
    if elsewhere:
        thread = threading.Thread(target=record)
        thread.start()
        thread.join()
        assert records[0].exc_text
        assert records[0].exc_text.endswith(
            "KeyError: 'two'\n    +------------------------------------"
        )
    else:
        record()
        assert records[0].exc_text is None


def test_records_without_an_exception_are_left_alone() -> None:
    record = logging.LogRecord("x", 40, "file", 1, "failed", (), (None, None, None))
    thread = threading.Thread(target=PlainTracebacks().filter, args=(record,))
    thread.start()
    thread.join()
    assert record.exc_text is None
