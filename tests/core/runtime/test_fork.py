"""fork() of a process that uses the runtime: the child works on its own, the parent is not disturbed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.core.runtime import programs

# The limits are for what hangs: in an emulator on a busy machine a worker has taken 23 s to start.
_PREFIX = """
import faulthandler, os, signal, sys, threading, time
faulthandler.dump_traceback_later(240, exit=True)
import numpy as np
from tripont.core import _tripont
client = _tripont.Client({"python": sys.argv[1], "cache": False, "prestart_worker": False, "num_devices": 2})
device = client.devices[0]
add = _tripont.Executable.load(open(sys.argv[2], "rb").read())
slow = _tripont.Executable.load(open(sys.argv[3], "rb").read())
wide = _tripont.Executable.load(open(sys.argv[4], "rb").read())
X = np.arange(8, dtype=np.float32)
WIDE = np.ones(1 << 20, np.float32)
def code(program):
    try:
        client.compile(program)
    except _tripont.StatusError as error:
        return error.code, str(error)
def in_child(function):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(180)
            function()
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid
def wait(pid):
    status = os.waitpid(pid, 0)[1]
    assert status == 0, status
"""

_SCENARIOS = {
    "run and compile in the child": """
parents = code(b"pid")[1]
wide.run(device, [WIDE])
def child():
    assert _tripont.testing.in_forked_child()
    assert add.run(device, [X, X])[0].tolist() == (2 * X).tolist()
    assert (wide.run(device, [WIDE])[0] == 2).all()
    mine = code(b"pid")
    assert mine[0] == "NOT_FOUND" and mine[1] != parents
    assert code(b"pid") == mine
wait(in_child(child))
assert code(b"pid")[1] == parents
assert (wide.run(device, [WIDE])[0] == 2).all()
""",
    "asynchronous work in the child": """
(y,) = slow.execute(device, [_tripont.Buffer.from_array(X, device)])
y.wait()
def child():
    gate = _tripont.testing.Event()
    (z,) = slow.execute(device, [_tripont.testing.pending_buffer(device, X, gate)])
    assert not z.is_ready
    gate.set_ready()
    assert z.numpy().tolist() == (X + 1).tolist()
wait(in_child(child))
""",
    "work that was pending": """
gate = _tripont.testing.Event()
(y,) = slow.execute(device, [_tripont.testing.pending_buffer(device, X, gate)])
(z,) = slow.execute(device, [y])
x = _tripont.Buffer.from_array(X, device)
def child():
    for pending in (z, y):
        try:
            pending.numpy()
            assert False, "no error"
        except _tripont.StatusError as error:
            assert "forked" in str(error), error
    assert add.run(device, [X, X])[0].tolist() == (2 * X).tolist()
    (w,) = slow.execute(device, [x])
    assert w.numpy().tolist() == (X + 1).tolist()
wait(in_child(child))
gate.set_ready()
assert z.numpy().tolist() == (X + 2).tolist()
""",
    "in the middle of a compile": """
result = []
thread = threading.Thread(target=lambda: result.append(code(b"sleep 1")))
thread.start()
time.sleep(0.5)
wait(in_child(lambda: code(b"pid")[0] == "NOT_FOUND" or 1 / 0))
thread.join()
assert result[0][0] == "INTERNAL" and "bad artifact" in result[0][1], result  # slept, then gave no artifact
""",
    "in the middle of what is computed once": """
once, begun = _tripont.testing.ComputedOnce(), threading.Event()
def slowly():
    begun.set()
    time.sleep(1)
    return "the parent's"
thread = threading.Thread(target=lambda: once.get(slowly))
thread.start()
begun.wait()
def child():
    assert once.get(lambda: "the child's") == once.get(slowly) == "the child's"
wait(in_child(child))
thread.join()
assert once.get(lambda: "late") == "the parent's"
""",
    "a child that lives on does not keep the worker alive": """
worker = int(code(b"pid")[1].rsplit(" ", 1)[1])
pid = in_child(lambda: time.sleep(15))
assert code(b"signal 9")[0] == "INTERNAL"
assert code(b"pid")[0] == "NOT_FOUND"
os.kill(pid, 9)
""",
    "many threads allocate": """
stop = []
def busy():
    while not stop:
        _tripont.Buffer.from_array(WIDE[:5000], device)
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(10):
    wait(in_child(lambda: [_tripont.Buffer.from_array(WIDE[:5000], device) for _ in range(50)]))
stop.append(1)
for thread in threads: thread.join()
""",
    "a grandchild": """
wait(in_child(lambda: wait(in_child(lambda: code(b"pid")[0] == "NOT_FOUND" or 1 / 0))))
""",
    "collectives in flight": """
def fly():
    flights = _tripont.testing.CollectivesInFlight()
    for meeting in range(3):
        flights.begin(meeting, 0.3)
    return flights
one, all, dropped = fly(), fly(), fly()
def child():
    for code, message in (one.wait(1), all.wait_all()):
        assert code == "FAILED_PRECONDITION" and f"process {os.getpid()} was forked" in message, message
    assert one.wait_all() == all.wait(2) == ("OK", "")  # they are forgotten
    global dropped
    del dropped
    assert slow.execute(device, [_tripont.Buffer.from_array(X, device)])[0].numpy().tolist() == (X + 1).tolist()
wait(in_child(child))
assert one.wait(1) == one.wait_all() == all.wait_all() == ("OK", "")
""",
    "subprocess": """
import subprocess
code(b"pid")
assert subprocess.run(["true"], preexec_fn=lambda: None).returncode == 0
assert code(b"pid")[0] == "NOT_FOUND"
""",
}


@pytest.mark.parametrize("name", _SCENARIOS)
def test_fork(name, fake_python, tmp_path):
    files = {
        "add": programs.executable(),
        "slow": programs.unary("slow_add_one", 8, cost_ns=1e9),
        "wide": programs.unary("add_one", 1 << 20, grain=4096, cost_ns=1e6),
    }
    paths = []
    for stem, program in files.items():
        path = tmp_path / f"{stem}.tripont"
        path.write_bytes(programs.serialize(program))
        paths.append(str(path))
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            _PREFIX + _SCENARIOS[name] + "\nprint('fine')\n",
            fake_python,
            *paths,
        ],
        capture_output=True,
        text=True,
        timeout=270,
        check=False,
    )
    assert process.stdout.endswith("fine\n"), process.stderr
    assert process.returncode == 0, process.stderr
