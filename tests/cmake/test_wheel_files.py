"""Parts of wheels: which files are kept, and how a remote archive is read."""

from __future__ import annotations

import importlib.util
import io
import types
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CMAKE = Path(__file__).resolve().parents[2] / "cmake"


@pytest.fixture
def wheel_files() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("wheel_files", CMAKE / "wheel_files.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Remote(io.BytesIO):
    """A file that notes what is read of it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.reads: list[tuple[int, int]] = []

    def read(self, size: int | None = -1) -> bytes:
        self.reads.append((self.tell(), size or -1))
        return super().read(size)


@pytest.fixture
def remote() -> Remote:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for i in range(50):
            archive.writestr(f"include/first/{i}.h", b"a" * 1000)
        archive.writestr("library.so", b"x" * (3 << 20))
        archive.writestr("include/second/only.h", b"b" * 1000)
        archive.writestr("include/secondary/not.h", b"c")
    return Remote(content.getvalue())


def test_only_what_is_wanted_is_kept(
    wheel_files: types.ModuleType, remote: Remote, tmp_path: Path
) -> None:
    with zipfile.ZipFile(remote) as archive:
        names = wheel_files.select(archive, "include/", ["second/", "first/7.h"])
        wheel_files.extract(archive, "include/", names, tmp_path)
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == ["first/7.h", "second/only.h"]
    assert (tmp_path / "second" / "only.h").read_bytes() == b"b" * 1000


def test_what_the_wheel_does_not_hold_is_named(
    wheel_files: types.ModuleType, remote: Remote
) -> None:
    with (
        zipfile.ZipFile(remote) as archive,
        pytest.raises(ValueError, match="does not hold include/third/"),
    ):
        wheel_files.select(archive, "include/", ["first/", "third/"])


def test_files_side_by_side_are_one_request_and_what_lies_between_is_not_read(
    wheel_files: types.ModuleType, remote: Remote
) -> None:
    with zipfile.ZipFile(remote) as archive:
        names = wheel_files.select(archive, "include/", ["first/", "second/"])
        remote.reads.clear()
        wheel_files.prefetch(archive, names)
        places = {n: archive.getinfo(n).header_offset for n in names}
    assert len(remote.reads) == 2
    assert sum(size for _, size in remote.reads) < 1 << 20
    for place in places.values():
        assert any(start <= place < start + size for start, size in remote.reads)


def test_without_ranges_the_whole_wheel_is_downloaded(
    wheel_files: types.ModuleType,
    remote: Remote,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextmanager
    def refuse(wheel: str) -> Iterator[zipfile.ZipFile]:
        raise RuntimeError("range request is not supported")
        yield

    @contextmanager
    def whole(wheel: str, machine: str) -> Iterator[zipfile.ZipFile]:
        with zipfile.ZipFile(remote) as archive:
            yield archive

    monkeypatch.setattr(wheel_files, "remote", refuse)
    monkeypatch.setattr(wheel_files, "downloaded", whole)
    wheel_files.fetch_part("some==1", "include/", ["second/"], tmp_path)
    assert (tmp_path / "second" / "only.h").is_file()
    assert "range request is not supported" in capsys.readouterr().err


def test_files_that_are_not_the_expected_ones_are_not_kept(
    wheel_files: types.ModuleType, remote: Remote, tmp_path: Path
) -> None:
    with zipfile.ZipFile(remote) as archive:
        names = wheel_files.select(archive, "include/", ["second/", "first/7.h"])
        with pytest.raises(
            ValueError, match=r"have the digest ([0-9a-f]{64}), expected 00"
        ) as error:
            wheel_files.extract(archive, "include/", names, tmp_path, "00")
        assert not list(tmp_path.iterdir())
        found = str(error.value).split()[5].rstrip(",")
        wheel_files.extract(archive, "include/", names, tmp_path, found)
        assert (tmp_path / "first/7.h").is_file()
        # The contents count, not only the names.
        hashes = {"first/7.h": "11", "second/only.h": "22"}
        assert wheel_files.digest(hashes) != wheel_files.digest(hashes | {"first/7.h": "12"})
