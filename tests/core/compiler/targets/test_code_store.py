"""Machine code on disk: found by other processes, trusted only if it is this user's and whole, kept to a size."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tripont.core.compiler.targets import code_store
from tripont.core.compiler.targets.code_store import SUFFIX, CodeStore

Make = Callable[..., CodeStore]


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path / "cache" / "code"


@pytest.fixture
def store(folder: Path) -> Iterator[Make]:
    """Stores in the folder, each as another process would have it."""
    made = []

    def make(compiler: str = "one", limit: int = 1 << 20, is_shared: bool = False) -> CodeStore:
        each = CodeStore(str(folder), compiler, limit, is_shared)
        each.refresh()
        made.append(each)
        return each

    yield make
    for each in made:
        each.close()


def write(store: CodeStore, **contents: bytes) -> None:
    for name, content in contents.items():
        store.put(key(name), content)
    store.flush()


def packs(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def test_others_find_what_one_has_written(store: Make, folder: Path) -> None:
    first, other = store(), store()
    assert first.find(key("a")) is None
    write(first, a=b"code of a", b=b"")
    other.refresh()
    assert other.find(key("a")) == b"code of a"
    assert other.find(key("b")) == b""
    assert other.find(key("c")) is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert packs(folder)[0].stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_without_code(store: Make, folder: Path) -> None:
    store().flush()
    assert not folder.exists()


def test_another_compiler_finds_nothing(store: Make) -> None:
    write(store("one"), a=b"1")
    assert store("two").find(key("a")) is None
    assert store("one").find(key("a")) == b"1"


def test_many_small_packs_become_one(store: Make, folder: Path) -> None:
    reader, writer = store(), store()
    for number in range(code_store.MANY):
        write(writer, **{f"n{number}": b"%d" % number})
        if number == 2:
            reader.refresh()
    assert len(packs(folder)) == 1
    # Who has opened the packs that are gone reads them until it looks again.
    assert reader.find(key("n1")) == b"1"
    reader.refresh()
    assert [reader.find(key(f"n{i}")) for i in range(code_store.MANY)] == [
        b"%d" % i for i in range(code_store.MANY)
    ]


def test_what_was_used_longest_ago_goes_first(store: Make, folder: Path) -> None:
    half = bytes(600)
    writer = store(limit=1500)
    write(writer, a=half)
    (first,) = packs(folder)
    os.utime(first, (time.time() - 9e4,) * 2)
    write(writer, b=half)
    (second,) = set(packs(folder)) - {first}
    os.utime(second, (time.time() - 8e4,) * 2)
    reader = store()
    assert reader.find(key("a")) == half  # which is of use, and newer than the second
    write(writer, c=half)
    left = store()
    assert left.find(key("a")) == half
    assert left.find(key("b")) is None
    assert left.find(key("c")) == half


def test_the_limit_is_kept_before_packs_are_put_together(store: Make, folder: Path) -> None:
    """One pack of all would be too large, and the only one."""
    writer = store(limit=4000)
    for number in range(code_store.MANY + 4):
        write(writer, **{f"n{number}": bytes(500)})
        assert 0 < sum(pack.stat().st_size for pack in packs(folder)) <= 4000 + 700


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ESTALE, errno.EIO])
def test_errors_of_the_moment_remove_nothing(
    store: Make, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write(store(), a=b"1")
    opened = os.open

    def failing(path: str, *arguments: object, **named: object) -> int:
        if str(path).endswith(SUFFIX):
            raise OSError(number, "not now")
        return opened(path, *arguments, **named)  # type: ignore[arg-type]

    def failing_read(*arguments: object) -> bytes:
        raise OSError(number, "not now")

    reader = store()
    with monkeypatch.context() as context:
        context.setattr(os, "open", failing)
        assert store().find(key("a")) is None
    with monkeypatch.context() as context:
        context.setattr(os, "pread", failing_read)
        assert reader.find(key("a")) is None
        assert store().find(key("a")) is None
    assert store().find(key("a")) == b"1"
    assert reader.find(key("a")) == b"1"


def test_a_folder_that_was_removed_is_made_again(store: Make, folder: Path) -> None:
    writer = store()
    write(writer, a=b"1")
    shutil.rmtree(folder)
    write(writer, b=b"2")
    assert store().find(key("b")) == b"2"


def test_nobody_reads_what_is_said(
    store: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store(), a=b"1")
    packs(folder)[0].write_bytes(b"junk")
    reader, unread = os.pipe()
    os.close(reader)
    with open(unread, "w") as closed:
        monkeypatch.setattr(sys, "stderr", closed)
        assert store().find(key("a")) is None
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            closed.close()


def test_more_than_the_limit_is_not_written(store: Make, folder: Path) -> None:
    write(store(limit=100), a=bytes(101))
    assert packs(folder) == []


def test_files_that_nobody_writes_any_more_are_removed(store: Make, folder: Path) -> None:
    writer = store()
    write(writer, a=b"1")
    left, current = (folder / f"{'0' * 16}-{number}{SUFFIX}.tmp" for number in range(2))
    of_others = folder / "notes.tmp", folder / f"x{SUFFIX}"
    for path in (left, current, *of_others):
        path.write_bytes(b"half of it")
    for path in (left, *of_others):
        os.utime(path, (time.time() - 7200,) * 2)
    write(writer, b=b"2")
    assert not left.exists()
    assert all(path.exists() for path in (current, *of_others))


@pytest.mark.parametrize("place", ["magic", "count", "table", "content", "cut", "empty"])
def test_a_damaged_pack_is_said_and_removed(
    store: Make, folder: Path, capfd: pytest.CaptureFixture[str], place: str
) -> None:
    write(store(), a=b"code of a")
    (pack,) = packs(folder)
    data = bytearray(pack.read_bytes())
    if place in ("cut", "empty"):
        data = data[: -1 if place == "cut" else 0]
    else:
        data[{"magic": 1, "count": 41, "table": 50, "content": -1}[place]] ^= 1
    pack.write_bytes(data)
    assert store().find(key("a")) is None
    assert packs(folder) == []
    said = capfd.readouterr().err
    assert str(pack) in said
    assert "damaged" in said


def test_content_of_another_key_is_not_taken(store: Make, folder: Path) -> None:
    write(store(), a=b"code of a")
    (pack,) = packs(folder)
    data = pack.read_bytes()
    table = data[44:124].replace(key("a"), key("b"))
    pack.write_bytes(data[:8] + hashlib.sha256(table).digest() + data[40:44] + table + data[124:])
    assert store().find(key("b")) is None


@pytest.mark.parametrize("what", ["pack", "folder", "parent"])
def test_what_others_may_write_is_not_used(
    store: Make, folder: Path, capfd: pytest.CaptureFixture[str], what: str
) -> None:
    write(store(), a=b"1")
    path = {"pack": packs(folder)[0], "folder": folder, "parent": folder.parent}[what]
    path.chmod(path.stat().st_mode | 0o020)
    other = store()
    assert other.find(key("a")) is None
    write(other, b=b"2")
    assert store().find(key("b")) == (b"2" if what == "pack" else None)
    # What is wrong with the cache's own folder, the runtime says.
    assert ("others may write to it" in capfd.readouterr().err) == (what != "parent")
    if what == "parent":
        path.chmod(0o700)
    assert len(packs(folder)) == 1


def test_a_shared_folder_is_used_on_request(store: Make, folder: Path) -> None:
    write(store(), a=b"1")
    for path in (packs(folder)[0], folder, folder.parent):
        path.chmod(path.stat().st_mode | 0o022)
    assert store(is_shared=True).find(key("a")) == b"1"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_regular_files_are_read(store: Make, folder: Path, kind: str) -> None:
    writer = store()
    write(writer, a=b"1")
    (pack,) = packs(folder)
    elsewhere = folder.parent / "elsewhere"
    pack.rename(elsewhere)
    if kind == "link":
        pack.symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(pack)
    else:
        pack.mkdir()
    assert store().find(key("a")) is None  # and it does not wait for a writer


def test_a_folder_that_is_a_link_is_not_used(store: Make, folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)
    write(store(), a=b"1")
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_once(
    store: Make, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = store()
    write(writer, a=b"1")

    def full(*arguments: object, **named: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    write(writer, b=b"2")
    write(writer, c=b"3")
    assert capfd.readouterr().err.count("No space left on device") == 1
    assert [path.name for path in folder.iterdir() if path.suffix == ".tmp"] == []
    assert store().find(key("a")) == b"1"


WRITER = """
import sys
from hashlib import sha256
from tripont.core.compiler.targets.code_store import CodeStore
folder, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = CodeStore(folder, "one", 1 << 20, False)
for i in range(count):
    store.refresh()
    for other in range(i):  # what was written is found, whoever puts packs together meanwhile
        name = b"%d of %d" % (other, number)
        assert store.find(sha256(name).digest()) == name, name
    name = b"%d of %d" % (i, number)
    store.put(sha256(name).digest(), name)
    store.flush()
"""


def test_processes_that_write_at_once_lose_nothing(store: Make, folder: Path) -> None:
    processes, count = 4, 50
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(number), str(count)],
            stderr=subprocess.PIPE,
        )
        for number in range(processes)
    ]
    said = [writer.communicate(timeout=120)[1] for writer in writers]
    assert said == [b""] * processes
    assert [writer.returncode for writer in writers] == [0] * processes
    left = store()
    for number in range(processes):
        for i in range(count):
            assert left.find(key(f"{i} of {number}")) == b"%d of %d" % (i, number)
    assert len(packs(folder)) < processes * count
