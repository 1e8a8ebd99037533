"""Machine code that the processes of a user have made, in a folder on disk.

:mod:`.code_cache` asks it for what this process has not compiled. The runtime's cache (core/runtime/artifact_cache.h)
has whole programs, by their bytes; this has their functions, by their LLVM IR. So a program that was changed a little
since the last run, or that has kernels of another program, has only the rest compiled.

The folder holds *packs*: files with the code that a compile has made, which are never written again. A worker adds one
behind each compile that made any. When there are many small ones, somebody puts them together as one. A pack is

====================  ==================================================================
8 bytes               :data:`_MAGIC`
32 bytes              SHA-256 of the table
u32                   number of entries
the table             each entry, ordered by its key: the key (32 bytes), SHA-256 of the key and the content, the offset
                      of the content in the file (u64) and its size (u64)
the contents          one after the other
====================  ==================================================================

The content is code that this process will run, so the rules are those of private_folder.h: the folder, the one that it
lies in and each pack must belong to this user or root, nobody else may write to them, and packs are regular files,
which is checked on what was opened. A pack that is not trusted, or that is damaged, is said, removed and not used; a
folder is said once and not used. Nothing here fails a compile.

Several processes use one folder without waiting for each other: a pack appears and disappears whole, and a process that
has opened one can go on reading it (on a network's file system perhaps not: then the code is compiled). At most a size
of packs is kept, whoever made them: those used longest ago go first.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import re
import secrets
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tripont import trust

_MAGIC: Final = b"TPCODE\0\1"
_HEADER: Final = struct.Struct("<8s32sI")
_ENTRY: Final = struct.Struct("<32s32sQQ")
_KEY_SIZE: Final = 32
SUFFIX: Final = ".code"
#: The names of packs, and of those that are being written: nothing else in the folder is touched.
_NAME: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f-]+\.code(\.tmp)?")
_TEMPORARY: Final = ".tmp"  # of a pack that is being written
_LOCK: Final = "lock"  # held by who puts packs together, or removes some

#: Packs below this size are put together when there are as many as :data:`MANY`: in some 50 ms at most.
SMALL: Final = 1 << 19
MANY: Final = 16
#: How often the folder is looked through while others put its packs together.
_ATTEMPTS: Final = 8
#: Nanoseconds, more than a file system's clock takes to go on.
_TICKS: Final = 50_000_000
#: Seconds since the last use that a pack is known by. Each use need not be written.
_PRECISION: Final = 3600.0
#: Seconds after which a file that is being written was left by a process that is gone.
_ABANDONED: Final = 3600.0


@dataclass(slots=True)
class _Pack:
    """A pack that is open."""

    descriptor: int
    table: bytes
    count: int

    @classmethod
    def of(cls, descriptor: int) -> _Pack:
        """The pack that was opened. ValueError if it is damaged."""
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, _HEADER.size, 0)
        if len(head) < _HEADER.size:
            raise ValueError(f"it is damaged ({size} bytes)")
        magic, digest, count = _HEADER.unpack(head)
        if magic != _MAGIC or _HEADER.size + count * _ENTRY.size > size:
            raise ValueError("it is damaged (its header is not that of such a file)")
        table = os.pread(descriptor, count * _ENTRY.size, _HEADER.size)
        if hashlib.sha256(table).digest() != digest:
            raise ValueError("it is damaged (the digest of its table does not match)")
        return cls(descriptor, table, count)

    def keys(self) -> list[bytes]:
        return [self._key(number) for number in range(self.count)]

    def read(self, key: bytes) -> bytes | None:
        """The content of a key; None if it has none here. ValueError if it is damaged."""
        number = bisect.bisect_left(range(self.count), key, key=self._key)
        if number == self.count or self._key(number) != key:
            return None
        _, digest, offset, size = _ENTRY.unpack_from(self.table, number * _ENTRY.size)
        if offset + size > os.fstat(self.descriptor).st_size:
            raise ValueError("it is damaged (it is shorter than its table says)")
        content = os.pread(self.descriptor, size, offset)
        if len(content) != size or _digest(key, content) != digest:
            raise ValueError("it is damaged (a digest does not match)")
        return content

    def _key(self, number: int) -> bytes:
        start = number * _ENTRY.size
        return self.table[start : start + _KEY_SIZE]


class CodeStore:
    """The packs in ``folder`` of one version of the compiler. Used by one thread at a time.

    ``compiler``: what stands for all that makes code of IR. ``limit``: bytes that all packs of the folder may take.
    ``is_shared``: the user trusts whoever may write to the folder.
    """

    def __init__(self, folder: str, compiler: str, limit: int, is_shared: bool) -> None:
        self._path = folder
        self._prefix = hashlib.sha256(compiler.encode()).hexdigest()[:16]
        self._limit = limit
        self._is_shared = is_shared
        self._folder = -1  # its descriptor
        self._changed = -1  # when packs last came or went, of what is known
        self._packs: dict[str, _Pack] = {}  # by their names
        self._new: dict[bytes, bytes] = {}  # what no pack has
        self._is_silent = False
        self._serial = itertools.count()

    def refresh(self) -> None:
        """See the packs that others have made or removed since the last time."""
        if not self._open():
            return
        for _ in range(_ATTEMPTS):
            try:
                changed = os.fstat(self._folder).st_mtime_ns
                if changed == self._changed:
                    return
                names = {
                    name
                    for name in os.listdir(self._folder)
                    if name.startswith(self._prefix)
                    and name.endswith(SUFFIX)
                    and _NAME.fullmatch(name)
                }
            except OSError as error:
                self._give_up(f"it cannot be read: {error.strerror}")
                return
            for name in self._packs.keys() - names:
                os.close(self._packs.pop(name).descriptor)
            try:
                for name in names - self._packs.keys():
                    if (pack := self._open_pack(name)) is not None:
                        self._packs[name] = pack
            except FileNotFoundError:  # it was put together with others, as a pack that came since
                continue
            # What changes in the next ticks of the file system's clock may have the same time.
            is_old = time.time_ns() - changed > _TICKS
            self._changed = changed if is_old else -1
            return

    def find(self, key: bytes) -> bytes | None:
        """The content of a key, which is of 32 bytes, if a pack has it."""
        for name, pack in list(self._packs.items()):
            try:
                content = pack.read(key)
            except ValueError as error:
                self._remove(name, str(error))
                continue
            except OSError:  # of the moment, or of another machine that has removed it
                continue
            if content is not None:
                self._touch(pack)
                return content
        return None

    def put(self, key: bytes, content: bytes) -> None:
        """Let :meth:`find` find ``content`` in this folder, in this process and others, from :meth:`flush` on."""
        self._new[key] = content

    def flush(self) -> None:
        """Write what is new."""
        new, self._new = self._new, {}
        if not new or not self._open(make=True):
            return
        try:
            if sum(map(len, new.values())) <= self._limit:
                self._write(new)
            with self._lock() as is_ours:
                if is_ours:
                    self._keep_to_limit()
                    self._put_together()
        except FileNotFoundError:  # somebody has removed the folder meanwhile
            pass
        except OSError as error:
            self._give_up(f"it cannot be written to: {error.strerror}")

    def close(self) -> None:
        """Close all files."""
        for pack in self._packs.values():
            os.close(pack.descriptor)
        self._packs.clear()
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = self._changed = -1

    def __del__(self) -> None:
        self.close()

    # What stands on disk.

    def _open(self, make: bool = False) -> bool:
        """Whether the folder is open, which is opened if it is there (or made) and trusted.

        What is wrong with the one above, the runtime says.
        """
        if self._folder >= 0:
            if os.fstat(self._folder).st_nlink:
                return True
            self.close()  # it was removed
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        parent, name = os.path.split(self._path)
        try:
            # It may be a link to where the user wants it; whose it is, is checked.
            above = os.open(parent, flags)
        except OSError:
            return False
        try:
            if self._distrust(above):
                return False
            if make:
                with contextlib.suppress(OSError):  # it is there, or cannot be made
                    os.mkdir(name, 0o777 if self._is_shared else 0o700, dir_fd=above)
            folder = os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._give_up(f"it cannot be opened: {error.strerror}")
            return False
        finally:
            os.close(above)
        if reason := self._distrust(folder):
            os.close(folder)
            self._give_up(f"it is not trusted: {reason} (TRIPONT_CACHE_SHARED=1 trusts it)")
            return False
        self._folder = folder
        return True

    def _distrust(self, descriptor: int) -> str:
        """Why what was opened is not trusted; empty if it is."""
        return "" if self._is_shared else trust.distrust(os.fstat(descriptor))

    def _open_pack(self, name: str) -> _Pack | None:
        """The pack of a name; None if it is not to be used. FileNotFoundError if it is gone."""
        descriptor = -1
        try:
            descriptor = trust.open_file(name, shared=self._is_shared, folder=self._folder)
            return _Pack.of(descriptor)
        except FileNotFoundError:
            raise
        except ValueError as error:
            self._remove(name, str(error))
        except OSError as error:  # of the moment, as when too many files are open
            if error.errno == errno.ELOOP:
                self._remove(name, "it is a symbolic link")
        if descriptor >= 0:
            os.close(descriptor)
        return None

    def _touch(self, pack: _Pack) -> None:
        """Note that the pack is of use; not worth an error."""
        with contextlib.suppress(OSError):
            if time.time() - os.fstat(pack.descriptor).st_mtime > _PRECISION:
                os.utime(pack.descriptor)

    def _write(self, contents: Mapping[bytes, bytes]) -> None:
        """Write a new pack."""
        keys = sorted(contents)
        offset = _HEADER.size + len(keys) * _ENTRY.size
        table = bytearray()
        for key in keys:
            content = contents[key]
            table += _ENTRY.pack(key, _digest(key, content), offset, len(content))
            offset += len(content)
        head = _HEADER.pack(_MAGIC, hashlib.sha256(table).digest(), len(keys))
        unique = f"{os.getpid()}-{next(self._serial)}-{secrets.token_hex(4)}"
        name = f"{self._prefix}-{unique}{SUFFIX}"
        temporary = name + _TEMPORARY
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        mode = 0o666 if self._is_shared else 0o600
        try:
            with open(os.open(temporary, flags, mode, dir_fd=self._folder), "wb") as file:
                file.writelines([head, table, *(contents[key] for key in keys)])
            os.rename(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._folder)
            raise

    @contextlib.contextmanager
    def _lock(self) -> Iterator[bool]:
        """Whether nobody else puts packs together or removes some meanwhile. Does not wait."""
        flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(_LOCK, flags, 0o666 if self._is_shared else 0o600, dir_fd=self._folder)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _put_together(self) -> None:
        """Make one pack of the small ones, if there are many."""
        self.refresh()
        small = [
            (name, pack)
            for name, pack in self._packs.items()
            if os.fstat(pack.descriptor).st_size < SMALL
        ]
        if len(small) < MANY:
            return
        contents: dict[bytes, bytes] = {}
        for name, pack in small:
            try:
                for key in pack.keys():  # noqa: SIM118
                    if key not in contents and (content := pack.read(key)) is not None:
                        contents[key] = content
            except ValueError as error:
                self._remove(name, str(error))
        self._write(contents)
        for name, _ in small:
            self._unlink(name)

    def _keep_to_limit(self) -> None:
        """Remove what was used longest ago while all packs together are too large, and what nobody writes any more."""
        packs = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not _NAME.fullmatch(entry.name):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.name.endswith(SUFFIX):
                    packs.append((status.st_mtime, entry.name, status.st_size))
                elif time.time() - status.st_mtime > _ABANDONED:
                    self._unlink(entry.name)
        total = sum(size for _, _, size in packs)
        for _, name, size in sorted(packs):
            if total <= self._limit:
                break
            if self._unlink(name):
                total -= size

    def _unlink(self, name: str) -> bool:
        """Whether a file is gone; those of others cannot be removed from some folders."""
        try:
            os.unlink(name, dir_fd=self._folder)
        except OSError as error:
            return error.errno == errno.ENOENT
        return True

    def _remove(self, name: str, reason: str) -> None:
        """Say why a pack is not used, and remove it."""
        _say(f"the machine code in {self._path}/{name} is not used: {reason}; compiling again")
        if (pack := self._packs.pop(name, None)) is not None:
            os.close(pack.descriptor)
        self._unlink(name)

    def _give_up(self, reason: str) -> None:
        """Say once why the folder is not used."""
        if not self._is_silent:
            self._is_silent = True
            _say(f"{self._path} is not used for machine code: {reason}; each process compiles it")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody may be there to read it
        print(f"tripont: {text}", file=sys.stderr, flush=True)


def _digest(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(key + content).digest()


__all__ = ["MANY", "SMALL", "SUFFIX", "CodeStore"]
