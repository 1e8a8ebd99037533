"""Fixtures of the runtime's tests: one client, and a stand-in for the compiler."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tripont.core import _tripont

# The real worker around a compiler that does what the program's bytes say.
_FAKE_WORKER = """#!{python}
import os, signal, sys, time, types

class CompileError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

def compile_program(program, format, options_proto, options):
    command, _, argument = program.partition(b" ")
    if command == b"sleep":
        time.sleep(float(argument))
    elif command == b"signal":
        os.kill(os.getpid(), int(argument))
        time.sleep(10)
    elif command == b"child":
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
    elif command == b"exit":
        os._exit(int(argument))
    elif command == b"refuse":
        raise CompileError(argument.decode(), "refused on request")
    elif command == b"bug":
        return [][1]
    elif command == b"print":
        print("said by the compiler", flush=True)
    elif command == b"options":
        raise CompileError("NOT_FOUND", repr((format, options_proto, sorted(options.items()))))
    elif command == b"artifact":
        return open(argument.decode(), "rb").read()
    elif command == b"pid":
        raise CompileError("NOT_FOUND", str(os.getpid()))
    elif command == b"ask":
        from tripont.core.compiler.xla import partitioners
        return partitioners.process().ask(argument.decode(), partitioners.Question.INSPECT, [b"x"])[0]
    return argument

def stand_in(name, **content):
    module = types.ModuleType("tripont.core.compiler." + name)
    module.__dict__.update(content)
    sys.modules[module.__name__] = module
    return module

module = stand_in("compile", compile_program=compile_program)
{rest}
from tripont.core.compiler import worker
{more}
sys.exit(worker.main(sys.argv[-2:]))
"""


# The worker's other imports: NumPy, LLVM and the MLIR bindings are most of its start.
_STAND_INS = """
import contextlib
none = lambda *_: None
counters = stand_in("targets.code_cache", hits=lambda: 0, misses=lambda: 0, use=none, flush=lambda: None)
stand_in("targets.code_store", CodeStore=lambda *_: types.SimpleNamespace(refresh=lambda: None))
stand_in("targets", code_cache=counters, from_options=none)
stand_in("importer", warm_up=none)
stand_in("importer.reading_limit", enable=none)
stand_in("xla", partitioners=stand_in("xla.partitioners", of_process=lambda *_: contextlib.nullcontext()))
stand_in("ir.registry", installed=list)
stand_in("ir.verifier", enabled=lambda: False)
"""


def write_script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def fake_worker(more: str = "", *, imports: bool = False) -> str:
    """The text of a script that is such a worker; `more`: Python lines that are run before it starts. `imports`:
    whether it imports what the compiler is built on, as a real one does.
    """
    rest = "" if imports else _STAND_INS
    return _FAKE_WORKER.format(python=sys.executable, more=more, rest=rest)


@pytest.fixture(scope="session")
def client() -> Any:
    return _tripont.Client({"prestart_worker": False, "cache": False, "num_devices": 2})


@pytest.fixture(scope="session")
def device(client: Any) -> Any:
    return client.devices[0]


@pytest.fixture
def fake_python(tmp_path: Path) -> str:
    """An interpreter for the option `python` whose compiler obeys the program's bytes."""
    return write_script(tmp_path / "python", fake_worker())


@pytest.fixture
def make_client(fake_python: str, tmp_path: Path) -> Callable[..., Any]:
    """Clients that compile with the stand-in, without a cache unless asked."""

    def make(**options: Any) -> Any:
        defaults = {"python": fake_python, "cache": False, "cache_dir": str(tmp_path / "cache")}
        return _tripont.Client(defaults | {"prestart_worker": False} | options)

    return make


def status(call: Callable[[], Any]) -> tuple[str, str]:
    """Code and message of the error that `call` raises."""
    with pytest.raises(_tripont.StatusError) as caught:
        call()
    return caught.value.code, str(caught.value)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"
