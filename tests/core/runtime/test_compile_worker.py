"""The compile workers: errors, death, start-up failures, concurrency, exit and fork."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tripont.core import _tripont

from tests.core.runtime import programs
from tests.core.runtime.conftest import fake_worker, is_alive, status, write_script
from tripont import fingerprint


def compile_status(client, program: bytes, **options):
    return status(lambda: client.compile(program, **options))


@pytest.fixture
def artifact_file(tmp_path):
    path = tmp_path / "program.tripont"
    path.write_bytes(programs.serialize(programs.executable()))
    return path


def test_artifact_comes_back(make_client, artifact_file):
    data, from_cache = make_client().compile(b"artifact " + bytes(artifact_file))
    assert data == artifact_file.read_bytes()
    assert not from_cache


def test_everything_arrives(make_client):
    client = make_client(fast_math="yes", dump_to="/tmp/d")
    code, message = compile_status(
        client, b"options", format="hlo", compile_options=b"\x00\xff", options={"level": 3, "x": ""}
    )
    assert code == "NOT_FOUND"
    for part in (
        "'hlo'",
        r"b'\x00\xff'",
        "('dump_to', '/tmp/d')",
        "('fast_math', 'yes')",
        "('level', '3')",
        "('x', '')",
    ):
        assert part in message


def test_large_program(make_client):
    assert compile_status(make_client(), b"refuse NOT_FOUND" + b" " * (8 << 20))[0] == "INTERNAL"
    assert compile_status(make_client(), b"refuse UNIMPLEMENTED") == (
        "UNIMPLEMENTED",
        "UNIMPLEMENTED: refused on request",
    )


def test_bug_in_the_compiler_is_an_error_that_names_the_line(make_client):
    code, message = compile_status(make_client(), b"bug")
    assert code == "INTERNAL"
    assert "IndexError" in message
    assert "compile_program" in message


def test_bad_artifact_is_an_error(make_client):
    code, message = compile_status(make_client(), b"echo garbage")
    assert code == "INTERNAL"
    assert "bad artifact" in message


def test_output_of_the_compiler_does_not_break_the_protocol(make_client, capfd):
    client = make_client()
    assert compile_status(client, b"print")[0] == "INTERNAL"  # an empty artifact
    assert "said by the compiler" in capfd.readouterr().err


def test_a_question_that_nobody_can_answer_ends_the_worker(make_client, tmp_path):
    client = make_client(python=write_script(tmp_path / "asks", fake_worker(imports=True)))
    first = compile_status(client, b"pid")[1]
    code, message = compile_status(client, b"ask a_partitioner_that_nobody_registered")
    assert code == "INTERNAL"
    assert "asked something else" in message
    second = compile_status(client, b"pid")
    assert second[0] == "NOT_FOUND"
    assert second[1] != first


@pytest.mark.parametrize(
    ("program", "expected"),
    [(b"signal 9", "signal 9"), (b"signal 6", "signal 6"), (b"exit 3", "exit code 3")],
)
def test_death_is_an_error_and_the_next_compile_works(make_client, program, expected):
    client = make_client()
    first = compile_status(client, b"pid")[1]
    code, message = compile_status(client, program)
    assert code == "INTERNAL"
    assert expected in message
    second = compile_status(client, b"pid")
    assert second[0] == "NOT_FOUND"
    assert second[1] != first


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A program that names it (``b"artifact " + bytes(pipe)``) is compiled until somebody has written it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_killed_from_outside_in_the_middle(make_client, pipe):
    client = make_client()
    pid = int(compile_status(client, b"pid")[1].rsplit(" ", 1)[1])

    def kill():
        with pipe.open("wb"):  # the worker has opened it too
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    code, message = compile_status(client, b"artifact " + bytes(pipe))
    thread.join()
    assert code == "INTERNAL"
    assert "signal 9" in message
    assert not is_alive(pid)


def test_killed_while_idle_is_no_error(make_client):
    client = make_client()
    pid = int(compile_status(client, b"pid")[1].rsplit(" ", 1)[1])
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.01)
    assert compile_status(client, b"pid")[0] == "NOT_FOUND"


def test_killed_before_it_reads_the_request_is_no_error(make_client):
    client = make_client()
    pid = int(compile_status(client, b"pid")[1].rsplit(" ", 1)[1])
    os.kill(pid, signal.SIGSTOP)  # alive for whoever looks, and deaf
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    code, message = compile_status(client, b"pid")
    assert code == "NOT_FOUND"
    assert int(message.rsplit(" ", 1)[1]) != pid


def test_worker_is_kept(make_client):
    client = make_client()
    assert compile_status(client, b"pid") == compile_status(client, b"pid")


def test_two_compiles_at_the_same_time(make_client, pipe):
    client = make_client()
    compile_status(client, b"pid")
    seen = []
    program = b"artifact " + bytes(pipe)
    threads = [
        threading.Thread(target=lambda: seen.append(compile_status(client, program)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    while len(_tripont.worker_processes()) < 2:
        time.sleep(0.01)
    while len(seen) < 2:  # each lets go whoever waits for it
        with contextlib.suppress(OSError):  # nobody does
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        time.sleep(0.01)
    for thread in threads:
        thread.join(30)
    assert len(seen) == 2
    assert _tripont.worker_counters()["alive"] == 2


def test_more_threads_than_workers(make_client):
    client = make_client()
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(compile_status(client, b"refuse ABORTED")[0]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == ["ABORTED"] * 8


def test_interpreter_that_does_not_exist(make_client):
    code, message = compile_status(make_client(python="/no/such/python"), b"pid")
    assert code == "NOT_FOUND"
    assert "/no/such/python" in message
    code, message = compile_status(make_client(python="no-such-python-here"), b"pid")
    assert code == "NOT_FOUND"
    assert "TRIPONT_PYTHON" in message


def test_interpreter_without_tripont(make_client, tmp_path):
    python = write_script(tmp_path / "bare", f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    code, message = compile_status(make_client(python=python), b"pid")
    assert code == "UNAVAILABLE"
    assert "tripont" in message
    assert "No module named" in message or "ModuleNotFoundError" in message
    assert "exit code 1" in message


def test_interpreter_that_says_something_else(make_client, tmp_path):
    python = write_script(tmp_path / "odd", "#!/bin/sh\necho hello >&3\nexec sleep 5 3>&-\n")
    assert compile_status(make_client(python=python), b"pid")[0] == "UNAVAILABLE"


DAMAGED = """
def damaged(connection, message, send=worker.send):
    if not isinstance(message, worker.Response):
        return send(connection, message)
    connection.sendall(worker.FRAME.pack(message.NUMBER, 1 << 40))
    os._exit(0)
worker.send = damaged
"""


def test_a_size_beyond_the_memory_is_an_error(make_client, tmp_path):
    """Where the kernel gives out any amount of memory, there is none of the message's bytes."""
    client = make_client(python=write_script(tmp_path / "damaged", fake_worker(DAMAGED)))
    for _ in range(2):  # each with a worker of its own
        code, message = compile_status(client, b"pid")
        assert code in ("RESOURCE_EXHAUSTED", "INTERNAL")
        assert "message of 1099511627776 bytes" in message or "while it compiled" in message


def test_another_version_is_refused(make_client, tmp_path):
    python = write_script(tmp_path / "old", fake_worker("worker.version = '0.0.7'"))
    code, message = compile_status(make_client(python=python), b"pid")
    assert code == "UNAVAILABLE"
    assert "tripont 0.0.7" in message
    assert f"tripont {_tripont.version()}" in message
    assert "restart the process" in message


OTHERS = {
    "sources": "import tripont.fingerprint as f; f.compiler_sources = lambda: 'edited'",
    "packages": "worker.packages = lambda: 'jaxlib-0.0.1'",
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_another_compiler_made_is_not_kept(make_client, artifact_file, tmp_path, other):
    python = write_script(tmp_path / "other", fake_worker(OTHERS[other], imports=True))
    program = b"artifact " + bytes(artifact_file)
    for _ in range(2):
        client = make_client(python=python, cache=True)
        data, from_cache = client.compile(program)
        assert data == artifact_file.read_bytes()
        assert not from_cache
    assert not list((tmp_path / "cache").glob("*.tripont"))
    own = make_client(cache=True)
    assert [own.compile(program)[1] for _ in range(2)] == [False, True]


def test_tables_of_the_compiler_are_part_of_it(tmp_path, monkeypatch):
    """cpus.txt decides what is made as the code does. That the runtime's digest is the same, the test above shows."""
    host = tmp_path / "core" / "compiler" / "targets" / "host"
    host.mkdir(parents=True)
    (host / "cpu.py").write_text("code = 1")
    table = host / "cpus.txt"
    monkeypatch.setattr(fingerprint, "package_path", [str(tmp_path)])
    for digest in (fingerprint.compiler_sources, fingerprint.compiler_fingerprint):
        table.write_text("znver9 avx2")
        before = digest()
        table.write_text("znver9 avx2 fma")
        assert digest() != before
        (host / "notes.orig").write_text("ignored")
        after = digest()
        (host / "notes.orig").write_text("ignored too")
        assert digest() == after


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("sources", "its source files are others"),
        ("packages", "built on jaxlib-0.0.1, not jaxlib-"),
    ],
)
def test_that_nothing_is_kept_is_said_once(tmp_path, subprocess_environment, other, reason):
    python = write_script(tmp_path / "other", fake_worker(OTHERS[other], imports=True))
    code = """
import sys
from tripont.core import _tripont
for _ in range(2):
    client = _tripont.Client({"python": sys.argv[1], "prestart_worker": False})
    for program in (b"pid", b"exit 0", b"pid"):
        try:
            client.compile(program)
        except _tripont.StatusError:
            pass
"""
    done = subprocess.run(
        [sys.executable, "-c", code, python],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("its programs are not kept in the cache") == 1
    assert f"({reason}" in done.stderr


def test_library_inside_a_worker_compiles_nothing(make_client, monkeypatch):
    monkeypatch.setenv("TRIPONT_IN_WORKER", str(os.getppid()))
    assert compile_status(make_client(), b"pid")[0] == "FAILED_PRECONDITION"


@pytest.mark.parametrize("value", ["1", "", "yes"])
def test_a_variable_left_in_the_environment_is_no_worker(make_client, monkeypatch, value):
    monkeypatch.setenv("TRIPONT_IN_WORKER", value)
    assert compile_status(make_client(), b"pid")[0] == "NOT_FOUND"


_PREFIX = """
import os, sys, threading, time
from tripont.core import _tripont
client = _tripont.Client({"python": sys.argv[1], "cache": False, "prestart_worker": False})
def pid():
    try:
        client.compile(b"pid")
    except _tripont.StatusError as error:
        return int(str(error).rsplit(" ", 1)[1])
"""


def run_script(fake_python, script, timeout=30):
    return subprocess.run(
        [sys.executable, "-c", _PREFIX + script, fake_python],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def wait_for_the_end(pid: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} does not end"
        time.sleep(0.02)


@pytest.mark.parametrize("leave", ["sys.exit(5)", "os._exit(5)"])
def test_exit_in_the_middle_of_a_compile(fake_python, leave):
    process = run_script(
        fake_python,
        f"""
print(pid(), flush=True)
threading.Thread(target=lambda: client.compile(b"sleep 60"), daemon=True).start()
time.sleep(0.3)
{leave}
""",
        timeout=50,  # the compile takes longer
    )
    assert process.returncode == 5, process.stderr
    wait_for_the_end(int(process.stdout), 50)


def test_worker_ends_when_the_process_is_killed(fake_python):
    process = run_script(fake_python, "print(pid(), flush=True); os.kill(os.getpid(), 9)")
    assert process.returncode == -9
    wait_for_the_end(int(process.stdout), 200)


def test_no_descriptors_leak_into_the_worker_or_stay_open(fake_python, tmp_path):
    process = run_script(
        fake_python,
        """
before = None
for i in range(5):
    try:
        client.compile(b"exit 1")
    except _tripont.StatusError:
        pass
    count = len(os.listdir("/proc/self/fd"))
    before = before or count
print(count - before)
held = os.open("/dev/null", os.O_RDONLY)
os.dup2(held, 77)
os.set_inheritable(77, True)
print(sorted(int(fd) for fd in os.listdir(f"/proc/{pid()}/fd")))
""",
    )
    difference, descriptors = process.stdout.splitlines()
    assert int(difference) == 0
    assert max(eval(descriptors)) < 16
    assert 77 not in eval(descriptors)


def test_a_worker_that_is_wanted_does_not_wait(tmp_path: Path) -> None:
    """A worker that is started early puts its imports off: this one for ever, unless it is told."""
    patient = write_script(
        tmp_path / "python",
        f"""#!{sys.executable}
import os, sys
place = sys.argv.index("-c") + 1
patient = sys.argv[place].replace("poll(500)", "poll(10**9)")
assert patient != sys.argv[place]
os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:place], patient, *sys.argv[place + 1:]])
""",
    )
    process = run_script(
        patient,
        """
client = _tripont.Client({"python": sys.argv[1], "cache": False})
(worker,) = _tripont.worker_processes()
artifact = client.compile(b"func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }", "mlir")
print(len(artifact) > 0, _tripont.worker_processes() == [worker])
""",
    )
    assert process.stdout.split() == ["True", "True"], process.stderr


def test_prestart(fake_python):
    process = run_script(
        fake_python,
        """
early = _tripont.Client({"python": sys.argv[1], "cache": False})
print(_tripont.worker_counters()["started"], _tripont.worker_processes() == [pid()])
""",
    )
    assert process.stdout.split() == ["1", "True"], process.stderr


def test_a_worker_collects_garbage_once_it_is_ready_and_has_one_thread_of_blas(
    tmp_path, monkeypatch
):
    """Imports run without the collector, which would look at everything that stays, again and again."""
    told = tmp_path / "told"
    more = f"""
import gc
gc.disable()
end = module.compile_program
def compile_program(*arguments):
    open({str(told)!r}, "w").write(f"{{gc.isenabled()}} {{os.environ['OPENBLAS_NUM_THREADS']}}")
    return end(*arguments)
module.compile_program = compile_program
"""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    python = write_script(tmp_path / "python", fake_worker(more))
    client = _tripont.Client({"python": python, "cache": False, "prestart_worker": False})
    assert status(lambda: client.compile(b"refuse NOT_FOUND"))[0] == "NOT_FOUND"
    assert told.read_text() == "True 1"
