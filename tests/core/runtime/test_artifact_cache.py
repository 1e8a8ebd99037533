"""The on-disk cache of artifacts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
from tripont.core import _tripont

from tests.core.runtime import programs
from tests.core.runtime.conftest import is_alive, status


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.bin"
    path.write_bytes(programs.serialize(programs.executable()))
    return b"artifact " + bytes(path)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def counters():
    return _tripont.cache_counters()


def entries(folder):
    return sorted(folder.glob("*.tripont"))


HEADER = 40  # bytes of an entry before the artifact: magic number, SHA-256


def entry_of(key: str, content: bytes) -> bytes:
    """What the cache would have written: whoever may write to the folder can do this too."""
    fields = b"".join(struct.pack("<Q", len(f)) + f for f in (key.encode(), content))
    return b"TPCACHE1" + hashlib.sha256(fields).digest() + content


def test_second_compile_is_a_hit(make_client, program, folder):
    client = make_client(cache=True)
    assert client.cache_folder == str(folder)
    before = counters()
    first, from_cache = client.compile(program)
    assert not from_cache
    second, from_cache = client.compile(program)
    assert from_cache
    assert first == second
    after = counters()
    assert after["misses"] - before["misses"] == 1
    assert after["hits"] - before["hits"] == 1
    assert after["writes"] - before["writes"] == 1
    assert len(entries(folder)) == 1
    assert [p for p in folder.iterdir() if p.suffix == ".tmp"] == []


def test_everything_that_matters_is_in_the_key(make_client, program, folder):
    client = make_client(cache=True)
    client.compile(program)
    variations = [
        lambda: client.compile(program + b" "[:0], format="hlo"),
        lambda: client.compile(program, compile_options=b"1"),
        lambda: client.compile(program, options={"a": 1}),
        lambda: client.compile(program, options={"a": 2}),
        lambda: make_client(cache=True, compiler_fingerprint="other").compile(program),
        lambda: make_client(cache=True, b=3).compile(program),
    ]
    for i, variation in enumerate(variations):
        assert variation()[1] is False
        assert len(entries(folder)) == i + 2


def test_errors_are_not_stored(make_client, folder):
    client = make_client(cache=True)
    for _ in range(2):
        assert status(lambda: client.compile(b"refuse ABORTED"))[0] == "ABORTED"
    assert status(lambda: client.compile(b"echo garbage"))[0] == "INTERNAL"
    assert entries(folder) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b[:-1],
        lambda b: b[:100],
        lambda b: b[:-9] + b"x" + b[-8:],
        lambda b: b"junk" * 99,
    ],
    ids=["empty", "cut", "short", "changed", "junk"],
)
def test_damaged_entry_is_compiled_again_and_replaced(make_client, program, folder, damage, capfd):
    client = make_client(cache=True)
    good, _ = client.compile(program)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    assert whole == entry_of(entry.stem, good)
    entry.write_bytes(damage(whole))
    before = counters()
    again, from_cache = client.compile(program)
    assert again == good
    assert not from_cache
    assert counters()["corrupted"] - before["corrupted"] == 1
    assert entry.read_bytes() == whole
    assert "is damaged" in capfd.readouterr().err
    assert client.compile(program)[1]


def test_another_format_version_is_compiled_again(make_client, program, folder):
    client = make_client(cache=True)
    good, _ = client.compile(program)
    (entry,) = entries(folder)
    entry.write_bytes(entry_of(entry.stem, good[:8] + b"\x63" + good[9:]))
    assert client.compile(program) == (good, False)


def test_off(make_client, program, folder):
    client = make_client(cache=False)
    assert client.compile(program)[1] is False
    assert client.compile(program)[1] is False
    assert not folder.exists()


def test_dumping_goes_past_the_cache(make_client, program, folder):
    make_client(cache=True).compile(program)
    assert make_client(cache=True, dump_to="/tmp/x").compile(program)[1] is False


def test_folder_that_cannot_be_made(make_client, program, tmp_path, capfd):
    (tmp_path / "file").write_text("")
    client = make_client(cache=True, cache_dir=str(tmp_path / "file" / "cache"))
    for _ in range(3):
        assert client.compile(program)[1] is False
    assert capfd.readouterr().err.count("cache folder") == 1  # said once


def test_read_only_folder(make_client, program, folder, capfd):
    """/proc/self is a folder that nobody can write to, root included."""
    folder.mkdir()
    folder.chmod(0o500)
    for read_only in ["/proc/self"] + ([str(folder)] if os.geteuid() != 0 else []):
        client = make_client(cache=True, cache_dir=read_only)
        assert [client.compile(program)[1] for _ in range(2)] == [False, False]
        assert capfd.readouterr().err.count("cannot write to the cache folder") == 1


def test_full_disk(make_client, program, capfd):
    """/dev/full is not a folder; a file size limit of the process has the same effect as a full disk."""
    script = (
        "import resource, signal, sys\n"
        "from tripont.core import _tripont\n"
        "client = _tripont.Client({'python': sys.argv[1], 'cache_dir': sys.argv[2], 'prestart_worker': False})\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "data, hit = client.compile(sys.argv[3].encode())\n"
        "print(len(data) > 1000, hit, client.compile(sys.argv[3].encode())[1])\n"
    )
    folder = os.path.join(os.path.dirname(program.split(b" ")[1].decode()), "full")
    python = os.path.join(os.path.dirname(folder), "python")
    process = subprocess.run(
        [sys.executable, "-c", script, python, folder, program.decode()],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert process.stdout.split() == ["True", "False", "False"], process.stderr
    assert process.stderr.count("cannot write to the cache folder") == 1
    assert os.listdir(folder) == ["compiling"]  # which is empty (TakeTurn)


def test_size_limit_removes_what_was_used_longest_ago(make_client, program, folder):
    size = HEADER + len(programs.serialize(programs.executable()))
    client = make_client(cache=True, cache_size=size * 5 + 100)
    for i in range(5):
        client.compile(program, options={"i": i})
    assert len(entries(folder)) == 5
    for position, i in enumerate((1, 2, 3, 4, 0)):  # 1 becomes the oldest, 0 the newest
        key = {p: p.stat().st_mtime for p in entries(folder)}
        assert client.compile(program, options={"i": i})[1]
        touched = [p for p in entries(folder) if p.stat().st_mtime != key[p]]
        for path in touched:
            os.utime(path, (1_000_000 + position, 1_000_000 + position))
    client.compile(program, options={"i": 5})
    assert sum(p.stat().st_size for p in entries(folder)) <= size * 5 + 100
    assert client.compile(program, options={"i": 0})[1]
    assert not client.compile(program, options={"i": 1})[1]


def test_size_limit_is_that_of_the_folder(make_client, program, folder, fake_python):
    """Several processes write to it, none of which writes as much as the limit."""
    script = (
        "import sys\n"
        "from tripont.core import _tripont\n"
        "client = _tripont.Client({'python': sys.argv[1], 'cache_dir': sys.argv[2], 'prestart_worker': False,\n"
        "                          'cache_size': int(sys.argv[5])})\n"
        "for i in range(4):\n"
        "    client.compile(sys.argv[3].encode(), options={'i': sys.argv[4] + str(i)})\n"
    )
    size = HEADER + len(programs.serialize(programs.executable()))
    limit = 6 * size
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, fake_python, str(folder), program.decode(), name, str(limit)]
        )
        for name in "abc"
    ]  # fmt: skip
    assert [p.wait(timeout=60) for p in processes] == [0, 0, 0]
    assert 0 < sum(p.stat().st_size for p in entries(folder)) <= limit
    # A count that is lost, or is not a number, is made anew.
    for content in (None, b"", b"many", b"-5"):
        (folder / "bytes").unlink()
        if content is not None:
            (folder / "bytes").write_bytes(content)
        client = make_client(cache=True, cache_size=limit)
        for i in range(3):
            client.compile(program, options={"i": f"{content}{i}"})
        assert 0 < sum(p.stat().st_size for p in entries(folder)) <= limit


def test_entry_larger_than_the_limit_is_not_stored(make_client, program, folder):
    client = make_client(cache=True, cache_size=100)
    assert client.compile(program)[1] is False
    assert client.compile(program)[1] is False
    assert entries(folder) == []


def test_clear(make_client, program, folder):
    client = make_client(cache=True)
    client.compile(program)
    assert client.clear_cache() == 1
    assert entries(folder) == []
    assert client.compile(program)[1] is False


ONE_COMPILE = """
import sys
from tripont.core import _tripont
python, folder, program, expected = sys.argv[1:]
client = _tripont.Client({"python": python, "cache_dir": folder, "prestart_worker": False})
print("asks", flush=True)
artifact, from_cache = client.compile(b"artifact " + program.encode())
assert artifact == open(expected, "rb").read()
print("cache" if from_cache else "compiled")
"""


def children(process):
    found = []
    for file in Path(f"/proc/{process.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found


@pytest.fixture
def ask(program, folder, fake_python, tmp_path):
    """Start processes whose compile workers wait until the named pipe is written; they are asking by now."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    started = []

    def start(count, before=""):
        path = program.split(b" ", 1)[1].decode()
        command = [
            sys.executable,
            "-c",
            before + ONE_COMPILE,
            fake_python,
            str(folder),
            str(pipe),
            path,
        ]
        new = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        started.extend(new)
        assert [process.stdout.readline() for process in new] == ["asks\n"] * count
        # The worker of a process that did not wait for its turn would open the pipe meanwhile.
        time.sleep(0.5)
        return new

    yield start, pipe
    for process in started:
        for pid in children(process):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()


def test_processes_take_turns_to_compile_a_program(program, ask):
    """The pipe is written once: a second worker would read nothing, or wait."""
    start, pipe = ask
    processes = start(3)
    pipe.write_bytes(Path(program.split(b" ", 1)[1].decode()).read_bytes())
    answers = [process.communicate(timeout=60)[0] for process in processes]
    assert sorted(answers) == ["cache\n", "cache\n", "compiled\n"]


def test_the_turn_of_a_process_that_is_killed(program, ask):
    start, pipe = ask
    [first] = start(1)
    [second] = start(1)
    while not children(first):
        time.sleep(0.01)
    [worker] = children(first)  # in a session of its own
    first.kill()
    os.kill(worker, signal.SIGKILL)
    while is_alive(worker):  # it would take what is written
        time.sleep(0.01)
    pipe.write_bytes(Path(program.split(b" ", 1)[1].decode()).read_bytes())
    assert second.communicate(timeout=60)[0] == "compiled\n"


INTERRUPTED_ELSEWHERE = """
import signal, threading
threading.Timer(2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)).start()
"""


@pytest.mark.parametrize("interrupts", [True, False])
def test_ctrl_c_ends_the_wait_for_a_turn(program, ask, interrupts):
    """Also where the signal comes between two pauses: as one that another thread takes, it interrupts neither."""
    start, pipe = ask
    [first] = start(1)
    [second] = start(1, "" if interrupts else INTERRUPTED_ELSEWHERE)
    if interrupts:
        second.send_signal(signal.SIGINT)
    second.communicate(timeout=30)  # the first one still has the turn
    assert second.returncode == -signal.SIGINT
    assert first.poll() is None
    pipe.write_bytes(Path(program.split(b" ", 1)[1].decode()).read_bytes())
    assert first.communicate(timeout=60)[0] == "compiled\n"


def test_many_threads_and_processes(make_client, program, folder, fake_python):
    """Readers and writers of the same entries, while somebody damages entries: always the right bytes."""
    script = (
        "import sys\n"
        "from tripont.core import _tripont\n"
        "client = _tripont.Client({'python': sys.argv[1], 'cache_dir': sys.argv[2], 'prestart_worker': False})\n"
        "expected = open(sys.argv[3], 'rb').read()\n"
        "for i in range(40):\n"
        "    assert client.compile(b'artifact ' + sys.argv[3].encode(), options={'i': i % 4})[0] == expected\n"
        "print('fine')\n"
    )
    path = program.split(b" ", 1)[1].decode()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, fake_python, str(folder), path],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    stop = threading.Event()

    def damage():
        while not stop.wait(0.02):
            for entry in entries(folder):
                with contextlib.suppress(OSError):
                    entry.write_bytes(b"damage")

    thread = threading.Thread(target=damage)
    thread.start()
    outputs = [process.communicate(timeout=60) for process in processes]
    stop.set()
    thread.join()
    assert [output for output, _ in outputs] == ["fine\n"] * 3, outputs


# ------------------------------------------------------------------------------------------------------- trust


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o7777


def test_nobody_else_can_write_or_read_it(make_client, program, tmp_path, no_umask):
    folder = tmp_path / "new" / "cache"
    make_client(cache=True, cache_dir=str(folder)).compile(program)
    assert mode(tmp_path / "new") == mode(folder) == 0o700
    assert {mode(p) for p in folder.iterdir()} == {0o600}


def _foreign(entry):
    os.chown(entry, 65534, -1)


def _symlink(entry):
    target = entry.with_name("elsewhere")
    entry.rename(target)
    entry.symlink_to(target)


def _fifo(entry):
    entry.unlink()
    os.mkfifo(entry)


def _huge(entry):
    os.truncate(entry, 3 << 40)  # sparse


_REASONS = {
    "writable": (lambda entry: entry.chmod(0o666), "others may write to it (mode 0666)"),
    "group": (lambda entry: entry.chmod(0o660), "others may write to it (mode 0660)"),
    "foreign": (_foreign, "it belongs to user 65534"),
    "symlink": (_symlink, "it is a symbolic link"),
    "fifo": (_fifo, "it is not a regular file"),
    "huge": (_huge, "it is damaged"),
}


@pytest.mark.parametrize("reason", _REASONS)
def test_entry_that_is_not_trusted_is_removed(make_client, program, folder, reason, capfd):
    if reason == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    client = make_client(cache=True)
    good, _ = client.compile(program)
    (entry,) = entries(folder)
    change, said = _REASONS[reason]
    change(entry)
    assert client.compile(program) == (good, False)
    assert said in capfd.readouterr().err
    assert not entry.is_symlink()
    assert mode(entry) == 0o600
    assert client.compile(program) == (good, True)


def test_entry_answers_for_its_own_key_only(make_client, program, folder, capfd):
    client = make_client(cache=True)
    client.compile(program, options={"i": 1})
    (first,) = entries(folder)
    client.compile(program, options={"i": 2})
    (second,) = set(entries(folder)) - {first}
    second.write_bytes(first.read_bytes())
    assert client.compile(program, options={"i": 2})[1] is False
    assert "digest" in capfd.readouterr().err


def test_entry_that_cannot_be_loaded_is_compiled_again(make_client, program, folder, capfd):
    """One that is whole, but that this version, or this machine, does not take."""
    client = make_client(cache=True)
    good, _ = client.compile(program)
    (entry,) = entries(folder)
    bad = good[:24] + struct.pack("<I", 200) + good[28:]
    bad = bad[:12] + struct.pack("<I", zlib.crc32(bad[24:])) + bad[16:]
    entry.write_bytes(entry_of(entry.stem, bad))
    assert client.compile(program) == (good, False)
    assert "200 sections do not fit" in capfd.readouterr().err
    assert client.compile(program) == (good, True)


def test_folder_that_others_may_write_to(make_client, program, folder, capfd):
    folder.mkdir()
    folder.chmod(0o777)
    client = make_client(cache=True)
    assert [client.compile(program)[1] for _ in range(3)] == [False] * 3
    assert list(folder.iterdir()) == []
    said = capfd.readouterr().err
    assert said.count("is not trusted: others may write to it (mode 0777)") == 1  # said once
    assert "TRIPONT_CACHE_SHARED" in said
    # The user may say that it is shared on purpose.
    client = make_client(cache=True, cache_shared=True)
    assert [client.compile(program)[1] for _ in range(2)] == [False, True]
    (entry,) = entries(folder)
    entry.chmod(0o666)
    assert client.compile(program)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_folder_of_somebody_else(make_client, program, folder, capfd):
    folder.mkdir(mode=0o755)
    os.chown(folder, 65534, -1)
    client = make_client(cache=True)
    assert [client.compile(program)[1] for _ in range(2)] == [False] * 2
    assert "it belongs to user 65534" in capfd.readouterr().err


def test_default_folder_is_made_private(make_client, program, tmp_path, monkeypatch):
    """Versions before made it with the user's mask, which often lets a group write."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    folder = tmp_path / "xdg" / "tripont"
    folder.mkdir(parents=True)
    folder.chmod(0o775)
    client = make_client(cache=True, cache_dir="")
    assert client.cache_folder == str(folder)
    assert [client.compile(program)[1] for _ in range(2)] == [False, True]
    assert mode(folder) == 0o700
