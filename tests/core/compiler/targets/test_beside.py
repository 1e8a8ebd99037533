"""Work on a thread beside the caller."""

from __future__ import annotations

import threading

import pytest
from tripont.core.compiler.targets.beside import Beside


def test_the_result_comes_from_another_thread():
    assert Beside(threading.get_ident).result() != threading.get_ident()


def test_what_the_function_raises_is_raised_where_its_result_is_asked_for():
    def fail():
        raise ValueError("no")

    work = Beside(fail)
    work.wait()
    with pytest.raises(ValueError, match="no"):
        work.result()


def test_without_a_thread_the_caller_does_the_work(monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    work = Beside(threading.get_ident)
    work.wait()
    assert work.result() == threading.get_ident()
