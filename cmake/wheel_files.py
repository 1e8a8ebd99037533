"""Files out of wheels that the build needs and nothing has to be installed for, kept in a cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PLATFORMS = ("manylinux1", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34")
# Bytes that one request of `remote` brings at least, and the largest gap between files that one request spans.
CHUNK = 32 << 10
GAP = 1 << 20


def cache_folder(wheel: str) -> Path:
    """The folder of a wheel's files, ``wheel`` as in ``tensorflow-cpu==2.21.0``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "tripont-build", wheel.replace("==", "-"))


def arguments(wheel: str, machine: str = "x86_64") -> list[str]:
    """Arguments of ``pip download`` that name the wheel for a machine: ``x86_64`` or ``aarch64``.

    The interpreter's version is fixed, so that the same wheel is found whichever Python runs the build.
    """
    found = ["--no-deps", "--only-binary=:all:", "--python-version=3.12"]
    return [*found, *(f"--platform={platform}_{machine}" for platform in PLATFORMS), wheel]


@contextlib.contextmanager
def remote(wheel: str) -> Iterator[zipfile.ZipFile]:
    """The wheel's archive, left where it is: what is read of it comes in ranges of bytes over the network.

    These are pip's own classes, with its settings for indexes, proxies and certificates; pip reads metadata in this
    way, but promises none of it to others. Any exception means: use ``downloaded``.
    """
    from pip._internal.cli.cmdoptions import make_target_python
    from pip._internal.commands import create_command
    from pip._internal.network.lazy_wheel import LazyZipOverHTTP
    from pip._internal.req.constructors import install_req_from_line

    command: object = create_command("download")
    options, (requirement,) = command.parse_args(arguments(wheel))  # type: ignore[attr-defined]
    with command.main_context():  # type: ignore[attr-defined]
        session = command.get_default_session(options)  # type: ignore[attr-defined]
        finder = command._build_package_finder(  # type: ignore[attr-defined]
            options=options, session=session, target_python=make_target_python(options)
        )
        asked = install_req_from_line(requirement)
        best = finder.find_best_candidate(asked.name, specifier=asked.specifier).best_candidate
        with LazyZipOverHTTP(best.link.url_without_fragment, session, chunk_size=CHUNK) as file:
            yield zipfile.ZipFile(file)


@contextlib.contextmanager
def downloaded(wheel: str, machine: str = "x86_64") -> Iterator[zipfile.ZipFile]:
    """The wheel's archive, downloaded whole by pip. Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder]
        command += ["--disable-pip-version-check", *arguments(wheel, machine)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        (file,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            yield archive


def prefetch(archive: zipfile.ZipFile, names: Sequence[str]) -> None:
    """Read the parts of a remote archive that hold ``names``, which are sorted by their places, in few requests."""
    assert archive.fp is not None
    start = end = 0
    for name in [*names, None]:
        entry = archive.getinfo(name) if name else None
        if entry and start < end and entry.header_offset < end + GAP:
            end = entry.header_offset + entry.compress_size + CHUNK
            continue
        if start < end:
            archive.fp.seek(start)
            archive.fp.read(end + CHUNK - start)
        if entry:
            start, end = entry.header_offset, entry.header_offset + entry.compress_size + CHUNK


def select(archive: zipfile.ZipFile, prefix: str, wanted: Sequence[str]) -> list[str]:
    """The names that start with ``prefix`` and go on with one of ``wanted``, in the order of their places.

    Raises ValueError if one of ``wanted`` names nothing.
    """
    starts = tuple(prefix + start for start in wanted)
    names = [n for n in archive.namelist() if n.startswith(starts) and not n.endswith("/")]
    for start in starts:
        if not any(name.startswith(start) for name in names):
            raise ValueError(f"the wheel does not hold {start}")
    return sorted(names, key=lambda name: archive.getinfo(name).header_offset)


def digest(hashes: Mapping[str, str]) -> str:
    """SHA-256 of files' names and SHA-256 hashes."""
    lines = "".join(f"{name}\0{hashes[name]}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode()).hexdigest()


def extract(
    archive: zipfile.ZipFile, prefix: str, names: Sequence[str], folder: Path, expected: str = ""
) -> None:
    """Keep ``names``, without ``prefix``, in ``folder``.

    ``expected``: their ``digest``. Raises ValueError, and keeps nothing, if it is another one: whatever stands between
    the package index and here, what is built with is what was reviewed.
    """
    short = {name: name.removeprefix(prefix) for name in names}
    if expected:
        hashes = {short[name]: hashlib.sha256(archive.read(name)).hexdigest() for name in names}
        if (found := digest(hashes)) != expected:
            raise ValueError(f"the files have the digest {found}, expected {expected}")
    for name in names:
        target = folder / short[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: builds that run at the same time never see half a file.
        partial = target.with_suffix(f".{os.getpid()}")
        partial.write_bytes(archive.read(name))
        partial.rename(target)


def fetch_part(
    wheel: str, prefix: str, wanted: Sequence[str], folder: Path, expected: str = ""
) -> None:
    """Fetch ``wanted`` (see ``select``) without the rest of a large wheel where the package index allows it.

    Raises OSError, ValueError or subprocess.CalledProcessError.
    """
    try:
        with remote(wheel) as archive:
            names = select(archive, prefix, wanted)
            prefetch(archive, names)
            extract(archive, prefix, names, folder, expected)
            return
    # Another pip, an index without ranges, a folder of wheels: each of them has exceptions of its own.
    except Exception as error:
        print(f"downloading the whole wheel of {wheel} ({error!r})", file=sys.stderr, flush=True)
    fetch(wheel, prefix, wanted, folder, expected)


def fetch(
    wheel: str,
    prefix: str,
    wanted: Sequence[str],
    folder: Path,
    expected: str = "",
    machine: str = "x86_64",
) -> None:
    """Have pip download the wheel for a machine, and keep ``wanted`` (see ``select``).

    Raises OSError, ValueError or subprocess.CalledProcessError.
    """
    with downloaded(wheel, machine) as archive:
        extract(archive, prefix, select(archive, prefix, wanted), folder, expected)
