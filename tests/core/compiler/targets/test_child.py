"""A function in a child process: its result, its failure, and that it never outlives who asked."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets.child import Child, KilledError, result_of


def test_a_result_larger_than_a_pipe_holds():
    assert Child(lambda: b"x" * 300_000, "fine").result() == b"x" * 300_000


def test_a_child_that_dies_is_an_error_with_llvms_last_words():
    def die() -> bytes:
        os.write(2, b"LLVM ERROR: cannot select\n")
        os.abort()

    with pytest.raises(CompileError, match="it failed: LLVM ERROR: cannot select"):
        Child(die, "it failed").result()


def test_an_exception_of_several_lines_is_told_whole():
    def refuse() -> bytes:
        os.write(2, b"a warning\n")
        raise ValueError("the IR is wrong:\n  nonsense\n  ^")

    with pytest.raises(CompileError) as raised:
        Child(refuse, "it failed").result()
    assert "it failed: ValueError: the IR is wrong:\n  nonsense\n  ^" in str(raised.value)
    assert "a warning" not in str(raised.value)


def test_a_child_that_is_killed_is_tried_once_more(tmp_path):
    def killed_the_first_time() -> bytes:
        if not (tmp_path / "second").exists():
            (tmp_path / "second").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return b"done"

    assert result_of(killed_the_first_time, "it failed") == b"done"

    def killed() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    with pytest.raises(
        KilledError, match=r"it failed: .* killed, as happens when memory"
    ) as raised:
        result_of(killed, "it failed")
    assert raised.value.code == "RESOURCE_EXHAUSTED"


def test_a_failure_says_what_and_why():
    def fails() -> bytes:
        raise ValueError("a reason")

    with pytest.raises(CompileError, match="the parts: ValueError: a reason"):
        Child(fails, "the parts").result()


# Two children, of which the second holds the reading end of the first one's pipe: neither's writing fails when the
# parent is gone.
_PARENT = """
import os, signal, sys, time
from tripont.core.compiler.targets.child import Child

function = {"compute": lambda: time.sleep(600), "write": lambda: b"x" * 10_000_000}[sys.argv[1]]
children = [Child(function, "unused") for _ in range(2)]
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("busy", ["compute", "write"])
def test_a_child_ends_with_its_parent(busy):
    end, inherited = os.pipe()  # readable when all processes that hold `inherited` have ended
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, busy], pass_fds=[inherited])
    os.close(inherited)
    assert parent.wait(60) == -signal.SIGKILL
    ended, _, _ = select.select([end], [], [], 30)
    os.close(end)
    assert ended, "a child outlived its parent"
