"""Compile workers and what comes from outside: signals, Ctrl-C, time limits, closed descriptors, exhausted memory.

Each in a process of its own, whose signals and limits are its own.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.runtime.conftest import fake_worker, write_script

PREFIX = """
import os, resource, signal, sys, threading, time
from tripont.core import _tripont

def make(**options):
    return _tripont.Client({"python": sys.argv[1], "cache": False, "prestart_worker": False} | options)

def message(client, program):
    try:
        client.compile(program)
    except _tripont.StatusError as error:
        return str(error)

def pid(client):
    return int(message(client, b"pid").rsplit(" ", 1)[1])

def later(seconds, *arguments):
    threading.Timer(seconds, os.kill, arguments).start()
"""

Run = Callable[..., str]


@pytest.fixture
def run(fake_python: str, subprocess_environment: dict[str, str]) -> Run:
    """Runs a script with the stand-in for the compiler, and returns what it printed."""

    def run_script(script: str, python: str = fake_python) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PREFIX + script, python],
            env=subprocess_environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_script


def test_the_worker_ignores_what_the_program_ignores(run: Run) -> None:
    """nohup ignores SIGHUP for a program and for what it starts."""
    output = run("""
signal.signal(signal.SIGHUP, signal.SIG_IGN)
client = make()
worker = pid(client)
later(0.3, worker, signal.SIGHUP)
print(message(client, b"sleep 1"))
print(pid(client) == worker)
""")
    assert "bad artifact" in output  # the stand-in's answer: it lived
    assert "True" in output


def test_the_worker_can_wait_for_children_where_the_program_ignores_them(run: Run) -> None:
    assert "bad artifact" in run("""
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(message(make(), b"child"))
""")


def test_a_terminals_signals_do_not_reach_the_worker(run: Run) -> None:
    assert run("""
client = make()
worker = pid(client)
print(os.getpgid(worker) == worker != os.getpgid(0))
""").split() == ["True"]


@pytest.mark.parametrize("delay", [0, 0.02, 0.06, 0.12])
def test_sigint_while_the_worker_starts(run: Run, delay: float) -> None:
    """A notebook's stop button, or Ctrl-C right after the start."""
    output = run(f"""
client = make(prestart_worker=True)
(worker,) = _tripont.worker_processes()
time.sleep({delay})
os.kill(worker, signal.SIGINT)
print(pid(client) == worker)
""")
    assert output.split() == ["True"]


def test_killed_while_it_starts_is_tried_again(run: Run) -> None:
    output = run("""
client = make(prestart_worker=True)
(worker,) = _tripont.worker_processes()
os.kill(worker, signal.SIGKILL)
print(pid(client) not in (worker, None))
""")
    assert output.split() == ["True"]


# Whether this worker is to die, one of the first {deaths}, and how it does.
DEATHS = """
def claims_a_death():
    for number in range({deaths}):
        try:
            os.close(os.open({marks!r} + str(number), os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            pass
    return False
dies = claims_a_death()
def die():
    os.kill(os.getpid(), {signal})
    time.sleep(10)
"""
# The moments of a worker's start, and the lines with which it dies there.
MOMENTS = {
    "before its first message": "if dies: die()",
    "within its first message": """
def send(connection, message):
    connection.sendall(worker.FRAME.pack(message.NUMBER, 100)[:5])
    die()
if dies: worker.send = send
""",
    "after its first message": "if dies: worker.serve = lambda *_: die()",
    "within the program": """
def receive_fields(connection, expected):
    worker.receive(connection, 1000)
    die()
if dies: worker.receive_fields = receive_fields
""",
}


def dying(folder: Path, moment: str, deaths: int, signal_number: int = signal.SIGKILL) -> str:
    """An interpreter whose first workers die at that moment of their start."""
    marks = str(folder / "death")
    lines = DEATHS.format(marks=marks, deaths=deaths, signal=int(signal_number))
    return write_script(folder / "dying", fake_worker(lines + MOMENTS[moment]))


# With a program that the socket does not hold.
COMPILE_LARGE = (
    'print(message(make(), b"pid " + b" " * (8 << 20))); counters = _tripont.worker_counters()'
)


@pytest.mark.parametrize("moment", MOMENTS)
def test_four_workers_killed_at_a_moment_of_their_start_are_replaced(
    run: Run, tmp_path: Path, moment: str
) -> None:
    output = run(COMPILE_LARGE + '; print(counters["started"])', dying(tmp_path, moment, 4))
    assert output.startswith("NOT_FOUND"), output  # the stand-in's answer
    assert output.split()[-1] == "5"


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_worker_killed_at_a_moment_of_its_start_is_an_error(
    run: Run, tmp_path: Path, moment: str
) -> None:
    output = run(COMPILE_LARGE + '; print(counters["started"])', dying(tmp_path, moment, 100))
    assert output.startswith("UNAVAILABLE: 5 compile workers died one after another"), output
    assert "was killed by signal 9 (Killed)" in output
    assert "out-of-memory killer" in output
    assert output.split()[-1] == "5"


def test_every_worker_killed_before_it_is_python_is_an_error(run: Run, tmp_path: Path) -> None:
    python = write_script(tmp_path / "killed", "#!/bin/sh\nkill -9 $$\n")
    output = run('print(message(make(), b"pid"))', python)
    assert output.startswith("UNAVAILABLE: 5 compile workers died one after another"), output
    assert "signal 9" in output
    assert "must have tripont installed" not in output  # nothing of the kind is known


def test_a_crash_is_tried_once_more_and_the_error_says_what_to_run(
    run: Run, tmp_path: Path
) -> None:
    python = dying(tmp_path, "before its first message", 100, signal.SIGSEGV)
    output = run(COMPILE_LARGE + '; print(counters["started"])', python)
    assert output.startswith("UNAVAILABLE: 2 compile workers died one after another"), output
    assert "signal 11" in output
    assert f"`{python} -c 'import tripont.core.compiler.compile'`" in output
    assert output.split()[-1] == "2"


def test_the_time_limit_is_that_of_all_workers_together(run: Run, tmp_path: Path) -> None:
    """Each takes less than the limit and then dies."""
    lines = "time.sleep(1.5); os.kill(os.getpid(), signal.SIGKILL)"
    python = write_script(tmp_path / "slow", fake_worker(lines))
    output = run('print(message(make(compile_timeout=3), b"pid"))', python)
    assert output.startswith("DEADLINE_EXCEEDED: the program was not compiled within 3 s"), output
    assert "its worker was still starting" in output


def test_a_worker_that_does_not_become_ready(run: Run, tmp_path: Path) -> None:
    # Not an interpreter of Python, which may need two seconds on a busy machine before it says anything.
    script = "#!/bin/sh\necho reading a slow disk >&2\nexec sleep 50\n"
    python = write_script(tmp_path / "slow", script)
    output = run('print(message(make(worker_start_timeout=2), b"pid"))', python)
    assert output.startswith(f"DEADLINE_EXCEEDED: the compile worker ({python}, process "), output
    assert "was not ready within 2 s" in output
    assert "TRIPONT_WORKER_START_TIMEOUT" in output
    assert "reading a slow disk" in output


def test_the_limit_of_the_start_does_not_limit_compiles(run: Run) -> None:
    output = run("""
client = make(worker_start_timeout=20)
pid(client)
client = make(worker_start_timeout=1)
print(message(client, b"sleep 3"))
""")
    assert "bad artifact" in output


def test_ctrl_c_ends_the_pause_before_another_worker(run: Run, tmp_path: Path) -> None:
    python = dying(tmp_path, "before its first message", 100)
    output = run(
        """
client = make()
def started(count):
    while _tripont.worker_counters()["started"] < count:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=started, args=(4,), daemon=True).start()
try:
    client.compile(b"pid")
except KeyboardInterrupt:
    print("interrupted", _tripont.worker_counters()["started"])
""",
        python,
    )
    assert output.split() == ["interrupted", "4"]


def test_a_package_that_the_workers_python_lacks_is_named(run: Run, tmp_path: Path) -> None:
    python = write_script(tmp_path / "lacks", fake_worker("import no_such_package.part"))
    output = run('print(message(make(), b"pid"))', python)
    assert output.startswith("UNAVAILABLE"), output
    assert "exit code 1" in output
    assert "has no package no_such_package" in output
    assert f"`{python} -m pip install no_such_package`" in output


# A signal that another thread takes does not interrupt what the main thread waits in, as one that comes just before it.
TAKEN_BY = {
    "the main thread": "os.kill(os.getpid(), signal.SIGINT)",
    "another thread": "signal.pthread_kill(threading.get_ident(), signal.SIGINT)",
}
INTERRUPTED = """
start = time.monotonic()
try:
    threading.Timer(0.5, lambda: {}).start()
    client.compile(b"sleep 55")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 20)
"""


@pytest.mark.parametrize("taken_by", TAKEN_BY)
def test_ctrl_c_ends_a_compile(run: Run, taken_by: str) -> None:
    output = run(f"""
client = make()
worker = pid(client)
{INTERRUPTED.format(TAKEN_BY[taken_by])}
print(pid(client) not in (worker, None))
""")
    assert output.split() == ["interrupted", "True", "True"]


@pytest.mark.parametrize("taken_by", TAKEN_BY)
def test_ctrl_c_ends_the_wait_for_a_worker(run: Run, taken_by: str) -> None:
    output = run(f"""
client = make(max_workers=1)
pid(client)
threading.Thread(target=message, args=(client, b"sleep 55"), daemon=True).start()
time.sleep(0.5)
{INTERRUPTED.format(TAKEN_BY[taken_by])}
""")
    assert output.split() == ["interrupted", "True"]


def test_a_handler_that_does_not_raise_runs_and_the_compile_goes_on(run: Run) -> None:
    output = run("""
during = []
signal.signal(signal.SIGUSR1, lambda *_: during.append(time.monotonic()))
client = make()
worker = pid(client)
later(0.3, os.getpid(), signal.SIGUSR1)
text = message(client, b"sleep 2")
end = time.monotonic()
print("bad artifact" in text, len(during), end - during[0] > 0.5, pid(client) == worker)
""")
    assert output.split() == ["True", "1", "True", "True"]


@pytest.mark.parametrize("stopped", [False, True])
def test_time_limit(run: Run, stopped: bool) -> None:
    output = run(f"""
client = make()
worker = pid(client)
if {stopped}:
    os.kill(worker, signal.SIGSTOP)
# The same worker, which has started.
print(message(make(compile_timeout=2), b"sleep 55" + b" " * (8 << 20)))
print(pid(client) not in (worker, None))
""")
    assert output.startswith("DEADLINE_EXCEEDED: the program was not compiled within 2 s")
    assert "TRIPONT_COMPILE_TIMEOUT" in output
    assert output.split()[-1] == "True"


def test_idle_workers_end(run: Run) -> None:
    output = run("""
client = make(worker_idle_timeout=1)
worker = pid(client)
while _tripont.worker_counters()["alive"] or os.path.exists(f"/proc/{worker}"):
    time.sleep(0.05)
print(message(client, b"sleep 2").startswith("INTERNAL"))  # one that works is not idle
print(pid(client) not in (worker, None))
""")
    assert output.split() == ["True", "True"]


def test_exhausted_memory_leaves_no_worker_busy(run: Run) -> None:
    """The request of a large program cannot be allocated: the next compile must find a worker."""
    output = run("""
client = make(max_workers=1)
pid(client)
size = 96 << 20
program = b"x" * size
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + size + size // 2, hard))
try:
    client.compile(program)
except MemoryError:
    print("exhausted")
finally:
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print(pid(client) is not None)
""")
    assert output.split() == ["exhausted", "True"]


def test_closed_standard_streams_do_not_become_the_workers_socket(run: Run) -> None:
    output = run("""
kept = os.dup2(1, 100)
for descriptor in (0, 1, 2):
    os.close(descriptor)
client = make()
worker = pid(client)
for descriptor in (0, 1, 2):
    try:
        os.write(kept, os.readlink(f"/proc/self/fd/{descriptor}").encode() + b" ")
    except FileNotFoundError:
        pass
os.write(kept, str(pid(client) == worker).encode())
""")
    assert output == "True"


def test_the_end_of_the_program_ends_compiles_that_wait_for_a_worker(run: Run) -> None:
    output = run("""
client = make(max_workers=1)
pid(client)
messages = []
def compile():
    messages.append(message(client, b"sleep 50"))
threads = [threading.Thread(target=compile) for _ in range(3)]
for thread in threads:
    thread.start()
time.sleep(1)
start = time.monotonic()
_tripont.end_compiles()
for thread in threads:
    thread.join()
print(time.monotonic() - start < 20, sum("CANCELLED: the compile was ended" in text for text in messages))
print(pid(client) is not None)
""")
    assert output.split() == ["True", "2", "True"]


def test_writing_to_a_terminal_that_stops_background_groups(
    fake_python: str, subprocess_environment: dict[str, str], tmp_path: Path
) -> None:
    """`stty tostop`: the workers' group is not the one in the foreground."""
    output = tmp_path / "output"
    script = (
        PREFIX
        + """
import termios
attributes = termios.tcgetattr(2)
attributes[3] |= termios.TOSTOP
termios.tcsetattr(2, termios.TCSANOW, attributes)
client = make(compile_timeout=30)
pid(client)
text = message(client, b"print")
open(sys.argv[2], "w").write(text)
"""
    )
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-c", script, fake_python, str(output)]
        os.execve(sys.executable, command, subprocess_environment)
    said = b""
    try:
        while part := os.read(terminal, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, said
    assert b"said by the compiler" in said
    assert "bad artifact" in output.read_text()
