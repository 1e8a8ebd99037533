"""What the command line tells the compiler of the machine."""

from __future__ import annotations

import os

import pytest

from tripont.cli import machine


@pytest.mark.parametrize(("asked", "told"), [("", "40"), ("0", "40"), ("6", "6"), ("64", "40")])
def test_threads(asked: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(40)))
    monkeypatch.setenv("TRIPONT_NUM_THREADS", asked)
    monkeypatch.delenv("TRIPONT_CPU", raising=False)
    assert machine.target_options("host", "", "")["threads"] == told
    assert "threads" not in machine.target_options("host", "", "x86-64-v2")
